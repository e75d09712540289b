-- vLLM issue 57475: the memory that graphs need was under-estimated.
-- Here the plan's figure is what is used, and a budget one page smaller fails before anything is built, clearly.
local rp = require "reprise"
local helper = require "spec.helper"

local PAGE, BYTES = 2 << 20, 6 << 20

helper.each_device(function(device)
  local function run(limit)
    local pool = rp.pool { device = device, limit = limit }
    local x = rp.full({ BYTES // 4 }, 3, "f32", device)
    local step = rp.capture(function(y) return y:to "f16" end, { pool = pool })
    local ok, why = pcall(function() return step(x)[1] end)
    return ok, why, pool, step
  end

  it("a plan needs the bytes that it says", function()
    local ok, value, pool, step = run()
    assert.is_true(ok)
    assert.equal(3, value)
    local plan = step:graphs()[1].plan
    assert.equal(BYTES // 2, plan.peak)
    assert.equal(plan.peak, pool:figures().scratch.allocated)
    assert.equal((plan.peak + PAGE - 1) // PAGE * PAGE, pool:figures().scratch.reserved)
  end)

  it("a budget one page smaller fails before the graph is built, with the figures", function()
    local _, _, pool = run()
    local needed = pool:figures().reserved
    assert.is_true((run(needed)))
    local ok, why, tight, step = run(needed - PAGE)
    assert.is_false(ok)
    assert.matches("do not fit into the limit", why, 1, true)
    assert.matches(("of at most %d"):format(needed - PAGE), why, 1, true)
    assert.equal(0, #step:graphs())
    assert.equal(0, tight:figures().graphs)
  end)
end)
