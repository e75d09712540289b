-- help.lua - the options of options.lua for readers: flags and help of scripts, LuaCATS lines.

local options = require "reprise.options"

local m = {}

local PLACEHOLDER = { -- of a type; a boolean is a flag without a value
  integer = "N", number = "X", stopping = "WHEN", ids = "ID,...", prompt = "ID,...", seeds = "N",
  text = "TEXT",
}

local function default_of(entry)
  if entry.shown or entry.default == nil then return entry.shown end
  return type(entry.default) == "number" and ("%g"):format(entry.default) or tostring(entry.default)
end

local function described(entry, default)
  return default and ("%s; default: %s"):format(entry[3], default) or entry[3]
end

local STOPPING = { ["true"] = true, ["false"] = false, never = "never" }

-- A word of a command line as a value; nil: it is none.
local function value_of(entry, word)
  local type = entry[2]
  if type == "stopping" then return STOPPING[word] end
  if type == "text" then return word end
  if type ~= "ids" and type ~= "prompt" then return tonumber(word) end
  local list = {}
  for part in word:gmatch "[^,%s]+" do list[#list + 1] = tonumber(part) or part end
  return list
end

-- Reads the word of a flag: its value, or nil and why there is none.
local function reader(entry)
  return function(word)
    local value = value_of(entry, word)
    local _, expected = options.take(entry, value, math.huge)
    if expected then return nil, ("%q: %s is expected"):format(word, expected) end
    return value
  end
end

--- Entries for cli.lua: `num_beams` becomes `--num-beams N`.
---@param names string[]
---@return reprise.Option[]
function m.flags(names)
  local list = {}
  for i, name in ipairs(names) do
    local entry = options.by_name[name]
    local flag = entry[2] == "boolean"
    list[i] = {
      (name:gsub("_", "-")), PLACEHOLDER[entry[2]], described(entry, not flag and default_of(entry)),
      read = not flag and reader(entry) or nil,
    }
  end
  return list
end

local CATS = {
  integer = "integer|false", number = "number|false", boolean = "boolean", stopping = 'boolean|"never"',
  ids = "integer|integer[]|false", prompt = "integer[]|integer[][]|reprise.Tensor|false",
  seeds = "integer|integer[]|false", text = "string|false",
}

--- The LuaCATS lines of types.lua: a class of the options that generate takes.
---@return string
function m.cats()
  local lines = { "---@class reprise.GenerateOptions `false` unsets an option" }
  for _, entry in ipairs(options.list) do
    if not entry.only then
      local text = described(entry, default_of(entry))
      lines[#lines + 1] = ("---@field %s %s|nil %s"):format(entry[1], CATS[entry[2]], text)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return m
