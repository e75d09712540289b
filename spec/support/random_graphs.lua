--- Random sets of lifetimes, as graphs of three kinds have them; the same seed gives the same sets.
local m = {}

--- Reaches of a life, in nodes: chain (up to a quarter of the graph), layered (a few nodes), mix (up to the whole graph).
local function reach(kind, nodes)
  if kind == "chain" then return math.random(1, nodes // 4 + 1) end
  if kind == "layered" then return 1 + math.floor(-math.log(math.random() + 1e-12) * 4) end
  return math.random(1, nodes)
end

--- One node makes one value of 256 bytes to 2 MiB, sizes spread evenly over their logarithm.
---@param kind "chain"|"layered"|"mix"
---@param nodes integer
---@return table lives for core.plan
function m.lives(kind, nodes)
  local lives = {}
  for i = 0, nodes - 1 do
    lives[i + 1] = {
      first = i, last = math.min(nodes - 1, i + reach(kind, nodes)),
      bytes = math.floor(math.exp(math.random() * 9) * 256),
    }
  end
  return lives
end

--- `count` graphs of 20 to 400 nodes, the kinds in turn.
---@return fun(): table?, string?
function m.each(count, seed)
  math.randomseed(seed)
  local kinds, i = { "chain", "layered", "mix" }, 0
  return function()
    i = i + 1
    if i > count then return nil end
    local kind = kinds[i % 3 + 1]
    return m.lives(kind, math.random(20, 400)), kind
  end
end

return m
