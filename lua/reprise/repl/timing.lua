-- repl/timing.lua - how long an expression takes: `:time`.
--
-- The first run warms up and says how much work there is. Then samples are taken for about a second: each runs the
-- expression as often as a clock needs to see it. Devices are waited for inside each sample, so that what is measured
-- is the work and not its being queued; how soon the call came back is measured too, when a GPU is among them.

local clock = require "reprise.core".clock

local m = {}

local TOTAL, LEAST, MOST = 1.0, 5, 1000 -- seconds for all samples; samples
local FINE = 20e-6 -- shortest sample, seconds

local UNITS = { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "us" }, { 1e-9, "ns" } }

-- "12.3 us"
local function seconds(value)
  for _, unit in ipairs(UNITS) do
    if value >= unit[1] or unit[2] == "ns" then return ("%.3g %s"):format(value / unit[1], unit[2]) end
  end
end

local function wait(devices)
  for _, device in ipairs(devices) do device:synchronize() end
end

-- Seconds of one run of a sample of `count`, and until the last call of it returned.
local function sample(expression, count, devices)
  local start = clock()
  for _ = 1, count do expression() end
  local returned = clock()
  wait(devices)
  return (clock() - start) / count, (returned - start) / count
end

local function quantile(sorted, part) return sorted[1 + math.floor(part * (#sorted - 1) + 0.5)] end

-- How many runs make a sample that the clock can see.
local function runs_of_sample(expression, devices)
  local count = 1
  while true do
    local one = sample(expression, count, devices)
    if one * count >= FINE or count >= 1 << 20 then return count, one end
    count = count * 2
  end
end

---@class reprise.Timing seconds of one run
---@field first number the one that warmed up
---@field median number
---@field low number a quarter of the samples took less
---@field high number a quarter took more
---@field least number
---@field most number
---@field returned number until the call came back, median
---@field runs integer

--- Runs a function for about a second.
---@param expression function
---@param devices reprise.Device[] to be waited for
---@return reprise.Timing
function m.measure(expression, devices)
  wait(devices)
  local first = sample(expression, 1, devices)
  local count, one = runs_of_sample(expression, devices)
  local samples = math.max(LEAST, math.min(MOST, TOTAL // (one * count)))
  local times, returns = {}, {}
  for i = 1, samples do times[i], returns[i] = sample(expression, count, devices) end
  table.sort(times)
  table.sort(returns)
  return {
    first = first, median = quantile(times, 0.5), low = quantile(times, 0.25), high = quantile(times, 0.75),
    least = times[1], most = times[#times], returned = quantile(returns, 0.5), runs = samples * count,
  }
end

local function gpus(devices)
  local names = {}
  for _, device in ipairs(devices) do
    if device.name ~= "cpu" then names[#names + 1] = device.name end
  end
  return names
end

--- Measures and prints.
---@param expression function
---@param devices reprise.Device[]
function m.show(expression, devices)
  local t, names = m.measure(expression, devices), gpus(devices)
  io.stdout:write(("median %s, half of them %s to %s, all %s to %s\n"):format(seconds(t.median), seconds(t.low),
    seconds(t.high), seconds(t.least), seconds(t.most)))
  io.stdout:write(("%d runs, after a first one of %s\n"):format(t.runs, seconds(t.first)))
  if #names > 0 then
    io.stdout:write(("each until %s was done; the call came back after %s\n"):format(table.concat(names, ", "),
      seconds(t.returned)))
  end
end

return m
