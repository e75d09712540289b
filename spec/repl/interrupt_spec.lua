-- Ctrl-C at the prompt during each kind of long work: the prompt is back, and device and pool are fit for use.
local helper = require "spec.helper"
local terminal = require "spec.support.terminal"

local MARK = [[
#include "prelude.cuh"
KERNEL void mark(i32 *y) { for (i32 i = 0; i < %d; i++) y[i] = i; }]]

local SMALL = "model = require 'reprise'.t5.random('small', { seed = 1 })" -- a model that decodes for long,
local MANY = "{ max_new_tokens = 20000, min_new_tokens = 19999 }" -- and how long

-- A script that the prompt begins with; `mark` is a kernel to see that the device works.
local function script(text)
  local path = helper.tmp() .. "/script.lua"
  helper.write(path, text)
  return path
end

-- Runs `line` at a prompt after `setup`; Ctrl-C when READY stands there; `message` must be shown, and the device work.
local function stops(device, setup, line, message)
  terminal.needed()
  local path = script("function ready() print 'READY' io.stdout:flush() end\n" .. (setup or ""))
  local t = terminal.open(helper.quote(helper.program()) .. " -i " .. path, { REPRISE_DEVICE = device })
  t:ready()
  t:type(line .. "\n")
  t:expect "\nREADY"
  t:press "C-c"
  local screen = t:expect(message)
  t:expect "\n>"
  t:enter "x = rp.arange(4):copy(rp.full({ 4 }, 7))"
  assert.truthy(t:enter("x"):find("{7, 7, 7, 7} i32 {4} on " .. device .. "\n", 1, true), t:screen())
  assert.truthy(t:enter("rp.capture(function(a) return a:clone() end)(x)"):find("\n{7, 7, 7, 7} i32", 1, true), t:screen())
  t:enter ":mem"
  t:expect("pool of " .. device)
  return screen, t
end

describe("Ctrl-C at the prompt stops", function()
  it("a loop", function()
    local screen = stops("cpu", nil, "ready() while true do end", "stdin:1: interrupted\nstack traceback:\n")
    assert.truthy(screen:find("        stdin:1: in main chunk\n>", 1, true), screen)
  end)

  it("a loop inside pcall, and one that catches everything", function()
    stops("cpu", nil, "ready() print(pcall(function() while true do end end))", "interrupted")
    stops("cpu", nil, "ready() while true do pcall(function() while true do end end) end", "interrupted")
  end)

  it("a loop in a coroutine, and in coroutines that are made anew", function()
    stops("cpu", nil, "coroutine.wrap(function() ready() while true do end end)()", "interrupted")
    stops("cpu", nil, "ready() while true do coroutine.wrap(function() while true do end end)() end", "interrupted")
    stops("cpu", nil, "ready() while true do coroutine.resume(coroutine.create(function() while true do end end)) end", "interrupted")
  end)

  it("a loop that :time runs", function()
    stops("cpu", "function long() if not once then once = true ready() end while true do end end", ":time long()", "interrupted")
  end)

  it("the printing of a result", function()
    local setup = "slow = setmetatable({}, { __tostring = function() ready() while true do end end })"
    stops("cpu", setup, "slow", "interrupted")
  end)

  it("a command that runs", function() stops("cpu", nil, "ready() print(os.execute 'sleep 60')", "signal") end)

  helper.each_device(function(device)
    it("a long generation, whose model goes on", function()
      local setup = "model = require 'reprise'.t5.load 'scripts/models/g2p'"
      local line = "ready() while true do model:generate('knowledge', { num_beams = 5, min_new_tokens = 60, max_new_tokens = 64 }) end"
      local _, t = stops(device, setup, line, "interrupted")
      assert.truthy(t:enter("model:generate('knowledge')[1].text"):find('"N AA1 L IH0 JH"', 1, true), t:screen())
    end)

    it("one generation of many tokens, inside the device's loop", function()
      local line = "ready() model:generate({ 3, 4, 5 }, " .. MANY .. ")"
      local _, t = stops(device, SMALL, line, "interrupted")
      assert.truthy(t:enter("#model:generate({ 3, 4, 5 }, { max_new_tokens = 4 })[1].ids <= 4"):find("\ntrue\n", 1, true), t:screen())
    end)

    it("a stream", function()
      local line = "for i in model:stream({ 3, 4, 5 }, " .. MANY .. ") do if not b then b = 1 ready() end end"
      stops(device, SMALL, line, "interrupted")
    end)

    it("step:run", function()
      local setup = "step = require 'reprise'.capture(function(a) return a:clone() end) y = require 'reprise'.zeros { 1 << 16 } step(y)"
      local _, t = stops(device, setup, "ready() step:run { max = 4000000000 }", "interrupted while decoding")
      assert.truthy(t:enter("#step(y)"):find("\n65536\n", 1, true), t:screen())
    end)

    it("a compilation, which succeeds when it is asked for again", function()
      terminal.needed()
      helper.needs_compiler(device)
      local folder = helper.tmp()
      local lines = { '#include "prelude.cuh"' }
      for i = 1, device == "cpu" and 4000 or 150 do -- NVRTC goes on to its end: the interrupt is answered then
        lines[#lines + 1] = ("KERNEL void k%d(float *y, i32 n) { for (i32 i = THREAD; i < n; i += THREADS) y[i] = tanhf(y[i] * %d.5f); }"):format(i, i)
      end
      helper.write(folder .. "/long.cu", table.concat(lines, "\n"))
      helper.write(folder .. "/short.cu", MARK:format(4))
      local setup = ("source, short = %q, %q"):format(folder .. "/long.cu", folder .. "/short.cu")
      local _, t = stops(device, setup, "ready() rp.compile { file = source }", "interrupted while compiling")
      t:enter "y = rp.zeros({ 4 }, 'i32') rp.compile { file = short }.mark { grid = 1, block = 32, y }"
      assert.truthy(t:enter("y"):find("{0, 1, 2, 3} i32 {4}", 1, true), t:screen())
    end)
  end)

  it("a launch of many blocks on the processor", function()
    helper.needs_compiler "cpu"
    local setup = [=[
      many = require "reprise".compile { source = [[
      __global__ void many(unsigned long long *y, long long n) {
        for (long long i = 0; i < n; i++) y[blockIdx.x] = y[blockIdx.x] * 3 + i;
      }]] }.many
      z = require "reprise".zeros({ 60000 }, "i64")]=]
    stops("cpu", setup, "ready() many { grid = 60000, block = 32, z, 3000000 }", "interrupted")
  end)
end)
