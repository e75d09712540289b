--- Beam search's kernels against a search in plain Lua, on logits made by chance.
local helper = require "spec.helper"
local judge = require "spec.support.search"
local reference = require "spec.kernels.reference"
local rp = require "reprise"
local search = require "reprise.search"

helper.each_device(function(name)
  local dev, random
  setup(function() dev = rp.device(name) end)
  before_each(function() random = reference.random(17) end)

  -- What a state offers after one call of candidates on rows of logits.
  local function offers_of(rows, vocab, beams, logits, widths, options)
    local s = search.state(rows // beams, beams, 8, options and options.ends and #options.ends or 0, dev)
    local o = { prompts = {}, max_new = 4 }
    for i = 1, rows // beams do o.prompts[i] = { 0 } end
    for key, value in pairs(options or {}) do o[key] = value end
    search.begin(s, o)
    local to = search.offers(s, vocab)
    local first = 0
    for _, width in ipairs(widths or { vocab }) do
      search.candidates(s, to, logits:slice(2, first + 1, first + width):contiguous(), first)
      first = first + width
    end
    return to, s
  end

  describe("candidates", function()
    local function sorted(list, first, last)
      local order = {}
      for i = first, last do order[#order + 1] = i end
      table.sort(order, function(a, b)
        if list[a] ~= list[b] then return list[a] > list[b] end
        return a < b
      end)
      return order
    end

    -- Every part of every row against a sort. quantum: how coarse the logits are, for ties.
    local function check(vocab, beams, quantum)
      local rows, list = 2 * beams, {}
      for r = 1, rows do
        list[r] = {}
        for i = 1, vocab do list[r][i] = math.floor(random(4) / quantum) * quantum end
      end
      local to, s = offers_of(rows, vocab, beams, rp.tensor(list, "f32", dev))
      local keys, ids = to.keys:totable(), to.ids:totable()
      local most, sums = to.most:totable(), to.sums:totable()
      for r = 1, rows do
        for p = 1, to.parts do
          local first, last = (p - 1) * to.part + 1, math.min(p * to.part, vocab)
          local order, sum = sorted(list[r], first, last), 0
          for i = first, last do sum = sum + math.exp(list[r][i] - list[r][order[1]]) end
          assert.equal(list[r][order[1]], most[r][p])
          assert.near(sum, sums[r][p], sum * 1e-5)
          for rank = 1, math.min(s.k, #order) do
            local want = list[r][order[rank]]
            if to.parts == 1 then
              if (r - 1) % beams > 0 then break end -- the rows that only fill the list are told apart by ids alone
              want = want - most[r][p] - math.log(sum)
            end
            assert.equal(order[rank] - 1, ids[r][p][rank])
            assert.near(want, keys[r][p][rank], 1e-5)
          end
          for rank = #order + 1, s.k do assert.equal(-math.huge, keys[r][p][rank]) end
        end
      end
    end

    for _, vocab in ipairs { 1, 3, 7, 16, 96, 384, 2047, 2048, 2049, 5000, 32128 } do
      it(("are the best ids of each part of %d"):format(vocab), function()
        check(vocab, 1, 2 ^ -20)
        if vocab < 10000 then check(vocab, 5, 2 ^ -20) end
      end)
    end

    it("are the lowest ids among equals", function()
      for _, vocab in ipairs { 96, 384, 3000 } do
        check(vocab, 3, 1)
        check(vocab, 3, 100) -- all are 0 or -100
      end
    end)

    it("of rows that only fill the list are the lowest ids", function()
      local to = offers_of(4, 50, 4, rp.tensor({ reference.flat(rp.arange(50, "f32", dev)), reference.flat(rp.arange(50, "f32", dev)),
        reference.flat(rp.arange(50, "f32", dev)), reference.flat(rp.arange(50, "f32", dev)) }, "f32", dev))
      assert.same({ 49, 48, 47, 46, 45, 44, 43, 42 }, to.ids[1][1]:totable())
      assert.same({ 49, 48, 47, 46, 45, 44, 43, 42 }, to.ids[1][1]:totable())
      assert.equal(-1e9, to.keys[2][1][1])
    end)

    it("do not depend on the pieces that logits come in", function()
      local logits = reference.tensor(random, { 5, 5000 }, "f32", dev, 5)
      local whole = offers_of(5, 5000, 5, logits)
      for _, widths in ipairs { { 1280, 3720 }, { 2560, 1280, 1160 }, { 3840, 1160 } } do
        local pieces = offers_of(5, 5000, 5, logits, widths)
        for _, field in ipairs { "keys", "ids", "most", "sums" } do assert.is_true(whole[field]:equal(pieces[field])) end
      end
    end)

    it("are never nan", function()
      local nan = 0 / 0
      local to = offers_of(1, 5, 1, rp.tensor({ { nan, -1, nan, -2, nan } }, "f32", dev))
      assert.same({ 1, 3 }, to.ids[1][1]:totable())
      to = offers_of(1, 3, 1, rp.tensor({ { nan, nan, nan } }, "f32", dev))
      assert.same({ -math.huge, -math.huge }, to.keys[1][1]:totable())
    end)

    it("say which argument is wrong", function()
      local s = search.state(1, 2, 8, 0, dev)
      local to = search.offers(s, 5000)
      assert.error_matches(function() search.candidates(s, to, rp.zeros({ 3, 5000 }, "f32", dev)) end,
        "candidates: logits: shape {2, 5000} is expected, got {3, 5000}", 1, true)
      assert.error_matches(function() search.candidates(s, to, rp.zeros({ 2, 1024 }, "f32", dev), 1000) end,
        "candidates: first: 1024 columns from id 1000 of 5000 on, in parts of 1280", 1, true)
      assert.error_matches(function() search.state(1, 17, 8, 0, dev) end, "search: 17 beams: 1 to 16 are possible", 1, true)
      assert.error_matches(function() search.begin(s, { prompts = { { 0 } }, max_new = 9 }) end,
        "search: 9 tokens after a prompt of 1 do not fit into 8 positions", 1, true)
    end)
  end)

  describe("search", function()
    -- Logits of every step and row, by chance and independent of what the rows hold; scale tells how decided they are.
    local function chances(o, vocab, sources)
      local steps = {}
      for t = 1, o.max_new do
        local rows = {}
        for r = 1, sources * o.num_beams do
          rows[r] = {}
          for i = 1, vocab do rows[r][i] = judge.f32(random(o.scale or 3)) end
        end
        steps[t] = rows
      end
      return steps
    end

    -- The device's search over such logits; nil where a step's rows are to be looked at: look(state, t).
    local function run(o, vocab, steps, prompts, look)
      local sources, longest = #prompts, #prompts[1]
      local s = search.state(sources, o.num_beams, longest + o.max_new, #o.ends, dev)
      o.prompts = prompts
      search.begin(s, o)
      for _ = 1, longest - 1 do -- while the prompt is read, logits do not matter
        local to = search.offers(s, vocab)
        search.candidates(s, to, rp.tensor(steps[1], "f32", dev))
        search.search(s, to)
      end
      for t = 1, o.max_new do
        local to = search.offers(s, vocab)
        search.candidates(s, to, rp.tensor(steps[t], "f32", dev))
        search.search(s, to)
        if look then look(s, t) end
      end
      return search.collect(s, sources, o.num_beams), s
    end

    -- The judge's search of source i.
    local function judged(o, steps, prompt, i)
      local t = 0
      local function step()
        t = t + 1
        return table.move(steps[t], (i - 1) * o.num_beams + 1, i * o.num_beams, 1, {})
      end
      local out = {}
      for n, h in ipairs(judge.search(step, prompt, o)) do
        local ids = table.move(h.row, #prompt + 1, #h.row - (h.ended and 1 or 0), 1, {})
        out[n] = { ids = ids, score = h.f, finish = h.ended and "eos" or "length" }
      end
      return out
    end

    local function compare(want, got)
      assert.equal(#want, #got)
      for n, h in ipairs(want) do
        assert.same(h.ids, got[n].ids)
        assert.equal(h.finish, got[n].finish)
        assert.near(h.score, got[n].score, 1e-5 * math.max(1, math.abs(h.score)))
      end
    end

    local function pick(list) return list[1 + math.floor((random() + 1) / 2 * #list) % #list] end

    local function any_options(vocab)
      local o = {
        num_beams = pick { 1, 2, 3, 4, 5, 16 }, max_new = pick { 1, 2, 3, 5, 9 }, length_penalty = pick { -1, 0, 0.6, 1, 2 },
        early_stopping = pick { false, true, "never" }, scale = pick { 1, 3, 8 }, ends = pick { {}, { 1 }, { 1 }, { 1, 2 } },
        repetition_penalty = pick { 1, 1, 1.3, 0.8 }, no_repeat_ngram_size = pick { 0, 0, 1, 2, 3 }, shortest = pick { 0, 0, 3, 5 },
      }
      local prompts, length = {}, pick { 1, 1, 2, 4 }
      for i = 1, pick { 1, 2, 3 } do
        prompts[i] = {}
        for p = 1, length do prompts[i][p] = math.floor((random() + 1) / 2 * vocab) end
      end
      return o, prompts
    end

    for _, vocab in ipairs { 3, 4, 5, 12, 40, 96 } do
      it(("of %d ids finds what the search in plain Lua finds"):format(vocab), function()
        for _ = 1, 60 do
          local o, prompts = any_options(vocab)
          local steps = chances(o, vocab, #prompts)
          local got = run(o, vocab, steps, prompts)
          for i, prompt in ipairs(prompts) do compare(judged(o, steps, prompt, i), got[i]) end
        end
      end)
    end

    it("of more candidates than fit into a tile finds what the search in plain Lua finds", function()
      for _, penalty in ipairs { 1, 0.2 } do
        local o = { num_beams = 16, max_new = 3, ends = { 1 }, repetition_penalty = penalty, scale = 3 }
        local steps, prompt = chances(o, 5000, 1), { 7, 4999, 7 }
        compare(judged(o, steps, prompt, 1), run(o, 5000, steps, { prompt })[1])
      end
    end)

    it("of vocabularies in parts finds what the search in plain Lua finds", function()
      for _ = 1, 12 do
        local o, prompts = any_options(2500)
        o.max_new, o.repetition_penalty = math.min(o.max_new, 5), pick { 1, 1.3, 0.2 } -- 0.2 makes ids come again
        if #prompts[1] > 2 then prompts[1][1] = prompts[1][2] end
        local steps = chances(o, 2500, #prompts)
        local got = run(o, 2500, steps, prompts)
        for i, prompt in ipairs(prompts) do compare(judged(o, steps, prompt, i), got[i]) end
      end
    end)

    -- The module, launching so many blocks.
    local function with_grid(blocks)
      local launch = require "reprise.launch"
      local grid = launch.grid
      launch.grid = function() return blocks end
      package.loaded["reprise.search"] = nil
      local other = require "reprise.search"
      package.loaded["reprise.search"], launch.grid = search, grid
      return other
    end

    it("has the same bits whatever the grid", function()
      local o = { num_beams = 3, max_new = 4, ends = { 1 }, repetition_penalty = 0.5 }
      local steps, prompts = chances(o, 3000, 4), { { 5 }, { 6 }, { 7 }, { 8 } }
      local usual = run(o, 3000, steps, prompts)
      local own = search
      for _, blocks in ipairs { 1, 3, 50 } do
        search = with_grid(blocks)
        local other = run(o, 3000, steps, prompts)
        search = own
        assert.same(usual, other)
      end
    end)

    it("changes nothing once no source is open", function()
      local o = { num_beams = 3, max_new = 20, ends = { 1 }, early_stopping = true, scale = 3 }
      local steps, before, changed = chances(o, 6, 2), nil, 0
      local _, s = run(o, 6, steps, { { 0 }, { 0 } }, function(s)
        local now = { s.scores:totable(), s.lists:totable(), s.token:totable(), s.tokens:totable(), s.origin:totable(),
          s.position:totable() }
        if before then
          assert.same(before, now)
          changed = changed + 1
        end
        if s.control[2] == 1 then before = now end
      end)
      assert(changed > 0, "the search ended in its last step")
      assert.same({ 0, 0 }, s.open:totable())
    end)

    it("gives a batch what its members find alone, bit for bit", function()
      local o = { num_beams = 4, max_new = 8, ends = { 1 }, scale = 4 }
      local steps = chances(o, 30, 5)
      local prompts = { { 0 }, { 3 }, { 0 }, { 5 }, { 9 } }
      local together = run(o, 30, steps, prompts)
      for i, prompt in ipairs(prompts) do
        local own = {}
        for t, rows in ipairs(steps) do own[t] = table.move(rows, (i - 1) * 4 + 1, i * 4, 1, {}) end
        assert.same(together[i], run(o, 30, own, { prompt })[1])
      end
    end)

    it("leaves sources that only fill a bucket alone", function()
      local o = { num_beams = 2, max_new = 3, ends = { 1 }, prompts = { { 0 } } }
      local s = search.state(3, 2, 8, 1, dev)
      search.begin(s, o)
      assert.same({ 1, 0, 0 }, s.open:totable())
      for _ = 1, 3 do
        local to = search.offers(s, 9)
        search.candidates(s, to, (reference.tensor(random, { 6, 9 }, "f32", dev)))
        search.search(s, to)
      end
      assert.equal(1, s.control[2])
      assert.same({ -1e9, -1e9 }, s.scores[3][2]:totable())
    end)

    it("tells the host its step and its end", function()
      local o = { num_beams = 2, max_new = 3, ends = {} }
      local _, s = run(o, 9, chances(o, 9, 1), { { 0, 4 } }, function(s, t)
        dev:synchronize()
        assert.same({ t + 1, t == 3 }, { s.signal:step() })
      end)
      assert.equal(4, s.position[1])
    end)

    it("moves on by itself in a captured step, with the same bits", function()
      local o = { num_beams = 3, max_new = 6, ends = { 1 }, length_penalty = 0.5, no_repeat_ngram_size = 2, prompts = { { 7 }, { 5 } } }
      local table_of = reference.tensor(random, { 20, 20 }, "f32", dev, 3)
      local function results(captured)
        local s = search.state(2, 3, 8, 1, dev)
        local function step()
          local to = search.offers(s, 20)
          search.candidates(s, to, rp.ops.embed(table_of, s.token))
          search.search(s, to)
        end
        if captured then step = rp.capture(step, { device = dev }) end
        if captured then step() end -- the state is done: nothing changes
        search.begin(s, o)
        for _ = 1, 8 do step() end
        return search.collect(s, 2, 3)
      end
      assert.same(results(false), results(true))
    end)
  end)

  describe("follow", function()
    it("lets rows take over what their parents have seen", function()
      local origin = rp.tensor({ { 0, 0, 2, 9 }, { 1, 1, 1, 9 }, { 2, 0, 2, 9 }, { 0, 1, 0, 9 }, { 2, 1, 1, 9 }, { 2, 2, 2, 9 } }, "u8", dev)
      search.follow(origin, rp.full({ 1 }, 3, "i32", dev), rp.tensor({ 2, 2, 0, 0, 1, 3 }, "i32", dev), 3)
      assert.same({ { 2, 0, 2, 0 }, { 2, 0, 2, 1 }, { 0, 0, 2, 2 }, { 0, 1, 0, 0 }, { 2, 1, 1, 1 }, { 255, 255, 255, 2 } },
        origin:totable())
    end)
  end)
end)
