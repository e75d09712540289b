-- From a source to kernels: files, defines, includes, and what is said when one of them is wrong.
local rp = require "reprise"
local helper = require "spec.helper"

local one = [[
#include "prelude.cuh"
KERNEL void f(float *y) { if (BLOCK == 0 && THREAD == 0) y[0] = VALUE; }
]]

local function message(spec)
  spec.device = spec.device or helper.devices()[1]
  local ok, why = pcall(rp.compile, spec)
  assert(not ok, "the source was accepted")
  return why
end

local function says(spec, expected)
  local said = message(spec)
  assert(said:find(expected, 1, true), ("expected\n  %s\nin\n  %s"):format(expected, said))
end

local function file(text, name)
  local path = helper.tmp() .. "/" .. (name or "k.cu")
  helper.write(path, text)
  return path
end

describe("a program", function()
  helper.each_device(function(device)
    local function run(spec)
      helper.needs_compiler(device)
      spec.device = device
      local y <close> = rp.zeros({ 1 }, "f32", device)
      rp.compile(spec).f { grid = 1, block = 32, y }
      return y:item()
    end

    it("is made from a source or from a file, with defines of any kind", function()
      assert.are.equal(3, run { source = one, define = { VALUE = 3 } })
      assert.are.equal(-0.5, run { file = file(one), define = { VALUE = -0.5 } })
      assert.are.equal(7, run { source = one, define = { VALUE = "SEVEN", SEVEN = "(3 + 4)" } })
    end)

    it("takes defines named by any capital letter: the generated code and the prelude have none", function()
      local define = { VALUE = "(A + Z)" }
      for letter in ("ABCDEFGHIJKLMNOPQRSTUVWXYZ"):gmatch "." do define[letter] = letter:byte() end
      assert.are.equal(65 + 90, run { source = one, define = define })
    end)

    it("finds quoted includes beside the including file first, at any depth", function()
      local folder = helper.tmp()
      helper.run("mkdir " .. folder .. "/sub")
      helper.write(folder .. "/sub/a.cuh", '#pragma once\n#include "b.cuh"\n')
      helper.write(folder .. "/sub/b.cuh",
        '#ifndef B\n#define B\n#include "a.cuh"\n#define VALUE 5\n#endif\n')
      helper.write(folder .. "/k.cu", '#include "sub/a.cuh"\n' .. one)
      assert.are.equal(5, run { file = folder .. "/k.cu" })
    end)

    it("says that KERNEL wants prelude.cuh, unless a header defines it", function()
      local said = message { source = "\nKERNEL void f(float *y) {}", name = "k.cu", device = device }
      assert.matches('k.cu:2: kernel f: KERNEL is a word of prelude.cuh: begin the source with #include "prelude.cuh"',
        said, 1, true)
      helper.needs_compiler(device)
      local folder = helper.tmp()
      helper.write(folder .. "/mine.cuh", '#include "prelude.cuh"\n#define MINE KERNEL\n')
      helper.write(folder .. "/k.cu", '#include "mine.cuh"\nKERNEL void f(float *y) { y[0] = 4; }')
      assert.are.equal(4, run { file = folder .. "/k.cu" })
    end)

    it("leaves an include under #if to the compiler when it is nowhere", function()
      assert.are.equal(2, run { source = '#ifdef ABSENT\n#include "absent.cuh"\n#endif\n' .. one,
        define = { VALUE = 2 } })
    end)

    it("carries the compiler's log when it does not compile, with the user's file and line", function()
      helper.needs_compiler(device)
      local path = file('#include "prelude.cuh"\n\nKERNEL void f(float *y) { y[0] = nonsense; }\n')
      local said = message { file = path, device = device }
      assert.truthy(said:find(path, 1, true), said)
      assert.truthy(said:find("nonsense", 1, true), said)
      assert.truthy(said:find(path .. "[:(]3"), said)
      assert.are.equal(1, run { source = one, define = { VALUE = 1 } }) -- and nothing is broken by it
    end)
  end)

  it("names the file that it cannot read", function()
    says({ file = "no/such/kernel.cu" }, "reading no/such/kernel.cu: No such file or directory")
    local folder = helper.tmp()
    says({ file = folder }, "reading " .. folder .. ": Is a directory")
    local path = file "KERNEL void f() {}\0"
    says({ file = path }, "reading " .. path .. ": byte 18 is NUL: this is no text")
  end)

  it("names an include that is nowhere, and where it looked", function()
    local path = file '\n#include "gone.cuh"\nKERNEL void f() {}'
    says({ file = path }, path .. ':2: cannot find "gone.cuh" (looked in ' .. path:match "(.*)/" .. ", ")
    says({ file = path }, "/kernels; a header of the compiler's own is written <gone.cuh>)")
    local folder = helper.tmp()
    helper.write(folder .. "/a.cuh", '#include "gone.cuh"\n')
    helper.write(folder .. "/k.cu", '#include "a.cuh"\nKERNEL void f() {}')
    says({ file = folder .. "/k.cu" }, folder .. '/a.cuh:1: cannot find "gone.cuh"')
  end)

  it("refuses one name for two different files", function()
    local folder = helper.tmp()
    helper.run("mkdir " .. folder .. "/sub")
    helper.write(folder .. "/a.cuh", "// one\n")
    helper.write(folder .. "/sub/a.cuh", "// another\n")
    helper.write(folder .. "/sub/b.cuh", '\n#include "a.cuh"\n')
    helper.write(folder .. "/k.cu", '#include "a.cuh"\n#include "sub/b.cuh"\nKERNEL void f() {}')
    local expected = 'F/sub/b.cuh:2: "a.cuh" means F/sub/a.cuh here and F/a.cuh elsewhere'
    says({ file = folder .. "/k.cu" }, (expected:gsub("F", folder)))
  end)

  it("refuses defines that are no #define line", function()
    local function define(name, value, expected)
      says({ source = one, name = "k.cu", define = { [name] = value } },
        "compiling k.cu: define " .. expected)
    end
    define("a b", 1, '"a b": the name is no identifier')
    define("F(x)", 1, '"F(x)": the name is no identifier')
    define("1st", 1, '"1st": the name is no identifier')
    define("", 1, '"": the name is no identifier')
    define("float", "double", "float: the name is a keyword")
    define("defined", 1, "defined: the name is a keyword")
    define("VALUE", "1\n#include <x>", "VALUE: its value holds the end of a line")
    define("VALUE", "1 \\", "VALUE: its value ends with a backslash")
    define("VALUE", "1 /* ", "VALUE: its value opens a comment")
  end)

  it("wants either a file or a source", function()
    assert.has_error(function() rp.compile {} end)
    assert.has_error(function() rp.compile { file = "k.cu", source = one } end)
  end)
end)
