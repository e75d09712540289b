-- few.lua - launches of few.cu: products of one to eight rows on a GPU; what they compute is said in ops.lua.

local launch = require "reprise.launch"

local m = {}

local ROWS = { 1, 2, 4, 4, 5, 8, 8, 8 } -- rows -> what the kernel is compiled for
local SLICE = 512 -- as in product.cuh
local NAMES = { f32 = "float", f16 = "f16", bf16 = "bf16" }

local ceil = launch.ceil

-- Written and checked for its bits, not yet timed: on request only, until it is known to win.
local wanted = os.getenv "REPRISE_FEW" == "1"

--- Programs: for `reprise --build-kernels`.
---@return reprise.LibraryEntry[]
function m.library()
  local list = {}
  for _, dtype in ipairs { "f32", "f16", "bf16" } do
    for _, rows in ipairs { 1, 2, 4, 5, 8 } do
      list[#list + 1] = { file = "few.cu", define = { W = NAMES[dtype], ROWS = tostring(rows) }, gpu = true }
    end
  end
  return list
end

local function lies_right(x) return x.offset % 16 == 0 and x.packed end

--- Can few.cu make this product?
---@param x reprise.Tensor
---@param matrices reprise.Tensor[]
---@param gamma reprise.Tensor?
---@param rows integer
---@param n integer
---@return boolean
function m.fits(x, matrices, gamma, rows, n)
  if not wanted or not launch.is_gpu(x.device) then return false end
  if rows > 8 or n % 8 ~= 0 then return false end
  for _, w in ipairs(matrices) do
    if not lies_right(w) then return false end
  end
  return lies_right(x) and (not gamma or lies_right(gamma))
end

-- Warps that share a unit: where units are few and rows long.
local function split_of(device, n, units, normed)
  local split = 1
  while not normed and split < 8 and split * SLICE < n and units * split < device.units * 4 do split = split * 2 end
  return split
end

---@class reprise.FewGeometry
---@field split integer warps a unit
---@field grid integer
---@field block integer
---@field shared integer

--- Geometry of a launch. Blocks stay and take more columns where not all fit at once.
---@param device reprise.Device
---@param rows integer
---@param n integer
---@param columns integer of y
---@param how { gated: boolean?, normed: boolean? }
---@return reprise.FewGeometry
function m.geometry(device, rows, n, columns, how)
  local units = ceil(columns, how.gated and 2 or 4)
  local split = m.split or split_of(device, n, units, how.normed)
  local warps = math.max(split, m.warps or (units * split >= device.units * 8 and 8 or 4))
  local resident = m.resident or (rows == 1 and 16 or 8) -- warps a multiprocessor has registers for
  return {
    split = split, block = warps * 32, shared = split > 1 and 128 * ceil(n, SLICE) * (warps // split) or 0,
    grid = math.min(ceil(units * split, warps), device.units * math.max(1, resident // warps)),
  }
end

--- few_linear or few_gated.
---@param device reprise.Device
---@param name string
---@param dtype reprise.Dtype of the weights
---@param rows integer
---@return reprise.Kernel
function m.kernel(device, name, dtype, rows)
  local define = { W = NAMES[dtype], ROWS = tostring(ROWS[rows]) }
  return launch.kernel(device, "few.cu", name, define, define.W .. " " .. define.ROWS)
end

return m
