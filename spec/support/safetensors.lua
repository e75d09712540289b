-- safetensors.lua - reads and writes .safetensors files in plain Lua, so that specs can make variants of a checkpoint.
-- Independent of the reader under test but for JSON.

local core = require "reprise.core"

local m = {}

-- Entries { name, dtype, shape, data } in file order.
function m.read(path)
  local file = assert(io.open(path, "rb"))
  local all = file:read("a")
  file:close()
  local length, start = string.unpack("<I8", all)
  local entries = {}
  for name, t in pairs(core.json_decode(all:sub(start, start + length - 1))) do
    if name ~= "__metadata__" then
      local from, to = t.data_offsets[1], t.data_offsets[2]
      entries[#entries + 1] = { name = name, dtype = t.dtype, shape = t.shape, from = from,
        data = all:sub(start + length + from, start + length + to - 1) }
    end
  end
  table.sort(entries, function(a, b) return a.from < b.from or a.from == b.from and a.name < b.name end)
  return entries
end

local function header(entries)
  local parts, at = {}, 0
  for i, e in ipairs(entries) do
    parts[i] = ('%q:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'):format(
      e.name, e.dtype, table.concat(e.shape, ","), at, at + #e.data)
    at = at + #e.data
  end
  local text = "{" .. table.concat(parts, ",") .. "}"
  return text .. (" "):rep(-#text % 8)
end

-- Any header over any data; `length` stands in for the header's true length where given.
function m.write_raw(path, text, data, length)
  local file = assert(io.open(path, "wb"))
  file:write(string.pack("<I8", length or #text), text, data)
  file:close()
end

function m.write(path, entries)
  local data = {}
  for i, e in ipairs(entries) do data[i] = e.data end
  m.write_raw(path, header(entries), table.concat(data))
end

return m
