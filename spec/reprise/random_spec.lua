-- rp.t5.random: models of a shape, repeatable, of sane numbers.
local helper = require "spec.helper"
local rp = require "reprise"

local TINY = { d_model = 32, d_kv = 8, d_ff = 64, num_heads = 4, num_layers = 2, vocab_size = 300, feed_forward_proj = "relu" }

helper.each_device(function(name)
  describe("rp.t5.random", function()
    local function random(shape, how)
      how = how or {}
      how.device = rp.device(name)
      return rp.t5.random(shape, how)
    end

    it("makes the shapes that T5 was published in", function()
      local model = random("demo", { dtype = "f16" })
      local c = model.config
      assert.same({ 256, 64, 512, 4, 384 }, { c.width, c.head, c.hidden, c.heads, c.vocab })
      assert.same({ encoder = 4, decoder = 4 }, c.layers)
      assert.is_true(c.gated and c.scale)
      assert.equal("f16", model.decoder.layers[4].cross.q.dtype)
      assert.equal("f32", model.decoder.norm.dtype)
      assert.equal(model.head, model.encoder.embedding)
    end)

    it("refuses a distance that nothing reaches", function()
      local shape = { relative_attention_max_distance = 1 << 32 }
      for key, value in pairs(TINY) do shape[key] = value end
      assert.error_matches(function() random(shape) end,
        "relative_attention_max_distance is 4294967296, at most 65536 is possible")
    end)

    it("gives the same weights for a seed, others for another, and each matrix its own", function()
      local a, b, c = random(TINY, { seed = 3 }), random(TINY, { seed = 3 }), random(TINY, { seed = 4 })
      local function q(model) return model.decoder.layers[1].self.q end
      assert.is_true(q(a):equal(q(b)))
      assert.is_false(q(a):equal(q(c)))
      assert.is_false(q(a):equal(a.decoder.layers[2].self.q))
      assert.is_false(q(a):equal(a.decoder.layers[1].self.k))
    end)

    it("spreads them evenly about zero, as widely as T5's initialization", function()
      local sum, square, most = 0, 0, 0
      local values = random(TINY).encoder.layers[1].ff.wi:view(-1):totable()
      for _, x in ipairs(values) do
        sum, square, most = sum + x, square + x * x, math.max(most, math.abs(x))
      end
      local deviation = 32 ^ -0.5
      assert.is_true(math.abs(sum / #values) < 4 * deviation / (#values) ^ 0.5)
      assert.is_true(math.abs((square / #values) ^ 0.5 / deviation - 1) < 0.03)
      assert.is_true(most <= deviation * 3 ^ 0.5 and most > deviation * 1.7)
    end)

    it("has bits that do not depend on the device", function()
      local here = random(TINY, { dtype = "bf16", seed = 9 }).decoder.layers[1].ff.wo
      local cpu = rp.t5.random(TINY, { dtype = "bf16", seed = 9, device = "cpu" }).decoder.layers[1].ff.wo
      assert.same(cpu:totable(), here:totable())
    end)

    it("decodes: finite numbers, tokens that vary", function()
      local model = random("demo", { seed = 1, dtype = "f16" })
      local out = model:generate({ 5, 6, 7, 8, 1 }, { max_new_tokens = 40, eos_token_id = false })[1]
      local different, count = {}, 0
      for _, id in ipairs(out.ids) do
        if not different[id] then count = count + 1 end
        different[id] = true
      end
      assert.equal(40, #out.ids)
      assert.is_true(count > 10, count .. " different tokens of 40")
      assert.is_true(out.score == out.score and out.score > -math.huge)
    end)

    it("refuses what it does not know, in a sentence", function()
      assert.error_matches(function() random "huge" end, "^random: shape huge is not known: known are demo, small, base, large, 3b, or a table")
      assert.error_matches(function() random({ d_model = 8 }) end, "^read random shape/config.json: num_layers is missing")
      assert.error_matches(function() random(TINY, { dtype = "f64" }) end, "^random: dtype is f64: f32, f16 or bf16 is expected")
      assert.error_matches(function() random(TINY, { seed = 1.5 }) end, "^random: seed: integer expected, got float")
      assert.error_matches(function() random(TINY, { sed = 1 }) end, "^random: option sed is not supported: supported are capture, device, dtype, kv, seed")
    end)
  end)
end)
