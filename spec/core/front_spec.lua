-- The program's command line: what it runs, what it prints where, and its exit codes.
local helper = require "spec.helper"

describe("the program", function()
  local program = helper.quote(helper.program())

  local function run(arguments, input)
    local pipe = input and ("printf '%s' " .. helper.quote(input) .. " | ") or ""
    return helper.run(pipe .. program .. " " .. arguments)
  end

  local function script(text)
    local path = helper.tmp() .. "/script.lua"
    helper.write(path, text)
    return path
  end

  local function prints(expected, arguments, input)
    local code, out, err = run(arguments, input)
    assert.equal("", err)
    assert.equal(expected, out)
    assert.equal(0, code)
  end

  it("runs a chunk given by -e, also without a space", function()
    prints("3\n", "-e 'print(1 + 2)'")
    prints("3\n", "'-eprint(1 + 2)'")
  end)

  it("runs several chunks in order and stops at the first error", function()
    local code, out, err = run "-e 'print(1)' -e 'error(\"two\", 0)' -e 'print(3)'"
    assert.equal(1, code)
    assert.equal("1\n", out)
    assert.truthy(err:find("^reprise: two\nstack traceback:\n"))
  end)

  it("requires a module given by -l into a global", function()
    prints("table\n", "-l reprise.core -e 'print(type(_G[\"reprise.core\"]))'")
    prints("table\n", "-l core=reprise.core -e 'print(type(core))'")
  end)

  it("runs a script and hands it its arguments, as arg and as ...", function()
    local path = script "print(arg[0], arg[1], arg[2], #arg, ...) print(arg[-1] ~= nil, arg[-2])"
    prints(("%s\ta\t-e\t2\ta\t-e\ntrue\tnil\n"):format(path), path .. " a -e")
  end)

  it("counts options before the script by negative indices", function()
    local path = script "print(arg[-1], arg[-2])"
    prints("x = 1\t-e\n", "-e 'x = 1' " .. path)
  end)

  it("takes what follows -- as the script", function()
    prints("ok\n", "-- " .. script "print 'ok'")
  end)

  it("runs standard input for -, with arguments, and when it is given nothing else", function()
    prints("a\n", "- a", "print(...)")
    prints("b\n", "", "print 'b'")
  end)

  it("shows its version for -v", function()
    local code, out = run "-v"
    assert.equal(0, code)
    assert.truthy(out:find("^reprise %d+%.%d+%.%d+ %(Lua 5%.4%.%d+%)\n$"))
  end)

  it("shows its options for -h and --help", function()
    for _, option in ipairs { "-h", "--help" } do
      local code, out, err = run(option)
      assert.equal(0, code)
      assert.equal("", err)
      for _, name in ipairs { "-e", "-l", "-i", "-v", "--test", "--devices", "--build-kernels" } do
        assert.truthy(out:find(name, 1, true), name)
      end
    end
  end)

  it("ends with 1 and a traceback on stderr when a script fails", function()
    local path = script "local function deep() error 'broken' end\ndeep()"
    local code, out, err = run(path)
    assert.equal(1, code)
    assert.equal("", out)
    assert.truthy(err:find(("^reprise: %s:1: broken\nstack traceback:\n"):format(path:gsub("%p", "%%%0"))))
    assert.truthy(err:find(":2: in main chunk", 1, true))
  end)

  it("ends with 1 when the script is missing or does not parse", function()
    local code, _, err = run "/no/such/script.lua"
    assert.equal(1, code)
    assert.truthy(err:find("cannot open /no/such/script.lua", 1, true))
    code, _, err = run "-e 'x ='"
    assert.equal(1, code)
    assert.truthy(err:find("unexpected symbol near <eof>", 1, true))
  end)

  it("describes an error that is no string", function()
    local _, _, err = run "-e 'error({})'"
    assert.truthy(err:find("(error object is a table value)", 1, true))
    _, _, err = run "-e 'error(setmetatable({}, { __tostring = function() return \"shown\" end }))'"
    assert.truthy(err:find("^reprise: shown\n"))
  end)

  it("ends with 2 and its usage when the command line is wrong", function()
    for _, wrong in ipairs { "-q", "-e", "-l", "-ix", "--tests", "-v --wrong" } do
      local code, out, err = run(wrong)
      assert.equal(2, code, wrong)
      assert.equal("", out)
      assert.truthy(err:find("^reprise: .-: .-\nusage: reprise"), wrong)
    end
  end)

  it("ends with the code a script gives to os.exit", function()
    assert.equal(7, (run "-e 'os.exit(7)'"))
    assert.equal(1, (run "-e 'os.exit(false, true)'"))
  end)

  it("loads C modules that were made for a stock Lua 5.4", function()
    prints("function\n", "-e 'print(type(require(\"lfs\").attributes))'")
  end)

  it("gives a second copy of the core no place, naming both files", function()
    local copy = require("reprise.core").home() .. "/lib/lua/5.4/reprise/core.so"
    if not io.open(copy) then pending "there is no core.so beside the program" end
    local code, _, err = run("-l reprise.core -e 'assert(package.loadlib(" ..
      ('"%s"'):format(copy) .. ", \"luaopen_reprise_core\"))()'")
    assert.equal(1, code)
    assert.truthy(err:find("reprise.core: ", 1, true))
    assert.truthy(err:find("/core.so: this state already uses the copy in ", 1, true))
    assert.truthy(err:find(helper.program(), 1, true))
  end)

  it("names the folder when REPRISE_HOME is wrong", function()
    local code, _, err = helper.run("REPRISE_HOME=/no/such " .. program .. " -e 'print(1)'")
    assert.equal(1, code)
    assert.equal("reprise: REPRISE_HOME: /no/such: holds no lua/reprise/init.lua\n", err)
  end)

  it("says which specs are missing when --test finds none", function()
    local empty = helper.tmp()
    local code, out = run("--test " .. empty)
    assert.equal(1, code)
    assert.truthy(out:find("\n0 passed, 1 failed\n$"))
  end)

  it("counts failures and errors as failed, names what is pending once, and ends with 1", function()
    local folder = helper.tmp()
    helper.write(folder .. "/a_spec.lua", [[
      describe("a", function()
        it("passes", function() end)
        it("fails", function() assert.equal(1, 2) end)
        it("errs", function() error "broken" end)
        it("waits", function() pending "for rain" end)
        it("waits too", function() pending "for rain" end)
      end)]])
    local code, out = run("--test " .. folder)
    assert.equal(1, code)
    assert.truthy(out:find("\n1 passed, 2 failed\n$"))
    assert.truthy(out:find("FAILED: [^\n]*a_spec.lua:3: a fails\n"))
    assert.truthy(out:find("ERROR: [^\n]*a_spec.lua:4: a errs\n"))
    assert.equal(1, select(2, out:gsub("for rain", "")))
    assert.truthy(out:find("pending (2): for rain", 1, true))
  end)
end)

describe("the core in a stock lua5.4", function()
  local home = require("reprise.core").home()

  it("serves the same module", function()
    if helper.run "command -v lua5.4" ~= 0 then pending "there is no lua5.4 here" end
    if not io.open(home .. "/lib/lua/5.4/reprise/core.so") then pending "there is no core.so beside the program" end
    local code, out, err = helper.run(([[
      LUA_PATH="%s/lua/?.lua;%s/lua/?/init.lua" LUA_CPATH="%s/lib/lua/5.4/?.so" \
        lua5.4 -e 'local rp = require "reprise" print(rp.full({ 2 }, 3, "f32", "cpu"), rp.home())']]):format(home, home, home))
    if err:find("runtime does not come first", 1, true) or err:find("static TLS block", 1, true) then
      pending "the sanitizers want a program of their own"
    end
    assert.equal("", err)
    assert.equal(0, code)
    assert.truthy(out:find("{3., 3.} f32", 1, true), out)
    assert.truthy(out:find(home, 1, true))
  end)

  it("is refused by a module of another version, naming both", function()
    local core = require "reprise.core"
    local other = setmetatable({ version = "9.9.9" }, { __index = core })
    finally(function() package.loaded["reprise.core"] = core end)
    package.loaded["reprise.core"] = other
    local ok, message = pcall(dofile, home .. "/lua/reprise/init.lua")
    assert.is_false(ok)
    assert.truthy(message:find("is version 9.9.9", 1, true), message)
    assert.truthy(message:find(core.file, 1, true), message)
  end)
end)

describe("--build-kernels", function()
  local program = helper.quote(helper.program())

  it("ends with 2 when the folder is missing or an option is wrong", function()
    for _, wrong in ipairs { "", "--arch", "dir --arch", "dir --other x", "dir --arch a b" } do
      local code, _, err = helper.run(program .. " --build-kernels " .. wrong)
      assert.equal(2, code, wrong)
      assert.truthy(err:find "^usage: reprise %-%-build%-kernels DIR", wrong)
    end
  end)

  it("ends with 1 when the folder cannot be made", function()
    local file = helper.tmp() .. "/file"
    helper.write(file, "")
    local code, _, err = helper.run(program .. " --build-kernels " .. file .. "/folder --arch x86-64-v3")
    assert.equal(1, code)
    assert.truthy(err:find(("writing prebuilt kernels to %s/folder: "):format(file), 1, true), err)
  end)
end)

describe("Ctrl-C", function()
  -- An interrupted run of a script; it calls ready() when the signal may come. A shell starts background jobs with
  -- SIGINT ignored; the program's handler does not care.
  local function stops(text)
    local folder = helper.tmp()
    helper.write(folder .. "/script.lua", "io.stdout:setvbuf 'no' local function ready() print 'ready' end\n" .. text)
    local code, out, err = helper.run(([[
      cd %s && mkfifo pipe
      %s script.lua >pipe 2>err & child=$!
      { read line; kill -INT $child; cat; } <pipe
      wait $child; code=$?
      cat err >&2; exit $code]]):format(helper.quote(folder), helper.quote(helper.program())))
    assert.equal(130, code, err)
    assert.truthy(err:find("interrupted\nstack traceback:", 1, true), err)
    return out
  end

  it("ends a script with 130", function()
    stops "ready() while true do end"
  end)

  it("ends a script that catches every error", function()
    stops "ready() while true do pcall(function() while true do end end) end"
  end)

  it("ends a script that runs in coroutines", function()
    stops "coroutine.wrap(function() ready() while true do end end)()"
    stops "ready() while true do coroutine.resume(coroutine.create(function() while true do end end)) end"
  end)

  it("lets closers put things in order", function()
    local out = stops [[
      local guard <close> = setmetatable({}, { __close = function() for _ = 1, 100 do end print "closed" end })
      ready()
      while true do end]]
    assert.equal("closed\n", out)
  end)

  it("ends a read that waits", function()
    stops "local f = io.popen 'sleep 1' ready() f:read() while true do end"
  end)
end)

describe("coroutines in the program", function()
  it("behave as in a stock Lua", function()
    local function values(...) return { n = select("#", ...), ... } end
    local wrap = coroutine.wrap(function(a)
      local b = coroutine.yield(a + 1)
      return b, nil, b
    end)
    assert.equal(2, wrap(1))
    assert.same({ n = 3, 5, nil, 5 }, values(wrap(5)))
    local ok, message = pcall(wrap)
    assert.is_false(ok)
    assert.truthy(message:find("cannot resume dead coroutine", 1, true))
    assert.same({ n = 4, true, 1, nil, 3 }, values(coroutine.resume(coroutine.create(function(...) return ... end), 1, nil, 3)))
    local object = {}
    assert.same(values(false, object), values(pcall(coroutine.wrap(function() error(object) end))))
    assert.same(values(false, object), values(coroutine.resume(coroutine.create(function() error(object) end))))
  end)

  it("close with their closers, and refuse to while they run", function()
    local closed
    local co = coroutine.create(function()
      local guard <close> = setmetatable({}, { __close = function() closed = true end })
      coroutine.yield(guard ~= nil)
    end)
    coroutine.resume(co)
    assert.is_true(coroutine.close(co))
    assert.is_true(closed)
    local ok, message = pcall(coroutine.close, (coroutine.running()))
    assert.is_false(ok)
    assert.truthy(message:find("cannot close a running coroutine", 1, true))
    assert.has_error(function() coroutine.resume(1) end)
  end)
end)
