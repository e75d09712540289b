--- Signals: decoding that the device ends, with replays queued ahead.
local helper = require "spec.helper"
local rp = require "reprise"

local SOURCE = [[
#include "prelude.cuh"
/* Counts to `last` and says so; steps past the end change nothing. state: step, epoch, last */
KERNEL void count (u64 *words, i32 *state) {
  if (BLOCK || THREAD) return;
  i32 step = state[0];
  if (step >= state[2]) { publish(words, (u32)state[1] << 16 | (u32)step, 1); return; }
  publish(words + 1 + step % 8, (u32)state[1] << 16 | (u32)step, (u32)(100 + step));
  state[0] = ++step;
  publish(words, (u32)state[1] << 16 | (u32)step, step == state[2]);
}
]]

helper.each_device(function(name)
  describe("a signal", function()
    local dev, signal, state, step

    local function begin(last)
      if not step then
        helper.needs_compiler(name)
        dev = rp.device(name)
        signal, state = rp.signal(dev, 8), rp.zeros({ 3 }, "i32", dev)
        local prog, words = rp.compile { source = SOURCE, device = dev }, signal.words
        step = rp.capture(function() prog.count { words, state } end, { device = dev })
        state:copy(rp.tensor({ 0, signal:reset(), 1 }, "i32", dev))
        step()
      end
      state:copy(rp.tensor({ 0, signal:reset(), last }, "i32", dev))
      return true
    end

    for _, ahead in ipairs { 0, 1, 2, 7 } do
      it(("stops a run with %d replays ahead at the step that published it"):format(ahead), function()
        if not begin(20) then return end
        assert.equal(20, step:run { max = 1000, stop = signal, ahead = ahead })
        assert.same({ 20, true }, { signal:step() })
        dev:synchronize()
        assert.equal(20, state[1])
      end)
    end

    it("lets a run end at max when nothing stops it", function()
      if not begin(1000) then return end
      assert.equal(30, step:run { max = 30, stop = signal, ahead = 3 })
      dev:synchronize()
      assert.equal(30, state[1])
      assert.same({ 30, false }, { signal:step() })
    end)

    it("goes on where single replays have begun, and has nothing to do when they have ended it", function()
      if not begin(20) then return end
      for _ = 1, 3 do step() end
      dev:synchronize()
      assert.equal(17, step:run { max = 1000, stop = signal, ahead = 2 })
      assert.same({ 20, true }, { signal:step() })
      assert.equal(0, step:run { max = 1000, stop = signal, ahead = 2 })
      if not begin(2) then return end
      for _ = 1, 5 do step() end
      dev:synchronize()
      assert.equal(0, step:run { max = 10, stop = signal, ahead = 1 })
      assert.equal(2, state[1])
    end)

    it("holds the newest records of the run in its ring", function()
      if not begin(12) then return end
      step:run { max = 100, stop = signal, ahead = 2 }
      dev:synchronize()
      assert.equal(111, signal:read(11))
      assert.equal(104, signal:read(4))
      assert.is_nil(signal:read(3))
      assert.is_nil(signal:read(12))
    end)

    it("of a new run knows nothing of the last one", function()
      if not begin(5) then return end
      step:run { max = 10, stop = signal, ahead = 2 }
      dev:synchronize()
      signal:reset()
      assert.same({ 0, false }, { signal:step() })
      assert.is_nil(signal:read(0))
    end)

    it("waits for a record, and no longer than the device works", function()
      if not begin(12) then return end
      for _ = 1, 3 do step() end
      assert.equal(100, signal:wait(0))
      assert.equal(102, signal:wait(2))
      assert.is_nil(signal:wait(3))
      assert.error_matches(function() signal:wait(-1) end, "record %-1: 0 to 65535 are possible")
    end)

    it("knows nothing of runs of the same number, 65,535 runs ago", function()
      if not begin(3) then return end
      step:run { max = 10, stop = signal, ahead = 2 }
      dev:synchronize()
      local epoch = signal.epoch
      repeat signal:reset() until signal.epoch == epoch
      assert.same({ 0, false }, { signal:step() })
      assert.is_nil(signal:read(0))
    end)

    it("ends with the device idle when the kernels publish nothing", function()
      if not begin(5) then return end
      local silent = rp.capture(function() state:fill(0) end, { device = dev })
      silent()
      signal:reset()
      assert.equal(9, silent:run { max = 9, stop = signal, ahead = 2 })
    end)

    it("refuses what is no number of records, and to be used closed", function()
      local device = rp.device(name)
      assert.error_matches(function() rp.signal(device, 0) end, "0 records: 1 to 65535 are possible")
      local s = rp.signal(device)
      assert.matches("^signal: epoch 0, step 0", tostring(s))
      s:close()
      assert.error_matches(function() s:step() end, "the signal is closed")
    end)
  end)
end)
