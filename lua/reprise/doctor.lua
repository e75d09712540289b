-- doctor.lua - `reprise --doctor`: what was found of what the runtime uses, each with "ok" or with what to do. What it
-- claims it has tried: a kernel of the library is run on every device, one of a user's is compiled for it.

local core = require "reprise.core"

local m = {}

-- What to do where a fact has no value and its sentence does not say.
local REMEDY = {
  driver = "with an NVIDIA GPU, install its driver, for CUDA 12.4 or later; without one, nothing: the CPU serves",
  CUDA = "to use a GPU, install CUDA's toolkit or its headers (cuda.h, nvrtc.h) and build again in a fresh folder; "
    .. "else nothing: the CPU serves",
  NVRTC = "to compile kernels of one's own for a GPU, install CUDA's toolkit, 12.4 or later, or "
    .. "`pip install nvidia-cuda-nvrtc-cu12`; CUDA_HOME names an unusual place",
  headers = "kernels that include cuda_fp16.h need them: install CUDA's toolkit or set CUDA_HOME",
  compiler = "kernels of one's own need it on the CPU; the library's do not",
  prebuilt = "the library's kernels will be compiled when they are first used: --build-kernels makes them ahead",
  cache = "kernels of one's own are compiled anew in every process: name a folder of yours in REPRISE_CACHE",
  architecture = "unset it",
  threads = "unset it",
  modules = "set REPRISE_HOME to the folder that holds lua/, kernels/ and prebuilt/",
}

local SOURCE = [[
#include "prelude.cuh"
KERNEL void doctor(float *y) { if (BLOCK == 0 && THREAD == 0) y[0] = 1; }
]]

---@class reprise.Finding
---@field name string
---@field value string? nil: not there
---@field why string?
---@field remedy string?
---@field fatal boolean? without it nothing runs

local function found(name, value) return { name = name, value = value } end

local function missing(name, why, remedy) return { name = name, why = why, remedy = remedy or REMEDY[name] } end

-- Calls fn: its result as a value, or its message.
local function attempt(name, fn, remedy)
  local ok, value = pcall(fn)
  if ok then return found(name, value) end
  return missing(name, tostring(value), remedy)
end

-- Runs kernels of the library and compares; says where they came from.
local function try_library(device)
  local before = core.cache_counts()
  local x = core.full({ 1000 }, 2, "f32", device)
  assert(x:to("f16"):to("f32"):equal(x), "a kernel of the library ran and its results are wrong")
  local after = core.cache_counts()
  if after.prebuilt > before.prebuilt then return "run, as they were built with the project" end
  return after.compiled > before.compiled and "run, compiled just now" or "run, from the cache"
end

-- Compiles a kernel in a folder of its own, so that no cache answers.
local function try_compiling(kind, arch)
  local folder, begun = os.tmpname(), core.clock()
  os.remove(folder)
  local ok, why = pcall(core.build_kernels, folder, kind, arch, { source = SOURCE, name = "doctor.cu" })
  os.execute("rm -rf '" .. folder .. "'")
  if not ok then error(why, 0) end
  return ("compile for %s, in %.1f s"):format(arch, core.clock() - begun)
end

local function facts(part)
  local list = core.examine(part)
  for _, fact in ipairs(list) do fact.remedy = REMEDY[fact.name] end
  return list
end

-- One device, tried; `fatal` when nothing runs on it.
local function device_findings(facts_of)
  local name = facts_of.name
  local library = attempt("of the library", function() return try_library(name) end,
    "if memory or the driver is not the reason: this is a fault of reprise, please report it with this page")
  library.fatal = true
  local list = { library, attempt("of one's own", function()
    return try_compiling(name:match "^%a+", facts_of.arch)
  end) }
  if name ~= "cpu" then
    local free = ("%.1f of %.1f GiB free"):format(facts_of.free / 2 ^ 30, facts_of.memory / 2 ^ 30)
    table.insert(list, 1, found("memory", free))
  end
  return list
end

-- "no such device" and wrong environment variables must not end the page.
local function devices()
  local ok, list = pcall(core.devices)
  if ok then return list end
  return {}, tostring(list)
end

--- All that was found, part by part.
---@return { title: string, findings: reprise.Finding[] }[]
function m.examine()
  local parts = {
    { title = "files", findings = { found("program", core.file), attempt("modules", function()
      return assert(package.searchpath("reprise", package.path), "require \"reprise\" finds nothing")
    end) } },
    { title = "cpu", findings = facts "cpu" },
    { title = "cuda", findings = facts "cuda" },
  }
  table.move(facts "cache", 1, 2, 3, parts[1].findings)
  local list, why = devices()
  for _, device in ipairs(list) do
    parts[#parts + 1] = { title = ("%s: kernels on %s"):format(device.name, device.model),
      findings = device_findings(device) }
  end
  if why then
    parts[#parts + 1] = { title = "devices", findings = { missing("devices", why) } }
    parts[#parts].findings[1].fatal = true
  end
  return parts
end

local function line(mark, name, text)
  return ("  %-3s %-14s %s"):format(mark, name, (text:gsub("\n", "\n" .. (" "):rep(21))))
end

--- The page as text, and whether everything that must be there is.
---@param parts { title: string, findings: reprise.Finding[] }[]
---@return string
---@return boolean sound
function m.page(parts)
  local lines, sound = { ("reprise %s, %s"):format(core.version, _VERSION) }, true
  for _, part in ipairs(parts) do
    lines[#lines + 1] = part.title
    for _, finding in ipairs(part.findings) do
      lines[#lines + 1] = line(finding.value and "ok" or "--", finding.name, finding.value or finding.why)
      if not finding.value and finding.remedy then lines[#lines + 1] = line("", "", "-> " .. finding.remedy) end
      sound = sound and (finding.value ~= nil or not finding.fatal)
    end
  end
  return table.concat(lines, "\n"), sound
end

--- The command line.
---@return integer exit code
function m.main(...)
  if select("#", ...) > 0 then
    io.stderr:write "usage: reprise --doctor\n"
    return 2
  end
  local text, sound = m.page(m.examine())
  print(text)
  return sound and 0 or 1
end

return m
