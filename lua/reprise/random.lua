-- random.lua - rp.t5.random: a model of a published shape with random weights, for figures that depend on shapes alone.
--
-- The device draws each matrix from the seed and the tensor's name (kernels/random.cu): the same bits on every device.
-- Spreads are those that T5 is initialized with, but what sublayers add is louder: else the embedding, which is the
-- head too, makes each token choose itself again and again. Norms are ones.

local config = require "reprise.config"
local core = require "reprise.core"
local launch = require "reprise.launch"
local raise = require "reprise.raise"
local rp = require "reprise"

local LOUD = { attention = 2.0, feed_forward = 64.0 } -- outputs, against T5's initialization; found by trying
local WEIGHTS = { f32 = "float", f16 = "f16", bf16 = "bf16" }

-- width, head, hidden, heads, encoder and decoder layers, vocabulary, feed-forward
local SHAPES = {
  demo = { 256, 64, 512, 4, 4, 384, "gated-gelu" },
  small = { 512, 64, 2048, 8, 6, 32128, "relu" },
  base = { 768, 64, 3072, 12, 12, 32128, "relu" },
  large = { 1024, 64, 4096, 16, 24, 32128, "relu" },
  ["3b"] = { 1024, 128, 16384, 32, 24, 32128, "relu" },
}
local NAMES = "demo, small, base, large, 3b"

-- ---- the configuration

local function config_of(shape)
  if type(shape) == "table" then return shape end
  local s = SHAPES[shape]
  if not s then
    raise("random: shape %s is not known: known are %s, or a table as config.json", tostring(shape), NAMES)
  end
  return {
    d_model = s[1], d_kv = s[2], d_ff = s[3], num_heads = s[4], num_layers = s[5], vocab_size = s[6],
    feed_forward_proj = s[7],
  }
end

-- A config.json of these keys, with what all of them say.
local function files_of(shape, dtype)
  local all = {
    model_type = "t5", architectures = { "T5ForConditionalGeneration" }, is_encoder_decoder = true,
    tie_word_embeddings = true, layer_norm_epsilon = 1e-6, relative_attention_num_buckets = 32,
    relative_attention_max_distance = 128, pad_token_id = 0, eos_token_id = 1, decoder_start_token_id = 0,
    torch_dtype = ({ f32 = "float32", f16 = "float16", bf16 = "bfloat16" })[dtype], tokenizer_class = "ByT5Tokenizer",
  }
  for key, value in pairs(config_of(shape)) do all[key] = value end
  return { config = all, generation = {
    pad_token_id = all.pad_token_id, eos_token_id = all.eos_token_id,
    decoder_start_token_id = all.decoder_start_token_id,
  } }
end

-- ---- the weights

-- FNV-1a, https://www.isthe.com/chongo/tech/comp/fnv
local function key_of(name, seed)
  local hash = 0xcbf29ce484222325 ~ seed
  for i = 1, #name do hash = (hash ~ name:byte(i)) * 0x100000001b3 end
  return hash
end

-- Standard deviation of a matrix; nil for a norm.
local function spread(c, name)
  if name == "shared.weight" then return 1.0 end
  if name:find "Attention%.q%." then return (c.width * c.head) ^ -0.5 end
  if name:find "Attention%.o%." then return LOUD.attention * c.inner ^ -0.5 end
  if name:find "%.wo%." then return LOUD.feed_forward * c.hidden ^ -0.5 end
  return not name:find "norm%.weight$" and c.width ^ -0.5 or nil
end

-- Stands where weights.lua's folder does.
---@class reprise.RandomWeights
local Random = {}
Random.__index = Random

function Random.has(_, name) return name == "shared.weight" end
function Random:close() self.made = {} end

function Random:take(name, shape, device)
  local made, deviation = self.made[name], spread(self.c, name)
  if made then return made end
  if not deviation then return core.full(shape, 1.0, self.dtype, device) end
  local x = core.empty(shape, self.dtype, device)
  launch.kernel(device, "random.cu", "uniform", "W", WEIGHTS[self.dtype]) {
    grid = launch.grid(device, launch.ceil(x.elements, 1024)), block = launch.is_gpu(device) and 256 or launch.ALONE,
    x, key_of(name, self.seed), deviation * 3 ^ 0.5, x.elements, -- evenly spread up to sqrt(3) deviations
  }
  self.made[name] = x
  return x
end

-- ---- the model

local OPTIONS = { seed = "integer", dtype = true, device = true, kv = true, capture = "boolean" }

local function check(how)
  if type(how) ~= "table" then raise("bad argument #2 to 'random' (table expected, got %s)", type(how)) end
  for name, value in pairs(how) do
    local kind = OPTIONS[name]
    if not kind then
      raise("random: option %s is not supported: supported are capture, device, dtype, kv, seed", tostring(name))
    end
    if kind ~= true and (math.type(value) or type(value)) ~= kind then
      raise("random: %s: %s expected, got %s", name, kind, math.type(value) or type(value))
    end
  end
  if how.dtype and not WEIGHTS[how.dtype] then
    raise("random: dtype is %s: f32, f16 or bf16 is expected", tostring(how.dtype))
  end
  if how.kv and how.kv ~= "f32" and how.kv ~= "f16" then
    raise("random: kv is %s: f32 or f16 is expected", tostring(how.kv))
  end
end

---@param new function makes a model of a configuration and of what gives tensors by name
---@param shape "demo"|"small"|"base"|"large"|"3b"|table a name, or keys of config.json
---@param how { seed: integer?, dtype: reprise.Dtype?, device: any, kv: "f32"|"f16"|nil, capture: boolean? }?
--- seed 0, dtype f32; else as for load
---@return reprise.T5
return function(new, shape, how)
  how = how or {}
  check(how)
  local dtype, device = how.dtype or "f32", how.device
  if type(device) ~= "userdata" then device = rp.device(device) end
  local name = "random " .. (type(shape) == "table" and "shape" or tostring(shape))
  local c = config.of(files_of(shape, dtype), name)
  local w = setmetatable({ c = c, dtype = dtype, seed = how.seed or 0, made = {}, folder = name }, Random)
  return new(name, c, w, { device = device, kv = how.kv, capture = how.capture })
end
