-- bench.lua - what a step of a model takes, beside what the device allows: scripts/bench.lua's figures.
--
-- A row is a shape and a number of beams: one source, a fixed number of new tokens, no token ends them. The floors are
-- measured in the same run: a kernel that only reads as many bytes as a step does, and a chain of empty kernels as long
-- as the step's graph. Times are medians over several runs.

local apart = require "reprise.apart"
local core = require "reprise.core"
local launch = require "reprise.launch"
local rp = require "reprise"

local m = {}

local READING = 0.02 -- seconds that one reading takes at least, of a floor and of a step

-- ---- medians

---@class reprise.Spread
---@field median number
---@field low number
---@field high number

--- The median of what `fn` returns in `runs` calls, and its range.
---@param runs integer
---@param fn fun(): number
---@return reprise.Spread
function m.spread(runs, fn)
  local list = {}
  for i = 1, runs do list[i] = fn() end
  table.sort(list)
  return { median = list[(#list + 1) // 2], low = list[1], high = list[#list] }
end

-- ---- floors

local function kernel(device, name) return launch.kernel(device, "bench.cu", name) end

-- Microseconds a replay of a step takes when one follows the other.
local function replays(device, step, count)
  local begun = core.clock()
  for _ = 1, count do step() end
  device:synchronize()
  return (core.clock() - begun) / count * 1e6
end

local function floor_of(device, runs, fn)
  local step = rp.capture(fn, { name = "floor", device = device })
  step()
  local count = math.max(8, math.ceil(READING * 1e6 / replays(device, step, 8)))
  local us = m.spread(runs, function() return replays(device, step, count) end)
  step:close()
  return us.median
end

--- Microseconds that reading so many bytes takes, one kernel a replay.
---@param device reprise.Device
---@param bytes integer
---@param runs integer
---@return number
function m.read_floor(device, bytes, runs)
  local gpu = launch.is_gpu(device)
  local grid = launch.grid(device, launch.ceil(bytes, 1 << 13), 8)
  return rp.scope(function()
    local from = core.full({ launch.ceil(bytes, 32) * 8 }, 1, "f32", device)
    local sums = core.empty({ grid }, "f32", device)
    return floor_of(device, runs, function()
      kernel(device, "read_all") {
        grid = grid, block = gpu and 256 or launch.ALONE, sums, from, from.elements,
      }
    end)
  end)
end

--- Microseconds that a chain of so many empty kernels takes.
---@param device reprise.Device
---@param nodes integer
---@param runs integer
---@return number
function m.chain_floor(device, nodes, runs)
  return rp.scope(function()
    local sums = core.empty({ 1 }, "f32", device)
    return floor_of(device, runs, function()
      for _ = 1, nodes do
        kernel(device, "nothing") { grid = device.units, block = launch.is_gpu(device) and 128 or launch.ALONE, sums }
      end
    end)
  end)
end

-- ---- bytes

local function bytes_of(layer)
  local sum = 0
  for _, part in pairs(layer) do sum = sum + (type(part) == "table" and bytes_of(part) or part.bytes) end
  return sum
end

--- Bytes that a step reads: weights, keys and values of a source, and those of half of the new tokens.
---@param model reprise.T5
---@param o { beams: integer, source: integer, new: integer }
---@return integer
function m.bytes(model, o)
  local c, element = model.config, model.kv == "f16" and 2 or 4
  local sum = model.head.bytes + model.decoder.norm.bytes
  for _, layer in ipairs(model.decoder.layers) do
    sum = sum + bytes_of(layer) - layer.cross.k.bytes - layer.cross.v.bytes
  end
  local positions = o.source + o.beams * (o.new + 1) // 2
  return sum + #model.decoder.layers * 2 * positions * c.inner * element
end

-- ---- a step

--- The same weights with states, and figures, of its own.
---@param model reprise.T5
---@param capture boolean
---@return reprise.T5
function m.variant(model, capture)
  return setmetatable({
    capture = capture, settles = true, idle = {}, states = setmetatable({}, { __mode = "k" }),
    count = { captured = 0, capturing = 0, steps = 0, stepping = 0, encoding = 0 },
  }, { __index = model })
end

--- Ids of a source.
---@param count integer
---@return integer[]
function m.source(count)
  local ids = {}
  for i = 1, count do ids[i] = 3 + i * 7919 % 256 end
  return ids
end

local function generate(model, o)
  return model:generate(m.source(o.source), { num_beams = o.beams, max_new_tokens = o.new, eos_token_id = false })
end

-- Microseconds a token, of so many generations as make a reading.
local function token_us(model, o)
  local count = model.count
  local seconds, steps = count.stepping, count.steps
  repeat generate(model, o) until count.stepping - seconds >= READING
  return (count.stepping - seconds) / (count.steps - steps) * 1e6
end

--- Gives a variant's states back.
---@param model reprise.T5
function m.drop(model)
  for state in pairs(model.states) do
    if model.capture then state.step:close() end
  end
  model.idle, model.states = {}, setmetatable({}, { __mode = "k" })
  collectgarbage()
  collectgarbage()
end

-- Milliseconds to record, plan and instantiate the step of a state that is done: its first call without its graph, less
-- the second.
local function capture_ms(device, state, runs)
  return m.spread(runs, function()
    state.step:graphs()[1]:close()
    local first = replays(device, state.step, 1)
    return (first - replays(device, state.step, 1)) / 1e3
  end).median
end

-- Microseconds the host spends on a replay: on a GPU to queue one, on the CPU device, which queues nothing, on a graph
-- that does nothing.
local function host_us(device, state, runs)
  if launch.is_gpu(device) then
    return m.spread(runs, function()
      device:synchronize()
      local begun = core.clock()
      for _ = 1, 32 do state.step() end
      local us = (core.clock() - begun) / 32 * 1e6
      device:synchronize()
      return us
    end).median
  end
  local sums <close> = core.empty({ 1 }, "f32", device)
  local step = rp.capture(function() kernel(device, "nothing") { grid = 1, block = 32, sums } end, { device = device })
  step()
  local us = m.spread(runs, function() return replays(device, step, 1000) end)
  step:close()
  return us.median
end

local function eager_us(model, o)
  local eager = m.variant(model, false)
  token_us(eager, o)
  local us = m.spread(o.runs, function() return token_us(eager, o) end)
  m.drop(eager)
  return us.median
end

--- The figures of one row.
---@param model reprise.T5
---@param o { beams: integer, source: integer, new: integer, runs: integer }
---@return table
function m.row(model, o)
  local device, pool = model.device, model.device.pool
  local before = pool:figures().allocated
  local captured = m.variant(model, true)
  token_us(captured, o)
  local us = m.spread(o.runs, function() return token_us(captured, o) end)
  local state, figures = next(captured.states), pool:figures()
  local nodes, bytes = state.step:graphs()[1].nodes, m.bytes(model, o)
  local row = {
    us = us.median, us_low = us.low, us_high = us.high, nodes = nodes, bytes = bytes,
    host_us = host_us(device, state, o.runs), capture_ms = capture_ms(device, state, o.runs),
    memory = figures.allocated - before, reserved = figures.reserved,
  }
  m.drop(captured)
  row.eager_us = eager_us(model, o)
  row.read_us, row.chain_us = m.read_floor(device, bytes, o.runs), m.chain_floor(device, nodes, o.runs)
  row.ratio = row.us / math.max(row.read_us, row.chain_us)
  pool:trim()
  return row
end

-- ---- time per node

-- Bytes of the matrices that a product reads.
local function matrix_bytes(name, call)
  local sum = 0
  for _, x in ipairs((name:find "linear" or name:find "gated") and call or {}) do
    if launch.is_tensor(x) and x.rank == 2 then sum = sum + x.bytes end
  end
  return sum
end

-- Launches inside a capture are followed by a stamp each; the first by one before it, and one more, for the stamp's own
-- time.
local function watched(device, times, nodes)
  local stamp = kernel(device, "stamp")
  local function mark(i) stamp { grid = 1, block = 32, times, i } end
  return function(found)
    return function(call)
      if not device.recording then return found(call) end
      if #nodes == 0 then
        mark(0)
        mark(1)
      end
      nodes[#nodes + 1] = { kernel = found.name, bytes = matrix_bytes(found.name, call) }
      found(call)
      mark(#nodes + 1)
    end
  end
end

--- Time per node of a step, by the device's clock, near the last new token.
---@param model reprise.T5
---@param o { beams: integer, source: integer, new: integer, runs: integer }
---@return { kernel: string, bytes: integer, us: number }[] nodes in order; bytes of matrices
function m.nodes(model, o)
  local device, nodes, taken = model.device, {}, {}
  local times <close> = core.zeros({ 4096 }, "i64", device)
  local captured = m.variant(model, true)
  launch.watch = watched(device, times, nodes)
  local done, why = pcall(generate, captured, o)
  launch.watch = nil
  if not done then error(why, 0) end
  for run = 1, o.runs do
    generate(captured, o)
    taken[run] = times:slice(1, 1, #nodes + 2):totable()
  end
  m.drop(captured)
  for i, node in ipairs(nodes) do
    local run = 0
    node.us = math.max(0, m.spread(o.runs, function()
      run = run + 1
      local t = taken[run]
      return (t[i + 2] - t[i + 1] - (t[2] - t[1])) / 1e3
    end).median)
  end
  return nodes
end

-- ---- from the start of a process to its first token

local function command(format, ...)
  local words = {}
  for i, word in ipairs { ... } do words[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  return format:format(table.unpack(words))
end

-- A folder that is gone when the variable that holds it is.
local function temporary()
  local pipe = assert(io.popen "mktemp -d")
  local path = pipe:read "l"
  pipe:close()
  return setmetatable({ path = path }, { __close = function() os.execute(command("rm -rf %s", path)) end })
end

--- What a process of its own does, and prints: see m.starts.
---@param folder string
---@param o { device: string, kv: string, source: integer, began: number } began: when the process was asked for
function m.start(folder, o)
  local begun = core.clock()
  local model = rp.t5.load(folder, { device = o.device, kv = o.kv })
  model.device:synchronize()
  local loaded = core.clock()
  local next_token, _, _, stream = model:stream(m.source(o.source), { max_new_tokens = 2, eos_token_id = false })
  next_token()
  print(core.json_encode { load_ms = (loaded - begun) * 1e3, start_ms = (core.clock() - o.began) * 1e3 })
  stream:close()
end

-- Starts a process under `home`, with `cache` as its kernel cache.
local function start(folder, home, cache, o)
  local code = ("require('reprise.bench').start(%q, { device = %q, kv = %q, source = %d, began = %.9f })"):format(
    folder, o.device, o.kv, o.source, core.clock())
  return apart.run({ [-1] = "env", [0] = "REPRISE_HOME=" .. home }, "REPRISE_CACHE=" .. cache, core.file, "-e", code)
end

-- The same home without kernels that came with it.
local function bare_home(path)
  for _, name in ipairs { "lua", "kernels" } do
    os.execute(command("ln -s %s %s", core.home() .. "/" .. name, path .. "/" .. name))
  end
  return path
end

--- Milliseconds from the start of a process to its first token, the weights in a file that was just written: with
--- kernels that are there, and with an empty cache and none that came with the program (nil where nothing compiles).
---@param model reprise.T5
---@param o { kv: string, source: integer, runs: integer }
---@return { load_ms: number, warm_ms: number, cold_ms: number? }
function m.starts(model, o)
  local weights <close> = temporary()
  local home <close> = temporary()
  local cache <close> = temporary()
  local how = { device = model.device.name, kv = o.kv, source = o.source }
  model:save(weights.path)
  local compiled, cold = pcall(start, weights.path, bare_home(home.path), cache.path, how)
  start(weights.path, core.home(), cache.path, how)
  local starts = {}
  for i = 1, o.runs do starts[i] = start(weights.path, core.home(), cache.path, how) end
  local function median(name)
    local i = 0
    return m.spread(o.runs, function()
      i = i + 1
      return starts[i][name]
    end).median
  end
  return { load_ms = median "load_ms", warm_ms = median "start_ms", cold_ms = compiled and cold.start_ms or nil }
end

return m
