-- cupy issue 9667 and PR 6159: an edited header was ignored, since keys covered the source alone. Here every
-- quoted include, at any depth, is part of the key: editing one compiles exactly its dependents again.
local helper = require "spec.helper"
local kernels = require "spec.support.kernels"

describe("an edited header", function()
  helper.each_device(function(device)
    it("compiles exactly its dependents again", function()
      helper.needs_compiler(device)
      local folder = helper.tmp()
      local cache, path = folder .. "/cache", function(name) return folder .. "/" .. name end
      helper.write(path "deep.cuh", "#pragma once\nenum { DEEP = 1 };\n")
      helper.write(path "shallow.cuh", '#pragma once\n#include "deep.cuh"\n')
      helper.write(path "other.cuh", "#pragma once\nenum { OTHER = 1 };\n")
      local function source(name, header, value)
        local text = '#include "prelude.cuh"\n#include "%s"\nKERNEL void f(float *y) { y[0] = %s; }\n'
        helper.write(path(name), text:format(header, value))
        return path(name)
      end
      local files = { source("a.cu", "shallow.cuh", "DEEP"), source("b.cu", "shallow.cuh", "DEEP + 1"),
        source("c.cu", "other.cuh", "OTHER") }
      local function expect(hits, compiled)
        local counts = kernels.compile(device, cache, files)
        assert.are.same({ prebuilt = 0, hits = hits, compiled = compiled, rebuilt = 0 }, counts)
      end
      expect(0, 3)
      expect(3, 0)
      helper.write(path "deep.cuh", "#pragma once\nenum { DEEP = 2 };\n")
      expect(1, 2)
      helper.write(path "other.cuh", "#pragma once\nenum { OTHER = 2 };\n")
      expect(2, 1)
      helper.write(path "deep.cuh", "#pragma once\nenum { DEEP = 1 };\n")
      expect(3, 0) -- what it once was is still there
    end)
  end)
end)
