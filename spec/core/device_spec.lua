--- Devices and pools: opening, closing, figures, and that nothing leaks.
local helper = require "spec.helper"
local rp = require "reprise"
local core = require "reprise.core"

helper.each_device(function(name)
  describe("a device", function()
    it("is opened once a state, under each of its names", function()
      local dev = rp.device(name)
      assert.equal(dev, rp.device(name))
      assert.equal(dev, rp.device(name:match "^%a+"))
      assert.equal(name, dev.name)
      assert.is_true(dev.units >= 1)
    end)

    it("makes every later use raise once it is closed, and can be opened anew", function()
      local dev = rp.device(name)
      local x = rp.zeros({ 4 }, "f32", dev)
      dev:close()
      dev:close()
      assert.error_matches(function() x:totable() end, "the device is closed")
      assert.error_matches(function() rp.zeros({ 1 }, "f32", dev) end, "the device is closed")
      assert.error_matches(function() dev:synchronize() end, "the device is closed")
      assert.matches("closed", tostring(dev))
      assert.same({ 0, 0 }, rp.zeros({ 2 }, "f32", rp.device(name)):totable())
      x:close()
    end)

    it("does not mix its tensors with those of another", function()
      local dev = rp.device(name)
      local x = rp.zeros({ 2 }, "f32", dev)
      dev:close()
      local y = rp.zeros({ 2 }, "f32", rp.device(name))
      assert.error_matches(function() y:copy(x) end, "the device is closed")
    end)
  end)

  describe("the pool", function()
    it("counts bytes by zone and gives blocks back as their last handle goes", function()
      local pool = rp.pool { device = rp.device(name) }
      local x = rp.empty({ 1000 }, "f32", pool)
      local view = x:slice(1, 1, 10)
      assert.equal(4096, pool:figures().tensors.allocated)
      x:close()
      assert.equal(4096, pool:figures().tensors.allocated)
      view:close()
      view:close()
      local f = pool:figures()
      assert.equal(0, f.tensors.allocated)
      assert.equal(4096, f.tensors.peak_allocated)
      assert.equal(2 << 20, f.tensors.reserved)
      assert.equal(f.tensors.reserved, f.reserved)
    end)

    it("recycles: a thousand tensors one after the other need the memory of one", function()
      local pool = rp.pool { device = rp.device(name) }
      for i = 1, 1000 do rp.empty({ 1000 + i }, "f32", pool):close() end
      assert.equal(0, pool:figures().tensors.allocated)
      assert.equal(2 << 20, pool:figures().reserved)
    end)

    it("closes a <close> variable at the end of its block", function()
      local pool = rp.pool { device = rp.device(name) }
      do
        local x <close> = rp.empty({ 100 }, "f32", pool)
        assert.equal(512, pool:figures().allocated)
        assert.is_false(x.closed)
      end
      assert.equal(0, pool:figures().allocated)
    end)

    it("says what was tried, what is allocated and what is left when memory runs out", function()
      local pool = rp.pool { device = rp.device(name) }
      local ok, why = pcall(rp.empty, { 1 << 46 }, "u8", pool)
      assert.is_false(ok)
      assert.matches("taking 70368744177664 bytes in zone tensors of " .. name, why, 1, true)
      assert.matches("0 bytes allocated", why, 1, true)
      assert.same({ 0 }, rp.zeros({ 1 }, "f32", pool):totable())
    end)

    it("leaves addresses to others where a limit is set on them", function()
      if name ~= "cpu" then return end
      if helper.sanitized() then helper.pending "a build with sanitizers, which need all addresses there are" end
      local limited = ("ulimit -v 8000000; %s "):format(helper.quote(helper.program()))
      if helper.run(limited .. "-v") ~= 0 then pending "this program does not start with so few addresses" end
      local code, out, err = helper.run(limited .. [[-e '
        local rp, pools = require "reprise", {}
        for i = 1, 5 do
          pools[i] = rp.pool { device = rp.device "cpu" }
          io.write(rp.zeros({ 1 }, "f32", pools[i])[1], " ")
        end']])
      assert.same({ 0, "0 0 0 0 0 " }, { code, out }, err)
    end)

    it("prints its figures", function()
      assert.matches("^pool of " .. name, tostring(rp.device(name).pool))
    end)
  end)

  describe("an error", function()
    local dev

    local function settle()
      for _ = 1, 3 do collectgarbage() end
      return core.memory_live()
    end

    -- Fails the first allocation of work, the second ... until `enough` in a row did not matter: those come after its end.
    local function sweep(work, enough)
      local before, failures, after, calm = settle(), 0, 0, 0
      while calm < enough do
        core.memory_fail_after(after)
        local ok = pcall(work)
        core.memory_fail_after(-1)
        if ok then calm = calm + 1 else failures, calm = failures + 1, 0 end
        assert.is_false(dev.recording)
        assert.equal(before, settle(), "after failing allocation " .. after)
        after = after + 1
      end
      return failures
    end

    before_each(function() dev = rp.device(name) end)

    it("loses no allocation of a pool: each one fails in turn, and the counts return", function()
      local function work() return rp.zeros({ 2 }, "f32", rp.pool { device = dev }):totable() end
      assert.same({ 0, 0 }, work())
      work()
      sweep(work, 10) -- every one is tried again after a collection: none needs to be noticed
      assert.same({ 0, 0 }, work())
    end)

    it("loses no allocation of a captured function, in a pool that lives on", function()
      local pool = rp.pool { device = dev }
      local function work()
        local x = rp.tensor({ { 1, 2 }, { 3, 4 } }, "f32", pool)
        local step = rp.capture(function(y)
          local z = rp.empty({ 2, 2 }, "f32", pool)
          z:copy(y:transpose(1, 2))
          return z:to "f16"
        end, { pool = pool, name = "sweep" })
        local out = step(x):totable()
        step:graphs()[1]:manifest()
        step:close()
        x:close()
        return out
      end
      assert.same({ { 1, 3 }, { 2, 4 } }, work())
      work()
      assert.is_true(sweep(work, 50) > 0)
      assert.same({ { 1, 3 }, { 2, 4 } }, work())
    end)
  end)
end)

describe("opening a device", function()
  it("that is not there raises one sentence", function()
    assert.error_matches(function() rp.device "gpu" end, 'opening device "gpu": expected "cpu", "cuda" or "cuda:N"')
    assert.error_matches(function() rp.device "cuda:x" end, 'opening device "cuda:x": expected')
    assert.error_matches(function() rp.device "cuda:1023" end, 'opening device "cuda:1023"')
    assert.error_matches(function() rp.device(5) end, "reprise.Device expected, got number")
  end)

  it("is probed by has_cuda, which gives a reason and does not raise", function()
    local ok, why = rp.has_cuda()
    assert.is_true(ok == true or (ok == nil and #why > 0))
  end)

  it("is not needed to list what is there", function()
    local list = rp.devices()
    assert.equal("cpu", list[#list].name)
    assert.is_true(list[#list].memory > 0)
  end)
end)
