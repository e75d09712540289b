--- Recycling: static inputs in shared places, copies that are skipped, outputs that go stale and say so, limits.
local helper = require "spec.helper"
local rp = require "reprise"

local SOURCE = [[
#include "prelude.cuh"
KERNEL void scale (float *y, const float *x, float a, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += (i32)(BLOCKS * THREADS)) y[i] = a * x[i];
}
]]

helper.each_device(function(name)
  local dev, prog

  setup(function()
    dev = rp.device(name)
    if helper.compiler() or name ~= "cpu" then prog = rp.compile { source = SOURCE, device = dev } end
  end)

  local function spec(text, fn)
    it(text, function()
      if not prog then helper.needs_compiler(name) end
      fn(rp.pool { device = dev })
    end)
  end

  local function vector(n, first, place)
    local t = {}
    for i = 1, n do t[i] = (first or 0) + i end
    return rp.tensor(t, "f32", place or dev)
  end

  local function scaled(x, a)
    local n = x.shape[1]
    local y = rp.empty({ n }, "f32", dev)
    prog.scale { grid = 4, block = 64, y, x, a, n }
    return y
  end

  local function doubling(pool, options)
    options = options or {}
    options.pool = pool
    return rp.capture(function(x) return scaled(x, 2) end, options)
  end

  describe("inputs", function()
    spec("of all graphs share their places: they cost the largest, not the sum", function(pool)
      local step = doubling(pool, { reserve = { 20 * 1024 } })
      for i = 1, 20 do step(vector(256 * i)) end
      assert.equal(20, #step:graphs())
      assert.equal(20 * 1024, pool:figures().slots.allocated)
    end)

    spec("are not copied when their bytes did not change", function(pool)
      local step, x = doubling(pool), vector(100)
      for _ = 1, 5 do step(x) end
      local g = step:graphs()[1]
      assert.equal(400, g.copied)
      assert.equal(1600, g.skipped)
      x:fill(7)
      assert.same(14, step(x)[1])
      assert.equal(800, g.copied)
    end)

    spec("are copied again after every kind of write", function(pool)
      local step, x = doubling(pool), vector(4)
      local writes = {
        function() x:fill(1); return 2 end,
        function() x:slice(1, 1, 1):fill(5); return 10 end,
        function() x:copy(vector(4, 10)); return 22 end,
        function() prog.scale { x, vector(4, 3), 1, 4 }; return 8 end,
        function() rp.capture(function() prog.scale { x, x, 3, 4 } end, { pool = pool })(); return 24 end,
      }
      step(x)
      for _, write in ipairs(writes) do
        local expected = write()
        assert.equal(expected, step(x)[1])
      end
    end)

    spec("of the same bytes seen another way are copied again", function(pool)
      local x = rp.tensor({ { 1, 2 }, { 3, 4 } }, "f32", dev)
      local step = rp.capture(function(y) local z = rp.empty({ 2, 2 }, "f32", dev); z:copy(y); return z end, { pool = pool })
      assert.same({ { 1, 2 }, { 3, 4 } }, step(x):totable())
      assert.same({ { 1, 3 }, { 2, 4 } }, step(x:transpose(1, 2)):totable())
      assert.same({ { 1, 2 }, { 3, 4 } }, step(x):totable())
    end)

    spec("whose memory was recycled for another tensor are not taken for the old one", function(pool)
      local step = doubling(pool)
      for i = 1, 50 do
        local x <close> = vector(64, i, pool)
        assert.equal(2 * (i + 1), step(x)[1])
      end
    end)

    spec("that outgrow their place get a new one, which older graphs follow at their next replay", function(pool)
      local step = doubling(pool)
      for round = 1, 2 do
        for i = 1, 6 do
          local n = 64 << i
          assert.equal(2 * (n + round), step(vector(n, round))[n])
        end
      end
      assert.is_true(pool:figures().slots.allocated <= 2 * 4 * (64 << 6))
    end)
  end)

  describe("outputs", function()
    spec("that a later replay overwrote raise, naming graph, replay and remedy; the remedy works", function(pool)
      local step = doubling(pool, { name = "double" })
      local first = step(vector(3))
      step(vector(3, 10))
      assert.error_matches(function() first:totable() end,
        'reading values: this output of replay 1 of double was overwritten by replay 2 of double: clone it before the next replay, or capture with outputs = "copy"')
      local kept = step(vector(3)):clone()
      step(vector(3, 10))
      assert.same({ 2, 4, 6 }, kept:totable())
    end)

    spec("survive the replay of a graph that does not reach them", function(pool)
      local large = rp.capture(function(x) return scaled(scaled(scaled(x, 1), 1), 2) end, { pool = pool, name = "large" })
      local small = doubling(pool)
      local out = large(vector(1000))
      small(vector(4))
      assert.equal(2, out[1])
      large(vector(1000, 5))
      assert.error_matches(function() return out[1] end, "overwritten by replay 2 of large")
    end)

    spec("of any graph are stale once another graph reached over them", function(pool)
      local small, large = doubling(pool, { name = "small" }), doubling(pool, { name = "large" })
      local out = small(vector(4))
      large(vector(10000))
      assert.error_matches(function() out:clone() end, "this output of replay 1 of small was overwritten by replay 1 of large")
      assert.error_matches(function() small(out) end, "passing a tensor to a graph: this output of replay 1 of small")
    end)

    spec("may be fed back as the next input, within a graph and between graphs of any size", function(pool)
      local step = doubling(pool)
      local x = vector(8)
      for _ = 1, 5 do x = step(x) end
      assert.equal(32, x[1])
      local wide = rp.capture(function(y) return scaled(scaled(scaled(y, 1), 1), 3) end, { pool = pool })
      for _ = 1, 3 do x = wide(step(x)) end
      assert.equal(32 * 216, x[1])
    end)

    spec("cannot be read after their graph was closed", function(pool)
      local step = doubling(pool, { name = "gone" })
      local out = step(vector(3))
      step:graphs()[1]:close()
      assert.error_matches(function() out:totable() end, "this is an output of gone, which is closed")
    end)

    spec("of a graph with outputs = 'copy' stay as they are", function(pool)
      for _, options in ipairs { { outputs = "copy" }, { copy_outputs = true } } do
        local step = doubling(pool, options)
        local a, b = step(vector(2)), step(vector(2, 10))
        assert.same({ 2, 4 }, a:totable())
        assert.same({ 22, 24 }, b:totable())
      end
    end)

    spec("of a graph with outputs = 'own' outlive other graphs, and may be used from outside", function(pool)
      local own = doubling(pool, { outputs = "own", name = "own" })
      local out = own(vector(4))
      doubling(pool)(vector(10000))
      assert.same({ 2, 4, 6, 8 }, out:totable())
      local reader = rp.capture(function() return scaled(out, 10) end, { pool = pool })
      assert.same({ 20, 40, 60, 80 }, reader():totable())
      own(vector(4, 1))
      assert.error_matches(function() out:totable() end, "this output of replay 1 of own was overwritten by replay 2 of own")
      assert.same({ 40, 60, 80, 100 }, reader():totable())
    end)
  end)

  describe("limits", function()
    spec("a pool with a limit raises before it passes it, with the figures, and works on", function(pool)
      local tight = rp.pool { device = dev, limit = 4 << 20 }
      local x = rp.empty({ 3 << 20 }, "u8", tight)
      assert.error_matches(function() rp.empty({ 3 << 20 }, "u8", tight) end,
        "taking 3145728 bytes in zone tensors of " .. name .. ": 2097152 more bytes do not fit into the limit "
        .. "%(pool: 3145728 bytes allocated, 4194304 reserved of at most 4194304")
      x:close()
      rp.empty({ 4 << 20 }, "u8", tight):close()
      assert.equal(4 << 20, tight:figures().limit)
      assert.error_matches(function() rp.pool { device = dev, limit = 0 } end, "limit: bytes from 1 expected, got 0")
      assert.error_matches(function() rp.pool { device = dev, limt = 1 } end, "unknown option 'limt'")
      assert.is_nil(pool:figures().limit)
    end)

    spec("collects garbage before it gives up", function()
      local tight = rp.pool { device = dev, limit = 4 << 20 }
      for _ = 1, 20 do rp.empty({ 3 << 20 }, "u8", tight) end
    end)

    spec("a plan that does not fit fails before anything is built, and leaves nothing", function()
      local tight = rp.pool { device = dev, limit = 2 << 20 }
      local step = doubling(tight)
      assert.error_matches(function() step(vector(1 << 20)) end, "in zone scratch of " .. name)
      assert.equal(0, #step:graphs())
      assert.equal(0, tight:figures().graphs)
      assert.is_false(dev.recording)
    end)

    spec("trim gives whole chunks that nobody names back to the device", function(pool)
      local a, b = rp.empty({ 8 << 20 }, "u8", pool), rp.zeros({ 4 << 20 }, "u8", pool)
      assert.equal(12 << 20, pool:figures().reserved)
      a:close()
      assert.equal(8 << 20, pool:trim())
      assert.equal(4 << 20, pool:figures().reserved)
      assert.equal(0, b[1 << 20])
      assert.equal(5, rp.full({ 8 << 20 }, 5, "u8", pool)[8 << 20])
    end)

    spec("a hundred times create, replay, close leaves the figures as they were", function(pool)
      local function once(n)
        local step = doubling(pool)
        local out = step(vector(n, 0, pool))
        out:close()
        step:close()
        collectgarbage()
        return pool:figures()
      end
      local before = once(1000)
      for _ = 1, 100 do once(1000) end
      local after = pool:figures()
      assert.equal(before.reserved, after.reserved)
      assert.equal(before.allocated, after.allocated)
      assert.equal(before.blocks, after.blocks)
      if name ~= "cpu" then assert.equal(before.device_used, after.device_used) end
    end)
  end)
end)
