--- T5's norm and rows of tables, against double precision.
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

helper.each_device(function(name)
  local dev, ops, random
  setup(function() dev, ops = rp.device(name), rp.ops end)
  before_each(function() random = reference.random(3) end)

  describe("norm", function()
    it("divides by the root of the mean square, within 6e-7 of each value", function()
      for _, n in ipairs { 1, 7, 8, 17, 48, 256, 513 } do
        for _, rows in ipairs { 1, 3, 33 } do
          local x, xs = reference.tensor(random, { rows, n }, "f32", dev, 5)
          local gamma, gammas = reference.tensor(random, { n }, "f32", dev)
          local want, bound = reference.norm(xs, gammas, rows, n, 1e-3), {}
          for i, v in ipairs(want) do bound[i] = 6e-7 * math.abs(v) end
          assert.is_nil(reference.difference(reference.flat(ops.norm(x, gamma, 1e-3)), want, bound))
        end
      end
    end)

    it("says which argument is wrong", function()
      local x = rp.zeros({ 2, 8 }, "f32", dev)
      assert.error_matches(function() ops.norm(x, rp.zeros(8, "f16", dev)) end,
        "norm: gamma: a tensor of f32 is expected, got f16")
      assert.error_matches(function() ops.norm(x, rp.zeros(7, "f32", dev)) end,
        "norm: gamma: shape {8} is expected, got {7}")
    end)
  end)

  describe("embed", function()
    it("gives the rows of the ids, exactly", function()
      for _, dtype in ipairs { "f32", "f16", "bf16" } do
        for _, n in ipairs { 1, 7, 8, 17, 256, 513 } do
          local table_, values = reference.tensor(random, { 5, n }, dtype, dev, 100)
          local ids, want = { 4, 0, 2, 2, 1, 3, 0 }, {}
          for r, id in ipairs(ids) do table.move(values, id * n + 1, (id + 1) * n, (r - 1) * n + 1, want) end
          assert.same(want, reference.flat(ops.embed(table_, rp.tensor(ids, "i32", dev))))
        end
      end
    end)

    it("appends the row's length to the shape of the ids", function()
      local y = ops.embed(rp.zeros({ 5, 4 }, "f16", dev), rp.zeros({ 2, 3 }, "i32", dev))
      assert.same({ 2, 3, 4 }, y.shape)
      assert.equal("f32", y.dtype)
    end)

    it("answers an id outside the table with nan", function()
      local y = ops.embed(rp.full({ 5, 9 }, 1, "f16", dev), rp.tensor({ -1, 4, 5 }, "i32", dev)):totable()
      for k = 1, 9 do
        assert.is_true(y[1][k] ~= y[1][k] and y[2][k] == 1 and y[3][k] ~= y[3][k])
      end
    end)

    it("says which argument is wrong", function()
      local t = rp.zeros({ 5, 4 }, "f16", dev)
      assert.error_matches(function() ops.embed(t, rp.zeros(2, "f32", dev)) end,
        "embed: ids: a tensor of i32 is expected, got f32")
      assert.error_matches(function() ops.embed(rp.zeros(4, "f32", dev), rp.zeros(2, "i32", dev)) end,
        "embed: table: rank 2 is expected, got 1")
    end)
  end)
end)
