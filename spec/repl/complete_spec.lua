-- What Tab offers: by the module, and once for each kind at a terminal.
local complete = require "reprise.repl.complete"
local helper = require "spec.helper"
local terminal = require "spec.support.terminal"

describe("completion", function()
  local folders = { ["."] = { "./", "../", "scripts/", "spec/", ".hidden", "sums.lua" }, ["scripts/"] = { "tour.lua" } }

  local function list(folder) return folders[folder] end

  -- What is inserted, and the candidates with spaces between.
  local function offers(before)
    local inserted, found = complete.candidates(before, list)
    return inserted, table.concat(found, " ")
  end

  local function gives(inserted, found, before)
    local a, b = offers(before)
    assert.equal(inserted, a, before)
    assert.equal(found, b, before)
  end

  before_each(function()
    _G.zebra = { stripes = { 1, { color = 1, count = 2 } }, _secret = 1, close = function() end, ["no name"] = 1 }
    _G.zebroid = setmetatable({}, { __index = setmetatable({ walk = function() end }, { __index = { wait = print, age = 1 } }) })
  end)

  after_each(function() _G.zebra, _G.zebroid = nil, nil end)

  it("knows globals and keywords", function()
    gives("", "zebra zebroid", "print(zebr")
    gives("nction", "", "local f = fu")
    gives("", "", "nothing_of_this")
  end)

  it("knows fields, through indices too, and hides what begins with an underscore", function()
    gives("", "close stripes", "zebra.")
    gives("ipes", "", "x = zebra.str")
    gives("co", "", "zebra.stripes[2].")
    gives("cret", "", "zebra._se")
    gives("", "color count", 'zebra["stripes"][2].co')
  end)

  it("knows methods through metatables, and strings' methods", function()
    gives("", "wait walk", "zebroid:wa")
    gives("ge", "", "zebroid.a")
    gives("", "", "zebroid:ag")
    _G.zebra = "text"
    gives("er", "", "zebra:upp")
  end)

  it("knows methods and fields of the raw binding's values", function()
    _G.zebra = require "reprise".arange(3, "i32", "cpu")
    gives("o", "", "zebra:cl")
    gives("ape", "", "zebra.sh")
    gives("", "to totable transpose", "zebra:t")
  end)

  it("knows what the module loads later", function()
    local rp = _G.rp
    _G.rp = require "reprise"
    finally(function() _G.rp = rp end)
    gives("", "open_scope ops", "rp.op")
  end)

  it("does not call what stands before the dot", function()
    gives("", "", "zebra.close().")
  end)

  it("knows modules after require", function()
    local there = require("reprise.core").home() .. "/lua/"
    folders[there .. "reprise/"] = { "ops.lua", "beam.lua", "types.txt", "repl/" }
    gives("am", "", 'require "reprise.be')
    gives("", "", "require('reprise.typ")
  end)

  it("knows files inside other strings and after :load", function()
    gives("", "scripts/ spec/ sums.lua", 'io.open "s')
    gives("ur.lua", "", "dofile('scripts/to")
    gives("", "scripts/ spec/ sums.lua", ":load s")
    gives("idden", "", '".h')
    gives("", "", '"nowhere/')
  end)

  it("knows commands", function()
    gives("me", "", ":ti")
    gives("ipes", "", ":time zebra.str")
    gives("ipes", "", "? zebra.str")
  end)

  it("offers nothing in a comment, and an indent in an empty line", function()
    gives("", "", "x -- zeb")
    gives("  ", "", "")
  end)

  it("lists in columns, downwards", function()
    assert.equal("a    ccc\nbb   dd", complete.listed({ "a", "bb", "ccc", "dd" }, 10))
    assert.equal("", complete.listed({}, 10))
  end)
end)

describe("Tab at a terminal", function()
  local function open()
    terminal.needs_editor()
    local t = terminal.open(helper.quote(helper.program()), { REPRISE_DEVICE = "cpu" })
    t:ready()
    return t
  end

  local function becomes(expected, ...)
    local t = open()
    for _, keys in ipairs { ... } do
      if keys == "Tab" then t:press "Tab" elseif keys:find "\n" then t:enter((keys:gsub("\n", ""))) else t:type(keys) end
    end
    t:expect(expected)
  end

  it("completes a method of a tensor", function() becomes("> x:clone", "x = rp.arange(3)\n", "x:clon", "Tab") end)
  it("completes a field of a tensor", function() becomes("> x.shape", "x = rp.arange(3)\n", "x.sh", "Tab") end)
  it("completes a global and a keyword", function() becomes("> return setmetatable", "retu", "Tab", " setm", "Tab") end)
  it("lists several candidates below the line", function()
    becomes("> string.re\nrep      reverse\n> string.re", "string.r", "Tab", "Tab")
  end)
  it("completes a module", function() becomes('> require "reprise.options', 'require "reprise.opt', "Tab") end)
  it("completes a file name", function()
    becomes('> io.open "/usr/include', 'io.open "/usr/inc', "Tab")
  end)
end)
