-- decoder.lua - what every decoding needs: caches and cross keys in fixed places, the captured step over them, and the
-- states that wait for the next decoding of their kind, which then captures nothing.
--
-- A state is made for a number of sources, rows a source, a bucket of source lengths, a bucket of decoder lengths, and
-- what its step does at its end. Decodings that are open at once have different states.

local core = require "reprise.core"
local rp = require "reprise"
local sources = require "reprise.sources"

local m = {}

-- States kept for later: at most so many, and so many bytes of caches together, but the newest stays in any case.
local IDLE, IDLE_BYTES = 8, 1 << 30

-- Replays queued beyond the one that runs. One hides what queueing costs; the other covers a host that is late by a
-- step, as after a page fault. Steps past the end change nothing: what each costs is its time.
m.AHEAD = 2

---@class reprise.DecoderSize
---@field kind string what the step does at its end
---@field sources integer
---@field rows integer a source
---@field source integer longest source
---@field room integer positions a row: tokens that are fed

---@class reprise.State
---@field key string what it serves
---@field size reprise.DecoderSize
---@field bytes integer of its caches
---@field lengths reprise.Tensor i32 {sources}
---@field layers reprise.Caches[]
---@field token reprise.Tensor i32 {sources * rows}: newest tokens
---@field position reprise.Tensor i32 {1}: where they stand
---@field origin reprise.Tensor? u8 {sources * rows, room}: see ops.attend_self
---@field step fun(...): reprise.Tensor? one step on
---@field fresh boolean has it never made a step?
---@field close fun() gives back what was added to it

--- A size for so many sources as these lists, and rows of so many fed tokens, that serves others too.
---@param kind string
---@param lists integer[][]
---@param rows integer a source
---@param room integer
---@return reprise.DecoderSize
function m.size(kind, lists, rows, room)
  local longest = 0
  for _, ids in ipairs(lists) do longest = math.max(longest, #ids) end
  return {
    kind = kind, sources = sources.count_bucket(#lists), rows = rows, source = sources.bucket(longest),
    room = sources.bucket(room),
  }
end

local function caches(model, size)
  local c, device, rows = model.config, model.device, size.sources * size.rows
  local function cache(count, length) return rp.empty({ count, length, c.inner }, model.kv, device) end
  local layers = {}
  for i = 1, c.layers.decoder do
    layers[i] = {
      keys = cache(rows, size.room), values = cache(rows, size.room),
      cross_keys = cache(size.sources, size.source), cross_values = cache(size.sources, size.source),
    }
  end
  return layers
end

local function bytes_of(layers)
  local sum = 0
  for _, layer in ipairs(layers) do
    for _, tensor in pairs(layer) do sum = sum + tensor.bytes end
  end
  return sum
end

local function key_of(size)
  return ("%s: %d sources of %d, %d rows of %d"):format(size.kind, size.sources, size.source, size.rows, size.room)
end

local function drop(model, state)
  model.states[state] = nil
  if model.capture then state.step:close() end
  for _, layer in ipairs(state.layers) do
    for _, tensor in pairs(layer) do tensor:close() end
  end
  state.lengths:close()
  state.close()
end

local function make(model, size, finish)
  local state = {
    key = key_of(size), size = size, layers = caches(model, size), fresh = true,
    lengths = rp.zeros({ size.sources }, "i32", model.device),
  }
  state.bytes = bytes_of(state.layers)
  finish(state)
  model.states[state] = true
  return state
end

-- Where there is no memory for another state, those that wait are given up.
local function make_room(model)
  for i = #model.idle, 1, -1 do drop(model, table.remove(model.idle, i)) end
  collectgarbage()
end

--- An idle state of this size, else a new one: `finish(state)` adds token, position, step and close to its caches.
---@param model reprise.T5
---@param size reprise.DecoderSize
---@param finish fun(state: reprise.State)
---@return reprise.State
function m.take(model, size, finish)
  local key = key_of(size)
  for i = #model.idle, 1, -1 do
    if model.idle[i].key == key then return table.remove(model.idle, i) end
  end
  if #model.idle == 0 then return make(model, size, finish) end
  local made, state = pcall(make, model, size, finish)
  if made then return state end
  make_room(model)
  return make(model, size, finish)
end

--- Keeps a state for the next decoding of its kind.
---@param model reprise.T5
---@param state reprise.State
function m.put_back(model, state)
  local idle, bytes = model.idle, 0
  table.insert(idle, state)
  for i = #idle, 1, -1 do
    bytes = bytes + idle[i].bytes
    if i < #idle and (#idle - i >= IDLE or bytes > IDLE_BYTES) then drop(model, table.remove(idle, i)) end
  end
end

--- A step as it will be called: captured, or eager with its temporaries recycled.
---@param model reprise.T5
---@param name string
---@param fn fun(...): reprise.Tensor?
---@return fun(...): reprise.Tensor?
function m.step(model, name, fn)
  if model.capture then return rp.capture(fn, { name = name, device = model.device }) end
  return function(...) return rp.scope(fn, ...) end
end

--- A state's first step captures, or compiles: that is counted apart.
---@param model reprise.T5
---@param state reprise.State
---@param ... reprise.Tensor
---@return reprise.Tensor?
function m.first_step(model, state, ...)
  local begun, count = core.clock(), model.count
  local out = state.step(...)
  state.fresh = false
  count.captured = count.captured + (model.capture and 1 or 0)
  count.capturing = count.capturing + core.clock() - begun
  return out
end

-- Sources past those that are given only fill the bucket.
local function padded(lists, count)
  local all = table.move(lists, 1, #lists, 1, {})
  for i = #lists + 1, count do all[i] = { lists[1][1] } end
  return all
end

--- Encodes sources into a state, whatever an interrupted step left behind.
---@param model reprise.T5
---@param state reprise.State
---@param lists integer[][]
function m.encode(model, state, lists)
  local begun = core.clock()
  rp.scope(function()
    local hidden, lengths = model:hidden(padded(lists, state.size.sources), state.size.source)
    model:cross(hidden, lengths, state)
  end)
  if model.settles then model.device:synchronize() end -- what is measured of steps is then theirs alone
  model.count.encoding = model.count.encoding + core.clock() - begun
end

return m
