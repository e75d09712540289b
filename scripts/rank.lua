-- usage: reprise scripts/rank.lua WORD PRONUNCIATION ...
-- How probable the model finds each of some pronunciations of a word, best first, with log p and its share. They are
-- walked as a tree: what several begin with is computed once, and where they part a row goes on from another's.
local rp = require "reprise"
local cli = require "reprise.cli"

local folder = (arg[0]:match "^(.*)/" or ".") .. "/models/g2p"
local _, words = cli.parse(arg, { usage = "reprise scripts/rank.lua WORD PRONUNCIATION ..." })
if #words == 1 then
  io.stderr:write("rank.lua: pronunciations are expected behind the word\n")
  os.exit(2, true)
elseif #words == 0 then
  words = { "tomato", "T AH0 M EY1 T OW2", "T AH0 M AA1 T OW2", "T OW0 M EY1 T OW2", "T AH0 M EY1 T AH0" }
end

local START, END = 0, 1
local model = rp.t5.load(folder)

-- The tree of some lists of ids; a node is { id, children, order of its children }, and at an end the lists' numbers.
local function tree_of(lists)
  local root = { id = START, children = {}, order = {} }
  for number, ids in ipairs(lists) do
    local node = root
    for _, id in ipairs(ids) do
      if not node.children[id] then
        node.children[id] = { id = id, children = {}, order = {} }
        table.insert(node.order, id)
      end
      node = node.children[id]
    end
    node.numbers = node.numbers or {}
    table.insert(node.numbers, number)
  end
  return root
end

-- log of the sum of e^x over a row.
local function log_sum(row)
  local most, sum = math.max(table.unpack(row)), 0
  for _, x in ipairs(row) do sum = sum + math.exp(x - most) end
  return most + math.log(sum)
end

-- The nodes one token further on, each with its log p and the row it comes from; what ends is noted in `scores`.
local function further(nodes, logits, scores)
  local list = {}
  for row, node in ipairs(nodes) do
    local all = log_sum(logits[row])
    for _, id in ipairs(node.order) do
      local child = node.children[id]
      child.score, child.parent = (node.score or 0) + logits[row][id + 1] - all, row - 1
      for _, number in ipairs(child.numbers or {}) do scores[number] = child.score end
      if not child.numbers then list[#list + 1] = child end
    end
  end
  return list
end

-- log p of each list of ids, given a word.
local function rank(word, lists, longest)
  local session <close> = model:open(word, { rows = #lists, max_new_tokens = longest })
  local nodes, scores, tokens, parents = { tree_of(lists) }, {}, {}, {}
  while #nodes > 0 do
    for row = 1, #lists do -- rows that nobody needs any more go along with the first
      local node = nodes[row] or nodes[1]
      tokens[row], parents[row] = node.id, node.parent or 0
    end
    local logits = session:step(rp.tensor(tokens, "i32", model.device), rp.tensor(parents, "i32", model.device))
    nodes = further(nodes, logits:totable(), scores)
  end
  return scores
end

local lists, longest = {}, 0
for i = 2, #words do
  local ids = model.tokenizer:encode(words[i])
  if ids[#ids] ~= END then ids[#ids + 1] = END end
  lists[i - 1], longest = ids, math.max(longest, #ids)
end
local scores, order, sum = rank(words[1]:lower(), lists, longest), {}, 0
for i = 1, #lists do
  order[i], sum = i, sum + math.exp(scores[i])
end
table.sort(order, function(a, b) return scores[a] > scores[b] end)
for _, i in ipairs(order) do
  print(("%s\t%.4f\t%.1f %%"):format(words[i + 1], scores[i], 100 * math.exp(scores[i]) / sum))
end
