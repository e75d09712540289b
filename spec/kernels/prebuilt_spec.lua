--- A start with the library's kernels prebuilt: nothing is compiled, and no compiler is looked for, started or opened. And
--- a start without them: what a first token needs is known when a model is loaded.
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

-- Programs that the library asks for until the first token is there, but that load did not expect.
local UNEXPECTED = [[
local core, unexpected = require "reprise.core", {}
local function word(spec)
  local d = spec.define or {}
  return ("%%s %%s %%s %%s"):format(spec.file, d.W, d.KV, d.ROWS)
end
local compile = core.compile
function core.compile(spec)
  unexpected[word(spec)] = true
  return compile(spec)
end
local rp, launch = require "reprise", require "reprise.launch"
local expect, expected = launch.expect, {}
function launch.expect(device, entries)
  for _, e in ipairs(entries) do expected[word { file = rp.home() .. "/kernels/" .. e.file, define = e.define }] = true end
  expect(device, entries)
end
local model = rp.t5.load(rp.home() .. "/scripts/models/g2p", { device = %q, kv = %q })
model:generate("knowledge", { max_new_tokens = 1 })
for name in pairs(expected) do unexpected[name] = nil end
print(next(expected) ~= nil, (next(unexpected)))
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

  for _, kv in ipairs { "f32", "f16" } do
    it("expects all that a first token needs, with caches of " .. kv, function()
      local file = helper.tmp() .. "/first.lua"
      helper.write(file, UNEXPECTED:format(device, kv))
      local code, out, err = helper.run(("%s %s"):format(helper.quote(helper.program()), helper.quote(file)))
      assert.equal(0, code, err)
      assert.equal("true\tnil\n", out)
    end)
  end
end)
