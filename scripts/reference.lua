-- usage: reprise scripts/reference.lua [file]
-- Writes the reference, lua/README.md, from the comments in lua/reprise: to be run in the source tree after a change
-- there. What stands above the mark in that file is kept.
local docs = require "reprise.repl.docs"

local MARK = "<!-- From here on: made by scripts/reference.lua from the comments in lua/reprise. -->\n"

-- What stands in the reference: titles, and of which file which entries. `of`: a class with its methods.
local SECTIONS = {
  { "rp", file = "init" },
  { "rp, from the core", file = "types", of = "reprise.core" },
  { "Types of arguments", file = "types", kinds = { alias = true } },
  { "What functions take and give", file = "types", plain = true },
  { "Device", file = "types", of = "reprise.Device" },
  { "Pool", file = "types", of = "reprise.Pool" },
  { "Tensor", file = "types", of = "reprise.Tensor" },
  { "Program", file = "types", of = "reprise.Program" },
  { "Kernel", file = "types", of = "reprise.Kernel" },
  { "Param", file = "types", of = "reprise.Param" },
  { "Step: a captured function", file = "types", of = "reprise.Step" },
  { "Graph", file = "types", of = "reprise.Graph" },
  { "Signal", file = "types", of = "reprise.Signal" },
  { "Scope", file = "types", of = "reprise.Scope" },
  { "Safetensors", file = "types", of = "reprise.Safetensors" },
  { "Recording", file = "recording", of = "reprise.Recording" },
  { "rp.t5", file = "t5", of = "reprise.t5" },
  { "T5: a model", file = "t5", of = "reprise.T5" },
  { "Options of a generation", file = "types", of = "reprise.GenerateOptions" },
  { "Output", file = "generate", of = "reprise.Output" },
  { "Session: a decoder of one's own", file = "session", of = "reprise.Session" },
  { "Tokenizer", file = "tokenizer", of = "reprise.Tokenizer" },
  { "rp.ops", file = "ops", of = "reprise.ops" },
  { "rp.nn", file = "nn", of = "reprise.nn" },
  { "reprise.cli, for scripts", file = "cli", of = "reprise.cli" },
}

-- Named in a section of its own above, so not among what functions take and give.
local OWN = {}
for _, section in ipairs(SECTIONS) do
  if section.of then OWN[section.of] = true end
end

local lines = {}
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
    if entry.kind == "class" and not OWN[entry.name] then
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

local function head()
  local file <close> = assert(io.open "lua/README.md")
  local text = file:read "a"
  return text:sub(1, assert(select(2, text:find(MARK, 1, true)), "lua/README.md has no mark"))
end

for _, section in ipairs(SECTIONS) do
  put_section(section, assert(docs.file("lua/reprise/" .. section.file .. ".lua")).entries)
end

local text = head()
local file = assert(io.open(arg[1] or "lua/README.md", "w"))
file:write(text, table.concat(lines, "\n"), "\n")
assert(file:close())
