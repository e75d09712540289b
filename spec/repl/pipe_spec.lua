-- The prompt at the end of a pipe: what it prints is what was asked for.
local helper = require "spec.helper"

local function talk(input, options)
  local program = helper.quote(helper.program()) .. " -i " .. (options or "")
  return helper.run("printf '%s' " .. helper.quote(input) .. " | " .. program)
end

describe("the prompt over a pipe", function()
  local function prints(expected, input, options)
    local code, out, err = talk(input, options)
    assert.equal("", err)
    assert.equal(expected, out)
    assert.equal(0, code)
  end

  it("prints the values of expressions and nothing else", function() prints("2\t3\n", "1 + 1, 3\n") end)

  it("takes = before an expression", function() prints("2\n2\n", "= 1 + 1\n=1 + 1\n") end)

  it("keeps quiet after a semicolon, and keeps the value as _", function() prints("3\n4\n", "1 + 2;\n_\n_ + 1\n") end)

  it("shows nil, but nothing where there is no value", function() prints("nil\n", "nil\nprint;\nx = 5\n(function() end)()\n") end)

  it("takes a chunk of several lines", function() prints("1\n2\n", "for i = 1, 2 do\nprint(i)\nend\n") end)

  it("waits for the end of an expression, a string, a comment", function()
    prints("3\n", "1 +\n2\n")
    prints('"a\\nb"\n', "[[a\nb]]\n")
    prints("5\n", "--[[ a\nb ]] 5\n")
  end)

  it("keeps what begins with local", function()
    prints("1\t2\n", "local a, b = 1, 2\na, b\n")
    prints("3\n", "local function f() return 3 end\nf()\n")
    prints("nil\n", "x = 1\nlocal x\nx\n")
    prints("7\n", "local t <const> = 7; print(t)\n")
  end)

  it("runs a last line that has no end", function() prints("5\n", "5") end)

  it("shows tables and strings as Lua constants", function() prints('{ 1, a = "b" }\t"c\\n"\n', '{ 1, a = "b" }, "c\\n"\n') end)

  it("has the module reprise as rp", function() prints("{0, 1, 2} i32 {3} on cpu\n", 'rp.arange(3, "i32", "cpu")\n') end)

  it("goes on after an error, which goes to standard error, and ends with 1", function()
    local code, out, err = talk "error 'broken'\n2\nx = = 1\n3\n"
    assert.equal("2\n3\n", out)
    assert.equal("stdin:1: broken\nstack traceback:\n\t[C]: in function 'error'\n\tstdin:1: in main chunk\n"
      .. "stdin:1: unexpected symbol near '='\n", err)
    assert.equal(1, code)
  end)

  it("says so when the input ends in the middle of a chunk", function()
    local code, out, err = talk "for i = 1, 2 do\n"
    assert.equal("", out)
    assert.equal("stdin:1: 'end' expected near <eof>\n", err)
    assert.equal(1, code)
  end)

  it("shows an error of a __tostring and goes on", function()
    local code, out, err = talk "setmetatable({}, { __tostring = function() error 'mute' end })\n1\n"
    assert.equal("1\n", out)
    assert.truthy(err:find "^stdin:1: mute\n")
    assert.equal(1, code)
  end)

  it("runs a script first and has its globals", function()
    local path = helper.tmp() .. "/script.lua"
    helper.write(path, "here = 'there' print(...)")
    prints('a\n"there"\n', "here\n", path .. " a")
  end)

  it("prompts after a script that failed, too, and ends with 1", function()
    local path = helper.tmp() .. "/script.lua"
    helper.write(path, "here = 'there' error 'late'")
    local code, out, err = talk("here\n", path)
    assert.equal('"there"\n', out)
    assert.truthy(err:find "script.lua:1: late\n")
    assert.equal(1, code)
  end)

  it("ends with 130 after Ctrl-C", function()
    local program = helper.quote(helper.program())
    local code, out, err = helper.run(
      ([[printf 'os.execute("(sleep 0.1; kill -INT $PPID) &") while true do end\n1\n' | timeout 60 %s -i]]):format(program))
    assert.equal("", out)
    assert.truthy(err:find("interrupted", 1, true), err)
    assert.equal(130, code)
  end)

  it("leaves at :quit", function() prints("1\n", "1\n:quit\n2\n") end)

  it("uses no colours", function()
    local _, _, err = talk "error 'broken'\n"
    assert.is_nil(err:find "\27")
  end)

  it("has a traceback through functions that ends at the line", function()
    local _, _, err = talk "function f() g() end function g() error 'deep' end\nlocal r = f()\n"
    assert.truthy(err:find "^stdin:1: deep\nstack traceback:\n\t%[C%]: in function 'error'\n")
    assert.truthy(err:find "in function 'f'\n\tstdin:1: in main chunk\n$")
  end)
end)

describe("a traceback of a script", function()
  it("ends at the script", function()
    local path = helper.tmp() .. "/script.lua"
    helper.write(path, "error 'broken'")
    local _, _, err = helper.run(helper.quote(helper.program()) .. " " .. path)
    assert.truthy(err:find "script.lua:1: in main chunk\n$", err)
  end)

  it("is whole after a stack overflow", function()
    local code, _, err = helper.run(helper.quote(helper.program()) .. " -e 'local function f() return 1 + f() end f()'")
    assert.equal(1, code)
    assert.truthy(err:find("stack overflow", 1, true))
    assert.truthy(err:find "in main chunk\n$", err)
  end)
end)
