-- usage: reprise scripts/beam.lua [--beams N] [--tokens N] [word ...]
-- A beam search written out in Lua on captured steps: how to write a decoder of one's own. It finds what
-- model:generate(word, { num_beams = N, num_return_sequences = N }) finds, which does all of this on the device.
local rp = require "reprise"
local cli = require "reprise.cli"

local folder = (arg[0]:match "^(.*)/" or ".") .. "/models/g2p"
local options, words = cli.parse(arg, {
  usage = "reprise scripts/beam.lua [--beams N] [--tokens N] [word ...]",
  { "beams", "N", "beams, and results; default 5", default = 5, number = true },
  { "tokens", "N", "longest result; default 96", default = 96, number = true },
})
if #words == 0 then words = { "knowledge" } end

local START, END, FAR = 0, 1, -1e9
local model = rp.t5.load(folder)

-- log p of every id, from a row of logits.
local function log_softmax(row)
  local most, sum = math.max(table.unpack(row)), 0
  for _, x in ipairs(row) do sum = sum + math.exp(x - most) end
  for id, x in ipairs(row) do row[id] = x - most - math.log(sum) end
  return row
end

-- Puts x into a list that is sorted by score and holds at most `most`.
local function insert(list, most, x)
  local place = #list + 1
  while place > 1 and x.score > list[place - 1].score do place = place - 1 end
  if place <= most then table.insert(list, place, x) end
  list[most + 1] = nil
end

-- The best continuations of all beams: twice as many as beams, so that enough go on when others end.
local function candidates(beams, logits)
  local list, most = {}, 2 * #beams
  for b, beam in ipairs(beams) do
    for id, p in ipairs(log_softmax(logits[b])) do
      local score = beam.score + p
      if #list < most or score > list[most].score then
        insert(list, most, { score = score, parent = b, id = id - 1 })
      end
    end
  end
  return list
end

local function ids_of(beams, i)
  local ids = table.move(beams[i.parent].ids, 1, #beams[i.parent].ids, 1, {})
  ids[#ids + 1] = i.id
  return ids
end

local function search(word, count, limit)
  -- Rows of a session stand side by side; each step tells which row goes on from which. No keys or values are copied.
  local session <close> = model:open(word, { rows = count, max_new_tokens = limit })
  local beams, finished, tokens, parents = {}, {}, {}, {}
  for b = 1, count do -- all begin alike, so only the first counts
    beams[b], tokens[b], parents[b] = { ids = {}, score = b == 1 and 0 or FAR }, START, b - 1
  end
  for n = 1, limit do
    local logits = session:step(rp.tensor(tokens, "i32", model.device), rp.tensor(parents, "i32", model.device))
    local running = {}
    for rank, c in ipairs(candidates(beams, logits:totable())) do
      local ended = c.id == END
      if (ended or n == limit) and rank <= count then
        local ids = ids_of(beams, c)
        if ended then ids[#ids] = nil end
        insert(finished, count, { ids = ids, score = c.score / n })
      end
      if not ended and #running < count then
        running[#running + 1] = { ids = ids_of(beams, c), score = c.score }
        tokens[#running], parents[#running] = c.id, c.parent - 1
      end
    end
    beams = running
    if #finished == count and beams[1].score / n <= finished[count].score then break end
  end
  return finished
end

for _, word in ipairs(words) do
  for _, found in ipairs(search(word:lower(), options.beams, options.tokens)) do
    print(("%s\t%.5f"):format(model.tokenizer:decode(found.ids), found.score))
  end
end
