-- TornadoVM issue 1006: a buffer was re-pointed after capture, and the failure was hidden.
-- Here another input is copied, new contents of an outside tensor are seen, and a new outside tensor is an update.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("a swapped input is read, not the one the graph was captured with", function()
    local step = rp.capture(function(x) return x:to "f16" end)
    for value = 1, 5 do assert.equal(value, step(rp.full({ 8 }, value, "f32", device))[8]) end
    assert.equal(1, #step:graphs())
  end)

  it("an outside tensor written anew is read as it is now", function()
    local outside = rp.full({ 8 }, 1, "f32", device)
    local step = rp.capture(function() return outside:to "f16" end, { device = device })
    assert.equal(1, step()[8])
    outside:copy(rp.full({ 8 }, 2, "f32", device))
    assert.equal(2, step()[8])
  end)

  it("another outside tensor is taken over by an update", function()
    local one, two = rp.full({ 8 }, 1, "f32", device), rp.full({ 8 }, 2, "f32", device)
    local step = rp.capture(function() return one:to "f16" end, { device = device })
    assert.equal(1, step()[8])
    assert.equal("patched", step:graphs()[1]:update(function() return two:to "f16" end))
    assert.equal(2, step()[8])
  end)
end)
