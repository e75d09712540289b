-- raise.lua - raises a sentence in front of which stands the user's line: the first frame outside lua/reprise/.

local function where()
  for level = 3, math.huge do
    local info = debug.getinfo(level, "Sl")
    if not info then return "" end
    if info.currentline > 0 and not info.source:find("^@.*lua/reprise/") then
      return ("%s:%d: "):format(info.short_src, info.currentline)
    end
  end
end

---@param format string
---@param ... any
return function(format, ...)
  error(where() .. (select("#", ...) > 0 and format:format(...) or format), 0)
end
