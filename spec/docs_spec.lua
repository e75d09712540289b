-- The documents say what is so: types.lua has what the raw binding has, and what README shows runs as shown.
local helper = require "spec.helper"
local core = require "reprise.core"

-- Names of one set that the other lacks, sorted.
local function only_in(set, other)
  local list = {}
  for name in pairs(set) do
    if not other[name] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

describe("lua/reprise/types.lua", function()
  local home = core.home()
  local text = helper.read(home .. "/lua/reprise/types.lua")

  -- "reprise.Tensor.view" for every function; a class's methods belong to the local that follows its ---@class.
  local described, classes, class = {}, {}, nil
  for line in text:gmatch "[^\n]+" do
    class = line:match "^%-%-%-@class ([%w.]+)" or class
    local name = line:match "^local (%w+) = {}"
    if name then classes[name] = class end
    local owner, member = line:match "^function (%w+)[.:]([%w_]+)%("
    if owner then described[classes[owner] .. "." .. member] = true end
  end

  local present = {}
  for name, value in pairs(core) do
    if type(value) == "function" then present["reprise.core." .. name] = true end
  end
  for key, value in pairs(debug.getregistry()) do
    local methods = type(key) == "string" and key:match "^reprise%.%u" and type(value) == "table" and value.methods
    for name in pairs(methods or {}) do present[key .. "." .. name] = true end
  end

  it("describes every function and method of reprise.core, and nothing else", function()
    assert.same({}, only_in(present, described))
    assert.same({}, only_in(described, present))
  end)

  it("describes each with at least one line", function()
    for line in text:gmatch "([^\n]*)\nfunction " do assert.truthy(line:find "^%-%-%-", line) end
  end)

  it("is Lua", function() assert(load(text)) end)
end)

local function needs_source()
  if not io.open "CMakeLists.txt" then helper.pending "the source is not here" end
end

-- The Lua snippets of a page run, and print what stands behind their arrows.
local function snippets_run(path)
  local number = 0
  for snippet in helper.read(path):gmatch "```lua\n(.-)```" do
    number = number + 1
    it("has a snippet " .. number .. " that runs and prints what it says", function()
      if snippet:find("source = ", 1, true) then helper.needs_compiler(core.device().name) end
      local file = helper.tmp() .. "/snippet.lua"
      helper.write(file, snippet)
      local code, out, err = helper.run(helper.quote(helper.program()) .. " " .. file)
      assert.equal("", err)
      assert.equal(0, code)
      local expected = {}
      for line in snippet:gmatch "%-%-> ([^\n]*)" do expected[#expected + 1] = line .. "\n" end
      assert.equal(table.concat(expected), out)
    end)
  end
end

-- Files that a page links to, from its own folder, and scripts that it names are there.
local function names_files(path)
  it("names files that exist", function()
    needs_source()
    local text, folder = helper.read(path), path:match "^(.*/)" or ""
    for name in text:gmatch "%]%(([%w/_.-]+)%)" do assert(io.open(folder .. name), name):close() end
    for name in text:gmatch "[^%w/](scripts/[%w_]+%.%w+)" do assert(io.open(name), name):close() end
  end)
end

for _, path in ipairs { "lua/first-step.md", "lua/README.md", "kernels/README.md", "runtime/README.md",
  "lua/reprise/README.md", "CONTRIBUTING.md" } do
  local file = io.open(path)
  if file then
    file:close()
    describe(path, function()
      snippets_run(path)
      names_files(path)
    end)
  end
end

describe("README.md", function()
  local path = "README.md"
  local text = helper.read(path)

  it("shows both commands before anything else", function()
    local first = text:match "```(.-)```"
    assert.truthy(first:find "^%s*bash scripts/demo%.sh[^\n]*\nbash scripts/test%.sh")
  end)

  snippets_run(path)
  names_files(path)

  it("has every environment variable that the source reads, and no other", function()
    needs_source()
    local _, list = helper.run "cat runtime/*.c lua/reprise/*.lua scripts/*.sh"
    local read, named = {}, {}
    for name in list:gmatch 'getenv%s*%(?%s*"(REPRISE_[%u_]+)"' do read[name] = true end
    for name in list:gmatch "%${(REPRISE_[%u_]+)" do read[name] = true end
    for name in text:gmatch "\n| `(REPRISE_[%u_]+)`" do named[name] = true end
    assert.same({}, only_in(read, named))
    assert.same({}, only_in(named, read))
  end)
end)

describe("the maps", function()
  for folder, ending in pairs { runtime = "c", ["lua/reprise"] = "lua", kernels = "cu" } do
    it("of " .. folder .. " name every file there", function()
      needs_source()
      local map = helper.read(folder .. "/README.md")
      local named, there = {}, {}
      for name in map:gmatch "[%w_]+" do named[name] = true end
      local _, list = helper.run(("ls %s/*.%s"):format(folder, ending))
      for name in list:gmatch("([%w_]+)%." .. ending) do there[name] = true end
      assert.same({}, only_in(there, named))
    end)
  end
end)

describe("kernels/README.md", function()
  helper.each_device(function(device)
    it("shows a kernel that compiles and does what it says", function()
      helper.needs_compiler(device)
      local source = helper.read("kernels/README.md"):match "```c\n(.-)```"
      local prog = core.compile { source = source, device = device }
      local x, y = core.arange(21, "f32", device), core.full({ 21 }, 1, "f32", device)
      prog.axpy { grid = 2, block = 64, y, x, 2, 21 }
      for i = 1, 21 do assert.equal(2 * (i - 1) + 1, y[i]) end
    end)
  end)
end)
