-- Arguments of scripts.
local cli = require "reprise.cli"

local spec = {
  usage = "reprise x.lua [options] [word ...]",
  { "model", "FOLDER", "where the model lies", default = "here" },
  { "max-new-tokens", "N", "longest result", number = true },
  { "kv", "TYPE", "type of caches", default = "f32", choices = { "f32", "f16" } },
  { "json", nil, "one object a line" },
  { "mode", "M", "on or off", read = function(word)
    if word ~= "on" and word ~= "off" then return nil, ("%q: on or off is expected"):format(word) end
    return word == "on"
  end },
}

local function read(...) return cli.read({ ... }, spec) end

describe("arguments of a script", function()
  it("are options and words in any order", function()
    local options, words = read("one", "--json", "--model", "there", "two", "--max-new-tokens=7", "-")
    assert.are.same({ model = "there", max_new_tokens = 7, kv = "f32", json = true }, options)
    assert.are.same({ "one", "two", "-" }, words)
  end)

  it("have defaults, and none where none is stated", function()
    assert.are.same({ model = "here", kv = "f32" }, (read()))
  end)

  it("after -- are words", function()
    local options, words = read("--json", "--", "--kv", "x")
    assert.is_true(options.json)
    assert.are.same({ "--kv", "x" }, words)
  end)

  it("may hold = in a value", function() assert.are.equal("a=b", read("--model=a=b").model) end)

  it("may be read by a function", function()
    assert.is_true(read("--mode", "on").mode)
    assert.is_false(read("--mode=off").mode)
    assert.are.same({ nil, '--mode: "x": on or off is expected' }, { read("--mode", "x") })
  end)

  for what, case in pairs {
    ["an unknown option"] = { { "--jsn" }, "unknown option --jsn" },
    ["a short option"] = { { "-j" }, "unknown option -j" },
    ["a missing value"] = { { "--model" }, "--model needs a value (FOLDER)" },
    ["a value for a flag"] = { { "--json=1" }, "--json takes no value" },
    ["a number that is none"] = { { "--max-new-tokens", "x" }, '--max-new-tokens: "x" is not a whole number from 1' },
    ["a number below 1"] = { { "--max-new-tokens=0" }, '--max-new-tokens: "0" is not a whole number from 1' },
    ["a choice that is none"] = { { "--kv", "bf16" }, '--kv: "bf16" is none of f32, f16' },
  } do
    it("that hold " .. what .. " are refused in one sentence", function()
      local options, why = cli.read(case[1], spec)
      assert.is_nil(options)
      assert.are.equal(case[2], why)
    end)
  end
end)
