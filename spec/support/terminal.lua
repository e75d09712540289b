--- A program in a terminal: keys are typed into tmux, the screen is read back. The terminal has 100 columns, 40 lines.
--
--   local t = terminal.open("reprise", { NO_COLOR = "1" })
--   t:type "1 + 1\n"
--   t:expect "> 1 + 1\n2\n>"
--   t:close()

local busted = require "busted"
local helper = require "spec.helper"

local m = {}

local PATIENCE = 20 -- seconds until an awaited text counts as missing
local LOOK = 0.05 -- seconds between looks

local count = 0

---@class Terminal
---@field folder string of its files: home/ and state/ are the program's
---@field server string tmux with the socket of this terminal
local Terminal = {}
Terminal.__index = Terminal

local opens -- does tmux get a terminal here? Asked once.

--- Marks the test that runs as pending where there is no tmux, or where it can open no terminal (no /dev/pts).
function m.needed()
  if helper.run "command -v tmux" ~= 0 then helper.pending "there is no tmux here: nobody can type at a prompt" end
  if opens == nil then opens = helper.run "tmux -L reprise-probe -f /dev/null new-session -d true" == 0 end
  if not opens then helper.pending "tmux can open no terminal here: is /dev/pts mounted?" end
end

--- Like `needed`, and for what only the line editor can do.
function m.needs_editor()
  m.needed()
  if helper.run("strings " .. helper.quote(helper.program()) .. " | grep -q el_gets") ~= 0 then
    local _, out = helper.run("grep -c el_gets " .. helper.quote(helper.program()))
    if out == "0\n" then helper.pending "this program was built without libedit" end
  end
end

local function words(environment)
  local list = {}
  for name, value in pairs(environment) do list[#list + 1] = name .. "=" .. helper.quote(value) end
  return table.concat(list, " ")
end

--- Starts a command in a fresh terminal, with a home of its own.
---@param command string for a shell
---@param environment table<string, string>?
---@param folder string? of an earlier terminal, whose home it shares
---@return Terminal
function m.open(command, environment, folder)
  count = count + 1
  folder = folder or helper.tmp()
  local self = setmetatable({ folder = folder, server = ("tmux -S %s/socket%d -f /dev/null"):format(folder, count) }, Terminal)
  helper.run("mkdir -p " .. folder .. "/home " .. folder .. "/state")
  local all = { HOME = folder .. "/home", XDG_STATE_HOME = folder .. "/state", LC_ALL = "C.UTF-8", NO_COLOR = "1" }
  for name, value in pairs(environment or {}) do all[name] = value end
  helper.write(folder .. "/run.sh", ("trap : INT\n%s %s\necho \"[exit $?]\"\nsleep 600\n"):format(words(all), command))
  local start = self.server .. " new-session -d -x 100 -y 40 sh " .. folder .. "/run.sh"
  local code, _, err = helper.run(start .. " \\; set-option -g escape-time 0")
  assert(code == 0, err)
  busted.subscribe({ "test", "end" }, function() self:close(); return nil, true end)
  return self
end

--- Types text; "\n" is Enter.
---@param text string
function Terminal:type(text)
  for line, enter in text:gmatch "([^\n]*)(\n?)" do
    local word = helper.quote((line:gsub(";$", "\\;"))) -- one at the end would be tmux' own
    if line ~= "" then helper.run(("%s send-keys -l -- %s"):format(self.server, word)) end
    if enter ~= "" then self:press "Enter" end
  end
end

--- Presses keys by tmux' names: "C-c", "Tab", "Up".
---@param ... string
function Terminal:press(...)
  helper.run(self.server .. " send-keys " .. table.concat({ ... }, " "))
end

--- What stands on the screen, without spaces at the ends of lines.
---@param escapes boolean? with the codes of colours
---@return string
function Terminal:screen(escapes)
  local _, out = helper.run(self.server .. " capture-pane -p -S -200 " .. (escapes and "-e" or ""))
  return (out:gsub("[ \t]+\n", "\n"):gsub("\n+$", "\n"))
end

--- Waits until a text stands on the screen.
---@param text string
---@param times integer? so often
---@return string screen
function Terminal:expect(text, times)
  local screen
  for _ = 1, PATIENCE / LOOK do
    screen = self:screen()
    local found, at = 0, 1
    while true do
      local from, to = screen:find(text, at, true)
      if not from then break end
      found, at = found + 1, to + 1
    end
    if found >= (times or 1) then return screen end
    helper.run("sleep " .. LOOK)
  end
  error(("%q does not stand on the screen:\n%s"):format(text, screen), 2)
end

--- Waits for a fresh prompt, which is the last line.
---@return string screen
function Terminal:ready()
  local screen
  for _ = 1, PATIENCE / LOOK do
    screen = self:screen()
    if screen:find "\n> ?\n$" then return screen end
    helper.run("sleep " .. LOOK)
  end
  error("no prompt at the end of the screen:\n" .. screen, 2)
end

--- Types a line, waits for the next prompt.
---@param line string
---@return string screen
function Terminal:enter(line)
  local _, before = self:ready():gsub("\n", "")
  self:type(line .. "\n")
  for _ = 1, PATIENCE / LOOK do
    local screen = self:screen()
    local _, now = screen:gsub("\n", "")
    if now > before and screen:find "\n> ?\n$" then return screen end
    helper.run("sleep " .. LOOK)
  end
  error(("no prompt after %q:\n%s"):format(line, self:screen()), 2)
end

--- Ends the program and its terminal.
function Terminal:close()
  if self.closed then return end
  self.closed = true
  helper.run(self.server .. " kill-server")
end

return m
