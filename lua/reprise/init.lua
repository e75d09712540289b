--- reprise - decoder loops as Lua scripts, captured once and replayed from recycled memory.
-- The raw binding with manners: scopes, and the models, which load when they are first touched.
local core = require "reprise.core"

local VERSION = "0.1.0"
if core.version ~= VERSION then
  error(("reprise: lua/reprise is version %s, but %s is version %s"):format(VERSION, core.file, core.version), 2)
end

local m = { version = VERSION }

for name, value in pairs(core) do
  if m[name] == nil then m[name] = value end
end

---The device that constructors use when none is given: REPRISE_DEVICE, else the best present.
---@return reprise.Device
function m.default_device() return core.device() end

local function finish(scope, ...) return scope:keep(...) end

---Runs `fn`; tensors made inside that it does not return, also inside tables, are recycled at the end.
---@generic T
---@param fn fun(...): T
---@return T
function m.scope(fn, ...)
  if type(fn) ~= "function" then error("rp.scope: function expected, got " .. type(fn), 2) end
  local scope <close> = core.open_scope()
  return finish(scope, fn(...))
end

---A value as text for people: tables as constructors, values of reprise in their long form.
---@param value any
---@param options { depth: integer?, items: integer? }?
---@return string
function m.show(value, options) return require "reprise.print".show(value, options) end

---Records a pool: its zones over time, replays, the plans of its graphs. The file is written when the handle is closed,
---when another recording of the pool begins, or when the script ends.
---@param file string x.html: a page that needs nothing else; x.json: a timeline for Perfetto
---@param place reprise.Place
---@return reprise.Recording
function m.record_memory(file, place) return require "reprise.recording".start("record_memory", file, place, false) end

---The same with the time of every kernel. Graphs are replayed node by node for it, and a GPU is waited for each time.
---@param file string
---@param place reprise.Place
---@return reprise.Recording
function m.trace(file, place) return require "reprise.recording".start("trace", file, place, true) end

local later = { t5 = "reprise.t5", ops = "reprise.ops", nn = "reprise.nn" }

return setmetatable(m, {
  names = later, -- for completion
  __index = function(self, name)
    if not later[name] then return nil end
    local part = require(later[name])
    rawset(self, name, part)
    return part
  end,
})
