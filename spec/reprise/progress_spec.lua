-- The bar of long work.
local progress = require "reprise.progress"

describe("a progress bar", function()
  it("shows what part is done, and how fast", function()
    local bar = progress.new(200, false)
    for _ = 1, 5 do bar:add(10) end
    assert.equal("[##########..............................]  25 %, 5 done, 10 a second", bar:line(0.5))
    bar:add(1000)
    assert.equal("[########################################] 100 %, 6 done, 6 a second", bar:line(1))
  end)

  it("without a total shows how many are done", function()
    local bar = progress.new(nil, false)
    bar:add()
    assert.equal("1 done, 2 a second", bar:line(0.5))
  end)

  it("is not there where standard error is no terminal, nor before it is worth it", function()
    assert.is_false(progress.new(5).visible)
    local bar = progress.new(5, true)
    bar:add()
    assert.is_falsy(bar.shown)
    bar:finish()
  end)

  it("counts the bytes of words with their line ends", function() assert.equal(9, progress.bytes { "know", "led" }) end)
end)
