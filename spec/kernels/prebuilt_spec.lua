--- A start with the library's kernels prebuilt: nothing is compiled, and no compiler is looked for, started or opened.
local core = require "reprise.core"
local helper = require "spec.helper"

local START = [[
local rp = require "reprise"
local model = rp.t5.load(rp.home() .. "/scripts/models/g2p", { device = %q })
for _, beams in ipairs { 1, 5 } do model:generate("knowledge", { num_beams = beams }) end
local counts, maps = rp.cache_counts(), io.open "/proc/self/maps" -- where there is no /proc, nobody can tell
counts.opened = maps and maps:read "a":match "[^%%s]*nvrtc[^%%s]*" or "none"
print(rp.json_encode(counts))
]]

helper.each_device(function(device)
  it("compiles nothing and opens no compiler", function()
    local file = helper.tmp() .. "/start.lua"
    helper.write(file, START:format(device))
    local code, out, err = helper.run(("REPRISE_CACHE=%s REPRISE_CXX=/none PATH=/none %s %s"):format(
      helper.quote(helper.tmp()), helper.quote(helper.program()), helper.quote(file)))
    assert.equal(0, code, err)
    local counts = core.json_decode(out)
    if counts.prebuilt == 0 then helper.pending("no kernels were prebuilt for " .. device) end
    assert.same({ compiled = 0, hits = 0, rebuilt = 0, opened = "none", prebuilt = counts.prebuilt }, counts)
  end)
end)
