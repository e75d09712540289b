--- T5's attention in its three forms, against double precision: |y - reference| <= 4e-6 for values of about 1.
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

local BOUND = 4e-6
local REACH = 3

helper.each_device(function(name)
  local dev, ops, random
  setup(function() dev, ops = rp.device(name), rp.ops end)
  before_each(function() random = reference.random(11) end)

  -- The bias of a head for keys seen from a query.
  local function bias_of(list, heads, head, query)
    return function(key)
      local d = math.max(-REACH, math.min(REACH, key - query))
      return list[(REACH + d) * heads + head + 1]
    end
  end

  local SIZES = { { heads = 1, size = 8 }, { heads = 3, size = 16 }, { heads = 4, size = 64 }, { heads = 2, size = 5 },
    { heads = 3, size = 33 }, { heads = 1, size = 128 } }

  describe("attend_self", function()
    -- Steps positions 0, 1, ... and compares each with what the cache should then hold.
    local function check(c, dtype, rows, room, first)
      local inner = c.heads * c.size
      local bias, biases = reference.tensor(random, { 2 * REACH + 1, c.heads }, "f32", dev, 2)
      local keys, kept_keys = reference.tensor(random, { rows, room, inner }, dtype, dev)
      local values, kept_values = reference.tensor(random, { rows, room, inner }, dtype, dev)
      local position = rp.full({ 1 }, first, "i32", dev)
      for at = first, room - 1 do
        local qkv, list = reference.tensor(random, { rows, 3 * inner }, "f32", dev, 1.5)
        position:fill(at)
        local rounded = qkv:to(dtype):to("f32"):view({ rows * 3 * inner }):totable()
        local y = reference.flat(ops.attend_self(qkv, keys, values, position, c.heads, bias))
        for r = 0, rows - 1 do
          local place = (r * room + at) * inner
          table.move(rounded, (r * 3 + 1) * inner + 1, (r * 3 + 2) * inner, place + 1, kept_keys)
          table.move(rounded, (r * 3 + 2) * inner + 1, (r * 3 + 3) * inner, place + 1, kept_values)
          for h = 0, c.heads - 1 do
            local start = r * inner + h * c.size
            local want = reference.attend(list, r * 3 * inner + h * c.size, kept_keys, kept_values,
              r * room * inner + h * c.size, inner, c.size, at + 1, bias_of(biases, c.heads, h, at))
            assert.is_nil(reference.difference({ table.unpack(y, start + 1, start + c.size) }, want, BOUND))
          end
        end
      end
      assert.same(kept_keys, reference.flat(keys:to "f32"))
      assert.same(kept_values, reference.flat(values:to "f32"))
    end

    for _, dtype in ipairs { "f32", "f16" } do
      it("looks back at all positions, its own included, with caches of " .. dtype, function()
        for _, c in ipairs(SIZES) do check(c, dtype, 2, 9, 0) end
      end)
    end

    it("fits any number of positions", function() check({ heads = 1, size = 16 }, "f32", 1, 2050, 2047) end)

    -- Two groups of three rows; each position of a row lies in the caches of some row of its group.
    for _, dtype in ipairs { "f32", "f16" } do
      it("gathers positions from the caches of the rows of its group, of " .. dtype, function()
        local c, rows, beams, room, at = { heads = 2, size = 24 }, 6, 3, 7, 5
        local inner = c.heads * c.size
        local keys = reference.tensor(random, { rows, room, inner }, dtype, dev)
        local values = reference.tensor(random, { rows, room, inner }, dtype, dev)
        local bias = reference.tensor(random, { 2 * REACH + 1, c.heads }, "f32", dev, 2)
        local qkv = reference.tensor(random, { rows, 3 * inner }, "f32", dev, 1.5)
        local position, origin = rp.full({ 1 }, at, "i32", dev), {}
        local own_keys, own_values = rp.zeros({ rows, room, inner }, dtype, dev), rp.zeros({ rows, room, inner }, dtype, dev)
        for r = 0, rows - 1 do
          origin[r + 1] = {}
          for p = 0, room - 1 do
            local from = (r * 5 + p * 7) % beams
            if p == at then from = r % beams end
            origin[r + 1][p + 1] = p == at and (from + 1) % beams or from -- its own position is a row's own in any case
            local row = r // beams * beams + from
            own_keys[r + 1][p + 1]:copy(keys[row + 1][p + 1])
            own_values[r + 1][p + 1]:copy(values[row + 1][p + 1])
          end
        end
        local y = ops.attend_self(qkv, keys, values, position, c.heads, bias, rp.tensor(origin, "u8", dev), beams)
        assert.is_true(y:equal(ops.attend_self(qkv, own_keys, own_values, position, c.heads, bias)))
      end)
    end

    it("answers an origin outside the group with nan", function()
      local qkv = rp.full({ 2, 24 }, 1, "f32", dev)
      local keys, values = rp.zeros({ 2, 2, 8 }, "f32", dev), rp.zeros({ 2, 2, 8 }, "f32", dev)
      local y = ops.attend_self(qkv, keys, values, rp.full({ 1 }, 1, "i32", dev), 1, nil,
        rp.tensor({ { 0, 0 }, { 2, 1 } }, "u8", dev), 2):totable()
      assert.near(1 / (1 + math.exp(-8)), y[1][1], BOUND)
      assert.is_true(y[2][1] ~= y[2][1])
    end)

    it("saturates what does not fit into f16", function()
      local qkv = rp.full({ 1, 24 }, 1e6, "f32", dev)
      local keys, values = rp.zeros({ 1, 2, 8 }, "f16", dev), rp.zeros({ 1, 2, 8 }, "f16", dev)
      local y = ops.attend_self(qkv, keys, values, rp.zeros(1, "i32", dev), 1)
      assert.same({ { 65504, 65504, 65504, 65504, 65504, 65504, 65504, 65504 } }, y:totable())
      assert.equal(0, values[1][2][1])
    end)

    it("answers a position outside the caches with nan, and writes nothing", function()
      local qkv = rp.full({ 1, 24 }, 1, "f32", dev)
      local keys, values = rp.zeros({ 1, 2, 8 }, "f32", dev), rp.zeros({ 1, 2, 8 }, "f32", dev)
      for _, at in ipairs { -1, 2 } do
        local y = ops.attend_self(qkv, keys, values, rp.full({ 1 }, at, "i32", dev), 1)
        for _, v in ipairs(reference.flat(y)) do assert.is_true(v ~= v) end
      end
      assert.is_true(keys:equal(rp.zeros({ 1, 2, 8 }, "f32", dev)))
    end)

    it("wants heads of some elements", function()
      local none = rp.empty({ 2, 5, 0 }, "f32", dev)
      assert.error_matches(function()
        ops.attend_self(rp.empty({ 2, 0 }, "f32", dev), none, none, rp.zeros(1, "i32", dev), 1)
      end, "attend_self: heads: of 0 elements, at least 1 is expected")
    end)

    it("says which argument is wrong", function()
      local qkv, cache = rp.zeros({ 2, 24 }, "f32", dev), rp.zeros({ 2, 4, 8 }, "f32", dev)
      local at = rp.zeros(1, "i32", dev)
      local function says(text, ...)
        local args = table.pack(...)
        assert.error_matches(function() ops.attend_self(table.unpack(args, 1, args.n)) end, text)
      end
      says("attend_self: heads: 3 does not divide 8", qkv, cache, cache, at, 3)
      says("attend_self: keys: a tensor of f32 or f16 is expected, got bf16", qkv, cache:to "bf16", cache, at, 2)
      says("attend_self: values: a tensor of f32 is expected, got f16", qkv, cache, cache:to "f16", at, 2)
      says("attend_self: values: shape {2, 4, 8} is expected", qkv, cache, rp.zeros({ 2, 5, 8 }, "f32", dev), at, 2)
      says("attend_self: position: shape {1} is expected, got {2}", qkv, cache, cache, rp.zeros(2, "i32", dev), 2)
      says("attend_self: bias: an odd number of rows is expected, got 4", qkv, cache, cache, at, 2,
        rp.zeros({ 4, 2 }, "f32", dev))
    end)
  end)

  describe("attend_cross", function()
    it("looks at as much of its source as there is, for one row or several a source", function()
      for _, c in ipairs(SIZES) do
        for _, dtype in ipairs { "f32", "f16" } do
          for _, rows_a_source in ipairs { 1, 3 } do
            local inner, room, lengths = c.heads * c.size, 20, { 20, 1, 7 }
            local rows = #lengths * rows_a_source
            local q, qs = reference.tensor(random, { rows, inner }, "f32", dev)
            local keys, ks = reference.tensor(random, { #lengths, room, inner }, dtype, dev)
            local values, vs = reference.tensor(random, { #lengths, room, inner }, dtype, dev)
            local y = reference.flat(ops.attend_cross(q, keys, values, rp.tensor(lengths, "i32", dev), c.heads))
            for r = 0, rows - 1 do
              local source = r // rows_a_source
              for h = 0, c.heads - 1 do
                local start = r * inner + h * c.size
                local want = reference.attend(qs, start, ks, vs, source * room * inner + h * c.size, inner, c.size,
                  lengths[source + 1])
                assert.is_nil(reference.difference({ table.unpack(y, start + 1, start + c.size) }, want, BOUND))
              end
            end
          end
        end
      end
    end)

    it("gives a source the same bits in a longer room", function()
      local lengths = rp.tensor({ 5 }, "i32", dev)
      local q = reference.tensor(random, { 1, 32 }, "f32", dev)
      local keys = reference.tensor(random, { 1, 16, 32 }, "f32", dev)
      local values = reference.tensor(random, { 1, 16, 32 }, "f32", dev)
      local short = ops.attend_cross(q, keys:slice(2, 1, 8):clone(), values:slice(2, 1, 8):clone(), lengths, 2)
      assert.is_true(short:equal(ops.attend_cross(q, keys, values, lengths, 2)))
    end)

    it("wants rows in equal numbers a source", function()
      local cache = rp.zeros({ 2, 4, 8 }, "f32", dev)
      assert.error_matches(function()
        ops.attend_cross(rp.zeros({ 3, 8 }, "f32", dev), cache, cache, rp.zeros(2, "i32", dev), 2)
      end, "attend_cross: lengths: 2 sources do not divide 3 rows")
      local none = rp.empty({ 0, 4, 8 }, "f32", dev)
      assert.error_matches(function()
        ops.attend_cross(rp.zeros({ 3, 8 }, "f32", dev), none, none, rp.empty({ 0 }, "i32", dev), 2)
      end, "attend_cross: lengths: 0 sources do not divide 3 rows")
    end)
  end)

  describe("attend_all", function()
    it("looks both ways within each source, and leaves zeros behind its end", function()
      for _, c in ipairs(SIZES) do
        local inner, room, lengths = c.heads * c.size, 11, { 11, 4, 1 }
        local bias, biases = reference.tensor(random, { 2 * REACH + 1, c.heads }, "f32", dev, 2)
        local qkv, list = reference.tensor(random, { #lengths, room, 3 * inner }, "f32", dev)
        local keys, values = { table.unpack(list, inner + 1) }, { table.unpack(list, 2 * inner + 1) }
        local y = reference.flat(ops.attend_all(qkv, rp.tensor(lengths, "i32", dev), c.heads, bias))
        for s = 0, #lengths - 1 do
          for p = 0, room - 1 do
            for h = 0, c.heads - 1 do
              local start, want = (s * room + p) * inner + h * c.size, {}
              for d = 1, c.size do want[d] = 0 end
              if p < lengths[s + 1] then
                want = reference.attend(list, (s * room + p) * 3 * inner + h * c.size, keys, values,
                  s * room * 3 * inner + h * c.size, 3 * inner, c.size, lengths[s + 1], bias_of(biases, c.heads, h, p))
              end
              assert.is_nil(reference.difference({ table.unpack(y, start + 1, start + c.size) }, want, BOUND))
            end
          end
        end
      end
    end)
  end)
end)
