-- sources.lua - what a user may give as a source, made into lists of ids.
--
--   "text"                 the folder's tokenizer makes ids of it and appends the end token
--   { 7, 9, 1 } or an i32 tensor of rank 1: ids, taken as they are
--   a list of these        a batch

local raise = require "reprise.raise"

local m = {}

local function is_tensor(x) return type(x) == "userdata" and x.dtype ~= nil end

local function check_ids(what, index, ids, vocab)
  if #ids == 0 then raise("%s: source %d is empty", what, index) end
  local out = {}
  for place, value in ipairs(ids) do
    local id = type(value) == "number" and math.tointeger(value)
    if not id then raise("%s: source %d: id %d is a %s, integer expected", what, index, place, type(value)) end
    if id < 0 or id >= vocab then
      raise("%s: source %d: id %d is %d, outside the vocabulary (0 to %d)", what, index, place, id, vocab - 1)
    end
    out[place] = id
  end
  return out
end

local function one(model, what, index, source, prefix)
  if type(source) == "string" then
    if source == "" then raise("%s: source %d is empty", what, index) end
    local ids, why = model.tokenizer:encode(prefix and prefix .. source or source)
    if not ids then raise("%s: source %d: %s", what, index, why) end
    return check_ids(what, index, ids, model.config.vocab)
  elseif is_tensor(source) then
    if source.dtype ~= "i32" or source.rank ~= 1 then
      raise("%s: source %d: an i32 tensor of rank 1 is expected, got %s of rank %d",
        what, index, source.dtype, source.rank)
    end
    return check_ids(what, index, source:totable(), model.config.vocab)
  elseif type(source) == "table" then
    return check_ids(what, index, source, model.config.vocab)
  end
  raise("%s: source %d is a %s: a string, a list of ids or an i32 tensor is expected", what, index, type(source))
end

-- A table that begins with a number is a list of ids; so is an empty one, for its message.
local function is_batch(sources)
  return type(sources) == "table" and #sources > 0 and math.type(sources[1]) == nil
end

--- Reads one source.
---@param model reprise.T5
---@param what string the function's name, for messages
---@param index integer the source's, for messages
---@param source any
---@param prefix string? put before a text
---@return integer[] ids
function m.one(model, what, index, source, prefix) return one(model, what, index, source, prefix) end

--- Is it a list of sources?
m.is_batch = is_batch

--- Reads one source or a list of them.
---@param model reprise.T5
---@param what string the function's name, for messages
---@param sources any
---@param prefix string? put before texts
---@return integer[][] ids of each source
---@return boolean batch was it a list of sources?
function m.read(model, what, sources, prefix)
  if not is_batch(sources) then return { one(model, what, 1, sources, prefix) }, false end
  local out = {}
  for i = 1, #sources do out[i] = one(model, what, i, sources[i], prefix) end
  return out, true
end

--- The bucket of a length: 16, 32, 64, ...
---@param size integer
---@return integer
function m.bucket(size)
  local bucket = 16
  while bucket < size do bucket = bucket * 2 end
  return bucket
end

--- The bucket of a number of sources: 1, 2, 3, 4, 6, 8, 12, 16, 24, ...
---@param count integer
---@return integer
function m.count_bucket(count)
  local power = 1
  while power < count do power = power * 2 end
  return power >= 4 and count <= power // 4 * 3 and power // 4 * 3 or power
end

return m
