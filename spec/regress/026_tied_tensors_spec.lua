-- transformers issue 48154, TGI issue 556: tied tensors missing or cross-wired, depending on which of a matrix' names the
-- file held. Here each side looks for its own name, then for the others; a head is what the file has as a head.
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"
local rp = require "reprise"

local SHARED, DECODER, ENCODER = "shared.weight", "decoder.embed_tokens.weight", "encoder.embed_tokens.weight"

describe("a checkpoint", function()
  helper.each_device(function(device)
    -- A copy of the checkpoint in which the shared matrix has another name computes what the original does.
    local function check(kind, name)
      local e = checkpoint.expected(kind)
      local folder = checkpoint.variant(kind, function(_, _, find) find(SHARED).name = name end)
      local model = rp.t5.load(folder, { device = device })
      local s <close> = model:open(e.lists, { max_new_tokens = 1 })
      local first = {}
      for i, ids in ipairs(e.decoder_input_ids) do first[i] = ids[1] end
      local logits = s:step(rp.tensor(first, "i32", device)):totable()
      assert.equal(0, e.logits_at[1])
      for i in ipairs(first) do assert(checkpoint.distance(logits[i], e.logits[i][1]) <= 1e-4) end
      for i, out in ipairs(model:generate(e.lists, { max_new_tokens = e.max_new_tokens })) do
        local row = e.generate[1].sequences[i]
        assert.same(checkpoint.until_end(table.move(row, 2, #row, 1, {}), model.config.ends), out[1].ids)
      end
    end

    for what, name in pairs { ["the shared name"] = SHARED, ["the decoder's name"] = DECODER, ["the encoder's name"] = ENCODER } do
      it("that holds its one matrix under " .. what .. " loads right", function() check("tied-relu", name) end)
      it("that has a head of its own beside " .. what .. " loads right", function() check("untied-gated-gelu", name) end)
    end
  end)
end)
