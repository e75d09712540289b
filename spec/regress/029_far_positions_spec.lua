-- candle PR 899, rust-bert PR 171: right for the first token, wrong text after it: the position bias of a step with a cache
-- was that of position 0, or was looked for in layers that have none.
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"
local rp = require "reprise"

local function norm(row)
  local sum = 0
  for _, x in ipairs(row) do sum = sum + x * x end
  return sum ^ 0.5
end

describe("a step with caches", function()
  helper.each_device(function(device)
    local function column(e, t)
      local ids = {}
      for i, row in ipairs(e.decoder_input_ids) do ids[i] = row[t] end
      return rp.tensor(ids, "i32", device)
    end

    it("equals a pass without them at every position, beyond the largest distance too", function()
      local e = checkpoint.expected "defaults-32-128"
      local model, length = rp.t5.load(checkpoint.folder "defaults-32-128", { device = device }), #e.decoder_input_ids[1]
      assert(length > 128 and model.config.distance == 128)
      local s <close> = model:open(e.lists, { max_new_tokens = length })
      for t = 1, length do
        for i, row in ipairs(s:step(column(e, t)):totable()) do
          local want = e.logits_norm[i][t]
          assert(math.abs(norm(row) - want) <= 1e-4 * math.max(1, want), ("source %d, position %d"):format(i, t))
        end
      end
    end)

    it("takes the first layer's bias in all layers, and none across", function()
      local function change(entries, _, find)
        local own = find "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        for _, name in ipairs { "decoder.block.1.layer.0.SelfAttention", "decoder.block.0.layer.1.EncDecAttention",
          "decoder.block.1.layer.1.EncDecAttention", "encoder.block.1.layer.0.SelfAttention" } do
          table.insert(entries, { name = name .. ".relative_attention_bias.weight", dtype = own.dtype, shape = own.shape,
            data = (("<f"):pack(5)):rep(#own.data // 4) })
        end
      end
      local options = { max_new_tokens = 40, eos_token_id = false }
      local plain = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      local stray = rp.t5.load(checkpoint.variant("tied-relu", change), { device = device })
      local lists = checkpoint.expected("tied-relu").lists
      assert.same(plain:generate(lists, options), stray:generate(lists, options))
    end)
  end)
end)
