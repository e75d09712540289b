-- usage: reprise scripts/bench.lua [options]
-- What a decoder's step takes, beside the floors that the device sets, measured in the same run: a kernel that only
-- reads the same bytes, and a chain of empty kernels as long as the step's graph. Weights are random.
local rp = require "reprise"
local bench = require "reprise.bench"
local cli = require "reprise.cli"
local launch = require "reprise.launch"
local sheet = require "reprise.sheet"

local function list(read)
  return function(text)
    local out = {}
    for word in text:gmatch "[^,]+" do
      local value = read(word)
      if not value then return nil, ("%q is not one of those that can be had"):format(word) end
      out[#out + 1] = value
    end
    return out
  end
end
local SHAPES = { demo = "demo", small = "small", base = "base", large = "large", ["3b"] = "3b" }
local function shape(word) return SHAPES[word] end
local function beams(word)
  local n = math.tointeger(tonumber(word))
  return n and n >= 1 and n <= 16 and n or nil
end

local options = cli.parse(arg, {
  usage = "reprise scripts/bench.lua [options]",
  { "shapes", "LIST", "of demo, small, base, large, 3b; default: all on a GPU, the first three on the CPU",
    read = list(shape) },
  { "beams", "LIST", "numbers from 1 to 16; default 1,5,8", read = list(beams), default = { 1, 5, 8 } },
  { "source", "N", "source tokens; default 128 on a GPU, 32 on the CPU", number = true },
  { "new", "N", "new tokens; likewise", number = true },
  { "runs", "N", "of which the median is shown; default 5", number = true, default = 5 },
  { "dtype", "TYPE", "of the weights: f16, bf16 or f32; default f16", default = "f16",
    choices = { "f32", "f16", "bf16" } },
  { "kv", "TYPE", "type of the caches, f32 or f16; default f32", default = "f32", choices = { "f32", "f16" } },
  { "device", "NAME", "cpu, cuda:0, ...; default: REPRISE_DEVICE, else the best present" },
  { "peer", "FILE", "JSON lines of others (scripts/peers.sh), to stand in the same table", read = sheet.read_peers },
  { "nodes", nil, "time per node instead, by the device's clock" },
  { "no-start", nil, "leave out loading and starting, for which models are written to a folder of their own" },
  { "json", nil, "one JSON object a row" },
})
local device = rp.device(options.device)
local gpu = launch.is_gpu(device)
local length = gpu and 128 or 32
local o = { source = options.source or length, new = options.new or length, runs = options.runs, kv = options.kv }

local terminal = os.execute "test -t 2" == true
local function progress(...)
  if terminal then io.stderr:write("\r", string.format(...), "\27[K") end
end

local function facts(name, count)
  return {
    shape = name, beams = count, source = o.source, new = o.new, runs = o.runs, device = device.name,
    model = device.model, threads = not gpu and device.units or nil, dtype = options.dtype, kv = o.kv,
  }
end

local function show(row)
  progress ""
  if options.json then print(sheet.json(row)) else sheet[options.nodes and "nodes" or "row"](row) end
end

local function measure(model, name, count, starts)
  local row = facts(name, count)
  o.beams = count
  progress("%s, beams: %d", name, count)
  if options.nodes then row.nodes = bench.nodes(model, o)
  else for key, value in pairs(bench.row(model, o)) do row[key] = value end end
  for key, value in pairs(starts or {}) do row[key] = value end
  row.peers = sheet.peers_of(options.peer or {}, row)
  show(row)
end

if not options.json then sheet.title(facts(), options) end
local usual = gpu and { "demo", "small", "base", "large", "3b" } or { "demo", "small", "base" }
for _, name in ipairs(options.shapes or usual) do
  progress("%s", name)
  local model = rp.t5.random(name, { device = device, seed = 1, dtype = options.dtype, kv = o.kv })
  local starts = not options.nodes and not options.no_start and bench.starts(model, o, progress)
  for _, count in ipairs(options.beams) do measure(model, name, count, starts) end
  model = nil -- luacheck: ignore
  collectgarbage()
  device.pool:trim()
end
