-- progress.lua - a bar on standard error while long work goes on: only where that is a terminal and the results go
-- elsewhere, and only after some seconds.

local core = require "reprise.core"

local m = {}

local PATIENCE, PAUSE = 2, 0.2 -- seconds before there is a bar, and between two looks of it
local WIDTH = 40

--- Bytes of words with their line ends; without words what is left of standard input, where that is a file.
---@param words string[]
---@return integer?
function m.bytes(words)
  local total = 0
  for _, word in ipairs(words) do total = total + #word + 1 end
  if #words > 0 then return total end
  local here = io.stdin:seek "cur"
  local size = here and io.stdin:seek "end"
  if here then io.stdin:seek("set", here) end
  return size and size - here
end

---@class reprise.Progress
---@field total number? of the same unit as what is done; nil: unknown
---@field done number
---@field shown boolean does a bar stand there?
local Progress = {}
Progress.__index = Progress

--- Work that is `total` long; `visible` is for specs.
---@param total number?
---@param visible boolean?
---@return reprise.Progress
function m.new(total, visible)
  if visible == nil then visible = os.execute "test -t 2 && ! test -t 1" == true end
  local now = core.clock()
  return setmetatable({ total = total, done = 0, count = 0, visible = visible, begun = now, last = now }, Progress)
end

--- The bar as it stands now.
---@param seconds number since the beginning
---@return string
function Progress:line(seconds)
  local rate = ("%d done, %.0f a second"):format(self.count, self.count / math.max(seconds, 1e-9))
  if not self.total or self.total <= 0 then return rate end
  local part = math.min(self.done / self.total, 1)
  local full = math.floor(part * WIDTH)
  return ("[%s%s] %3d %%, %s"):format(("#"):rep(full), ("."):rep(WIDTH - full), math.floor(part * 100), rate)
end

--- One more is done, `amount` of the total.
---@param amount number?
function Progress:add(amount)
  self.done, self.count = self.done + (amount or 1), self.count + 1
  local now = core.clock()
  if not self.visible or now - self.begun < PATIENCE or now - self.last < PAUSE then return end
  self.last, self.shown = now, true
  io.stderr:write("\r", self:line(now - self.begun), "\27[K")
end

--- Takes the bar away.
function Progress:finish()
  if self.shown then io.stderr:write "\r\27[K" end
  self.shown = false
end

return m
