-- cuda-python issue 844 and cupy issue 8466: half-precision kernels did not compile because cuda_fp16.h was
-- not found. Here f16 is the prelude's own and needs no header; cuda_fp16.h is found, or the error lists
-- where it was looked for.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"

local twice = [[
#include "prelude.cuh"
KERNEL void twice(f16 *y, const f16 *x, i32 n) {
  i32 step = (i32)(BLOCKS * THREADS);
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += step) y[i] = to_f16(2 * to_f32(x[i]));
}
]]

local script = [[
local rp = require "reprise"
local x, y = rp.tensor({ 1, -0.5, 3 }, "f16"), rp.empty({ 3 }, "f16")
rp.compile { file = arg[1] }.twice { grid = 1, block = 32, y, x, 3 }
io.write(table.concat(y:totable(), " "))
]]

local one = [[
#include <cuda_fp16.h>
__global__ void one(__half *y) { y[threadIdx.x] = __float2half(1.0f); }
]]

-- NVRTC needs no GPU.
local function build(source)
  return pcall(core.build_kernels, helper.tmp(), "cuda", "sm_90", { source = source, name = "k.cu" })
end

describe("a half-precision kernel", function()
  helper.each_device(function(device)
    it("compiles without a toolkit's headers", function()
      helper.needs_compiler(device)
      local folder = helper.tmp()
      helper.write(folder .. "/twice.cu", twice)
      helper.write(folder .. "/run.lua", script)
      local run = "cd %s && CUDA_HOME=. CUDA_PATH=. REPRISE_CACHE=cache REPRISE_DEVICE=%s %s run.lua twice.cu"
      local code, out, err = helper.run(run:format(folder, device, helper.program()))
      assert.are.equal(0, code, err)
      assert.are.equal("2.0 -1.0 6.0", out)
    end)

    if device ~= "cpu" and build(one) then
      it("runs with CUDA's own type", function()
        local y <close> = rp.zeros({ 2 }, "f16", device)
        rp.compile({ source = one, device = device }).one { grid = 1, block = 2, y }
        assert.are.same({ 1, 1 }, y:totable())
      end)
    end
  end)

  it("may include cuda_fp16.h where the toolkit has it, else is told where headers were looked for",
    function()
    local ok, why = build "__global__ void f() {}"
    if not ok and (why:find("libnvrtc", 1, true) or why:find("no device of kind", 1, true)) then
      pending "there is no NVRTC"
    end
    assert.is_true(ok, why)
    ok, why = build(one)
    if ok then ok, why = build(one:gsub("cuda_fp16", "cuda_fp17")) end -- then that would be said of another
    assert.is_false(ok)
    assert.truthy(why:find "cuda_fp1[67]%.h", why)
    assert.truthy(why:find("headers were looked for in ", 1, true), why)
  end)
end)
