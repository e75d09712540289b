-- few.lua - launches of few.cu: products of one to eight rows on a GPU; what they compute is said in ops.lua.

local launch = require "reprise.launch"

local m = {}

local ROWS = { 1, 2, 4, 4, 5, 8, 8, 8 } -- rows -> what the kernel is compiled for
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

-- Columns a warp takes at a time: as many as its first packs of weights reach.
local function wide_of(n, gated)
  local wide = n <= 768 and 4 or n <= 1536 and 2 or 1
  return gated and math.max(1, wide // 2) or wide
end

--- Columns at a time and geometry of a launch. Blocks stay and take more columns where not all fit at once.
---@param device reprise.Device
---@param rows integer
---@param n integer
---@param columns integer of y
---@param gated boolean
---@return integer wide
---@return integer grid
---@return integer block
function m.geometry(device, rows, n, columns, gated)
  local wide = m.wide or wide_of(n, gated)
  local units, warps = ceil(columns, wide), m.warps or (columns * n >= 1 << 19 and 8 or 4)
  local resident = m.resident or (rows == 1 and 16 or 8) -- warps a multiprocessor has registers for
  return wide, math.min(ceil(units, warps), device.units * resident // warps), warps * 32
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
