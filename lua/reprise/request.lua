-- request.lua - a call's options as numbers for the device: prompts, lengths, ends, seeds.

local options = require "reprise.options"
local raise = require "reprise.raise"

local m = {}

---@class reprise.Request
---@field what string who asks, for messages
---@field o table<string, any> the options
---@field sources integer
---@field prompts integer[][] of one length: one for all sources, or one a source; start token included
---@field longest integer tokens of a row, prompt included
---@field shortest integer no end before so many
---@field ends integer[]
---@field is_end table<integer, boolean>
---@field pad integer

-- Before given tokens comes the start token, if no list begins with it.
local function prompts_of(what, o, start, count)
  local given = o.decoder_input_ids
  if not given then return { { start } } end
  local lists = type(given[1]) == "table" and given or { given }
  if #lists ~= 1 and #lists ~= count then
    raise("%s: decoder_input_ids: %d lists for %d sources", what, #lists, count)
  end
  for _, ids in ipairs(lists) do
    if ids[1] == start then return lists end
  end
  local out = {}
  for i, ids in ipairs(lists) do out[i] = table.move(ids, 1, #ids, 2, { start }) end
  return out
end

local function longest_of(what, o, prompt)
  local longest = o.max_new_tokens and prompt + o.max_new_tokens or o.max_length or prompt + 20
  if prompt >= longest then
    raise("%s: max_length is %d, and the prompt has %d %s", what, longest, prompt, prompt == 1 and "token" or "tokens")
  end
  return longest
end

--- What a call asks for.
---@param model reprise.T5
---@param what string generate, each or stream
---@param o table<string, any> resolved options
---@param count integer sources
---@return reprise.Request
function m.make(model, what, o, count)
  local start = o.decoder_start_token_id
  if not start then raise("%s: %s names no decoder_start_token_id", what, model.folder) end
  local prompts = prompts_of(what, o, start, count)
  local prompt, ends = #prompts[1], o.eos_token_id or {}
  local request = {
    what = what, o = o, sources = count, prompts = prompts, ends = ends, is_end = {},
    longest = longest_of(what, o, prompt), pad = o.pad_token_id or ends[1] or 0,
    shortest = o.min_new_tokens and prompt + o.min_new_tokens or o.min_length,
  }
  for _, id in ipairs(ends) do request.is_end[id] = true end
  return request
end

-- The words of a seed, and which of its sequences this is.
local function seed_words(seed, number)
  local low, high = ("<i4i4"):unpack(("<i8"):pack(seed))
  return { low, high, number }
end

--- Seeds of all rows: a list has one a source, whose rows are its sequences; one seed's sequences are all rows.
---@param what string
---@param o table<string, any>
---@param numbers integer[] which source of the call each one is, from 0
---@return integer[][]
function m.seeds(what, o, numbers)
  local given, rows, words = o.seed, o.num_return_sequences, {}
  local own = type(given) == "table"
  for _, number in ipairs(numbers) do
    local seed = own and given[number + 1] or not own and given
    if not seed then raise("%s: seed: %d seeds, and a source %d", what, #given, number + 1) end
    for r = 0, rows - 1 do words[#words + 1] = seed_words(seed, own and r or number * rows + r) end
  end
  return words
end

--- Reads, checks and completes the options of a call; without a seed there is another one every time.
---@param model reprise.T5
---@param what string
---@param call table?
---@return table<string, any>
function m.options(model, what, call)
  local o = options.resolve(model, what, call)
  if o.do_sample and not o.seed then o.seed = math.random(0) end
  return o
end

return m
