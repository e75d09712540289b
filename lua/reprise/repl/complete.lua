-- repl/complete.lua - what Tab offers: names, fields, methods, modules for require, file names inside strings.
--
-- The text before the cursor is looked at from behind: in a string it is a file name or a module, else a name with what
-- stands before it ("x:cl" asks for methods of x that begin with "cl").

local names = require "reprise.repl.names"

local m = {}

local SHOWN = 200 -- candidates below the line

local KEYWORDS = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true "
  .. "until while"):gmatch "%a+" do KEYWORDS[word] = true end

-- ---- where the cursor is

-- Where the string begins that is still open at the end of a line, nil: there is none; false: that is a comment.
local function open_string(text)
  local i = 1
  while i <= #text do
    local c = text:sub(i, i)
    if text:find("^%-%-", i) then return false end
    if c == '"' or c == "'" then
      local from = i + 1
      i = from
      while i <= #text and text:sub(i, i) ~= c do i = i + (text:sub(i, i) == "\\" and 2 or 1) end
      if i > #text then return from end
    end
    i = i + 1
  end
end

-- "x:cl" -> "x", ":", "cl"; "cl" -> nil, nil, "cl"; behind a call or a bracket that is no index: nothing.
local function split_name(text)
  local before, prefix = text:match "^(.-)([%a_]?[%w_]*)$"
  local separator = before:match "[.:]$"
  if not separator or before:find "%.%.$" then return nil, nil, prefix end
  local object = before:sub(1, -2)
  local start = #object
  while start > 0 do
    local at = object:sub(1, start):match "()%b[]$" or object:sub(1, start):match "()[%a_][%w_]*$"
    if not at then break end
    start = at - 1
    local more = object:sub(start, start):find "[.:]" and object:sub(at, at) ~= "["
    if more then start = start - 1 elseif object:sub(at, at) ~= "[" then break end
  end
  return object:sub(start + 1), separator, prefix
end

-- ---- candidates

-- Those of a set that begin with the prefix, sorted; names with an underscore in front only when it was typed.
local function beginning(set, prefix)
  local list = {}
  for name in pairs(set) do
    if name:sub(1, #prefix) == prefix and (prefix ~= "" or name:sub(1, 1) ~= "_") then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

local function of_globals(prefix)
  local set = names.inside(_G)
  for word in pairs(KEYWORDS) do set[word] = true end
  return beginning(set, prefix)
end

local function of_value(object, separator, prefix)
  local value = names.resolve(object)
  if value == nil then return {} end
  local list = beginning(names.inside(value), prefix)
  if separator == "." then return list end
  local methods = {}
  for _, name in ipairs(list) do
    if names.callable(names.get(value, name)) then methods[#methods + 1] = name end
  end
  return methods
end

local function of_commands(prefix)
  local set = {}
  for _, command in ipairs(require "reprise.repl.commands".list) do set[command[1]] = true end
  return beginning(set, prefix)
end

-- ---- files and modules

local function of_files(path, list)
  local folder, prefix = path:match "^(.-)([^/]*)$"
  local home, set = os.getenv "HOME", {}
  local there = folder == "" and "." or home and folder:gsub("^~/", home .. "/") or folder
  for _, name in ipairs(list(there) or {}) do
    if name ~= "./" and name ~= "../" and (prefix ~= "" or name:sub(1, 1) ~= ".") then set[name] = true end
  end
  return beginning(set, prefix), prefix
end

-- Adds the modules that one template of a search path ("lua/?.lua", "lua/?/init.lua") leads to.
local function add_modules(template, parent, list, set)
  local before, after = template:match "^(.-)%?(.*)$"
  if not before then return end
  local folder = before .. parent:gsub("%.", "/")
  for _, entry in ipairs(list(folder == "" and "." or folder) or {}) do
    local name = after:sub(1, 1) == "/" and entry:match "^([%w_-]+)/$" or nil
    if name then
      local file = io.open(folder .. name .. after)
      if file then file:close() else name = nil end
    elseif entry:sub(-#after) == after then
      name = entry:sub(1, -#after - 1)
    end
    if name and name:find "^[%w_-]+$" and name ~= "init" then set[parent .. name] = true end
  end
end

local function of_modules(prefix, list)
  local parent, set = prefix:match "^(.*%.)" or "", {}
  for template in (package.path .. ";" .. package.cpath):gmatch "[^;]+" do add_modules(template, parent, list, set) end
  for _, known in ipairs { package.loaded, package.preload } do
    for name in pairs(known) do
      local step = type(name) == "string" and name:sub(1, #parent) == parent and name:match("^[^.]+", #parent + 1)
      if step then set[parent .. step] = true end
    end
  end
  return beginning(set, prefix)
end

-- ---- all together

local function choose(before, list)
  local command, argument = before:match "^%s*:(%a*)()"
  if command and argument > #before then return of_commands(command), command end
  if command == "load" then return of_files(before:match "^%s*:%a+%s*(.*)$", list) end
  local from = open_string(before)
  if from == false then return {}, "" end
  if from then
    local text = before:sub(from)
    if before:sub(1, from - 2):find "require%s*%(?%s*$" then return of_modules(text, list), text end
    return of_files(text, list)
  end
  local object, separator, prefix = split_name(before)
  if object then return of_value(object, separator, prefix), prefix end
  return of_globals(prefix), prefix
end

local function common(list)
  local first, last = list[1], list[#list] -- of a sorted list: what these share, all share
  local length = 0
  while length < #first and first:byte(length + 1) == last:byte(length + 1) do length = length + 1 end
  return first:sub(1, length)
end

--- What may stand at the end of a text.
---@param before string the line up to the cursor
---@param list fun(folder: string): string[]? the entries of a folder
---@return string inserted what all candidates go on with
---@return string[] candidates empty when there is one alone, or something was inserted
function m.candidates(before, list)
  if not before:find "%S" then return "  ", {} end
  local found, prefix = choose(before, list)
  if #found == 0 then return "", {} end
  local inserted = common(found):sub(#prefix + 1)
  return inserted, (inserted == "" and #found > 1) and found or {}
end

--- Words in columns, read downwards.
---@param words string[]
---@param columns integer
---@return string
function m.listed(words, columns)
  local count, width = math.min(#words, SHOWN), 0
  for i = 1, count do width = math.max(width, #words[i] + 2) end
  local across = math.max(1, width > 0 and columns // width or 1)
  local rows, lines = (count + across - 1) // across, {}
  for row = 1, rows do
    local line = {}
    for i = row, count, rows do line[#line + 1] = words[i] .. (" "):rep(width - #words[i]) end
    lines[row] = table.concat(line):gsub("%s+$", "")
  end
  if #words > count then lines[#lines + 1] = ("... %d more"):format(#words - count) end
  return table.concat(lines, "\n")
end

return m
