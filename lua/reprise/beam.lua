-- beam.lua - beam search: a state on the device, one captured step for all positions, and the search that a call makes.
--
-- A step is the decoder's on sources x beams rows, then search.lua's two kernels; the last node moves everything on and
-- says when it is done, so the host only queues replays. Beams that change places change a byte a position in a table:
-- no keys and values move. Cross keys and values are kept once a source. Options live in the state, so one graph serves
-- all searches of a size: sources, beams, number of end ids, bucket of source lengths, bucket of decoder lengths.

local core = require "reprise.core"
local decoder = require "reprise.decoder"
local nn = require "reprise.nn"
local ops = require "reprise.ops"
local raise = require "reprise.raise"
local search = require "reprise.search"

local m = {}

local PIECE = 16 << 20 -- bytes of logits stored at a time

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

---@class reprise.BeamState: reprise.State
---@field search reprise.SearchState

-- ---- the step

-- Ids a piece of the logits, whole parts of them.
local function piece_of(rows, vocab)
  local part = search.part_of(vocab)
  return math.max(part, PIECE // (4 * rows) // part * part)
end

local function offer(model, s, x)
  local c = model.config
  local offers, piece = search.offers(s, c.vocab), piece_of(s.sources * s.beams, c.vocab)
  for first = 0, c.vocab - 1, piece do
    local head = model.head
    if piece < c.vocab then head = head:slice(1, first + 1, math.min(first + piece, c.vocab)) end
    local logits <close> = nn.logits(x, model.decoder.norm, head, c.epsilon, c.scale and c.width ^ -0.5 or 1.0)
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

local function finish(model, state, ends)
  local size = state.size
  local s = search.state(size.sources, size.rows, size.room, ends, model.device)
  state.search, state.token, state.position, state.origin = s, s.token, s.position, s.origin
  state.step = decoder.step(model, "beams", function() forward(model, state) end)
  function state.close() search.close(s) end
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

--- A search over sources that are lists of ids.
---@param model reprise.T5
---@param lists integer[][]
---@param o reprise.BeamOptions
---@return reprise.BeamSearch
function m.open(model, lists, o)
  local prompts, ends = prompts_of(o, #lists), #o.ends
  local prompt = #prompts[1]
  local size = decoder.size(("beams, %d ends"):format(ends), lists, o.num_beams, prompt - 1 + o.max_new)
  local state = decoder.take(model, size, function(state) finish(model, state, ends) end)
  local self = setmetatable({
    model = model, state = state, sources = #lists, wanted = o.num_return_sequences or 1,
    steps = prompt - 1 + o.max_new,
  }, Search)
  if state.fresh then decoder.first_step(model, state) end -- the search is done, so it changes nothing
  decoder.encode(model, state, lists)
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
    self.made = state.step:run { max = self.steps, stop = state.search.signal, ahead = decoder.AHEAD }
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
  if self.state then decoder.put_back(self.model, self.state) end
  self.state = nil
end

Search.__close = Search.close
Search.__gc = Search.close

return m
