--- The end of a step: tokens chosen or drawn, finished rows, scores, and what is told to the host.
local choice = require "reprise.choice"
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"
local warp = require "spec.support.warp"

local NAN = 0 / 0

-- log of the softmax of a list at id
local function log_softmax(list, id)
  local most, sum = math.max(table.unpack(list)), 0
  for _, x in ipairs(list) do sum = sum + math.exp(x - most) end
  return list[id + 1] - most - math.log(sum)
end

-- Rows of logits that have their largest at ids.
local function rows_for(ids, vocab)
  local rows = {}
  for r, id in ipairs(ids) do
    rows[r] = {}
    for i = 0, vocab - 1 do rows[r][i + 1] = i == id and 1 or 0 end
  end
  return rows
end

-- Below it is a value that a chi-square of so many degrees exceeds once in a thousand times (Wilson, Hilferty 1931).
local function chi_limit(degrees)
  local k = 2 / (9 * degrees)
  return degrees * (1 - k + 3.0902 * math.sqrt(k)) ^ 3
end

helper.each_device(function(name)
  local dev, random
  setup(function() dev = rp.device(name) end)
  before_each(function() random = reference.random(5) end)

  local function tensor(rows) return rp.tensor(rows, "f32", dev) end

  -- A state that has begun, and a function that makes it take one step.
  local function started(rows, run, how)
    how = how or {}
    how.rows, how.room, how.ends = rows, how.room or 16, #(run.ends or {})
    local state = choice.state(dev, how)
    run.prompts = run.prompts or { { 0 } }
    choice.begin(state, run)
    return state, function(logits)
      choice.advance(tensor(logits), state)
      return state.token:totable()
    end
  end

  describe("choosing", function()
    it("takes the largest logit of each row, wherever it is", function()
      for _, vocab in ipairs { 1, 7, 384, 5000, 32128 } do
        local want, list, rows = {}, {}, 3
        for r = 1, rows do
          local top = (r * 7919) % vocab
          list[r] = {}
          for i = 0, vocab - 1 do list[r][i + 1] = i == top and 2 or random() end
          want[r] = top
        end
        local state, step = started(rows, {})
        assert.same(want, step(list))
        assert.equal(1, state.position[1])
        for r = 1, rows do
          local off = math.abs(state.sums:totable()[r] - log_softmax(list[r], want[r]))
          assert(off < 1e-5 * math.max(1, math.log(vocab)), ("vocabulary %d: score off by %g"):format(vocab, off))
        end
      end
    end)

    it("takes the lowest id among equals", function()
      local rows = { {}, {}, {} }
      for i = 1, 20000 do
        rows[1][i] = 0
        rows[2][i] = (i == 5001 or i == 12001) and 1 or 0
        rows[3][i] = -math.huge
      end
      local _, step = started(3, {})
      assert.same({ 0, 5000, 0 }, step(rows))
    end)

    it("never takes a nan", function()
      local _, step = started(2, {})
      assert.same({ 1, 0 }, step { { NAN, -1, NAN, -2 }, { NAN, NAN, NAN, NAN } })
    end)

    it("pads rows that have ended, counts the open ones, and keeps the history", function()
      local state, step = started(3, { ends = { 1, 8 }, pad = 2, longest = 9 })
      assert.equal(3, state.control[2])
      assert.same({ 5, 1, 7 }, step(rows_for({ 5, 1, 7 }, 10)))
      assert.equal(2, state.control[2])
      assert.same({ 8, 2, 6 }, step(rows_for({ 8, 6, 6 }, 10)))
      assert.same({ 2, 1, 0 }, state.finished:totable())
      assert.same({ 2, 2, 8 }, step(rows_for({ 3, 3, 8 }, 10)))
      assert.equal(0, state.control[2])
      assert.same({ 2, 1, 3 }, state.finished:totable())
      local history = state.history:slice(2, 1, 5):totable()
      assert.same({ { 0, 5, 8, 2, 0 }, { 0, 1, 2, 2, 0 }, { 0, 7, 6, 8, 0 } }, history)
    end)

    it("changes nothing once no row is open", function()
      local state, step = started(1, { ends = { 1 } })
      for _ = 1, 3 do step(rows_for({ 1 }, 10)) end
      local sum = state.sums[1]
      step(rows_for({ 4 }, 10))
      assert.same({ 1, 1, sum }, { state.token[1], state.position[1], state.sums[1] })
      assert.same({ 0, 1, 0, 0 }, { table.unpack(state.history[1]:totable(), 1, 4) })
    end)

    it("ends rows that are as long as they may be", function()
      local state, step = started(2, { longest = 3 })
      for _ = 1, 4 do step(rows_for({ 4, 5 }, 10)) end
      assert.same({ { 0, 4, 4, 0 }, { 0, 5, 5, 0 } }, state.history:slice(2, 1, 4):totable())
      assert.same({ 2, 2 }, state.finished:totable())
      assert.equal(2, state.position[1])
    end)

    it("takes the prompt's tokens first, which count for nothing", function()
      local state, step = started(2, { prompts = { { 3, 1, 4 }, { 6, 1, 7 } }, ends = { 1 }, longest = 5 })
      assert.same({ 3, 6 }, state.token:totable())
      assert.same({ 1, 1 }, step(rows_for({ 9, 9 }, 10)))
      assert.same({ 4, 7 }, step(rows_for({ 9, 9 }, 10)))
      assert.same({ 0, 0 }, state.sums:totable())
      assert.same({ 9, 1 }, step(rows_for({ 9, 1 }, 10)))
      assert.same({ 0, 1 }, state.finished:totable())
      step(rows_for({ 9, 9 }, 10))
      assert.same({ 2, 1 }, state.finished:totable())
    end)

    it("bans ends while a row is too short", function()
      local _, step = started(1, { ends = { 1, 3 }, shortest = 3 })
      local row = { 0, 9, 0.5, 8, 0.25 }
      assert.same({ 2 }, step { row })
      assert.same({ 2 }, step { row })
      assert.same({ 1 }, step { row })
    end)

    it("leaves rows that only fill up out of the count", function()
      local state, step = started(4, { real = 2, ends = { 1 } })
      step(rows_for({ 1, 5, 5, 5 }, 10))
      assert.equal(1, state.control[2])
      step(rows_for({ 5, 1, 5, 5 }, 10))
      assert.equal(0, state.control[2])
      assert.same({ 1, 2, 1, 1 }, state.finished:totable())
    end)

    it("makes tokens that are there already less likely, and bans what would repeat an n-gram", function()
      local vocab = 12
      for _, run in ipairs { { penalty = 1.7 }, { ngram = 1 }, { ngram = 2 }, { ngram = 3 }, { penalty = 0.6, ngram = 2 } } do
        local rows, tokens = {}, { { 2, 5, 3 }, { 4, 4, 1 } }
        run.prompts, run.longest = { { 2, 5, 3 }, { 4, 4, 1 } }, 15
        local state, step = started(2, run, { adjusts = true })
        for at = 1, 10 do
          local want = {}
          for r = 1, 2 do
            rows[r] = {}
            for i = 1, vocab do rows[r][i] = math.floor(random(40)) / 10 end
            local scores = warp.adjust(rows[r], tokens[r], run.penalty or 1, run.ngram or 0)
            local best = 1
            for i = 2, vocab do if scores[i] > scores[best] then best = i end end
            want[r] = best - 1
          end
          local got = step(rows)
          if at > 2 then
            assert.same(want, got, ("penalty %s, n-grams of %s, step %d"):format(run.penalty, run.ngram, at))
            for r = 1, 2 do table.insert(tokens[r], got[r]) end
          end
        end
        assert.equal(10, state.position[1])
      end
    end)

    it("tells the host tokens, the sum at the end, and the steps", function()
      local state, step = started(1, { ends = { 1 }, prompts = { { 7, 8 } } })
      local rows, sum, signal = { 5, 3, 1 }, 0, state.signal
      step(rows_for({ 9 }, 10))
      assert.same({ 1, false }, { signal:step() })
      assert.is_nil(signal:read(0))
      for i, id in ipairs(rows) do
        step(rows_for({ id }, 10))
        sum = sum + log_softmax(rows_for({ id }, 10)[1], id)
        assert.equal(id, signal:wait(i - 1))
      end
      assert.same({ 4, true }, { signal:step() })
      assert(math.abs(("f"):unpack(("i4"):pack(signal:wait(3))) - sum) < 1e-5)
      assert.is_nil(signal:wait(4))
    end)

    it("moves on by itself in a captured step", function()
      local vocab, rows = 12, {} -- after token i comes i + 1, after 9 the end
      for i = 0, vocab - 1 do
        rows[i + 1] = {}
        for k = 0, vocab - 1 do rows[i + 1][k + 1] = k == (i == 9 and 1 or i + 1) and 1 or 0 end
      end
      local follows = tensor(rows)
      local state = choice.state(dev, { rows = 2, room = 16, ends = 1 })
      local step = rp.capture(function() choice.advance(rp.ops.embed(follows, state.token), state) end, { device = dev })
      step() -- no row is open yet
      choice.begin(state, { prompts = { { 3 }, { 7 } }, ends = { 1 } })
      assert.equal(7, step:run { max = 15, stop = state.signal, ahead = 1 })
      assert.same({ 3, 4, 5, 6, 7, 8, 9, 1 }, state.history[1]:slice(1, 1, 8):totable())
      assert.same({ 7, 8, 9, 1, 0, 0, 0, 0 }, state.history[2]:slice(1, 1, 8):totable())
      assert.same({ 7, 3 }, state.finished:totable())
    end)

    it("says what does not fit", function()
      local state = choice.state(dev, { rows = 2, room = 8 })
      assert.error_matches(function() choice.advance(rp.zeros({ 3, 4 }, "f32", dev), state) end,
        "advance: token: shape {3} is expected, got {2}", nil, true)
      assert.error_matches(function() choice.advance(rp.zeros({ 2, 4 }, "f16", dev), state) end,
        "advance: logits: a tensor of f32 is expected, got f16")
      assert.error_matches(function() choice.begin(state, { prompts = { { 1, 2, 3 } }, longest = 9 }) end,
        "begin: prompts of 3 tokens, rows of 9 in a room for 8")
      assert.error_matches(function() choice.begin(state, { prompts = { { 1 } }, ends = { 1, 2 } }) end,
        "begin: 2 end ids, the state has room for 1")
    end)
  end)

  describe("drawing", function()
    local function seeds(count, seed)
      local list = {}
      for i = 1, count do list[i] = { seed, 0, i - 1 } end
      return list
    end

    -- How often each id is drawn from one list of logits.
    local function drawn(list, run, count, seed)
      run.seeds = seeds(count, seed or 1)
      local state = started(count, run, { draws = true })
      local vocab = #list
      choice.advance(tensor(list):view({ 1, vocab }):expand({ count, vocab }):clone(), state)
      local counts = {}
      for i = 1, vocab do counts[i] = 0 end
      for _, id in ipairs(state.token:totable()) do counts[id + 1] = counts[id + 1] + 1 end
      return counts
    end

    -- Chi-square of counts; ids that should come fewer than five times are taken together.
    local function check(counts, want, total)
      local chi, groups, rest, seen = 0, 0, 0, 0
      for i, p in ipairs(want) do
        if p == 0 then
          assert.equal(0, counts[i])
        elseif p * total < 5 then
          rest, seen = rest + p * total, seen + counts[i]
        else
          chi, groups = chi + (counts[i] - p * total) ^ 2 / (p * total), groups + 1
        end
      end
      if rest > 0 then chi, groups = chi + (seen - rest) ^ 2 / rest, groups + 1 end
      assert(chi < chi_limit(groups - 1), ("chi-square is %.1f of %d groups"):format(chi, groups))
    end

    for what, run in pairs {
      ["as the logits say"] = {}, ["with a temperature below one"] = { temperature = 0.7 },
      ["with a temperature above one"] = { temperature = 1.8 }, ["from the best k"] = { top_k = 7 },
      ["from the best that reach p"] = { top_p = 0.8 }, ["from those at least so probable"] = { min_p = 0.1 },
      ["with all of these"] = { temperature = 1.3, top_k = 15, top_p = 0.9, min_p = 0.05 },
    } do
      it(what .. " follows the probabilities, in 100,000 draws", function()
        local list = {}
        for i = 1, 24 do list[i] = random(3) end
        local want = warp.probabilities(list, run)
        check(drawn(list, run, 100000), want, 100000)
      end)
    end

    it("keeps equals at the edge of the best k, and the later of equals at the edge of p", function()
      local list = { 1, 2, 0, 2, 1, 1, 0, 1 }
      local function ids(run)
        local out = {}
        for i, n in ipairs(drawn(list, run, 4096)) do
          if n > 0 then out[#out + 1] = i - 1 end
        end
        return out
      end
      assert.same({ 0, 1, 3, 4, 5, 7 }, ids { top_k = 3 })
      assert.same({ 1, 3 }, ids { top_k = 2 })
      assert.same({ 1, 3 }, ids { top_k = 1 })
      assert.same({ 3 }, ids { top_p = 0 })
      assert.same({ 1, 3, 5, 7 }, ids { top_p = 0.65 })
      assert.same({ 1, 3 }, ids { min_p = 0.5 })
    end)

    it("never draws an end while a row is too short, nor a nan", function()
      local counts = drawn({ 1, 9, NAN, 1 }, { ends = { 1 }, shortest = 3 }, 1000)
      assert.same({ 0, 0 }, { counts[2], counts[3] })
      assert(counts[1] > 400 and counts[4] > 400)
    end)

    it("depends on seed, sequence number and position alone", function()
      local rows, list = {}, {}
      for i = 1, 300 do list[i] = random(2) end
      for r = 1, 6 do rows[r] = list end
      local function sequence(run, count)
        local _, step = started(count, run, { draws = true })
        local out = {}
        for t = 1, 8 do out[t] = step({ table.unpack(rows, 1, count) }) end
        return out
      end
      local all = sequence({ seeds = seeds(6, 42) }, 6)
      assert.same(all, sequence({ seeds = seeds(6, 42) }, 6))
      assert.are_not.same(all, sequence({ seeds = seeds(6, 43) }, 6))
      local last = sequence({ seeds = { { 42, 0, 5 } } }, 1)
      local different = {}
      for t = 1, 8 do
        assert.equal(all[t][6], last[t][1])
        different[all[t][6]] = true
      end
      local count = 0
      for _ in pairs(different) do count = count + 1 end
      assert(count > 3, "the same token again and again")
    end)

    it("scores by the logits as they are", function()
      local list, run = { 1, 2, 3, 2.5 }, { temperature = 3, top_k = 2, seeds = { { 1, 0, 0 } } }
      local state, step = started(1, run, { draws = true })
      local id = step({ list })[1]
      assert(math.abs(state.sums[1] - log_softmax(list, id)) < 1e-5)
    end)

    it("filters any vocabulary as plain Lua does", function()
      helper.needs_compiler(name)
      local prog = rp.compile { device = dev, source = [[
#include "filter.cuh"
KERNEL void filter (i32 *kept, const float *scores, i32 vocab, float temperature, i32 top_k, float top_p, float min_p) {
  if (BLOCK != 0) return; /* the device chooses how many there are */
  row_scores r = {scores, vocab, temperature, nullptr, 0};
  float top = -INF;
  for (i32 i = 0; i < vocab; i++) top = score_of(r, i) > top ? score_of(r, i) : top;
  survivors s = filter_row(r, top, top_k, top_p, min_p);
  for (i32 i = (i32)THREAD; i < vocab; i += (i32)THREADS) kept[i] = survives(s, score_of(r, i), i);
}
]] }
      for case = 1, 61 do
        local list, vocab = {}, case == 61 and 32128 or 1 + case * case % 700
        for i = 1, vocab do list[i] = math.floor(random(case % 3 == 0 and 3 or 300)) / (case % 3 == 0 and 1 or 64) end
        local run = {
          temperature = case % 4 == 0 and 0.5 or 1, top_k = case % 5 == 0 and 0 or 1 + case * 7 % 60,
          top_p = case % 2 == 0 and 1 or 0.3513 + case / 101.7, min_p = case % 7 == 0 and 0.02 or nil,
        }
        local kept = rp.zeros({ vocab }, "i32", dev)
        prog.filter { grid = 1, block = 96, kept, tensor(list), vocab, run.temperature, run.top_k, run.top_p, run.min_p or 0 }
        local want = {}
        for i, p in ipairs(warp.probabilities(list, run)) do want[i] = p > 0 and 1 or 0 end
        assert.same(want, kept:totable(), "case " .. case)
      end
    end)

    it("takes its noise from Philox", function()
      helper.needs_compiler(name)
      local prog = rp.compile { device = dev, source = [[
#include "philox.cuh"
KERNEL void words (i32 *out, const i32 *counter, u32 key0, u32 key1) {
  words4 c = {{(u32)counter[0], (u32)counter[1], (u32)counter[2], (u32)counter[3]}};
  c = philox(c, key0, key1);
  if (BLOCK == 0 && THREAD == 0) for (int i = 0; i < 4; i++) out[i] = (i32)c.v[i];
}
]] }
      -- Answers that its authors publish beside it (Random123, kat_vectors).
      local function words(counter, key0, key1)
        local out = rp.zeros({ 4 }, "i32", dev)
        for i, word in ipairs(counter) do counter[i] = ("<i4"):unpack(("<I4"):pack(word)) end
        prog.words { grid = 1, block = 32, out, rp.tensor(counter, "i32", dev), key0, key1 }
        local list = out:totable()
        for i, word in ipairs(list) do list[i] = word & 0xffffffff end
        return list
      end
      assert.same({ 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 }, words({ 0, 0, 0, 0 }, 0, 0))
      local ones = 0xffffffff
      assert.same({ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd }, words({ ones, ones, ones, ones }, ones, ones))
    end)
  end)
end)
