-- generate.lua - from sources to results: all at once, one after the other with an iterator, or token by token.

local beam = require "reprise.beam"
local decoding = require "reprise.decoding"
local raise = require "reprise.raise"
local request = require "reprise.request"
local sources = require "reprise.sources"

local m = {}

---@class reprise.Output
---@field text string? nil where the folder's tokenizer is not supported
---@field ids integer[] without start token, end token and filler
---@field score number of a beam search the sequence's; else the log-probability over tokens^length_penalty
---@field finish "eos"|"length"

-- ---- results

local function search(model, lists, want)
  local o, prompt = want.o, #want.prompts[1]
  local s <close> = beam.open(model, lists, {
    num_beams = o.num_beams, num_return_sequences = o.num_return_sequences, max_new = want.longest - prompt,
    prompt = #want.prompts == 1 and want.prompts[1] or want.prompts, ends = want.ends, min_length = want.shortest,
    length_penalty = o.length_penalty, early_stopping = o.early_stopping, repetition_penalty = o.repetition_penalty,
    no_repeat_ngram_size = o.no_repeat_ngram_size,
  })
  s:run()
  return s:results()
end

local function decode(model, lists, want, numbers)
  if want.o.num_beams > 1 then return search(model, lists, want) end
  local d <close> = decoding.open(model, lists, want, numbers)
  d:run()
  return d:results()
end

-- The prompt's tokens are the result's first, the start token is not.
local function output(model, want, i, found)
  local prompt = want.prompts[#want.prompts == 1 and 1 or i]
  local first = prompt[1] == want.o.decoder_start_token_id and 2 or 1
  local ids = table.move(prompt, first, #prompt, 1, {})
  table.move(found.ids, 1, #found.ids, #ids + 1, ids)
  return { text = model.tokenizer:decode(ids), ids = ids, score = found.score, finish = found.finish }
end

-- Results of lists of ids; `numbers` says which source of the call each one is, from 0.
local function results(model, what, lists, o, numbers)
  local want, out = request.make(model, what, o, #lists), {}
  for i, list in ipairs(decode(model, lists, want, numbers)) do
    out[i] = {}
    for k, found in ipairs(list) do out[i][k] = output(model, want, i, found) end
  end
  return out
end

local function counting(count)
  local numbers = {}
  for i = 1, count do numbers[i] = i - 1 end
  return numbers
end

--- The results of one source, best first, or of several: a list of such lists.
---@param model reprise.T5
---@param given any see sources.lua
---@param call reprise.GenerateOptions?
---@return reprise.Output[]|reprise.Output[][]
function m.generate(model, given, call)
  local o = request.options(model, "generate", call)
  local lists, batch = sources.read(model, "generate", given, o.prefix)
  if type(o.seed) == "table" and #o.seed ~= #lists then
    raise("generate: seed: %d seeds for %d sources", #o.seed, #lists)
  end
  local out = results(model, "generate", lists, o, counting(#lists))
  return batch and out or out[1]
end

-- ---- many sources

local WINDOW = 8 -- batches that are read ahead, so that sources of like length are worked on together

-- A function that gives one source after the other.
local function puller(given)
  if type(given) == "table" and not (getmetatable(given) or {}).__call then
    local i = 0
    return function()
      i = i + 1
      return given[i]
    end
  end
  if type(given) ~= "function" and type(given) ~= "table" then
    raise("each: an iterator or a list of sources is expected, got %s", type(given))
  end
  return given
end

-- The next sources, at most `most`: { ids, number from 0 }.
local function read_window(model, pull, o, most, first)
  local window = {}
  while #window < most do
    local source = pull()
    if source == nil then return window, true end
    local number = first + #window
    window[#window + 1] = { ids = sources.one(model, "each", number + 1, source, o.prefix), number = number }
  end
  return window, false
end

local function by_length(window)
  local order = table.move(window, 1, #window, 1, {})
  table.sort(order, function(a, b)
    return #a.ids > #b.ids or #a.ids == #b.ids and a.number < b.number
  end)
  return order
end

-- Gives every source of the window its results.
local function work(model, window, o)
  local order = by_length(window)
  for first = 1, #order, o.batch do
    local lists, numbers = {}, {}
    for i = first, math.min(first + o.batch - 1, #order) do
      lists[#lists + 1], numbers[#numbers + 1] = order[i].ids, order[i].number
    end
    for i, out in ipairs(results(model, "each", lists, o, numbers)) do order[first + i - 1].out = out end
  end
end

--- Goes through sources in their order: `for i, outputs in model:each(io.lines(), { batch = 256 }) do`. They are read
--- ahead, eight batches at a time.
---@param model reprise.T5
---@param given fun(): any|any[] an iterator or a list
---@param call reprise.GenerateOptions|{ batch: integer? }|nil
---@return fun(): integer?, reprise.Output[]?
function m.each(model, given, call)
  local o, pull = request.options(model, "each", call), puller(given)
  if o.decoder_input_ids and type(o.decoder_input_ids[1]) == "table" then
    raise "each: decoder_input_ids: one list for all sources is expected"
  end
  local window, place, done, over = {}, 0, 0, false
  local most = o.batch > 1 and o.batch * WINDOW or 1
  return function()
    if place == #window then
      if over then return nil end
      window, over = read_window(model, pull, o, most, done)
      place, done = 0, done + #window
      work(model, window, o)
      if #window == 0 then return nil end
    end
    place = place + 1
    local one = window[place]
    return one.number + 1, one.out
  end
end

-- ---- token by token

local function check_stream(o, given)
  if o.num_beams > 1 then
    raise("stream: num_beams is %d: a beam search knows its tokens only at its end: use generate, or num_beams = 1",
      o.num_beams)
  end
  if o.num_return_sequences > 1 then
    raise("stream: num_return_sequences is %d: a stream has one result", o.num_return_sequences)
  end
  if sources.is_batch(given) then raise("stream: one source is expected, got a list of %d", #given) end
end

--- Goes through the tokens of one source's result as they come: `for id, text in model:stream(source) do`. text is what
--- has become complete UTF-8, else "". Leaving the loop, by whatever way, ends the work within the steps queued.
---@param model reprise.T5
---@param given any a source, see sources.lua
---@param call reprise.GenerateOptions?
---@return fun(): integer?, string?
---@return nil
---@return nil
---@return reprise.Decoding
function m.stream(model, given, call)
  local o = request.options(model, "stream", call)
  check_stream(o, given)
  local ids = sources.one(model, "stream", 1, given, o.prefix)
  local want = request.make(model, "stream", o, 1)
  local d, read = decoding.open(model, { ids }, want, { 0 }), model.tokenizer:reader()
  return function()
    local id = d:next()
    if id and not want.is_end[id] then return id, read(id) end
    d:close()
  end, nil, nil, d
end

return m
