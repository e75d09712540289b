-- tokenizer.lua - text to token ids and back, for folders whose tokenizer is ByT5's: id = byte + 3.
--
--   0 pad · 1 end · 2 unknown · 3 to 258 the bytes · 259 and up sentinels, which stand for no text
--
-- For any other tokenizer `encode` raises and `decode` gives nil: ids go in and come out as they are.
-- ByT5: Xue et al., https://arxiv.org/abs/2105.13626

local raise = require "reprise.raise"

local m = {}

local FIRST, BYTES, END = 3, 256, 1

---@class reprise.Tokenizer
---@field class string? the class the folder names, or what stands in for one
---@field bytes boolean is it ByT5's?
local Tokenizer = {}
Tokenizer.__index = Tokenizer

--- The tokenizer that a folder's files name.
---@param classes (string?)[] tokenizer_class of tokenizer_config.json and config.json, where given
---@return reprise.Tokenizer
function m.new(classes)
  local self = setmetatable({ bytes = false }, Tokenizer)
  for i = 1, 2 do
    self.bytes = self.bytes or classes[i] == "ByT5Tokenizer"
    self.class = self.class or classes[i]
  end
  return self
end

--- Ids of a text, with the end token.
---@param text string
---@return integer[]? ids
---@return string? message why there are none
function Tokenizer:encode(text)
  if type(text) ~= "string" then raise("encode: a text is expected, got %s", type(text)) end
  if not self.bytes then
    return nil, ("this folder's tokenizer (%s) is not supported: pass ids"):format(self.class or "none is named")
  end
  local ids = {}
  for i = 1, #text do ids[i] = text:byte(i) + FIRST end
  ids[#text + 1] = END
  return ids
end

-- Without bytes that are no part of UTF-8.
local function valid(text)
  local length, bad = utf8.len(text)
  while not length do
    text = text:sub(1, bad - 1) .. text:sub(bad + 1)
    length, bad = utf8.len(text, bad)
  end
  return text
end

local function byte_of(id) return id >= FIRST and id < FIRST + BYTES and string.char(id - FIRST) or "" end

--- The text of ids; special tokens and broken UTF-8 are left out. nil for a tokenizer that is not supported.
---@param ids integer[]|reprise.Tensor
---@return string?
function Tokenizer:decode(ids)
  if type(ids) == "userdata" then ids = ids:totable() end
  if type(ids) ~= "table" then raise("decode: a list of ids is expected, got %s", type(ids)) end
  if not self.bytes then return nil end
  local bytes = {}
  for i, id in ipairs(ids) do
    if math.type(id) ~= "integer" then raise("decode: id %d: a whole number is expected, got %s", i, tostring(id)) end
    bytes[i] = byte_of(id)
  end
  return valid(table.concat(bytes))
end

-- How many bytes at the end may be the beginning of a character.
local function unfinished(bytes)
  for count = 1, math.min(3, #bytes) do
    local byte = bytes:byte(-count)
    local length = byte >= 0xf0 and byte <= 0xf4 and 4 or byte >= 0xe0 and 3 or byte >= 0xc2 and 2 or 1
    if byte > 0xf4 or byte < 0x80 then return 0 end
    if byte >= 0xc0 then return length > count and count or 0 end
  end
  return 0
end

--- A function that takes ids one by one and gives what text has become complete; all its texts together are decode's.
---@return fun(id: integer): string? nil for a tokenizer that is not supported
function Tokenizer:reader()
  local held = ""
  return function(id)
    if not self.bytes then return nil end
    held = held .. byte_of(id)
    local rest = unfinished(held)
    local text = valid(held:sub(1, #held - rest))
    held = held:sub(#held - rest + 1)
    return text
  end
end

return m
