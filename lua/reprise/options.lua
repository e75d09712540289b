-- options.lua - what may be asked of a generation: one table of names, types, defaults, ranges and meanings.
--
-- It feeds the checks and the hint for a wrong name here; help.lua makes the flags and the help of scripts of it, and
-- the LuaCATS lines of types.lua (a spec compares those). An option's value is the call's, else that of the model's
-- files, else the default. `false` unsets an option that is no yes or no: then the default counts, whatever the files
-- say.
--
-- Names and meanings are those of https://huggingface.co/docs/transformers/main_classes/text_generation

local raise = require "reprise.raise"

local m = {}

---@class reprise.OptionEntry
---@field [1] string name
---@field [2] "integer"|"number"|"boolean"|"stopping"|"ids"|"prompt"|"seeds"|"text" type
---@field [3] string what it does, in one line
---@field default any
---@field least number? smallest value
---@field most number? largest value
---@field above number? all values are larger than this
---@field id boolean? it is a token id: below the size of the vocabulary
---@field sampling boolean? it says how to draw, so it needs do_sample
---@field only string? the one function that takes it
---@field shown string? the default, in words

local MOST_TOKENS = 65000 -- a signal counts steps in 16 bits

---@type reprise.OptionEntry[]
m.list = {
  { "num_beams", "integer", "beams a source; 1: no beam search", default = 1, least = 1, most = 16 },
  { "num_return_sequences", "integer", "results a source: at most num_beams, any number of samples", default = 1,
    least = 1, most = 1024 },
  { "max_new_tokens", "integer", "most tokens of a result, without the prompt", least = 1, most = MOST_TOKENS,
    shown = "max_length, else 20" },
  { "max_length", "integer", "the same with the prompt; max_new_tokens wins", least = 1, most = MOST_TOKENS },
  { "min_new_tokens", "integer", "no end before so many tokens, without the prompt", least = 0, most = MOST_TOKENS },
  { "min_length", "integer", "the same with the prompt; min_new_tokens wins", default = 0, least = 0,
    most = MOST_TOKENS },
  { "length_penalty", "number", "a score is the log-probability over tokens^this; > 0 favours long results",
    default = 1.0 },
  { "early_stopping", "stopping", "when a beam search ends: true: with num_beams results; false: when better ones are "
    .. "unlikely; \"never\": when there can be none", default = false },
  { "eos_token_id", "ids", "ids that end a result" },
  { "pad_token_id", "integer", "what ended rows of a batch take", id = true, shown = "the first eos_token_id" },
  { "decoder_start_token_id", "integer", "first token of the decoder", id = true, shown = "bos_token_id of the files" },
  { "decoder_input_ids", "prompt", "tokens the result begins with, for all sources or a list a source" },
  { "repetition_penalty", "number", "divides positive and multiplies negative scores of tokens already there",
    default = 1.0, above = 0 },
  { "no_repeat_ngram_size", "integer", "no sequence of so many tokens occurs twice; 0: any may", default = 0, least = 0,
    most = MOST_TOKENS },
  { "do_sample", "boolean", "draw tokens instead of taking the most probable", default = false },
  { "temperature", "number", "scores are divided by this before drawing", default = 1.0, above = 0, sampling = true },
  { "top_k", "integer", "draw from the so many most probable tokens; 0: from all", default = 50, least = 0,
    most = 2 ^ 31 - 1, sampling = true },
  { "top_p", "number", "draw from the fewest most probable tokens whose probabilities reach this", default = 1.0,
    least = 0, most = 1, sampling = true },
  { "min_p", "number", "draw from tokens at least this times as probable as the most probable", least = 0, most = 1,
    sampling = true },
  { "seed", "seeds", "of the random numbers, or a list with one a source", shown = "another one every time",
    sampling = true },
  { "prefix", "text", "put before sources that are text" },
  { "rows", "integer", "rows a source", default = 1, least = 1, most = 255, only = "open" },
  { "batch", "integer", "sources that are worked on together", default = 1, least = 1, most = 65536, only = "each" },
}

-- What transformers knows and we refuse, with the value that asks for nothing.
local REFUSED = {
  sequence_bias = {}, encoder_repetition_penalty = 1.0, encoder_no_repeat_ngram_size = 0, bad_words_ids = {},
  forced_bos_token_id = {}, forced_eos_token_id = {}, exponential_decay_length_penalty = {}, suppress_tokens = {},
  begin_suppress_tokens = {}, renormalize_logits = false, typical_p = 1.0, top_h = {}, epsilon_cutoff = 0.0,
  eta_cutoff = 0.0, guidance_scale = 1.0, penalty_alpha = 0.0, num_beam_groups = 1, diversity_penalty = 0.0,
  constraints = {}, force_words_ids = {}, max_time = {}, stop_strings = {},
}

---@type table<string, reprise.OptionEntry>
m.by_name = {}
for _, entry in ipairs(m.list) do m.by_name[entry[1]] = entry end

-- ---- the nearest name

-- How many letters must be put in, left out or changed to make `b` of `a` (Levenshtein).
local function distance(a, b)
  local row = {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local corner = row[0]
    row[0] = i
    for j = 1, #b do
      local above = row[j]
      local change = a:byte(i) == b:byte(j) and 0 or 1
      row[j] = math.min(above + 1, row[j - 1] + 1, corner + change)
      corner = above
    end
  end
  return row[#b]
end

--- The name that is most like `name`, of those that a function takes.
---@param name string
---@param names string[]
---@return string
function m.nearest(name, names)
  local best, least = names[1], math.huge
  for _, known in ipairs(names) do
    local d = distance(name, known)
    if d < least then best, least = known, d end
  end
  return best
end

-- ---- values

local function whole(value) return type(value) == "number" and math.tointeger(value) or nil end

-- "a whole number from 1 to 16"
local function range_of(entry)
  local text = entry[2] == "integer" and "a whole number" or "a number"
  if entry.id then return "an id of the vocabulary" end
  if entry.above then return text .. " above " .. entry.above end
  if entry.least then text = text .. " from " .. entry.least end
  if entry.most and entry.most < 2 ^ 31 - 1 then text = text .. " to " .. math.tointeger(entry.most) end
  return text
end

local function in_range(entry, value, vocab)
  if value ~= value or math.abs(value) == math.huge then return false end
  if entry.id then return value >= 0 and value < vocab end
  if entry.above and value <= entry.above then return false end
  return value >= (entry.least or value) and value <= (entry.most or value)
end

local function ids_of(value, vocab)
  local list = {}
  for i, id in ipairs(type(value) == "table" and value or { value }) do
    id = whole(id)
    if not id or id < 0 or id >= vocab then return nil end
    list[i] = id
  end
  return list
end

local function is_tensor(value) return type(value) == "userdata" and value.dtype == "i32" end

-- A list of ids, or a list of such lists; tensors become lists.
local function prompt_of(value, vocab)
  if is_tensor(value) then value = value:totable() end
  if type(value) ~= "table" or #value == 0 then return nil end
  if type(value[1]) == "number" then return ids_of(value, vocab) end
  local lists = {}
  for i, one in ipairs(value) do
    if is_tensor(one) then one = one:totable() end
    lists[i] = type(one) == "table" and #one > 0 and ids_of(one, vocab) or nil
    if not lists[i] or #lists[i] ~= #lists[1] then return nil end
  end
  return lists
end

local function seeds_of(value)
  if type(value) ~= "table" then return whole(value) end
  local list = {}
  for i, seed in ipairs(value) do
    list[i] = whole(seed)
    if not list[i] then return nil end
  end
  return #list > 0 and list or nil
end

-- How each type reads a value: what it makes of it, or nil; and what it expects, in words.
local READ = {
  integer = function(value, entry, vocab)
    value = whole(value)
    return value and in_range(entry, value, vocab) and value or nil
  end,
  number = function(value, entry)
    if type(value) ~= "number" or not in_range(entry, value) then return nil end
    local stored = ("f"):unpack(("f"):pack(value)) -- as the device has it
    return in_range(entry, stored) and value + 0.0 or nil
  end,
  boolean = function(value)
    if type(value) == "boolean" then return value end
  end,
  stopping = function(value)
    if type(value) == "boolean" or value == "never" then return value end
  end,
  ids = function(value, _, vocab) return ids_of(value, vocab) end,
  prompt = function(value, _, vocab) return prompt_of(value, vocab) end,
  seeds = seeds_of,
  text = function(value) return type(value) == "string" and value or nil end,
}

local function up_to(vocab) return vocab < math.huge and (" (0 to %d)"):format(vocab - 1) or "" end

local EXPECTED = {
  integer = range_of,
  number = function(entry, _, value)
    local fits = type(value) ~= "number" or not in_range(entry, value)
    return range_of(entry) .. (fits and "" or " in f32")
  end,
  boolean = function() return "true or false" end,
  stopping = function() return 'true, false or "never"' end,
  ids = function(_, vocab) return "an id of the vocabulary" .. up_to(vocab) .. " or a list of ids" end,
  prompt = function(_, vocab)
    return "a list of ids of the vocabulary" .. up_to(vocab) .. ", or lists of one length, one a source,"
  end,
  seeds = function() return "a whole number or a list of them, one a source," end,
  text = function() return "a string" end,
}

local SHOWN = 6 -- elements of a list

local function shown(value)
  if type(value) ~= "table" then return type(value) == "string" and ("%q"):format(value) or tostring(value) end
  local parts = {}
  for i = 1, math.min(#value, SHOWN) do parts[i] = shown(value[i]) end
  if #value > SHOWN then parts[SHOWN + 1] = "..." end
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- What an option makes of a value, or nil and what it expects instead.
---@param entry reprise.OptionEntry
---@param value any
---@param vocab number
---@return any
---@return string? expected
function m.take(entry, value, vocab)
  local read = READ[entry[2]](value, entry, vocab)
  if read == nil then return nil, EXPECTED[entry[2]](entry, vocab, value) end
  return read
end

--- The same; a wrong value raises.
---@param what string who asks
---@param entry reprise.OptionEntry
---@param value any
---@param vocab integer
---@param from string? the file it stands in
---@return any
function m.read(what, entry, value, vocab, from)
  local read, expected = m.take(entry, value, vocab)
  if expected then
    raise("%s: %s is %s%s, %s is expected", what, entry[1], shown(value), from and " in " .. from or "", expected)
  end
  return read
end

-- ---- names

local function takes(what, entry)
  if what == "open" then return entry.only == "open" or entry[1] == "max_new_tokens" end
  return not entry.only or entry.only == what
end

-- The names that `what` takes.
local function names_for(what)
  local names = {}
  for _, entry in ipairs(m.list) do
    if takes(what, entry) then names[#names + 1] = entry[1] end
  end
  return names
end

local function check_name(what, name, value)
  local entry = m.by_name[name]
  if entry and takes(what, entry) then return end
  if REFUSED[name] ~= nil then
    if value then raise("%s: %s is not supported", what, name) end
    return
  end
  local names = names_for(what)
  if entry then raise("%s: option %s is not taken here: taken are %s", what, name, table.concat(names, ", ")) end
  name = tostring(name)
  raise("%s: option %s is not known: did you mean %s?", what, name, m.nearest(name, names))
end

local function check_names(what, call)
  if type(call) ~= "table" then raise("%s: options: table expected, got %s", what, type(call)) end
  for name, value in pairs(call) do check_name(what, name, value) end
end

-- A file may name what we refuse as long as it asks for nothing.
local function check_file(what, file, call)
  for name in pairs(file.refused) do
    if call[name] == nil then
      raise("%s: %s, which is not supported, is set in %s: %s = false in the call leaves it out", what, name, file.path,
        name)
    end
  end
end

-- ---- files

--- What a file says: known options as they stand there, and those that we refuse.
---@param path string
---@param config table<string, any>
---@param given fun(value: any): any? nil for JSON's null
---@return { path: string, values: table<string, any>, refused: table<string, any> }
function m.of_file(path, config, given)
  local out = { path = path, values = {}, refused = {} }
  for _, entry in ipairs(m.list) do
    if not entry.only then out.values[entry[1]] = given(config[entry[1]]) end
  end
  for name, nothing in pairs(REFUSED) do
    local value = given(config[name])
    if type(value) == "table" and next(value) == nil then value = nil end
    if value ~= nil and value ~= nothing then out.refused[name] = value end
  end
  return out
end

-- ---- all together

-- Is this value of a call one that unsets?
local function unsets(entry, value) return value == false and entry[2] ~= "boolean" and entry[2] ~= "stopping" end

local function value_of(what, entry, call, file, vocab)
  local given, from = call[entry[1]], nil
  if unsets(entry, given) then return entry.default end
  if given == nil then given, from = file.values[entry[1]], file.path end
  if given == nil then return entry.default end
  return m.read(what, entry, given, vocab, from)
end

-- A length that the call gives wins over the other way of saying it in a file.
local PARTNER = { max_new_tokens = "max_length", min_new_tokens = "min_length" }

local function drop_partners(o, call)
  for wins, partner in pairs(PARTNER) do
    if call[partner] and call[wins] == nil then o[wins] = nil end
  end
end

local function check_drawing(what, o, call)
  if o.do_sample then
    if o.num_beams > 1 then
      raise("%s: do_sample with num_beams = %d is not supported: draw with num_beams = 1, or search without do_sample",
        what, o.num_beams)
    end
    return
  end
  for _, entry in ipairs(m.list) do
    if entry.sampling and call[entry[1]] then
      raise("%s: %s says how to draw, and nothing is drawn without do_sample = true", what, entry[1])
    end
  end
end

local function check_sequences(what, o)
  if o.do_sample or o.num_return_sequences <= o.num_beams then return end
  if o.num_beams == 1 then
    raise("%s: num_return_sequences is %d: a greedy decoding has one result; use num_beams or do_sample", what,
      o.num_return_sequences)
  end
  raise("%s: num_return_sequences is %d, more than num_beams, %d", what, o.num_return_sequences, o.num_beams)
end

--- The options of a call with all that the model's files and the defaults add; wrong ones raise.
---@param model reprise.T5
---@param what string generate, each, stream or open
---@param call table?
---@return table<string, any>
function m.resolve(model, what, call)
  if type(model) ~= "table" or not model.config then
    raise("%s: a model is expected first, as in model:%s(...)", what, what)
  end
  call = call == nil and {} or call
  check_names(what, call)
  local file, o = model.config.generation, {}
  if what ~= "open" then check_file(what, file, call) end
  for _, entry in ipairs(m.list) do
    if takes(what, entry) or entry[1] == "max_length" then
      o[entry[1]] = value_of(what, entry, call, file, model.config.vocab)
    end
  end
  drop_partners(o, call)
  if what == "open" then return o end
  check_drawing(what, o, call)
  check_sequences(what, o)
  return o
end

return m
