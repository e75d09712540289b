-- launch.lua - what the functions that launch the library's kernels share: programs, checks of tensors, geometry.

local core = require "reprise.core"
local raise = require "reprise.raise"

local m = {}

--- Types of weights, as kernels spell them.
m.WEIGHTS = { f32 = "float", f16 = "f16", bf16 = "bf16" }

-- ---- programs

--- Stands between the library and its kernels while it is set: gets a kernel and gives what is launched in its place.
---@type (fun(kernel: reprise.Kernel): fun(launch: table))?
m.watch = nil

local programs = setmetatable({}, { __mode = "k" }) -- device -> "file type" -> program
local awaited = setmetatable({}, { __mode = "k" }) -- device -> specs

local function compile_awaited(device)
  local specs = awaited[device]
  awaited[device] = nil
  core.compile_ahead(device, specs)
end

--- Says which programs of the library will soon be needed. Where the first is not there, or as soon as one has to be
--- compiled, all that are missing are, side by side.
---@param device reprise.Device
---@param entries reprise.LibraryEntry[]
function m.expect(device, entries)
  local specs = {}
  for i, entry in ipairs(entries) do
    specs[i] = { file = core.home() .. "/kernels/" .. entry.file, define = entry.define }
  end
  awaited[device] = specs
  if specs[1] and not core.is_compiled(device, specs[1]) then compile_awaited(device) end
end

local function compile(device, file, define)
  local before = core.cache_counts().compiled
  local program = core.compile { file = core.home() .. "/kernels/" .. file, define = define, device = device }
  if awaited[device] and core.cache_counts().compiled > before then compile_awaited(device) end
  return program
end

--- A kernel of the library; its program is compiled once a device and set of defines.
---@param device reprise.Device
---@param file string under kernels/
---@param name string
---@param define string|table<string, string>|nil a name of the closed list, with `value` as its value; or several
---@param value string? with several: what tells this set from others
---@return reprise.Kernel
function m.kernel(device, file, name, define, value)
  local made = programs[device]
  if not made then
    made = {}
    programs[device] = made
  end
  local key = file .. " " .. (value or "")
  if not made[key] then
    made[key] = compile(device, file, type(define) == "string" and { [define] = value } or define or {})
  end
  local found = made[key]:kernel(name)
  return m.watch and m.watch(found) or found
end

-- ---- checks

function m.is_tensor(x)
  local class = type(x) == "userdata" and debug.getmetatable(x)
  return class and class.__name == "reprise.Tensor"
end

--- Raises unless x is a tensor of one of the dtypes that are keys of `dtypes` (a table), or of the one that it names.
function m.check(what, name, x, dtypes, rank)
  if not m.is_tensor(x) then raise("%s: %s: tensor expected, got %s", what, name, type(x)) end
  if type(dtypes) == "table" and not dtypes[x.dtype] or type(dtypes) == "string" and dtypes ~= x.dtype then
    local expected = dtypes
    if type(dtypes) == "table" then expected = dtypes.bf16 and "f32, f16 or bf16" or "f32 or f16" end
    raise("%s: %s: a tensor of %s is expected, got %s", what, name, expected, x.dtype)
  end
  if rank and x.rank ~= rank then raise("%s: %s: rank %d is expected, got %d", what, name, rank, x.rank) end
end

local function text_of(shape) return "{" .. table.concat(shape, ", ") .. "}" end

--- Likewise, and of exactly this shape.
function m.check_shape(what, name, x, dtypes, expected)
  m.check(what, name, x, dtypes)
  local shape = x.shape
  local same = #shape == #expected
  for i = 1, #expected do same = same and shape[i] == expected[i] end
  if not same then raise("%s: %s: shape %s is expected, got %s", what, name, text_of(expected), text_of(shape)) end
end

--- Rows, last dimension, and a copy of the shape of an f32 tensor.
function m.rows_of(what, name, x)
  m.check(what, name, x, "f32")
  local shape, rows = x.shape, 1
  if #shape == 0 then raise("%s: %s: rank 1 or more is expected, got 0", what, name) end
  for i = 1, #shape - 1 do rows = rows * shape[i] end
  return rows, shape[#shape], shape
end

-- ---- launch geometry

--- A block on the CPU: one warp, which is one thread there.
m.ALONE = 32

function m.is_gpu(device) return device.simt end

function m.ceil(a, b) return (a + b - 1) // b end

---@class reprise.Product what kernels of products are told, besides x and y
---@field matrices reprise.Tensor[] one to three; with a gate: the matrix and the gate
---@field rows integer
---@field n integer
---@field each integer rows of a matrix
---@field act integer as in linear.cu
---@field norm reprise.Tensor?
---@field epsilon number?
---@field residual reprise.Tensor?
---@field scale number?

local function lies_right(x) return x.offset % 16 == 0 and x.packed end

--- May all that a product reads be read in packs of 16 bytes?
---@param x reprise.Tensor
---@param p reprise.Product
---@return boolean
function m.lie_right(x, p)
  for _, w in ipairs(p.matrices) do
    if not lies_right(w) then return false end
  end
  return lies_right(x) and (not p.norm or lies_right(p.norm))
end

--- Launches a kernel with a geometry (block, grid, shared) and arguments.
function m.run(kernel, geometry, args)
  for key, value in pairs(geometry) do args[key] = value end
  kernel(args)
end

--- As many blocks as there is work for, at most a few for each multiprocessor or thread.
function m.grid(device, work, most) return math.max(1, math.min(work, device.units * (most or 8))) end

return m
