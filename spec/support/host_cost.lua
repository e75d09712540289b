-- What the host's side costs on a device, best of nine runs:
--
--   build/reprise spec/support/host_cost.lua [cpu|cuda:0]
--
--   empty, close    rp.empty and close, the shape table made beforehand, and made in the call
--   replay          a captured step of one small kernel called from Lua, against step:run, which replays in C
--   capture         record, plan, build of a step of T5-small's shape, without its first replay
local rp = require "reprise"

local dev = rp.device(arg[1])

-- Nanoseconds a turn of fn(turns).
local function best(turns, fn)
  local least = math.huge
  for _ = 1, 9 do
    collectgarbage()
    local begun = rp.clock()
    fn(turns)
    least = math.min(least, rp.clock() - begun)
  end
  return least / turns * 1e9
end

local function show(what, value, unit) print(("%-46s %12.2f %s"):format(what, value, unit)) end

local shape, empty = { 8, 512 }, rp.empty
show("empty and close, shape table reused", best(100000, function(turns)
  for _ = 1, turns do empty(shape, "f32", dev):close() end
end), "ns")
show("empty and close, shape table made in the call", best(100000, function(turns)
  for _ = 1, turns do empty({ 8, 512 }, "f32", dev):close() end
end), "ns")

-- The same replays from C and from Lua.
local function replays(what, step, turns)
  local from_c = best(turns, function(n)
    step:run { max = n }
    dev:synchronize()
  end)
  local from_lua = best(turns, function(n)
    for _ = 1, n do step() end
    dev:synchronize()
  end)
  show("replay of " .. what .. ", in C (step:run)", from_c, "ns")
  show("replay of " .. what .. ", from Lua", from_lua, "ns")
  show("  the ratio", from_lua / from_c, "")
end

local x = rp.zeros({ 8 }, "f32", dev)
local fill = rp.capture(function() x:fill(1) end, { device = dev })
fill()
replays("one small kernel", fill, 20000)

local model = rp.t5.random({
  d_model = 512, d_kv = 64, d_ff = 2048, num_heads = 8, num_layers = 1, num_decoder_layers = 6, vocab_size = 32128,
  feed_forward_proj = "relu",
}, { device = dev, dtype = "f16", kv = "f16" })
for _, beams in ipairs { 1, 5 } do
  model:generate({ 5, 6, 7 }, { num_beams = beams, max_new_tokens = 1, eos_token_id = false })
  local step, least, replay = model.idle[#model.idle].step, math.huge, math.huge
  for _ = 1, 15 do -- all rows have ended: a step changes nothing
    step:graphs()[1]:close()
    collectgarbage()
    local begun = rp.clock()
    step()
    local captured = rp.clock()
    step()
    dev:synchronize()
    least, replay = math.min(least, captured - begun), math.min(replay, rp.clock() - captured)
  end
  local run = dev.name == "cpu" and replay or 0 -- there the call that captures runs the step too
  show(("capture, plan, build of %d nodes, %d beams"):format(step:graphs()[1].nodes, beams), (least - run) * 1e3, "ms")
  replays(("a step, %d beams"):format(beams), step, 25)
end
