-- REPRISE_POOL=off: each tensor by itself. What a memory checker makes of that, scripts/check.sh shows; here: that nothing
-- else is different.

local helper = require "spec.helper"

local SCRIPT = [[
local rp = require "reprise"
local dev = rp.device "cpu"
local step = rp.capture(function(x)
  local y = x:to "f16"
  local z = y:to "f32"
  local w = z:to "f16"
  return w:to "f32", z:slice(1, 2, 3)
end)
local a, b = step(rp.tensor({ 1, 2.5, 3, -4 }, "f32"))
print(table.concat(a:totable(), " "), table.concat(b:totable(), " "))
local wide = step(rp.arange(300, "f32"))
print(wide[300])
local g = step:graphs()[1]
print(g.plan.peak, g.plan.lower_bound, #g:manifest(), dev.pool:figures().allocated)
]]

local function outcome(setting)
  local path = helper.tmp() .. "/script.lua"
  helper.write(path, SCRIPT)
  return helper.run(setting .. helper.quote(helper.program()) .. " " .. path)
end

describe("REPRISE_POOL=off", function()
  it("changes neither results nor plans nor figures", function()
    local code, on, said = outcome ""
    assert.same({ 0, "" }, { code, said })
    local code2, off, said2 = outcome "REPRISE_POOL=off "
    assert.same({ 0, on, "" }, { code2, off, said2 })
    assert.truthy(on:find("1.0 2.5 3.0 -4.0\t2.5 3.0\n299.0\n", 1, true), on)
  end)

  it("refuses other words", function()
    local code, _, said = outcome "REPRISE_POOL=perhaps "
    assert.equal(1, code)
    assert.truthy(said:find('REPRISE_POOL: "perhaps": expected on or off', 1, true), said)
  end)
end)
