-- Streams: tokens as they come, and loops that end in every way a loop can end.
local checkpoint = require "spec.support.checkpoint"
local core = require "reprise.core"
local decoder = require "reprise.decoder"
local helper = require "spec.helper"
local rp = require "reprise"

local MODEL = "scripts/models/g2p"
local WORD, PHONES = "knowledge", "N AA1 L IH0 JH"

local function why(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok)
  return (message:gsub("^%S+:%d+: ", ""))
end

helper.each_device(function(name)
  local device, model
  setup(function()
    device = rp.device(name)
    model = rp.t5.load(MODEL, { device = device })
  end)

  -- The steps that the device has made for the decoding that was closed last.
  local function steps_made()
    device:synchronize()
    return (model.idle[#model.idle].choice.signal:step())
  end

  describe("a stream", function()
    it("gives what generate gives, token by token", function()
      for _, word in ipairs { WORD, "motivate", "antidisestablishmentarianism", "a" } do
        local ids, texts = {}, {}
        for id, text in model:stream(word) do
          ids[#ids + 1], texts[#texts + 1] = id, text
        end
        local out = model:generate(word)[1]
        assert.same(out.ids, ids)
        assert.equal(out.text, table.concat(texts))
      end
    end)

    it("ends at max_new_tokens, and goes on from a prompt", function()
      local ids = {}
      for id in model:stream(WORD, { max_new_tokens = 5 }) do ids[#ids + 1] = id end
      assert.same(model:generate(WORD, { max_new_tokens = 5 })[1].ids, ids)
      assert.equal(5, #ids)
      local prompt = { 0, ids[1], ids[2], ids[3] }
      local rest = {}
      for id in model:stream(WORD, { decoder_input_ids = prompt, max_new_tokens = 2 }) do rest[#rest + 1] = id end
      assert.same({ ids[4], ids[5] }, rest)
    end)

    it("has more tokens than its ring has places", function()
      local count = 0
      for _ in model:stream(WORD, { max_new_tokens = 300, min_new_tokens = 300 }) do count = count + 1 end
      assert.equal(300, count)
    end)

    it("draws what generate draws", function()
      local options = { do_sample = true, seed = 7, temperature = 1.5, max_new_tokens = 30 }
      local ids = {}
      for id in model:stream(WORD, options) do ids[#ids + 1] = id end
      assert.same(model:generate(WORD, options)[1].ids, ids)
    end)

    it("computes the same uncaptured", function()
      local eager, ids = rp.t5.load(MODEL, { device = device, capture = false }), {}
      for id in eager:stream(WORD) do ids[#ids + 1] = id end
      assert.same(model:generate(WORD)[1].ids, ids)
    end)

    it("that is left after three tokens stops the device within the steps queued", function()
      local seen = 0
      for _ in model:stream("antidisestablishmentarianism") do
        seen = seen + 1
        if seen == 3 then break end
      end
      assert(steps_made() <= 3 + decoder.AHEAD, "the device went on")
      assert.equal(PHONES, model:generate(WORD)[1].text)
    end)

    it("that is left by an error or a return leaves nothing behind", function()
      local idle = #model.idle
      local function leave(how)
        for _ in model:stream(WORD) do
          if how == "return" then return "returned" end
          error { how }
        end
      end
      local ok, object = pcall(leave, "an error")
      assert.same({ false, { "an error" } }, { ok, object })
      assert(steps_made() <= 1 + decoder.AHEAD)
      assert.equal("returned", leave "return")
      assert(steps_made() <= 1 + decoder.AHEAD)
      assert.equal(math.max(idle, 1), #model.idle)
      assert.equal(PHONES, model:generate(WORD)[1].text)
    end)

    it("does not mind another stream, or a generation, between its tokens", function()
      local words, texts = { WORD, "motivate", "aygen" }, { "", "", "" }
      local streams, open = {}, 3
      for i, word in ipairs(words) do streams[i] = model:stream(word) end
      while open > 0 do
        open = 0
        for i, stream in ipairs(streams) do
          local id, text = stream()
          if id then texts[i], open = texts[i] .. text, open + 1 end
        end
        assert.equal(PHONES, model:generate(WORD)[1].text)
      end
      for i, word in ipairs(words) do assert.equal(model:generate(word)[1].text, texts[i]) end
    end)

    it("that nobody finishes gives its state back when it is collected", function()
      local stream = model:stream "aygen"
      stream()
      local idle = #model.idle
      stream = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert(#model.idle > idle or #model.idle == 8)
    end)

    it("after its end gives nothing more", function()
      local stream = model:stream("a", { max_new_tokens = 1 })
      assert.is_number(stream())
      assert.is_nil(stream())
      assert.is_nil(stream())
    end)

    it("gives no text for a tokenizer that is not supported", function()
      local tiny = rp.t5.load(checkpoint.folder "tied-relu", { device = device })
      for id, text in tiny:stream({ 7, 8 }, { max_new_tokens = 2 }) do
        assert.is_number(id)
        assert.is_nil(text)
      end
    end)

    it("refuses beams, several results and several sources in one sentence", function()
      assert.equal("stream: num_beams is 5: a beam search knows its tokens only at its end: use generate, or num_beams = 1",
        why(model.stream, model, WORD, { num_beams = 5 }))
      assert.equal("stream: num_return_sequences is 2: a stream has one result",
        why(model.stream, model, WORD, { do_sample = true, num_return_sequences = 2 }))
      assert.equal("stream: one source is expected, got a list of 2", why(model.stream, model, { WORD, WORD }))
      assert.equal("stream: source 1 is empty", why(model.stream, model, ""))
    end)
  end)

  it("a stream that Ctrl-C ends is said to be interrupted, and ends what a pipe gave", function()
    local folder, home = helper.tmp(), core.home()
    helper.write(folder .. "/first", ([[
rp = require "reprise"
m = rp.t5.load("%s/scripts/models/g2p", { device = "%s" })
for _ in m:stream("knowledge", { max_new_tokens = 60000, min_new_tokens = 60000 }) do print "ready" io.stdout:flush() end
print "ready: the stream failed" io.stdout:flush()
]]):format(home, name))
    local code, out, err = helper.run(([[
      cd %s && mkfifo in out
      %s -i <in >out 2>err & child=$!
      exec 3>in
      cat first >&3
      { while read line; do case $line in *ready*) break;; esac; done
        kill -INT $child
        echo 'print(m:generate("knowledge")[1].text)' >&3
        exec 3>&-
        grep -v ready; } <out
      wait $child; code=$?
      cat err >&2; exit $code]]):format(helper.quote(folder), helper.quote(helper.program())))
    assert.equal(130, code, err)
    assert.falsy(out:find(PHONES, 1, true), out) -- at a terminal the prompt goes on: spec/repl/interrupt_spec.lua
    assert.truthy(err:find("interrupted", 1, true), err)
  end)
end)
