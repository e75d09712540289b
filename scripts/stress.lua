-- usage: reprise scripts/stress.lua [--syllables N] [--results N] [word ...]
-- A word as it sounds with each pattern of stress, the most probable first. Every row of one session decodes greedily
-- under a constraint of its own: a table says which bytes may come next.
local rp = require "reprise"
local cli = require "reprise.cli"

local options, words = cli.parse(arg, {
  usage = "reprise scripts/stress.lua [--syllables N] [--results N] [word ...]",
  { "syllables", "N", "most syllables, to 5; default 3", default = 3, number = true },
  { "results", "N", "results a word; default 5", default = 5, number = true },
})
if #words == 0 then words = { "record" } end

local START, END, SPACE, LIMIT = 0, 1, (" "):byte(), 96
local VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"
local CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
local model = rp.t5.load((arg[0]:match "^(.*)/" or ".") .. "/models/g2p")

-- Adds what may follow each beginning of a phone: next_bytes["A"] has A, E, H, O, W and Y. "" marks a phone's end.
local function learn(next_bytes, phone)
  for i = 0, #phone do
    local part = phone:sub(1, i)
    next_bytes[part] = next_bytes[part] or {}
    next_bytes[part][i < #phone and phone:byte(i + 1) or ""] = true
  end
end

-- The beginnings of phones where the next vowel has to bear `stress`; nil: no vowel may come.
local function beginnings(stress)
  local next_bytes = {}
  for phone in CONSONANTS:gmatch "%u+" do learn(next_bytes, phone) end
  for vowel in (stress and VOWELS or ""):gmatch "%u+" do learn(next_bytes, vowel .. stress) end
  return next_bytes
end
local tables = { ["0"] = beginnings "0", ["1"] = beginnings "1", ["2"] = beginnings "2", [""] = beginnings() }

-- All patterns of so many syllables with one 1 among 0 and 2: "1", then "10", "12", "01", "21", ...
local function patterns(most)
  local list, level = {}, { "" }
  for _ = 1, most do
    local longer = {}
    for _, pattern in ipairs(level) do
      for digit in ("102"):gmatch "." do
        if digit ~= "1" or not pattern:find "1" then longer[#longer + 1] = pattern .. digit end
      end
    end
    level = longer
    for _, pattern in ipairs(level) do list[#list + 1] = pattern:find "1" and pattern or nil end
  end
  return list
end

-- May this byte (or the end) come after what the row has? A phone ends with a space or the end.
local function allowed(row, id)
  local next_bytes = tables[row.left:sub(1, 1)][row.phone]
  if id == END then return next_bytes[""] and (row.left == "" or row.left == row.phone:match "%d") end
  return next_bytes[id - 3] or id - 3 == SPACE and next_bytes[""]
end

local function take(row, id, p)
  row.score, row.count, row.ended = row.score + p, row.count + 1, id == END
  if id == END then return end
  local byte = string.char(id - 3)
  row.text, row.phone = row.text .. byte, row.phone .. byte
  if byte == " " then row.phone, row.left = "", row.phone:find "%d" and row.left:sub(2) or row.left end
end

-- The best id that is allowed, and its log-probability among all.
local function choose(row, logits)
  local best, most, sum = END, -math.huge, 0
  for i, x in ipairs(logits) do
    if x > most and allowed(row, i - 1) then best, most = i - 1, x end
  end
  for _, x in ipairs(logits) do sum = sum + math.exp(x - most) end
  return best, -math.log(sum)
end

for _, word in ipairs(words) do
  local rows, ids, open = {}, {}, 0
  for i, pattern in ipairs(patterns(options.syllables)) do
    rows[i], ids[i], open = { left = pattern, phone = "", text = "", score = 0, count = 0 }, START, i
  end
  local session <close> = model:open(word:lower(), { rows = #rows, max_new_tokens = LIMIT })
  for _ = 1, LIMIT do
    local logits = session:step(rp.tensor(ids, "i32", model.device)):totable()
    for i, row in ipairs(rows) do
      if not row.ended then
        local id, p = choose(row, logits[i])
        take(row, id, p)
        ids[i], open = id, row.ended and open - 1 or open
      end
    end
    if open == 0 then break end
  end
  table.sort(rows, function(a, b) return a.score / a.count > b.score / b.count end)
  for _, row in ipairs(table.move(rows, 1, options.results, 1, {})) do
    print(("%s\t%.5f"):format(row.text, row.score / row.count))
  end
end
