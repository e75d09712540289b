-- repl/manual.lua - `? name`: the signature and text of a function, a method, a type, an option, a kernel, a module.
--
-- A name that has a value is explained by the value: a function of Lua by the comment above it in its file, one of the
-- raw binding by types.lua. Else it is looked up in what the library's files say.

local core = require "reprise.core"
local docs = require "reprise.repl.docs"
local names = require "reprise.repl.names"
local nearest = require "reprise.options".nearest
local print = require "reprise.print"

local m = {}

local MOST = 4 -- entries that are shown whole

-- ---- an entry as text

-- "reprise.core.tensor" -> "rp.tensor", "reprise.Tensor:view" -> "Tensor:view", "reprise.ops.linear" -> "rp.ops.linear"
local function shown_name(name)
  return (name:gsub("^[.:]", ""):gsub("^reprise%.core%.", "rp."):gsub("^reprise%.(%u)", "%1"):gsub("^reprise%.", "rp."))
end

local function rows(parts)
  local width, lines = 0, {}
  for _, part in ipairs(parts) do width = math.max(width, #part.name) end
  for i, part in ipairs(parts) do
    local text = part.text ~= "" and "  " .. part.text or ""
    lines[i] = ("  %-" .. width .. "s  %s%s"):format(part.name, part.type, text)
  end
  return lines
end

local function signature(entry)
  local types = {}
  for i, result in ipairs(entry.results) do types[i] = result.type end
  local results = #types > 0 and " -> " .. table.concat(types, ", ") or ""
  return shown_name(entry.name) .. (entry.arguments or "()") .. results
end

local function render_function(entry)
  local lines = { signature(entry) }
  for _, text in ipairs(entry.text) do lines[#lines + 1] = text end
  local parts = table.move(entry.parts, 1, #entry.parts, 1, {})
  for _, result in ipairs(entry.results) do
    if result.text ~= "" then parts[#parts + 1] = { name = "returns", type = result.type, text = result.text } end
  end
  table.move(rows(parts), 1, #parts, #lines + 1, lines)
  return table.concat(lines, "\n")
end

-- The methods of a class, by their first lines.
local function methods_of(class)
  local list = {}
  for _, entry in ipairs(docs.types().entries) do
    local method = entry.kind == "function" and entry.name:match "^(.*)[.:]" == class
    if method then list[#list + 1] = "  " .. signature(entry) end
  end
  return list
end

local function render_class(entry)
  local lines = { entry.name .. (#entry.text > 0 and ": " .. table.concat(entry.text, " ") or "") }
  for _, line in ipairs(rows(entry.parts)) do lines[#lines + 1] = line end
  for _, line in ipairs(methods_of(entry.name)) do lines[#lines + 1] = line end
  return table.concat(lines, "\n")
end

local function render(entry)
  if entry.kind == "function" then return render_function(entry) end
  if entry.kind == "class" then return render_class(entry) end
  return entry.name .. ": " .. table.concat(entry.text, " ")
end

-- ---- values

-- The name that types.lua gives to a function of the raw binding.
local function name_in_core(fn)
  for name, value in pairs(core) do
    if rawequal(value, fn) then return "reprise.core." .. name end
  end
  for class, meta in pairs(debug.getregistry()) do
    local methods = type(class) == "string" and type(meta) == "table" and rawget(meta, "methods")
    for name, value in pairs(type(methods) == "table" and methods or {}) do
      if rawequal(value, fn) then return class .. ":" .. name end
    end
  end
end

local function entry_in_types(name)
  for _, entry in ipairs(docs.types().entries) do
    if entry.name == name then return entry end
  end
end

local LIBRARIES = { "_G", "string", "table", "math", "io", "os", "coroutine", "utf8", "debug", "package" }

-- A function of Lua itself: where its manual tells about it.
local function of_lua(fn)
  for _, library in ipairs(LIBRARIES) do
    for name, value in pairs(package.loaded[library]) do
      if rawequal(value, fn) then
        name = (library == "_G" and "" or library .. ".") .. name
        return ("%s: of Lua itself: https://www.lua.org/manual/5.4/manual.html#pdf-%s"):format(name, name)
      end
    end
  end
end

local function parameters(fn, info)
  local list = {}
  for i = 1, info.nparams do list[i] = debug.getlocal(fn, i) end
  if info.isvararg then list[#list + 1] = "..." end
  return "(" .. table.concat(list, ", ") .. ")"
end

local function about_function(fn, name)
  local info = debug.getinfo(fn, "Su")
  if info.what == "C" then
    local entry = entry_in_types(name_in_core(fn) or "")
    return entry and render(entry) or of_lua(fn) or name .. ": a function written in C"
  end
  local file = info.source:sub(1, 1) == "@" and docs.file(info.source:sub(2))
  local entry = file and file.by_line[info.linedefined]
  local place = ("%s:%d"):format(info.short_src, info.linedefined)
  if not entry then return ("%s%s\n%s"):format(name, parameters(fn, info), place) end
  return render(entry) .. "\n" .. place
end

-- The functions inside a table, by their signatures.
local function functions_of(value)
  local list = {}
  for name in pairs(names.inside(value)) do
    local fn = names.get(value, name)
    if type(fn) == "function" then list[#list + 1] = (about_function(fn, name):match "^[^\n]*") end
  end
  table.sort(list)
  return list
end

local function about_module(path, value)
  local lines = table.move(docs.file(path).header, 1, #docs.file(path).header, 1, {})
  for _, line in ipairs(functions_of(value)) do lines[#lines + 1] = "  " .. line end
  return table.concat(lines, "\n")
end

local function module_path(value)
  for name, loaded in pairs(package.loaded) do
    if rawequal(loaded, value) then return (package.searchpath(name, package.path)) end
  end
end

local function about_table(value)
  local path = module_path(value)
  if path then return about_module(path, value) end
  local functions, meta = functions_of(value), debug.getmetatable(value)
  local speaks = #functions == 0 or type(meta) == "table" and rawget(meta, "__tostring")
  local lines = { speaks and print.brief(value) or "a table with functions" }
  for _, line in ipairs(functions) do lines[#lines + 1] = "  " .. line end
  return table.concat(lines, "\n")
end

local function about_value(value, name)
  if type(value) == "function" then return about_function(value, name) end
  if type(value) == "table" then return about_table(value) end
  local meta = debug.getmetatable(value)
  local class = type(value) == "userdata" and meta and docs.class(rawget(meta, "__name") or "")
  if not class then return print.brief(value) end
  return print.brief(value) .. "\n" .. render(class)
end

-- ---- names

-- Entries that a name means: of this very name, else those that end so ("view", "Tensor.view", "num_beams").
local function entries_for(name, all)
  local exact, endings = {}, {}
  local wanted = name:gsub(":", "."):gsub("^rp%.", "reprise.")
  for _, entry in ipairs(all) do
    local known = entry.name:gsub(":", ".")
    if known == wanted then exact[#exact + 1] = entry end
    if known:sub(-#wanted - 1) == "." .. wanted then endings[#endings + 1] = entry end
  end
  return #exact > 0 and exact or endings
end

-- "reprise.GenerateOptions.num_beams: integer..." for every class that has such a field.
local function fields_named(name, all)
  local lines = {}
  for _, entry in ipairs(all) do
    for _, part in ipairs(entry.kind == "class" and entry.parts or {}) do
      local text = part.text ~= "" and "  " .. part.text or ""
      if part.name == name then lines[#lines + 1] = ("%s.%s: %s%s"):format(entry.name, name, part.type, text) end
    end
  end
  return lines
end

local function last_name(entry) return entry.name:match "[%w_]+$" or entry.name end

local function about_name(name, list)
  local all = docs.library(list)
  local found, texts = entries_for(name, all), {}
  for i, entry in ipairs(found) do texts[i] = #found <= MOST and render(entry) or "  " .. signature(entry) end
  if #found > 0 then return table.concat(texts, #found <= MOST and "\n\n" or "\n") end
  local fields = fields_named(name, all)
  if #fields > 0 then return table.concat(fields, "\n") end
  local known = {}
  for i, entry in ipairs(all) do known[i] = last_name(entry) end
  local like = nearest(name:match "[%w_]+$" or name, known)
  error(("? %s: nothing is known of it: did you mean %s?"):format(name, like), 0)
end

--- What is known of a name.
---@param name string "rp.tensor", "x:view", "Tensor", "num_beams"
---@param list fun(folder: string): string[]? the entries of a folder
---@return string
function m.about(name, list)
  local value = names.resolve(name)
  if value ~= nil then return about_value(value, name) end
  return about_name(name, list)
end

return m
