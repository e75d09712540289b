-- repl/commands.lua - lines that are no Lua: `? name` and `:command argument`.

local manual = require "reprise.repl.manual"
local options = require "reprise.options"
local print = require "reprise.print"

local m = {}

---@class reprise.Command
---@field [1] string name
---@field [2] string its argument, for the help; "" when it takes none
---@field [3] string what it does
---@field run fun(argument: string, session: reprise.Session): function|boolean see Session:take

local function write(...) io.stdout:write(...) end

-- The devices that this state has opened, by name.
local function open_devices()
  local list, seen = {}, {}
  for _, device in pairs(debug.getregistry()["reprise.devices"] or {}) do
    if not seen[device] and not device.closed then seen[device], list[#list + 1] = true, device end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function live_graphs()
  local list = {}
  for step in pairs(debug.getregistry()["reprise.steps"] or {}) do
    if not tostring(step):find ", closed$" then
      for _, graph in ipairs(step:graphs()) do list[#list + 1] = graph end
    end
  end
  table.sort(list, function(a, b) return a.replays > b.replays or a.replays == b.replays and a.name < b.name end)
  return list
end

local function show_pools()
  local devices = open_devices()
  if #devices == 0 then write "no device is open: rp.device() opens the best one\n" end
  for _, device in ipairs(devices) do write(print.show(device.pool), "\n") end
end

local function show_graphs()
  local graphs = live_graphs()
  if #graphs == 0 then write "no graph: a function that rp.capture made has one for each shape it was called with\n" end
  for _, graph in ipairs(graphs) do
    local plan = graph.plan
    write(("%s; plan %d bytes, lower bound %d\n"):format(graph, plan.peak, plan.lower_bound))
  end
end

-- The function of a file, its path as the user wrote it.
local function load_file(path)
  if path == "" then error(":load: a file's path is expected", 0) end
  local home = os.getenv "HOME"
  if home then path = path:gsub("^~/", home .. "/") end
  local file, why = io.open(path)
  if not file then error(":load: " .. why, 0) end
  file:close()
  local fn, wrong = loadfile(path)
  if not fn then error(wrong, 0) end
  return fn
end

local function time(text)
  if text == "" then error(":time: an expression is expected", 0) end
  local expression = require "reprise.repl".expression(text)
  return function() require "reprise.repl.timing".show(expression, open_devices()) end
end

---@type reprise.Command[]
m.list = {
  { "time", "EXPRESSION", "runs it until its time is known: median and spread, after a warm-up", run = time },
  { "mem", "", "what the pools of open devices hold", run = function() return show_pools end },
  { "graphs", "", "the captured graphs that are alive, most used first", run = function() return show_graphs end },
  { "load", "FILE", "runs a file; its globals stay", run = load_file },
  { "quit", "", "leaves, as Ctrl-D does", run = function() return false end },
}

local HELP = [[
An expression shows its values; a ; at its end keeps them quiet. _ is the last one.
What is not complete goes on in the next line. A first `local` is left out, so that the name lasts.

  ? NAME             signature and text of a function, a method, a type, an option, a kernel
%s
  Tab                completes names, fields, methods, modules for require, file names
  Ctrl-R             searches the history backwards
  Ctrl-C             stops what runs, or drops the line; twice within a second leaves
  Ctrl-D             leaves

  rp.tensor({1, 2})  rp.compile { file = "scale.cu" }  rp.capture(fn)  rp.t5.load "scripts/models/g2p"
]]

--- The page that `?` shows.
---@return string
function m.page()
  local lines = {}
  for i, command in ipairs(m.list) do
    lines[i] = ("  %-18s %s"):format(":" .. command[1] .. " " .. command[2], command[3])
  end
  return HELP:format(table.concat(lines, "\n"))
end

local function explain(name, session)
  local text = name == "" and m.page() or manual.about(name, session.list)
  return function() write(text, name == "" and "" or "\n") end
end

local function named(name)
  for _, command in ipairs(m.list) do
    if command[1] == name then return command end
  end
end

--- What a line that is no Lua asks for, as Session:take returns it; nil: it is Lua.
---@param line string
---@param session reprise.Session
---@return function|boolean|nil
function m.find(line, session)
  local asked = line:match "^%s*%?%s*(.-)%s*$"
  if asked then return explain(asked, session) end
  local name, argument = line:match "^%s*:(%a+)%s*(.-)%s*$"
  if not name then return nil end
  local command, names = named(name), {}
  if command then return command.run(argument, session) end
  for i, known in ipairs(m.list) do names[i] = known[1] end
  error((":%s is no command: did you mean :%s? ? lists them"):format(name, options.nearest(name, names)), 0)
end

return m
