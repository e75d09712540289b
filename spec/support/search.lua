--- Beam search of one source in plain Lua, as transformers 5.17 computes it: the judge of kernels/beam.cu.
--
-- Sums are rounded to f32 as there; what comes from beams that only fill the list is told apart by `real`.

local m = {}

local FAR = -1e9

local function f32(x) return (string.unpack("<f", string.pack("<f", x))) end
m.f32 = f32

--- Log-softmax of a list.
function m.log_softmax(x)
  local most, sum, out = -math.huge, 0, {}
  for _, v in ipairs(x) do most = math.max(most, v) end
  for _, v in ipairs(x) do sum = sum + math.exp(v - most) end
  local log = f32(math.log(f32(sum)))
  for i, v in ipairs(x) do out[i] = f32(f32(v - most) - log) end
  return out
end

local function set_of(list)
  local set = {}
  for _, v in ipairs(list) do set[v] = true end
  return set
end

local function repeats(row, n, i)
  for k = 1, n - 1 do
    if row[i + k - 1] ~= row[#row - n + 1 + k] then return false end
  end
  return true
end

--- Scores (a list, id + 1) of a row of tokens, changed as the options say.
function m.process(row, s, o)
  local r, n = o.repetition_penalty or 1, o.no_repeat_ngram_size or 0
  if r ~= 1 then
    for id in pairs(set_of(row)) do s[id + 1] = f32(s[id + 1] < 0 and s[id + 1] * f32(r) or s[id + 1] / f32(r)) end
  end
  if n > 0 then
    for i = 1, #row - n + 1 do
      if repeats(row, n, i) then s[row[i + n - 1] + 1] = -math.huge end
    end
  end
  if #row < (o.shortest or 0) then
    for _, id in ipairs(o.ends) do s[id + 1] = -math.huge end
  end
  return s
end

-- The best n of a list by `key`, of equal ones the first.
local function best(list, n, key)
  for i, entry in ipairs(list) do entry.order = i end
  table.sort(list, function(a, b)
    if a[key] ~= b[key] then return a[key] > b[key] end
    return a.order < b.order
  end)
  return table.move(list, 1, math.min(n, #list), 1, {})
end

local function extended(row, id)
  local out = table.move(row, 1, #row, 1, {})
  out[#out + 1] = id
  return out
end

-- The candidates of all running beams, in order.
local function candidates(running, logits, o, k)
  local all = {}
  for b, beam in ipairs(running) do
    local s = m.process(beam.row, m.log_softmax(logits[b]), o)
    for id = 0, #s - 1 do
      local a = f32(s[id + 1] + beam.score)
      all[#all + 1] = { a = a, id = id, beam = b, real = beam.real and a > -math.huge }
    end
  end
  return best(all, k, "a")
end

local function finishes(c, rank, hit, closed, full, o, divisor)
  local f = f32(c.a / divisor)
  c.finished = hit and rank <= o.num_beams
  if full and o.early_stopping == true then f = f32(f + FAR) end
  if closed then f = f32(f + FAR) end
  if not c.finished then f = f32(f + FAR) end
  c.f = f
end

--- Searches from `prompt`; step(rows, parents) gives the logits (lists) of each running row, parents counted from 1 and
--- nil at first. o: num_beams, max_new, length_penalty, early_stopping, repetition_penalty, no_repeat_ngram_size,
--- shortest, ends. Returns the finished list, best first: { row, f, finished, real, ended }.
function m.search(step, prompt, o)
  local beams, w, ends = o.num_beams, o.length_penalty or 1, set_of(o.ends)
  local k, longest = math.max(2, 1 + #o.ends) * beams, #prompt + o.max_new
  local running, finished, open, parents = {}, {}, true, nil
  for b = 1, beams do
    running[b] = { row = prompt, score = b == 1 and 0 or FAR, real = b == 1 }
    finished[b] = { f = FAR, finished = false }
  end
  local function full()
    for _, h in ipairs(finished) do
      if not h.finished then return false end
    end
    return true
  end
  for n = 1, o.max_new do
    local list, was_full, all_hit = candidates(running, step(running, parents), o, k), full(), true
    local divisor, pool = f32((n + 0.0) ^ w), table.move(finished, 1, beams, 1, {})
    for rank, c in ipairs(list) do
      local hit = ends[c.id] or #prompt + n >= longest
      all_hit = all_hit and hit
      c.row, c.ended = extended(running[c.beam].row, c.id), ends[c.id] or false
      c.score = f32(c.a + (hit and FAR or 0))
      finishes(c, rank, hit, not open, was_full, o, divisor)
      c.real = c.real
      pool[#pool + 1] = c
    end
    finished = best(pool, beams, "f")
    running, parents = best(list, beams, "score"), {}
    for b, c in ipairs(running) do parents[b] = c.beam end
    while #running < beams do
      running[#running + 1] = { row = extended(prompt, 0), score = -math.huge, real = false }
    end
    local horizon = o.early_stopping == "never" and w > 0 and o.max_new or n
    local possible = f32(running[1].score / f32((horizon + 0.0) ^ w))
    open = open and possible > (full() and finished[beams].f or FAR)
    if not open or (o.early_stopping == true and full()) or all_hit then break end
  end
  local out = {}
  for _, h in ipairs(finished) do
    if h.finished and h.real then out[#out + 1] = h end
  end
  return out
end

return m
