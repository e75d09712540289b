-- usage: reprise scripts/memory.lua [options]
-- What recycling buys: one decoding, three ways, and the memory that each takes beyond the weights. Each way runs in a
-- process of its own, and all make the same tokens.
local rp = require "reprise"
local apart = require "reprise.apart"
local cli = require "reprise.cli"
local growing = require "reprise.growing"

local options = cli.parse(arg, {
  usage = "reprise scripts/memory.lua [options]",
  { "shape", "NAME", "T5 of random weights: demo, small, base, large, 3b; default small", default = "small" },
  { "model", "FOLDER", "a trained T5 instead" },
  { "beams", "N", "beams; default 1", number = true, default = 1 },
  { "new", "N", "new tokens; default 128", number = true, default = 128 },
  { "source", "N", "source tokens; default 128", number = true, default = 128 },
  { "kv", "TYPE", "type of the caches, f32 or f16; default f32", default = "f32", choices = { "f32", "f16" } },
  { "row", "NAME", "only own, pooled or one, in this process", choices = { "own", "pooled", "one" } },
  { "device", "NAME", "cpu, cuda:0, ...; default: REPRISE_DEVICE, else the best present" },
  { "json", nil, "print one JSON object a row" },
})

local ways = {}

-- A graph for every length, caches that grow by concatenation; each graph has static inputs of its own.
function ways.own(model, ids)
  return growing.open(model, ids, { rows = options.beams, new = options.new, own = true })
end

-- The same, but inputs of all graphs lie in the same slots, and are copied there only when they changed.
function ways.pooled(model, ids) return growing.open(model, ids, { rows = options.beams, new = options.new }) end

-- One graph for all lengths: caches of the final size, position on the device. What generate does.
function ways.one(model, ids)
  local way, out = { copied = 0, skipped = 0 }, nil
  function way.run()
    local before = model:figures().stepping
    out = model:generate(ids, { num_beams = options.beams, max_new_tokens = options.new, eos_token_id = false })[1]
    return model:figures().stepping - before
  end
  function way.tokens() return out.ids end
  function way.graphs() return next(model.states).step:graphs() end
  return way
end

local function load(dev)
  if options.model then return rp.t5.load(options.model, { device = dev, kv = options.kv }) end
  return rp.t5.random(options.shape, { device = dev, kv = options.kv, seed = 1, dtype = "f16" })
end

local function measure(name)
  local dev, ids, times, ratio = rp.device(options.device), {}, {}, 1
  local pool, empty = dev.pool, dev.pool:figures().device_used
  for i = 1, options.source do ids[i] = 3 + i * 7919 % 256 end
  local model = load(dev)
  collectgarbage()
  local weights, way, c = pool:figures().allocated, ways[name](model, ids), model.config
  way:run() -- captures
  pool:trim() -- what the encoder used goes back
  local f, copied, skipped = pool:figures(), way.copied // options.new, way.skipped // options.new
  for i = 1, 3 do times[i] = way:run() end
  table.sort(times)
  for _, graph in ipairs(way:graphs()) do ratio = math.max(ratio, graph.plan.peak / graph.plan.lower_bound) end
  return {
    row = name, device = dev.name, kv = options.kv, beams = options.beams, new = options.new, source = options.source,
    model = options.model or "T5-" .. options.shape, weights = weights, -- bytes, as all that follow
    keys_and_values = 2 * c.layers.decoder * c.inner * (options.beams * options.new + options.source)
      * (options.kv == "f16" and 2 or 4),
    allocated = f.allocated - weights, reserved = f.reserved - weights, peak = f.peak_allocated - weights,
    tensors = f.tensors.allocated - weights, slots = f.slots.allocated, scratch = f.scratch.allocated,
    executables = f.executables, device_used = f.executables and f.device_used - empty, copied = copied,
    skipped = skipped, us = times[2] / options.new * 1e6, graphs = #way:graphs(), plan_ratio = ratio,
    tokens = way:tokens(),
  }
end

if options.row then return print(rp.json_encode(measure(options.row))) end

local rows = {}
for i, name in ipairs { "own", "pooled", "one" } do
  local row, text = apart.run(arg, "--row", name)
  rows[i] = row
  if options.json then io.write(text) end
  if rp.json_encode(row.tokens) ~= rp.json_encode(rows[1].tokens) then error("the rows make different tokens", 0) end
end
if options.json then return end
local names = { "allocated", "tensors", "slots", "scratch", "reserved", "peak", "executables", "device_used", "copied",
  "skipped", "us", "graphs" }
local r, line = rows[1], "%-10s" .. (" %11s"):rep(#names)
local function mib(bytes) return bytes and ("%.1f"):format(bytes / 2 ^ 20) or "-" end
print(("%s on %s: %s MiB of weights; beams: %d, new tokens: %d, source tokens: %d, %s keys and values: %s MiB"):format(
  r.model, r.device, mib(r.weights), r.beams, r.new, r.source, r.kv, mib(r.keys_and_values)))
print(("MiB (2^20 bytes) above the weights; copied, skipped and us are a token's; device_used: above an idle process; "
  .. "plans at most %.4f times their bound"):format(math.max(r.plan_ratio, rows[2].plan_ratio, rows[3].plan_ratio)))
print(line:format("", table.unpack(names)))
for i, title in ipairs { "own inputs", "pooled", "one graph" } do
  local cells = {}
  for k, name in ipairs(names) do cells[k] = k <= 10 and mib(rows[i][name]) or ("%.0f"):format(rows[i][name]) end
  print(line:format(title, table.unpack(cells)))
end
