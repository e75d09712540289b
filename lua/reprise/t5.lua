-- t5.lua - T5 and mT5 from a Hugging Face folder: its weights on a device, the encoder, the decoder's step, and the
-- model as users see it. What a folder says is read by config.lua and weights.lua; layers are nn.lua's.

local bias = require "reprise.bias"
local config = require "reprise.config"
local forms = require "reprise.forms"
local generate = require "reprise.generate"
local launch = require "reprise.launch"
local nn = require "reprise.nn"
local ops = require "reprise.ops"
local options = require "reprise.options"
local prebuild = require "reprise.prebuild"
local raise = require "reprise.raise"
local rp = require "reprise"
local session = require "reprise.session"
local sources = require "reprise.sources"
local tokenizer = require "reprise.tokenizer"
local weights = require "reprise.weights"

local m = {}

-- ---- weights

-- In this order a stack without an embedding of its own looks for one: lm_head last, since it may be another matrix.
local EMBEDDINGS = {
  "shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "lm_head.weight",
}

---@class reprise.Reader what the functions below read from
---@field w reprise.Weights
---@field c reprise.T5Config
---@field device reprise.Device

local function matrix(r, name, rows, columns) return r.w:take(name, { rows, columns }, r.device) end

local function norm(r, name) return r.w:take(name, { r.c.width }, r.device):to "f32" end

-- Matrices that are multiplied together have one dtype; a folder that mixes them is widened.
local function alike(list)
  for _, x in ipairs(list) do
    if x.dtype ~= list[1].dtype then
      for i, y in ipairs(list) do list[i] = y:to "f32" end
      break
    end
  end
  return table.unpack(list)
end

local function attention(r, prefix, name)
  local c, at = r.c, prefix .. name .. "."
  local q, k, v = alike {
    matrix(r, at .. "q.weight", c.inner, c.width), matrix(r, at .. "k.weight", c.inner, c.width),
    matrix(r, at .. "v.weight", c.inner, c.width),
  }
  return {
    norm = norm(r, prefix .. "layer_norm.weight"), q = q, k = k, v = v,
    o = matrix(r, at .. "o.weight", c.width, c.inner),
  }
end

local function feed_forward(r, prefix)
  local c, at = r.c, prefix .. "DenseReluDense."
  local out = { norm = norm(r, prefix .. "layer_norm.weight"), wo = matrix(r, at .. "wo.weight", c.width, c.hidden) }
  if c.gated then
    out.wi, out.gate = alike {
      matrix(r, at .. "wi_0.weight", c.hidden, c.width), matrix(r, at .. "wi_1.weight", c.hidden, c.width),
    }
  else
    out.wi = matrix(r, at .. "wi.weight", c.hidden, c.width)
  end
  return out
end

-- The table of block 0 serves all blocks; here a row a distance. Past `distance` all keys share the last bucket.
local function relative_bias(r, side)
  local c, name = r.c, side .. ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"
  local rows = bias.rows(-c.distance, c.distance, side == "encoder", c.buckets, c.distance)
  local buckets = matrix(r, name, c.buckets, c.heads)
  return ops.embed(buckets, rp.tensor(rows, "i32", r.device)), buckets
end

local function embedding(r, side)
  local own = side .. ".embed_tokens.weight"
  if r.w:has(own) then return matrix(r, own, r.c.vocab, r.c.width) end
  for _, name in ipairs(EMBEDDINGS) do
    if r.w:has(name) then return matrix(r, name, r.c.vocab, r.c.width) end
  end
  raise("load %s: no embedding: none of %s is there", r.w.folder, table.concat(EMBEDDINGS, ", "))
end

local function read_stack(r, side)
  local out = { embedding = embedding(r, side), layers = {} }
  out.bias, out.buckets = relative_bias(r, side)
  for i = 1, r.c.layers[side] do
    local prefix, last = ("%s.block.%d.layer."):format(side, i - 1), side == "encoder" and 1 or 2
    out.layers[i] = {
      self = attention(r, prefix .. "0.", "SelfAttention"),
      cross = side == "decoder" and attention(r, prefix .. "1.", "EncDecAttention") or nil,
      ff = feed_forward(r, prefix .. last .. "."),
    }
  end
  out.norm = norm(r, side .. ".final_layer_norm.weight")
  return out
end

-- ---- the model

---@class reprise.T5
---@field folder string
---@field config reprise.T5Config
---@field device reprise.Device
---@field kv "f32"|"f16" type of the caches
---@field capture boolean are steps captured?
---@field tokenizer reprise.Tokenizer
---@field tasks table<string, reprise.GenerateOptions> the folder's task_specific_params
---@field encoder table { embedding, buckets, bias, layers, norm }: buckets is the table that bias is made of
---@field decoder table likewise
---@field head reprise.Tensor [vocab, width]
---@field idle reprise.State[] states that wait for the next session, the latest last
---@field states table<reprise.State, boolean> all that are alive
---@field count table figures of the work so far
local T5 = {}
T5.__index, T5.__tostring, T5.__show = T5, forms.model, forms.model_sheet

local function stack_of(model, side, lengths)
  local c = model.config
  return {
    heads = c.heads, epsilon = c.epsilon, activation = c.activation, bias = model[side].bias, lengths = lengths,
  }
end

--- The encoder's output for lists of ids, padded to `room`: f32 [sources, room, width], and i32 [sources] lengths.
function T5:hidden(lists, room)
  local padded, lengths = {}, {}
  for i, ids in ipairs(lists) do
    padded[i], lengths[i] = table.move(ids, 1, #ids, 1, {}), #ids
    for place = #ids + 1, room do padded[i][place] = 0 end -- never looked at
  end
  local x = ops.embed(self.encoder.embedding, rp.tensor(padded, "i32", self.device))
  lengths = rp.tensor(lengths, "i32", self.device)
  local stack = stack_of(self, "encoder", lengths)
  for _, layer in ipairs(self.encoder.layers) do x = rp.scope(nn.encoder_layer, x, layer, stack) end
  return ops.norm(x, self.encoder.norm, self.config.epsilon), lengths
end

--- Fills a state's lengths and cross keys and values from an encoder's output.
function T5:cross(hidden, lengths, state)
  state.lengths:copy(lengths)
  for i, layer in ipairs(self.decoder.layers) do
    local keys, values = nn.cross_caches(hidden, layer.cross)
    state.layers[i].cross_keys:copy(keys)
    state.layers[i].cross_values:copy(values)
    keys:close()
    values:close()
  end
end

--- The decoder's logits, f32 [rows, vocab], for the tokens, position and caches of a state: see decoder.lua. Made of
--- launches alone, so it can be captured.
function T5:forward(state)
  local c, stack = self.config, stack_of(self, "decoder", state.lengths)
  stack.position, stack.origin, stack.beams = state.position, state.origin, state.origin and state.size.rows
  local x = ops.embed(self.decoder.embedding, state.token)
  for i, layer in ipairs(self.decoder.layers) do x = nn.decoder_layer(x, layer, stack, state.layers[i]) end
  return nn.logits(x, self.decoder.norm, self.head, c.epsilon, c.scale and c.width ^ -0.5 or 1.0)
end

--- Hidden states of sources, padded to a bucket: what lies behind a source's length means nothing.
---@param given string|integer[]|reprise.Tensor|table a source or a list of sources
---@return reprise.Tensor hidden f32 [sources, room, width]
---@return integer[] lengths
function T5:encode(given)
  local lists = sources.read(self, "encode", given)
  local longest, lengths = 0, {}
  for i, ids in ipairs(lists) do
    lengths[i] = #ids
    longest = math.max(longest, #ids)
  end
  return rp.scope(function() return (self:hidden(lists, sources.bucket(longest))) end), lengths
end

--- A session over sources, for decoders of one's own.
---@param given string|integer[]|reprise.Tensor|table
---@param call { rows: integer?, max_new_tokens: integer? }? rows a source
---@return reprise.Session
function T5:open(given, call)
  local o = options.resolve(self, "open", call)
  local limit = o.max_new_tokens or o.max_length and math.max(o.max_length - 1, 1) or 20
  return session.open(self, sources.read(self, "open", given), o.rows, limit)
end

--- Results of a source, best first, or of a list of sources: a list of such lists. A beam search gives fewer than were
--- asked for where it finds fewer: options may forbid every id, scores fall below -1e9, or the weights make nan. Greedy
--- decoding then goes on with id 0.
---@param given string|integer[]|reprise.Tensor|table
---@param call reprise.GenerateOptions?
---@return reprise.Output[]|reprise.Output[][]
function T5:generate(given, call) return generate.generate(self, given, call) end

--- Results of many sources, in their order: `for i, outputs in model:each(io.lines(), { batch = 256 }) do`.
---@param given fun(): any|any[] an iterator or a list
---@param call reprise.GenerateOptions|{ batch: integer? }|nil
---@return fun(): integer?, reprise.Output[]?
function T5:each(given, call) return generate.each(self, given, call) end

--- The tokens of one source's result as they come: `for id, text in model:stream(source) do`.
---@param given string|integer[]|reprise.Tensor
---@param call reprise.GenerateOptions?
---@return fun(): integer?, string?
---@return nil
---@return nil
---@return reprise.Decoding closes the stream
function T5:stream(given, call) return generate.stream(self, given, call) end

--- Writes the model into a folder, which is made if it is missing: see save.lua.
---@param folder string
function T5:save(folder) require "reprise.save"(self, folder) end

--- What the model has done so far, and the captured steps it holds.
---@return { graphs: integer, captured: integer, ratio: number, steps: integer, stepping: number, encoding: number }
--- graphs now alive; captured in all; largest plan over its lower bound; replayed (or eager) steps and their seconds;
--- seconds of encoding
function T5:figures()
  local out = { graphs = 0, ratio = 1 }
  for name, value in pairs(self.count) do out[name] = value end
  for state in pairs(self.states) do
    for _, graph in ipairs(self.capture and state.step:graphs() or {}) do
      out.graphs = out.graphs + 1
      if graph.plan.lower_bound > 0 then out.ratio = math.max(out.ratio, graph.plan.peak / graph.plan.lower_bound) end
    end
  end
  return out
end

-- ---- loading

local OPTIONS = { capture = "boolean", device = true, kv = "string" }

local function check(folder, how)
  if type(folder) ~= "string" then raise("bad argument #1 to 'load' (string expected, got %s)", type(folder)) end
  if type(how) ~= "table" then raise("bad argument #2 to 'load' (table expected, got %s)", type(how)) end
  for name, value in pairs(how) do
    local kind = OPTIONS[name]
    if not kind then raise("load: option %s is not supported: supported are capture, device, kv", tostring(name)) end
    if kind ~= true and type(value) ~= kind then raise("load: %s: %s expected, got %s", name, kind, type(value)) end
  end
  if how.kv and how.kv ~= "f32" and how.kv ~= "f16" then
    raise("load: kv is %q: f32 or f16 is expected", how.kv)
  end
end

local function read_model(model, w)
  local r = { w = w, c = model.config, device = model.device }
  model.encoder, model.decoder = read_stack(r, "encoder"), read_stack(r, "decoder")
  local own = r.w:has "lm_head.weight"
  model.head = own and matrix(r, "lm_head.weight", r.c.vocab, r.c.width) or model.decoder.embedding
  r.w:close()
  return model
end

-- A model from a configuration and what gives tensors by name.
local function new(folder, c, w, how)
  return read_model(setmetatable({
    folder = folder, config = c, device = how.device, kv = how.kv or "f32", capture = how.capture ~= false,
    tokenizer = tokenizer.new(c.classes), tasks = c.tasks, idle = {}, states = setmetatable({}, { __mode = "k" }),
    count = { captured = 0, capturing = 0, steps = 0, stepping = 0, encoding = 0 },
  }, T5), w)
end

local function device_of(how)
  return type(how.device) == "userdata" and how.device or rp.device(how.device)
end

--- Loads a folder of a T5 or mT5 with safetensors.
---@param folder string
---@param how { device: reprise.Device|string|nil, kv: "f32"|"f16"|nil, capture: boolean? }?
--- capture = false runs each step uncaptured
---@return reprise.T5
function m.load(folder, how)
  how = how or {}
  check(folder, how)
  local c, w, device = config.read(folder), weights.open(folder), device_of(how)
  launch.expect(device, prebuild.first(device, w:dtype(), how.kv or "f32"))
  return new(folder, c, w, { device = device, kv = how.kv, capture = how.capture })
end

--- A model of some shape with random weights: see random.lua.
---@param shape string|table
---@param how table?
---@return reprise.T5
function m.random(shape, how) return require "reprise.random"(new, shape, how) end

return m
