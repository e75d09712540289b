-- session.lua - decoding a token a row at a time, for decoders of one's own: the caller chooses tokens and, where a
-- source has several rows, which row goes on from which.
--
-- Rows stand source by source. Nothing is copied when rows change places: a table says where each row's past lies.

local choice = require "reprise.choice"
local decoder = require "reprise.decoder"
local raise = require "reprise.raise"
local rp = require "reprise"
local search = require "reprise.search"

local m = {}

---@class reprise.Session
---@field rows integer in all
---@field limit integer most tokens
---@field done integer tokens so far
local Session = {}
Session.__index = Session

-- The step of a state: ids and parents come in, logits of the rows go out.
local function finish(model, state)
  local size, device = state.size, model.device
  state.position = rp.zeros({ 1 }, "i32", device)
  state.origin = rp.zeros({ size.sources * size.rows, size.room }, "u8", device)
  state.step = decoder.step(model, "decode", function(ids, parents)
    state.token = ids
    search.follow(state.origin, state.position, parents, size.rows)
    local logits = model:forward(state)
    choice.tick(state.position)
    return logits
  end)
  function state.close()
    state.position:close()
    state.origin:close()
  end
end

-- Row i of each source, for all sources: each row goes on from itself.
local function identity(count, rows)
  local list = {}
  for i = 1, count do list[i] = (i - 1) % rows end
  return list
end

--- A session over sources.
---@param model reprise.T5
---@param lists integer[][] ids of each source
---@param rows integer a source, 1 to 255
---@param limit integer most tokens a row
---@return reprise.Session
function m.open(model, lists, rows, limit)
  local size = decoder.size("open", lists, rows, limit)
  local state = decoder.take(model, size, function(state) finish(model, state) end)
  local self = setmetatable({
    model = model, state = state, rows = #lists * rows, limit = limit, done = 0,
  }, Session)
  decoder.encode(model, state, lists)
  state.position:fill(0)
  self.all = size.sources * rows
  self.same = rp.tensor(identity(self.all, rows), "i32", model.device)
  return self
end

local function kind_of(x)
  if type(x) ~= "userdata" or not x.shape then return type(x) end
  return ("%s {%s}"):format(x.dtype, table.concat(x.shape, ", "))
end

local function check(self, name, x)
  if type(x) ~= "userdata" or x.dtype ~= "i32" or x.rank ~= 1 or x.shape[1] ~= self.rows then
    raise("step: %s: an i32 tensor of shape {%d} is expected, got %s", name, self.rows, kind_of(x))
  end
end

local function check_step(self, ids, parents)
  if not self.state then raise "step: the session is closed" end
  check(self, "ids", ids)
  if parents ~= nil then check(self, "parents", parents) end
  if self.done == self.limit then raise("step: the session was opened for %d tokens, which are done", self.limit) end
end

-- As many values as the state has rows.
local function filled(self, name, x)
  if self.rows == self.all then return x end
  local buffer = self[name] or rp.zeros({ self.all }, "i32", self.model.device)
  self[name] = buffer
  buffer:slice(1, 1, self.rows):copy(x)
  return buffer
end

local function replay(_, state, ...) return state.step(...) end

--- One step: each row takes a token, after going on from what a row of its source has seen.
--- Both are read on the device and by nobody before: an id outside the vocabulary or, from the second step on, a parent
--- outside the source makes the logits of its row nan, and those of all that go on from it.
---@param ids reprise.Tensor i32 {sources * rows}
---@param parents reprise.Tensor? i32 {sources * rows}, from 0 within the source; default: each row itself
---@return reprise.Tensor logits f32 {sources * rows, vocab}, as stale as outputs of captured functions
function Session:step(ids, parents)
  check_step(self, ids, parents)
  self.done = self.done + 1
  local step = self.state.fresh and decoder.first_step or replay
  local logits = step(self.model, self.state, filled(self, "ids", ids),
    parents and filled(self, "parents", parents) or self.same)
  return self.rows == self.all and logits or logits:slice(1, 1, self.rows)
end

--- Lets the state go to the next session; twice is safe.
function Session:close()
  if self.state then decoder.put_back(self.model, self.state) end
  self.state = nil
end

function Session:__tostring()
  if not self.state then return "session, closed" end
  return ("session: %d rows, %d of %d tokens"):format(self.rows, self.done, self.limit)
end

Session.__close = Session.close
Session.__gc = Session.close

return m
