-- repl/init.lua - a session at the prompt: what a line means, how results and errors are shown.
--
-- runtime/repl.c reads the lines, calls the functions that `take` makes of them, and asks `show` or `report` for the
-- rest. An expression is tried first, so that `1 + 1` shows 2; a chunk may take several lines. A `local` that begins a
-- chunk is left out, since it would end with its line.

local commands = require "reprise.repl.commands"
local complete = require "reprise.repl.complete"
local print = require "reprise.print"

local m = {}

local COLUMNS = 80
local PROMPT, MORE = "> ", ">> "
local BOLD, RED, DIM, PLAIN = "\27[1m", "\27[31m", "\27[2m", "\27[0m"

---@class reprise.Session
---@field prompt string
---@field colour string escape codes for the prompt, or ""
---@field text string? the lines of a chunk that is not complete
---@field problem string? what the compiler says of it
---@field silent boolean? the present chunk ends with a semicolon
---@field errors boolean? errors are coloured
---@field list fun(folder: string): string[]?, string? the entries of a folder, those of folders with a slash
local Session = {}
Session.__index = Session

-- ---- from text to functions

local function incomplete(message) return message:sub(-5) == "<eof>" end

-- Without a first `local`: "local x = 1" is "x = 1", "local x" is "x = nil", "local function f" is "function f".
local function without_local(text)
  local rest = text:match "^%s*local%s+(.*)"
  if not rest or rest:find "^_ENV%f[^%w_]" then return text end
  if rest:find "^function%f[^%w_]" then return rest end
  local names, behind = rest:match "^([%w_%s,]-)%s*()$"
  if names and behind > #rest and names ~= "" then return names .. " = nil" end
  return rest:find "^[%a_][%w_%s,]*=" and rest or text
end

-- A function; or nil, what is wrong, and whether more lines may mend it.
local function compile(text)
  local fn, cut = load("return " .. text, "=stdin", "t")
  if fn then return fn end
  local wrong
  fn, wrong = load(without_local(text), "=stdin", "t")
  if fn then return fn end
  if incomplete(wrong) or not incomplete(cut) then return nil, wrong, incomplete(wrong) end
  return nil, cut, true
end

--- What the user's text means: a function, which shows nothing itself.
---@param text string
---@return function
function m.expression(text)
  local fn, wrong = compile(text)
  if not fn then error(wrong, 0) end
  return fn
end

function Session:reset()
  self.prompt, self.text, self.problem = PROMPT, nil, nil
end

-- A chunk so far: its function, or true when more is needed.
function Session:take_chunk(text)
  local fn, wrong, more = compile(text)
  if more then
    self.prompt, self.text, self.problem = MORE, text, wrong
    return true
  end
  self:reset()
  if not fn then error(wrong, 0) end
  self.silent = text:find ";%s*$" ~= nil
  return fn
end

--- A line, or nil at the end of the input.
---@param line string?
---@return function|boolean # to be called, its results to be shown; true: nothing to do; false: the user leaves
function Session:take(line)
  if not line then
    if self.text then error(self.problem, 0) end
    return false
  end
  if self.text then return self:take_chunk(self.text .. "\n" .. line) end
  self.silent = false
  if not line:find "%S" then return true end
  local action = commands.find(line, self)
  if action ~= nil then return action end
  return self:take_chunk((line:gsub("^%s*=%s*", "")))
end

--- Ctrl-C: what was typed of a chunk is forgotten.
function Session:drop() self:reset() end

-- ---- showing

-- Values beside each other where they are short, else below each other.
local function together(texts)
  local line = table.concat(texts, "\t")
  if line:find "\n" or #line > COLUMNS then return table.concat(texts, "\n") end
  return line
end

--- The results of a chunk; the first is kept as `_`.
function Session:show(...)
  local count = select("#", ...)
  if count == 0 then return end
  _G._ = (...)
  if self.silent then return end
  local texts = {}
  for i = 1, count do texts[i] = print.show((select(i, ...))) end
  io.stdout:write(together(texts), "\n")
end

--- An error, its traceback in a fainter colour.
---@param message string
function Session:report(message)
  io.stdout:flush()
  if self.errors then
    local text, trace = message:match "^(.-)(\nstack traceback:\n.*)$"
    message = RED .. (text or message) .. PLAIN .. (trace and DIM .. trace .. PLAIN or "")
  end
  io.stderr:write(message, "\n")
end

--- For Tab: what to put in behind the text before the cursor, and what to show below.
---@param before string
---@param columns integer of the terminal
---@return string inserted
---@return string listed
function Session:complete(before, columns)
  local inserted, candidates = complete.candidates(before, self.list)
  return inserted, complete.listed(candidates, columns)
end

-- ---- opening

local function coloured()
  local no, term = os.getenv "NO_COLOR", os.getenv "TERM"
  return (no == nil or no == "") and term ~= "dumb" and term ~= nil
end

--- Begins a session. Global `rp` is the module, unless something else has that name.
---@param how { terminal: boolean, errors: boolean, list: function } does a person sit there; see errors there
---@return reprise.Session
function m.open(how)
  local colours = how.terminal and coloured()
  if rawget(_G, "rp") == nil then rawset(_G, "rp", require "reprise") end
  if how.terminal then io.stdout:write "rp is the module reprise. ? shows help, Ctrl-D leaves.\n" end
  local session = { colour = colours and BOLD or "", errors = colours and how.errors, list = how.list }
  setmetatable(session, Session)
  session:reset()
  return session
end

return m
