-- reprise.h: spec/support/host.c, a program that brings its own Lua, linked with the library of the build folder.
local helper = require "spec.helper"
local core = require "reprise.core"

describe("a host program", function()
  local build = core.home()

  local function needs()
    if not io.open(build .. "/libreprise.so") then helper.pending "there is no libreprise.so beside the program" end
    if helper.sanitized() then
      helper.pending "a build with sanitizers: a host program would need them too"
    end
  end

  helper.each_device(function(device)
    it("pushes, reads, writes in place, and gets every refusal in a sentence, in one state after the other", function()
      needs()
      local program = helper.tmp() .. "/host"
      local code, _, err = helper.run(("%s -std=c11 -Wall -Wextra -Wconversion -Wshadow -Werror -I%s -Iruntime "
        .. "spec/support/host.c -o %s -rdynamic -Wl,--whole-archive %s -Wl,--no-whole-archive -L%s -lreprise -lm -ldl "
        .. "-Wl,-rpath,%s"):format(helper.setting "CMAKE_C_COMPILER", helper.setting "LUA_INCLUDE", program,
          helper.setting "LUA_ARCHIVE", build, build))
      assert.equal("", err)
      assert.equal(0, code)
      local expected = [[
pushing a buffer: "f64" is no dtype
pushing a buffer: rank 9: 0 to 8 are possible
reading a buffer: reprise.Tensor expected, got number
reading a buffer: it has 16 bytes, there is room for 12
reading a buffer: the tensor is closed
16 bytes
1 3 2 4
]] .. (device == "cpu" and "0 0 20 \n" or "1 1 1 \n") .. "one path\n"
      local _, out = helper.run(("REPRISE_DEVICE=%s %s"):format(device, program))
      assert.equal(expected:rep(2), out)
    end)
  end)
end)
