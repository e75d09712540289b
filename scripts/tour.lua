-- usage: reprise scripts/tour.lua
-- Writes a kernel, launches it, captures two launches as one step, and replays the step from memory that is recycled.
local rp = require "reprise"

local dev = rp.device()
print(("device   %s, %s"):format(dev.name, dev.model))

-- One source for GPU and CPU. The runtime reads the signature: `float *` is written, `const float *` is read.
local prog = rp.compile { device = dev, source = [[
#include "prelude.cuh"
KERNEL void scale(float *y, const float *x, float a, i32 n) {
  for (i32 i = BLOCK * THREADS + THREAD; i < n; i += BLOCKS * THREADS) y[i] = a * x[i];
}
]] }

local function show(label, tensor)
  print(("%-8s %g %g %g %g"):format(label, table.unpack(tensor:totable())))
end

local x = rp.tensor({ 1, 2, 3, 4 }, "f32", dev)
local y = rp.empty({ 4 }, "f32", dev)
prog.scale { grid = 1, block = 32, y, x, 10, 4 }
show("launch", y)

-- While the function is captured nothing runs: its launches are recorded, its tensors planned into one piece of memory.
local step = rp.capture(function(input)
  local half, out = rp.empty({ 4 }, "f32", dev), rp.empty({ 4 }, "f32", dev)
  prog.scale { grid = 1, block = 32, half, input, 0.5, 4 }
  prog.scale { grid = 1, block = 32, out, half, 4, 4 }
  return out
end, { name = "double" })

for i = 1, 3 do
  local out = step(x) -- the first call records and replays, the others replay
  show("replay " .. i, out)
  x:copy(out)
end

local graph = step:graphs()[1]
print(("graph    %s: %d nodes, %d bytes at once"):format(graph.name, graph.nodes, graph.plan.peak))
