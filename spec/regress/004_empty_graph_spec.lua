-- kernl issue 331: storms of "the graph is empty" warnings.
-- Here a captured function that launches nothing is an error that says so, and the next capture works.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("capturing a function that launches nothing says so", function()
    local x = rp.zeros({ 2 }, "f32", device)
    local empty = rp.capture(function(y) return y:view { 2 } end, { name = "views" })
    assert.same({ 0, 0 }, empty(x):totable()) -- an input that is returned is copied: one node
    local nothing = rp.capture(function() end, { name = "nothing", device = device })
    assert.error_matches(function() nothing() end, "capturing nothing: the function launched nothing, so there is no graph")
    assert.equal(0, #nothing:graphs())
    assert.same({ 0, 0 }, empty(x):totable())
  end)
end)
