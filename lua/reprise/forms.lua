-- forms.lua - the values of reprise in words: short, as a part of a line, and long, as the prompt shows them alone.
--
-- An object of Lua that has a __tostring is shown by it; a field `__show` of its metatable is its long form.

local m = {}

-- ---- pieces

local UNITS = { "bytes", "KiB", "MiB", "GiB", "TiB" }

--- "512 bytes", "1.50 MiB"
---@param bytes number
---@return string
function m.size(bytes)
  local unit = 1
  while bytes >= 1024 and unit < #UNITS do bytes, unit = bytes / 1024, unit + 1 end
  return (unit == 1 and "%d %s" or "%.2f %s"):format(bytes, UNITS[unit])
end

--- "1 graph", "2 graphs"
---@param count integer
---@param noun string
---@return string
function m.count(count, noun) return ("%d %s%s"):format(count, noun, count == 1 and "" or "s") end

local function seconds(value)
  if value >= 1 then return ("%.2f s"):format(value) end
  return value >= 1e-3 and ("%.2f ms"):format(value * 1e3) or ("%.1f us"):format(value * 1e6)
end

-- A title, and lines of names and texts below each other.
local function sheet(title, rows)
  local width, lines = 0, { title }
  for _, row in ipairs(rows) do width = math.max(width, #row[1]) end
  for _, row in ipairs(rows) do lines[#lines + 1] = ("  %-" .. width .. "s  %s"):format(row[1], row[2]) end
  return table.concat(lines, "\n")
end

local function rightmost(text, width) return (" "):rep(width - #text) .. text end

-- Rows of cells in columns: the first flush left, the others flush right.
local function columns(title, rows)
  local widths, lines = {}, { title }
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      cells[i] = i == 1 and cell .. (" "):rep(widths[i] - #cell) or rightmost(cell, widths[i])
    end
    lines[#lines + 1] = "  " .. table.concat(cells, "  ")
  end
  return table.concat(lines, "\n")
end

-- ---- long forms of the raw binding's values

local long = {} -- by the name of the metatable

long["reprise.Device"] = function(device)
  if device.closed then return tostring(device) end
  return sheet(tostring(device), {
    { "arch", device.arch }, { "units", tostring(device.units) },
    { "memory", ("%s free of %s"):format(m.size(device.free), m.size(device.memory)) },
    { "pool", tostring(device.pool) },
  })
end

local function inputs_of(f)
  return ("%s copied, %s in place already"):format(m.size(f.copied), m.size(f.skipped))
end

local ZONES = { "tensors", "slots", "scratch" }
local FIGURES = { "allocated", "peak_allocated", "reserved", "peak_reserved" }

long["reprise.Pool"] = function(pool)
  if tostring(pool):find ", closed$" then return tostring(pool) end
  local f, rows = pool:figures(), { { "", "allocated", "peak", "reserved", "peak" } }
  local function add(name, zone)
    local row = { name }
    for i, key in ipairs(FIGURES) do row[i + 1] = m.size(zone[key]) end
    rows[#rows + 1] = row
  end
  for _, name in ipairs(ZONES) do add(name, f[name]) end
  add("all", f)
  return columns(tostring(pool), rows) .. "\n  inputs of graphs: " .. inputs_of(f)
end

-- Nodes by kernel, most first.
local function kernels_of(manifest)
  local by_name, list = {}, {}
  for _, node in ipairs(manifest) do
    local entry = by_name[node.kernel]
    if not entry then
      entry = { name = node.kernel, count = 0 }
      by_name[node.kernel], list[#list + 1] = entry, entry
    end
    entry.count = entry.count + 1
  end
  table.sort(list, function(a, b) return a.count > b.count or a.count == b.count and a.name < b.name end)
  for i, entry in ipairs(list) do list[i] = ("%d %s"):format(entry.count, entry.name) end
  return table.concat(list, ", ")
end

long["reprise.Graph"] = function(graph)
  if graph.closed then return tostring(graph) end
  local manifest, plan = graph:manifest(), graph.plan
  local rows = {
    { "nodes", kernels_of(manifest) },
    { "order", m.count(#manifest.edges, "edge") .. " once reduced" },
    { "plan", ("%s, lower bound %s"):format(m.size(plan.peak), m.size(plan.lower_bound)) },
    { "inputs", inputs_of(graph) },
  }
  local driver = graph.driver_bytes
  if driver then rows[#rows + 1] = { "driver", m.size(driver) .. " for the executable" } end
  return sheet(tostring(graph), rows)
end

long["reprise.Step"] = function(step)
  if tostring(step):find ", closed" then return tostring(step) end
  local lines = { tostring(step) }
  for i, graph in ipairs(step:graphs()) do lines[i + 1] = "  " .. tostring(graph) end
  return table.concat(lines, "\n")
end

long["reprise.Program"] = function(program)
  if tostring(program):find ", closed" then return tostring(program) end
  local lines = { tostring(program) }
  for i, name in ipairs(program.kernels) do lines[i + 1] = "  " .. program:kernel(name).signature end
  return table.concat(lines, "\n")
end

long["reprise.Kernel"] = function(kernel)
  if tostring(kernel):find ", closed" then return tostring(kernel) end
  local waits = kernel.waits and "yes: on a GPU it may begin before the node ahead has ended" or "no"
  return sheet(tostring(kernel), { { "device", kernel.device.name }, { "waits", waits } })
end

-- ---- models

-- Bytes and dtypes of the tensors in nested tables, each memory once.
local function weigh(value, seen, sum)
  if type(value) == "table" then
    for _, part in pairs(value) do weigh(part, seen, sum) end
  elseif type(value) == "userdata" and not seen[value] and not value.closed then
    seen[value], sum.bytes, sum.dtypes[value.dtype] = true, sum.bytes + value.bytes, true
  end
  return sum
end

local function weights_of(model)
  local sum = weigh({ model.encoder, model.decoder, model.head }, {}, { bytes = 0, dtypes = {} })
  local names = {}
  for name in pairs(sum.dtypes) do names[#names + 1] = name end
  table.sort(names)
  return ("%s of weights in %s"):format(m.size(sum.bytes), table.concat(names, " and "))
end

--- A T5 in a line.
---@param model reprise.T5
---@return string
function m.model(model)
  local layers = ("%d + %d layers"):format(model.config.layers.encoder, model.config.layers.decoder)
  return ("T5 %s on %s: %s, %s"):format(model.folder, model.device.name, layers, weights_of(model))
end

--- A T5 with what it is made of and what it has done.
---@param model reprise.T5
---@return string
function m.model_sheet(model)
  local c, f = model.config, model:figures()
  local names = {}
  for name in pairs(model.tasks) do names[#names + 1] = name end
  table.sort(names)
  return sheet(m.model(model), {
    { "width", ("%d, %d heads of %d, feed forward %d%s %s"):format(c.width, c.heads, c.head, c.hidden,
      c.gated and " gated" or "", c.activation) },
    { "vocabulary", tostring(c.vocab) },
    { "caches", model.kv },
    { "graphs", ("%d alive, %d captured, largest plan %.3f of its lower bound"):format(f.graphs, f.captured,
      f.ratio) },
    { "decoded", ("%s in %s, encoding %s"):format(m.count(f.steps, "step"), seconds(f.stepping),
      seconds(f.encoding)) },
    { "tasks", #names > 0 and table.concat(names, ", ") or "none" },
  })
end

-- ---- what print.lua asks

local function field(meta, name) return meta and rawget(meta, name) end

-- Has the value a text of its own?
local function speaks(value, meta)
  return type(value) == "userdata" or type(value) == "table" and field(meta, "__tostring")
end

--- In a few words, without reading any tensor; nil: nothing is known of such a value.
---@param value any
---@return string?
function m.short(value)
  local meta = debug.getmetatable(value)
  if field(meta, "__name") == "reprise.Tensor" and not value.closed then
    return ("tensor %s {%s} on %s"):format(value.dtype, table.concat(value.shape, ", "), value.device.name)
  end
  return speaks(value, meta) and tostring(value) or nil
end

--- As shown alone; nil: nothing is known of such a value.
---@param value any
---@return string?
function m.long(value)
  local meta = debug.getmetatable(value)
  local form = long[field(meta, "__name")] or type(value) == "table" and field(meta, "__show")
  if form then return form(value) end
  return speaks(value, meta) and tostring(value) or nil
end

return m
