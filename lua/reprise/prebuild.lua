--- `reprise --build-kernels DIR [--arch a,b]`: compiles the library's kernels ahead of time, as entries that the kernel
-- cache looks up first. Running then needs no compiler. And which of them a model needs first.

local core = require "reprise.core"
local launch = require "reprise.launch"

local m = {}

-- What a model's first token needs, what takes a compiler longest first. Defines are those of the model, or ALWAYS.
local FIRST = {
  "tiles.cu", "few.cu", "attend_self.cu", "linear.cu", "attend_cross.cu", "copy.cu", "sample.cu", "attend_all.cu",
  "norm.cu", "embed.cu",
}
local ALWAYS = { ROWS = "1", KV = "float" } -- greedy decoding has one row; encoders keep f32

--- The kernel files with the defines they are compiled with: the runtime's own, then those of the operations.
local function sources(kind)
  local list = { { file = "copy.cu", define = {} } }
  for _, entry in ipairs(require("reprise.ops").library) do
    if kind == "cuda" or not entry.gpu then list[#list + 1] = entry end
  end
  return list
end

local function is_of(define, own)
  for name, value in pairs(define) do
    if value ~= own[name] and value ~= ALWAYS[name] then return false end
  end
  return true
end

--- Of all of them, what a model of such weights and caches needs for its first token.
---@param device reprise.Device
---@param weights reprise.Dtype
---@param kv "f32"|"f16"
---@return reprise.LibraryEntry[]
function m.first(device, weights, kv)
  local own, list = { W = launch.WEIGHTS[weights], KV = kv == "f16" and "f16" or "float" }, {}
  local all = sources(launch.is_gpu(device) and "cuda" or "cpu")
  for _, file in ipairs(FIRST) do
    for _, entry in ipairs(all) do
      if entry.file == file and is_of(entry.define, own) then list[#list + 1] = entry end
    end
  end
  return list
end

--- "native": what the devices of this machine are.
local function architectures(words)
  local list, seen = {}, {}
  local function add(arch)
    if not seen[arch] then list[#list + 1] = arch end
    seen[arch] = true
  end
  for word in words:gmatch "[^,%s]+" do
    if word == "native" then
      for _, device in ipairs(core.devices()) do add(device.arch) end
    else
      add(word)
    end
  end
  return list
end

--- Compiles every library kernel for one architecture.
---@param folder string made if it is missing
---@param arch string "sm_90" is a GPU's, others are processors'
---@return integer entries
function m.build(folder, arch)
  local kind = arch:find "^sm_" and "cuda" or "cpu"
  local list = sources(kind)
  for _, entry in ipairs(list) do
    core.build_kernels(folder, kind, arch, { file = core.home() .. "/kernels/" .. entry.file, define = entry.define })
  end
  return #list
end

--- The command line.
function m.main(folder, option, archs, extra)
  if not folder or folder:find "^%-" or (option and option ~= "--arch") or (option and not archs) or extra then
    io.stderr:write "usage: reprise --build-kernels DIR [--arch a,b] (native, x86-64-v3, sm_90, ...)\n"
    return 2
  end
  for _, arch in ipairs(architectures(archs or "native")) do
    print(("%s: %d kernel files compiled for %s"):format(folder, m.build(folder, arch), arch))
  end
  return 0
end

return m
