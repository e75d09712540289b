-- search.lua - beam search's kernels as functions: the state that they move on, checks, launch geometry.
--
-- What the tensors mean and how a search goes is said in kernels/beam.cuh, candidates.cu and beam.cu.

local core = require "reprise.core"
local launch = require "reprise.launch"
local raise = require "reprise.raise"

local m = {}

local kernel, grid, ceil = launch.kernel, launch.grid, launch.ceil
local check, check_shape = launch.check, launch.check_shape

local ALL = 2048 -- vocabularies up to this are one part: a row's order is then exact, ties included
local PART = 1280 -- else: a part of 5 rows for each multiprocessor of a large GPU
local TILE = 2048 -- entries that search ranks at a time
local MOST_BEAMS, MOST_CANDIDATES = 16, 256

--- Candidates a source, as transformers counts them.
---@param beams integer
---@param ends integer how many end ids there are
---@return integer
function m.candidates_of(beams, ends) return math.max(2, 1 + ends) * beams end

---@class reprise.SearchState one a search; tensors stay in place
---@field sources integer
---@field beams integer 1 to 16
---@field room integer positions a row
---@field k integer candidates a source
---@field control reprise.Tensor i32 {12}
---@field position reprise.Tensor i32 {1}, a view of control
---@field factor reprise.Tensor f32 {room + 2}
---@field ends reprise.Tensor i32
---@field scores reprise.Tensor f32 {sources, 2, beams}
---@field lists reprise.Tensor i32 {sources, 5, beams}
---@field open reprise.Tensor i32 {sources}
---@field token reprise.Tensor i32 {rows}
---@field tokens reprise.Tensor i32 {rows, room}
---@field parents reprise.Tensor u8 {rows, room}
---@field origin reprise.Tensor u8 {rows, room}
---@field signal reprise.Signal

--- A state for searches over `sources` sources; its control says that it is done.
---@param sources integer
---@param beams integer
---@param room integer
---@param ends integer how many end ids there are
---@param device reprise.Device
---@return reprise.SearchState
function m.state(sources, beams, room, ends, device)
  local rows, k = sources * beams, m.candidates_of(beams, ends)
  if beams < 1 or beams > MOST_BEAMS then raise("search: %d beams: 1 to %d are possible", beams, MOST_BEAMS) end
  if k > MOST_CANDIDATES then
    raise("search: %d beams with %d end ids make %d candidates, at most %d are possible", beams, ends, k,
      MOST_CANDIDATES)
  end
  local control = core.zeros({ 12 }, "i32", device)
  control:slice(1, 2, 2):fill(1)
  return {
    sources = sources, beams = beams, room = room, k = k, control = control, position = control:slice(1, 1, 1),
    factor = core.zeros({ room + 2 }, "f32", device), ends = core.zeros({ math.max(1, ends) }, "i32", device),
    scores = core.zeros({ sources, 2, beams }, "f32", device), lists = core.zeros({ sources, 5, beams }, "i32", device),
    open = core.zeros({ sources }, "i32", device), token = core.zeros({ rows }, "i32", device),
    tokens = core.zeros({ rows, room }, "i32", device), parents = core.zeros({ rows, room }, "u8", device),
    origin = core.zeros({ rows, room }, "u8", device), signal = core.signal(device, 1),
  }
end

--- Gives a state's tensors back.
---@param s reprise.SearchState
function m.close(s)
  for _, value in pairs(s) do
    if type(value) == "userdata" then value:close() end
  end
end

---@class reprise.SearchOptions
---@field prompts integer[][] for each source, all of one length from 1; start token included
---@field max_new integer new tokens at most
---@field shortest integer? no end id before so many tokens, prompt included
---@field length_penalty number?
---@field early_stopping boolean|"never"|nil
---@field repetition_penalty number?
---@field no_repeat_ngram_size integer?
---@field ends integer[]? as many as the state was made for

local function factors(s, o)
  local list, w = { o.repetition_penalty or 1.0 }, o.length_penalty or 1.0
  for n = 1, s.room + 1 do
    local divisor = ("f"):unpack(("f"):pack((n + 0.0) ^ w))
    local fits = 0 < divisor and divisor < math.huge
    if not fits and n <= o.max_new then raise("search: length_penalty is %s: %d^%s does not fit f32", w, n, w) end
    list[n + 1] = fits and divisor or 1.0 -- nobody comes so far
  end
  return list
end

-- In the order of beam.cuh's enumeration.
local function controls(s, o, prompt, ends)
  local never = o.early_stopping == "never" and (o.length_penalty or 1.0) > 0
  return {
    0, 0, s.signal:reset(), prompt, prompt + o.max_new, o.shortest or 0, o.no_repeat_ngram_size or 0,
    o.early_stopping == true and 1 or 0, never and o.max_new or 0, ends, 0, 0,
  }
end

-- Sources past those that are given are closed from the start; they need a prompt all the same.
local function padded(prompts, sources)
  local list = table.move(prompts, 1, #prompts, 1, {})
  for i = #prompts + 1, sources do list[i] = prompts[1] end
  return list
end

--- Starts a search in a state, whatever a search before left behind.
---@param s reprise.SearchState
---@param o reprise.SearchOptions
function m.begin(s, o)
  local prompt, ends, device = #o.prompts[1], o.ends or {}, s.control.device
  if #o.prompts > s.sources then raise("search: %d prompts for %d sources", #o.prompts, s.sources) end
  if prompt + o.max_new - 1 > s.room then
    raise("search: %d tokens after a prompt of %d do not fit into %d positions", o.max_new, prompt, s.room)
  end
  if #ends > 0 then s.ends:copy(core.tensor(ends, "i32", device)) end
  s.control:copy(core.tensor(controls(s, o, prompt, #ends), "i32", device))
  s.factor:copy(core.tensor(factors(s, o), "f32", device))
  local prompts = core.tensor(padded(o.prompts, s.sources), "i32", device)
  kernel(device, "beam.cu", "begin") {
    grid = grid(device, ceil(s.sources * s.beams, 32)), block = 32,
    s.scores, s.lists, s.open, s.token, s.tokens, s.origin, prompts, s.control, s.sources, #o.prompts, s.beams, s.room,
  }
end

-- ---- a step

local function block_of(device, threads) return launch.is_gpu(device) and threads or launch.ALONE end

--- Ids a part of a vocabulary.
---@param vocab integer
---@return integer
function m.part_of(vocab) return vocab <= ALL and ceil(vocab, 8) * 8 or PART end

---@class reprise.Offers what rows of logits offer to a search: temporaries of a step
---@field vocab integer
---@field part integer ids a part
---@field parts integer
---@field keys reprise.Tensor f32 {rows, parts, k}
---@field ids reprise.Tensor i32 likewise
---@field most reprise.Tensor f32 {rows, parts}
---@field sums reprise.Tensor f32 likewise
---@field seen reprise.Tensor f32 {rows, room}, or {1} where it is not needed

--- Room for what the rows of a search offer.
---@param s reprise.SearchState
---@param vocab integer
---@return reprise.Offers
function m.offers(s, vocab)
  local rows, device, part = s.sources * s.beams, s.control.device, m.part_of(vocab)
  local parts = ceil(vocab, part)
  local function empty(dtype, ...) return core.empty({ ... }, dtype, device) end
  return {
    vocab = vocab, part = part, parts = parts, keys = empty("f32", rows, parts, s.k),
    ids = empty("i32", rows, parts, s.k), most = empty("f32", rows, parts), sums = empty("f32", rows, parts),
    seen = parts > 1 and empty("f32", rows, s.room) or empty("f32", 1),
  }
end

--- Adds a piece of the logits to what the rows offer.
---@param s reprise.SearchState
---@param to reprise.Offers
---@param logits reprise.Tensor f32 {rows, width}: columns first .. first + width - 1 of all
---@param first integer? id of the first column, a multiple of to.part; default 0
function m.candidates(s, to, logits, first)
  local rows, device = s.sources * s.beams, s.control.device
  check("candidates", "logits", logits, "f32", 2)
  local width = logits.shape[2]
  check_shape("candidates", "logits", logits, "f32", { rows, width })
  first = first or 0
  if first % to.part ~= 0 or first + width > to.vocab then
    raise("candidates: first: %d columns from id %d of %d on, in parts of %d", width, first, to.vocab, to.part)
  end
  kernel(device, "candidates.cu", "candidates") {
    grid = grid(device, rows * ceil(width, to.part)), block = block_of(device, 256),
    shared = 4 * (3 * to.part + ceil(to.part // 8, 8) * 8),
    logits, to.keys, to.ids, to.most, to.sums, to.seen, s.control, s.scores, s.open, s.tokens, s.origin, s.factor,
    s.ends, rows, s.beams, s.room, to.vocab, width, first, to.part, s.k,
  }
end

--- The last node of a step: candidates become running and finished beams.
---@param s reprise.SearchState
---@param from reprise.Offers
function m.search(s, from)
  local device, k = s.control.device, s.k
  local tile = math.min(TILE, ceil(k + s.beams * (from.parts * k + (from.parts > 1 and s.room or 0)), 64) * 64)
  kernel(device, "beam.cu", "search") {
    grid = grid(device, s.sources), block = block_of(device, 512),
    shared = 4 * (4 * tile + tile // 8 + 7 * k + 12 * s.beams + 24),
    from.keys, from.ids, from.most, from.sums, from.seen, s.factor, s.ends, s.control, s.scores, s.lists, s.open,
    s.token, s.tokens, s.parents, s.origin, s.signal.words, s.sources, s.beams, s.room, from.vocab, from.parts, k, tile,
  }
end

--- For beams that a script chooses: before a step at `position`, each row goes on from row parents[row] of its source.
---@param origin reprise.Tensor u8 {rows, room}
---@param position reprise.Tensor i32 {1}
---@param parents reprise.Tensor i32 {rows}, from 0, counted inside the source
---@param beams integer rows a source, at most 255
function m.follow(origin, position, parents, beams)
  check("follow", "origin", origin, "u8", 2)
  local rows, room, device = origin.shape[1], origin.shape[2], origin.device
  check_shape("follow", "position", position, "i32", { 1 })
  check_shape("follow", "parents", parents, "i32", { rows })
  if math.type(beams) ~= "integer" or beams < 1 or beams > 255 or rows % beams ~= 0 then
    raise("follow: beams: 1 to 255 that divide %d rows are expected, got %s", rows, tostring(beams))
  end
  kernel(device, "beam.cu", "follow") {
    grid = grid(device, rows // beams), block = launch.is_gpu(device) and 128 or launch.ALONE,
    origin, position, parents, rows, beams, room,
  }
end

-- ---- results

---@class reprise.Hypothesis
---@field ids integer[] without prompt and end id
---@field score number
---@field finish "eos"|"length"

local function hypothesis(ids, count, ended, score)
  return { ids = table.move(ids, 1, count, 1, {}), score = score, finish = ended == 1 and "eos" or "length" }
end

--- The finished hypotheses of the first `sources` sources, best first, at most `wanted` each; only real ones.
---@param s reprise.SearchState
---@param sources integer
---@param wanted integer
---@return reprise.Hypothesis[][]
function m.collect(s, sources, wanted)
  local device = s.control.device
  local ids = core.empty({ s.sources, wanted, s.room }, "i32", device)
  local counts = core.empty({ s.sources, wanted, 2 }, "i32", device)
  kernel(device, "beam.cu", "collect") {
    grid = grid(device, ceil(s.sources * wanted, 32)), block = 32,
    ids, counts, s.lists, s.tokens, s.parents, s.control, s.ends, s.sources, wanted, s.beams, s.room,
  }
  local how, scores, longest, out = counts:totable(), s.scores:totable(), 1, {}
  for i = 1, sources do
    for r = 1, wanted do longest = math.max(longest, how[i][r][1]) end
  end
  local rows = ids:slice(3, 1, longest):totable()
  for i = 1, sources do
    out[i] = {}
    for r = 1, wanted do
      local count, ended = how[i][r][1], how[i][r][2]
      if count >= 0 then table.insert(out[i], hypothesis(rows[i][r], count, ended, scores[i][2][r])) end
    end
  end
  return out
end

return m
