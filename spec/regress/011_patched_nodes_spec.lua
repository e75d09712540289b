-- llama.cpp issue 12152: arguments of a graph's nodes were edited in memory that belonged to the driver.
-- Here nodes are handed to the device anew, from memory of our own: a thousand patches, by parameters, by inputs that need
-- larger places, and by recording again, each followed by a replay. On a GPU under compute-sanitizer, where that is found.
local helper = require "spec.helper"

local CYCLES = [[
local rp = require "reprise"
local dev = rp.device(%q)
local scale = rp.compile {
  source = '#include "prelude.cuh"\n' .. "KERNEL void scale(float *y, const float *x, float a, i32 n) { " ..
    "for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += (i32)(BLOCKS * THREADS)) y[i] = a * x[i]; }", device = dev,
}.scale
local a, outside = rp.param("f32", 1), { rp.full({ 4 }, 3, "f32", dev), rp.full({ 4 }, 5, "f32", dev) }
local function record(x, by, other)
  local y, z = rp.empty(x.shape, "f32", dev), rp.empty({ 4 }, "f32", dev)
  scale { grid = 1, y, x, a, x.elements }
  scale { grid = 1, z, other, by, 4 }
  return y, z
end
local step = rp.capture(function(x) return record(x, 1, outside[1]) end, { device = dev })
local wide = rp.capture(function(x) return record(x, 1, outside[1]) end, { device = dev })
local x, bytes = rp.full({ 4 }, 2, "f32", dev), 4
step(x)
local graph, patched, last = step:graphs()[1], 0, { 1, 1 }
for i = 1, 1000 do
  a:set(i)
  if i %% 3 == 0 then
    local by, other = i, i %% 2 + 1
    patched = patched + (graph:update(function(t) return record(t, by, outside[other]) end) == "patched" and 1 or 0)
    last = { by, other }
  end
  if i %% 100 == 0 then -- a larger input moves the place that step's graph reads too
    bytes = bytes * 2
    wide(rp.full({ bytes }, 1, "f32", dev))
  end
  x:fill(i %% 7)
  local y, z = step(x)
  local want = last[1] * (last[2] == 1 and 3 or 5)
  assert(y[1] == i * (i %% 7) and y[4] == y[1], i)
  assert(z[4] == want, i)
end
assert(patched == 333, patched)
assert(#step:graphs() == 1)
print "patched and replayed"
]]

helper.each_device(function(device)
  it("a thousand patches are replayed as patched", function()
    helper.needs_compiler(device)
    local file, checker = helper.tmp() .. "/cycles.lua", ""
    helper.write(file, CYCLES:format(device))
    if device ~= "cpu" and helper.run "command -v compute-sanitizer" == 0 then
      -- That a kernel has no further parameter is told by an error, which is no fault.
      checker = "compute-sanitizer --report-api-errors no --error-exitcode 9 --log-file /dev/stderr "
    end
    local code, out, err = helper.run(checker .. helper.quote(helper.program()) .. " " .. helper.quote(file))
    assert.equal(0, code, err)
    assert.equal("patched and replayed\n", out)
  end)
end)
