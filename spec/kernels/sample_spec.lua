--- The end of a step: the next token, finished rows, history and position.
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

helper.each_device(function(name)
  local dev, ops, random
  setup(function() dev, ops = rp.device(name), rp.ops end)
  before_each(function() random = reference.random(5) end)

  describe("choose", function()
    it("takes the largest logit of each row, wherever it is", function()
      for _, vocab in ipairs { 1, 7, 384, 5000, 32128 } do
        local want, list, rows = {}, {}, 3
        for r = 1, rows do
          local top = (r * 7919) % vocab
          for i = 0, vocab - 1 do list[#list + 1] = i == top and 2 or random() end
          want[r] = top
        end
        local state = ops.choice_state(rows, { device = dev })
        ops.choose(rp.tensor(list, "f32", dev):view({ rows, vocab }), state)
        assert.same(want, state.token:totable())
        assert.equal(1, state.position[1])
      end
    end)

    it("takes the lowest id among equals", function()
      local rows = { {}, {}, {} }
      for i = 1, 20000 do
        rows[1][i] = 0
        rows[2][i] = (i == 5001 or i == 12001) and 1 or 0
        rows[3][i] = -math.huge
      end
      local state = ops.choice_state(3, { device = dev })
      ops.choose(rp.tensor(rows, "f32", dev), state)
      assert.same({ 0, 5000, 0 }, state.token:totable())
    end)

    it("never takes a nan", function()
      local nan = 0 / 0
      local state = ops.choice_state(2, { device = dev })
      ops.choose(rp.tensor({ { nan, -1, nan, -2 }, { nan, nan, nan, nan } }, "f32", dev), state)
      assert.same({ 1, 0 }, state.token:totable())
    end)

    local function logits_for(ids, vocab)
      local rows = {}
      for r, id in ipairs(ids) do
        rows[r] = {}
        for i = 0, vocab - 1 do rows[r][i + 1] = i == id and 1 or 0 end
      end
      return rp.tensor(rows, "f32", dev)
    end

    it("pads rows that have ended, counts the open ones, and keeps the history", function()
      local state = ops.choice_state(3, { longest = 5, ends = { 1, 8 }, pad = 2, device = dev })
      assert.equal(3, state.open[1])
      ops.choose(logits_for({ 5, 1, 7 }, 10), state)
      assert.same({ 5, 1, 7 }, state.token:totable())
      assert.equal(2, state.open[1])
      ops.choose(logits_for({ 8, 6, 6 }, 10), state)
      assert.same({ 8, 2, 6 }, state.token:totable())
      assert.same({ 1, 1, 0 }, state.finished:totable())
      ops.choose(logits_for({ 3, 3, 8 }, 10), state)
      assert.same({ 2, 2, 8 }, state.token:totable())
      assert.equal(0, state.open[1])
      assert.equal(3, state.position[1])
      assert.same({ { 5, 8, 2, 0, 0 }, { 1, 2, 2, 0, 0 }, { 7, 6, 8, 0, 0 } }, state.history:totable())
    end)

    it("changes nothing once no row is open", function()
      local state = ops.choice_state(1, { longest = 5, ends = { 1 }, device = dev })
      for _ = 1, 3 do ops.choose(logits_for({ 1 }, 10), state) end
      ops.choose(logits_for({ 4 }, 10), state)
      assert.same({ 1 }, state.token:totable())
      assert.equal(1, state.position[1])
      assert.same({ { 1, 0, 0, 0, 0 } }, state.history:totable())
    end)

    it("ends rows whose history is full", function()
      local state = ops.choice_state(2, { longest = 2, device = dev })
      for _ = 1, 4 do ops.choose(logits_for({ 4, 5 }, 10), state) end
      assert.same({ { 4, 4 }, { 5, 5 } }, state.history:totable())
      assert.equal(2, state.position[1])
      assert.equal(0, state.open[1])
    end)

    it("moves on by itself in a captured step", function()
      local vocab = 12
      local rows = {} -- after token i comes i + 1, after 9 the end
      for i = 0, vocab - 1 do
        rows[i + 1] = {}
        for k = 0, vocab - 1 do rows[i + 1][k + 1] = k == (i == 9 and 1 or i + 1) and 1 or 0 end
      end
      local follows = rp.tensor(rows, "f32", dev)
      local state = ops.choice_state(2, { longest = 16, ends = { 1 }, device = dev })
      state.token:copy(rp.tensor({ 3, 7 }, "i32", dev))
      local step = rp.capture(function()
        local logits = ops.embed(follows, state.token)
        ops.choose(logits, state)
        return logits
      end, { device = dev })
      local steps = 0
      repeat
        step()
        steps = steps + 1
      until state.open[1] == 0
      assert.equal(7, steps)
      assert.same({ 4, 5, 6, 7, 8, 9, 1 }, { table.unpack(state.history[1]:totable(), 1, 7) })
      assert.same({ 8, 9, 1, 0, 0, 0, 0 }, { table.unpack(state.history[2]:totable(), 1, 7) })
    end)

    it("says which argument is wrong", function()
      local state = ops.choice_state(2, { device = dev })
      assert.error_matches(function() ops.choose(rp.zeros({ 3, 4 }, "f32", dev), state) end,
        "choose: token: shape {3} is expected, got {2}")
      assert.error_matches(function() ops.choose(rp.zeros({ 2, 4 }, "f16", dev), state) end,
        "choose: logits: a tensor of f32 is expected, got f16")
    end)
  end)
end)
