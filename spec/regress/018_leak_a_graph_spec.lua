-- Warp issue 1429: a leak a graph.
-- Here creating, replaying and closing a graph a thousand times leaves every figure where it was.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("a thousand graphs made, replayed and closed leave device and host memory flat", function()
    local pool = rp.pool { device = device }
    local function once()
      local step <close> = rp.capture(function(x) return x:to "f16" end, { pool = pool })
      local x <close> = rp.full({ 500 }, 1, "f32", pool)
      local y <close> = step(x)
      assert.equal(1, y[500])
      collectgarbage() -- nodes kept for later are as many as handles were alive at once
    end
    local function settled()
      collectgarbage()
      collectgarbage()
      local f = pool:figures()
      return { f.allocated, f.reserved, f.blocks, f.graphs, core.memory_live(), device ~= "cpu" and f.device_used or 0 }
    end
    for _ = 1, 3 do once() end
    local before = settled()
    for _ = 1, 1000 do once() end
    assert.same(before, settled())
  end)
end)
