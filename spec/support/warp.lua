-- warp.lua - what changes scores before a token is chosen or drawn, in plain Lua, on lists by id + 1.

local m = {}

--- Repetition penalty, then n-grams that would occur twice get -inf. tokens: the row so far, prompt included.
function m.adjust(logits, tokens, penalty, n)
  local scores = table.move(logits, 1, #logits, 1, {})
  if penalty ~= 1 then
    for _, id in ipairs(tokens) do
      local x = logits[id + 1]
      scores[id + 1] = x < 0 and x * penalty or x / penalty
    end
  end
  for i = 1, n > 0 and #tokens - n + 1 or 0 do
    local same = true
    for k = 1, n - 1 do same = same and tokens[i + k - 1] == tokens[#tokens - n + 1 + k] end
    if same then scores[tokens[i + n - 1] + 1] = -math.huge end
  end
  return scores
end

local function softmax(scores, kept)
  local most, sum, p = -math.huge, 0, {}
  for i, x in ipairs(scores) do
    if kept[i] then most = math.max(most, x) end
  end
  for i, x in ipairs(scores) do
    p[i] = kept[i] and math.exp(x - most) or 0
    sum = sum + p[i]
  end
  for i in ipairs(p) do p[i] = p[i] / sum end
  return p
end

-- Equals of the k-th largest stay.
local function keep_best(scores, kept, k)
  local sorted = table.move(scores, 1, #scores, 1, {})
  table.sort(sorted, function(a, b) return a > b end)
  for i, x in ipairs(scores) do kept[i] = x >= sorted[math.min(k, #sorted)] end
end

-- In ascending order, lower ids first among equals, what lies below 1 - p goes; the last stays.
local function keep_mass(scores, kept, p)
  local probabilities, order, sum = softmax(scores, kept), {}, 0
  for i in ipairs(scores) do order[i] = i end
  table.sort(order, function(a, b)
    local x, y = kept[a] and scores[a] or -math.huge, kept[b] and scores[b] or -math.huge
    return x < y or x == y and a < b
  end)
  for place, i in ipairs(order) do
    sum = sum + probabilities[i]
    if sum <= 1 - p and place < #order then kept[i] = false end
  end
end

--- Probabilities after temperature, top_k, top_p and min_p, in this order; what may not be drawn has none.
function m.probabilities(logits, o)
  local scores, kept = {}, {}
  for i, x in ipairs(logits) do scores[i], kept[i] = x / (o.temperature or 1), true end
  if (o.top_k or 0) > 0 then keep_best(scores, kept, o.top_k) end
  if (o.top_p or 1) < 1 then keep_mass(scores, kept, o.top_p) end
  local p = softmax(scores, kept)
  local most = math.max(table.unpack(p))
  for i in ipairs(p) do
    if p[i] < (o.min_p or 0) * most then kept[i] = false end
  end
  return softmax(scores, kept)
end

return m
