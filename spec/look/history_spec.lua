--- Recording a pool: what is kept, what it costs others, and that a long run stays bounded.
local helper = require "spec.helper"
local rp = require "reprise"
local core = require "reprise.core"

helper.each_device(function(name)
  local dev, pool, history

  before_each(function()
    dev = rp.device(name)
    pool = rp.pool { device = dev }
  end)

  after_each(function()
    if history then history:close() end
    history = nil
  end)

  local function copying(options)
    options = options or {}
    options.pool, options.name = pool, "copying"
    return rp.capture(function(x)
      local y = x:clone()
      y:fill(2)
      return y:clone()
    end, options)
  end

  local function vector(n) return rp.full({ n }, 1, "f32", pool) end

  describe("a recorded pool", function()
    it("has its figures after every change, with the peak", function()
      history = core.history(pool)
      local a = vector(256)
      local b = vector(512)
      a:close()
      b:close()
      history:stop()
      vector(4096):close() -- no more
      local r = history:report()
      local most = 0
      for _, bytes in ipairs(r.moments.tensors) do most = math.max(most, bytes) end
      assert.equal(3072, most)
      assert.equal(0, r.moments.tensors[#r.moments.tensors])
      assert.equal(r.changes, #r.moments.at)
      assert.is_true(r.moments.reserved_tensors[#r.moments.at] >= 3072)
      for i = 2, #r.moments.at do assert.is_true(r.moments.at[i] >= r.moments.at[i - 1]) end
      assert.is_true(r.duration >= r.moments.at[#r.moments.at])
    end)

    it("has a graph with its plan, its nodes and when it was there", function()
      history = core.history(pool)
      local step = copying()
      for _ = 1, 3 do step(vector(300)) end
      local plan = step:graphs()[1].plan
      step:close()
      local r = history:report()
      assert.equal(1, #r.graphs)
      local g = r.graphs[1]
      assert.equal("copying", r.names[g.name])
      assert.same({ plan.peak, plan.lower_bound, 3, 1200 }, { g.peak, g.lower_bound, g.replays, g.inputs })
      assert.equal(3, g.node_count)
      assert.same({ 1280 * 2, 1 }, { g.apart, g.outputs })
      assert.is_true(g.made <= r.spans.from[1] and r.spans.to[3] <= g.closed)
      assert.same({ 1, 1, 1 }, r.spans.graph)
      assert.same({ 1, 3 }, g.lives.first)
      assert.same({ 3, 3 }, g.lives.last)
      assert.same({ 0, 1 }, g.lives.output)
      for i = 1, 2 do assert.is_true(g.lives.offset[i] + g.lives.bytes[i] <= g.peak) end
      assert.same({ 1200, 0, 1200 }, g.nodes.reads)
      assert.same({ 1200, 1200, 1200 }, g.nodes.writes)
      assert.equal("fill", r.names[g.nodes.kernel[2]])
    end)

    it("knows graphs that were made before, once they are replayed", function()
      local step = copying()
      step(vector(10))
      history = core.history(pool)
      assert.equal(0, #history:report().graphs)
      step(vector(10))
      step(vector(20))
      local r = history:report()
      assert.same({ 2, 1, 1 }, { #r.graphs, r.graphs[1].replays, r.graphs[2].replays })
    end)

    it("times each kernel when asked to, inside and outside of graphs, and computes the same", function()
      local step = copying()
      local expected = step(vector(100)):totable()
      history = core.history(dev.pool, true)
      local eager = rp.full({ 8 }, 1, "f32", dev)
      history:close()
      history = core.history(pool, true)
      for _ = 1, 5 do assert.same(expected, step(vector(100)):totable()) end
      local r = history:report()
      assert.is_true(r.timed)
      assert.same({ 5, 5, 5 }, r.graphs[1].nodes.timed)
      for i = 1, 3 do
        assert.is_true(r.graphs[1].nodes.least[i] * 5 <= r.graphs[1].nodes.time[i] + 5)
      end
      local inside, outside = 0, 0
      for i, graph in ipairs(r.slices.graph) do
        if graph == 1 then inside = inside + 1 else outside = outside + 1 end
        assert.is_true(r.slices.from[i] <= r.slices.to[i])
      end
      assert.equal(15, inside)
      assert.is_true(outside >= 5, "the inputs were filled and copied")
      assert.equal(8, eager.elements)
    end)

    it("follows an updated graph and new parameters while it is timed", function()
      local by = rp.param("f32", 2)
      if name == "cpu" and not helper.compiler() then helper.needs_compiler(name) end
      local prog = rp.compile { device = dev, source = [[
#include "prelude.cuh"
KERNEL void scale(float *y, const float *x, float a, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += (i32)(BLOCKS * THREADS)) y[i] = a * x[i];
}
]] }
      local step = rp.capture(function(x)
        local y = rp.empty({ 4 }, "f32", dev)
        prog.scale { grid = 1, block = 32, y, x, by, 4 }
        return y
      end, { pool = pool })
      history = core.history(pool, true)
      local x = vector(4)
      assert.same({ 2, 2, 2, 2 }, step(x):totable())
      by:set(5)
      assert.same({ 5, 5, 5, 5 }, step(x):totable())
    end)

    it("is recorded once at a time, and is the pool's again afterwards", function()
      history = core.history(pool)
      assert.error_matches(function() core.history(pool) end, "recording the pool of " .. name .. ": it is being recorded already")
      history:close()
      history = core.history(pool)
      assert.matches("^history of the pool of " .. name .. ": %d+ changes?, 0 replays$", tostring(history))
      history:close()
      assert.equal("history, closed", tostring(history))
      assert.error_matches(function() history:report() end, "the history is closed")
      history = nil
    end)

    it("may be dropped while it is recorded", function()
      local other = rp.pool { device = dev }
      local blocks = core.memory_live()
      for _ = 1, 3 do
        core.history(other)
        collectgarbage()
        collectgarbage()
      end
      assert.is_true(core.memory_live() <= blocks)
    end)
  end)

  describe("a long run", function()
    it("keeps at most so many moments, and the peak among them", function()
      history = core.history(pool)
      local function churn(times)
        for _ = 1, times do rp.empty({ 64 }, "f32", pool):close() end
      end
      churn(15000)
      rp.empty({ 1 << 16 }, "f32", pool):close()
      churn(45000)
      local r = history:report()
      assert.is_true(r.changes > 120000)
      assert.is_true(#r.moments.at <= 16384 and #r.moments.at >= 8192, #r.moments.at)
      local most = 0
      for _, bytes in ipairs(r.moments.tensors) do most = math.max(most, bytes) end
      assert.equal(1 << 18, most)
    end)

    it("keeps at most so many spans and slices, and counts all", function()
      local step, x = copying(), vector(10)
      step(x)
      history = core.history(pool, true)
      for _ = 1, 20000 do step(x):close() end
      local r = history:report()
      local sum = 0
      for i, times in ipairs(r.spans.replays) do
        sum = sum + times
        assert.is_true(i == 1 or r.spans.to[i - 1] <= r.spans.from[i])
      end
      assert.same({ 20000, 20000, 20000 }, { r.replays, sum, r.graphs[1].replays })
      assert.is_true(#r.spans.from <= 16384)
      assert.is_true(#r.slices.from <= 32768 and #r.slices.from > 32000)
    end)

    it("draws so many graphs in full, and the rest by their sums", function()
      local step = rp.capture(function(x) return x:clone() end, { pool = pool, max_graphs = 400 })
      history = core.history(pool)
      for n = 1, 300 do step(vector(n)) end
      local r = history:report()
      assert.equal(300, #r.graphs)
      assert.truthy(r.graphs[256].nodes)
      assert.is_nil(r.graphs[257].nodes)
      assert.equal(1, r.graphs[300].node_count)
      assert.equal(257 * 4, r.graphs[257].inputs)
    end)
  end)

  describe("without host memory", function()
    it("a recording is torn, and the work goes on", function()
      local step, x = copying(), vector(10)
      step(x)
      history = core.history(pool)
      local right, torn = 0, false
      for after = 0, 12 do
        core.memory_fail_after(after)
        local ok, out = pcall(step, x)
        core.memory_fail_after(-1)
        if ok and out:totable()[1] == 2 then right = right + 1 end
        torn = torn or history:report().torn
      end
      assert.is_true(right >= 8, right)
      assert.is_true(torn)
    end)
  end)
end)
