-- The demo model on words whose phones transformers computed, through the module and through scripts/g2p.lua.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"

local MODEL = "scripts/models/g2p"

local words, greedy, all = {}, {}, {}
for line in io.lines(helper.fixture "reference.jsonl") do all[#all + 1] = core.json_decode(line) end
for i, entry in ipairs(helper.some(all)) do words[i], greedy[i] = entry.word, entry.greedy end

local function lines(text)
  local out = {}
  for line in text:gmatch "([^\n]*)\n" do out[#out + 1] = line end
  return out
end

-- Runs scripts/g2p.lua: exit code, lines of output, text of errors.
local function g2p(arguments, input)
  local path = helper.tmp() .. "/words"
  helper.write(path, input or "")
  local command = ("%s scripts/g2p.lua %s <%s"):format(helper.quote(helper.program()), arguments, path)
  local code, out, err = helper.run(command)
  return code, lines(out), err
end

-- How many of the results of words[first], words[first + 1], ... are as expected.
local function agreeing(results, first)
  local count = 0
  for i, out in ipairs(results) do
    if out[1].text == greedy[first + i - 1] then count = count + 1 end
  end
  return count
end

describe("the demo model", function()
  helper.each_device(function(device)
    it("spells 200 words as transformers does, one at a time", function()
      local model = rp.t5.load(MODEL, { device = device })
      for i = 1, math.min(200, #words) do assert.are.equal(greedy[i], model:generate(words[i])[1].text) end
      local figures = model:figures()
      assert(figures.graphs <= 2, "more graphs than buckets of source lengths")
      assert(figures.ratio <= 1.05, "a plan is far from its lower bound")
    end)

    it("spells 200 words as transformers does, in batches", function()
      local model = rp.t5.load(MODEL, { device = device })
      for first = 1, math.min(200, #words), 50 do
        local batch = table.move(words, first, first + 49, 1, {})
        assert.are.equal(#batch, agreeing(model:generate(batch), first))
      end
    end)

    it("changes at most one of 2,000 words with f16 caches", function()
      local model, count = rp.t5.load(MODEL, { device = device, kv = "f16" }), 0
      for first = 1, #words, 20 do
        count = count + agreeing(model:generate(table.move(words, first, first + 19, 1, {})), first)
      end
      assert(count >= #words - 1, ("%d of %d words agree"):format(count, #words))
    end)

    it("spells all 2,000 words as transformers does, from standard input", function()
      local code, out, err = g2p("--device " .. device, table.concat(words, "\n") .. "\n")
      assert.are.equal(0, code)
      assert.are.same(greedy, out)
      local graphs, ratio = err:match "(%d+) graphs captured in [%d.]+ ms, largest plan ([%d.]+) of its lower bound"
      assert(tonumber(graphs) <= 2 and tonumber(ratio) <= 1.05, err)
      assert.matches(#words == 2000 and "2000 words, 34331 tokens" or #words .. " words", err, 1, true)
    end)
  end)
end)

describe("scripts/g2p.lua", function()
  it("takes words as arguments, lower-cases them and prints their phones", function()
    local code, out, err = g2p "knowledge Motivate"
    assert.are.same({ 0, { "N AA1 L IH0 JH", "M OW1 T AH0 V EY2 T" } }, { code, out })
    assert.matches("[%d.]+ us a token replayed", err)
    assert.matches("1 graphs captured", err)
  end)

  it("keeps blank lines, and takes lines with or without ends of any kind", function()
    local _, out = g2p("", "knowledge\n\n  \nknowledge\r\nknowledge")
    local phones = "N AA1 L IH0 JH"
    assert.are.same({ phones, "", "", phones, phones }, out)
  end)

  it("computes the same uncaptured", function()
    local _, out, err = g2p "--eager knowledge"
    assert.are.same({ "N AA1 L IH0 JH" }, out)
    assert.matches("us a token eager", err)
    assert.matches("0 graphs captured", err)
  end)

  it("prints one JSON object a line", function()
    local _, out = g2p("--json", "knowledge\nna\xffve\n")
    assert.matches('^{"input": "knowledge", "outputs": %[{"text": "N AA1 L IH0 JH", "score": %-0%.0184%d+, "tokens": 14}%]}$', out[1])
    assert.are.equal("na\u{FFFD}ve", core.json_decode(out[2]).input)
  end)

  it("searches with beams, and shows all results with their scores", function()
    local five = { "N AA1 L IH0 JH", "N AA1 L AH0 JH", "N OW1 L IH0 JH", "N AW1 L IH0 JH", "N AA1 L EH0 JH" }
    local _, out = g2p "--num-beams 5 --num-return-sequences 5 knowledge"
    assert.are.same(five, out)
    _, out = g2p "--num-beams 5 --num-return-sequences 2 --scores knowledge"
    assert.are.same({ five[1] .. "\t-0.01842", five[2] .. "\t-0.21691" }, out)
    _, out = g2p "--num-beams 5 --num-return-sequences 5 --json knowledge"
    local outputs = core.json_decode(out[1]).outputs
    assert.are.equal(5, #outputs)
    assert.are.equal(five[5], outputs[5].text)
    assert(outputs[4].score > outputs[5].score)
  end)

  it("works on batches, and keeps the order of lines, blank ones too", function()
    local some, want = table.move(words, 1, 40, 1, {}), table.move(greedy, 1, 40, 1, {})
    for _, at in ipairs { 41, 20, 20, 3, 1 } do
      table.insert(some, at, at == 3 and "  " or "")
      table.insert(want, at, "")
    end
    for _, batch in ipairs { 1, 8, 64 } do
      local code, out, err = g2p("--batch " .. batch, table.concat(some, "\n") .. "\n")
      assert.are.same({ 0, want }, { code, out })
      assert.matches("40 words, %d+ tokens, %d+ words a second", err)
    end
  end)

  it("draws, the same again with the same seed", function()
    local function drawn(seed) return select(2, g2p("--do-sample --num-return-sequences 8 --temperature 1.5 --seed " .. seed .. " motivate")) end
    local first = drawn(1)
    assert.are.equal(8, #first)
    assert.are.same(first, drawn(1))
    assert.are_not.same(first, drawn(2))
  end)

  it("names the options of generation in its help", function()
    local code, out = g2p "--help"
    assert.are.equal(0, code)
    local text = table.concat(out, "\n")
    for _, flag in ipairs { "--num-beams N", "--batch N", "--top-p X", "--do-sample", "--seed N", "--early-stopping WHEN" } do
      assert(text:find(flag, 1, true), flag)
    end
  end)

  it("warns of other bytes and of results that are cut", function()
    local code, out, err = g2p "--max-new-tokens 5 knowledge na3ve"
    assert.are.same({ 0, "N AA1" }, { code, out[1] })
    assert.matches('g2p: "knowledge": cut after 5 tokens', err, 1, true)
    assert.matches([[g2p: "na3ve" has bytes outside a-z and ']], err, 1, true)
    assert.is_nil(err:find '"knowledge" has bytes')
  end)

  it("ends with 2 and one sentence for a wrong argument", function()
    local code, out, err = g2p "--kv bf16 knowledge"
    assert.are.same({ 2, {} }, { code, out })
    assert.matches('^g2p.lua: %-%-kv: "bf16" is none of f32, f16\n', err)
    code, out, err = g2p "--num-beams 17 knowledge"
    assert.are.same({ 2, {} }, { code, out })
    assert.matches('^g2p.lua: %-%-num%-beams: "17": a whole number from 1 to 16 is expected\n', err)
    code, out, err = g2p "--top-k 5 knowledge"
    assert.are.same({ 1, {} }, { code, out })
    assert.matches("each: top_k says how to draw, and nothing is drawn without do_sample = true", err, 1, true)
  end)

  it("ends with 1 and one sentence for a model that is not there or cut short", function()
    local code, _, err = g2p "--model /no/such/folder knowledge"
    assert.are.equal(1, code)
    assert.matches("open /no/such/folder/config.json: No such file or directory", err, 1, true)
    local folder = helper.tmp()
    helper.write(folder .. "/config.json", helper.read(MODEL .. "/config.json"))
    helper.write(folder .. "/model.safetensors", helper.read(MODEL .. "/model.safetensors"):sub(1, 100000))
    code, _, err = g2p("--model " .. folder .. " knowledge")
    assert.are.equal(1, code)
    assert.matches('read ' .. folder .. '/model.safetensors: tensor ".-": data_offsets: offset %d+ %+ %d+ lies behind', err)
  end)
end)
