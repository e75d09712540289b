--- Printing a tensor: the values as PyTorch prints them, and how few bytes leave the device for it.
local helper = require "spec.helper"
local rp = require "reprise"

local WORDS = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

-- The values of a case: a list, or a pattern (i * times % modulus - minus) / divisor.
local function values_of(case)
  local list, count = {}, 1
  for _, size in ipairs(case.shape) do count = count * size end
  for i = 0, count - 1 do
    local p = case.pattern
    if p then
      local whole = i * p[1] % p[2] - p[3]
      list[i + 1] = case.dtype:find "f" and whole / p[4] or whole
    else
      list[i + 1] = WORDS[case.values[i + 1]] or case.values[i + 1]
    end
  end
  return list
end

-- PyTorch's brackets are our braces.
local function expected(case)
  local text = case.text:gsub("%[", "{"):gsub("%]", "}")
  local facts = ("%s {%s} on "):format(case.dtype, table.concat(case.shape, ", "))
  return text, facts
end

helper.each_device(function(name)
  local dev
  setup(function() dev = rp.device(name) end)

  local function tensor(case)
    local list = values_of(case)
    if #list == 0 then return rp.empty(case.shape, case.dtype, dev) end
    return rp.tensor(list, case.dtype, dev):view(case.shape)
  end

  describe("a printed tensor", function()
    for line in io.lines(helper.fixture "printed.jsonl") do
      local case = rp.json_decode(line)
      it("has the digits that PyTorch prints: " .. case.title, function()
        local text, facts = expected(case)
        local shown = tostring(tensor(case))
        assert.equal(text, shown:sub(1, #text))
        assert.matches("^[ \n]" .. facts:gsub("%p", "%%%0") .. name .. "$", shown:sub(#text + 1))
      end)
    end

    it("is one line with its facts where 80 columns hold both", function()
      assert.equal("{1, 2} i32 {2} on " .. name, tostring(rp.tensor({ 1, 2 }, "i32", dev)))
      assert.equal("{{1, 2},\n {3, 4}}\ni32 {2, 2} on " .. name, tostring(rp.tensor({ { 1, 2 }, { 3, 4 } }, "i32", dev)))
    end)

    it("shows a view of any strides as its values", function()
      local x = rp.arange(6, "i32", dev):view { 2, 3 }:transpose(1, 2)
      assert.equal("{{0, 3},\n {1, 4},\n {2, 5}}\ni32 {3, 2} on " .. name, tostring(x))
      local wide = rp.arange(100 * 100, "i32", dev):view { 100, 100 }:transpose(1, 2)
      assert.equal(tostring(wide:clone()), tostring(wide))
      assert.equal("{7, 7, 7,  ..., 7, 7, 7} u8 {5000} on " .. name, tostring(rp.full({ 1 }, 7, "u8", dev):expand { 5000 }))
    end)
  end)

  describe("printing", function()
    -- Bytes that the host read from the device while fn ran.
    local function read_by(fn)
      local before = dev.downloaded
      fn()
      return dev.downloaded - before
    end

    it("takes only the shown elements off the device", function()
      local x = rp.zeros({ 512, 64, 1024 }, "f32", dev)
      assert.equal(6 * 6 * 6 * 4, read_by(function() tostring(x) end))
      assert.equal(6 * 3 * 2, read_by(function() tostring(rp.zeros({ 1000000, 3 }, "f16", dev)) end))
      assert.equal(1000, read_by(function() tostring(rp.zeros({ 1000 }, "u8", dev)) end))
      assert.equal(6, read_by(function() tostring(rp.zeros({ 1001 }, "u8", dev)) end))
      assert.equal(0, read_by(function() tostring(rp.empty({ 1 << 40, 0 }, "u8", dev)) end))
    end)

    it("leaves nothing behind in the pool", function()
      local x = rp.zeros({ 100, 100 }, "f32", dev)
      tostring(x)
      collectgarbage()
      collectgarbage()
      local before = dev.pool:figures().blocks
      for _ = 1, 10 do tostring(x) end
      assert.equal(before, dev.pool:figures().blocks)
    end)

    it("shows no values during capture, and reads none", function()
      local inside
      local x = rp.tensor({ 1, 2 }, "f32", dev)
      local step = rp.capture(function(y)
        assert.equal(0, read_by(function() inside = tostring(y) .. "; " .. tostring(x) end))
        return y:clone()
      end, { device = dev })
      step(x)
      local text = "tensor f32 {2} on " .. name .. ", no values while a capture is open"
      assert.equal(text .. "; " .. text, inside)
    end)

    it("says why there are no values, and raises nothing", function()
      local x = rp.tensor({ 1, 2 }, "f32", dev)
      local step = rp.capture(function(y) return y:clone() end, { device = dev, name = "copying" })
      local first = step(x)
      assert.equal("{1., 2.} f32 {2} on " .. name, tostring(first))
      step(x)
      assert.matches("^tensor f32 {2} on " .. name .. ", showing values: this output of replay 1 of copying was overwritten by replay 2",
        tostring(first))
      x:close()
      assert.equal("tensor f32 {2}, closed", tostring(x))
    end)
  end)
end)
