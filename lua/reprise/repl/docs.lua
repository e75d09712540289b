-- repl/docs.lua - what the comments of a Lua file say: functions with their parameters, classes with their fields.
--
--   --- The same elements in another shape.        text
--   ---@param shape reprise.Shape of the new one   name, type, text
--   ---@return reprise.Tensor                      type, text
--   function Tensor:view(shape) end                an entry "reprise.Tensor:view" at this line
--
-- Comments of two dashes directly above a function count as text, too. A file is read when it is first asked for.

local m = {}

---@class reprise.Doc
---@field name string "reprise.Tensor:view", "reprise.core.tensor", "reprise.Tensor"
---@field kind "function"|"class"|"alias"
---@field arguments string? of a function, as its line has them
---@field text string[] lines
---@field parts { name: string, type: string, text: string }[] parameters, or fields of a class
---@field results { type: string, text: string }[]
---@field calls string[]? of a class: how its values are called

---@class reprise.DocFile
---@field header string[] the comment that the file begins with
---@field entries reprise.Doc[] in order
---@field by_line table<integer, reprise.Doc> functions, by the line they begin at

-- ---- pieces of lines

-- A type at the beginning of a text, and what follows it: it ends at a space that is in no bracket and joins nothing.
local function split_type(text)
  local depth, i = 0, 1
  while i <= #text do
    local c = text:sub(i, i)
    if c:find "[%(%[{<]" then depth = depth + 1 elseif c:find "[%)%]}>]" then depth = depth - 1 end
    local joins = text:sub(i - 1, i - 1):find "[:,|]" or text:find("^%s*|", i)
    if c == " " and depth == 0 and not joins then break end
    i = i + 1
  end
  return text:sub(1, i - 1), (text:sub(i):gsub("^%s+", ""))
end

local function typed(text)
  local kind, rest = split_type(text)
  return { type = kind, text = rest }
end

local function named(text)
  local name, rest = text:match "^(%S+)%s+(.*)$"
  if not name then return { name = text, type = "", text = "" } end
  local part = typed(rest)
  part.name = name
  return part
end

-- ---- a block of comments

local function fresh() return { text = {}, parts = {}, results = {}, fields = {}, aliases = {}, calls = {} } end

local HIDDEN = { package = true, private = true, protected = true } -- fields that are no one else's business

local ANNOTATIONS = {
  param = function(block, rest) table.insert(block.parts, named(rest)) end,
  ["return"] = function(block, rest) table.insert(block.results, typed(rest)) end,
  field = function(block, rest)
    if not HIDDEN[rest:match "^%a+"] then table.insert(block.fields, named(rest)) end
  end,
  overload = function(block, rest) table.insert(block.calls, rest) end,
  class = function(block, rest)
    local name, text = rest:match "^([%w_.]+)%s*:?%s*(.*)$"
    block.class = name
    if text ~= "" then table.insert(block.text, text) end
  end,
  alias = function(block, rest)
    local part = named(rest)
    table.insert(block.aliases, { name = part.name, kind = "alias", parts = {}, results = {},
      text = { part.type .. (part.text ~= "" and ": " .. part.text or "") } })
  end,
}

local function add_comment(block, line)
  local what, rest = line:match "^%-%-%-@(%w+)%s*(.*)$"
  if what then
    if ANNOTATIONS[what] then ANNOTATIONS[what](block, rest) end
  else
    table.insert(block.text, (line:gsub("^%-+%s?", "")))
  end
end

-- ---- a file

local PATTERNS = { -- of lines that begin a function: owner with its separator, name, arguments
  "^%s*function%s+([%w_.]*[.:])([%w_]+)%s*(%b())", "^%s*local%s+function%s+()([%w_]+)%s*(%b())",
  "^%s*function%s+()([%w_]+)%s*(%b())", "^%s*([%w_.]*[.:])([%w_]+)%s*=%s*function%s*(%b())",
  "^%s*local%s+()([%w_]+)%s*=%s*function%s*(%b())",
}

local function function_of(line)
  for _, pattern in ipairs(PATTERNS) do
    local owner, name, arguments = line:match(pattern)
    if name then return type(owner) == "string" and owner or "", name, arguments end
  end
end

---@class reprise.DocReading a file as it is read
---@field file reprise.DocFile
---@field owners table<string, string> full names of the tables that functions are put into
---@field class string? the class described last

local function add(reading, entry)
  table.insert(reading.file.entries, entry)
  return entry
end

-- What a block that no function follows describes.
local function close_block(reading, block)
  if block.class then
    reading.class = block.class
    add(reading, { name = block.class, kind = "class", text = block.text, parts = block.fields, results = {},
      calls = block.calls })
  end
  for _, alias in ipairs(block.aliases) do add(reading, alias) end
end

local function add_function(reading, number, block, owner, name, arguments)
  local table_name = owner:sub(1, -2)
  local full = (reading.owners[table_name] or table_name) .. owner:sub(-1) .. name
  local entry = { name = full, kind = "function", arguments = arguments, text = block.text, parts = block.parts,
    results = block.results }
  reading.file.by_line[number] = entry
  if #block.text > 0 or #block.parts > 0 then add(reading, entry) end
end

local function read_line(reading, number, line, block)
  local owner, name, arguments = function_of(line)
  close_block(reading, block)
  if name then
    add_function(reading, number, block, owner, name, arguments)
  else
    local variable = line:match "^local%s+([%w_]+)%s*="
    if variable and block.class then reading.owners[variable] = block.class end
  end
end

local function parse(lines, module)
  local reading = { file = { header = {}, entries = {}, by_line = {} }, owners = { m = module } }
  local block, head, number = fresh(), true, 0
  for line in lines do
    number = number + 1
    if line:find "^%s*%-%-" then
      add_comment(block, (line:gsub("^%s+", "")))
    else
      if head and not function_of(line) then reading.file.header, block.text = block.text, {} end
      head = false
      read_line(reading, number, line, block)
      block = fresh()
    end
  end
  close_block(reading, block)
  return reading.file
end

-- "reprise.ops" of ".../lua/reprise/ops.lua"
local function module_of(path)
  local name = path:match "lua/(reprise/[%w_/]+)%.lua$"
  return name and (name:gsub("/init$", ""):gsub("/", ".")) or ""
end

local files = {}

--- What a file says; nil: it cannot be read.
---@param path string
---@return reprise.DocFile?
function m.file(path)
  if not files[path] then
    local file = io.open(path)
    if not file then return nil end
    files[path] = parse(file:lines(), module_of(path))
    file:close()
  end
  return files[path]
end

--- The folder of the library, with a slash.
---@return string
function m.folder() return (package.searchpath("reprise", package.path):match "^(.*/)") end

--- What types.lua says of the classes of the raw binding.
---@return reprise.DocFile
function m.types() return assert(m.file(m.folder() .. "types.lua")) end

--- A class of types.lua.
---@param name string
---@return reprise.Doc?
function m.class(name)
  for _, entry in ipairs(m.types().entries) do
    if entry.kind == "class" and entry.name == name then return entry end
  end
end

--- Everything that the files of the library say.
---@param list fun(folder: string): string[]? the entries of a folder
---@return reprise.Doc[]
function m.library(list)
  local all, folder = {}, m.folder()
  for _, name in ipairs(list(folder) or {}) do
    if name:find "%.lua$" then
      local entries = assert(m.file(folder .. name)).entries
      table.move(entries, 1, #entries, #all + 1, all)
    end
  end
  return all
end

return m
