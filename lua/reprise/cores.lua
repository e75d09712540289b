-- cores.lua - launches of cores.cu and tiles.cu: products of four rows and more on a GPU's tensor cores, of weights of
-- f16 or bf16; what they compute is said in ops.lua.

local launch = require "reprise.launch"

local m = {}

--- `false`: the other kernels make these products too. A row then has the same bits whatever the number of rows.
m.enabled = os.getenv "REPRISE_TENSOR_CORES" ~= "0"

local LEAST, FEW = 4, 8 -- rows of which cores.cu makes products; more are tiles.cu's
local PART = 128 -- as in cores.cu
local QUEUE = 8192 -- bytes of a warp's weights on their way, where it has whole units
local WORTH = 1 << 25 -- products of a number with a number, from which on tiles are quicker than linear.cu
local STAGES = { [false] = 39936, [true] = 81408 } -- bytes of shared memory, as in tiles.cu

local ceil, WEIGHTS = launch.ceil, launch.WEIGHTS

--- Programs: for `reprise --build-kernels`.
---@return reprise.LibraryEntry[]
function m.library()
  local list = {}
  for _, dtype in ipairs { "f16", "bf16" } do
    for _, file in ipairs { "cores.cu", "tiles.cu" } do
      list[#list + 1] = { file = file, define = { W = WEIGHTS[dtype] }, gpu = true }
    end
  end
  return list
end

local function kernel_of(device, file, name, p)
  return launch.kernel(device, file, name, "W", WEIGHTS[p.matrices[1].dtype])
end

-- ---- few rows

-- Kernels that give each slice of a unit a warp: longest rows, warps a unit, how many of them a multiprocessor holds.
local ONCE = {
  { name = "", longest = 512, warps = 8, held = 24 },
  { name = "_more", longest = 1024, warps = 8, held = 16 },
  { name = "_long", longest = 2048, warps = 32, held = 32 },
}

local function units_of(p, gated) return ceil(gated and p.each or #p.matrices * p.each, gated and 8 or 16) end

local function way_of(n)
  for _, way in ipairs(ONCE) do
    if n <= way.longest then return way end
  end
end

-- A way, warps a unit and all warps, if there is room for all at once.
local function once(device, p, gated)
  local way = way_of(p.n)
  if not way then return nil end
  local split = 2 * p.n > way.longest and way.warps or way.warps // 2
  local warps = units_of(p, gated) * split
  if warps <= device.units * way.held then return way, split, warps end
end

local function fits_few(device, p, gated)
  return p.n <= 1024 or not gated and not p.norm and once(device, p, gated) ~= nil
end

-- How a kernel's name goes on, and its launch.
local function few_geometry(device, p, gated)
  local way, split, warps = once(device, p, gated)
  if way then
    local together = warps >= device.units * 8 and math.max(8, split) or split
    return way.name, { block = together * 32, shared = 704 * together, grid = ceil(warps, together) }
  end
  local units = units_of(p, gated)
  return "_many", {
    block = 256, shared = ceil(p.n, PART) * (PART * 32 + 32) + 8 * QUEUE,
    grid = math.min(ceil(units, 8), device.units * 2),
  }
end

-- ---- many rows

-- Geometry, and whether warps share tiles, of which there would be too few.
local function many_geometry(device, p, gated)
  local columns = gated and 2 * p.each or #p.matrices * p.each -- of weights
  local tiles = ceil(columns, 64) * ceil(p.rows, 64)
  local quarters = tiles < device.units
  if quarters then tiles = ceil(columns, 32) * ceil(p.rows, 32) end
  return { block = 128, shared = STAGES[quarters], grid = math.min(tiles, device.units * 3) }, quarters and 1 or 0
end

-- ---- both

-- A GPU from compute capability 8.0 on, or a CPU that plays one.
local function has_cores(device)
  local capability = device.arch:match "^sm_(%d+)"
  return launch.is_gpu(device) and (not capability or tonumber(capability) >= 80)
end

--- Can this product be made here? With more than eight rows, of h that is there already.
---@param x reprise.Tensor
---@param p reprise.Product
---@param gated boolean
---@return boolean
function m.fits(x, p, gated)
  if not m.enabled or p.rows < LEAST or p.n % 8 ~= 0 or not has_cores(x.device) then return false end
  if p.matrices[1].dtype == "f32" or not launch.lie_right(x, p) then return false end
  if p.rows <= FEW then return fits_few(x.device, p, gated) end
  return p.rows * p.n * p.each * #p.matrices >= WORTH
end

--- Does it make the norm too?
---@param p reprise.Product
---@return boolean
function m.takes_norm(p) return p.rows <= FEW end

--- y = scale * act(h w^T) + residual.
---@param y reprise.Tensor
---@param x reprise.Tensor
---@param p reprise.Product
function m.linear(y, x, p)
  local device, w = x.device, p.matrices
  local w2, w3, residual, scale = w[2] or false, w[3] or false, p.residual or false, p.scale or 1.0
  if p.rows > FEW then
    local geometry, quarters = many_geometry(device, p, false)
    return launch.run(kernel_of(device, "tiles.cu", "tile_linear", p), geometry, {
      y, x, w[1], w2, w3, residual, p.rows, p.n, p.each, quarters, p.act, scale,
    })
  end
  local way, geometry = few_geometry(device, p, false)
  if way == "_long" then
    return launch.run(kernel_of(device, "cores.cu", "cores_linear_long", p), geometry, {
      y, x, w[1], w2, w3, residual, p.rows, p.n, p.each, p.act, scale,
    })
  end
  launch.run(kernel_of(device, "cores.cu", "cores_linear" .. way, p), geometry, {
    y, x, p.norm or false, w[1], w2, w3, residual, p.rows, p.n, p.each, p.act, p.epsilon or 1e-6, scale,
  })
end

--- y = act(h w^T) * (h gate^T).
---@param y reprise.Tensor
---@param x reprise.Tensor
---@param p reprise.Product
function m.gated(y, x, p)
  local device, w, gate = x.device, p.matrices[1], p.matrices[2]
  if p.rows > FEW then
    local geometry, quarters = many_geometry(device, p, true)
    return launch.run(kernel_of(device, "tiles.cu", "tile_gated", p), geometry, {
      y, x, w, gate, p.rows, p.n, p.each, quarters, p.act,
    })
  end
  local way, geometry = few_geometry(device, p, true)
  launch.run(kernel_of(device, "cores.cu", "cores_gated" .. way, p), geometry, {
    y, x, p.norm or false, w, gate, p.rows, p.n, p.each, p.act, p.epsilon or 1e-6,
  })
end

return m
