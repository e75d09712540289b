-- reference.lua - the reference of Lua modules as Markdown, from the comments that repl/docs.lua reads.

local docs = require "reprise.repl.docs"

local own, lines -- classes that have a section of their own; what was written so far

local function put(text, ...) lines[#lines + 1] = select("#", ...) > 0 and text:format(...) or text end

local function put_part(name, type, text)
  put("- `%s` %s%s", name, type ~= "" and "`" .. type .. "`" or "", text ~= "" and ": " .. text or "")
end

-- "reprise.core.tensor" -> "rp.tensor", "reprise.Tensor:view" -> "tensor:view"
local function shown(name)
  local class, method = name:match "^reprise%.(%u%w*)([.:].*)$"
  if class then return class:lower() .. method end
  return (name:gsub("^reprise%.core%.", "rp."):gsub("^reprise%.cli", "cli"):gsub("^reprise%.", "rp."))
end

-- "(value[, dtype[, place]])": what may be left out is in brackets.
local function arguments_of(entry)
  local optional, names, text = {}, {}, ""
  for _, part in ipairs(entry.parts) do
    local type = part.type
    optional[part.name] = type:find "%?$" or type:find "|nil$" or type == "reprise.Place"
  end
  for name in (entry.arguments or "()"):gmatch "[%w_.]+" do names[#names + 1] = name end
  local last = #names
  while last > 0 and optional[names[last]] do last = last - 1 end
  for i, name in ipairs(names) do
    text = text .. (i > last and "[" or "") .. (i > 1 and ", " or "") .. name
  end
  return "(" .. text .. ("]"):rep(#names - last) .. ")"
end

local function put_function(entry)
  put("\n### `%s%s`\n", shown(entry.name), arguments_of(entry))
  put(table.concat(entry.text, " "))
  if #entry.parts + #entry.results > 0 then put "" end
  for _, part in ipairs(entry.parts) do put_part(part.name, part.type, part.text) end
  for _, result in ipairs(entry.results) do put("- returns `%s`%s", result.type,
    result.text ~= "" and ": " .. result.text or "") end
end

local function put_fields(entry)
  if #entry.text > 0 then put("\n%s", table.concat(entry.text, " ")) end
  for _, call in ipairs(entry.calls) do put("\nA call: `%s`", call) end
  if #entry.parts > 0 then put "" end
  for _, part in ipairs(entry.parts) do put_part(part.name, part.type, part.text) end
end

local function put_owned(section, entries)
  for _, entry in ipairs(entries) do
    local owner = entry.name:match "^(.*)[.:][%w_]+$"
    if entry.kind == "class" and entry.name == section.of then put_fields(entry) end
    if entry.kind == "function" and owner == section.of then put_function(entry) end
  end
end

local function put_plain(entries)
  for _, entry in ipairs(entries) do
    if entry.kind == "class" and not own[entry.name] then
      put("\n### `%s`", entry.name)
      put_fields(entry)
    end
  end
end

local function put_section(section, entries)
  put("\n## %s", section[1])
  if section.of then return put_owned(section, entries) end
  if section.plain then return put_plain(entries) end
  if section.kinds then put "" end
  for _, entry in ipairs(entries) do
    if section.kinds and section.kinds[entry.kind] then
      put("- `%s`: %s", entry.name, table.concat(entry.text, " "))
    elseif not section.kinds and entry.kind == "function" then
      put_function(entry)
    end
  end
end

---@class reprise.ReferenceSection
---@field [1] string its title
---@field file string the module in lua/reprise
---@field of string? the class whose fields and functions stand in it
---@field plain boolean? all classes of the file that have no section of their own
---@field kinds table<string, boolean>? entries of these kinds in a line each; without `of` and `plain`: all functions

---@param sections reprise.ReferenceSection[]
---@param folder string where the modules lie
---@return string
return function(sections, folder)
  own, lines = {}, {}
  for _, section in ipairs(sections) do
    if section.of then own[section.of] = true end
  end
  for _, section in ipairs(sections) do
    put_section(section, assert(docs.file(folder .. "/" .. section.file .. ".lua")).entries)
  end
  return table.concat(lines, "\n") .. "\n"
end
