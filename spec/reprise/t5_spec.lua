-- T5 against what transformers computes in f32 from the same weights, for every kind of checkpoint.
local rp = require "reprise"
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"

local BOUND = 1e-4 -- of |x - y| / max(1, |y|)

local function norm(row)
  local sum = 0
  for _, x in ipairs(row) do sum = sum + x * x end
  return math.sqrt(sum)
end

local function check_encoder(model, e)
  local hidden = model:encode(e.lists)
  local got = hidden:totable()
  for position = 1, #e.lists[1] do
    local distance = checkpoint.distance(got[1][position], e.encoder_last_hidden[position])
    assert(distance <= BOUND, ("encoder, position %d: off by %g"):format(position - 1, distance))
  end
end

-- Teacher-forced: the tokens of one position of all sources.
local function column(e, t, device)
  local ids = {}
  for i, row in ipairs(e.decoder_input_ids) do ids[i] = row[t] end
  return rp.tensor(ids, "i32", device)
end

local function check_position(e, t, logits, at)
  for i, row in ipairs(logits) do
    local distance = checkpoint.distance({ norm(row) }, { e.logits_norm[i][t] })
    assert(distance <= BOUND, ("source %d, position %d: norm off by %g"):format(i - 1, t - 1, distance))
    if at[t - 1] then
      distance = checkpoint.distance(row, e.logits[i][at[t - 1]])
      assert(distance <= BOUND, ("source %d, position %d: logits off by %g"):format(i - 1, t - 1, distance))
    end
  end
end

local function check_logits(model, e)
  local at, length = {}, #e.decoder_input_ids[1]
  for k, position in ipairs(e.logits_at) do at[position] = k end
  local s <close> = model:open(e.lists, { max_new_tokens = length })
  for t = 1, length do check_position(e, t, s:step(column(e, t, model.device)):totable(), at) end
end

local function options_of(e, entry)
  local options = { max_new_tokens = e.max_new_tokens }
  for name, value in pairs(entry.args) do options[name] = value end
  return options
end

-- The generated ids of all entries but the beam searches: those are beam_spec.lua's.
local function check_greedy(model, e)
  for _, entry in ipairs(e.generate) do
    if entry.args.num_beams == 1 then
      local limit = entry.args.max_new_tokens or e.max_new_tokens
      for i, out in ipairs(model:generate(e.lists, options_of(e, entry))) do
        local wanted = checkpoint.until_end(table.move(entry.sequences[i], 2, #entry.sequences[i], 1, {}), model.config.ends)
        assert.are.same(wanted, out[1].ids)
        assert.are.equal(#wanted == limit and "length" or "eos", out[1].finish)
      end
    end
  end
end

local function check(folder, e, device, options)
  options = options or {}
  options.device = device
  local model = rp.t5.load(folder, options)
  check_encoder(model, e)
  check_logits(model, e)
  check_greedy(model, e)
end

describe("a T5 checkpoint", function()
  helper.each_device(function(name)
    local device = rp.device(name)

    for _, kind in ipairs(checkpoint.names) do
      it("of the kind " .. kind .. " computes what transformers computes", function()
        check(checkpoint.folder(kind), checkpoint.expected(kind), device)
      end)
    end

    it("computes the same uncaptured", function()
      check(checkpoint.folder "tied-relu", checkpoint.expected "tied-relu", device, { capture = false })
    end)

    -- Files that mean the same: { checkpoint, change }.
    local variants = {
      ["with the decoder's name alone"] = { "tied-relu", function(_, _, find)
        find("shared.weight").name = "decoder.embed_tokens.weight"
      end },
      ["with the encoder's name alone"] = { "tied-relu", function(_, _, find)
        find("shared.weight").name = "encoder.embed_tokens.weight"
      end },
      ["with the head's name alone"] = { "tied-relu", function(_, _, find)
        find("shared.weight").name = "lm_head.weight"
      end },
      ["with all names"] = { "tied-relu", function(entries, _, find)
        for _, other in ipairs { "decoder.embed_tokens.weight", "encoder.embed_tokens.weight", "lm_head.weight" } do
          checkpoint.repeated(entries, find "shared.weight", other)
        end
      end },
      ["with the decoder's name and a head"] = { "untied-gated-gelu", function(_, _, find)
        find("shared.weight").name = "decoder.embed_tokens.weight"
      end },
      ["with the encoder's name and a head"] = { "untied-gated-gelu", function(_, _, find)
        find("shared.weight").name = "encoder.embed_tokens.weight"
      end },
      ["with names of its own on both sides and a shared one that neither uses"] = { "tied-relu", function(entries, _, find)
        local shared = find "shared.weight"
        checkpoint.repeated(entries, shared, "decoder.embed_tokens.weight")
        checkpoint.repeated(entries, shared, "encoder.embed_tokens.weight")
        checkpoint.repeated(entries, shared, "lm_head.weight")
        shared.data = ("\0"):rep(#shared.data)
      end },
      ["with a stray bias of the cross-attention"] = { "tied-relu", function(entries, _, find)
        local own = find "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        checkpoint.repeated(entries, own, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight")
      end },
      ["with the flags of version 5"] = { "untied-gated-gelu", function(_, config)
        config.tie_word_embeddings, config.scale_decoder_outputs = true, false
      end },
      ["with both flags"] = { "tied-relu", function(_, config)
        config.tie_word_embeddings, config.scale_decoder_outputs = false, true
      end },
      ["with matrices of several types"] = { "asym-fp16", function(_, _, find)
        for _, layer in ipairs { "encoder.block.1.layer.0.SelfAttention.k", "decoder.block.0.layer.0.SelfAttention.q",
          "decoder.block.0.layer.1.EncDecAttention.v", "encoder.block.2.layer.1.DenseReluDense.wi_1",
          "encoder.block.0.layer.1.DenseReluDense.wo", "decoder.final_layer_norm", "shared" } do
          checkpoint.widen(find(layer .. ".weight"))
        end
      end },
      ["of the type mt5"] = { "untied-gated-gelu", function(_, config) config.model_type = "mt5" end },
      ["with swish for silu"] = { "untied-gated-silu-bf16", function(_, config) config.feed_forward_proj = "gated-swish" end },
      ["with gelu_new for gelu behind a gate"] = { "untied-gated-gelu", function(_, config)
        config.feed_forward_proj = "gated-gelu_new"
      end },
      ["with null for absent keys"] = { "defaults-32-128", function(_, config)
        local null = require("reprise.core").null
        config.num_decoder_layers, config.layer_norm_epsilon, config.tie_word_embeddings = null, null, null
      end },
      ["with nothing but sizes"] = { "defaults-32-128", function(_, config)
        for _, key in ipairs { "architectures", "num_decoder_layers", "layer_norm_epsilon", "feed_forward_proj",
          "torch_dtype", "pad_token_id", "eos_token_id", "is_encoder_decoder" } do config[key] = nil end
      end },
    }
    for what, variant in pairs(variants) do
      it(what .. " computes the same", function()
        check(checkpoint.variant(variant[1], variant[2]), checkpoint.expected(variant[1]), device)
      end)
    end

    it("stores equal matrices once", function()
      local function bytes(folder)
        local before = device.pool:figures().allocated
        local model = rp.t5.load(folder, { device = device })
        return device.pool:figures().allocated - before, model
      end
      collectgarbage()
      local one, first = bytes(checkpoint.folder "tied-relu")
      local many, second = bytes(checkpoint.variant("tied-relu", variants["with all names"][2]))
      assert.are.equal(one, many)
      assert(first and second)
    end)

    it("holds f16 caches on request, close to f32 ones", function()
      local e = checkpoint.expected "tied-relu"
      local model = rp.t5.load(checkpoint.folder "tied-relu", { device = device, kv = "f16" })
      local exact = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      local s <close> = model:open(e.lists, { max_new_tokens = 8 })
      local t <close> = exact:open(e.lists, { max_new_tokens = 8 })
      for k = 1, 8 do
        local x, y = s:step(column(e, k, device)):totable(), t:step(column(e, k, device)):totable()
        for i = 1, #x do assert(checkpoint.distance(x[i], y[i]) < 5e-3) end
      end
    end)
  end)
end)

describe("a T5 folder", function()
  local function refusal(folder, options)
    local ok, why = pcall(rp.t5.load, folder, options)
    assert.is_false(ok)
    return (why:gsub(folder, "F"):gsub("^%S+:%d+: ", ""))
  end
  local function changed(change) return checkpoint.variant("tied-relu", change) end
  local function configured(key, value) return changed(function(_, config) config[key] = value end) end

  it("that is not there is named", function()
    assert.are.equal("open F/config.json: No such file or directory", refusal "/no/such/folder")
  end)

  it("names the user's line in its refusals", function()
    local _, why = pcall(function() rp.t5.load "/no/such/folder" end)
    assert.matches("^spec/reprise/t5_spec.lua:%d+: open /no/such/folder", why)
  end)

  for what, case in pairs {
    ["of another model_type"] = { "model_type", "umt5", 'read F/config.json: model_type "umt5" is not supported: t5 and mt5 are' },
    ["without a model_type"] = { "model_type", nil, "read F/config.json: model_type is missing; it is not supported: t5 and mt5 are" },
    ["of an unknown activation"] = { "feed_forward_proj", "gated-tanh", 'read F/config.json: feed_forward_proj "gated-tanh" is not supported' },
    ["without a size"] = { "d_model", nil, "read F/config.json: d_model is missing" },
    ["of a size that is none"] = { "d_ff", -3, "read F/config.json: d_ff is -3, a whole number from 1 is expected" },
    ["of an epsilon that is a text"] = { "layer_norm_epsilon", "x", "read F/config.json: layer_norm_epsilon is x, a number above 0 is expected" },
    ["of an epsilon of 0"] = { "layer_norm_epsilon", 0, "read F/config.json: layer_norm_epsilon is 0, a number above 0 is expected" },
    ["that is tied to a text"] = { "tie_word_embeddings", "no", "read F/config.json: tie_word_embeddings is no, true or false is expected" },
    ["that is scaled by a number"] = { "scale_decoder_outputs", 2, "read F/config.json: scale_decoder_outputs is 2, true or false is expected" },
    ["of a size that is a text"] = { "num_heads", "3", "read F/config.json: num_heads is 3, a whole number from 1 is expected" },
  } do
    it(what .. " is refused", function() assert.are.equal(case[3], refusal(configured(case[1], case[2]))) end)
  end

  it("that is quantized is refused with the way on", function()
    local why = refusal(configured("quantization_config", { bits = 8 }))
    assert.matches("^read F/config.json: quantization_config: quantized weights are not read: ", why)
    assert.matches("save_pretrained", why)
  end)

  it("without a tensor names it", function()
    local folder = changed(function(entries, _, find)
      table.remove(entries, select(2, find "encoder.final_layer_norm.weight"))
    end)
    assert.are.equal('load F: tensor "encoder.final_layer_norm.weight" is missing', refusal(folder))
  end)

  it("without any embedding says which names it may have", function()
    local folder = changed(function(entries, _, find) table.remove(entries, select(2, find "shared.weight")) end)
    assert.are.equal("load F: no embedding: none of shared.weight, decoder.embed_tokens.weight, "
      .. "encoder.embed_tokens.weight, lm_head.weight is there", refusal(folder))
  end)

  it("whose shapes disagree with its config names the tensor and both shapes", function()
    assert.are.equal('load F: tensor "shared.weight" has the shape {96, 32}, config.json asks for {97, 32}',
      refusal(configured("vocab_size", 97)))
  end)

  it("whose weights are cut short names the file and the offset", function()
    local folder = changed(function() end)
    local path = folder .. "/model.safetensors"
    helper.write(path, helper.read(path):sub(1, -100))
    assert.matches("^read F/model.safetensors: tensor .*: data_offsets: offset .* lies behind the end of the file", refusal(folder))
  end)

  it("of broken JSON names the line", function()
    local folder = changed(function() end)
    helper.write(folder .. "/config.json", '{"model_type": "t5",\n "d_model" 32}')
    assert.matches("^read F/config.json: not JSON: line 2: ", refusal(folder))
  end)

  it("is not loaded with options that are none", function()
    assert.are.equal('load: kv is "bf16": f32 or f16 is expected', refusal(checkpoint.folder "tied-relu", { kv = "bf16" }))
    assert.are.equal("load: option beams is not supported: supported are capture, device, kv",
      refusal(checkpoint.folder "tied-relu", { beams = 5 }))
    local _, why = pcall(rp.t5.load)
    assert.matches("t5_spec.lua:%d+: bad argument #1 to 'load' %(string expected, got nil%)$", why)
  end)
end)
