-- Texts that C cut at their first NUL byte, so that another thing was compiled, opened or found than was asked for; files
-- closed by a finalizer in the middle of a call on them, which then read memory that was no longer mapped; and unsigned
-- 64-bit numbers from 2^63 on, which could not be passed at all.
local core = require "reprise.core"
local helper = require "spec.helper"
local rp = require "reprise"
local safetensors = require "spec.support.safetensors"

local function file_of(names)
  local entries, path = {}, helper.tmp() .. "/x.safetensors"
  for i, name in ipairs(names) do
    entries[i] = { name = name, dtype = "F32", shape = { 64, 64 }, data = ("\0"):rep(4 * 64 * 64) }
  end
  safetensors.write(path, entries)
  return path
end

describe("a text with a NUL byte", function()
  local function refused(fn, ...) assert.error_matches(function(...) fn(...) end, "it holds a NUL byte", nil, nil, ...) end

  it("is refused wherever C would cut it", function()
    local path = file_of { "a" }
    local file = core.safetensors(path)
    for _, call in ipairs {
      function() core.safetensors(path .. "\0x") end,
      function() file:tensor("a\0b", "cpu") end,
      function() file:info "a\0b" end,
      function() file:same("a", file, "a\0b") end,
      function() core.safetensors_write(path .. "\0x", {}) end,
      function() core.safetensors_write(path, { { "a\0b", rp.zeros({ 1 }, "f32", "cpu") } }) end,
      function() rp.device "cpu\0x" end,
      function() rp.empty({ 1 }, "f32\0x", "cpu") end,
      function() rp.param("f32\0x", 1) end,
      function() rp.capture(print, { name = "a\0b" }) end,
      function() rp.compile { source = "", name = "a\0b", device = "cpu" } end,
      function() rp.compile { source = "\0", device = "cpu" } end,
      function() rp.compile { file = "kernels/copy.cu\0x", device = "cpu" } end,
      function() rp.compile { source = "", define = { ["A\0B"] = 1 }, device = "cpu" } end,
      function() rp.compile { source = "", define = { A = "1\0 + 1" }, device = "cpu" } end,
    } do
      refused(call)
    end
    file:close()
  end)
end)

-- In a process of its own, whose heap is small: there the collector comes at any allocation.
local CLOSED = [[
local core = require "reprise.core"
local path, closed, last = %q, 0, %q
local calls = {
  function(file) return file:names() end,
  function(file) return file:info(last) end,
  function(file) return file:tensor(last, "cpu") end,
  function(file) return file:same(last, file, last) end,
}
for turn = 1, 400 do
  local file = core.safetensors(path)
  collectgarbage()
  collectgarbage "stop"
  setmetatable({}, { __gc = function() file:close() end })
  collectgarbage("incremental", 10, 1000, 5 + turn // 4 %% 12)
  collectgarbage "restart"
  local done, why = pcall(calls[turn %% 4 + 1], file)
  if not done then
    closed = closed + 1
    assert(why:find("reprise.Safetensors is closed", 1, true), why)
  end
  file:close()
end
print(closed)
]]

describe("a safetensors file that a finalizer closes in the middle of a call on it", function()
  it("is read as it was, or said to be closed", function()
    local names, script = {}, helper.tmp() .. "/closed.lua"
    for i = 1, 40 do names[i] = ("a tensor with a name of its own, which is number %d"):format(i) end
    helper.write(script, CLOSED:format(file_of(names), names[40]))
    local code, out, err = helper.run(helper.quote(helper.program()) .. " " .. script)
    assert.equal(0, code, err)
    assert.is_true(tonumber(out) > 0, out)
  end)
end)

helper.each_device(function(device)
  it("an unsigned number of 64 bits from 2^63 on is a float", function()
    helper.needs_compiler(device)
    local store = rp.compile {
      source = '#include "prelude.cuh"\n' ..
        "KERNEL void store(i64 *y, u64 x) { if (THREAD == 0 && BLOCK == 0) y[0] = (i64)(x >> 1); }", device = device,
    }.store
    local y = rp.zeros({ 1 }, "i64", device)
    local function stored(x)
      store { grid = 1, y, x }
      return y[1]
    end
    assert.equal(1 << 62, stored(2 ^ 63))
    assert.equal((1 << 63) - (1 << 10), stored(2 ^ 64 - 2 ^ 11))
    assert.equal((1 << 62) - 1, stored(math.maxinteger))
    local p = rp.param("u64", 2 ^ 63)
    assert.equal(1 << 62, stored(p))
    assert.equal(2 ^ 63, p.value)
    assert.equal(7, p:set(7).value)
    assert.equal("integer", math.type(p.value))
    assert.equal("parameter u64 9.2233720368548e+18", tostring(p:set(2 ^ 63)))
    for _, bad in ipairs { 2 ^ 64, -1, -1.0, 0.5, 0 / 0, 1 / 0 } do
      assert.is_false(pcall(rp.param, "u64", bad))
      assert.is_false(pcall(stored, bad))
    end
    assert.is_false(pcall(rp.param, "i64", 2 ^ 63))
  end)
end)
