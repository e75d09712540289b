-- The scripts, run as a user runs them.
local browser = require "spec.support.browser"
local helper = require "spec.helper"

local function run(script, device)
  local program = helper.quote(helper.program())
  return helper.run(("REPRISE_DEVICE=%s %s %s"):format(device or "", program, script))
end

describe("scripts/tour.lua", function()
  helper.each_device(function(device)
    it("writes a kernel, launches, captures and replays it", function()
      helper.needs_compiler(device)
      local code, out, err = run("scripts/tour.lua", device)
      assert.equal("", err)
      assert.equal(0, code)
      local lines = {}
      for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
      assert.truthy(lines[1]:find(device, 1, true))
      assert.same({
        "launch   10 20 30 40",
        "replay 1 2 4 6 8",
        "replay 2 4 8 12 16",
        "replay 3 8 16 24 32",
      }, { table.unpack(lines, 2, 5) })
      assert.truthy(lines[6]:find "^graph    double: %d+ nodes, %d+ bytes at once$")
      assert.equal(6, #lines)
    end)
  end)

  it("is no longer than 50 lines", function()
    local _, lines = helper.read("scripts/tour.lua"):gsub("\n", "")
    assert.is_true(lines <= 50)
  end)
end)

describe("scripts/devices.lua", function()
  it("lists the devices present, as --devices does", function()
    local code, out, err = run "scripts/devices.lua"
    assert.equal("", err)
    assert.equal(0, code)
    for _, name in ipairs(helper.devices()) do assert.truthy(("\n" .. out):find("\n" .. name, 1, true)) end
    local _, same = run "--devices"
    assert.equal(out, same)
  end)
end)

describe("scripts/beam.lua", function()
  helper.each_device(function(device)
    it("finds what the search on the device finds", function()
      for _, beams in ipairs { 1, 2, 5 } do
        local flags = (" --num-beams %d --num-return-sequences %d --scores"):format(beams, beams)
        local words = "knowledge motivate antidisestablishmentarianism a"
        local code, out, err = run(("scripts/beam.lua --beams %d %s"):format(beams, words), device)
        assert.equal(0, code, err)
        local _, expected = run("scripts/g2p.lua" .. flags .. " " .. words, device)
        assert.equal(expected, out)
      end
    end)
  end)
end)

describe("scripts/stress.lua", function()
  helper.each_device(function(device)
    it("says a word with each pattern of stress", function()
      local code, out, err = run("scripts/stress.lua --syllables 2 --results 2 record", device)
      assert.equal(0, code, err)
      assert.equal("R IH0 K AO1 R D\t-0.05504\nR IH2 K AO1 R D\t-0.52514\n", out)
      out = select(2, run("scripts/stress.lua --syllables 1 --results 99 record", device))
      assert.matches("^[^%d]*1[^%d]*\t%-[%d.]+\n$", out)
    end)
  end)
end)

describe("scripts/look.lua", function()
  helper.each_device(function(device)
    it("decodes a word, and writes what the pool did meanwhile", function()
      local file = helper.tmp() .. "/memory.html"
      local code, out, err = run("scripts/look.lua --new 4 --out " .. file .. " knowledge", device)
      assert.equal("", err)
      assert.equal(0, code)
      assert.matches("^N AA1 L IH0 JH\n4 graphs share [%d.]+ MiB of scratch and [%d.]+ MiB of inputs: see ", out)
      assert.matches("^<!doctype html>.*\"growing\"", helper.read(file))
    end)
  end)
end)

describe("scripts/screenshot.sh", function()
  it("makes the picture in README.md of the page that a browser shows", function()
    browser.needed()
    if not io.open "CMakeLists.txt" then pending "the source is not here" end
    local image = helper.tmp() .. "/memory.png"
    local build = helper.quote((helper.program():gsub("/reprise$", "")))
    local code, out, err = helper.run(("REPRISE_BUILD=%s bash scripts/screenshot.sh %s dark"):format(build, image))
    assert.equal(0, code, err)
    assert.matches("memory.png: %d+ bytes\n$", out)
    local made, shown = helper.read(image), helper.read "scripts/images/memory.png"
    assert.equal("\x89PNG\r\n\x1a\n", made:sub(1, 8))
    assert.equal(shown:sub(17, 24), made:sub(17, 24), "width and height")
    assert.is_true(#shown < 200 * 1024)
  end)

  it("says what is wrong with its arguments", function()
    local code, _, err = helper.run "bash scripts/screenshot.sh x.png blue"
    assert.same({ 1, "screenshot.sh: blue: light or dark is expected\n" }, { code, err })
  end)
end)

describe("a cold start", function()
  helper.each_device(function(device)
    it("compiles nothing: the library's kernels came with the program", function()
      local home = require("reprise.core").home()
      if not io.open(home .. "/prebuilt") then pending "no kernels were built with the program" end
      local program = helper.quote(helper.program())
      local code, out, err = helper.run(([[
        REPRISE_CACHE=%s REPRISE_DEVICE=%s %s -e '
          arg = { [0] = "scripts/g2p.lua", "knowledge" }
          dofile(arg[0])
          local counts = require("reprise.core").cache_counts()
          print(counts.compiled, counts.hits, counts.prebuilt > 0)']]):format(helper.tmp(), device, program))
      assert.equal(0, code, err)
      assert.equal("N AA1 L IH0 JH\n0\t0\ttrue\n", out)
    end)
  end)
end)

describe("all scripts", function()
  it("open with their usage line and have fewer than 100 lines", function()
    local _, list = helper.run "ls scripts/*.lua"
    for path in list:gmatch "[^\n]+" do
      local text = helper.read(path)
      local _, lines = text:gsub("\n", "")
      assert.is_true(lines < 100, path .. " is too long")
      assert.truthy(text:find("usage: reprise scripts/", 1, true), path)
    end
  end)
end)
