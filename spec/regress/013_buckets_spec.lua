-- PyTorch issue 119640: recording never came to rest.
-- Here source lengths fall into buckets of doubling size, and each has one graph.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("lengths 1 to 200 need no more graphs than there are buckets", function()
    local model = rp.t5.load(core.home() .. "/scripts/models/g2p", { device = device })
    for n = 1, 200, 3 do
      local ids = {}
      for i = 1, n do ids[i] = 100 + i % 20 end
      model:generate({ ids }, { max_new_tokens = 2 })
    end
    assert.equal(5, model.count.captured) -- 16, 32, 64, 128, 256
  end)
end)
