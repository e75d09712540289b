-- bias.lua - relative position buckets of T5's self-attention, made on the host in the order of f32 operations.
--
-- d = key position - query position. An encoder has half of its buckets for keys to the right, a decoder sees none.
-- Of the n buckets of a side the first e = n/2 hold one distance each; the others grow with the logarithm, up to
-- `distance`, beyond which all share the last. Source: T5, https://arxiv.org/abs/1910.10683, section 2.1.

local m = {}

local function f32(x) return (string.unpack("f", string.pack("f", x))) end

-- Of a distance d >= 0 on one side.
local function one_side(d, n, distance)
  local e = n // 2
  if d < e then return d end
  local ratio = f32(f32(math.log(f32(d / e))) / f32(math.log(distance / e)))
  return math.min(n - 1, e + math.tointeger(f32(ratio * (n - e)) // 1))
end

--- The row of the bias table for a key d positions after its query (before it: d < 0).
---@param d integer
---@param both boolean an encoder, which sees both sides
---@param buckets integer
---@param distance integer
---@return integer row from 0
function m.bucket(d, both, buckets, distance)
  if not both then return one_side(math.max(-d, 0), buckets, distance) end
  local n = buckets // 2
  return (d > 0 and n or 0) + one_side(math.abs(d), n, distance)
end

--- Rows of the bias table for all d from `first` to `last`, in this order.
---@return integer[]
function m.rows(first, last, both, buckets, distance)
  local rows = {}
  for d = first, last do rows[#rows + 1] = m.bucket(d, both, buckets, distance) end
  return rows
end

return m
