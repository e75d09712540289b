-- How close plans come to their lower bound, and what planning costs; random weights, source of 16 tokens:
--
--   build/reprise spec/support/plan_ratio.lua [cpu|cuda:0] [shape ...]        demo, small, base, large, 3b unless named
--
-- A line a captured step: nodes, peak of its plan, largest sum of bytes alive at once, their ratio. Then 500 random sets
-- of lifetimes (spec/support/random_graphs.lua, seed 42), and the time to plan 400 nodes, best and worst of nine sets.
local core = require "reprise.core"
local growing = require "reprise.growing"
local random_graphs = require "spec.support.random_graphs"
local rp = require "reprise"

local dev = rp.device(arg[1] or "cpu")
local shapes = #arg > 1 and table.move(arg, 2, #arg, 1, {}) or { "demo", "small", "base", "large", "3b" }

local line = "%-7s %-34s %6s %12s %12s %7s"

local function show(shape, step, graphs)
  local worst = graphs[1]
  for _, g in ipairs(graphs) do
    if g.plan.peak * worst.plan.lower_bound > worst.plan.peak * g.plan.lower_bound then worst = g end
  end
  local plan = worst.plan
  print(line:format(shape, step, worst.nodes, plan.peak, plan.lower_bound, ("%.4f"):format(plan.peak / plan.lower_bound)))
end

local function of_shape(shape)
  local model, ids = rp.t5.random(shape, { device = dev, seed = 1, dtype = "f16", kv = "f16" }), {}
  for i = 1, 16 do ids[i] = 3 + i end
  local function generated(step, options)
    options.max_new_tokens, options.eos_token_id = 1, false
    model:generate(ids, options)
    show(shape, step, model.idle[#model.idle].step:graphs())
  end
  generated("greedy", {})
  generated("sampled, repetitions looked for", { do_sample = true, seed = 1, repetition_penalty = 1.2 })
  generated("5 beams", { num_beams = 5 })
  local s = model:open({ ids }, { rows = 5, max_new_tokens = 2 })
  s:step(rp.zeros({ 5 }, "i32", dev), rp.zeros({ 5 }, "i32", dev))
  show(shape, "a session's, 5 rows", s.state.step:graphs())
  s:close()
  for _, rows in ipairs { 1, 5 } do
    local g = growing.open(model, ids, { rows = rows, new = 6 })
    g:run()
    show(shape, ("growing caches, %d rows, worst of 6"):format(rows), g:graphs())
  end
end

local function random_sets()
  local sum, most, count = 0, 0, 0
  for lives in random_graphs.each(500, 42) do
    local _, peak, bound = core.plan(lives)
    sum, most, count = sum + peak / bound, math.max(most, peak / bound), count + 1
  end
  print(("%d random graphs: mean %.4f, worst %.4f"):format(count, sum / count, most))
end

local function planning(kind)
  local least, most = math.huge, 0
  for _ = 1, 9 do
    local lives = random_graphs.lives(kind, 400)
    local begun = core.clock()
    core.plan(lives)
    local ms = (core.clock() - begun) * 1e3
    least, most = math.min(least, ms), math.max(most, ms)
  end
  print(("planning 400 nodes, %s: %.1f to %.1f ms"):format(kind, least, most))
end

print(line:format("shape", "step", "nodes", "peak", "bound", "ratio"))
for _, shape in ipairs(shapes) do
  of_shape(shape)
  collectgarbage()
  dev.pool:trim()
end
random_sets()
for _, kind in ipairs { "chain", "layered", "mix" } do planning(kind) end
