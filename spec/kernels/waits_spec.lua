--- The contract of programmatic edges, as far as the compiler's text shows it: every WAITS kernel of the library waits,
--- and before it does it reads no memory but what its EARLY parameters point to, and writes none but its own. NVRTC makes
--- the text, no GPU is needed.
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

-- Names of the kernels that a source marks WAITS, each with which of its parameters may not be read early; names of all.
local function promises(entry)
  local waits, late, all = {}, {}, {}
  local text = helper.read(core.home() .. "/kernels/" .. entry.file):gsub("__launch_bounds__%s*%b()%s*", "")
  for mark, name, list in text:gmatch "\n([%w%s]*)KERNEL%s+void%s+([%w_]+)%s*(%b())" do
    all[#all + 1] = name
    if mark:find "WAITS" then waits[#waits + 1], late[name] = name, {} end
    local index = 0
    for one in (list:sub(2, -2) .. ","):gmatch "([^,]*)," do
      if late[name] and one:find("*", 1, true) and not one:find "EARLY" then late[name][index] = true end
      index = index + 1
    end
  end
  return waits, late, all
end

-- The registers of a PTX text that hold something made of pointers that come too early: what a register is computed from
-- flows into it, and what is loaded is a value, not a place.
local function tainted(text, late)
  local bad, changed = {}, true
  while changed do
    changed = false
    for line in text:gmatch "[^\n]+" do
      local target, rest = line:match "^%s[%w%.:]+%s+(%%[%w]+), (.*)$"
      local index = tonumber(line:match "ld%.param%.u64.-_param_(%d+)%]")
      local taints = index and late[index] or false
      if rest and not index and not line:find "ld%." then
        for register in rest:gmatch "%%[%w]+" do taints = taints or bad[register] end
      end
      if target and taints and not bad[target] then bad[target], changed = true, true end
    end
  end
  return bad
end

local function needs_nvrtc()
  local source = { source = '#include "prelude.cuh"\nKERNEL void f(float *y) { y[0] = 0; }' }
  local ok, why = pcall(core.build_kernels, helper.tmp(), "cuda", "sm_90", source)
  why = tostring(why)
  if not ok and (why:find("NVRTC", 1, true) and why:find("looking for", 1, true) or why:find("no device of kind", 1, true)) then
    helper.pending "no NVRTC here: kernels of GPUs are not compiled"
  end
end

describe("a WAITS kernel of the library", function()
  it("waits, and touches no memory before but weights and its own block's", function()
    needs_nvrtc()
    local count, loads = 0, 0
    for _, entry in ipairs(sources()) do
      local waits, late, all = promises(entry)
      local ptx = kernels_of(entry)
      for _, name in ipairs(all) do assert.is_string(ptx[name], entry.file .. ": " .. name) end
      for _, name in ipairs(waits) do
        local before = ptx[name]:match "^(.-)griddepcontrol%.wait;"
        assert.is_string(before, entry.file .. ": " .. name .. " never waits")
        for _, access in ipairs { "%sst%.global", "%sst%.volatile", "%satom%.", "%sred%.", "%scp%.async%.bulk" } do
          assert.is_nil(before:match("[^\n]*" .. access .. "[^\n]*"), entry.file .. ": " .. name)
        end
        local bad = tainted(before, late[name])
        for _, from in ipairs { "ld%.global.-%[(%%[%w]+)", "cp%.async%.c[ag]%.shared%.global%s+%[.-%], %[(%%[%w]+)" } do
          for line in before:gmatch "[^\n]+" do
            local register = line:match(from)
            assert.is_nil(bad[register], entry.file .. ": " .. name .. ": " .. line)
            if register then loads = loads + 1 end
          end
        end
        count = count + 1
      end
    end
    assert.is_true(count > 20, count)
    assert.is_true(loads > 50, loads)
  end)
end)
