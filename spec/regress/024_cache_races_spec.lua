-- cupy issue 9463 and cumo PR 526: cache entries of zero bytes, and races that processes lost when they
-- started cold together. Here entries appear whole or not at all, are checked before use, and bad ones are
-- made again.
local helper = require "spec.helper"
local kernels = require "spec.support.kernels"

local PROCESSES, KERNELS = 8, 20

local function damage(path, how)
  local bytes = helper.read(path)
  local flips = { [3] = #bytes - 100, [4] = 30, [5] = 3 } -- in the image, in the symbols, in the first word
  if how == 1 then bytes = ""
  elseif how == 2 then bytes = bytes:sub(1, #bytes // 2)
  elseif how == 6 then bytes = bytes .. "more"
  else
    local at = flips[how]
    bytes = bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1) .. bytes:sub(at + 1)
  end
  helper.write(path, bytes)
end

describe("a kernel cache that many processes share", function()
  helper.each_device(function(device)
    it("serves a cold start of all of them, a warm start, and a start with every entry damaged", function()
      helper.needs_compiler(device)
      local folder = helper.tmp()
      local cache, files = folder .. "/cache", kernels.sources(folder, KERNELS)
      local command = kernels.command(device, cache, files)
      local together = {}
      for i = 1, PROCESSES do
        local of = folder .. "/" .. i
        together[i] = ("{ %s >%s.out 2>%s.err; echo $? >%s.rc; } &"):format(command, of, of, of)
      end
      helper.run(table.concat(together, "\n") .. "\nwait")
      local compiled = 0
      for i = 1, PROCESSES do
        assert.are.equal("0\n", helper.read(("%s/%d.rc"):format(folder, i)),
          helper.read(("%s/%d.err"):format(folder, i)))
        local counts = kernels.counts(helper.read(("%s/%d.out"):format(folder, i)))
        assert.are.equal(KERNELS, counts.hits + counts.compiled)
        assert.are.equal(0, counts.rebuilt)
        compiled = compiled + counts.compiled
      end
      assert.is_true(compiled >= KERNELS)
      assert.are.equal(KERNELS, #kernels.entries(cache))

      local warm = kernels.compile(device, cache, files)
      assert.are.same({ prebuilt = 0, hits = KERNELS, compiled = 0, rebuilt = 0 }, warm)

      for i, name in ipairs(kernels.entries(cache)) do damage(cache .. "/" .. name, i % 6 + 1) end
      local mended = kernels.compile(device, cache, files)
      assert.are.same({ prebuilt = 0, hits = 0, compiled = KERNELS, rebuilt = KERNELS }, mended)
      assert.are.same(warm, kernels.compile(device, cache, files))
    end)
  end)
end)
