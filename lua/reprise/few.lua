-- few.lua - launches of few.cu: products of one to eight rows on a GPU; what they compute is said in ops.lua.

local launch = require "reprise.launch"

local m = {}

local ROWS = { 1, 2, 4, 4, 5, 8, 8, 8 } -- rows -> what few.cu is compiled for
local SLICE = 512 -- as in product.cuh

local ceil, WEIGHTS = launch.ceil, launch.WEIGHTS

--- Programs: for `reprise --build-kernels`.
---@return reprise.LibraryEntry[]
function m.library()
  local list = {}
  for _, dtype in ipairs { "f32", "f16", "bf16" } do
    for _, rows in ipairs { 1, 2, 4, 5, 8 } do
      list[#list + 1] = { file = "few.cu", define = { W = WEIGHTS[dtype], ROWS = tostring(rows) }, gpu = true }
    end
  end
  return list
end

--- Can this product be made here?
---@param x reprise.Tensor
---@param p reprise.Product
---@return boolean
function m.fits(x, p) return launch.is_gpu(x.device) and p.rows <= 8 and p.n % 8 == 0 and launch.lie_right(x, p) end

--- Does it make the norm too?
---@return boolean
function m.takes_norm() return true end

-- Warps that share a unit: where units are few and rows long.
local function split_of(device, n, units, normed)
  local split = 1
  while not normed and split < 8 and split * SLICE < n and units * split < device.units * 8 do split = split * 2 end
  return split
end

local function units_of(p, gated) return gated and ceil(p.each, 2) or ceil(#p.matrices * p.each, 4) end

-- May a warp ask for a whole unit of two slices, because there is one for each at most?
local function takes_two(device, p, split)
  local units = units_of(p, false)
  return p.rows == 1 and split == 1 and p.n > SLICE and p.n <= 2 * SLICE and units <= device.units * 8
end

-- Blocks stay and take more columns where not all fit at once.
local function geometry_of(device, p, gated)
  local units = units_of(p, gated)
  local split = split_of(device, p.n, units, p.norm ~= nil)
  local warps = math.max(split, units * split >= device.units * 3 and 8 or 4)
  local resident = p.rows == 1 and 16 or 8 -- warps a multiprocessor has registers for
  local shared = split > 1 and 128 * ceil(p.n, SLICE) * (warps // split) or 0
  local grid = math.min(ceil(units * split, warps), device.units * (resident // warps))
  return split, { block = warps * 32, shared = shared, grid = grid }
end

local function kernel_of(device, name, p)
  local define = { W = WEIGHTS[p.matrices[1].dtype], ROWS = tostring(ROWS[p.rows]) }
  return launch.kernel(device, "few.cu", name, define, define.W .. " " .. define.ROWS)
end

--- y = scale * act(h w^T) + residual.
---@param y reprise.Tensor
---@param x reprise.Tensor
---@param p reprise.Product
function m.linear(y, x, p)
  local w = p.matrices
  local split, geometry = geometry_of(x.device, p, false)
  local name = takes_two(x.device, p, split) and "few_linear_two" or "few_linear"
  launch.run(kernel_of(x.device, name, p), geometry, {
    y, x, p.norm or false, w[1], w[2] or false, w[3] or false, p.residual or false, p.rows, p.n, p.each, split, p.act,
    p.epsilon or 1e-6, p.scale or 1.0,
  })
end

--- y = act(h w^T) * (h gate^T).
---@param y reprise.Tensor
---@param x reprise.Tensor
---@param p reprise.Product
function m.gated(y, x, p)
  local _, geometry = geometry_of(x.device, p, true)
  launch.run(kernel_of(x.device, "few_gated", p), geometry, {
    y, x, p.norm or false, p.matrices[1], p.matrices[2], p.rows, p.n, p.each, p.act, p.epsilon or 1e-6,
  })
end

return m
