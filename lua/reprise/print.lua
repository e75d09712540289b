--- print.lua - any Lua value as text for people: what the prompt shows.
--
--   { name = "decode", shape = { 2, 3 }, up = <cycle: root> }
--
-- Tables look like the constructors that make them, in one line where 80 columns hold it, with sorted keys. A table
-- inside itself is named by its path; what lies deeper than `depth`, or behind `items` items, is left out. A value of
-- reprise shown alone has a long form (forms.lua); inside a table it is a few words, and no tensor is read.

local forms = require "reprise.forms"

local m = {}

local COLUMNS, DEPTH, ITEMS, LETTERS = 80, 4, 100, 200

local WORDS = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true "
  .. "until while"):gmatch "%a+" do WORDS[word] = true end

---@class reprise.Showing what is known on the way down
---@field depth integer
---@field items integer
---@field paths table<table, string> the tables around the present value

-- ---- values without parts

local function width(text) return utf8.len(text) or #text end

local function hexed(byte) return ("\\x%02x"):format(byte:byte()) end

-- As a Lua constant; bytes that are no UTF-8 as escapes.
local function quoted(text, most)
  local cut = most and #text > most
  if cut then text = text:sub(1, utf8.offset(text, 0, most) - 1) end
  local out = ("%q"):format(text):gsub("\\\n", "\\n"):gsub("\\9", "\\t"):gsub("\\13", "\\r")
  if not utf8.len(text) then out = out:gsub("[\x80-\xff]", hexed) end
  return cut and out .. "..." or out
end

local function of_function(fn)
  local info, names = debug.getinfo(fn, "Su"), {}
  if info.what == "C" then return "function (built in)" end
  for i = 1, info.nparams do names[i] = debug.getlocal(fn, i) end
  if info.isvararg then names[#names + 1] = "..." end
  return ("function(%s) %s:%d"):format(table.concat(names, ", "), info.short_src, info.linedefined)
end

local function of_thread(thread) return "coroutine, " .. coroutine.status(thread) end

local SIMPLE = {
  string = function(value) return quoted(value, LETTERS) end, ["function"] = of_function, thread = of_thread,
}

-- ---- tables

local put

local function key_text(key)
  if type(key) == "string" then
    return key:find "^[%a_][%w_]*$" and not WORDS[key] and key or "[" .. quoted(key, LETTERS) .. "]"
  end
  return "[" .. (type(key) == "table" and tostring(key) or put(key, "", { depth = 0 }, "")) .. "]"
end

local RANK = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local x, y = RANK[type(a)] or 4, RANK[type(b)] or 4
  if x ~= y then return x < y end
  if x > 2 then return tostring(a) < tostring(b) end
  return a < b
end

-- Keys behind the list part, in an order that does not change from run to run.
local function keys_of(t, count)
  local keys = {}
  for key in next, t do
    if math.type(key) ~= "integer" or key < 1 or key > count then keys[#keys + 1] = key end
  end
  table.sort(keys, before)
  return keys
end

-- The texts of the items, and whether all are plain values of a list.
local function items_of(t, indent, how, path)
  local count, items, plain = rawlen(t), {}, true
  local function add(head, value, name)
    plain = plain and head == "" and type(value) ~= "table"
    items[#items + 1] = head .. put(value, indent .. "  ", how, name)
  end
  for i = 1, math.min(count, how.items) do add("", rawget(t, i), ("%s[%d]"):format(path, i)) end
  local keys = keys_of(t, count)
  for i = 1, math.min(#keys, how.items - #items) do
    local key = key_text(keys[i])
    add(key .. " = ", rawget(t, keys[i]), path .. (key:sub(1, 1) == "[" and key or "." .. key))
  end
  local left = count + #keys - #items
  if left > 0 then items[#items + 1] = ("... %d more"):format(left) end
  return items, plain
end

-- As many plain values a line as 80 columns hold.
local function filled(items, indent)
  local lines, line = {}, ""
  for i, item in ipairs(items) do
    local piece = item .. (i < #items and "," or "")
    local full = line ~= "" and #indent + 3 + width(line) + width(piece) > COLUMNS
    if full then lines[#lines + 1], line = line, "" end
    line = line == "" and piece or line .. " " .. piece
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n" .. indent .. "  ")
end

local function braced(items, plain, indent)
  if #items == 0 then return "{}" end
  local line, total = table.concat(items, ", "), #indent + 4
  if not line:find "\n" and total + width(line) <= COLUMNS then return "{ " .. line .. " }" end
  local body = plain and filled(items, indent) or table.concat(items, ",\n" .. indent .. "  ")
  return "{\n" .. indent .. "  " .. body .. "\n" .. indent .. "}"
end

local function of_table(t, indent, how, path)
  if how.paths[t] then return "<cycle: " .. how.paths[t] .. ">" end
  if how.depth == 0 then return next(t) == nil and "{}" or "{...}" end
  how.paths[t], how.depth = path, how.depth - 1
  local items, plain = items_of(t, indent, how, path)
  how.paths[t], how.depth = nil, how.depth + 1
  return braced(items, plain, indent)
end

function put(value, indent, how, path)
  local known = forms.short(value)
  if known then return (known:gsub("\n", "\n" .. indent)) end
  if type(value) == "table" then return of_table(value, indent, how, path) end
  return (SIMPLE[type(value)] or tostring)(value)
end

-- ---- what users call

local function whole(options, name, otherwise)
  local value = options[name]
  if value == nil then return otherwise end
  if math.type(value) ~= "integer" or value < 0 then
    error(("show: %s: a whole number expected, got %s"):format(name, tostring(value)), 3)
  end
  return value
end

--- A value as text: a string as a Lua constant, a table as a constructor, a tensor with its values, a graph, pool,
--- model, kernel, program, captured function or device in its long form.
---@param value any
---@param options { depth: integer?, items: integer? }? levels of tables (default 4), items a table (default 100)
---@return string
function m.show(value, options)
  if options == nil then options = {} end
  if type(options) ~= "table" then error("show: options: table expected, got " .. type(options), 2) end
  local how = { depth = whole(options, "depth", DEPTH), items = whole(options, "items", ITEMS), paths = {} }
  if type(value) == "string" then return quoted(value) end
  return forms.long(value) or put(value, "", how, "root")
end

--- The same in a few words, as inside a table: tensors are not read.
---@param value any
---@return string
function m.brief(value) return put(value, "", { depth = 1, items = 8, paths = {} }, "root") end

return m
