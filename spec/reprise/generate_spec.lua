-- Generation and sessions: batches, buckets, ends, and sessions side by side.
local rp = require "reprise"
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"

local TINY = "tied-relu"

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
      assert.are.equal("step: ids: an i32 tensor of shape {1} is expected", why(s.step, s, { 1 }))
      assert.are.equal("step: ids: an i32 tensor of shape {1} is expected", why(s.step, s, rp.tensor({ 1, 2 }, "i32", device)))
      local one = rp.tensor({ 1 }, "i32", device)
      assert.are.equal("step: parents: the session was opened with one row a source", why(s.step, s, one, one))
      assert.are.equal("step: parents: an i32 tensor of shape {1} is expected", why(s.step, s, one, { 0 }))
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
