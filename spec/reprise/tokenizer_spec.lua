-- Text to ids and back, as ByT5 does it.
local tokenizer = require "reprise.tokenizer"

describe("a ByT5 tokenizer", function()
  local bytes = tokenizer.new { "ByT5Tokenizer" }

  it("makes byte + 3 of each byte and appends the end token", function()
    assert.are.same({ 107, 108, 1 }, bytes:encode("hi"))
    assert.are.same({ 198, 172, 1 }, bytes:encode("é"))
    assert.are.same({ 3, 258, 1 }, bytes:encode("\0\xff"))
  end)

  it("gives back the text it was given", function()
    local text = "N AA1 L IH0 JH, naïve 東京\n"
    assert.are.equal(text, bytes:decode(bytes:encode(text)))
  end)

  it("leaves out special tokens, sentinels and ids above them", function()
    assert.are.equal("hi", bytes:decode { 0, 2, 107, 259, 300, 383, 108, 1, 0 })
  end)

  it("leaves out bytes that are no part of UTF-8", function()
    assert.are.equal("hi", bytes:decode { 107, 0xc3 + 3, 108, 1 })
    assert.are.equal("é", bytes:decode { 0xa9 + 3, 198, 172, 0xe4 + 3, 0xbd + 3 })
    assert.are.equal("", bytes:decode { 0xed + 3, 0xa0 + 3, 0x80 + 3 })
  end)

  it("is found in either file", function()
    assert.is_true(tokenizer.new({ nil, "ByT5Tokenizer" }).bytes)
    assert.is_true(tokenizer.new({ "T5Tokenizer", "ByT5Tokenizer" }).bytes)
    assert.is_false(tokenizer.new({ "T5Tokenizer" }).bytes)
  end)
end)

describe("another tokenizer", function()
  it("says its name and the way on when it is asked for ids", function()
    local ids, why = tokenizer.new({ nil, "T5Tokenizer" }):encode("hi")
    assert.is_nil(ids)
    assert.are.equal("this folder's tokenizer (T5Tokenizer) is not supported: pass ids", why)
  end)

  it("is named as absent when no file names one", function()
    local _, why = tokenizer.new({}):encode("hi")
    assert.are.equal("this folder's tokenizer (none is named) is not supported: pass ids", why)
  end)

  it("has no text for ids", function() assert.is_nil(tokenizer.new({}):decode { 107, 1 }) end)
end)
