-- What recycling buys: caches that grow by concatenation, pooled, against one graph; and the script that shows it.
local core = require "reprise.core"
local growing = require "reprise.growing"
local helper = require "spec.helper"
local rp = require "reprise"

local MIB = 2 ^ 20

-- Prints what one way to decode takes. T5-small's decoder and vocabulary; what is fed forward and the encoder do not
-- change what is measured.
local MEASURE = [[
local rp, growing = require "reprise", require "reprise.growing"
local dev, way, beams, ids = rp.device "%s", "%s", %d, {}
local model = rp.t5.random({
  d_model = 512, d_kv = 64, d_ff = 64, num_heads = 8, num_layers = 1, num_decoder_layers = 6, vocab_size = 32128,
  feed_forward_proj = "relu",
}, { device = dev, dtype = "f16", kv = "f16" })
for i = 1, 128 do ids[i] = 3 + i * 7919 %% 256 end
collectgarbage()
local weights, tokens, graphs, ratio = dev.pool:figures().allocated, nil, nil, 1
if way == "pooled" then
  local g = growing.open(model, ids, { rows = beams, new = 128 })
  g:run()
  tokens, graphs = g:tokens(), g:graphs()
else
  tokens = model:generate(ids, { num_beams = beams, max_new_tokens = 128, eos_token_id = false })[1].ids
  graphs = next(model.states).step:graphs()
end
dev.pool:trim()
local f = dev.pool:figures()
for _, g in ipairs(graphs) do ratio = math.max(ratio, g.plan.peak / g.plan.lower_bound) end
print(rp.json_encode { allocated = f.allocated - weights, reserved = f.reserved - weights, tokens = tokens, ratio = ratio })
]]

local function source(n)
  local ids = {}
  for i = 1, n do ids[i] = 3 + i * 7919 % 256 end
  return ids
end

helper.each_device(function(name)
  local dev = rp.device(name)

  local function one_graph(model, ids, beams, new)
    return model:generate(ids, { num_beams = beams, max_new_tokens = new, eos_token_id = false })[1].ids
  end

  describe("caches that grow by concatenation", function()
    for _, beams in ipairs { 1, 3 } do
      it(("give %d beams the tokens of one graph, from shared and from own inputs"):format(beams), function()
        for _, kv in ipairs { "f32", "f16" } do
          local model, ids, new = rp.t5.random("demo", { device = dev, seed = 5, dtype = "f16", kv = kv }), source(20), 12
          local expected = one_graph(model, ids, beams, new)
          for _, own in ipairs { false, true } do
            local g = growing.open(model, ids, { rows = beams, new = new, own = own })
            for _ = 1, 2 do
              g:run()
              assert.same(expected, g:tokens())
            end
            assert.equal(new, #g:graphs())
            for _, graph in ipairs(g:graphs()) do
              assert.is_true(graph.plan.peak <= 1.02 * graph.plan.lower_bound)
            end
          end
        end
      end)
    end

    it("copy cross keys and values to their slots once, not once a token", function()
      local model, ids, new = rp.t5.random("demo", { device = dev, dtype = "f16", kv = "f16" }), source(50), 10
      local c, g = model.config, growing.open(model, ids, { rows = 1, new = new })
      g:run()
      local cross, position = 2 * c.layers.decoder * 50 * c.inner * 2, 2 * c.layers.decoder * c.inner * 2
      local token = 4
      assert.equal(cross + new * token + new * (new - 1) // 2 * position, g.copied)
      assert.equal((new - 1) * cross, g.skipped)
      g:run()
      assert.equal(cross + 2 * (new * token + new * (new - 1) // 2 * position), g.copied)
    end)
  end)

  describe("caches of fixed places", function()
    it("hold the tokens that are fed, not the last, and their size does not show in the result", function()
      local model, ids, all = rp.t5.random("demo", { device = dev, seed = 5, dtype = "f16" }), source(20), nil
      for _, new in ipairs { 40, 33, 32, 31, 17, 16, 15, 1 } do
        for _, beams in ipairs { 1, 3 } do
          local out = model:generate(ids, { num_beams = beams, max_new_tokens = new, eos_token_id = false })[1]
          local state = model.idle[#model.idle]
          assert.equal(new <= 16 and 16 or new <= 32 and 32 or 64, state.layers[1].keys.shape[2])
          assert.equal(new, #out.ids)
          if beams == 1 then
            all = all or out.ids
            assert.same(table.move(all, 1, new, 1, {}), out.ids)
          end
        end
      end
    end)
  end)

  describe("memory above the weights of T5-small's decoder, 128 tokens, source 128, f16 caches", function()
    -- In a process of its own: slots and scratch of this one's pool hold what other specs needed.
    local function measured(way, beams)
      local file = helper.tmp() .. "/measure.lua"
      helper.write(file, MEASURE:format(name, way, beams))
      local code, out, err = helper.run(helper.quote(helper.program()) .. " " .. file)
      assert.equal(0, code, err)
      return core.json_decode(out)
    end

    for _, case in ipairs { { 1, 7, 12 }, { 5, 28, 22 } } do
      local beams, pooled, one = table.unpack(case)
      it(("is at most %d MiB pooled, %d MiB reserved with one graph, for %d beams"):format(pooled, one, beams), function()
        local a, b = measured("pooled", beams), measured("one", beams)
        assert.same(a.tokens, b.tokens)
        assert.is_true(a.allocated <= pooled * MIB, ("%.2f MiB"):format(a.allocated / MIB))
        assert.is_true(a.reserved <= a.allocated + 3 * 2 * MIB, ("%.2f MiB"):format(a.reserved / MIB))
        assert.is_true(b.reserved <= one * MIB, ("%.2f MiB"):format(b.reserved / MIB))
        assert.is_true(a.ratio <= 1.02 and b.ratio <= 1.02)
      end)
    end
  end)

  describe("scripts/memory.lua", function()
    local function run(words)
      return helper.run(("%s scripts/memory.lua --device %s %s"):format(helper.quote(helper.program()), name, words))
    end

    it("prints a row for each way, with the same tokens, less memory from way to way", function()
      local code, out, err = run "--shape demo --new 6 --source 20 --kv f16 --beams 2 --json"
      assert.equal("", err)
      assert.equal(0, code)
      local rows = {}
      for line in out:gmatch "[^\n]+" do rows[#rows + 1] = core.json_decode(line) end
      assert.same({ "own", "pooled", "one" }, { rows[1].row, rows[2].row, rows[3].row })
      for _, row in ipairs(rows) do
        assert.same(rows[1].tokens, row.tokens)
        assert.equal(row.allocated, row.tensors + row.slots + row.scratch)
        assert.is_true(row.allocated <= row.peak and row.reserved <= row.allocated + 3 * 2 * MIB)
        assert.is_true(row.plan_ratio <= 1.02)
        assert.equal(name ~= "cpu", row.executables ~= nil)
        assert.is_true(row.us > 0)
      end
      assert.same({ 6, 6, 1 }, { rows[1].graphs, rows[2].graphs, rows[3].graphs })
      assert.is_true(rows[1].allocated > rows[2].allocated)
      assert.is_true(rows[1].copied > rows[2].copied and rows[2].skipped > 0 and rows[3].copied == 0)
    end)

    it("prints a table of a trained model", function()
      local code, out, err = run "--model scripts/models/g2p --new 4 --source 8"
      assert.equal("", err)
      assert.equal(0, code)
      for _, title in ipairs { "own inputs", "pooled", "one graph" } do
        assert.truthy(out:find("\n" .. title .. " +%d+%.%d +%d+%.%d"), title)
      end
    end)

    it("says why a row could not be made", function()
      local code, _, err = run "--shape huge"
      assert.equal(1, code)
      assert.truthy(err:find("random: shape huge is not known", 1, true))
      assert.truthy(err:find("running scripts/memory.lua --row own: exit 1", 1, true))
    end)

    it("is shorter than 100 lines", function()
      local _, lines = helper.read("scripts/memory.lua"):gsub("\n", "")
      assert.is_true(lines < 100)
    end)
  end)
end)
