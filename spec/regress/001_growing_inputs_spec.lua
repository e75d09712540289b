-- kernl issues 205 and 267: every shape kept its own copy of every input; 10.9 GB for a speech model.
-- Here inputs share their places: a cache that grows costs its largest size, not the sum of all.
local rp = require "reprise"
local helper = require "spec.helper"

local GRAPHS, ROW = 20, 4096

helper.each_device(function(device)
  local function grow(reserve)
    local pool = rp.pool { device = device }
    local step = rp.capture(function(cache)
      local out = rp.empty(cache.shape, "f32", pool)
      out:copy(cache)
      return out
    end, { pool = pool, reserve = reserve })
    for round = 1, 2 do
      for n = 1, GRAPHS do
        local cache <close> = rp.full({ n, ROW // 4 }, n + round, "f32", pool)
        assert.equal(n + round, step(cache)[n][ROW // 4])
      end
    end
    assert.equal(GRAPHS, #step:graphs())
    return pool:figures().slots.allocated
  end

  describe("a cache that grows through 20 graphs", function()
    it("takes the bytes of its largest size where that was reserved", function()
      assert.equal(GRAPHS * ROW, grow { GRAPHS * ROW })
    end)

    it("takes at most twice that where nothing was reserved, once older graphs were patched", function()
      assert.is_true(grow() <= 2 * GRAPHS * ROW)
    end)
  end)
end)
