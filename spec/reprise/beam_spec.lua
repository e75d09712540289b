-- Beam search against what transformers finds, against brute force, and against a search in plain Lua.
local rp = require "reprise"
local beam = require "reprise.beam"
local checkpoint = require "spec.support.checkpoint"
local core = require "reprise.core"
local helper = require "spec.helper"
local judge = require "spec.support.search"
local reference = require "spec.kernels.reference"

local MODEL = "scripts/models/g2p"

local function lines(name)
  local out = {}
  for line in io.lines(helper.fixture(name)) do out[#out + 1] = core.json_decode(line) end
  return out
end

-- Arguments as transformers takes them, as beam.open takes them.
local function options(model, args, max_new)
  local ends = args.eos_token_id or {}
  if type(ends) ~= "table" then ends = { ends } end
  if not args.eos_token_id then
    for id in pairs(model.config.ends) do ends[#ends + 1] = id end
  end
  return {
    num_beams = args.num_beams, num_return_sequences = args.num_return_sequences or 1, ends = ends,
    prompt = args.prompt or { model.config.start }, max_new = args.max_length and args.max_length - 1 or args.max_new_tokens or max_new,
    min_length = args.min_length, min_new = args.min_new_tokens, length_penalty = args.length_penalty,
    early_stopping = args.early_stopping, repetition_penalty = args.repetition_penalty,
    no_repeat_ngram_size = args.no_repeat_ngram_size,
  }
end

local function found(model, lists, o)
  local s <close> = beam.open(model, lists, o)
  s:run()
  return s:results()
end

-- The rows of transformers up to the end, without start and end, with their scores.
local function expected(rows, scores, ends, skip)
  local out = {}
  for i, row in ipairs(rows) do
    local ids = checkpoint.until_end(table.move(row, 1 + skip, #row, 1, {}), ends)
    out[i] = { ids = ids, score = scores[i] }
  end
  return out
end

local function near(a, b, bound) return math.abs(a - b) <= bound * math.max(1, math.abs(b)) end

local function compare(want, got, what)
  assert.equal(#want, #got, what)
  for i, w in ipairs(want) do
    assert.same(w.ids, got[i].ids, what)
    assert(near(got[i].score, w.score, 1e-4), ("%s: score %.7f, %.7f is expected"):format(what, got[i].score, w.score))
  end
end

local function set_of(list)
  local set = {}
  for _, id in ipairs(list) do set[id] = true end
  return set
end

helper.each_device(function(name)
  local device = rp.device(name)

  describe("beam search with a tiny checkpoint", function()
    for _, kind in ipairs(checkpoint.names) do
      it("of the kind " .. kind .. " finds what transformers finds", function()
        local model, e = rp.t5.load(checkpoint.folder(kind), { device = device }), checkpoint.expected(kind)
        for n, entry in ipairs(e.generate) do
          if entry.args.num_beams > 1 then
            local o, per = options(model, entry.args, e.max_new_tokens), entry.args.num_return_sequences or 1
            local want = expected(entry.sequences, entry.scores, set_of(o.ends), 1)
            for i, got in ipairs(found(model, e.lists, o)) do
              compare(table.move(want, (i - 1) * per + 1, i * per, 1, {}), got, ("entry %d, source %d"):format(n, i))
            end
          end
        end
      end)
    end

    it("finds the same uncaptured, and with f16 caches nearly the same", function()
      local e = checkpoint.expected "tied-relu"
      local function search(how)
        how.device = device
        local model = rp.t5.load(checkpoint.folder "tied-relu", how)
        return found(model, e.lists, options(model, { num_beams = 4, num_return_sequences = 4 }, 12))
      end
      local captured = search {}
      assert.same(captured, search { capture = false })
      local half = search { kv = "f16" }
      for i, list in ipairs(captured) do assert(near(half[i][1].score, list[1].score, 1e-2)) end
    end)

    it("goes on from a prompt of several tokens, one a source where wanted", function()
      local model = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      local prompts = { { 0, 17, 5 }, { 0, 3, 44 } }
      local lists = { { 7, 9, 4, 1 }, { 3, 80, 1 } }
      local o = options(model, { num_beams = 3, num_return_sequences = 3, min_new_tokens = 2 }, 8)
      o.prompt = prompts
      local together = found(model, lists, o)
      for i, prompt in ipairs(prompts) do
        o.prompt = prompt
        assert.same(together[i], found(model, { lists[i] }, o)[1])
        local judged = judge.search(checkpoint.step(model, lists[i], 3), prompt,
          { num_beams = 3, max_new = 8, ends = { 1 }, shortest = 5 })
        compare(checkpoint.hypotheses(judged, #prompt), together[i], "prompt " .. i)
      end
    end)

    it("captures one graph for all options, and none for a second search", function()
      local model = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      for _, w in ipairs { -1, 0, 2 } do
        for _, early in ipairs { false, true, "never" } do
          found(model, { { 5, 6, 1 } }, options(model, { num_beams = 4, length_penalty = w, early_stopping = early,
            repetition_penalty = 1.5, no_repeat_ngram_size = 3, max_new_tokens = 9 + math.floor(w) }, 9))
        end
      end
      assert.equal(1, model:figures().captured)
    end)

    it("keeps two searches at once apart", function()
      local model = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      local o = options(model, { num_beams = 3, num_return_sequences = 3 }, 12)
      local first, second = found(model, { { 5, 6, 1 } }, o)[1], found(model, { { 44, 7, 80, 1 } }, o)[1]
      local a <close> = beam.open(model, { { 5, 6, 1 } }, o)
      local b <close> = beam.open(model, { { 44, 7, 80, 1 } }, o)
      b:run()
      a:run()
      assert.same({ first, second }, { a:results()[1], b:results()[1] })
    end)

    it("waits for nothing and copies no cache, however many steps it makes", function()
      local model = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      local s <close> = beam.open(model, { { 5, 6, 1 } }, options(model, { num_beams = 4, min_new_tokens = 64 }, 64))
      local before = device.waits
      assert.equal(64, s:run())
      assert.equal(before, device.waits)
      local graph = s.state.step:graphs()[1]
      local nodes, caches = graph:manifest(), {}
      for _, node in ipairs(nodes) do
        assert.equal("launch", node.kind)
        for i = 2, node.kernel == "attend_self" and 3 or 1 do caches[#caches + 1] = node.args[i] end
      end
      assert.equal(2 * #s.state.layers, #caches)
      for _, node in ipairs(nodes) do -- of keys and values only attention writes, one position a row
        for _, arg in ipairs(node.kernel == "attend_self" and {} or node.args) do
          for _, cache in ipairs(arg.access == "update" and caches or {}) do
            assert(arg.to <= cache.from or cache.to <= arg.from, node.kernel .. " writes a cache")
          end
        end
      end
      assert.equal(0, graph.copied)
    end)

    it("never stores all logits of many rows over a large vocabulary", function()
      local vocab, floats, random = 70000, {}, reference.random(3)
      for i = 1, vocab * 32 do floats[i] = ("<f"):pack(random(2)) end
      local folder = checkpoint.variant("tied-relu", function(_, config, find)
        local entry = find "shared.weight"
        entry.shape[1], config.vocab_size, entry.data = vocab, vocab, table.concat(floats)
      end)
      local model, lists = rp.t5.load(folder, { device = device }), {}
      for i = 1, 8 do lists[i] = { 7 * i, 900 * i, 1 } end
      local o = options(model, { num_beams = 16, num_return_sequences = 3, repetition_penalty = 1.2 }, 4)
      local together, peak = found(model, lists, o), 0
      for state in pairs(model.states) do peak = state.step:graphs()[1].plan.peak end
      assert(peak < 8 * 16 * vocab * 4)
      for i, ids in ipairs(lists) do assert.same(found(model, { ids }, o)[1], together[i]) end
    end)

    it("refuses to go on once it is closed", function()
      local model = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      local s = beam.open(model, { { 5, 1 } }, options(model, { num_beams = 2 }, 4))
      s:close()
      s:close()
      assert.error_matches(function() s:run() end, "run: the search is closed", 1, true)
      assert.error_matches(function() s:results() end, "results: the search is closed", 1, true)
    end)
  end)

  describe("beam search over all there is", function()
    -- A model of few ids, and the log-probabilities of what may follow a row of tokens.
    local function tiny(vocab)
      local folder = checkpoint.variant("tied-relu", function(_, config, find)
        local entry = find "shared.weight"
        entry.shape[1], config.vocab_size = vocab, vocab
        entry.data = entry.data:sub(1, #entry.data // 96 * vocab)
      end)
      return rp.t5.load(folder, { device = device })
    end

    -- All hypotheses of at most `limit` tokens, best first; follow(row) gives log-probabilities.
    local function brute(follow, limit, w)
      local all = {}
      local function grow(row, sum)
        for id, p in ipairs(follow(row)) do
          local ids, n = table.move(row, 2, #row, 1, {}), #row
          if id - 1 == 1 or n == limit then
            if id - 1 ~= 1 then ids[n] = id - 1 end
            all[#all + 1] = { ids = ids, score = (sum + p) / n ^ w }
          else
            local longer = table.move(row, 1, #row, 1, {})
            longer[#longer + 1] = id - 1
            grow(longer, sum + p)
          end
        end
      end
      grow({ 0 }, 0)
      table.sort(all, function(a, b) return a.score > b.score end)
      return all
    end

    for _, size in ipairs { { vocab = 4, limit = 3 }, { vocab = 3, limit = 5 } } do
      it(("finds the three best of %d ids and %d tokens"):format(size.vocab, size.limit), function()
        local model, source = tiny(size.vocab), { 2, 0, 2, 1 }
        local follow = checkpoint.follower(model, source)
        for _, w in ipairs { -1, 0, 1, 2 } do
          local best = brute(follow, size.limit, w)
          for _, early in ipairs { false, "never", true } do
            local got = found(model, { source }, options(model,
              { num_beams = 16, num_return_sequences = 3, length_penalty = w, early_stopping = early }, size.limit))[1]
            local want = table.move(best, 1, 3, 1, {})
            if early == true then
              local judged = judge.search(checkpoint.step(model, source, 16), { 0 },
                { num_beams = 16, max_new = size.limit, length_penalty = w, early_stopping = true, ends = { 1 } })
              want = table.move(checkpoint.hypotheses(judged, 1), 1, 3, 1, {})
            end
            compare(want, got, ("length penalty %g, early stopping %s"):format(w, tostring(early)))
          end
        end
      end)
    end
  end)

  describe("beam search with the demo model", function()
    local model
    setup(function() model = rp.t5.load(MODEL, { device = device }) end)

    local function encoded(entries)
      local lists = {}
      for i, entry in ipairs(entries) do lists[i] = model.tokenizer:encode(entry.word) end
      return lists
    end

    -- Entries of one set of arguments, in a batch.
    local function by_arguments(entries)
      local groups, keys = {}, {}
      for _, entry in ipairs(entries) do
        local key = core.json_encode(entry.args, { "num_beams" })
        if not groups[key] then
          groups[key] = {}
          keys[#keys + 1] = key
        end
        table.insert(groups[key], entry)
      end
      return groups, keys
    end

    local function check_group(group)
      local results = found(model, encoded(group), options(model, group[1].args, 96))
      for i, entry in ipairs(group) do
        local got, want = results[i], {}
        for n, output in ipairs(entry.outputs or {}) do want[n] = { ids = model.tokenizer:encode(output[1]), score = output[2] } end
        for _, w in ipairs(want) do table.remove(w.ids) end -- the end id
        if entry.ids then want = expected(entry.ids, entry.scores, model.config.ends, 0) end
        compare(want, got, core.json_encode(entry.args) .. " " .. entry.word)
      end
    end

    for _, file in ipairs { "reference_args.jsonl", "reference_more.jsonl" } do
      local groups, keys = by_arguments(lines(file))
      for _, key in ipairs(keys) do
        if groups[key][1].args.num_beams > 1 then
          it("finds what transformers finds with " .. key, function() check_group(helper.some(groups[key])) end)
        end
      end
    end

    local entries = helper.some(lines "reference.jsonl")

    -- Strings in order (neighbours closer than 2e-5 may swap) and scores of equal strings.
    local function agrees(entry, got, bound)
      for n, want in ipairs(entry.beams) do
        local text, at = model.tokenizer:decode(got[n].ids), n
        for _, other in ipairs { n - 1, n + 1 } do
          local near_one = entry.beams[other]
          if near_one and near_one[1] == text and math.abs(near_one[2] - want[2]) <= 2e-5 then at = other end
        end
        if entry.beams[at][1] ~= text or math.abs(entry.beams[at][2] - got[n].score) > bound then return false end
      end
      return #got == 5
    end

    local FIVE = { num_beams = 5, num_return_sequences = 5 }

    it("finds the five hypotheses of 2,000 words", function()
      for _, entry in ipairs(entries) do
        local got = found(model, encoded { entry }, options(model, FIVE, 96))[1]
        assert(agrees(entry, got, 1e-4), entry.word)
      end
    end)

    it("finds in a batch of 64 words what it finds one by one", function()
      local group = table.move(entries, 1, 64, 1, {})
      local o = options(model, FIVE, 96)
      for i, list in ipairs(found(model, encoded(group), o)) do
        compare(found(model, encoded { group[i] }, o)[1], list, group[i].word)
      end
    end)

    it("finds the same bit for bit without tensor cores", function()
      helper.without_cores(function()
        local plain = rp.t5.load(MODEL, { device = device })
        local group = table.move(entries, 1, 64, 1, {})
        local o = options(plain, FIVE, 96)
        for i, list in ipairs(found(plain, encoded(group), o)) do
          assert.same(found(plain, encoded { group[i] }, o)[1], list)
        end
      end)
    end)

    it("changes at most one best of 2,000 words with f16 caches, and scores by less than 1e-3", function()
      local half, same = rp.t5.load(MODEL, { device = device, kv = "f16" }), 0
      for first = 1, #entries, 20 do
        local group = table.move(entries, first, math.min(first + 19, #entries), 1, {})
        for i, got in ipairs(found(half, encoded(group), options(model, FIVE, 96))) do
          local want, best = group[i], model.tokenizer:decode(got[1].ids)
          if best == want.beam5 then same = same + 1 end
          assert(best ~= want.beam5 or math.abs(got[1].score - want.beams[1][2]) <= 1e-3, want.word)
        end
      end
      assert(same >= #entries - 1, ("%d of %d words agree"):format(same, #entries))
    end)
  end)
end)
