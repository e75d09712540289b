-- snapshot.lua - pool:snapshot(file): what lies where in a pool, in the format that PyTorch's memory viewer reads.
--
-- A pickle of plain dictionaries and lists; drop the file on https://pytorch.org/memory_viz, or load it in Python. A
-- segment is a run of mapped memory, its blocks fill it; the frame of a block names its zone. Scratch is one block, the
-- largest plan, since all graphs lie over each other. There is no history: device_traces are empty.
-- Format: the docstring of torch.cuda.memory._snapshot, https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
-- Pickle: protocol 2, https://peps.python.org/pep-0307 and Lib/pickletools.py of Python.

local raise = require "reprise.raise"

-- ---- a pickle

local LIST, TUPLE = {}, {} -- metatables: a table with neither is a dictionary

local function list(t) return setmetatable(t, LIST) end

local put

local function put_all(out, values)
  for _, value in ipairs(values) do put(out, value) end
end

local function put_table(out, t)
  local kind = getmetatable(t)
  if kind == TUPLE then
    out[#out + 1] = "("
    put_all(out, t)
    out[#out + 1] = "t"
  elseif kind == LIST then
    out[#out + 1] = "]("
    put_all(out, t)
    out[#out + 1] = "e"
  else
    local keys = {}
    for key in pairs(t) do keys[#keys + 1] = key end
    table.sort(keys)
    out[#out + 1] = "}("
    for _, key in ipairs(keys) do put_all(out, { key, t[key] }) end
    out[#out + 1] = "u"
  end
end

function put(out, value)
  local kind = math.type(value) or type(value)
  if kind == "table" then return put_table(out, value) end
  out[#out + 1] = kind == "integer" and ("\x8a\x08" .. ("<i8"):pack(value)) -- a number of eight bytes
    or kind == "string" and "X" .. ("<s4"):pack(value)
    or kind == "boolean" and (value and "\x88" or "\x89")
    or error("snapshot: no pickle for a " .. kind)
end

local function pickled(value)
  local out = { "\x80\x02" }
  put(out, value)
  out[#out + 1] = "."
  return table.concat(out)
end

-- ---- the snapshot

local TEXTS = { -- zone -> what its blocks are
  tensors = "tensor", slots = "input of captured graphs", scratch = "largest plan of captured graphs",
}

local function block_of(block, zone)
  return {
    address = block.address, size = block.bytes, requested_size = block.bytes,
    state = block.taken and "active_allocated" or "inactive",
    frames = list(block.taken and { { name = TEXTS[zone], filename = zone, line = 0 } } or {}),
  }
end

local function segment_of(segment, device)
  local blocks, taken = list {}, 0
  for i, block in ipairs(segment.blocks) do
    blocks[i] = block_of(block, segment.zone)
    if block.taken then taken = taken + block.bytes end
  end
  return {
    device = device, address = segment.address, total_size = segment.bytes, stream = 0, segment_type = "large",
    segment_pool_id = setmetatable({ 0, 0 }, TUPLE), is_expandable = true, frames = list {}, blocks = blocks,
    allocated_size = taken, active_size = taken, requested_size = taken,
  }
end

local function snapshot_of(pool)
  local device = math.tointeger(pool.device.name:match ":(%d+)$") or 0
  local segments, traces = list {}, list {}
  for i, segment in ipairs(pool:segments()) do segments[i] = segment_of(segment, device) end
  for i = 0, device do traces[i + 1] = list {} end
  return {
    segments = segments, device_traces = traces, external_annotations = list {},
    allocator_settings = { PYTORCH_CUDA_ALLOC_CONF = "", expandable_segments = true, roundup_power2_divisions = {} },
  }
end

---@param pool reprise.Pool
---@param file string
return function(pool, file)
  local text = pickled(snapshot_of(pool))
  local handle, why = io.open(file, "wb")
  if not handle then raise("writing %s", why) end
  local done, fault = handle:write(text)
  local closed, late = handle:close()
  if not done or not closed then raise("writing %s: %s", file, fault or late) end
end
