-- apart.lua - a script that runs itself once more, in a process of its own, and reads the JSON value that this prints:
-- so that memory, a context or a cache of one part is not seen by the next.

local core = require "reprise.core"
local raise = require "reprise.raise"

local m = {}

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

--- Runs the script of `args` with more words before its arguments. What it writes to standard error is seen; where it
--- fails, this raises.
---@param args string[] the script's arg
---@param ... string
---@return any value of its standard output
---@return string output as it came
function m.run(args, ...)
  local words = { quote(args[-1]), quote(args[0]) }
  for _, word in ipairs { ... } do words[#words + 1] = quote(word) end
  for _, word in ipairs(args) do words[#words + 1] = quote(word) end
  local pipe, why = io.popen(table.concat(words, " "))
  if not pipe then raise("running %s: %s", args[0], why) end
  local output = pipe:read "a"
  local done, how, code = pipe:close()
  if not done then raise("running %s %s: %s %d", args[0], table.concat({ ... }, " "), how, code) end
  return core.json_decode(output, args[0]), output
end

return m
