--- The library's operations in plain Lua, in double precision, on flat lists; and tensors to try them on.
local rp = require "reprise"

local m = {}

--- Numbers in [-scale, scale), the same for every run: a linear congruential generator of 32 bits.
---@param seed integer
---@return fun(scale: number?): number
function m.random(seed)
  local state = seed
  return function(scale)
    state = (state * 1664525 + 1013904223) & 0xffffffff
    return ((state >> 8) / (1 << 23) - 1) * (scale or 1)
  end
end

local function size(shape)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return n
end

--- A tensor of random numbers and, as a flat list, what it holds once they are rounded to its dtype.
---@return reprise.Tensor x
---@return number[] values
function m.tensor(random, shape, dtype, dev, scale)
  local n, list = size(shape), {}
  for i = 1, n do list[i] = random(scale) end
  local x = rp.tensor(list, "f32", dev):to(dtype)
  return x:view(shape), x:to("f32"):totable()
end

--- Values of a tensor as a flat list.
---@return number[]
function m.flat(x) return x:view({ size(x.shape) }):totable() end

--- The first place where |x - want| > bound, as a sentence; nil if there is none. bound: a number or a list.
---@return string?
function m.difference(x, want, bound)
  for i = 1, #want do
    local limit = type(bound) == "table" and bound[i] or bound
    local off = math.abs(x[i] - want[i])
    if off > limit or off ~= off then
      return ("element %d is %.9g, %.9g is expected, within %.2g"):format(i, x[i], want[i], limit)
    end
  end
  if #x ~= #want then return ("%d elements, %d are expected"):format(#x, #want) end
end

-- erf by its series, which is exact enough for |x| < 4 in double precision.
local function erf(x)
  if math.abs(x) > 4 then return x > 0 and 1 or -1 end
  local sum, term, n = x, x, 0
  repeat
    n = n + 1
    term = -term * x * x / n
    sum = sum + term / (2 * n + 1)
  until math.abs(term) < 1e-18
  return sum * 2 / math.sqrt(math.pi)
end

local function tanh(x) return 1 - 2 / (math.exp(2 * x) + 1) end

m.activation = {
  none = function(a) return a end,
  relu = function(a) return math.max(a, 0) end,
  gelu = function(a) return 0.5 * a * (1 + erf(a / math.sqrt(2))) end,
  gelu_new = function(a) return 0.5 * a * (1 + tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a ^ 3))) end,
  silu = function(a) return a / (1 + math.exp(-a)) end,
}

--- T5's norm of `rows` rows of n.
---@return number[]
function m.norm(x, gamma, rows, n, epsilon)
  local y = {}
  for r = 0, rows - 1 do
    local square = 0
    for k = 1, n do square = square + x[r * n + k] ^ 2 end
    local scale = 1 / math.sqrt(square / n + epsilon)
    for k = 1, n do y[r * n + k] = x[r * n + k] * scale * gamma[k] end
  end
  return y
end

--- x w^T, and for each element the sum of the absolute terms, which bounds what rounding may do.
---@return number[] y
---@return number[] weight
function m.product(x, w, rows, n, columns)
  local y, weight = {}, {}
  for r = 0, rows - 1 do
    for c = 0, columns - 1 do
      local sum, all = 0, 0
      for k = 1, n do
        local term = x[r * n + k] * w[c * n + k]
        sum, all = sum + term, all + math.abs(term)
      end
      y[r * columns + c + 1], weight[r * columns + c + 1] = sum, all
    end
  end
  return y, weight
end

--- Attention of one query of one head. Lists with the offset before the first element; `step` elements from one
--- position to the next; bias(key) is added to the score of key (from 0).
---@return number[]
function m.attend(q, q_at, keys, values, at, step, size_of_head, count, bias)
  local score, most, sum, y = {}, -math.huge, 0, {}
  for p = 0, count - 1 do
    local s = bias and bias(p) or 0
    for d = 1, size_of_head do s = s + q[q_at + d] * keys[at + p * step + d] end
    score[p], most = s, math.max(most, s)
  end
  for p = 0, count - 1 do
    score[p] = math.exp(score[p] - most)
    sum = sum + score[p]
  end
  for d = 1, size_of_head do
    y[d] = 0
    for p = 0, count - 1 do y[d] = y[d] + score[p] / sum * values[at + p * step + d] end
  end
  return y
end

return m
