-- pool:snapshot(file): read back by a small unpickler here, and by Python where there is one.
local helper = require "spec.helper"
local rp = require "reprise"

-- The opcodes that snapshots use; anything else is an error.
local function unpickle(text)
  local at, stack, marks = 3, {}, {}
  assert(text:sub(1, 2) == "\x80\x02")
  local function pop_all()
    local first = table.remove(marks)
    local values = table.move(stack, first, #stack, 1, {})
    for i = #stack, first, -1 do stack[i] = nil end
    return values
  end
  local codes = {
    ["}"] = function() stack[#stack + 1] = {} end,
    ["]"] = function() stack[#stack + 1] = {} end,
    ["("] = function() marks[#marks + 1] = #stack + 1 end,
    ["\x8a"] = function()
      assert(text:byte(at) == 8)
      stack[#stack + 1], at = ("<i8"):unpack(text, at + 1)
    end,
    ["X"] = function() stack[#stack + 1], at = ("<s4"):unpack(text, at) end,
    ["\x88"] = function() stack[#stack + 1] = true end,
    ["\x89"] = function() stack[#stack + 1] = false end,
    t = function()
      local values = pop_all()
      stack[#stack + 1] = values
    end,
    e = function()
      local values = pop_all()
      table.move(values, 1, #values, #stack[#stack] + 1, stack[#stack])
    end,
    u = function()
      local values = pop_all()
      for i = 1, #values, 2 do stack[#stack][values[i]] = values[i + 1] end
    end,
  }
  while text:sub(at, at) ~= "." do
    local code = text:sub(at, at)
    at = at + 1
    codes[code]()
  end
  assert(at == #text and #stack == 1)
  return stack[1]
end

local READER = [[
import pickle, sys
s = pickle.load(open(sys.argv[1], "rb"))
for g in s["segments"]:
    at = g["address"]
    for b in g["blocks"]:
        assert b["address"] == at and isinstance(b["frames"], list)
        at += b["size"]
    assert at == g["address"] + g["total_size"] and g["segment_pool_id"] == (0, 0)
print(len(s["segments"]), sum(g["total_size"] for g in s["segments"]), len(s["device_traces"]))
]]

helper.each_device(function(name)
  describe("a snapshot", function()
    local dev, pool, file

    setup(function()
      dev = rp.device(name)
      pool, file = rp.pool { device = dev }, helper.tmp() .. "/pool.pickle"
    end)

    local function filled()
      local a, b, c = rp.zeros({ 1000 }, "f32", pool), rp.empty({ 5 << 20 }, "u8", pool), rp.empty({ 100 }, "f32", pool)
      b:close()
      local step = rp.capture(function(x)
        local y = rp.empty({ 1000 }, "f32", dev)
        y:copy(x)
        return y
      end, { pool = pool })
      step(a)
      return a, c, step
    end

    it("lists the runs of memory of each zone, which their blocks fill, with the sums of figures()", function()
      local keep = { filled() }
      pool:snapshot(file)
      local s, sums, total = unpickle(helper.read(file)), {}, 0
      for _, segment in ipairs(s.segments) do
        local at, taken = segment.address, 0
        for _, block in ipairs(segment.blocks) do
          assert.equal(at, block.address)
          at = at + block.size
          local zone = block.frames[1] and block.frames[1].filename
          assert.equal(zone ~= nil, block.state == "active_allocated")
          if zone then
            taken = taken + block.size
            sums[zone] = (sums[zone] or 0) + block.size
          end
        end
        assert.equal(segment.address + segment.total_size, at)
        assert.equal(segment.allocated_size, taken)
        total = total + segment.total_size
      end
      local figures = pool:figures()
      assert.equal(figures.reserved, total)
      for _, zone in ipairs { "tensors", "slots", "scratch" } do assert.equal(figures[zone].allocated, sums[zone]) end
      assert.same({}, s.device_traces[1])
      assert.truthy(#keep == 3)
    end)

    it("is a pickle that Python reads", function()
      if helper.run "command -v python3" ~= 0 then pending "no python3 on this machine" end
      local keep, script = { filled() }, helper.tmp() .. "/read.py"
      helper.write(script, READER)
      pool:snapshot(file)
      local code, out, err = helper.run(("python3 %s %s"):format(script, file))
      assert.equal(0, code, err)
      local segments, bytes, traces = out:match "^(%d+) (%d+) (%d+)\n$"
      assert.equal(pool:figures().reserved, tonumber(bytes))
      assert.is_true(tonumber(segments) >= 3)
      assert.equal(math.tointeger(name:match "%d+$" or 0) + 1, tonumber(traces))
      assert.truthy(#keep == 3)
    end)

    it("of an empty pool has no segments", function()
      rp.pool({ device = dev }):snapshot(file)
      assert.same({}, unpickle(helper.read(file)).segments)
    end)

    it("raises where the file cannot be written, or none is named", function()
      assert.error_matches(function() pool:snapshot "/nowhere/pool.pickle" end,
        "^writing /nowhere/pool.pickle: No such file or directory")
      assert.error_matches(function() pool:snapshot() end, "string expected, got no value")
    end)
  end)
end)
