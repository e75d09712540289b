-- checkpoint.lua - the tiny checkpoints of spec/fixtures/t5: expected values, comparisons, and variants of their files.

local core = require "reprise.core"
local rp = require "reprise"
local helper = require "spec.helper"
local stored = require "spec.support.safetensors"

local m = {}

m.names = {
  "tied-relu", "sharded-relu", "untied-gated-gelu", "untied-gated-silu-bf16", "asym-fp16", "start-not-pad",
  "defaults-32-128",
}

function m.folder(name) return helper.fixture("t5/" .. name) end

function m.json(path) return core.json_decode(helper.read(path), path) end

--- expected.json of a checkpoint, with `lists`: its sources without what the masks hide.
function m.expected(name)
  local e = m.json(m.folder(name) .. "/expected.json")
  e.lists = {}
  for i, ids in ipairs(e.input_ids) do
    e.lists[i] = {}
    for j, id in ipairs(ids) do
      if e.attention_mask[i][j] == 1 then table.insert(e.lists[i], id) end
    end
  end
  return e
end

--- The largest |x - y| / max(1, |y|) of two lists.
function m.distance(x, y)
  local most = 0
  assert(#x == #y, "lists of different lengths")
  for i = 1, #y do
    local d = math.abs(x[i] - y[i]) / math.max(1, math.abs(y[i]))
    if d ~= d then return math.huge end
    most = math.max(most, d)
  end
  return most
end

--- A list of ids up to the first end id, without it.
function m.until_end(ids, ends)
  local out = {}
  for _, id in ipairs(ids) do
    if ends[id] then break end
    out[#out + 1] = id
  end
  return out
end

--- A copy of a checkpoint's folder with one file of weights: `change(entries, config)` may rename, add and remove
--- entries { name, dtype, shape, data } and change keys of config.json.
function m.variant(name, change)
  local folder = helper.tmp()
  local config = m.json(m.folder(name) .. "/config.json")
  local entries = stored.read(m.folder(name) .. "/model.safetensors")
  local function find(wanted)
    for i, entry in ipairs(entries) do
      if entry.name == wanted then return entry, i end
    end
  end
  change(entries, config, find)
  stored.write(folder .. "/model.safetensors", entries)
  helper.write(folder .. "/config.json", core.json_encode(config))
  return folder
end

--- Adds a copy of an entry under another name.
function m.repeated(entries, entry, name)
  table.insert(entries, { name = name, dtype = entry.dtype, shape = entry.shape, data = entry.data })
end

--- Log-probabilities (id + 1) of what follows a row of tokens, by a session of its own: no search, no capture of one.
function m.follower(model, source)
  local judge = require "spec.support.search"
  return function(row)
    local s <close> = model:open(source, { max_new_tokens = 16 })
    local logits
    for _, id in ipairs(row) do logits = s:step(rp.tensor({ id }, "i32", model.device)) end
    return judge.log_softmax(logits:totable()[1])
  end
end

--- The step of a search in plain Lua over `count` beams; each row is read from its start again.
function m.step(model, source, count)
  local sources = {}
  for b = 1, count do sources[b] = source end
  return function(running)
    local s <close> = model:open(sources, { max_new_tokens = 16 })
    local logits
    for t = 1, #running[1].row do
      local ids = {}
      for b = 1, count do ids[b] = running[b].row[t] end
      logits = s:step(rp.tensor(ids, "i32", model.device))
    end
    return logits:totable()
  end
end

--- What such a search found, without prompt and end.
function m.hypotheses(judged, prompt)
  local out = {}
  for n, h in ipairs(judged) do
    out[n] = { ids = table.move(h.row, prompt + 1, #h.row - (h.ended and 1 or 0), 1, {}), score = h.f }
  end
  return out
end

local function from_f16(bits)
  local sign, power, rest = bits >> 15, bits >> 10 & 31, bits & 1023
  local size = power == 0 and rest * 2.0 ^ -24 or (1024 + rest) * 2.0 ^ (power - 25)
  return sign == 1 and -size or size
end

--- Turns an entry of F16 into one of F32 with the same values.
function m.widen(entry)
  assert(entry.dtype == "F16")
  local parts = {}
  for at = 1, #entry.data, 2 do parts[#parts + 1] = ("<f"):pack(from_f16((("<I2"):unpack(entry.data, at)))) end
  entry.dtype, entry.data = "F32", table.concat(parts)
end

return m
