-- What the host's side costs on a device, best of nine runs:
--
--   build/reprise spec/support/host_cost.lua [cpu|cuda:0]
--
--   empty, close    rp.empty and close, the shape table made beforehand, and made in the call
--   replay          a captured step of one small kernel called from Lua, against step:run, which replays in C
--   capture         record, plan, build of a step of T5-small's shape
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

local function show(what, value, unit) print(("%-44s %10.1f %s"):format(what, value, unit)) end

local shape, empty = { 8, 512 }, rp.empty
show("empty and close, shape table reused", best(100000, function(turns)
  for _ = 1, turns do empty(shape, "f32", dev):close() end
end), "ns")
show("empty and close, shape table made in the call", best(100000, function(turns)
  for _ = 1, turns do empty({ 8, 512 }, "f32", dev):close() end
end), "ns")

local x = rp.zeros({ 8 }, "f32", dev)
local step = rp.capture(function() x:fill(1) end, { device = dev })
step()
local from_c = best(20000, function(turns) step:run { max = turns } end)
local from_lua = best(20000, function(turns)
  for _ = 1, turns do step() end
  dev:synchronize()
end)
show("replay of one small kernel, in C (step:run)", from_c, "ns")
show("replay of one small kernel, from Lua", from_lua, "ns")
show("the ratio", from_lua / from_c, "")

local model = rp.t5.random({
  d_model = 512, d_kv = 64, d_ff = 2048, num_heads = 8, num_layers = 1, num_decoder_layers = 6, vocab_size = 32128,
  feed_forward_proj = "relu",
}, { device = dev, dtype = "f16", kv = "f16" })
for _, beams in ipairs { 1, 5 } do
  local least = math.huge
  for turn = 1, 9 do
    local ids, before = {}, model:figures().capturing
    for i = 1, turn * 16 do ids[i] = 3 + i end -- most turns meet a size of their own
    local captured = model:figures().captured
    model:generate(ids, { num_beams = beams, max_new_tokens = 1, eos_token_id = false })
    if model:figures().captured > captured then least = math.min(least, model:figures().capturing - before) end
  end
  show(("capture, plan, build, first step, %d beams"):format(beams), least * 1e3, "ms")
end
