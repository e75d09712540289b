--- The contract of programmatic edges, as far as the compiler's text shows it: every WAITS kernel of the library waits,
--- and before it does it touches no memory but what its EARLY parameters point to. NVRTC makes the text, no GPU is needed.
local core = require "reprise.core"
local helper = require "spec.helper"
local ops = require "reprise.ops"

local NEWER = "sm_999" -- than NVRTC knows: then the image is PTX, of the newest it does

-- The library's kernel files, each with defines that it is built with: what else there is differs in types and counts.
local function sources()
  local list, seen = { { file = "copy.cu" } }, {}
  for _, entry in ipairs(ops.library) do
    local define = entry.define or {}
    local common = (define.W or "f16") == "f16" and (define.KV or "f16") == "f16"
    local key = entry.file .. (define.ROWS == 1 and " row" or "")
    if common and not seen[key] then list[#list + 1], seen[key] = entry, true end
  end
  return list
end

-- The PTX of each kernel of a source, by name.
local function kernels_of(entry)
  local folder, found = helper.tmp(), {}
  core.build_kernels(folder, "cuda", NEWER, { file = core.home() .. "/kernels/" .. entry.file, define = entry.define })
  local _, names = helper.run("ls " .. helper.quote(folder))
  local text = helper.read(folder .. "/" .. names:match "%S+")
  for name, body in text:gmatch "%.visible %.entry ([%w_]+)(.-)\n}" do found[name] = body end
  return found
end

-- Names of the kernels that a source marks WAITS, and of all.
local function promises(entry)
  local waits, all = {}, {}
  local text = helper.read(core.home() .. "/kernels/" .. entry.file)
  for mark, name in text:gmatch "\n([%w%s]*)KERNEL%s+void%s+([%w_]+)" do
    all[#all + 1] = name
    if mark:find "WAITS" then waits[#waits + 1] = name end
  end
  return waits, all
end

local function needs_nvrtc()
  local source = { source = "KERNEL void f(float *y) { y[0] = 0; }" }
  local ok, why = pcall(core.build_kernels, helper.tmp(), "cuda", "sm_90", source)
  why = tostring(why)
  if not ok and (why:find("NVRTC", 1, true) and why:find("looking for", 1, true) or why:find("no device of kind", 1, true)) then
    helper.pending "no NVRTC here: kernels of GPUs are not compiled"
  end
end

describe("a WAITS kernel of the library", function()
  it("waits, and touches no memory before but weights and its own block's", function()
    needs_nvrtc()
    local count = 0
    for _, entry in ipairs(sources()) do
      local waits, all = promises(entry)
      local ptx = kernels_of(entry)
      for _, name in ipairs(all) do assert.is_string(ptx[name], entry.file .. ": " .. name) end
      for _, name in ipairs(waits) do
        local before = ptx[name]:match "^(.-)griddepcontrol%.wait;"
        assert.is_string(before, entry.file .. ": " .. name .. " never waits")
        for _, access in ipairs { "%sst%.global", "%sst%.volatile", "%satom%.", "%sred%.", "%scp%.async", "%sld%.global%.[^n]" } do
          assert.is_nil(before:match("[^\n]*" .. access .. "[^\n]*"), entry.file .. ": " .. name)
        end
        count = count + 1
      end
    end
    assert.is_true(count > 20, count)
  end)
end)
