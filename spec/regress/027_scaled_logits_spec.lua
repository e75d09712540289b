-- mlx-examples PR 591, candle PR 903: logits scaled where they should not be, or the reverse, since "tied" was taken for
-- one question. Here the scale is the config's to say, and whether there is a head is the file's.
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"
local rp = require "reprise"

describe("logits", function()
  helper.each_device(function(device)
    local function logits(flags, head)
      local folder = checkpoint.variant("tied-relu", function(entries, config, find)
        config.tie_word_embeddings, config.scale_decoder_outputs = flags.tie, flags.scale
        if head then checkpoint.repeated(entries, find "shared.weight", "lm_head.weight") end
      end)
      local s <close> = rp.t5.load(folder, { device = device }):open({ 5, 6, 1 }, { max_new_tokens = 1 })
      return s:step(rp.tensor({ 0 }, "i32", device)):totable()[1]
    end

    local scaled, root = nil, 32 ^ 0.5

    local function check(factor, got)
      scaled = scaled or logits {}
      for i, x in ipairs(scaled) do assert(math.abs(got[i] - factor * x) <= 1e-5 * math.max(1, math.abs(factor * x))) end
    end

    for _, head in ipairs { false, true } do
      local beside = head and ", with a head in the file" or ""
      it("are scaled unless tie_word_embeddings is false" .. beside, function()
        check(1, logits({}, head))
        check(1, logits({ tie = true }, head))
        check(root, logits({ tie = false }, head))
      end)

      it("are scaled as scale_decoder_outputs says where it is there" .. beside, function()
        check(1, logits({ tie = false, scale = true }, head))
        check(root, logits({ tie = true, scale = false }, head))
        check(root, logits({ scale = false }, head))
      end)
    end
  end)
end)
