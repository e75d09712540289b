--- What the prompt shows: tables with cycles and limits, and the values of reprise in short and long.
local helper = require "spec.helper"
local rp = require "reprise"
local print_module = require "reprise.print"

local show, brief = print_module.show, print_module.brief

describe("showing a plain value", function()
  it("writes it as a Lua constant", function()
    assert.equal('"a\\n\\t\\"b\\"\\0"', show "a\n\t\"b\"\0")
    assert.equal('"\\xff\\xfe"', show "\xff\xfe")
    assert.equal('"grün"', show "grün")
    assert.equal("1.5", show(1.5))
    assert.equal("nil", show(nil))
    assert.equal("true", show(true))
  end)

  it("says what a function takes and where it stands", function()
    assert.matches("^function%(a, b, %.%.%.%) .*print_spec%.lua:%d+$", show(function(a, b, ...) return a, b, ... end))
    assert.equal("function (built in)", show(print))
    assert.equal("coroutine, suspended", show(coroutine.create(print)))
  end)
end)

describe("showing a table", function()
  it("is one line where that holds it, keys sorted, odd keys in brackets", function()
    assert.equal('{ 1, 2, [2.5] = 4, ["end"] = 3, name = "x", [true] = 5 }',
      show { 1, 2, name = "x", ["end"] = 3, [2.5] = 4, [true] = 5 })
    assert.equal("{}", show {})
  end)

  it("breaks what is wider, an item a line, and fills lines with plain items", function()
    local t = { first = ("x"):rep(40), second = ("y"):rep(40) }
    assert.equal(('{\n  first = "%s",\n  second = "%s"\n}'):format(t.first, t.second), show(t))
    local list = {}
    for i = 1, 60 do list[i] = i end
    for line in show(list):gmatch "[^\n]+" do assert.is_true(#line <= 80) end
    assert.equal(6, select(2, show(list):gsub("\n", "")) + 1 + 1)
  end)

  it("is what Lua reads back, when nothing was left out", function()
    local t = { 1, 2.5, "x\0\n", { a = { b = { true, false } } }, ["1"] = "one", [-3] = math.mininteger }
    local back = assert(load("return " .. show(t, { depth = 10 })))()
    assert.same(t, back)
  end)

  it("names a table inside itself by its path", function()
    local t = { name = "a" }
    t.self, t.child = t, { list = { 1 } }
    t.child.list[2], t.child.up = t.child, t
    assert.equal('{\n  child = { list = { 1, <cycle: root.child> }, up = <cycle: root> },\n  name = "a",\n  self = <cycle: root>\n}', show(t))
  end)

  it("shows a table twice that is named twice without being inside itself", function()
    local shared = { 1 }
    assert.equal("{ { 1 }, { 1 } }", show { shared, shared })
  end)

  it("stops at a depth and at a number of items", function()
    assert.equal("{ a = { b = { c = { d = {...}, e = {} } } } }", show { a = { b = { c = { d = { 1 }, e = {} } } } })
    assert.equal("{ a = {...} }", show({ a = { 1 } }, { depth = 1 }))
    assert.equal("{ 1, 2, ... 3 more }", show({ 1, 2, 3, x = 4, y = 5 }, { items = 2 }))
    local deep = {}
    for _ = 1, 10000 do deep = { deep } end
    assert.equal("{ { { { {...} } } } }", show(deep))
    assert.error_matches(function() show({}, { depth = -1 }) end, "show: depth: a whole number expected, got %-1")
    assert.error_matches(function() show({}, 3) end, "show: options: table expected, got number")
  end)

  it("asks no metamethods but __tostring", function()
    local odd = setmetatable({ 1 }, { __pairs = error, __index = error, __len = error })
    assert.equal("{ 1 }", show(odd))
    assert.equal("{ a point }", show { setmetatable({}, { __tostring = function() return "a point" end }) })
  end)
end)

helper.each_device(function(name)
  describe("showing a value of reprise", function()
    local dev, step
    setup(function()
      dev = rp.device(name)
      step = rp.capture(function(x)
        local y = x:clone()
        y:fill(1)
        return y:to "f16"
      end, { device = dev, name = "copying" })
      step(rp.zeros({ 300 }, "f32", dev))
      step(rp.zeros({ 300 }, "f32", dev))
    end)

    it("gives the values of a tensor, and inside a table a few words without reading it", function()
      local x = rp.tensor({ 1, 2 }, "f32", dev)
      assert.equal("{1., 2.} f32 {2} on " .. name, show(x))
      local before = dev.downloaded
      assert.equal("{ x = tensor f32 {2} on " .. name .. " }", show { x = x })
      assert.equal("tensor f32 {2} on " .. name, brief(x))
      x:close()
      assert.equal("{ tensor f32 {2}, closed }", show { x })
      assert.equal(before, dev.downloaded)
    end)

    it("gives a device and its pool in a line, and with figures", function()
      assert.matches("^device " .. name, tostring(dev))
      assert.matches("\n  arch    .*\n  units   .*\n  memory  .* free of .*\n  pool    pool of ", show(dev))
      assert.matches("^pool of " .. name .. ": .* allocated %(peak .*%), .* reserved, %d+ blocks?, %d+ graphs?$", tostring(dev.pool))
      assert.matches("\n  tensors .*\n  slots .*\n  scratch .*\n  all .*\n  inputs of graphs: .* copied, .* in place already$", show(dev.pool))
    end)

    it("gives a captured function and its graphs", function()
      assert.equal("captured function copying: 1 graph", tostring(step))
      local graph = step:graphs()[1]
      assert.equal("graph copying: 3 nodes, plan 2.00 KiB (lower bound 2.00 KiB), 2 replays", tostring(graph))
      assert.equal(tostring(step) .. "\n  " .. tostring(graph), show(step))
      local sheet = { tostring(graph), "nodes   1 convert, 1 copy_bytes, 1 fill", "order   2 edges once reduced",
        "plan    2.00 KiB, lower bound 2.00 KiB", "inputs  2.34 KiB copied, 0 bytes in place already" }
      assert.equal(table.concat(sheet, "\n  "), (show(graph):gsub("\n  driver [^\n]*", "")))
      graph:close()
      assert.equal("graph, closed", show(graph))
    end)

    it("gives a program with the signatures of its kernels", function()
      helper.needs_compiler(name)
      local prog = rp.compile { device = dev, name = "two.cu", source = [[
#include "prelude.cuh"
KERNEL void one(float *y, i32 n) { for (i32 i = THREAD; i < n; i += THREADS) y[i] = 1; }
KERNEL void two(const float *x, float *y) { if (THREAD == 0) y[0] = x[0]; }
]] }
      assert.equal("program two.cu on " .. name .. ": 2 kernels", tostring(prog))
      assert.matches("\n  one %(f32 %*y, i32 n%)\n  two %(const f32 %*x, f32 %*y%)$", (show(prog):gsub("float", "f32"):gsub("f32%* ", "f32 *")))
      assert.matches("^kernel one %(.*\n  device  " .. name .. "\n  waits   no$", show(prog.one))
      prog:close()
      assert.equal("program, closed", show(prog))
    end)

    it("gives a model in a line, and what it has done", function()
      local model = rp.t5.load("scripts/models/g2p", { device = dev })
      model:generate "bee"
      assert.matches("^T5 scripts/models/g2p on " .. name .. ": 4 %+ 4 layers, [%d.]+ MiB of weights in f16 and f32$", tostring(model))
      assert.matches("\n  vocabulary  384\n  caches      f32\n  graphs      1 alive, 1 captured, .*\n  decoded     %d+ steps in ", show(model))
      assert.matches("^{\n? *T5 scripts", show { model })
    end)
  end)
end)
