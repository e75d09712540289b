-- llama.cpp issues 25835 and 20315: one more graph a request, until the process died.
-- Here graphs have a cap; under it figures come to rest, and a shape whose graph was evicted is recorded again.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("500 distinct shapes under a cap of 16 keep graphs and bytes flat", function()
    local pool = rp.pool { device = device }
    local step = rp.capture(function(x) return x:to "f16" end, { pool = pool, max_graphs = 16, reserve = { 4 * 501 } })
    local function once(n)
      local x <close> = rp.full({ n }, n, "f32", pool)
      assert.equal(n, step(x)[n])
    end
    for n = 500, 451, -1 do once(n) end
    collectgarbage()
    local before = pool:figures()
    for n = 450, 1, -1 do once(n) end
    once(500)
    collectgarbage()
    local after = pool:figures()
    assert.equal(16, #step:graphs())
    assert.equal(16, after.graphs)
    assert.equal(before.reserved, after.reserved)
    assert.is_true(after.allocated <= before.allocated)
  end)
end)
