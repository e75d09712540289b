-- few.lua - launches of few.cu: products of one to eight rows on a GPU; what they compute is said in ops.lua.

local launch = require "reprise.launch"

local m = {}

local ROWS = { 1, 2, 4, 4, 5, 8, 8, 8 } -- rows -> what the kernel is compiled for
local SHARED = 96 << 10 -- bytes a block may ask for from compute capability 8.0 on
local RESIDENT = 226 << 10 -- bytes of shared memory a multiprocessor has for its blocks, about
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

local function shared_of(rows, n) return 4 * rows * ceil(n, 256) * 256 end

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
  if rows > 8 or n % 8 ~= 0 or shared_of(rows, n) > SHARED then return false end
  for _, w in ipairs(matrices) do
    if not lies_right(w) then return false end
  end
  return lies_right(x) and (not gamma or lies_right(gamma))
end

-- Columns a warp takes at a time: one or two while all fit on the device at once, else four.
local function wide_of(device, rows, columns, gated)
  if gated then return columns <= device.units * 16 and 1 or 2 end
  if rows == 1 and columns <= device.units * 8 then return 1 end
  return columns <= device.units * 32 and 2 or 4
end

--- Name, columns at a time and geometry of a launch. Blocks stay and take more columns where not all fit at once.
---@param device reprise.Device
---@param rows integer
---@param n integer
---@param columns integer of y
---@param gated boolean
---@return integer wide
---@return integer grid
---@return integer block
---@return integer shared
function m.geometry(device, rows, n, columns, gated)
  local wide, shared = wide_of(device, rows, columns, gated), shared_of(rows, n)
  local units = ceil(columns, wide)
  local warps = rows < 5 and units >= device.units * 5 and 8 or 4
  local resident = warps == 8 and 2 or rows < 5 and 4 or 3 -- by registers
  resident = math.max(1, math.min(resident, RESIDENT // (shared + 1024)))
  return wide, math.min(ceil(units, warps), device.units * resident), warps * 32, shared
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
