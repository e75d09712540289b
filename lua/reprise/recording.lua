-- recording.lua - rp.record_memory and rp.trace: a pool is recorded until the handle is closed, another recording of
-- the pool begins, or the script ends; then the file is written. Its name says as what: .html is a page (page.lua),
-- .json a timeline (timeline.lua).

local core = require "reprise.core"
local raise = require "reprise.raise"

local m = {}

local WRITERS = { html = "reprise.page", json = "reprise.timeline" }

---@class reprise.Recording
---@field file string
---@field closed boolean
---@field package history reprise.History
---@field package pool reprise.Pool
local Recording = {}

local open = {} -- pool -> its recording

local function write(file, text)
  local handle, why = io.open(file, "wb")
  if not handle then return raise("recording: writing %s", why) end
  local done, fault = handle:write(text)
  local closed, late = handle:close()
  if not done or not closed then raise("recording: writing %s: %s", file, fault or late) end
end

--- Ends the recording and writes its file. Twice is safe.
function Recording:close()
  if self.closed then return end
  self.closed, open[self.pool] = true, nil
  self.history:stop()
  local report = self.history:report()
  self.history:close()
  report.version = core.version
  write(self.file, require(WRITERS[self.file:match "%.(%l+)$"])(report))
end

-- A script that ends has nobody to raise to.
local function finish(self)
  local done, why = pcall(Recording.close, self)
  if not done then io.stderr:write("reprise: ", why, "\n") end
end

local meta = {
  __index = Recording, __close = Recording.close, __gc = finish,
  __tostring = function(self)
    local state = self.closed and ", closed" or ": " .. tostring(self.history)
    return ("recording to %s%s"):format(self.file, state)
  end,
}

local function pool_of(what, place)
  if place == nil or type(place) == "string" then return core.device(place).pool end
  if type(place) ~= "userdata" then
    raise("bad argument #2 to '%s' (reprise.Device or reprise.Pool expected, got %s)", what, type(place))
  end
  return place.pool or place
end

local function check(what, file)
  if type(file) ~= "string" then
    raise("bad argument #1 to '%s' (string expected, got %s)", what, type(file))
  end
  if not WRITERS[file:match "%.(%l+)$"] then
    raise("%s: %s: a name that ends in .html (a page) or .json (a timeline for Perfetto) is expected",
      what, file)
  end
  write(file, "") -- better now than after an hour
end

---@param what string the function's name, for messages
---@param file string
---@param place reprise.Place
---@param timed boolean
---@return reprise.Recording
function m.start(what, file, place, timed)
  check(what, file)
  local pool = pool_of(what, place)
  if open[pool] then open[pool]:close() end
  local history = core.history(pool, timed)
  local self = setmetatable({ file = file, pool = pool, closed = false, history = history }, meta)
  open[pool] = self
  return self
end

return m
