-- repl/names.lua - what a name at the prompt stands for, and the names inside a value, without running anything but
-- the __index of the values on the way.

local docs = require "reprise.repl.docs"

local m = {}

local function get(value, key) return value[key] end

--- The value of "a.b:c" among the globals, with indices like [1] and ["x"] in between.
---@param path string
---@return any value nil: there is none
function m.resolve(path)
  local value, rest = _G, "." .. path:gsub("^%s+", "")
  while rest ~= "" do
    local key, behind = rest:match "^[.:]([%a_][%w_]*)(.*)$"
    if not key then key, behind = rest:match "^%[%s*[\"']([^\"'%]]*)[\"']%s*%](.*)$" end
    if not key then
      local number
      number, behind = rest:match "^%[%s*(%-?%d+)%s*%](.*)$"
      key = math.tointeger(tonumber(number))
    end
    if not key then return nil end
    local ok, found = pcall(get, value, key)
    if not ok or found == nil then return nil end
    value, rest = found, behind
  end
  return value
end

local function add_keys(t, names)
  for key in next, t do
    if type(key) == "string" and key:find "^[%a_][%w_]*$" then names[key] = true end
  end
end

-- Names that a metatable offers: tables behind __index, `methods` of the raw binding, `names` of what loads later.
local function add_inherited(value, names, depth)
  local meta = debug.getmetatable(value)
  if type(meta) ~= "table" or depth == 0 then return end
  for _, field in ipairs { "methods", "names" } do
    local offered = rawget(meta, field)
    if type(offered) == "table" then add_keys(offered, names) end
  end
  local index = rawget(meta, "__index")
  if type(index) == "table" then
    add_keys(index, names)
    add_inherited(index, names, depth - 1)
  end
end

-- Fields of a value of the raw binding: types.lua knows them.
local function add_fields(value, names)
  local meta = debug.getmetatable(value)
  local class = docs.class(type(meta) == "table" and rawget(meta, "__name") or "")
  for _, part in ipairs(class and class.parts or {}) do
    if part.name:find "^[%a_][%w_]*$" then names[part.name] = true end
  end
  local ok, kernels = pcall(get, value, "kernels")
  for _, name in ipairs(ok and type(kernels) == "table" and kernels or {}) do names[name] = true end
end

--- The names that may stand behind a value.
---@param value any
---@return table<string, true>
function m.inside(value)
  local names = {}
  if type(value) == "table" then add_keys(value, names) end
  if type(value) == "userdata" then add_fields(value, names) end
  add_inherited(value, names, 8)
  return names
end

--- Can it be called?
---@param value any
---@return boolean
function m.callable(value)
  if type(value) == "function" then return true end
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__call") ~= nil
end

--- value[name], nil when that raises.
---@param value any
---@param name string
---@return any
function m.get(value, name)
  local ok, found = pcall(get, value, name)
  return ok and found or nil
end

return m
