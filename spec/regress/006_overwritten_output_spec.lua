-- PyTorch issues 170604, 148439 and 158551: an output was overwritten by a later run, and the advice was wrong.
-- Here reading it raises, names graph and replay, and the remedy that the sentence states works.
local rp = require "reprise"
local helper = require "spec.helper"

helper.each_device(function(device)
  local function double(options) return rp.capture(function(x) return x:to("f16"):to "f32" end, options) end
  local one, two = rp.full({ 3 }, 1, "f32", device), rp.full({ 3 }, 2, "f32", device)

  it("reading an output after the next replay names graph and replay", function()
    local step = double { name = "halve" }
    local first = step(one)
    step(two)
    assert.error_matches(function() first:totable() end,
      'this output of replay 1 of halve was overwritten by replay 2 of halve: clone it before the next replay, or capture with outputs = "copy"')
  end)

  it("both remedies work", function()
    local step = double()
    local first = step(one):clone()
    step(two)
    assert.same({ 1, 1, 1 }, first:totable())
    local copying = double { outputs = "copy" }
    first = copying(one)
    copying(two)
    assert.same({ 1, 1, 1 }, first:totable())
  end)
end)
