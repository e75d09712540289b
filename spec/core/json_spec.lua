-- JSON for configurations and results.
local core = require "reprise.core"

local function why(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok)
  return (message:gsub("^%S+:%d+: ", ""))
end

describe("JSON", function()
  it("keeps integers, numbers, texts, lists, names and null apart", function()
    local value = core.json_decode '{"i": 7, "r": 7.0, "big": 9007199254740993, "t": "a\\u00e9", "l": [1, null, false], "n": {}}'
    assert.are.equal("integer", math.type(value.i))
    assert.are.equal("float", math.type(value.r))
    assert.are.equal(9007199254740993, value.big)
    assert.are.equal("aé", value.t)
    assert.are.same({ 1, core.null, false }, value.l)
    assert.are.same({}, value.n)
  end)

  it("comes back as it went", function()
    local value = { a = { 1, 2.5, "x\0y" }, b = { c = true, d = core.null } }
    assert.are.same(value, core.json_decode(core.json_encode(value)))
  end)

  it("shows names in a given order, or sorted", function()
    local value = { outputs = { { text = "a", score = core.null, tokens = 3 } }, input = "x" }
    assert.are.equal('{"input": "x", "outputs": [{"text": "a", "score": null, "tokens": 3}]}',
      core.json_encode(value, { "input", "outputs", "text", "score", "tokens" }))
    assert.are.equal('{"input": "x", "outputs": [{"score": null, "text": "a", "tokens": 3}]}', core.json_encode(value))
  end)

  it("says where a text is not JSON", function()
    assert.are.equal("read JSON: not JSON: line 2: '}' expected near '7'", why(core.json_decode, '{"a": 1\n7}'))
    assert.matches("^read x.json: not JSON: line 1: ", why(core.json_decode, "", "x.json"))
  end)

  it("says what cannot be written", function()
    assert.are.equal("encode JSON: a table with both list items and names", why(core.json_encode, { 1, x = 2 }))
    assert.are.equal("encode JSON: a string is not UTF-8", why(core.json_encode, "\xff"))
    assert.are.equal("encode JSON: a name holds a NUL byte: x", why(core.json_encode, { ["x\0y"] = 1 }))
    assert.matches("a list of names expected", why(core.json_encode, { x = 1 }, { "x\0y" }))
    assert.are.equal("encode JSON: a number is not finite", why(core.json_encode, { 0 / 0 }))
    assert.are.equal("encode JSON: no JSON for a function", why(core.json_encode, { x = print }))
    local loop = {}
    loop.loop = loop
    assert.are.equal("encode JSON: tables are nested too deep", why(core.json_encode, loop))
  end)
end)

describe("the clock", function()
  it("never goes back", function()
    local last = core.clock()
    for _ = 1, 1000 do
      local now = core.clock()
      assert(now >= last)
      last = now
    end
  end)
end)
