-- save.lua - model:save(folder): config.json, generation_config.json, model.safetensors, as transformers names them.
--
-- Tensors are stored as the model holds them: norms in f32, the rest as they came; a matrix that serves twice is stored
-- once. The configuration is what the model was made from. A loaded copy computes the same bits.

local core = require "reprise.core"
local raise = require "reprise.raise"

-- ---- names

local function add(list, name, tensor) list[#list + 1] = { name, tensor } end

local function add_attention(list, prefix, name, w)
  for _, part in ipairs { "q", "k", "v", "o" } do add(list, ("%s%s.%s.weight"):format(prefix, name, part), w[part]) end
  add(list, prefix .. "layer_norm.weight", w.norm)
end

local function add_feed_forward(list, prefix, w)
  add(list, prefix .. (w.gate and "DenseReluDense.wi_0.weight" or "DenseReluDense.wi.weight"), w.wi)
  if w.gate then add(list, prefix .. "DenseReluDense.wi_1.weight", w.gate) end
  add(list, prefix .. "DenseReluDense.wo.weight", w.wo)
  add(list, prefix .. "layer_norm.weight", w.norm)
end

local function add_stack(list, side, stack)
  for i, layer in ipairs(stack.layers) do
    local prefix = ("%s.block.%d.layer."):format(side, i - 1)
    add_attention(list, prefix .. "0.", "SelfAttention", layer.self)
    if i == 1 then add(list, prefix .. "0.SelfAttention.relative_attention_bias.weight", stack.buckets) end
    if layer.cross then add_attention(list, prefix .. "1.", "EncDecAttention", layer.cross) end
    add_feed_forward(list, prefix .. (layer.cross and "2." or "1."), layer.ff)
  end
  add(list, side .. ".final_layer_norm.weight", stack.norm)
end

local function tensors_of(model)
  local list, encoder, decoder = {}, model.encoder, model.decoder
  add(list, "shared.weight", encoder.embedding)
  local own = decoder.embedding ~= encoder.embedding
  if own then add(list, "decoder.embed_tokens.weight", decoder.embedding) end
  if model.head ~= decoder.embedding then add(list, "lm_head.weight", model.head) end
  add_stack(list, "encoder", encoder)
  add_stack(list, "decoder", decoder)
  return list
end

-- ---- files

local FIRST = { "architectures", "model_type" } -- keys that a reader looks for first

local function write(path, text)
  local file, why = io.open(path, "wb")
  if not file then raise("save: %s", why) end
  local done, fault = file:write(text, "\n")
  local closed, late = file:close()
  if not done or not closed then raise("save: %s: %s", path, fault or late) end
end

local function write_json(path, value) write(path, core.json_encode(value, FIRST)) end

-- The folder, unless it is there.
local function make_folder(folder)
  if os.rename(folder, folder) then return end
  os.execute("mkdir -p -- '" .. folder:gsub("'", "'\\''") .. "' 2>/dev/null")
end

-- The tokenizer's class may have come from a file that is not written.
local function config_of(model)
  local out = {}
  for key, value in pairs(model.config.files.config) do out[key] = value end
  out.tokenizer_class = model.config.classes[1] or model.config.classes[2]
  return out
end

---@param model reprise.T5
---@param folder string
return function(model, folder)
  if type(folder) ~= "string" then raise("bad argument #1 to 'save' (string expected, got %s)", type(folder)) end
  make_folder(folder)
  write_json(folder .. "/config.json", config_of(model))
  local generation = model.config.files.generation
  if generation then write_json(folder .. "/generation_config.json", generation) end
  core.safetensors_write(folder .. "/model.safetensors", tensors_of(model))
end
