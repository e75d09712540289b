--- Capture and replay: what is recorded, what is refused, and that a replay computes what eager calls compute.
local helper = require "spec.helper"
local rp = require "reprise"

local SOURCE = [[
#include "prelude.cuh"
KERNEL void scale (float *y, const float *x, float a, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += (i32)(BLOCKS * THREADS)) y[i] = a * x[i];
}
KERNEL void add (float *y, const float *x, const float *z, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += (i32)(BLOCKS * THREADS)) y[i] = x[i] + z[i];
}
KERNEL void count (i32 *state) { if (BLOCK == 0 && THREAD == 0) state[0] += 1; }
]]

helper.each_device(function(name)
  local dev, prog

  setup(function()
    dev = rp.device(name)
    if not helper.compiler() and name == "cpu" then return end
    prog = rp.compile { source = SOURCE, device = dev }
  end)

  local function needs_program()
    if not prog then helper.needs_compiler(name) end
    return prog ~= nil
  end

  local function vector(n, first)
    local t = {}
    for i = 1, n do t[i] = (first or 0) + i end
    return rp.tensor(t, "f32", dev)
  end

  local function scaled(x, a)
    local n = x.shape[1]
    local y = rp.empty({ n }, "f32", dev)
    prog.scale { grid = 4, block = 64, y, x, a, n }
    return y
  end

  --- A chain with many temporaries of different lives.
  local function network(x)
    local n, sum = x.shape[1], scaled(x, 0.5)
    for i = 1, 12 do
      local y = scaled(sum, 1 / i)
      local z = rp.empty({ n }, "f32", dev)
      prog.add { grid = 2, block = 32, z, y, i % 3 == 0 and x or sum, n }
      sum = z
    end
    return sum, scaled(sum, 2)
  end

  describe("a captured function", function()
    it("belongs to the device of its first input where none was named", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return scaled(x, 2) end)
      local y = step(vector(2))
      assert.equal(dev, y.device)
      assert.same({ 2, 4 }, y:totable())
    end)

    it("computes what it computes eagerly, bit for bit, at every replay", function()
      if not needs_program() then return end
      local step = rp.capture(network, { name = "net", device = dev })
      for round = 1, 4 do
        local x = vector(1000, round)
        local a, b = network(x)
        local c, d = step(x)
        assert.is_true(a:equal(c))
        assert.is_true(b:equal(d))
      end
      assert.equal(1, #step:graphs())
      assert.equal(4, step:graphs()[1].replays)
    end)

    it("gives the same with its nodes in parallel branches", function()
      if not needs_program() then return end
      local x = vector(500)
      local chain = rp.capture(network, { device = dev })(x):totable()
      assert.same(chain, rp.capture(network, { device = dev, parallel = true })(x):totable())
    end)

    it("keeps one graph for each shape of its inputs, up to max_graphs", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return scaled(x, 3) end, { device = dev, max_graphs = 3 })
      for _, n in ipairs { 4, 8, 4, 12, 16, 8 } do
        assert.same(scaled(vector(n), 3):totable(), step(vector(n)):totable())
      end
      local graphs = step:graphs()
      assert.equal(3, #graphs)
      assert.equal(graphs[1].replays, 1)
    end)

    it("packs temporaries into less than their sum and reports the lower bound", function()
      if not needs_program() then return end
      local step = rp.capture(network, { device = dev })
      step(vector(1024))
      local g = step:graphs()[1]
      assert.is_true(g.plan.peak >= g.plan.lower_bound)
      assert.is_true(g.plan.peak <= 1.05 * g.plan.lower_bound)
      assert.is_true(g.plan.peak < 26 * 4096)
      assert.equal(26, g.nodes)
    end)

    it("gives the same plan for the same record", function()
      if not needs_program() then return end
      local one, two = rp.capture(network, { device = dev }), rp.capture(network, { device = dev })
      one(vector(64)); two(vector(64))
      local a, b = one:graphs()[1]:manifest(), two:graphs()[1]:manifest()
      for i, node in ipairs(a) do
        for k, arg in ipairs(node.args) do
          if arg.zone == "scratch" then assert.equal(arg.from, b[i].args[k].from) end
        end
      end
    end)

    it("keeps state in outside tensors, which it keeps alive", function()
      if not needs_program() then return end
      local state = rp.zeros({ 1 }, "i32", dev)
      local view = state:view({ 1 })
      local step = rp.capture(function() prog.count { state }; return state end, { device = dev })
      step()
      state:close()
      collectgarbage()
      rp.full({ 1 }, 99, "i32", dev)
      for _ = 1, 4 do step() end
      assert.equal(5, view:item())
    end)

    it("leaves graphs and outputs to their handles when the captured function is collected", function()
      if not needs_program() then return end
      local pool = rp.pool { device = dev }
      local state = rp.zeros({ 1000000 }, "i32", dev)
      local function captured()
        local step = rp.capture(function() prog.count { state } return state:clone() end, { pool = pool })
        return step(), step:graphs()[1]
      end
      local function output()
        local out, graph = captured()
        for _ = 1, 2 do collectgarbage() end
        assert.equal("graph", graph.name)
        assert.is_true(#graph:manifest() > 0)
        return out
      end
      local out = output()
      for _ = 1, 2 do collectgarbage() end
      pool:trim()
      assert.is_true(pool:figures().scratch.allocated >= out.bytes)
      assert.equal(1, out[1])
      out:close()
      assert.equal(0, pool:figures().scratch.allocated)
      pool:trim()
      assert.equal(0, pool:figures().scratch.reserved)
    end)

    it("runs again and again with run, from the inputs as the slots hold them", function()
      if not needs_program() then return end
      local state = rp.zeros({ 1 }, "i32", dev)
      local step = rp.capture(function() prog.count { state } end, { device = dev })
      assert.error_matches(function() step:run { max = 2 } end, "it was not called yet")
      step()
      assert.equal(7, step:run { max = 7 })
      assert.equal(8, state:item())
      assert.error_matches(function() step:run {} end, "the number of steps expected")
      assert.error_matches(function() step:run { max = 1, ahead = 2 } end, "option ahead: it needs a signal to stop by")
    end)

    it("copies an input that it returns", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return x, scaled(x, 1) end, { device = dev })
      local x = vector(3)
      assert.same({ 1, 2, 3 }, (step(x)):totable())
      assert.equal("copy", step:graphs()[1]:manifest()[2].kind)
    end)

    it("takes views as inputs: transposed, offset, repeated", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) local y = rp.empty(x.shape, "f32", dev); y:copy(x); return y end, { device = dev })
      local x = rp.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "f32", dev)
      assert.same({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, step(x:transpose(1, 2)):totable())
      assert.same({ { 2, 3 }, { 5, 6 } }, step(x:slice(2, 2, 3)):totable())
      assert.same({ { 4, 5, 6 }, { 4, 5, 6 } }, step(x[2]:expand({ 2, 3 })):totable())
    end)

    it("records in a coroutine resumed inside, and refuses to be yielded out of", function()
      if not needs_program() then return end
      local step = rp.capture(function(x)
        local co = coroutine.wrap(function() coroutine.yield(scaled(x, 2)) end)
        return co()
      end, { device = dev })
      assert.same({ 2, 4 }, step(vector(2)):totable())
      local out = rp.capture(function(x) coroutine.yield(); return scaled(x, 2) end, { device = dev })
      local ok, why = coroutine.resume(coroutine.create(function() out(vector(2)) end))
      assert.is_false(ok)
      assert.matches("attempt to yield", why)
      assert.same({ 2, 4 }, step(vector(2)):totable())
    end)

    it("warms up only when that cannot change state", function()
      if not needs_program() then return end
      local calls, state = 0, rp.zeros({ 1 }, "i32", dev)
      local step = rp.capture(function(x) calls = calls + 1; return scaled(x, 2) end, { device = dev, warmup = 2 })
      step(vector(2))
      assert.equal(3, calls)
      local bad = rp.capture(function() prog.count { state } end, { device = dev, warmup = 1 })
      assert.error_matches(function() bad() end, "writes a tensor from outside")
      assert.equal(0, state:item())
    end)
  end)

  describe("a graph", function()
    it("lists its nodes with arguments, byte ranges and lines", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return scaled(scaled(x, 2), 3) end, { device = dev })
      step(vector(4))
      local nodes = step:graphs()[1]:manifest()
      assert.equal(2, #nodes)
      assert.equal("scale", nodes[1].kernel)
      assert.matches("capture_spec.lua:%d+$", nodes[1].where)
      assert.equal("slots", nodes[1].args[2].zone)
      assert.equal("read", nodes[1].args[2].access)
      assert.equal("update", nodes[1].args[1].access)
      assert.equal(16, nodes[1].args[1].to - nodes[1].args[1].from)
      assert.equal(2.0, nodes[1].args[3].value)
      assert.same({ { 1, 2 } }, nodes.edges)
    end)

    it("orders independent nodes only where bytes are shared", function()
      if not needs_program() then return end
      local step = rp.capture(function(x)
        local a, b = scaled(x, 2), scaled(x, 3)
        local c = rp.empty({ 4 }, "f32", dev)
        prog.add { c, a, b, 4 }
        return c
      end, { device = dev })
      step(vector(4))
      assert.same({ { 2, 3 }, { 1, 3 } }, step:graphs()[1]:manifest().edges)
    end)

    it("draws itself", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return scaled(scaled(x, 2), 3) end, { device = dev, name = 'a "name"' })
      step(vector(4))
      local file = helper.tmp() .. "/g.dot"
      step:graphs()[1]:dot(file)
      local text = helper.read(file)
      assert.matches('^digraph "a \\"name\\""', text)
      assert.matches("n1 %-> n2;", text)
    end)

    it("can be closed; the function records again when it is called", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return scaled(x, 2) end, { device = dev })
      step(vector(2))
      local g = step:graphs()[1]
      g:close()
      assert.error_matches(function() g:manifest() end, "the graph is closed")
      assert.same({ 2, 4 }, step(vector(2)):totable())
      step:close()
      assert.error_matches(function() step(vector(2)) end, "the captured function is closed")
    end)

    it("is updated: patched when only values changed, rebuilt when more did", function()
      if not needs_program() then return end
      local step = rp.capture(function(x) return scaled(scaled(x, 2), 3) end, { device = dev })
      step(vector(2))
      local g = step:graphs()[1]
      assert.equal("patched", g:update(function(x) return scaled(scaled(x, 5), 3) end))
      assert.same({ 15, 30 }, step(vector(2)):totable())
      assert.equal("rebuilt", g:update(function(x) return scaled(x, 7), x end))
      local y, x = step(vector(2))
      assert.same({ 7, 14 }, y:totable())
      assert.same({ 1, 2 }, x:totable())
      assert.error_matches(function() g:update(function() end) end, "the function launched nothing")
      assert.same({ 7, 14 }, (step(vector(2))):totable())
      assert.error_matches(function() g:update(5) end, "function expected, got number")
    end)

    it("follows the outside tensors of its update", function()
      if not needs_program() then return end
      local one, two = vector(2), vector(2, 10)
      local step = rp.capture(function() return scaled(one, 2) end, { device = dev })
      assert.same({ 2, 4 }, step():totable())
      assert.equal("patched", step:graphs()[1]:update(function() return scaled(two, 2) end))
      one:close()
      collectgarbage()
      assert.same({ 22, 24 }, step():totable())
    end)

    it("is patched with parameters that were set since", function()
      if not needs_program() then return end
      local a = rp.param("f32", 2)
      local step = rp.capture(function(x) return scaled(x, a) end, { device = dev })
      assert.same({ 2, 4 }, step(vector(2)):totable())
      a:set(10)
      assert.same({ 10, 20 }, step(vector(2)):totable())
      assert.equal(10, a.value)
      assert.error_matches(function() a:set("x") end, "number expected, got string")
      assert.error_matches(function() scaled(vector(2), rp.param("i32", 1)) end, "argument 3 %(float a%): a parameter of type i32 does not fit")
    end)
  end)

  describe("during capture", function()
    local function refused(fn, pattern)
      local step = rp.capture(fn, { device = dev })
      assert.error_matches(function() step(vector(2)) end, pattern)
      local works = rp.capture(function(x) return scaled(x, 2) end, { device = dev })
      assert.same({ 2, 4 }, works(vector(2)):totable())
    end

    it("reading, waiting, uploading and replaying raise, and the next capture works", function()
      if not needs_program() then return end
      local other = rp.capture(function(x) return scaled(x, 2) end, { device = dev })
      other(vector(2))
      refused(function(x) return scaled(x, x[1]) end, "reading values: not allowed during capture")
      refused(function(x) x:totable() end, "reading values: not allowed during capture")
      refused(function() dev:synchronize() end, "not allowed during capture")
      refused(function() rp.tensor({ 1 }, "f32", dev) end, "uploading values: not allowed during capture")
      refused(function() rp.arange(3, "i32", dev) end, "uploading values: not allowed during capture")
      refused(function(x) other(x) end, "a replay is not allowed during capture")
      refused(function() other:run { max = 1 } end, "replaying graph: not allowed during capture")
      refused(function(x) rp.capture(function(y) return scaled(y, 1) end, { device = dev })(x) end, "not allowed during capture")
      refused(function() dev:close() end, "not allowed during capture")
    end)

    it("an error names the line that did it", function()
      if not needs_program() then return end
      local line
      local step = rp.capture(function(x)
        line = debug.getinfo(1, "l").currentline + 1
        return x:item()
      end, { device = dev })
      local _, why = pcall(step, vector(1))
      assert.equal("reading values: not allowed during capture", why:match("capture_spec.lua:" .. line .. ": (.*)"))
    end)

    it("writing an input raises and says what to do", function()
      if not needs_program() then return end
      refused(function(x) prog.scale { x, x, 2, 2 } end, "argument 1 %(float %*y%) would write input 1.*state that changes is a tensor from outside")
      refused(function(x) x:fill(0) end, "would write input 1")
    end)

    it("an empty capture, a temporary never written, and a result that is no tensor raise", function()
      if not needs_program() then return end
      refused(function() end, "the function launched nothing, so there is no graph")
      refused(function() return scaled(rp.empty({ 2 }, "f32", dev), 1) end, "a temporary that nothing has written yet")
      refused(function(x) scaled(x, 1); return rp.empty({ 2 }, "f32", dev) end, "output 1 was never written")
      refused(function(x) scaled(x, 1); return 5 end, "result 1: tensor expected, got number")
    end)

    it("an output of another graph used from outside raises and says what to do", function()
      if not needs_program() then return end
      local other = rp.capture(function(x) return scaled(x, 2) end, { device = dev })
      local out = other(vector(2))
      refused(function() return scaled(out, 1) end, "an output of another graph is used as an outside tensor: "
        .. "pass it as an input, clone it before, or capture that graph with outputs = \"own\"")
    end)

    it("printing shows no values, and views and compiling are allowed", function()
      if not needs_program() then return end
      local shown
      local step = rp.capture(function(x)
        shown = tostring(x)
        local y = scaled(x:view({ 2, 1 }):view({ 2 }), 2)
        shown = shown .. tostring(y)
        return y
      end, { device = dev })
      assert.same({ 2, 4 }, step(vector(2)):totable())
      assert.equal(("tensor f32 {2} on NAME, no values while a capture is open"):gsub("NAME", name):rep(2), shown)
    end)

    it("a temporary kept past the capture raises when it is used", function()
      if not needs_program() then return end
      local kept
      local step = rp.capture(function(x) kept = scaled(x, 2); return scaled(kept, 2) end, { device = dev })
      step(vector(2))
      assert.error_matches(function() kept:totable() end, "was a temporary of a captured function and was not returned by it")
    end)

    it("an error of the function comes out unchanged", function()
      if not needs_program() then return end
      local thrown = {}
      local step = rp.capture(function(x) scaled(x, 2); error(thrown) end, { device = dev })
      local ok, got = pcall(step, vector(2))
      assert.is_false(ok)
      assert.equal(thrown, got)
      assert.is_false(dev.recording)
    end)
  end)

  describe("options of capture", function()
    it("are checked, each with one sentence", function()
      local function bad(options, pattern)
        options.device = dev
        assert.error_matches(function() rp.capture(function() end, options) end, pattern)
      end
      bad({ nmae = "x" }, "unknown option 'nmae'")
      bad({ outputs = "mine" }, '"shared", "own" or "copy" expected, got mine')
      bad({ outputs = "shared", copy_outputs = true }, "contradict each other")
      bad({ max_graphs = 0 }, "option max_graphs: an integer from 1 expected, got 0")
      bad({ reserve = { x = 1 } }, "option reserve")
      assert.error_matches(function() rp.capture(5) end, "function expected, got number")
    end)

    it("of reserve makes the place of an input large from the start", function()
      if not needs_program() then return end
      local pool = rp.pool { device = dev }
      local step = rp.capture(function(x) return scaled(x, 2) end, { pool = pool, reserve = { 4096 } })
      step(vector(2)); step(vector(1000))
      assert.equal(4096, pool:figures().slots.allocated)
    end)
  end)

  describe("launching", function()
    local function bad(args, pattern)
      assert.error_matches(function() prog.scale(args) end, pattern)
    end

    it("checks every argument against the signature", function()
      if not needs_program() then return end
      local x = vector(2)
      bad({ x, x, "2", 2 }, "launching scale: argument 3 %(float a%): number expected, got string")
      bad({ x, x, 2, 2.5 }, "argument 4 %(i32 n%): 2.5 is not an integer")
      bad({ x, x, 2, 1 << 40 }, "argument 4 %(i32 n%): 1099511627776 does not fit into 32 bits")
      bad({ x, x, 1e300, 2 }, "argument 3 %(float a%): 1e%+300 is too large")
      bad({ x, 5, 2, 2 }, "argument 2 %(const float %*x%): tensor expected")
      bad({ x, x, 2 }, "argument 4 %(i32 n%): missing")
      bad({ x, x, 2, 2, 2 }, "argument 5: it has 4 parameters")
      bad({ x, x:to "f16", 2, 2 }, "argument 2 %(const float %*x%): a tensor of f16 does not fit")
      bad({ x, x, 2, 2, grdi = 1 }, "unknown field 'grdi'")
      bad({ x, x, 2, 2, grid = -1 }, "grid: counts from 0")
      bad({ x, rp.zeros({ 4, 2 }, "f32", dev):slice(2, 1, 1), 2, 2 }, "clone it first")
      x:close()
      bad({ x, x, 2, 2 }, "argument 1 %(float %*y%): the tensor is closed")
      assert.error_matches(function() return prog.nothing end, "no kernel named 'nothing'; it has scale, add, count")
    end)

    it("takes a float with an integer value for an integer, and false for a null pointer", function()
      if not needs_program() then return end
      local x, y = vector(2), rp.zeros({ 2 }, "f32", dev)
      prog.scale { y, x, 2, 2.0 }
      assert.same({ 2, 4 }, y:totable())
      prog.scale { false, false, 2, 0 }
    end)
  end)
end)
