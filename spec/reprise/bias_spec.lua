-- Relative position buckets against published lists of where each bucket begins.
local bias = require "reprise.bias"

-- The smallest distance of each bucket from `first` on; keys lie to the left, or to the right.
local function begins(first, count, sign, both, buckets, distance)
  local out = {}
  for d = 0, 4 * distance do
    local row = bias.bucket(sign * d, both, buckets, distance)
    if row >= first and row < first + count and not out[row - first + 1] then out[row - first + 1] = d end
  end
  return out
end

describe("bias buckets", function()
  it("of an encoder with 32 to distance 128 begin where they should", function()
    local wide = { 8, 12, 16, 23, 32, 46, 64, 91 }
    assert.are.same(wide, begins(8, 8, -1, true, 32, 128))
    assert.are.same(wide, begins(24, 8, 1, true, 32, 128))
    assert.are.same({ 0, 1, 2, 3, 4, 5, 6, 7 }, begins(0, 8, -1, true, 32, 128))
    assert.are.equal(17, bias.bucket(1, true, 32, 128))
  end)

  it("of a decoder with 32 to distance 128 begin where they should", function()
    assert.are.same({ 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113 },
      begins(16, 16, -1, false, 32, 128))
    assert.are.equal(0, bias.bucket(5, false, 32, 128))
  end)

  it("with 8 to distance 20 begin where they should", function()
    assert.are.same({ 2, 7 }, begins(2, 2, -1, true, 8, 20))
    assert.are.same({ 4, 6, 9, 14 }, begins(4, 4, -1, false, 8, 20))
  end)

  it("end in one that all far keys share", function()
    assert.are.equal(31, bias.bucket(-113, false, 32, 128))
    assert.are.equal(31, bias.bucket(-100000, false, 32, 128))
    assert.are.equal(15, bias.bucket(-100000, true, 32, 128))
    assert.are.equal(31, bias.bucket(100000, true, 32, 128))
  end)

  it("are listed from the first distance to the last", function()
    assert.are.same({ 1, 0, 17 }, bias.rows(-1, 1, true, 32, 128))
  end)
end)
