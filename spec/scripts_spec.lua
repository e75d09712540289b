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

-- Lines that end in a number, which may differ in its last digit but one.
local function same_but_for_rounding(expected, got)
  local function parts(text)
    local lines, numbers = {}, {}
    for line, number in text:gmatch "([^\n]*)\t(%S+)\n" do
      lines[#lines + 1], numbers[#numbers + 1] = line, tonumber(number)
    end
    return lines, numbers
  end
  local lines, numbers = parts(expected)
  local other, found = parts(got)
  assert.is_true(#lines > 0)
  assert.same(lines, other)
  for i, number in ipairs(numbers) do assert.near(number, found[i], 2.1e-5) end
end

describe("scripts/rank.lua", function()
  helper.each_device(function(device)
    it("gives each output the score that a search gives it, whatever stands beside it", function()
      local _, searched = run("scripts/g2p.lua --num-beams 5 --num-return-sequences 3 --scores knowledge", device)
      local score, texts = {}, {}
      for text, number in searched:gmatch "([^\n]*)\t(%S+)\n" do
        score[text], texts[#texts + 1] = tonumber(number) * (#text + 1), helper.quote(text)
      end
      local code, out, err = run("scripts/rank.lua knowledge " .. table.concat(texts, " ") .. " " .. texts[2], device)
      assert.equal(0, code, err)
      local order = {}
      for text, number in out:gmatch "([^\n]*)\t(%S+)\t[%d.]+ %%\n" do
        order[#order + 1] = helper.quote(text)
        assert.near(score[text], tonumber(number), 1e-3)
      end
      assert.same({ texts[1], texts[2], texts[2], texts[3] }, order)
    end)
  end)

  it("shows an example when it is given nothing to rank", function()
    local code, out = run "scripts/rank.lua"
    assert.equal(0, code)
    assert.matches("^T AH0 M AA1 T OW2\t%-2.18", out)
    local _, err
    code, _, err = run "scripts/rank.lua tomato"
    assert.same({ 2, "rank.lua: pronunciations are expected behind the word\n" }, { code, err })
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
        same_but_for_rounding(expected, out)
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
    assert.truthy(helper.read "README.md":find("](scripts/images/memory.png)", 1, true))
  end)

  it("says what is wrong with its arguments", function()
    if not io.open "scripts/screenshot.sh" then pending "the scripts of the source are not here" end
    local code, _, err = helper.run "bash scripts/screenshot.sh x.png blue"
    assert.same({ 1, "screenshot.sh: blue: light or dark is expected\n" }, { code, err })
  end)
end)

describe("scripts/bench.lua", function()
  local core = require "reprise.core"
  local TINY = " --shapes demo --beams 1,2 --source 5 --new 3 --runs 2 --no-start "

  local function rows_of(out)
    local rows = {}
    for line in out:gmatch "[^\n]+" do rows[#rows + 1] = core.json_decode(line, "a row") end
    return rows
  end

  helper.each_device(function(device)
    it("holds a step against floors of the same run, as JSON", function()
      local code, out, err = run("scripts/bench.lua --json" .. TINY, device)
      assert.equal("", err)
      assert.equal(0, code)
      local rows = rows_of(out)
      assert.equal(2, #rows)
      for i, row in ipairs(rows) do
        assert.same({ "demo", i, 5, 3, device }, { row.shape, row.beams, row.source, row.new, row.device })
        assert.is_true(row.us_low <= row.us and row.us <= row.us_high)
        for _, name in ipairs { "us", "eager_us", "read_us", "chain_us", "host_us", "nodes", "memory", "reserved" } do
          assert.is_true(row[name] > 0, name)
        end
        local larger = math.max(row.read_us, row.chain_us)
        assert.near(row.us / larger, row.ratio, 1e-6 * row.ratio)
        assert.is_true(row.bytes > 6e6 and row.bytes < 8e6)
      end
    end)

    it("says what the nodes of a step take", function()
      local code, out, err = run("scripts/bench.lua --nodes --json" .. TINY, device)
      assert.equal(0, code, err)
      for i, row in ipairs(rows_of(out)) do
        assert.equal(i == 1 and 35 or 36, #row.nodes)
        assert.equal("embed", row.nodes[1].kernel)
        assert.equal(i == 1 and "choose" or "search", row.nodes[#row.nodes].kernel)
        for _, node in ipairs(row.nodes) do assert.is_true(node.us >= 0) end
      end
    end)

    it("prints a table in which what others measured stands too, where they did the same", function()
      local file = helper.tmp() .. "/peers.jsonl"
      helper.write(file, [[
{"mode": "graph", "shape": "g2p", "beams": 1, "src": 5, "new": 3, "us_per_token": 1e6, "weights_mb": 7.1}
{"mode": "longer", "shape": "g2p", "beams": 1, "src": 128, "new": 128, "us_per_token": 5}
{"mode": "hf", "shape": "g2p", "beams": 2, "src": 5, "new": 3, "error": "RuntimeError: no"}
]])
      local code, out, err = run("scripts/bench.lua" .. TINY .. " --peer " .. file, device)
      assert.equal("", err)
      assert.equal(0, code)
      local _, lines = out:gsub("\n", "")
      assert.equal(6, lines)
      assert.matches("^" .. device .. " %(.*f16 weights, f32 caches, source 5, new 3, median of 2\n", out)
      assert.matches("\ndemo +1 .*\n +graph +1000000.0 us/token, [%d.]+ times as long\ndemo +2 [^\n]*\n$", out)
    end)
  end)

  it("measures starts in processes of their own", function()
    local code, out, err = run("scripts/bench.lua --shapes demo --beams 1 --source 5 --new 2 --runs 1 --json", "cpu")
    assert.equal(0, code, err)
    local row = rows_of(out)[1]
    assert.is_true(row.load_ms > 0 and row.load_ms < row.warm_ms)
    if helper.compiler() then assert.is_true(row.cold_ms > row.warm_ms) else assert.is_nil(row.cold_ms) end
  end)

  it("refuses what it does not know", function()
    for _, case in ipairs {
      { "--shapes demo,huge", '--shapes: "huge" is not one of those that can be had' },
      { "--beams 0", '--beams: "0" is not one of those that can be had' },
      { "--peer /nowhere", "--peer: /nowhere: No such file or directory" },
      { "--runs x", '--runs: "x" is not a whole number from 1' },
    } do
      local code, _, err = run("scripts/bench.lua " .. case[1], "cpu")
      assert.equal(2, code)
      assert.truthy(err:find("bench.lua: " .. case[2], 1, true), err)
    end
    local file = helper.tmp() .. "/peers.jsonl"
    helper.write(file, "no json\n")
    local _, _, err = run("scripts/bench.lua --peer " .. file, "cpu")
    assert.truthy(err:find("a line is no JSON object with mode and shape: no json", 1, true), err)
  end)
end)

describe("scripts/peers.sh", function()
  it("asks for the folder of a Python environment, and starts nothing without", function()
    if not io.open "scripts/peers.sh" then pending "the scripts of the source are not here" end
    for _, words in ipairs { "", "--help" } do
      local code, out, err = helper.run("bash scripts/peers.sh " .. words)
      assert.equal(2, code)
      assert.equal("", out)
      assert.matches("^usage: bash scripts/peers%.sh VENV %[shape %.%.%.%]\n", err)
    end
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
