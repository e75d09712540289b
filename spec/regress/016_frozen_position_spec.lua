-- DeepSpeed pull request 8271: the position was frozen in a launch argument.
-- Here it lies on the device: five replays of one captured step write positions 0 to 4.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("five replays of a captured step write positions 0 to 4 of the caches", function()
    local heads, inner, room = 2, 16, 8
    local function zeros(...) return rp.zeros({ ... }, "f32", device) end
    local keys, values, position = zeros(1, room, inner), zeros(1, room, inner), rp.zeros({ 1 }, "i32", device)
    local step = rp.capture(function(qkv) return rp.ops.attend_self(qkv, keys, values, position, heads) end)
    for i = 0, 4 do
      position:fill(i)
      step(rp.full({ 1, 3 * inner }, i + 1, "f32", device))
    end
    local written = keys:totable()[1]
    for i = 1, room do assert.equal(i <= 5 and i or 0, written[i][1]) end
    assert.equal(1, #step:graphs())
  end)
end)
