-- session.lua - decoding, one token a row at a time: state that lives on the device, and the step that moves it on.
--
-- A state is made for a number of rows, a bucket of source lengths, a bucket of decoder lengths and a type of caches.
-- It holds caches, cross keys and values, lengths, tokens and position in fixed places, and the one captured step that
-- serves all positions. When a session closes, its state waits for the next session of the same kind, which then
-- captures nothing. Two sessions open at once have different states.

local core = require "reprise.core"
local raise = require "reprise.raise"
local rp = require "reprise"
local sources = require "reprise.sources"

local m = {}

local IDLE = 8 -- states kept for later, the least recently used go first

---@class reprise.State
---@field key string what it serves
---@field rows integer
---@field source integer longest source
---@field room integer most tokens
---@field lengths reprise.Tensor i32 [rows], of the sources
---@field token reprise.Tensor i32 [rows], the newest of each row
---@field position reprise.Tensor i32 [1], how many tokens the caches hold
---@field layers table[] a decoder layer's keys, values, cross_keys, cross_values
---@field step fun(): reprise.Tensor replays; returns logits [rows, vocab]

local function close_tensors(state)
  for _, name in ipairs { "lengths", "token", "position" } do state[name]:close() end
  for _, layer in ipairs(state.layers) do
    for _, tensor in pairs(layer) do tensor:close() end
  end
end

local function drop(state)
  for _, graph in ipairs(state.captured and state.step:graphs() or {}) do graph:close() end
  close_tensors(state)
end

-- The step as it will be called: captured, or eager with its temporaries recycled.
local function step_of(model, state)
  local function forward() return model:forward(state) end
  if model.capture then return rp.capture(forward, { name = "decode", max_graphs = 1 }) end
  return function() return rp.scope(forward) end
end

local function make(model, key, rows, source, room)
  local c, device = model.config, model.device
  local state = { key = key, rows = rows, source = source, room = room, layers = {}, captured = model.capture }
  state.lengths = rp.zeros({ rows }, "i32", device)
  state.token = rp.zeros({ rows }, "i32", device)
  state.position = rp.zeros({ 1 }, "i32", device)
  for i = 1, c.layers.decoder do
    local function cache(length) return rp.empty({ rows, c.heads, length, c.head }, model.kv, device) end
    state.layers[i] = { keys = cache(room), values = cache(room), cross_keys = cache(source), cross_values = cache(source) }
  end
  state.step = step_of(model, state)
  return state
end

-- An idle state of this kind, else a new one.
local function take(model, rows, source, room)
  local key = ("%d rows, %d of source, %d tokens"):format(rows, source, room)
  for i = #model.idle, 1, -1 do
    if model.idle[i].key == key then return table.remove(model.idle, i) end
  end
  local state = make(model, key, rows, source, room)
  model.made[state] = key
  return state
end

local function put_back(model, state)
  table.insert(model.idle, state)
  if #model.idle > IDLE then drop(table.remove(model.idle, 1)) end
end

---@class reprise.Session
---@field rows integer
---@field limit integer most tokens
---@field done integer tokens so far
local Session = {}
Session.__index = Session

--- A session over sources, one row a source.
---@param model reprise.T5
---@param lists integer[][] ids of each source
---@param limit integer most tokens a row
---@return reprise.Session
function m.open(model, lists, limit)
  local begun = core.clock()
  local longest = 0
  for _, ids in ipairs(lists) do longest = math.max(longest, #ids) end
  local state = take(model, #lists, sources.bucket(longest), sources.bucket(limit))
  local self = setmetatable({ model = model, state = state, rows = #lists, limit = limit, done = 0 }, Session)
  rp.scope(function()
    local hidden, lengths = model:hidden(lists, state.source)
    state.lengths:copy(lengths)
    model:cross(hidden, lengths, state)
  end)
  state.position:fill(0)
  model.count.encoding = model.count.encoding + core.clock() - begun
  return self
end

local function check_open(self, what)
  if not self.state then raise("%s: the session is closed", what) end
  if self.done == self.limit then raise("%s: the session was opened for %d tokens, which are done", what, self.limit) end
end

--- Makes the folder's start token the newest of each row.
function Session:start() self.state.token:fill(self.model.config.start) end

--- One step from the newest tokens, which become those of largest logit (the lowest id among equals).
---@return reprise.Tensor logits f32 [rows, vocab]
function Session:advance()
  check_open(self, "step")
  self.done = self.done + 1
  return self.state.step()
end

--- The newest token of each row.
---@return integer[]
function Session:tokens() return self.state.token:totable() end

--- One step from tokens of the caller's.
---@param ids reprise.Tensor i32 [rows]
---@return reprise.Tensor logits f32 [rows, vocab]
function Session:step(ids, parents)
  check_open(self, "step")
  if parents ~= nil then raise("step: parents are not supported: each row goes on by itself") end
  if type(ids) ~= "userdata" or ids.dtype ~= "i32" or ids.rank ~= 1 or ids.shape[1] ~= self.rows then
    raise("step: ids: an i32 tensor of shape {%d} is expected", self.rows)
  end
  self.state.token:copy(ids)
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
