--- Products of four rows and more, which a GPU makes on tensor cores, in f32's accuracy: against double precision.
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

local ROUNDING = 5e-7 -- of the sum of absolute terms

helper.each_device(function(name)
  local dev, ops, random
  setup(function() dev, ops = rp.device(name), rp.ops end)
  before_each(function() random = reference.random(11) end)

  local function bounds(weight, want)
    local list = {}
    for i, w in ipairs(weight) do list[i] = ROUNDING * (w + math.abs(want[i])) + 1e-7 end
    return list
  end

  -- A product with `count` matrices side by side, beside one of double precision.
  local function check(rows, n, m, dtype, count, residual)
    local x, xs = reference.tensor(random, { rows, n }, "f32", dev, 2)
    local r, rs
    if residual then r, rs = reference.tensor(random, { rows, m * count }, "f32", dev) end
    local list, want, weight = {}, {}, {}
    for i = 1, count do
      local w, ws = reference.tensor(random, { m, n }, dtype, dev)
      local y, all = reference.product(xs, ws, rows, n, m)
      list[i] = w
      for row = 0, rows - 1 do
        for c = 1, m do
          local at = row * m * count + (i - 1) * m + c
          want[at], weight[at] = y[row * m + c] + (rs and rs[at] or 0), all[row * m + c]
        end
      end
    end
    local y = ops.linear(x, list, { residual = r })
    local off = reference.difference(reference.flat(y), want, bounds(weight, want))
    if off then error(("%d rows, n %d, %d x m %d, %s: %s"):format(rows, n, count, m, dtype, off)) end
  end

  for _, dtype in ipairs { "f16", "bf16" } do
    it("multiplies rows of several tiles, incomplete ones too, with weights of " .. dtype, function()
      check(9, 40, 70, dtype, 1)
      check(33, 136, 65, dtype, 1, true)
      check(64, 128, 64, dtype, 3)
      check(70, 200, 30, dtype, 3, true)
      check(130, 64, 131, dtype, 1)
    end)

    it("multiplies few rows by many columns, and long rows by few, with weights of " .. dtype, function()
      check(5, 128, 700, dtype, 1)
      check(8, 520, 333, dtype, 1, true)
      check(6, 1032, 20, dtype, 1, true)
      check(4, 2048, 17, dtype, 2)
      check(7, 2056, 9, dtype, 1)
    end)

    it("multiplies few rows by few columns, of lengths at which more warps share them, with weights of " .. dtype, function()
      for i, n in ipairs { 8, 64, 248, 256, 264, 504, 512, 520, 1016, 1024 } do
        check(4 + i % 5, n, 33, dtype, 1 + i % 3, i % 2 == 0)
      end
    end)
  end

  it("gates rows of several tiles", function()
    local rows, n, m = 67, 72, 37
    local x, xs = reference.tensor(random, { rows, n }, "f32", dev)
    local w, ws = reference.tensor(random, { m, n }, "f16", dev, 0.3)
    local gate, gates = reference.tensor(random, { m, n }, "f16", dev, 0.3)
    local gamma, gammas = reference.tensor(random, { n }, "f32", dev)
    local h = reference.norm(xs, gammas, rows, n, 1e-6)
    local a, wa = reference.product(h, ws, rows, n, m)
    local b, wb = reference.product(h, gates, rows, n, m)
    local want, bound = {}, {}
    for i = 1, #a do
      local act = math.max(a[i], 0)
      want[i] = act * b[i]
      bound[i] = ROUNDING * (wa[i] * math.abs(b[i]) + wb[i] * act + 2 * math.abs(want[i])) + 1e-7
    end
    local y = ops.gated(x, w, gate, { norm = gamma, activation = "relu" })
    assert.is_nil(reference.difference(reference.flat(y), want, bound))
  end)

  it("keeps f32's range: rows of 1e-22 and of 1e26 side by side", function()
    local rows, n, m = 12, 64, 40
    local w, ws = reference.tensor(random, { m, n }, "bf16", dev)
    local list = {}
    for r = 1, rows do
      for _ = 1, n do list[#list + 1] = random() * 10.0 ^ (r * 4 - 26) end
    end
    local x = rp.tensor(list, "f32", dev):view({ rows, n })
    local want, weight = reference.product(reference.flat(x), ws, rows, n, m)
    local off = {}
    for i, v in ipairs(weight) do off[i] = ROUNDING * v end
    assert.is_nil(reference.difference(reference.flat(ops.linear(x, w)), want, off))
  end)

  it("gives nan where a row or a weight is nan, and only there", function()
    for _, rows in ipairs { 5, 20 } do
      local x, w = rp.full({ rows, 16 }, 1, "f32", dev), rp.full({ 24, 16 }, 0.5, "f16", dev)
      x:slice(1, 2, 2):fill(0 / 0)
      local y = reference.flat(ops.linear(x, w))
      for i, v in ipairs(y) do assert.are.equal(i > 24 and i <= 48, v ~= v) end
    end
  end)

  it("gives a row the same bits wherever it stands", function()
    local n, m = 264, 45
    local w = reference.tensor(random, { m, n }, "f16", dev)
    for _, rows in ipairs { 5, 8, 20, 80, 300 } do
      local x, xs = reference.tensor(random, { rows, n }, "f32", dev)
      local turned = table.move(xs, 1, n, #xs - n + 1, table.move(xs, n + 1, #xs, 1, {})) -- the first row is the last
      local all, other = ops.linear(x, w), ops.linear(rp.tensor(turned, "f32", dev):view({ rows, n }), w)
      assert.is_true(all:slice(1, 2, rows):equal(other:slice(1, 1, rows - 1)))
      assert.is_true(all:slice(1, 1, 1):equal(other:slice(1, rows, rows)))
    end
  end)
end)
