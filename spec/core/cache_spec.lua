-- Compiled kernels on disk: when they are found, when they are not, and that a folder or an entry that
-- cannot be believed costs time and nothing else. The counts are those of a process, so each step is one of
-- its own.
local core = require "reprise.core"
local helper = require "spec.helper"
local kernels = require "spec.support.kernels"

describe("the kernel cache", function()
  helper.each_device(function(device)
    local cache, files

    before_each(function()
      cache = helper.tmp() .. "/cache"
      files = kernels.sources(helper.tmp(), 1)
    end)

    local function expect(expected)
      local counts = kernels.compile(device, cache, files)
      for _, name in ipairs { "prebuilt", "hits", "compiled", "rebuilt" } do
        assert.are.equal(expected[name] or 0, counts[name], name)
      end
    end

    it("compiles once, and keeps the folder to its owner", function()
      helper.needs_compiler(device)
      expect { compiled = 1 }
      expect { hits = 1 }
      assert.are.equal(1, #kernels.entries(cache))
      local _, mode = helper.run("stat -c %a " .. cache)
      assert.are.equal("700\n", mode)
    end)

    it("tells sources, defines and kernels apart", function()
      helper.needs_compiler(device)
      expect { compiled = 1 }
      helper.write(files[1], helper.read(files[1]) .. "// a comment\n")
      expect { compiled = 1 }
      files = { files[1], kernels.sources(helper.tmp(), 2)[2] }
      expect { compiled = 1, hits = 1 }
    end)

    it("does not care where a source lies or what it is called", function()
      helper.needs_compiler(device)
      expect { compiled = 1 }
      local moved = helper.tmp() .. "/other.cu"
      helper.write(moved, helper.read(files[1]))
      files = { moved }
      expect { hits = 1 }
    end)

    it("rebuilds an entry that lies under another's name", function()
      helper.needs_compiler(device)
      files = kernels.sources(helper.tmp(), 2)
      expect { compiled = 2 }
      local names = kernels.entries(cache)
      helper.run(("cp %s/%s %s/%s"):format(cache, names[1], cache, names[2]))
      expect { hits = 1, compiled = 1, rebuilt = 1 }
      expect { hits = 2 }
    end)

    it("neither reads nor writes a folder that others may write", function()
      helper.needs_compiler(device)
      expect { compiled = 1 }
      helper.run("chmod g+w " .. cache)
      expect { compiled = 1 }
      helper.run("chmod g-w " .. cache)
      expect { hits = 1 }
    end)

    -- Counts of a process that compiles its sources ahead, then one by one; how many of them fail then.
    local function ahead(count, more)
      local names = {}
      for i, file in ipairs(kernels.sources(helper.tmp(), count)) do names[i] = ("{ file = %q }"):format(file) end
      local code, out, err = helper.run(([[REPRISE_CACHE=%s %s -e '
        local core = require "reprise.core"
        local device, specs, failed = core.device "%s", { %s }, 0
        core.compile_ahead(device, specs)
        local after = core.cache_counts()
        for _, spec in ipairs(specs) do
          spec.device = device
          if not pcall(core.compile, spec) then failed = failed + 1 end
        end
        print(after.compiled, core.cache_counts().compiled, core.cache_counts().hits, failed)']]):format(
        cache, helper.quote(helper.program()), device, table.concat(names, ", ") .. (more or "")))
      assert.are.equal(0, code, err)
      return out
    end

    it("is filled side by side, and what is compiled ahead is found", function()
      helper.needs_compiler(device)
      assert.are.equal("5\t5\t5\t0\n", ahead(5))
      assert.are.equal("0\t0\t0\t0\n", ahead(0))
    end)

    it("says whether a source lies there compiled, and compiles nothing for the answer", function()
      helper.needs_compiler(device)
      local file = kernels.sources(helper.tmp(), 1)[1]
      local code, out, err = helper.run(([[REPRISE_CACHE=%s %s -e '
        local core = require "reprise.core"
        local device, spec = core.device "%s", { file = %q }
        local before = core.is_compiled(device, spec)
        core.compile { file = spec.file, device = device }
        local counts = core.cache_counts()
        print(before, core.is_compiled(device, spec), core.is_compiled(device, { file = "/no/such.cu" }), counts.compiled)']]
      ):format(cache, helper.quote(helper.program()), device, file))
      assert.are.equal(0, code, err)
      assert.are.equal("false\ttrue\tfalse\t1\n", out)
    end)

    it("says what does not compile ahead when it is compiled", function()
      helper.needs_compiler(device)
      local wrong = [[, { source = "#include \"prelude.cuh\"\nKERNEL void f(float *y) { y = 1; }" }, { file = "/no/such.cu" }]]
      local out = ahead(2, wrong)
      assert.are.equal("3\t4\t2\t2\n", out)
    end)

    it("works without a folder", function()
      helper.needs_compiler(device)
      cache = helper.tmp() .. "/file"
      helper.write(cache, "not a folder")
      expect { compiled = 1 }
      expect { compiled = 1 }
    end)

    it("works where no lock can be had", function()
      helper.needs_compiler(device)
      helper.run("umask 077; mkdir -p " .. cache .. "/.lock")
      expect { compiled = 1 }
      expect { hits = 1 }
    end)

    it("follows no link and waits for no pipe in place of an entry", function()
      helper.needs_compiler(device)
      expect { compiled = 1 }
      local path = cache .. "/" .. kernels.entries(cache)[1]
      helper.run(("mv %s %s.real; ln -s %s.real %s"):format(path, path, path, path))
      expect { compiled = 1 }
      helper.run(("rm %s; mkfifo %s"):format(path, path))
      expect { compiled = 1, rebuilt = 1 }
      expect { hits = 1 }
    end)

    it("leaves no temporary file behind", function()
      helper.needs_compiler(device)
      expect { compiled = 1 }
      local _, out = helper.run("ls -A " .. cache .. " | grep -c -v -x -E '[0-9a-f]{32}|[.]lock'")
      assert.are.equal("0\n", out)
    end)

    it("finds prebuilt kernels whatever the compiler is", function()
      helper.needs_compiler(device)
      local home = helper.tmp()
      local library = core.home()
      helper.run(("cp -r %s/lua %s/kernels %s"):format(library, library, home))
      local kind, arch = device:match "^%a+", nil
      for _, known in ipairs(core.devices()) do arch = known.name == device and known.arch or arch end
      local build = ("require('reprise.core').build_kernels(%q, %q, %q, { file = %q })"):format(
        home .. "/prebuilt", kind, arch, files[1])
      local env = "REPRISE_HOME=" .. home .. " "
      local code, _, err = helper.run(env .. helper.program() .. " -e " .. helper.quote(build))
      assert.are.equal(0, code, err)
      code, _, err = helper.run(env .. kernels.command(device, cache, files))
      assert.are.equal(0, code, err)
      local _, out = helper.run(env .. "REPRISE_CXX=/no/compiler " .. kernels.command(device, cache, files))
      assert.are.equal(1, kernels.counts(out).prebuilt)
      assert.are.equal(0, kernels.counts(out).compiled)
    end)
  end)
end)
