--- `reprise --test`: busted inside the program, with its settings from `.busted` and our report.
-- Runs the specs of the working directory if it has a `.busted`, else those beside the program.

local m = { passed = 0, failed = 0 }

local function exists(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

local function names_folder(arguments)
  for _, word in ipairs(arguments) do
    if word == "-C" or word:match("^%-%-directory") then return true end
  end
  return false
end

--- Checks what the suite needs and completes `arg`, which busted reads.
---@return table options for busted.runner
function m.prepare()
  local home = require("reprise.core").home()
  if not package.searchpath("busted.runner", package.path) then
    error("reprise --test: busted for Lua 5.4 was not found: Debian and Ubuntu have it as lua-busted", 0)
  end
  if not exists(".busted") and not names_folder(arg) then
    if not exists(home .. "/.busted") then
      error("reprise --test: there is no .busted here, nor in " .. home, 0)
    end
    table.insert(arg, 1, "--directory=" .. home)
  end
  return { standalone = false, output = package.searchpath("reprise.report", package.path) }
end

--- After the run: 0 when there were specs and all of them passed. A run of nothing is a failure.
---@return integer exit code
function m.code()
  return (m.failed == 0 and m.passed > 0) and 0 or 1
end

return m
