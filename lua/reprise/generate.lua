-- generate.lua - from sources to results: the greedy loop over a session's steps.
--
-- A batch is padded by lengths; a row that has met an end id goes on in step with the others, what it makes is dropped.

local core = require "reprise.core"
local raise = require "reprise.raise"
local session = require "reprise.session"
local sources = require "reprise.sources"

local m = {}

local OPTIONS = { "max_new_tokens" }
local KNOWN = {}
for _, name in ipairs(OPTIONS) do KNOWN[name] = true end

---@class reprise.Output
---@field text string? nil where the folder's tokenizer is not supported
---@field ids integer[] without start token, end token and filler
---@field score number? nil for a greedy result
---@field finish "eos"|"length"

local function check(what, options)
  if options ~= nil and type(options) ~= "table" then
    raise("%s: options: table expected, got %s", what, type(options))
  end
  for name in pairs(options or {}) do
    if not KNOWN[name] then
      raise("%s: option %s is not supported: supported is %s", what, tostring(name), table.concat(OPTIONS, ", "))
    end
  end
end

--- The most new tokens: the caller's, else the folder's; `false` is no answer.
---@param model reprise.T5
---@param what string
---@param options table?
---@return integer
function m.limit(model, what, options)
  check(what, options)
  local given = options and options.max_new_tokens
  if not given then given = model.config.longest end
  local limit = math.tointeger(given)
  if not limit or limit < 1 then
    raise("%s: max_new_tokens is %s, a whole number from 1 is expected", what, tostring(given))
  end
  return limit
end

local function take(rows, tokens, ends)
  local open = 0
  for i, row in ipairs(rows) do
    if not row.finish then
      if ends[tokens[i]] then
        row.finish = "eos"
      else
        row.ids[#row.ids + 1] = tokens[i]
        open = open + 1
      end
    end
  end
  return open
end

-- Runs steps until every row has ended or holds `limit` tokens.
local function run(s, limit, ends)
  local rows = {}
  for i = 1, s.rows do rows[i] = { ids = {} } end
  s:start()
  for _ = 1, limit do
    s:advance()
    if take(rows, s:tokens(), ends) == 0 then break end
  end
  return rows
end

-- The seconds of steps, without what first steps took for capturing.
local function timed(count, fn, ...)
  local begun, capturing = core.clock(), count.capturing
  local result = fn(...)
  count.stepping = count.stepping + core.clock() - begun - (count.capturing - capturing)
  return result
end

local function finish(model, row)
  row.finish = row.finish or "length"
  row.text = model.tokenizer:decode(row.ids)
  return row
end

--- The greedy result of one source (a list of one output) or of several (a list of such lists).
---@param model reprise.T5
---@param given any see sources.lua
---@param options { max_new_tokens: integer? }?
---@return reprise.Output[]|reprise.Output[][]
function m.greedy(model, given, options)
  local limit = m.limit(model, "generate", options)
  local lists, batch = sources.read(model, "generate", given)
  if not model.config.start then
    raise("generate: %s names no decoder_start_token_id", model.folder)
  end
  local s <close> = session.open(model, lists, limit)
  local out = {}
  local rows = timed(model.count, run, s, limit, model.config.ends)
  for i, row in ipairs(rows) do out[i] = { finish(model, row) } end
  return batch and out or out[1]
end

return m
