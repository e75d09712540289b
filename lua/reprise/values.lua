-- values.lua - the values of a tensor as text, by the rules that PyTorch prints by: four digits, at most 80 columns,
-- and of more than 1000 elements the first and last three of each dimension. Behind them stand dtype, shape, device.
--
--   {{0.0000, 0.5000},
--    {1.0000, 1.5000}}
--   f32 {2, 2} on cpu
--
-- Only the shown elements leave the device: the corners of a large tensor are gathered into a small one there.
-- Rules: https://docs.pytorch.org/docs/stable/generated/torch.set_printoptions.html

local DIGITS, EDGE, THRESHOLD, COLUMNS = 4, 3, 1000, 80

-- ---- what is shown

-- Copies the corners of `x` into `y`, whose dimensions are those of x, or 2 * EDGE where they were longer.
local function gather(x, y, from)
  for dim = from, x.rank do
    if x.shape[dim] ~= y.shape[dim] then
      for _, ends in ipairs { { 1, EDGE }, { -EDGE, -1 } } do
        local part <close> = x:slice(dim, ends[1], ends[2])
        local place <close> = y:slice(dim, ends[1], ends[2])
        gather(part, place, dim + 1)
      end
      return
    end
  end
  y:copy(x)
end

-- The shown values as nested tables, and the set of dimensions that are cut.
local function shown(x)
  if x.elements <= THRESHOLD then return x:totable(), {} end
  local shape, cut = x.shape, {}
  for dim, size in ipairs(shape) do
    if size > 2 * EDGE then shape[dim], cut[dim] = 2 * EDGE, true end
  end
  if not next(cut) then return x:totable(), cut end
  local small <close> = require "reprise.core".empty(shape, x.dtype, x.device)
  gather(x, small, 1)
  return small:totable(), cut
end

-- ---- one format for all

local function finite(value) return value == value and math.abs(value) < math.huge end

local function each(values, visit)
  if type(values) ~= "table" then return visit(values) end
  for _, value in ipairs(values) do each(value, visit) end
end

-- Is there a fraction among them, and are they too far apart, too large or too small for plain digits?
local function habit_of(values)
  local least, most, whole = math.huge, 0, true
  each(values, function(value)
    if value == 0 or not finite(value) then return end
    local size = math.abs(value)
    least, most, whole = math.min(least, size), math.max(most, size), whole and value == math.floor(value)
  end)
  return most > 0 and (most / least > 1000 or most > 1e8 or least < 1e-4), whole
end

-- A function that writes one value, without padding.
local function writer(values)
  local scientific, whole = habit_of(values)
  local format = scientific and "%%.%de" or whole and "%%.0f." or "%%.%df"
  format = format:format(DIGITS)
  return function(value)
    if math.type(value) == "integer" then return ("%d"):format(value) end
    if value ~= value then return "nan" end
    return finite(value) and format:format(value) or value > 0 and "inf" or "-inf"
  end
end

-- Zeros and what is not finite do not widen the columns of fractions.
local function width_of(values, write)
  local width = 1
  each(values, function(value)
    if math.type(value) == "integer" or (value ~= 0 and finite(value)) then width = math.max(width, #write(value)) end
  end)
  return width
end

-- ---- the text

local function padded(text, width) return (" "):rep(width - #text) .. text end

local function vector(values, style, cut, indent)
  local cells, lines = {}, {}
  for i, value in ipairs(values) do
    if cut and i == EDGE + 1 then cells[#cells + 1] = " ..." end
    cells[#cells + 1] = padded(style.write(value), style.width)
  end
  local most = math.max(1, (COLUMNS - indent) // (style.width + 2))
  for i = 1, #cells, most do
    lines[#lines + 1] = table.concat(cells, ", ", i, math.min(i + most - 1, #cells))
  end
  return "{" .. table.concat(lines, ",\n" .. (" "):rep(indent + 1)) .. "}"
end

local function nested(values, style, cut, dim, rank)
  if dim == rank then return vector(values, style, cut[dim], dim - 1) end
  local rows = {}
  for i, row in ipairs(values) do
    if cut[dim] and i == EDGE + 1 then rows[#rows + 1] = "..." end
    rows[#rows + 1] = nested(row, style, cut, dim + 1, rank)
  end
  return "{" .. table.concat(rows, "," .. ("\n"):rep(rank - dim) .. (" "):rep(dim)) .. "}"
end

local function text_of(x)
  if x.elements == 0 then return "{}" end
  local values, cut = shown(x)
  local style = { write = writer(values) }
  style.width = width_of(values, style.write)
  return x.rank == 0 and padded(style.write(values), style.width) or nested(values, style, cut, 1, x.rank)
end

---@param x reprise.Tensor open, with values that may be read
---@return string
return function(x)
  local text, facts = text_of(x), ("%s {%s} on %s"):format(x.dtype, table.concat(x.shape, ", "), x.device.name)
  local one_line = not text:find "\n" and #text + 1 + #facts <= COLUMNS
  return text .. (one_line and " " or "\n") .. facts
end
