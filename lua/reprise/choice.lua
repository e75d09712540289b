-- choice.lua - the end of a step as functions on tensors: rows whose next tokens the device chooses or draws, and the
-- state that moves on by itself. One kernel of sample.cu or draw.cu each; their heads say what they compute.

local core = require "reprise.core"
local launch = require "reprise.launch"
local raise = require "reprise.raise"

local m = {}

local check_shape, rows_of, grid, is_gpu = launch.check_shape, launch.rows_of, launch.grid, launch.is_gpu

local CONTROL = 15 -- words of `control` before the end ids, as in sample.cuh
local function part_of(device) return is_gpu(device) and 1024 or 2048 end -- logits of a row that a block takes
local RECORDS = 128 -- of the ring, which a stream reads as it fills

local function kernel(device, name) return launch.kernel(device, "sample.cu", name) end

---@class reprise.ChoiceState
---@field rows integer
---@field room integer longest row, prompt included
---@field most_ends integer
---@field token reprise.Tensor i32 {rows}: the newest token of each row
---@field position reprise.Tensor i32 {1}: where it stands; a view of control
---@field control reprise.Tensor i32 {15 + most_ends}: numbers of a run, see sample.cuh
---@field finished reprise.Tensor i32 {rows}: 0, or how many tokens the row has after its prompt
---@field history reprise.Tensor i32 {rows, room}: tokens by position, prompts included
---@field sums reprise.Tensor f32 {rows}: log-probabilities so far
---@field seeds reprise.Tensor? i32 {rows, 3}, of a state that draws
---@field adjusts boolean does it look for repetitions?
---@field signal reprise.Signal

--- A state in which no row is open.
---@param device reprise.Device
---@param how { rows: integer, room: integer, ends: integer?, draws: boolean?, adjusts: boolean?, records: integer? }
---@return reprise.ChoiceState
function m.state(device, how)
  local rows, ends = how.rows, math.max(how.ends or 1, 1)
  local function zeros(...) return core.zeros({ ... }, "i32", device) end
  local state = {
    rows = rows, room = how.room, most_ends = ends, adjusts = how.adjusts or false, device = device,
    token = zeros(rows), control = zeros(CONTROL + ends), finished = zeros(rows), history = zeros(rows, how.room),
    sums = core.zeros({ rows }, "f32", device), signal = core.signal(device, how.records or RECORDS),
    seeds = how.draws and zeros(rows, 3) or nil,
  }
  state.position = state.control:slice(1, 1, 1)
  return state
end

--- Gives its memory back.
---@param state reprise.ChoiceState
function m.close(state)
  for _, name in ipairs { "token", "position", "control", "finished", "history", "sums", "seeds", "signal" } do
    if state[name] then state[name]:close() end
  end
end

local function bits(x) return (("i4"):unpack(("f"):pack(x))) end

---@class reprise.ChoiceRun
---@field prompts integer[][] of one length: one for all rows, or one for rows / prompts neighbours each
---@field longest integer? tokens of a row, prompt included; default: the state's room
---@field shortest integer? no end before so many
---@field ends integer[]?
---@field pad integer?
---@field real integer? rows that count; the others fill up
---@field ngram integer?
---@field penalty number?
---@field temperature number?
---@field top_k integer?
---@field top_p number?
---@field min_p number?
---@field seeds integer[][]? a row: low and high word of the seed, sequence number

local function control_words(state, run, real)
  local ends, length = run.ends or {}, #run.prompts[1]
  local longest = run.longest or state.room
  if #ends > state.most_ends then raise("begin: %d end ids, the state has room for %d", #ends, state.most_ends) end
  if length < 1 or length >= longest or longest > state.room then
    raise("begin: prompts of %d tokens, rows of %d in a room for %d", length, longest, state.room)
  end
  local words = {
    0, real, 0, state.signal:reset(), length, longest, run.shortest or 0, run.pad or 0, run.ngram or 0, run.top_k or 0,
    bits(run.penalty or 1), bits(run.temperature or 1), bits(run.top_p or 1), bits(run.min_p or 0), #ends,
  }
  return table.move(ends, 1, #ends, CONTROL + 1, words)
end

local function append(list, more)
  table.move(more, 1, #more, #list + 1, list)
  return #more
end

--- Puts rows at the start of their prompts: one upload, one launch.
---@param state reprise.ChoiceState
---@param run reprise.ChoiceRun
function m.begin(state, run)
  local real, length, rows = run.real or state.rows, #run.prompts[1], state.rows
  if rows % #run.prompts ~= 0 then raise("begin: %d prompts do not divide %d rows", #run.prompts, rows) end
  local upload = control_words(state, run, real)
  local count = #upload
  for _, prompt in ipairs(run.prompts) do append(upload, prompt) end
  for _, seed in ipairs(state.seeds and run.seeds or {}) do append(upload, seed) end
  for i = #upload + 1, count + #run.prompts * length + (state.seeds and 3 * rows or 0) do upload[i] = 0 end
  local all <close> = core.tensor(upload, "i32", state.device)
  local words <close> = all:slice(1, 1, count)
  local prompts <close> = all:slice(1, count + 1, count + #run.prompts * length)
  local seeds <close> = all:slice(1, state.seeds and -3 * rows or 1, -1)
  kernel(state.device, "begin") {
    grid = 1, block = is_gpu(state.device) and 256 or launch.ALONE,
    state.control, state.token, state.finished, state.history, state.sums, state.seeds or false, words, prompts,
    state.seeds and seeds or false, count, rows, real, state.room, #run.prompts, length,
  }
end

-- Logits with repetitions made less probable, or banned.
local function adjusted(logits, state, rows, vocab)
  local scores = core.empty({ rows, vocab }, "f32", state.device)
  kernel(state.device, "adjust") {
    grid = grid(state.device, rows), block = is_gpu(state.device) and 256 or launch.ALONE,
    scores, logits, state.history, state.control, rows, vocab, state.room,
  }
  return scores
end

-- Threads for so many logits: eight each.
local function choose_block(device, count)
  if not is_gpu(device) then return launch.ALONE end
  return math.max(32, math.min(128, launch.ceil(count, 256) * 32))
end

--- The next token of each row: drawn where the state has seeds, else the one of largest score.
---@param logits reprise.Tensor f32 {rows, vocab}
---@param state reprise.ChoiceState
function m.advance(logits, state)
  local rows, vocab = rows_of("advance", "logits", logits)
  check_shape("advance", "logits", logits, "f32", { rows, vocab })
  check_shape("advance", "token", state.token, "i32", { rows })
  local device, draws = state.device, state.seeds ~= nil
  local parts = draws and 1 or math.min(64, launch.ceil(vocab, part_of(device)))
  local scores = state.adjusts and adjusted(logits, state, rows, vocab) or false
  local found, ids = core.empty({ rows, parts, 3 }, "f32", device), core.empty({ rows, parts }, "i32", device)
  local words, records = state.signal.words, state.signal.records
  if draws then
    return launch.kernel(device, "draw.cu", "draw") {
      grid = grid(device, rows), block = is_gpu(device) and 512 or launch.ALONE,
      logits, scores, state.seeds, state.control, state.token, state.finished, state.history, state.sums, found, ids,
      words, rows, vocab, state.room, records,
    }
  end
  kernel(device, "choose") {
    grid = grid(device, rows * parts), block = choose_block(device, launch.ceil(vocab, parts)),
    logits, scores, state.control, state.token, state.finished, state.history, state.sums, found, ids,
    words, rows, vocab, parts, state.room, records,
  }
end

--- One position on.
---@param position reprise.Tensor i32 {1}
function m.tick(position)
  kernel(position.device, "tick") { grid = 1, block = launch.ALONE, position }
end

return m
