-- Installing: each way in which people install it, through scripts/package.sh, which uses what it installed.
local helper = require "spec.helper"
local core = require "reprise.core"

local SEEN = "package.sh: the source cannot be hidden here, so it stays in sight\n"

local function command(name)
  return helper.run("command -v " .. name) == 0
end

local function read_if_any(path)
  local file = io.open(path)
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

describe("installed", function()
  local build = core.home()

  -- The ways need the source, the build folder of this program, and tools.
  local function needs(...)
    local settings = read_if_any(build .. "/CMakeCache.txt")
    if not io.open "CMakeLists.txt" or settings == "" then helper.pending "there is no build folder here to install from" end
    if (settings:match "REPRISE_SANITIZE:%w+=(%S+)" or "OFF") ~= "OFF" then
      helper.pending "a build with sanitizers: a host program would need them too"
    end
    for _, name in ipairs { ... } do
      if not command(name) then helper.pending(("there is no %s here"):format(name)) end
    end
  end

  local function installs(way)
    local code, out, err = helper.run(("REPRISE_BUILD=%s bash scripts/package.sh %s"):format(helper.quote(build), way))
    if err ~= SEEN then assert.equal("", err) end -- some containers allow no mounts
    assert.equal(way .. ": installed, and used from there\n", out)
    assert.equal(0, code)
  end

  it("by cmake: the program, a stock lua5.4 and busted, C programs by pkg-config and CMake use it", function()
    needs("cmake", "cc", "pkg-config", "lua5.4", "busted")
    installs "prefix"
  end)

  it("from a tarball that was unpacked elsewhere: the same", function()
    needs("cpack", "cc", "pkg-config", "lua5.4", "busted")
    installs "tarball"
  end)

  it("by luarocks make: the program, a stock lua5.4 and busted use it", function()
    needs("luarocks", "lua5.4", "busted")
    installs "rock"
  end)

  it("refuses a way that it does not know", function()
    needs "cmake"
    local code, _, err = helper.run(("REPRISE_BUILD=%s bash scripts/package.sh dpkg"):format(helper.quote(build)))
    assert.equal(1, code)
    assert.equal("package.sh: dpkg: the ways are prefix, tarball and rock\n", err)
  end)

  it("with one version in the build, the module and the rockspec", function()
    if not io.open "CMakeLists.txt" then helper.pending "the source is not here" end
    local version = core.version
    assert.truthy(helper.read("CMakeLists.txt"):find("project(reprise VERSION " .. version, 1, true))
    assert.truthy(helper.read("CHANGELOG.md"):find("## " .. version, 1, true))
    local rockspec = helper.read("reprise-" .. version .. "-1.rockspec")
    assert.truthy(rockspec:find('version = "' .. version .. '-1"', 1, true))
    assert(load(rockspec, "rockspec", "t", {}))()
  end)

  it("names the options of the program in its man page and its completion", function()
    if not io.open "CMakeLists.txt" then helper.pending "the source is not here" end
    local _, help = helper.run(helper.quote(helper.program()) .. " --help")
    local page = helper.read("runtime/package/reprise.1.in"):gsub("\\%-", "-")
    local completion = helper.read "runtime/package/completion.bash"
    for option in help:gmatch "%-%-%a[%w-]*" do
      assert.truthy(page:find(option, 1, true), option)
      assert.truthy(completion:find(option, 1, true), option)
    end
  end)

  it("names the environment variables of README.md in its man page", function()
    local file = io.open(build .. "/reprise.1")
    if not file then helper.pending "there is no man page beside the program" end
    local page = file:read "a"
    file:close()
    for name in helper.read("README.md"):gmatch "\n| `(REPRISE_[%u_]+)`" do
      if name ~= "REPRISE_BUILD" then assert.truthy(page:find(".B " .. name .. "\n", 1, true), name) end
    end
  end)
end)
