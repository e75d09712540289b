--- Tensors: making, views, conversions, reading; against plain Lua.
local helper = require "spec.helper"
local rp = require "reprise"

helper.each_device(function(name)
  local dev
  setup(function() dev = rp.device(name) end)

  local function table_of(rows, columns)
    local t = {}
    for r = 1, rows do
      t[r] = {}
      for c = 1, columns do t[r][c] = (r - 1) * columns + c end
    end
    return t
  end

  describe("making a tensor", function()
    it("reads nested tables and gives them back", function()
      local x = rp.tensor({ { 1, 2 }, { 3, 4 } }, "f32", dev)
      assert.same({ { 1.0, 2.0 }, { 3.0, 4.0 } }, x:totable())
      assert.same({ 2, 2 }, x.shape)
      assert.equal("f32", x.dtype)
      assert.equal(16, x.bytes)
      assert.equal(2, #x)
    end)

    it("takes a number as a tensor without dimensions", function()
      local x = rp.tensor(3, "i64", dev)
      assert.equal(0, x.rank)
      assert.equal(3, x:item())
    end)

    it("keeps integers integers and exact to 64 bits", function()
      local x = rp.tensor({ math.maxinteger, math.mininteger, 2 ^ 53 | 0 }, "i64", dev)
      assert.same({ math.maxinteger, math.mininteger, 2 ^ 53 | 0 }, x:totable())
      assert.equal("integer", math.type(x[1]))
    end)

    it("fills with zeros, a constant, or 0 to n - 1", function()
      assert.same({ { 0, 0 }, { 0, 0 } }, rp.zeros({ 2, 2 }, "u8", dev):totable())
      assert.same({ 7.5, 7.5 }, rp.full({ 2 }, 7.5, "f16", dev):totable())
      assert.same({ 0, 1, 2 }, rp.arange(3, "i32", dev):totable())
    end)

    it("allows tensors without elements", function()
      local x = rp.empty({ 3, 0 }, "f32", dev)
      assert.same({ {}, {}, {} }, x:totable())
      assert.equal(0, x:clone().bytes)
    end)

    it("names the element that does not fit", function()
      assert.error_matches(function() rp.tensor({ 1, -1 }, "u8", dev) end, "value%[2%]: %-1 is negative")
      assert.error_matches(function() rp.tensor({ { 1 }, { 300 } }, "u8", dev) end, "value%[2%]%[1%]: 300 does not fit into 8 bits")
      assert.error_matches(function() rp.tensor({ 1.5 }, "i32", dev) end, "value%[1%]: 1.5 is not an integer")
      assert.error_matches(function() rp.tensor({ 1e300 }, "f32", dev) end, "value%[1%]: 1e%+300 is too large")
      assert.error_matches(function() rp.tensor({ 70000 }, "f16", dev) end, "value%[1%]: 70000 is too large")
      assert.error_matches(function() rp.tensor({ { 1, 2 }, { 3 } }, "f32", dev) end, "value%[2%]: 2 elements expected, got 1")
      assert.error_matches(function() rp.tensor({ { 1 }, 2 }, "f32", dev) end, "value%[2%]: table expected, got number")
      assert.error_matches(function() rp.tensor({ "x" }, "f32", dev) end, "value%[1%]: number expected, got string")
    end)

    it("refuses what is no shape, dtype or device in one sentence", function()
      assert.error_matches(function() rp.empty({ 2 }, "f8", dev) end, "unknown dtype 'f8': expected f32, f16, bf16, i32, i64 or u8")
      assert.error_matches(function() rp.zeros({ 2 }, "f8", dev) end, "bad argument #2 to 'zeros' %(unknown dtype 'f8'")
      assert.error_matches(function() rp.empty({ -1 }, "f32", dev) end, "dimension 1 is negative")
      assert.error_matches(function() rp.empty({ 1.5 }, "f32", dev) end, "dimension 1 of the shape: integer expected")
      assert.error_matches(function() rp.empty("x", "f32", dev) end, "shape %(a table of integers%) expected, got string")
      assert.error_matches(function() rp.empty({ 1 << 40, 1 << 40 }, "f32", dev) end, "more bytes than there are addresses")
      assert.error_matches(function() rp.empty({ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, "f32", dev) end, "at most 8 are possible")
      assert.error_matches(function() rp.empty({ 2 }, "f32", {}) end, "reprise.Device expected, got table")
    end)
  end)

  describe("a view", function()
    it("slices like string.sub, both ends included", function()
      local x = rp.tensor(table_of(4, 3), "f32", dev)
      assert.same({ { 4, 5, 6 }, { 7, 8, 9 } }, x:slice(1, 2, 3):totable())
      assert.same({ { 2, 3 }, { 5, 6 }, { 8, 9 }, { 11, 12 } }, x:slice(2, -2, -1):totable())
      assert.same({ 10, 11, 12 }, x[-1]:totable())
      assert.equal(12, x[4][3])
    end)

    it("shares its bytes with the tensor it was made from", function()
      local x = rp.zeros({ 2, 3 }, "f32", dev)
      x:slice(2, 2, 2):fill(5)
      x[2]:copy(rp.tensor({ 1, 2, 3 }, "f32", dev))
      assert.same({ { 0, 5, 0 }, { 1, 2, 3 } }, x:totable())
    end)

    it("outlives the handle it was made from", function()
      local x = rp.tensor(table_of(2, 2), "f32", dev)
      local y = x[2]
      x:close()
      collectgarbage()
      assert.same({ 3, 4 }, y:totable())
      assert.error_matches(function() x:totable() end, "the tensor is closed")
    end)

    it("changes the shape when the elements lie in a row, and says so when not", function()
      local x = rp.tensor(table_of(2, 6), "i32", dev)
      assert.same({ 2, 3, 2 }, x:view({ 2, -1, 2 }).shape)
      assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, x[1]:view({ 2, 3 }):totable())
      assert.error_matches(function() x:view({ 5 }) end, "the numbers of elements differ")
      assert.error_matches(function() x:transpose(1, 2):view({ 12 }) end, "clone it first")
    end)

    it("transposes and repeats without moving bytes", function()
      local x = rp.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "f32", dev)
      assert.same({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, x:transpose(1, 2):totable())
      assert.same({ { 1, 2, 3 }, { 1, 2, 3 } }, x[1]:expand({ 2, 3 }):totable())
      assert.error_matches(function() x:expand({ 2, 4 }) end, "only dimensions of size 1 repeat")
    end)

    it("raises for elements that are not there", function()
      local x = rp.zeros({ 3 }, "f32", dev)
      assert.error_matches(function() return x[4] end, "element 4 of dimension 1, which has 3")
      assert.error_matches(function() return x[0] end, "elements count from 1, got 0")
      assert.error_matches(function() x:slice(2, 1, 1) end, "dimension 2 of a tensor that has 1")
      assert.error_matches(function() x:slice(1, 2, 9) end, "elements 2 to 9 of dimension 1, which has 3")
    end)
  end)

  describe("a copy", function()
    it("converts between all dtypes as one by one in Lua", function()
      local values = { 0, 1, 2, 100, 255 }
      for _, from in ipairs { "f32", "f16", "bf16", "i32", "i64", "u8" } do
        for _, to in ipairs { "f32", "f16", "bf16", "i32", "i64", "u8" } do
          local y = rp.tensor(values, from, dev):to(to)
          assert.same(values, y:totable(), from .. " to " .. to)
        end
      end
    end)

    it("saturates and truncates towards zero on the way to integers", function()
      local x = rp.tensor({ -1.9, 1.9, 300, -300, 1e20, 0 / 0 }, "f32", dev)
      assert.same({ 0, 1, 255, 0, 255, 0 }, x:to("u8"):totable())
      assert.same({ -1, 1, 300, -300, 2147483647, 0 }, x:to("i32"):totable())
    end)

    it("rounds to nearest even and saturates in f16", function()
      local x = rp.tensor({ 2049, 2051, 1e6, -1e6, 2 ^ -25, 65520 }, "f32", dev)
      assert.same({ 2048, 2052, 65504, -65504, 0, 65504 }, x:to("f16"):totable())
    end)

    it("moves between views of any strides", function()
      local x = rp.tensor(table_of(3, 4), "i32", dev)
      local y = rp.zeros({ 4, 3 }, "i64", dev)
      y:copy(x:transpose(1, 2))
      assert.same({ { 1, 5, 9 }, { 2, 6, 10 }, { 3, 7, 11 }, { 4, 8, 12 } }, y:totable())
    end)

    it("handles more dimensions than its kernel has", function()
      local flat = {}
      for i = 1, 64 do flat[i] = i end
      local x = rp.tensor(flat, "f32", dev):view({ 2, 2, 2, 2, 2, 2 })
      local y = x:transpose(1, 6):transpose(2, 5):transpose(3, 4)
      local back = y:clone():transpose(3, 4):transpose(2, 5):transpose(1, 6):clone():view({ 64 })
      assert.same(rp.tensor(flat, "f32", dev):totable(), back:totable())
    end)

    it("is right when source and target overlap", function()
      local x = rp.tensor({ 1, 2, 3, 4, 5 }, "f32", dev)
      x:slice(1, 2, 5):copy(x:slice(1, 1, 4))
      assert.same({ 1, 1, 2, 3, 4 }, x:totable())
    end)

    it("needs equal shapes and a target whose elements are distinct", function()
      local x, y = rp.zeros({ 2 }, "f32", dev), rp.zeros({ 3 }, "f32", dev)
      assert.error_matches(function() x:copy(y) end, "shape {3} to one of shape {2}: the shapes differ")
      assert.error_matches(function() x[{ 1 }] = 1 end, "x:fill")
      assert.error_matches(function() rp.zeros({ 1 }, "f32", dev):expand({ 4 }):copy(rp.zeros({ 4 }, "f32", dev)) end, "its elements repeat")
    end)
  end)

  describe("comparing and printing", function()
    it("compares values with equal and handles with ==", function()
      local x, y = rp.tensor({ 1, 2 }, "f32", dev), rp.tensor({ 1, 2 }, "f32", dev)
      assert.is_true(x:equal(y))
      assert.is_false(x == y)
      assert.is_false(x:equal(rp.tensor({ 1, 3 }, "f32", dev)))
      assert.is_false(x:equal(rp.tensor({ 1, 2 }, "f16", dev)))
    end)

    it("shows values, dtype and shape, and survives a closed tensor", function()
      local x = rp.tensor({ 1, 2 }, "i32", dev)
      assert.equal("{1, 2} i32 {2} on " .. name, tostring(x))
      x:close()
      assert.matches("closed", tostring(x))
    end)
  end)

  describe("a scope", function()
    it("recycles what was made inside and not returned", function()
      local inner
      local kept = rp.scope(function()
        inner = rp.zeros({ 8 }, "f32", dev)
        return { deep = { rp.full({ 2 }, 3, "f32", dev) } }
      end)
      assert.is_true(inner.closed)
      assert.same({ 3, 3 }, kept.deep[1]:totable())
    end)

    it("nests: what an inner scope returns belongs to the outer one", function()
      local x
      rp.scope(function()
        x = rp.scope(function() return rp.zeros({ 1 }, "f32", dev) end)
        assert.is_false(x.closed)
      end)
      assert.is_true(x.closed)
    end)

    it("recycles when its function raises, and hands the error on as it is", function()
      local inner, thrown = nil, {}
      local ok, got = pcall(rp.scope, function()
        inner = rp.zeros({ 1 }, "f32", dev)
        error(thrown)
      end)
      assert.is_false(ok)
      assert.equal(thrown, got)
      assert.is_true(inner.closed)
    end)
  end)
end)
