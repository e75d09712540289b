-- The GPU's form of the library's kernels on the CPU device: 32 lanes a warp, a coroutine for each thread of a block. What
-- is wrong with a barrier, a shuffle or an address shows without a GPU; races between warps and speed do not.
local core = require "reprise.core"
local helper = require "spec.helper"

local DECODE = [[
local rp = require "reprise"
local model = rp.t5.load(rp.home() .. "/scripts/models/g2p", { device = "cpu" })
local tokens = tonumber(arg[1])
local greedy = model:generate("go", { max_new_tokens = tokens })
local beams = model:generate("go", { num_beams = 4, num_return_sequences = 3, max_new_tokens = tokens })
local out = { simt = model.device.simt, texts = { greedy[1].text } }
for _, one in ipairs(beams) do table.insert(out.texts, one.text) end
print(rp.json_encode(out))
]]

describe("on the CPU, KERNELs in the form that a GPU gets", function()
  local function decoded(variables)
    local file = helper.tmp() .. "/decode.lua"
    helper.write(file, DECODE)
    local tokens = os.getenv "REPRISE_SAMPLE" and 3 or 64 -- under a checker a token takes minutes
    local code, out, err = helper.run(("%s %s %s %d"):format(variables, helper.quote(helper.program()), helper.quote(file), tokens))
    assert.equal(0, code, err)
    return core.json_decode(out)
  end

  it("decode what the CPU's form decodes, with one row and with several", function()
    helper.needs_compiler "cpu"
    local own, gpu = decoded "REPRISE_SIMT=", decoded "REPRISE_SIMT=1"
    assert.is_false(own.simt)
    assert.is_true(gpu.simt)
    assert.same(own.texts, gpu.texts)
  end)

  it("say so when 16 bytes are read from an address that is not a multiple of 16", function()
    helper.needs_compiler "cpu"
    local file = helper.tmp() .. "/odd.lua"
    helper.write(file, [[
local rp = require "reprise"
local odd = rp.compile { source = '#include "prelude.cuh"\nKERNEL void odd(float *y, const float *x) { store8(y, load8(x)); }' }
odd.odd { grid = 1, block = 32, rp.zeros { 8 }, rp.zeros({ 9 }):slice(1, 2, 9) }
]])
    local code, _, err = helper.run(("REPRISE_DEVICE=cpu REPRISE_SIMT=1 %s %s"):format(helper.quote(helper.program()), helper.quote(file)))
    assert.equal(1, code)
    assert.truthy(err:find("an address that is not a multiple of 16", 1, true), err)
  end)
end)
