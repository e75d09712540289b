-- cuda-python issue 2039: an argument was freed after capture, and the second launch read garbage.
-- Here the graph holds what it names, whatever becomes of the handles.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("a tensor named by a graph stays in place when its handle is dropped and memory is filled", function()
    local step
    do
      local weights = rp.full({ 1000 }, 7, "f32", device)
      step = rp.capture(function() return weights:to "f16" end, { device = device })
      assert.equal(7, step()[1000])
      weights:close()
    end
    collectgarbage()
    collectgarbage()
    local others = {}
    for i = 1, 50 do others[i] = rp.full({ 1000 }, 100 + i, "f32", device) end
    local y = step()
    assert.equal(7, y[1])
    assert.equal(7, y[1000])
    assert.equal(101, others[1][1])
  end)
end)
