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

  it("takes ids from a tensor, too", function()
    assert.are.equal("hi", bytes:decode(require("reprise").tensor({ 107, 108, 1 }, "i32")))
  end)

  it("refuses what are no ids and no text", function()
    assert.error_matches(function() bytes:decode(5) end, "decode: a list of ids is expected, got number$")
    assert.error_matches(function() bytes:decode { 5, "a" } end, "decode: id 2: a whole number is expected, got a$")
    assert.error_matches(function() bytes:encode(5) end, "encode: a text is expected, got number$")
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

describe("text that comes id by id", function()
  local bytes = tokenizer.new { "ByT5Tokenizer" }

  local function pieces(ids)
    local read, out = bytes:reader(), {}
    for i, id in ipairs(ids) do out[i] = read(id) end
    return out
  end

  it("is what has become complete", function()
    assert.are.same({ "a", "", "\u{e9}", "", "", "\u{20ac}", "", "", "", "\u{1f600}", "b", "" },
      pieces(bytes:encode "a\u{e9}\u{20ac}\u{1f600}b"))
  end)

  it("leaves out what can be no part of UTF-8, as all at once does", function()
    local state = 1
    local function random(n)
      state = (state * 1664525 + 1013904223) & 0xffffffff
      return (state >> 8) % n
    end
    local some = { 0x41, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xe2, 0xed, 0xa0, 0x82, 0xac, 0xf0, 0xf4, 0x9f, 0x90, 0xf5, 0xff }
    for _ = 1, 500 do
      local ids = {}
      for i = 1, 1 + random(12) do ids[i] = random(9) == 0 and random(384) or some[1 + random(#some)] + 3 end
      local all = bytes:decode(ids)
      local streamed = table.concat(pieces(ids))
      assert.are.equal(streamed, all:sub(1, #streamed))
      ids[#ids + 1] = 0x41 + 3 -- whatever was open is decided now
      assert.are.equal(bytes:decode(ids), table.concat(pieces(ids)))
    end
  end)

  it("is nil for a tokenizer that is not supported", function()
    assert.is_nil(tokenizer.new({}):reader()(5))
  end)
end)
