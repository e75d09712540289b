-- Generation and sessions: batches, buckets, ends, and sessions side by side.
local rp = require "reprise"
local checkpoint = require "spec.support.checkpoint"
local core = require "reprise.core"
local helper = require "spec.helper"

local TINY, MODEL = "tied-relu", "scripts/models/g2p"

-- A source of `length` ids, none of them an end.
local function source(length, seed)
  local ids = {}
  for i = 1, length do ids[i] = 2 + (i * 7 + seed * 13) % 90 end
  return ids
end

local function ids_of(outs)
  local all = {}
  for i, out in ipairs(outs) do all[i] = out[1].ids end
  return all
end

local function why(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok)
  return (message:gsub("^%S+:%d+: ", ""))
end

describe("generation", function()
  helper.each_device(function(name)
    local device = rp.device(name)
    local function load(kind, options)
      options = options or {}
      options.device = device
      return rp.t5.load(checkpoint.folder(kind or TINY), options)
    end

    it("of a batch gives what its members give alone", function()
      local model = load()
      local lists = { source(3, 1), source(40, 2), source(1, 3), source(16, 4), source(17, 5) }
      local together = ids_of(model:generate(lists, { max_new_tokens = 20 }))
      for i, ids in ipairs(lists) do
        assert.are.same(model:generate(ids, { max_new_tokens = 20 })[1].ids, together[i])
      end
    end)

    it("does not take pad ids inside a source for padding", function()
      local model = load()
      local inside, alone = { 7, 0, 9, 0, 0, 1 }, { 7, 0, 9, 0, 0, 1 }
      local pair = ids_of(model:generate({ inside, source(30, 1) }, { max_new_tokens = 12 }))
      assert.are.same(model:generate(alone, { max_new_tokens = 12 })[1].ids, pair[1])
      local hidden = model:encode(inside):totable()[1]
      assert(checkpoint.distance(hidden[1], model:encode({ 7, 0, 9 }):totable()[1][1]) > 1e-3)
    end)

    it("does not depend on the bucket of the source", function()
      local model = load()
      local ids = source(5, 1)
      local small, large = model:encode(ids):totable()[1], model:encode({ ids, source(70, 2) }):totable()[1]
      assert.are.equal(16, #small)
      assert.are.equal(128, #large)
      for position = 1, 5 do assert(checkpoint.distance(small[position], large[position]) <= 1e-5) end
      local a <close> = model:open(ids, { max_new_tokens = 4 })
      local b <close> = model:open({ ids, source(70, 2) }, { max_new_tokens = 40 })
      for _ = 1, 4 do
        local x = a:step(rp.tensor({ 9 }, "i32", device)):totable()
        local y = b:step(rp.tensor({ 9, 9 }, "i32", device)):totable()
        assert(checkpoint.distance(x[1], y[1]) <= 1e-5)
      end
    end)

    it("gives the same ids captured, replayed and eager", function()
      local captured, eager = load(), load(TINY, { capture = false })
      for seed = 1, 4 do
        local ids = source(4 + seed, seed)
        local first = captured:generate(ids, { max_new_tokens = 24 })[1]
        assert.are.same(first, captured:generate(ids, { max_new_tokens = 24 })[1])
        assert.are.same(first, eager:generate(ids, { max_new_tokens = 24 })[1])
      end
    end)

    it("begins with the folder's start token, also one that is not the pad", function()
      local model, ids = load "start-not-pad", source(5, 3)
      local s <close> = model:open(ids, { max_new_tokens = 1 })
      local row = s:step(rp.tensor({ 5 }, "i32", device)):totable()[1]
      local most = 1
      for id = 2, #row do if row[id] > row[most] then most = id end end
      assert.are_not.equal(1, most - 1)
      assert.are.same({ most - 1 }, model:generate(ids, { max_new_tokens = 1 })[1].ids)
    end)

    it("reads ids from generation_config.json, and from config.json only without it", function()
      local function folder(text)
        local path = checkpoint.variant(TINY, function(_, config)
          config.eos_token_id, config.decoder_start_token_id = 36, 3
        end)
        if text then helper.write(path .. "/generation_config.json", text) end
        return rp.t5.load(path, { device = device }).config
      end
      local config = folder()
      assert.are.same({ 3, { [36] = true } }, { config.start, config.ends })
      config = folder '{"eos_token_id": [1, 12], "decoder_start_token_id": 0}'
      assert.are.same({ 0, { [1] = true, [12] = true } }, { config.start, config.ends })
      config = folder '{"eos_token_id": null, "bos_token_id": 8}'
      assert.are.same({ 8, {} }, { config.start, config.ends })
    end)

    it("ends at any end id, and tells ends from cuts", function()
      local expected = checkpoint.expected(TINY).generate[1].sequences[1]
      local third = expected[4]
      local path = checkpoint.variant(TINY, function(_, config) config.eos_token_id = { 1, third } end)
      local out = rp.t5.load(path, { device = device }):generate(checkpoint.expected(TINY).lists[1])[1]
      assert.are.equal("eos", out.finish)
      assert.are.same({ expected[2], expected[3] }, out.ids)
      out = load():generate(checkpoint.expected(TINY).lists[1], { max_new_tokens = 2 })[1]
      assert.are.equal("length", out.finish)
      assert.are.same({ expected[2], expected[3] }, out.ids)
    end)

    it("takes lists of ids and i32 tensors alike", function()
      local model, ids = load(), source(6, 2)
      local one = model:generate(ids, { max_new_tokens = 6 })
      assert.are.same(one, model:generate(rp.tensor(ids, "i32", device), { max_new_tokens = 6 }))
      assert.are.same({ one, one }, model:generate({ ids, rp.tensor(ids, "i32", device) }, { max_new_tokens = 6 }))
      assert.is_nil(one[1].text)
    end)

    it("captures one step a source bucket, and none for a second source of the same", function()
      local model = load()
      for length = 1, 40 do model:generate(source(length, length), { max_new_tokens = 3 }) end
      local graphs = model:figures().graphs
      assert.are.equal(3, graphs) -- 16, 32, 64
      for length = 1, 40 do model:generate(source(length, 50), { max_new_tokens = 3 }) end
      assert.are.equal(graphs, model:figures().graphs)
    end)

    it("keeps idle states of at most a GiB, but the newest", function()
      local there, room = pcall(rp.empty, { 3 << 29 }, "u8", device)
      if not there then helper.pending "the pool cannot hold 1.5 GiB: memory or addresses are limited" end
      room:close()
      local model, sources = rp.t5.random("demo", { device = name, dtype = "f16" }), {}
      for i = 1, 16 do sources[i] = { 100 + i } end
      local function pass(rows, longest)
        local s = model:open(sources, { rows = rows, max_new_tokens = longest })
        local state = s.state
        s:close()
        return state
      end
      local small, large = pass(1, 8), pass(16, 512)
      assert.is_true(large.bytes > 1 << 30)
      assert.same({ large }, model.idle)
      assert.is_nil(model.states[small])
      small = pass(1, 8)
      assert.same({ small }, model.idle)
      local other = pass(2, 8)
      assert.same({ small, other }, model.idle)
      assert.is_true(other.bytes > small.bytes)
      device.pool:trim()
    end)

    it("keeps a bounded number of idle states", function()
      local model = load()
      for rows = 1, 30 do
        local lists = {}
        for i = 1, rows do lists[i] = source(3, i) end
        model:generate(lists, { max_new_tokens = 2 })
      end
      assert(#model.idle <= 8)
    end)

    it("keeps sessions apart that are open at once", function()
      local model = load()
      local function rows(ids)
        local s <close> = model:open(ids, { max_new_tokens = 5 })
        local out = {}
        for k = 1, 5 do out[k] = s:step(rp.tensor({ 4 + k }, "i32", device)):totable() end
        return out
      end
      local first, second = rows(source(5, 1)), rows(source(6, 2))
      local a <close> = model:open(source(5, 1), { max_new_tokens = 5 })
      local b <close> = model:open(source(6, 2), { max_new_tokens = 5 })
      for k = 1, 5 do
        assert.are.same(first[k], a:step(rp.tensor({ 4 + k }, "i32", device)):totable())
        assert.are.same(second[k], b:step(rp.tensor({ 4 + k }, "i32", device)):totable())
      end
    end)

    it("gives logits of every row, source by source", function()
      local model = load()
      local s <close> = model:open({ source(3, 1), source(4, 2) }, { max_new_tokens = 2 })
      local logits = s:step(rp.tensor({ 0, 0 }, "i32", device))
      assert.are.same({ 2, 96 }, logits.shape)
      assert.are.equal("f32", logits.dtype)
    end)

    it("stops a session at the number of tokens it was opened for", function()
      local model = load()
      local s <close> = model:open(source(3, 1), { max_new_tokens = 2 })
      local ids = rp.tensor({ 0 }, "i32", device)
      s:step(ids)
      s:step(ids)
      assert.are.equal("step: the session was opened for 2 tokens, which are done", why(s.step, s, ids))
      s:close()
      s:close()
      assert.are.equal("step: the session is closed", why(s.step, s, ids))
    end)

    it("refuses what is wrong in one sentence", function()
      local model = load()
      local ids = source(3, 1)
      assert.are.equal("generate: source 1 is empty", why(model.generate, model, {}))
      assert.are.equal("generate: source 1 is empty", why(model.generate, model, ""))
      assert.are.equal("generate: source 2 is empty", why(model.generate, model, { ids, {} }))
      assert.are.equal("generate: source 2: id 3 is 96, outside the vocabulary (0 to 95)", why(model.generate, model, { ids, { 1, 2, 96 } }))
      assert.are.equal("generate: source 1: id 1 is -1, outside the vocabulary (0 to 95)", why(model.generate, model, { -1 }))
      assert.are.equal("generate: source 1: id 2 is a string, integer expected", why(model.generate, model, { 1, "2" }))
      assert.are.equal("generate: source 1: id 2 is a number, integer expected", why(model.generate, model, { 1, 2.5 }))
      assert.are.equal("generate: source 1 is a nil: a string, a list of ids or an i32 tensor is expected", why(model.generate, model))
      assert.are.equal("generate: source 1: an i32 tensor of rank 1 is expected, got f32 of rank 1",
        why(model.generate, model, rp.tensor({ 1 }, "f32", device)))
      assert.are.equal("generate: source 1: this folder's tokenizer (none is named) is not supported: pass ids",
        why(model.generate, model, "knowledge"))
      local s <close> = model:open(ids, { max_new_tokens = 2 })
      assert.are.equal("step: ids: an i32 tensor of shape {1} is expected, got table", why(s.step, s, { 1 }))
      assert.are.equal("step: ids: an i32 tensor of shape {1} is expected, got i32 {2}", why(s.step, s, rp.tensor({ 1, 2 }, "i32", device)))
      local one = rp.tensor({ 1 }, "i32", device)
      assert.are.equal("step: parents: an i32 tensor of shape {1} is expected, got table", why(s.step, s, one, { 0 }))
      assert.has_no.errors(function() model:generate(ids, { max_new_tokens = 2 }) end)
    end)

    it("without a start token says so", function()
      local path = checkpoint.variant(TINY, function(_, config) config.decoder_start_token_id = nil end)
      local model = rp.t5.load(path, { device = device })
      assert.are.equal(("generate: %s names no decoder_start_token_id"):format(path), why(model.generate, model, { 5 }))
      local s <close> = model:open({ 5 }, { max_new_tokens = 1 })
      assert.are.same({ 1, 96 }, s:step(rp.tensor({ 0 }, "i32", device)).shape)
    end)
  end)
end)

local function lines(file)
  local out = {}
  for line in io.lines(helper.fixture(file)) do out[#out + 1] = core.json_decode(line) end
  return out
end

-- The same results, with scores to a precision that does not depend on the order of adding.
local function alike(want, got, what)
  assert.equal(#want, #got, what)
  for i, w in ipairs(want) do
    assert.same({ w.text, w.ids, w.finish }, { got[i].text, got[i].ids, got[i].finish }, what)
    assert(math.abs(w.score - got[i].score) <= 1e-4, what)
  end
end

describe("generation with transformers' names", function()
  helper.each_device(function(name)
    local device = rp.device(name)

    it("finds what transformers finds with a tiny checkpoint, beams or not", function()
      local kind = "start-not-pad"
      local model, e = rp.t5.load(checkpoint.folder(kind), { device = device }), checkpoint.expected(kind)
      for n, entry in ipairs(e.generate) do
        local per, ends = entry.args.num_return_sequences or 1, {}
        for _, id in ipairs(entry.args.eos_token_id or { 1 }) do ends[id] = true end
        entry.args.max_new_tokens = entry.args.max_new_tokens or e.max_new_tokens
        for i, outs in ipairs(model:generate(e.lists, entry.args)) do
          assert.equal(per, #outs)
          for k, out in ipairs(outs) do
            local at, what = (i - 1) * per + k, ("entry %d, source %d, result %d"):format(n, i, k)
            local row = entry.sequences[at]
            assert.same(checkpoint.until_end(table.move(row, 2, #row, 1, {}), ends), out.ids, what)
            local score = entry.args.num_beams > 1 and entry.scores[at] or out.score
            assert(math.abs(out.score - score) <= 1e-4 * math.max(1, -score), what)
          end
        end
      end
    end)

    it("finds what transformers finds with the demo model's other settings", function()
      local model, groups = rp.t5.load(MODEL, { device = device }), {}
      for _, entry in ipairs(lines "reference_more.jsonl") do
        local key = core.json_encode(entry.args, { "num_beams" })
        groups[key] = groups[key] or {}
        table.insert(groups[key], entry)
      end
      for key, all in pairs(groups) do
        local group, words = helper.some(all), {}
        for i, entry in ipairs(group) do words[i] = entry.word end
        for i, outs in ipairs(model:generate(words, group[1].args)) do
          for k, out in ipairs(outs) do
            assert.same(checkpoint.until_end(group[i].ids[k], model.config.ends), out.ids, key .. " " .. words[i])
          end
        end
      end
    end)
  end)
end)

describe("many words", function()
  helper.each_device(function(name)
    local device, model, words = rp.device(name), nil, {}
    for i, entry in ipairs(lines "reference.jsonl") do words[i] = entry.word end
    setup(function() model = rp.t5.load(MODEL, { device = device }) end)

    local seeds = {}
    for i = 1, 64 do seeds[i] = 1000 + i end

    for what, options in pairs {
      ["greedily"] = {}, ["with 5 beams"] = { num_beams = 5, num_return_sequences = 5 },
      ["with repetitions made less likely"] = { repetition_penalty = 1.3, no_repeat_ngram_size = 3 },
      ["drawn, with a seed each"] = { do_sample = true, seed = seeds, num_return_sequences = 2, temperature = 1.4 },
    } do
      it("in a batch give what each gives alone, " .. what, function()
        local batch = helper.some(table.move(words, 1, 64, 1, {}))
        local all = {}
        for option, value in pairs(options) do all[option] = value end
        all.seed = options.seed and table.move(seeds, 1, #batch, 1, {})
        for i, outs in ipairs(model:generate(batch, all)) do
          local own = {}
          for option, value in pairs(options) do own[option] = value end
          own.seed = options.seed and { seeds[i] } or nil
          alike(model:generate(batch[i], own), outs, batch[i])
        end
      end)
    end

    it("go through each in their order, whatever the batch", function()
      local some = table.move(words, 1, 50, 1, {})
      local want = model:generate(some)
      for _, batch in ipairs { 1, 2, 7, 50, 300 } do
        local next_word, count = 0, 0
        local function iterator()
          next_word = next_word + 1
          return some[next_word]
        end
        for i, outs in model:each(iterator, { batch = batch }) do
          count = count + 1
          assert.equal(count, i)
          alike(want[i], outs, some[i])
        end
        assert.equal(50, count)
      end
    end)

    it("go through each from a list, lines of a file or nothing at all", function()
      local path = helper.tmp() .. "/words"
      helper.write(path, "knowledge\nmotivate\n")
      local texts = {}
      for i, outs in model:each(io.lines(path), { batch = 4, num_beams = 2 }) do texts[i] = outs[1].text end
      assert.same({ "N AA1 L IH0 JH", "M OW1 T AH0 V EY2 T" }, texts)
      for i, outs in model:each { "knowledge", "motivate" } do assert.equal(texts[i], outs[1].text) end
      for _ in model:each {} do error "there is nothing" end
      assert.equal("each: an iterator or a list of sources is expected, got string", why(model.each, model, "knowledge"))
      assert.equal("each: source 2 is empty", why(function()
        for _ in model:each { "a", "" } do model:figures() end
      end))
    end)

    it("draw the same whatever the batch", function()
      local some, texts = table.move(words, 1, 20, 1, {}), {}
      for _, batch in ipairs { 1, 6, 20 } do
        local list = {}
        for i, outs in model:each(some, { batch = batch, do_sample = true, seed = 5, temperature = 1.5 }) do list[i] = outs[1].text end
        texts[#texts + 1] = list
      end
      assert.same(texts[1], texts[2])
      assert.same(texts[1], texts[3])
      for i, outs in ipairs(model:generate(some, { do_sample = true, seed = 5, temperature = 1.5 })) do
        assert.equal(texts[1][i], outs[1].text)
      end
    end)
  end)

  it("draw the same on all devices, but for one in a thousand", function()
    local names = helper.devices()
    if #names < 2 then pending "one device here: nothing to compare with" end
    local words, results = {}, {}
    for i, entry in ipairs(lines "reference.jsonl") do
      if i <= 1000 then words[i] = entry.word end
    end
    for d = 1, 2 do
      results[d] = rp.t5.load(MODEL, { device = names[d] }):generate(words, { do_sample = true, seed = 11 })
    end
    local different = 0
    for i in ipairs(words) do
      if results[1][i][1].text ~= results[2][i][1].text then different = different + 1 end
    end
    assert(different <= 1, different .. " of 1,000 differ")
  end)
end)

describe("results", function()
  helper.each_device(function(name)
    local model
    setup(function() model = rp.t5.load(MODEL, { device = rp.device(name) }) end)

    -- The log-probability of ids, step by step in a session.
    local function log_probability(word, ids)
      local s <close> = model:open(word, { max_new_tokens = #ids })
      local sum, newest = 0, 0
      for _, id in ipairs(ids) do
        local row, total = s:step(rp.tensor({ newest }, "i32", model.device)):totable()[1], 0
        for _, x in ipairs(row) do total = total + math.exp(x - row[id + 1]) end
        sum, newest = sum - math.log(total), id
      end
      return sum
    end

    it("are scored by the logits as they are, over the tokens to the power of length_penalty", function()
      for _, options in ipairs {
        {}, { length_penalty = 0.0 }, { length_penalty = 2.0 }, { max_new_tokens = 4 }, { min_new_tokens = 20 },
        { repetition_penalty = 1.4 }, { do_sample = true, seed = 9, temperature = 2.0, top_k = 9 },
      } do
        local out = model:generate("motivate", options)[1]
        local ids = table.move(out.ids, 1, #out.ids, 1, {})
        if out.finish == "eos" then ids[#ids + 1] = 1 end
        local want = log_probability("motivate", ids) / (#ids) ^ (options.length_penalty or 1)
        assert(math.abs(out.score - want) <= 1e-5 * math.max(1, -want), ("%.7f, %.7f is expected"):format(out.score, want))
      end
    end)

    it("of drawing are as many as wanted, best first, and come again with their seed", function()
      local options = { do_sample = true, seed = 4, num_return_sequences = 6, temperature = 2.0 }
      local outs = model:generate("motivate", options)
      assert.equal(6, #outs)
      for k = 2, 6 do assert(outs[k - 1].score >= outs[k].score) end
      assert.same(outs, model:generate("motivate", options))
      options.seed = 5
      assert.are_not.same(outs, model:generate("motivate", options))
      options.seed = nil
      assert.are_not.same(model:generate("motivate", options), model:generate("motivate", options))
    end)

    it("begin with the decoder's prompt, without its start token", function()
      local out = model:generate("knowledge")[1]
      local prompt = table.move(out.ids, 1, 5, 1, {})
      for _, beams in ipairs { 1, 3 } do
        local options = { decoder_input_ids = prompt, num_beams = beams }
        assert.same(out.ids, model:generate("knowledge", options)[1].ids)
        options.decoder_input_ids = { 0, table.unpack(prompt) }
        assert.same(out.ids, model:generate("knowledge", options)[1].ids)
        local other = model:generate("motivate")[1].ids
        options.decoder_input_ids = { prompt, table.move(other, 1, 5, 1, {}) }
        local both = model:generate({ "knowledge", "motivate" }, options)
        assert.same({ out.ids, other }, { both[1][1].ids, both[2][1].ids })
      end
    end)

    it("are longer than min_new_tokens and min_length ask for, and as long as max_length", function()
      assert.equal(30, #model:generate("knowledge", { min_new_tokens = 30, max_new_tokens = 30 })[1].ids)
      assert(#model:generate("knowledge", { min_length = 30 })[1].ids >= 29)
      local out = model:generate("knowledge", { max_length = 6 })[1]
      assert.same({ 5, "length" }, { #out.ids, out.finish })
    end)

    it("make the host wait as often however long they are, and not at all for one row", function()
      local device = model.device
      local function waits(given, options)
        model:generate(given, options) -- captures
        local before = device.waits
        model:generate(given, options)
        return device.waits - before
      end
      for _, options in ipairs { {}, { do_sample = true, seed = 1 }, { repetition_penalty = 1.2 } } do
        for _, length in ipairs { 5, 60 } do
          options.max_new_tokens, options.min_new_tokens = length, length
          assert.equal(0, waits("knowledge", options))
        end
      end
      local function batch(length) return waits({ "know", "ledge" }, { max_new_tokens = length, min_new_tokens = length }) end
      assert.equal(batch(5), batch(60))
      assert(batch(5) <= 4)
      local before = device.waits
      for _ in model:stream "knowledge" do assert.equal(before, device.waits) end
    end)

    it("never end where there is no end id", function()
      local out = model:generate("a", { eos_token_id = false, max_new_tokens = 40 })[1]
      assert.same({ 40, "length" }, { #out.ids, out.finish })
    end)
  end)
end)
