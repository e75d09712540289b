-- config.lua - what config.json and generation_config.json of a T5 folder say, with the defaults of absent keys.
--
-- Scaling and tying are two questions: `scale` is answered here; whether there is a head of its own, only the weights
-- know. Names that decide nothing (architectures, n_positions, torch_dtype, dense_act_fn) are not read.
-- Keys and defaults: https://huggingface.co/docs/transformers/model_doc/t5

local core = require "reprise.core"
local options = require "reprise.options"
local raise = require "reprise.raise"
local weights = require "reprise.weights"

local m = {}

local TYPES = { t5 = true, mt5 = true }
local ACTIVATIONS = { relu = "relu", gelu = "gelu", gelu_new = "gelu_new", silu = "silu", swish = "silu" }

---@class reprise.T5Config
---@field vocab integer rows of the embedding
---@field width integer d_model
---@field heads integer
---@field head integer d_kv, the width of a head
---@field inner integer heads x head; need not be `width`
---@field hidden integer d_ff
---@field layers { encoder: integer, decoder: integer }
---@field buckets integer rows of a bias table
---@field distance integer where the last bucket begins at the latest
---@field epsilon number
---@field activation string relu, gelu, gelu_new or silu
---@field gated boolean
---@field scale boolean is the decoder's output scaled by width^-0.5?
---@field generation table what the files ask for: values by option; path, the file; refused, what is not supported
---@field tasks table<string, reprise.GenerateOptions> task_specific_params, the options that are known
---@field start integer? the decoder's first token
---@field ends table<integer, boolean> the ids that end a result
---@field files reprise.T5Files what it was read from
---@field classes (string?)[] tokenizer_class of tokenizer_config.json and config.json

local function given(value)
  if value == core.null then return nil end
  return value
end

local function refuse(path, format, ...) raise("read %s: " .. format, path, ...) end

-- A whole number from `least`; nil where absent and there is no default.
local function whole(path, config, key, least, default)
  local value = given(config[key])
  if value == nil then return default end
  if math.type(value) ~= "integer" or value < least then
    refuse(path, "%s is %s, a whole number from %d is expected", key, tostring(value), least)
  end
  return value
end

local function size(path, config, key, default)
  local value = whole(path, config, key, 1, default)
  if not value then refuse(path, "%s is missing", key) end
  return value
end

-- A finite number above 0.
local function positive(path, config, key, default)
  local value = given(config[key])
  if value == nil then return default end
  if type(value) ~= "number" or value <= 0 or value == math.huge then
    refuse(path, "%s is %s, a number above 0 is expected", key, tostring(value))
  end
  return value
end

-- true or false; nil where absent.
local function flag(path, config, key)
  local value = given(config[key])
  if value ~= nil and type(value) ~= "boolean" then
    refuse(path, "%s is %s, true or false is expected", key, tostring(value))
  end
  return value
end

local function check_kind(path, config)
  local kind = given(config.model_type)
  if not TYPES[kind] then
    refuse(path, "model_type %s is not supported: t5 and mt5 are",
      kind == nil and "is missing; it" or ("%q"):format(tostring(kind)))
  end
  if given(config.quantization_config) ~= nil then
    refuse(path, "quantization_config: quantized weights are not read: load the model in transformers, dequantize it "
      .. "and save it with save_pretrained(folder)")
  end
end

-- "gated-gelu" means the tanh form, plain "gelu" the erf form.
local function activation(path, config)
  local name = given(config.feed_forward_proj) or "relu"
  local gate = tostring(name):match("^gated%-(.+)$")
  local found = name == "gated-gelu" and "gelu_new" or ACTIVATIONS[gate or name]
  if not found then refuse(path, "feed_forward_proj %q is not supported", tostring(name)) end
  return found, gate ~= nil
end

local function scaled(path, config)
  local scale, tied = flag(path, config, "scale_decoder_outputs"), flag(path, config, "tie_word_embeddings")
  if scale ~= nil then return scale end
  return tied ~= false
end

local FARTHEST = 1 << 16 -- nothing is longer

-- Both stacks need an exact half and a logarithmic half: see bias.lua.
local function check_buckets(path, out)
  if out.buckets < 4 then refuse(path, "relative_attention_num_buckets is %d, at least 4 are needed", out.buckets) end
  if out.distance <= out.buckets // 2 then
    refuse(path, "relative_attention_max_distance is %d, more than half of %d buckets is needed",
      out.distance, out.buckets)
  end
  if out.distance > FARTHEST then
    refuse(path, "relative_attention_max_distance is %d, at most %d is possible", out.distance, FARTHEST)
  end
  return out
end

local function read_model(path, config)
  local layers = size(path, config, "num_layers")
  local act, gated = activation(path, config)
  local heads, head = size(path, config, "num_heads"), size(path, config, "d_kv", 64)
  return check_buckets(path, {
    vocab = size(path, config, "vocab_size"), width = size(path, config, "d_model"),
    heads = heads, head = head, inner = heads * head, hidden = size(path, config, "d_ff"),
    layers = { encoder = layers, decoder = size(path, config, "num_decoder_layers", layers) },
    buckets = size(path, config, "relative_attention_num_buckets", 32),
    distance = size(path, config, "relative_attention_max_distance", 128),
    epsilon = positive(path, config, "layer_norm_epsilon", 1e-6),
    activation = act, gated = gated, scale = scaled(path, config),
  })
end

local function end_ids(path, value)
  local ends = {}
  for _, id in ipairs(type(value) == "table" and value or { value }) do
    if math.type(id) ~= "integer" then refuse(path, "eos_token_id: %s is not an id", tostring(id)) end
    ends[id] = true
  end
  return ends
end

-- Ids and options, from generation_config.json or, where that file is missing, from config.json.
local function read_generation(out, path, config)
  out.ends = end_ids(path, given(config.eos_token_id))
  out.start = whole(path, config, "decoder_start_token_id", 0) or whole(path, config, "bos_token_id", 0)
  out.generation = options.of_file(path, config, given)
  out.generation.values.decoder_start_token_id = out.start
end

-- Options for some tasks, which nothing applies by itself.
local function read_tasks(path, config)
  local tasks = {}
  for name, values in pairs(given(config.task_specific_params) or {}) do
    if type(values) == "table" then tasks[name] = options.of_file(path, values, given).values end
  end
  return tasks
end

-- config.json's own defaults for the ids it leaves out.
local function with_ids(config)
  local out = setmetatable({}, { __index = config })
  if config.pad_token_id == nil then out.pad_token_id = 0 end
  if config.eos_token_id == nil then out.eos_token_id = 1 end
  return out
end

---@class reprise.T5Files
---@field config table config.json
---@field generation table? generation_config.json
---@field tokenizer table? tokenizer_config.json

--- The configuration that files say; raises "read FILE: why".
---@param files reprise.T5Files
---@param folder string for messages: where they lie
---@return reprise.T5Config
function m.of(files, folder)
  local path, generation_path = folder .. "/config.json", folder .. "/generation_config.json"
  check_kind(path, files.config)
  local out = read_model(path, files.config)
  read_generation(out, files.generation and generation_path or path, files.generation or with_ids(files.config))
  out.tasks, out.files = read_tasks(path, files.config), files
  out.classes = { given((files.tokenizer or {}).tokenizer_class), given(files.config.tokenizer_class) }
  return out
end

--- Reads the configuration of a folder; raises "read FILE: why".
---@param folder string
---@return reprise.T5Config
function m.read(folder)
  return m.of({
    config = weights.json(folder .. "/config.json"),
    generation = weights.json(folder .. "/generation_config.json", true),
    tokenizer = weights.json(folder .. "/tokenizer_config.json", true),
  }, folder)
end

return m
