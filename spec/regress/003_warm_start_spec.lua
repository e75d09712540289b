-- kernl issues 213 and 272: minutes of warm-up, then out of memory.
-- Here a decode from a warm cache compiles nothing, and captures one graph a bucket of source lengths.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"

helper.each_device(function(device)
  it("a decode of 22 tokens from a warm cache compiles nothing and captures one graph a bucket", function()
    local model = rp.t5.load(core.home() .. "/scripts/models/g2p", { device = device })
    model:generate("warm", { max_new_tokens = 22 })
    local compiled, captured = core.cache_counts().compiled, model.count.captured
    model:generate("knowledge", { max_new_tokens = 22 })
    model:generate("short", { max_new_tokens = 22 })
    assert.equal(compiled, core.cache_counts().compiled)
    assert.equal(captured, model.count.captured)
    model:generate(("long"):rep(5), { max_new_tokens = 22 })
    assert.equal(compiled, core.cache_counts().compiled)
    assert.equal(captured + 1, model.count.captured)
  end)
end)
