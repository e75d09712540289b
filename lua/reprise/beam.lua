-- beam.lua - beam search: a state on the device, one captured step for all positions, and the search that a call makes.
--
-- A step is the decoder's on sources x beams rows, then search.lua's two kernels; the last node moves everything on and
-- says when it is done, so the host only queues replays. Beams that change places change a byte a position in a table:
-- no keys and values move. Cross keys and values are kept once a source. Options live in the state, so one graph serves
-- all searches of a size: sources, beams, number of end ids, bucket of source lengths, bucket of decoder lengths.

local core = require "reprise.core"
local nn = require "reprise.nn"
local ops = require "reprise.ops"
local raise = require "reprise.raise"
local rp = require "reprise"
local search = require "reprise.search"
local sources = require "reprise.sources"

local m = {}

local IDLE = 4 -- states kept for later, the least recently used go first
local AHEAD = 2 -- replays queued beyond the one that runs
local PIECE = 32 << 20 -- bytes of logits stored at a time

---@class reprise.BeamOptions all resolved
---@field num_beams integer 1 to 16
---@field num_return_sequences integer at most num_beams
---@field max_new integer new tokens at most
---@field prompt integer[]|integer[][] start token included; a list of lists, of one length, gives one a source
---@field ends integer[] may be empty
---@field min_length integer? tokens before the first end id, prompt included
---@field min_new integer? the same without the prompt; wins over min_length
---@field length_penalty number?
---@field early_stopping boolean|"never"|nil
---@field repetition_penalty number?
---@field no_repeat_ngram_size integer?

---@class reprise.BeamState
---@field key string what it serves
---@field source integer longest source
---@field lengths reprise.Tensor i32 {sources}
---@field layers reprise.Caches[]
---@field search reprise.SearchState
---@field step fun() one step on
---@field fresh boolean has it never made a step?

-- ---- the step

-- Ids a piece of the logits, whole parts of them.
local function piece_of(rows, vocab)
  local part = search.part_of(vocab)
  return math.max(part, PIECE // (4 * rows) // part * part)
end

local function offer(model, s, x)
  local c, offers, piece = model.config, search.offers(s, model.config.vocab), piece_of(s.sources * s.beams, model.config.vocab)
  for first = 0, c.vocab - 1, piece do
    local head = model.head
    if piece < c.vocab then head = head:slice(1, first + 1, math.min(first + piece, c.vocab)) end
    local logits = nn.logits(x, model.decoder.norm, head, c.epsilon, c.scale and c.width ^ -0.5 or 1.0)
    search.candidates(s, offers, logits, first)
  end
  return offers
end

local function forward(model, state)
  local c, s = model.config, state.search
  local stack = {
    heads = c.heads, epsilon = c.epsilon, activation = c.activation, bias = model.decoder.bias, lengths = state.lengths,
    position = s.position, origin = s.origin, beams = s.beams,
  }
  local x = ops.embed(model.decoder.embedding, s.token)
  for i, layer in ipairs(model.decoder.layers) do x = nn.decoder_layer(x, layer, stack, state.layers[i]) end
  search.search(s, offer(model, s, x))
end

local function step_of(model, state)
  local function step() forward(model, state) end
  if model.capture then return rp.capture(step, { name = "beams", device = model.device }) end
  return function() rp.scope(step) end
end

-- ---- states

local function make(model, key, size)
  local c, device, rows = model.config, model.device, size.sources * size.beams
  local state = { key = key, source = size.source, layers = {}, fresh = true }
  state.search = search.state(size.sources, size.beams, size.room, size.ends, device)
  state.lengths = rp.empty({ size.sources }, "i32", device)
  local function cache(count, length) return rp.empty({ count, length, c.inner }, model.kv, device) end
  for i = 1, c.layers.decoder do
    state.layers[i] = {
      keys = cache(rows, size.room), values = cache(rows, size.room),
      cross_keys = cache(size.sources, size.source), cross_values = cache(size.sources, size.source),
    }
  end
  state.step = step_of(model, state)
  model.states[state] = true
  return state
end

local function idle(model)
  model.searches = model.searches or {}
  return model.searches
end

-- An idle state of this kind, else a new one.
local function take(model, size)
  local key = ("%d sources of %d, %d beams of %d, %d ends"):format(size.sources, size.source, size.beams, size.room, size.ends)
  local list = idle(model)
  for i = #list, 1, -1 do
    if list[i].key == key then return table.remove(list, i) end
  end
  return make(model, key, size)
end

local function drop(model, state)
  model.states[state] = nil
  if model.capture then state.step:close() end
  for _, layer in ipairs(state.layers) do
    for _, tensor in pairs(layer) do tensor:close() end
  end
  search.close(state.search)
  state.lengths:close()
end

local function put_back(model, state)
  local list = idle(model)
  table.insert(list, state)
  if #list > IDLE then drop(model, table.remove(list, 1)) end
end

-- Numbers of sources that states are made for: 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
local function source_bucket(count)
  local power = 1
  while power < count do power = power * 2 end
  return power >= 4 and count <= power * 3 // 4 and power * 3 // 4 or power
end

-- ---- one search

---@class reprise.BeamSearch
---@field sources integer
---@field steps integer most steps, those that read the prompt included
---@field made integer? steps made, once it ran
local Search = {}
Search.__index = Search

local function prompts_of(o, count)
  if type(o.prompt[1]) == "table" then return o.prompt end
  local list = {}
  for i = 1, count do list[i] = o.prompt end
  return list
end

-- Sources past those that are given only fill the bucket.
local function padded(lists, count)
  local all = table.move(lists, 1, #lists, 1, {})
  for i = #lists + 1, count do all[i] = { lists[1][1] } end
  return all
end

local function encode(model, lists, state)
  rp.scope(function()
    local hidden, lengths = model:hidden(padded(lists, state.search.sources), state.source)
    model:cross(hidden, lengths, state)
  end)
end

-- A state's first step captures, or compiles; the search is done at that time, so it changes nothing.
local function first_step(model, state)
  local begun, count = core.clock(), model.count
  state.step()
  state.fresh = false
  count.captured = count.captured + (model.capture and 1 or 0)
  count.capturing = count.capturing + core.clock() - begun
end

local function size_of(lists, o, prompt)
  local longest = 0
  for _, ids in ipairs(lists) do longest = math.max(longest, #ids) end
  return {
    sources = source_bucket(#lists), beams = o.num_beams, source = sources.bucket(longest),
    room = sources.bucket(prompt - 1 + o.max_new), ends = #o.ends,
  }
end

--- A search over sources that are lists of ids.
---@param model reprise.T5
---@param lists integer[][]
---@param o reprise.BeamOptions
---@return reprise.BeamSearch
function m.open(model, lists, o)
  local begun, prompts = core.clock(), prompts_of(o, #lists)
  local prompt = #prompts[1]
  local state = take(model, size_of(lists, o, prompt))
  local self = setmetatable({ model = model, state = state, sources = #lists, wanted = o.num_return_sequences or 1 }, Search)
  self.steps = prompt - 1 + o.max_new
  encode(model, lists, state)
  model.count.encoding = model.count.encoding + core.clock() - begun
  if state.fresh then first_step(model, state) end
  search.begin(state.search, {
    prompts = prompts, max_new = o.max_new, shortest = o.min_new and prompt + o.min_new or o.min_length,
    length_penalty = o.length_penalty, early_stopping = o.early_stopping, repetition_penalty = o.repetition_penalty,
    no_repeat_ngram_size = o.no_repeat_ngram_size, ends = o.ends,
  })
  return self
end

local function check(self, what)
  if not self.state then raise("%s: the search is closed", what) end
end

-- Without a captured step: launch by launch, looking at the signal without waiting for it.
local function run_eager(state, steps)
  for n = 1, steps do
    state.step()
    local made, done = state.search.signal:step()
    if done then return made end
    if n == steps then return n end
  end
end

--- Searches to the end; replays are queued ahead and no value is read back.
---@return integer steps made
function Search:run()
  check(self, "run")
  local begun, state, count = core.clock(), self.state, self.model.count
  if self.model.capture then
    self.made = state.step:run { max = self.steps, stop = state.search.signal, ahead = AHEAD }
  else
    self.made = run_eager(state, self.steps)
  end
  count.steps = count.steps + self.made
  count.stepping = count.stepping + core.clock() - begun
  return self.made
end

--- What was found: for each source a list, best first, without what transformers fills its lists with.
---@return reprise.Hypothesis[][]
function Search:results()
  check(self, "results")
  return search.collect(self.state.search, self.sources, self.wanted)
end

--- Lets the state go to the next search; twice is safe.
function Search:close()
  if self.state then put_back(self.model, self.state) end
  self.state = nil
end

Search.__close = Search.close
Search.__gc = Search.close

return m
