-- imp pull request 1048: an expected failure left an error behind that surfaced elsewhere.
-- Here an update that fails leaves the graph as it was, and the next call is right.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("a failed update surfaces nowhere else", function()
    local x = rp.full({ 8 }, 3, "f32", device)
    local step = rp.capture(function(y) return y:to "f16" end)
    step(x)
    local g = step:graphs()[1]
    assert.error_matches(function() g:update(function() end) end, "the function launched nothing")
    assert.error_matches(function() g:update(function() error "on purpose" end) end, "on purpose")
    local failed = 0
    for after = 0, 40 do
      core.memory_fail_after(after)
      if not pcall(g.update, g, function(y) return y:to "bf16" end) then failed = failed + 1 end
      core.memory_fail_after(-1)
      assert.equal(3, step(x)[8])
      assert.equal(8, rp.arange(9, "i32", device)[9])
    end
    assert.is_true(failed > 0)
  end)
end)
