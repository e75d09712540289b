-- ops.lua - the library's operations as functions on tensors: checks, outputs, launch geometry; one kernel each.
--
-- Activations are f32; weights are f32, f16 or bf16 and are used as they are stored. The last dimension is the one that
-- is worked on, all others together are the rows. Outputs are new tensors: temporaries inside a capture. A program is
-- compiled once a device and set of defines.
--
--   caches       keys and values {rows or sources, room, heads * size} of f32 or f16
--   bias         {2 * reach + 1, heads} f32: row reach + (key position - query position), counted from 0; made by
--                `embed` from a model's table with bias.rows(-reach, reach, ...) as ids

local core = require "reprise.core"
local cores = require "reprise.cores"
local few = require "reprise.few"
local launch = require "reprise.launch"
local raise = require "reprise.raise"

local m = {}

local WEIGHTS = launch.WEIGHTS
local CACHES = { f32 = "float", f16 = "f16" } -- dtype -> how kernels spell it
local ACTIVATIONS = { none = 0, relu = 1, gelu = 2, gelu_new = 3, silu = 4 }
local SHARED = 48 << 10 -- bytes a block may have on every GPU without asking for more
local CHUNK = 1024 -- scores at a time, as in attention.cuh

---@class reprise.LibraryEntry
---@field file string under kernels/
---@field define table<string, string>
---@field gpu boolean? only for GPUs

local function variants()
  local list = few.library()
  for _, entry in ipairs(cores.library()) do list[#list + 1] = entry end
  for name in ("norm attend_all sample draw candidates beam bench"):gmatch "%S+" do
    list[#list + 1] = { file = name .. ".cu", define = {} }
  end
  for _, dtype in ipairs { "f32", "f16", "bf16" } do
    for _, file in ipairs { "embed.cu", "linear.cu", "random.cu" } do
      list[#list + 1] = { file = file, define = { W = WEIGHTS[dtype] } }
    end
  end
  for _, dtype in ipairs { "f32", "f16" } do
    for _, file in ipairs { "attend_self.cu", "attend_cross.cu", "grow.cu" } do
      list[#list + 1] = { file = file, define = { KV = CACHES[dtype] } }
    end
  end
  return list
end

--- All that this module ever compiles: a closed list, for `reprise --build-kernels`.
---@type reprise.LibraryEntry[]
m.library = variants()

local is_tensor, check, check_shape, rows_of = launch.is_tensor, launch.check, launch.check_shape, launch.rows_of
local kernel, is_gpu, ceil, grid, ALONE = launch.kernel, launch.is_gpu, launch.ceil, launch.grid, launch.ALONE

local function check_heads(what, heads, inner)
  if math.type(heads) ~= "integer" or heads < 1 then raise("%s: heads: a whole number from 1 is expected", what) end
  if inner % heads ~= 0 then raise("%s: heads: %d does not divide %d", what, heads, inner) end
  if inner == 0 then raise("%s: heads: of 0 elements, at least 1 is expected", what) end
  return inner // heads
end

-- ---- launch geometry

-- Rows a tile, whether rows are staged in shared memory, bytes for them and their norms; see linear.cu.
local function tiles(what, device, rows, n, normed)
  local bytes = ceil(n, 8) * 32 + 4
  if not is_gpu(device) then
    local tile = ceil(rows, ceil(rows, 6)) -- tiles of one size
    return tile, normed, normed and tile * bytes or 0
  end
  local tile = math.min(rows, 8)
  local staged = normed or rows > 8 and tile * bytes <= SHARED
  if staged then tile = math.min(tile, SHARED // bytes) end
  if tile == 0 then
    raise("%s: a norm over %d elements is too wide, %d are possible", what, n, (SHARED - 4) // 32 * 8)
  end
  return tile, staged, staged and tile * bytes or 0
end

-- Grid and block for `columns` columns, `pair` of which a gate takes for one.
local function blocks(device, rows, columns, tile, pair)
  if not is_gpu(device) then return grid(device, ceil(rows, tile) * ceil(columns, 8)), ALONE end
  local many = rows > tile
  local wide = 4 // pair
  local block = many and 256 or 128
  return grid(device, ceil(ceil(rows, tile) * ceil(columns, wide), block // 32), 16), block
end

local function attend_shared(block, size) return 4 * (CHUNK + 8 * math.max(block, ceil(size, 8))) end

-- Threads of a block: of a query over many keys (query.cuh), or of one of many queries.
local function query_block(device) return is_gpu(device) and 256 or ALONE end
local function attend_block(device) return is_gpu(device) and 128 or ALONE end

-- ---- embedding and norm

--- Rows of a table: out[i] = table[ids[i]], widened to f32. An id outside the table gives a row of nan.
---@param table reprise.Tensor {count, n} f32, f16 or bf16
---@param ids reprise.Tensor i32, any shape; from 0
---@return reprise.Tensor f32 {shape of ids ..., n}
function m.embed(table, ids)
  check("embed", "table", table, WEIGHTS, 2)
  check("embed", "ids", ids, "i32")
  local device, shape, rows = table.device, ids.shape, 1
  for _, n in ipairs(shape) do rows = rows * n end
  local count, n = table.shape[1], table.shape[2]
  shape[#shape + 1] = n
  local y = core.empty(shape, "f32", device)
  kernel(device, "embed.cu", "embed", "W", WEIGHTS[table.dtype]) {
    grid = grid(device, ceil(rows, 4)), block = is_gpu(device) and 128 or ALONE,
    y, ids, table, rows, n, count,
  }
  return y
end

--- T5's norm: x * gamma / sqrt(mean(x^2) + epsilon) along the last dimension.
---@param x reprise.Tensor f32 {..., n}
---@param gamma reprise.Tensor f32 {n}
---@param epsilon number? default 1e-6
---@return reprise.Tensor f32, shaped as x
function m.norm(x, gamma, epsilon)
  local rows, n, shape = rows_of("norm", "x", x)
  check_shape("norm", "gamma", gamma, "f32", { n })
  local y = core.empty(shape, "f32", x.device)
  kernel(x.device, "norm.cu", "rms_norm") {
    grid = grid(x.device, ceil(rows, 4)), block = is_gpu(x.device) and 128 or ALONE,
    y, x, gamma, rows, n, epsilon or 1e-6,
  }
  return y
end

-- ---- products

---@class reprise.LinearOptions
---@field norm reprise.Tensor? gamma, f32 {n}: the product is of T5's norm of x
---@field epsilon number? of the norm, default 1e-6
---@field activation "none"|"relu"|"gelu"|"gelu_new"|"silu"|nil
---@field scale number? default 1
---@field residual reprise.Tensor? f32, shaped as the result: added to it

local function activation_of(what, name)
  local act = ACTIVATIONS[name or "none"]
  if not act then
    raise("%s: activation: relu, gelu, gelu_new, silu or none is expected, got %s", what, tostring(name))
  end
  return act
end

local function check_norm(what, options, n)
  if options.norm ~= nil then check_shape(what, "norm", options.norm, "f32", { n }) end
end

local function set_of(words)
  local set = { words = words }
  for word in words:gmatch "%S+" do set[word] = true end
  return set
end

local LINEAR, GATED = set_of "norm epsilon activation residual scale", set_of "norm epsilon activation"

-- The options of a product, of which each key is in `known`.
local function options_of(what, options, known)
  if options == nil then return {} end
  if type(options) ~= "table" then raise("%s: options: table expected, got %s", what, type(options)) end
  for key in pairs(options) do
    if known[key] ~= true then
      raise("%s: unknown option %s: expected %s", what, tostring(key), (known.words:gsub(" ", ", ")))
    end
  end
  for _, key in ipairs { "epsilon", "scale" } do
    local kind = type(options[key])
    if kind ~= "number" and kind ~= "nil" then raise("%s: %s: number expected, got %s", what, key, kind) end
  end
  return options
end

-- One to three matrices of one dtype and shape; their number, rows of one.
local function check_matrices(what, list, n)
  if #list < 1 or #list > 3 then raise("%s: w: one to three matrices are expected, got %d", what, #list) end
  check(what, "w", list[1], WEIGHTS, 2)
  local rows = list[1].shape[1]
  for _, w in ipairs(list) do check_shape(what, "w", w, list[1].dtype, { rows, n }) end
  return #list, rows
end

-- The kernels made for a product on a GPU; nil: linear.cu's.
local function way_of(x, p, gated)
  return cores.fits(x, p, gated) and cores or few.fits(x, p) and few or nil
end

-- Makes y by one of these ways; of the norm of x, where the kernel takes none.
local function make(way, name, y, x, p)
  if not p.norm or way.takes_norm(p) then return way[name](y, x, p) end
  local h <close> = m.norm(x, p.norm, p.epsilon)
  way[name](y, h, p)
end

--- scale * act(h w^T) + residual, h = x or its norm. Up to three matrices of one shape: their products side by side.
---@param x reprise.Tensor f32 {..., n}
---@param w reprise.Tensor|reprise.Tensor[] {m, n} f32, f16 or bf16
---@param options reprise.LinearOptions?
---@return reprise.Tensor f32 {..., m} or {..., matrices * m}
function m.linear(x, w, options)
  options = options_of("linear", options, LINEAR)
  local rows, n, shape = rows_of("linear", "x", x)
  local list = is_tensor(w) and { w } or type(w) == "table" and w or {}
  local count, each = check_matrices("linear", list, n)
  check_norm("linear", options, n)
  local columns, device, normed = count * each, x.device, options.norm ~= nil
  shape[#shape] = columns
  if options.residual then check_shape("linear", "residual", options.residual, "f32", shape) end
  local act = activation_of("linear", options.activation)
  if rows == 0 or columns == 0 then return core.empty(shape, "f32", device) end
  local p = {
    matrices = list, rows = rows, n = n, each = each, act = act, norm = options.norm, epsilon = options.epsilon,
    residual = options.residual, scale = options.scale,
  }
  local way = way_of(x, p, false)
  if way then
    local y = core.empty(shape, "f32", device)
    make(way, "linear", y, x, p)
    return y
  end
  local tile, staged, shared = tiles("linear", device, rows, n, normed)
  local count_of_blocks, block = blocks(device, rows, columns, tile, 1)
  local y = core.empty(shape, "f32", device)
  kernel(device, "linear.cu", "linear", "W", WEIGHTS[list[1].dtype]) {
    grid = count_of_blocks, block = block, shared = shared,
    y, x, options.norm or false, list[1], list[2] or false, list[3] or false, options.residual or false,
    rows, n, each, tile, staged and 1 or 0, act, options.epsilon or 1e-6, options.scale or 1.0,
  }
  return y
end

--- act(h w^T) * (h gate^T), h = x or its norm.
---@param x reprise.Tensor f32 {..., n}
---@param w reprise.Tensor {m, n} f32, f16 or bf16
---@param gate reprise.Tensor like w
---@param options { norm: reprise.Tensor?, epsilon: number?, activation: string? }?
---@return reprise.Tensor f32 {..., m}
function m.gated(x, w, gate, options)
  options = options_of("gated", options, GATED)
  local rows, n, shape = rows_of("gated", "x", x)
  check("gated", "gate", gate, WEIGHTS, 2)
  local _, columns = check_matrices("gated", { w, gate }, n)
  check_norm("gated", options, n)
  local device = x.device
  shape[#shape] = columns
  local act = activation_of("gated", options.activation)
  if rows == 0 or columns == 0 then return core.empty(shape, "f32", device) end
  local p = {
    matrices = { w, gate }, rows = rows, n = n, each = columns, act = act, norm = options.norm,
    epsilon = options.epsilon,
  }
  local way = way_of(x, p, true)
  if way then
    local y = core.empty(shape, "f32", device)
    make(way, "gated", y, x, p)
    return y
  end
  local tile, staged, shared = tiles("gated", device, rows, n, options.norm ~= nil)
  local count_of_blocks, block = blocks(device, rows, columns, tile, 2)
  local y = core.empty(shape, "f32", device)
  kernel(device, "linear.cu", "gated", "W", WEIGHTS[w.dtype]) {
    grid = count_of_blocks, block = block, shared = shared,
    y, x, options.norm or false, w, gate, rows, n, columns, tile, staged and 1 or 0, act, options.epsilon or 1e-6,
  }
  return y
end

-- ---- attention

local function check_caches(what, keys, values, rows, inner)
  check(what, "keys", keys, CACHES, 3)
  local room = keys.shape[2]
  check_shape(what, "keys", keys, keys.dtype, { rows, room, inner })
  check_shape(what, "values", values, keys.dtype, { rows, room, inner })
  return room
end

local function reach_of(what, bias, heads)
  if bias == nil then return 0 end
  check(what, "bias", bias, "f32", 2)
  local rows = bias.shape[1]
  if rows % 2 == 0 then raise("%s: bias: an odd number of rows is expected, got %d", what, rows) end
  check_shape(what, "bias", bias, "f32", { rows, heads })
  return rows // 2
end

local function check_origin(what, origin, rows, room, beams)
  check_shape(what, "origin", origin, "u8", { rows, room })
  if math.type(beams) ~= "integer" or beams < 1 or beams > 255 or rows % beams ~= 0 then
    raise("%s: beams: 1 to 255 that divide %d rows are expected, got %s", what, rows, tostring(beams))
  end
end

--- One step of self-attention: keys and values of x go into the caches at `position`, then each row looks back at all
--- positions up to its own. A position outside the caches gives nan and changes nothing.
---@param qkv reprise.Tensor f32 {rows, 3 * inner}: queries, keys, values side by side
---@param keys reprise.Tensor cache {rows, room, inner}, written
---@param values reprise.Tensor likewise
---@param position reprise.Tensor i32 {1}, from 0
---@param heads integer
---@param bias reprise.Tensor? {2 * reach + 1, heads}
---@param origin reprise.Tensor? u8 {rows, room}: position p of a row lies in the caches of row origin[row][p] of its
--- group
---@param beams integer? rows a group, with origin
---@return reprise.Tensor f32 {rows, inner}
function m.attend_self(qkv, keys, values, position, heads, bias, origin, beams)
  local rows, wide = rows_of("attend_self", "qkv", qkv)
  local inner, device = wide // 3, qkv.device
  check_shape("attend_self", "qkv", qkv, "f32", { rows, 3 * inner })
  local size = check_heads("attend_self", heads, inner)
  local room = check_caches("attend_self", keys, values, rows, inner)
  check_shape("attend_self", "position", position, "i32", { 1 })
  if origin then check_origin("attend_self", origin, rows, room, beams) end
  local reach, block = reach_of("attend_self", bias, heads), query_block(device)
  local y = core.empty({ rows, inner }, "f32", device)
  kernel(device, "attend_self.cu", "attend_self", "KV", CACHES[keys.dtype]) {
    grid = grid(device, rows * heads, 16), block = block, shared = attend_shared(block, size),
    y, keys, values, qkv, bias or false, position, origin or false, rows, heads, size, room, reach, beams or 1,
  }
  return y
end

--- One query a row over the keys and values of the row's source; rows of a source stand together.
---@param q reprise.Tensor f32 {rows, inner}
---@param keys reprise.Tensor {sources, room, inner}; sources divides rows
---@param values reprise.Tensor likewise
---@param lengths reprise.Tensor i32 {sources}
---@param heads integer
---@return reprise.Tensor f32 {rows, inner}
function m.attend_cross(q, keys, values, lengths, heads)
  local rows, inner = rows_of("attend_cross", "q", q)
  check_shape("attend_cross", "q", q, "f32", { rows, inner })
  check("attend_cross", "lengths", lengths, "i32", 1)
  local sources, device = lengths.shape[1], q.device
  if sources == 0 and rows > 0 or sources > 0 and rows % sources ~= 0 then
    raise("attend_cross: lengths: %d sources do not divide %d rows", sources, rows)
  end
  local size = check_heads("attend_cross", heads, inner)
  local room = check_caches("attend_cross", keys, values, sources, inner)
  local block = query_block(device)
  local y = core.empty({ rows, inner }, "f32", device)
  kernel(device, "attend_cross.cu", "attend_cross", "KV", CACHES[keys.dtype]) {
    grid = grid(device, rows * heads, 16), block = block, shared = attend_shared(block, size),
    y, q, keys, values, lengths, rows, sources, heads, size, room,
  }
  return y
end

--- All positions of each source over all positions of it. Rows past a source's length become zero.
---@param qkv reprise.Tensor f32 {sources, room, 3 * inner}
---@param lengths reprise.Tensor i32 {sources}
---@param heads integer
---@param bias reprise.Tensor? {2 * reach + 1, heads}
---@return reprise.Tensor f32 {sources, room, inner}
function m.attend_all(qkv, lengths, heads, bias)
  check("attend_all", "qkv", qkv, "f32", 3)
  local sources, room, inner = qkv.shape[1], qkv.shape[2], qkv.shape[3] // 3
  check_shape("attend_all", "qkv", qkv, "f32", { sources, room, 3 * inner })
  check_shape("attend_all", "lengths", lengths, "i32", { sources })
  local size, device = check_heads("attend_all", heads, inner), qkv.device
  local reach, block = reach_of("attend_all", bias, heads), attend_block(device)
  local y = core.empty({ sources, room, inner }, "f32", device)
  kernel(device, "attend_all.cu", "attend_all") {
    grid = grid(device, sources * heads * room, 16), block = block, shared = attend_shared(block, size),
    y, qkv, bias or false, lengths, sources, heads, size, room, reach,
  }
  return y
end

return m
