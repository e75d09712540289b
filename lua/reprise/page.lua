-- page.lua - a history as one HTML page that needs nothing else: the pool over time, plans, nodes. Its parts lie in
-- page/.

local core = require "reprise.core"

local SCRIPTS = { "frame.js", "saving.js", "timeline.js", "plan.js", "tables.js", "start.js" }

local folder = debug.getinfo(1, "S").source:match "^@(.*)%.lua$"

local function part(name)
  local file = assert(io.open(folder .. "/" .. name, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- JSON inside <script>: no text in it can end the element, or begin a comment.
local function embedded(value) return (core.json_encode(value):gsub("<", "\\u003c")) end

---@param report table see reprise.History:report
---@return string
return function(report)
  local scripts = {}
  for i, name in ipairs(SCRIPTS) do scripts[i] = part(name) end
  local parts = { style = part "style.css", data = embedded(report), script = table.concat(scripts, "\n") }
  return (part "index.html":gsub("{{(%l+)}}", parts))
end
