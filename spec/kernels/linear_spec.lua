--- Products with weight matrices, against double precision: |y - reference| <= 5e-7 times the sum of absolute terms.
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

local ROUNDING = 5e-7 -- of the sum of absolute terms: f32 sums in any order, norm and scale included

helper.each_device(function(name)
  local dev, ops, random
  setup(function() dev, ops = rp.device(name), rp.ops end)
  before_each(function() random = reference.random(7) end)

  -- h, and the bounds of what its product may be off by.
  local function normed(x, gamma, rows, n) return gamma and reference.norm(x, gamma, rows, n, 1e-6) or x end

  local function bounds(weight, scale, want)
    local list = {}
    for i, w in ipairs(weight) do list[i] = ROUNDING * (w * scale + math.abs(want[i])) + 1e-7 end
    return list
  end

  local function check_linear(c)
    local x, xs = reference.tensor(random, { c.rows, c.n }, "f32", dev, 2)
    local w, ws = reference.tensor(random, { c.m, c.n }, c.dtype, dev)
    local gamma, gammas, residual, residuals
    if c.norm then gamma, gammas = reference.tensor(random, { c.n }, "f32", dev) end
    if c.residual then residual, residuals = reference.tensor(random, { c.rows, c.m }, "f32", dev) end
    local scale = c.scale or 1
    local y = ops.linear(x, w, {
      norm = gamma, residual = residual, activation = c.activation, scale = scale,
    })
    local sums, weight = reference.product(normed(xs, gammas, c.rows, c.n), ws, c.rows, c.n, c.m)
    local act, want = reference.activation[c.activation or "none"], {}
    for i, s in ipairs(sums) do want[i] = scale * act(s) + (residuals and residuals[i] or 0) end
    local off = reference.difference(reference.flat(y), want, bounds(weight, 1.2 * scale, want))
    if off then error(("%d rows, n %d, m %d, %s: %s"):format(c.rows, c.n, c.m, c.dtype, off)) end
  end

  for _, dtype in ipairs { "f32", "f16", "bf16" } do
    describe("with weights of " .. dtype, function()
      it("multiplies any number of rows, of any size", function()
        for _, n in ipairs { 1, 7, 8, 17, 48, 256, 513 } do
          for _, rows in ipairs { 1, 2, 3, 5, 8, 13, 33 } do
            check_linear { rows = rows, n = n, m = n > 200 and 9 or 21, dtype = dtype }
          end
        end
      end)

      it("norms its rows first", function()
        for _, n in ipairs { 7, 48, 264 } do
          for _, rows in ipairs { 1, 4, 9, 20 } do
            check_linear { rows = rows, n = n, m = 17, dtype = dtype, norm = true }
          end
        end
      end)

      it("scales and adds a residual", function()
        for _, rows in ipairs { 1, 6, 11 } do
          check_linear { rows = rows, n = 64, m = 33, dtype = dtype, residual = true, scale = 0.125 }
        end
      end)

      it("gates", function()
        for _, rows in ipairs { 1, 2, 3, 4, 5, 6, 17 } do
          local n, m = rows % 2 == 1 and 40 or 19, 13
          local x, xs = reference.tensor(random, { rows, n }, "f32", dev, 2)
          local w, ws = reference.tensor(random, { m, n }, dtype, dev, 0.3)
          local gate, gates = reference.tensor(random, { m, n }, dtype, dev, 0.3)
          local gamma, gammas = reference.tensor(random, { n }, "f32", dev)
          local y = ops.gated(x, w, gate, { norm = gamma, activation = "gelu_new" })
          local h = normed(xs, gammas, rows, n)
          local a, wa = reference.product(h, ws, rows, n, m)
          local b, wb = reference.product(h, gates, rows, n, m)
          local want, bound = {}, {}
          for i = 1, #a do
            local act = reference.activation.gelu_new(a[i])
            want[i] = act * b[i]
            bound[i] = ROUNDING * (1.2 * wa[i] * math.abs(b[i]) + wb[i] * math.abs(act) + 2 * math.abs(want[i])) + 1e-7
          end
          assert.is_nil(reference.difference(reference.flat(y), want, bound))
        end
      end)
    end)
  end

  for _, act in ipairs { "relu", "gelu", "gelu_new", "silu" } do
    it("applies " .. act, function()
      check_linear { rows = 3, n = 24, m = 40, dtype = "f32", activation = act }
    end)
  end

  it("knows what activations do far from zero", function()
    local x = rp.tensor({ { -1e4, -30, -1, 0, 1, 30, 1e4 } }, "f32", dev):view({ 7, 1 })
    local one = rp.full({ 1, 1 }, 1, "f32", dev)
    assert.same({ 0, 0, 0, 0, 1, 30, 1e4 }, reference.flat(ops.linear(x, one, { activation = "relu" })))
    for _, act in ipairs { "gelu", "gelu_new", "silu" } do
      local y = reference.flat(ops.linear(x, one, { activation = act }))
      assert.is_true(math.abs(y[1]) == 0 and math.abs(y[2]) < 1e-11, act)
      assert.is_true(y[4] == 0 and y[6] == 30 and y[7] == 1e4, act)
    end
  end)

  it("puts the products with three matrices side by side", function()
    local x, xs = reference.tensor(random, { 2, 24 }, "f32", dev)
    local list, want, weight = {}, {}, {}
    for i = 1, 3 do
      local w, ws = reference.tensor(random, { 5, 24 }, "f16", dev)
      list[i] = w
      local y, all = reference.product(xs, ws, 2, 24, 5)
      for r = 0, 1 do
        for c = 1, 5 do
          want[r * 15 + (i - 1) * 5 + c], weight[r * 15 + (i - 1) * 5 + c] = y[r * 5 + c], all[r * 5 + c]
        end
      end
    end
    local y = ops.linear(x, list)
    assert.same({ 2, 15 }, y.shape)
    assert.is_nil(reference.difference(reference.flat(y), want, bounds(weight, 1, want)))
  end)

  it("gives a row the same bits whatever other rows there are", function()
    helper.without_cores(function()
      local n, m, rows = 264, 31, 19
      local x = reference.tensor(random, { rows, n }, "f32", dev)
      local w = reference.tensor(random, { m, n }, "f16", dev)
      local gate = reference.tensor(random, { m, n }, "f16", dev)
      local gamma = reference.tensor(random, { n }, "f32", dev)
      local all = ops.linear(x, w, { norm = gamma })
      local both = ops.gated(x, w, gate, { activation = "silu" })
      for r = 1, rows do
        local row = x:slice(1, r, r)
        assert.is_true(all:slice(1, r, r):equal(ops.linear(row, w, { norm = gamma })))
        assert.is_true(both:slice(1, r, r):equal(ops.gated(row, w, gate, { activation = "silu" })))
      end
    end)
  end)

  it("gives a few rows the same bits whatever other rows there are, and whatever the type of the weights", function()
    local n, m, rows = 256, 37, 8
    for _, dtype in ipairs { "f16", "bf16" } do
      local x = reference.tensor(random, { rows, n }, "f32", dev)
      local w = reference.tensor(random, { m, n }, dtype, dev)
      local gamma = reference.tensor(random, { n }, "f32", dev)
      local all, both = ops.linear(x, w, { norm = gamma }), ops.gated(x, w, w, { activation = "silu" })
      for count = 4, rows - 1 do
        local some = x:slice(1, 2, count + 1)
        assert.is_true(all:slice(1, 2, count + 1):equal(ops.linear(some, w, { norm = gamma })))
        assert.is_true(both:slice(1, 2, count + 1):equal(ops.gated(some, w, w, { activation = "silu" })))
      end
    end
  end)

  it("gives one row the bits it has among many, whatever its length and however many columns there are", function()
    for _, c in ipairs { { 512, 9 }, { 520, 40 }, { 776, 13 }, { 1024, 60 }, { 1032, 21 }, { 2048, 13 } } do
      local n, m = table.unpack(c)
      local x = reference.tensor(random, { 9, n }, "f32", dev)
      local gamma = reference.tensor(random, { n }, "f32", dev)
      local w = {}
      for i = 1, 3 do w[i] = reference.tensor(random, { m, n }, "f16", dev, 0.2) end
      for _, norm in ipairs { gamma, false } do
        local options = { norm = norm or nil, activation = "relu" }
        helper.without_cores(function()
          local all = ops.linear(x, w, options)
          for r = 1, 9, 4 do assert.is_true(all:slice(1, r, r):equal(ops.linear(x:slice(1, r, r), w, options))) end
        end)
      end
    end
  end)

  for _, dtype in ipairs { "f16", "bf16" } do
    it("multiplies a few rows of whole chunks, long ones and short ones, with weights of " .. dtype, function()
      for _, n in ipairs { 32, 96, 544, 1056, 2080 } do
        for _, rows in ipairs { 4, 7, 8 } do
          check_linear { rows = rows, n = n, m = 19, dtype = dtype, norm = n < 1000, residual = n > 1000, scale = 0.5 }
        end
      end
    end)

    it("keeps rows apart that are far from each other in size, with weights of " .. dtype, function()
      local n, m, rows = 128, 16, 5
      local w, ws = reference.tensor(random, { m, n }, dtype, dev)
      local list = {}
      for r = 1, rows do
        for k = 1, n do list[#list + 1] = random() * 10.0 ^ (r * 12 - 34) * (k % 16 == 0 and 1000 or 1) end
      end
      local x = rp.tensor(list, "f32", dev):view({ rows, n })
      list = reference.flat(x)
      local want, weight = reference.product(list, ws, rows, n, m)
      local off = {}
      for i, v in ipairs(weight) do off[i] = ROUNDING * v end
      assert.is_nil(reference.difference(reference.flat(ops.linear(x, w)), want, off))
    end)
  end

  it("takes views that begin anywhere", function()
    local x, xs = reference.tensor(random, { 4, 9 }, "f32", dev)
    local w, ws = reference.tensor(random, { 6, 9 }, "f16", dev)
    local y, all = reference.product({ table.unpack(xs, 10) }, { table.unpack(ws, 19) }, 3, 9, 4)
    local got = ops.linear(x:slice(1, 2, 4), w:slice(1, 3, 6))
    assert.is_nil(reference.difference(reference.flat(got), y, bounds(all, 1, y)))
  end)

  it("keeps all leading dimensions", function()
    local x = reference.tensor(random, { 2, 3, 8 }, "f32", dev)
    local w = reference.tensor(random, { 5, 8 }, "f32", dev)
    assert.same({ 2, 3, 5 }, ops.linear(x, w).shape)
    assert.same({ 5 }, ops.linear(x:view({ 48 }):slice(1, 1, 8), w).shape)
  end)

  it("makes nothing of no rows or no columns", function()
    local x, w = rp.zeros({ 2, 8 }, "f32", dev), rp.full({ 4, 8 }, 1, "f16", dev)
    local none = rp.empty({ 0, 8 }, "f16", dev)
    assert.same({ 0, 4 }, ops.linear(x:slice(1, 1, 0), w).shape)
    assert.same({ 0, 4 }, ops.gated(x:slice(1, 1, 0), w, w).shape)
    assert.same({ 2, 0 }, ops.linear(x, none).shape)
    assert.same({ 2, 0 }, ops.gated(x, none, none).shape)
  end)

  it("says which argument is wrong", function()
    local x, w = rp.zeros({ 2, 8 }, "f32", dev), rp.zeros({ 4, 8 }, "f16", dev)
    local function says(text, fn, ...)
      local args = table.pack(...)
      assert.error_matches(function() fn(table.unpack(args, 1, args.n)) end, text)
    end
    says("linear: x: tensor expected, got number", ops.linear, 1, w)
    says("linear: x: a tensor of f32 is expected, got f16", ops.linear, w, w)
    says("linear: w: shape {4, 8} is expected, got {4, 9}", ops.linear, x, rp.zeros({ 4, 9 }, "f16", dev))
    says("linear: w: a tensor of f32, f16 or bf16 is expected, got i32", ops.linear, x, rp.zeros({ 4, 8 }, "i32", dev))
    says("linear: w: a tensor of f16 is expected, got f32", ops.linear, x, { w, rp.zeros({ 4, 8 }, "f32", dev) })
    says("linear: w: one to three matrices are expected, got 0", ops.linear, x)
    says("linear: options: table expected, got number", ops.linear, x, w, 5)
    says("linear: unknown option residuals: expected norm, epsilon, activation, residual, scale", ops.linear, x, w,
      { residuals = x })
    says("linear: unknown option 1: expected norm,", ops.linear, x, w, { x })
    says("linear: scale: number expected, got string", ops.linear, x, w, { scale = "2" })
    says("gated: unknown option residual: expected norm, epsilon, activation", ops.gated, x, w, w, { residual = x })
    says("gated: epsilon: number expected, got boolean", ops.gated, x, w, w, { epsilon = true })
    says("gated: gate: tensor expected, got nil", ops.gated, x, w)
    says("linear: norm: shape {8} is expected, got {4}", ops.linear, x, w, { norm = rp.zeros(4, "f32", dev) })
    says("linear: residual: shape {2, 4} is expected", ops.linear, x, w, { residual = rp.zeros({ 4, 2 }, "f32", dev) })
    says("linear: activation: relu, gelu, gelu_new, silu or none is expected, got swish", ops.linear, x, w,
      { activation = "swish" })
    says("gated: w: shape {4, 8} is expected, got {3, 8}", ops.gated, x, w, rp.zeros({ 3, 8 }, "f16", dev))
  end)
end)
