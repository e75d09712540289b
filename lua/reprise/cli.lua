-- cli.lua - the arguments of a script: `--name value`, `--name=value`, `--flag`, `--`, and words in any order.
--
--   local options, words = cli.parse(arg, {
--     usage = "reprise scripts/g2p.lua [options] [word ...]",
--     { "model", "FOLDER", "where the model lies", default = "models/g2p" },
--     { "max-new-tokens", "N", "longest result", number = true },
--     { "json", nil, "one JSON object a line" },
--   }, help.flags { "num_beams" })
--
-- `--help` prints the page and ends the script; a wrong argument prints one sentence to stderr and ends it with 2.

local m = {}

---@class reprise.Option
---@field [1] string name without dashes
---@field [2] string? placeholder of its value; nil: a flag
---@field [3] string what it does
---@field default any
---@field number boolean? its value is a whole number from 1
---@field choices string[]? the values it may have
---@field read (fun(word: string): any, string?)? makes a value of the word, or nil and what is wrong with it

local LEFT, WIDTH = 28, 100 -- columns of the names, and of a line

-- A text in lines that fit beside the names.
local function wrapped(text)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if #line + #word >= WIDTH - LEFT then lines[#lines + 1], line = line, "" end
    line = line == "" and word or line .. " " .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n" .. (" "):rep(LEFT))
end

local function described(left, text)
  local gap = #left + 2 < LEFT and (" "):rep(LEFT - #left - 2) or "\n" .. (" "):rep(LEFT)
  return "  " .. left .. gap .. wrapped(text)
end

local function page(spec)
  local lines = { "usage: " .. spec.usage, "" }
  for _, option in ipairs(spec) do
    lines[#lines + 1] = described("--" .. option[1] .. (option[2] and " " .. option[2] or ""), option[3])
  end
  lines[#lines + 1] = described("--help", "print this page")
  return table.concat(lines, "\n")
end

local function find(spec, name)
  for _, option in ipairs(spec) do
    if option[1] == name then return option end
  end
end

local function check(option, value)
  local name = "--" .. option[1]
  if option.number then
    local number = math.tointeger(tonumber(value))
    if not number or number < 1 then return nil, ("%s: %q is not a whole number from 1"):format(name, value) end
    return number
  end
  if option.read then
    local read, why = option.read(value)
    if why then return nil, ("%s: %s"):format(name, why) end
    return read
  end
  for _, choice in ipairs(option.choices or {}) do
    if choice == value then return value end
  end
  if option.choices then
    return nil, ("%s: %q is none of %s"):format(name, value, table.concat(option.choices, ", "))
  end
  return value
end

-- One `--name` or `--name=value` at args[i]: stores it and returns the index of its last part, or nil and why not.
local function take(spec, args, i, options)
  local name, value = args[i]:match("^%-%-([^=]+)=?(.*)$")
  local given = args[i]:find("=", 1, true) ~= nil
  local option = name and find(spec, name)
  if not option then return nil, ("unknown option %s"):format(args[i]) end
  local key = name:gsub("-", "_")
  if not option[2] then
    if given then return nil, ("--%s takes no value"):format(name) end
    options[key] = true
    return i
  end
  if not given then i, value = i + 1, args[i + 1] end
  if not value then return nil, ("--%s needs a value (%s)"):format(name, option[2]) end
  local checked, why = check(option, value)
  options[key] = checked
  return not why and i, why
end

--- Reads arguments without ending anything.
---@param args string[]
---@param spec table { usage = text, reprise.Option... }
---@return table? options by name, dashes as underscores; nil when wrong
---@return string[]|string words the other arguments, or what is wrong
function m.read(args, spec)
  local options, words, i = {}, {}, 1
  for _, option in ipairs(spec) do options[option[1]:gsub("-", "_")] = option.default end
  while i <= #args do
    if args[i] == "--" then
      table.move(args, i + 1, #args, #words + 1, words)
      break
    elseif args[i] == "--help" then
      options.help = true
    elseif args[i]:sub(1, 1) == "-" and #args[i] > 1 then
      local last, why = take(spec, args, i, options)
      if not last then return nil, why end
      i = last
    else
      words[#words + 1] = args[i]
    end
    i = i + 1
  end
  return options, words
end

--- Reads a script's arguments; ends the script after `--help` (0) or a wrong argument (2).
---@param args string[]
---@param spec table { usage = text, reprise.Option... }
---@param more reprise.Option[]? added to spec
---@return table options
---@return string[] words
function m.parse(args, spec, more)
  table.move(more or {}, 1, #(more or {}), #spec + 1, spec)
  local options, words = m.read(args, spec)
  if not options then
    local script = (args[0] or "script"):match "[^/]*$"
    io.stderr:write(script, ": ", words, "\n", "usage: ", spec.usage, "\n")
    os.exit(2, true)
  elseif options.help then
    print(page(spec))
    os.exit(0, true)
  end
  return options, words
end

return m
