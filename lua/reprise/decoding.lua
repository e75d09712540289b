-- decoding.lua - greedy and sampled decoding on the device: a state, its captured step, one decoding over some sources.
--
-- The step ends in choice.advance, which moves everything on and says when it is done: the host only queues replays and
-- reads what the device has written to mapped memory. Numbers of a call lie in the state, so one graph serves all
-- decodings of a size that draw, or not, and look for repetitions, or not.

local choice = require "reprise.choice"
local core = require "reprise.core"
local decoder = require "reprise.decoder"
local launch = require "reprise.launch"
local request = require "reprise.request"

local m = {}

---@class reprise.Decoding
---@field want reprise.Request
---@field rows integer that count, in all
---@field steps integer most steps, those that read the prompt included
---@field queued integer steps begun
local Decoding = {}
Decoding.__index = Decoding

local function finish(model, state, want)
  local size, o = state.size, want.o
  local rows = choice.state(model.device, {
    rows = size.sources * size.rows, room = size.room + 1, ends = #want.ends, draws = o.do_sample,
    adjusts = o.repetition_penalty ~= 1 or o.no_repeat_ngram_size > 0,
  })
  state.choice, state.token, state.position = rows, rows.token, rows.position
  state.step = decoder.step(model, "decode", function() choice.advance(model:forward(state), rows) end)
  function state.close() choice.close(rows) end
end

local function kind_of(want)
  local o = want.o
  local adjusts = o.repetition_penalty ~= 1 or o.no_repeat_ngram_size > 0
  return ("%s%s, %d ends"):format(o.do_sample and "draw" or "choose", adjusts and " adjusted" or "", #want.ends)
end

-- A list of one serves all; else the sources that fill the bucket get the first's.
local function prompts_for(prompts, sources)
  if #prompts == 1 then return prompts end
  local all = table.move(prompts, 1, #prompts, 1, {})
  for i = #prompts + 1, sources do all[i] = prompts[1] end
  return all
end

local function begin(self, numbers)
  local want, o, state = self.want, self.want.o, self.state
  local sampling = o.do_sample
  choice.begin(state.choice, {
    prompts = prompts_for(want.prompts, state.size.sources), longest = want.longest, shortest = want.shortest,
    ends = want.ends, pad = want.pad, real = self.rows, ngram = o.no_repeat_ngram_size, penalty = o.repetition_penalty,
    temperature = sampling and o.temperature, top_k = sampling and o.top_k, top_p = sampling and o.top_p,
    min_p = sampling and o.min_p, seeds = sampling and request.seeds(want.what, o, numbers) or nil,
  })
end

--- Encodes sources into a state, captures its step if it is new, and puts all rows at the start.
---@param model reprise.T5
---@param lists integer[][]
---@param want reprise.Request
---@param numbers integer[] which source of the call each list is, from 0
---@return reprise.Decoding
function m.open(model, lists, want, numbers)
  local each = want.o.num_return_sequences
  local size = decoder.size(kind_of(want), lists, each, want.longest - 1) -- the last token is never fed
  local state = decoder.take(model, size, function(state) finish(model, state, want) end)
  local self = setmetatable({
    model = model, state = state, want = want, rows = #lists * each, each = each, steps = want.longest - 1, queued = 0,
  }, Decoding)
  if state.fresh then decoder.first_step(model, state) end -- no row is open, so it changes nothing
  decoder.encode(model, state, lists)
  begin(self, numbers)
  return self
end

local function run_captured(state, most)
  return state.step:run { max = most, stop = state.choice.signal, ahead = decoder.AHEAD }
end

local function run_eager(state, most)
  for _ = 1, most do
    state.step()
    local made, done = state.choice.signal:step()
    if done then return made end
  end
  return most
end

--- Decodes to the end.
function Decoding:run()
  local model, state, count = self.model, self.state, self.model.count
  local begun = core.clock()
  local run = model.capture and run_captured or run_eager
  count.steps = count.steps + run(state, self.steps)
  count.stepping = count.stepping + core.clock() - begun
end

--- The next token of a decoding of one row; nil after its last. A GPU has a replay queued beyond what is waited for.
---@return integer?
function Decoding:next()
  if not self.state then return nil end
  local state, index = self.state, self.given or 0
  local ahead = launch.is_gpu(self.model.device) and decoder.AHEAD or 0
  local needed = #self.want.prompts[1] + index -- steps, up to the one that makes this token
  if self.over or needed > self.steps then return nil end
  while self.queued < math.min(needed + ahead, self.steps) do
    state.step()
    self.queued = self.queued + 1
  end
  local id = state.choice.signal:wait(index)
  self.given, self.over = index + 1, id == nil or self.want.is_end[id]
  return id
end

local function f32(word) return (("f"):unpack(("i4"):pack(word))) end

-- What one row made, from the ring alone: nothing is waited for.
local function from_ring(self)
  local state, want, ids = self.state, self.want, {}
  local signal, most = state.choice.signal, want.longest - #want.prompts[1]
  for index = 0, most - 1 do
    local id = signal:wait(index)
    ids[#ids + 1] = id
    if want.is_end[id] then break end
  end
  return { { ids = ids, sum = f32(signal:wait(#ids)) } }
end

local function from_tensors(self)
  local s, prompt, rows = self.state.choice, #self.want.prompts[1], {}
  local counts, sums, most = s.finished:totable(), s.sums:totable(), 1
  for r = 1, self.rows do most = math.max(most, counts[r]) end
  local history = s.history:slice(2, prompt + 1, prompt + most):totable()
  for r = 1, self.rows do
    rows[r] = { ids = table.move(history[r], 1, counts[r], 1, {}), sum = sums[r] }
  end
  return rows
end

---@class reprise.Hypothesis
---@field ids integer[] without prompt and end id
---@field score number
---@field finish "eos"|"length"

local function hypothesis(want, row)
  local count = #row.ids
  local ended = want.is_end[row.ids[count]]
  local score = row.sum / count ^ want.o.length_penalty
  if ended then row.ids[count] = nil end
  return { ids = row.ids, score = score, finish = ended and "eos" or "length" }
end

-- Puts a hypothesis behind all that are as good as it.
local function insert(list, x)
  local place = #list + 1
  while place > 1 and x.score > list[place - 1].score do place = place - 1 end
  table.insert(list, place, x)
end

--- What was decoded: for each source a list, best first.
---@return reprise.Hypothesis[][]
function Decoding:results()
  local single = self.state.choice.rows == 1 and self.want.longest <= self.state.choice.signal.records
  local rows, out = (single and from_ring or from_tensors)(self), {}
  for i = 1, self.want.sources do
    out[i] = {}
    for r = 1, self.each do insert(out[i], hypothesis(self.want, rows[(i - 1) * self.each + r])) end
  end
  return out
end

--- Lets the state go to the next decoding, as soon as the steps queued have run; twice is safe.
function Decoding:close()
  if self.state then decoder.put_back(self.model, self.state) end
  self.state = nil
end

Decoding.__close = Decoding.close
Decoding.__gc = Decoding.close

return m
