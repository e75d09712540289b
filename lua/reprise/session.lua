-- session.lua - decoding, one token a row at a time: state that lives on the device, and the step that moves it on.
--
-- A state is made for a number of rows, a bucket of source lengths, a bucket of decoder lengths and a type of caches.
-- It holds caches, cross keys and values, lengths, tokens and position in fixed places, and the one captured step that
-- serves all positions. When a session closes, its state waits for the next session of the same kind, which then
-- captures nothing. Two sessions open at once have different states.

local core = require "reprise.core"
local ops = require "reprise.ops"
local raise = require "reprise.raise"
local rp = require "reprise"
local sources = require "reprise.sources"

local m = {}

local IDLE = 8 -- states kept for later, the least recently used go first

---@class reprise.State
---@field key string what it serves
---@field source integer longest source
---@field lengths reprise.Tensor i32 [rows], of the sources
---@field choice reprise.ChoiceState newest tokens and position
---@field layers reprise.Caches[]
---@field step fun(): reprise.Tensor one step on; logits [rows, vocab]
---@field fresh boolean has it never made a step?

-- The step as it will be called: captured, or eager with its temporaries recycled.
local function step_of(model, state)
  local function forward() return model:forward(state) end
  if model.capture then return rp.capture(forward, { name = "decode", device = model.device }) end
  return function() return rp.scope(forward) end
end

local function make(model, key, rows, source, room)
  local c, device = model.config, model.device
  local state = { key = key, source = source, layers = {}, fresh = true }
  state.lengths = rp.empty({ rows }, "i32", device)
  state.choice = ops.choice_state(rows, { device = device })
  local function cache(length) return rp.empty({ rows, length, c.inner }, model.kv, device) end
  for i = 1, c.layers.decoder do
    state.layers[i] = {
      keys = cache(room), values = cache(room), cross_keys = cache(source), cross_values = cache(source),
    }
  end
  state.step = step_of(model, state)
  model.states[state] = true
  return state
end

-- An idle state of this kind, else a new one.
local function take(model, rows, source, room)
  local key = ("%d rows, %d of source, %d tokens"):format(rows, source, room)
  for i = #model.idle, 1, -1 do
    if model.idle[i].key == key then return table.remove(model.idle, i) end
  end
  return make(model, key, rows, source, room)
end

local function close_all(tensors)
  for _, value in pairs(tensors) do
    if type(value) == "userdata" then value:close() end
  end
end

local function drop(model, state)
  model.states[state] = nil
  for _, graph in ipairs(model.capture and state.step:graphs() or {}) do graph:close() end
  for _, layer in ipairs(state.layers) do close_all(layer) end
  close_all(state.choice)
  state.lengths:close()
end

local function put_back(model, state)
  table.insert(model.idle, state)
  if #model.idle > IDLE then drop(model, table.remove(model.idle, 1)) end
end

---@class reprise.Session
---@field rows integer
---@field limit integer most tokens
---@field done integer tokens so far
local Session = {}
Session.__index = Session

-- Encodes the sources into a state at position 0, whatever an interrupted step left behind.
local function fill(model, lists, state)
  rp.scope(function()
    local hidden, lengths = model:hidden(lists, state.source)
    model:cross(hidden, lengths, state)
  end)
  state.choice.position:fill(0)
  state.choice.arrived:fill(0)
end

--- A session over sources, one row a source.
---@param model reprise.T5
---@param lists integer[][] ids of each source
---@param limit integer most tokens a row
---@return reprise.Session
function m.open(model, lists, limit)
  local begun, longest = core.clock(), 0
  for _, ids in ipairs(lists) do longest = math.max(longest, #ids) end
  local state = take(model, #lists, sources.bucket(longest), sources.bucket(limit))
  local self = setmetatable({ model = model, state = state, rows = #lists, limit = limit, done = 0 }, Session)
  fill(model, lists, state)
  model.count.encoding = model.count.encoding + core.clock() - begun
  return self
end

local function check(self)
  if not self.state then raise "step: the session is closed" end
  if self.done == self.limit then
    raise("step: the session was opened for %d tokens, which are done", self.limit)
  end
end

-- A state's first step captures, or compiles: that is counted apart.
local function first_step(model, state)
  local begun, count = core.clock(), model.count
  local logits = state.step()
  state.fresh = false
  count.captured = count.captured + (model.capture and 1 or 0)
  count.capturing = count.capturing + core.clock() - begun
  return logits
end

--- Makes the folder's start token the newest of each row.
function Session:start() self.state.choice.token:fill(self.model.config.start) end

--- One step from the newest tokens, which become those of largest logit (the lowest id among equals).
---@return reprise.Tensor logits f32 [rows, vocab]
function Session:advance()
  check(self)
  self.done = self.done + 1
  if self.state.fresh then return first_step(self.model, self.state) end
  self.model.count.steps = self.model.count.steps + 1
  return self.state.step()
end

--- The newest token of each row.
---@return integer[]
function Session:tokens() return self.state.choice.token:totable() end

--- One step from tokens of the caller's.
---@param ids reprise.Tensor i32 [rows]
---@return reprise.Tensor logits f32 [rows, vocab]
function Session:step(ids, parents)
  check(self)
  if parents ~= nil then raise "step: parents are not supported: each row goes on by itself" end
  if type(ids) ~= "userdata" or ids.dtype ~= "i32" or ids.rank ~= 1 or ids.shape[1] ~= self.rows then
    raise("step: ids: an i32 tensor of shape {%d} is expected", self.rows)
  end
  self.state.choice.token:copy(ids)
  return self:advance()
end

--- Lets the state go to the next session; twice is safe.
function Session:close()
  if self.state then put_back(self.model, self.state) end
  self.state = nil
end

Session.__close = Session.close
Session.__gc = Session.close

return m
