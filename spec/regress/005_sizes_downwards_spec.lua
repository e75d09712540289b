-- vLLM pull request 9724: memory grew with every captured batch size, since outputs pinned the pool.
-- Here all graphs lie over each other: what the largest took serves all others.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("capturing batches of 8, 4, 2 and 1 reserves what the first one did", function()
    local pool = rp.pool { device = device }
    local step = rp.capture(function(x)
      local y = x:to "f16"
      return y:to "f32", y
    end, { pool = pool })
    local reserved, kept = nil, {}
    for _, batch in ipairs { 8, 4, 2, 1 } do
      local x = rp.full({ batch, 1 << 18 }, batch, "f32", device)
      kept[#kept + 1] = { step(x) }
      reserved = reserved or pool:figures().reserved
      assert.equal(reserved, pool:figures().reserved)
      assert.equal(batch, kept[#kept][1][batch][1])
    end
  end)
end)
