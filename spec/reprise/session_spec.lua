-- Sessions with several rows a source: rows that change places, and searches written in Lua.
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

local function why(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok)
  return (message:gsub("^%S+:%d+: ", ""))
end

helper.each_device(function(name)
  local device = rp.device(name)

  describe("a session with rows", function()
    local model
    setup(function() model = rp.t5.load(checkpoint.folder "untied-gated-gelu", { device = device }) end)

    local function tensor(list) return rp.tensor(list, "i32", device) end

    -- The logits after each of the rows' tokens, every row read by a session of its own.
    local function alone(source, row)
      local s <close> = model:open(source, { max_new_tokens = 16 })
      local logits
      for _, id in ipairs(row) do logits = s:step(tensor { id }) end
      return logits:totable()[1]
    end

    for _, kind in ipairs { "captured", "eager" } do
      it("goes on from what the parents have seen, " .. kind, function()
        local sources, rows, random = { { 5, 6, 7, 1 }, { 9, 1 }, { 40, 41, 42 } }, 4, reference.random(3)
        local own = model
        if kind == "eager" then
          own = rp.t5.load(checkpoint.folder "untied-gated-gelu", { device = device, capture = false })
        end
        local s <close> = own:open(sources, { rows = rows, max_new_tokens = 8 })
        local seen = {}
        for i = 1, #sources * rows do seen[i] = {} end
        for at = 1, 8 do
          local ids, parents, now = {}, {}, {}
          for i = 1, #sources * rows do
            local first = (i - 1) // rows * rows
            ids[i] = 2 + math.floor((random() + 1) * 40)
            parents[i] = at % 3 == 0 and (i - 1) % rows or math.floor((random() + 1) * rows / 2)
            now[i] = table.move(seen[first + parents[i] + 1], 1, at - 1, 1, {})
            now[i][at] = ids[i]
          end
          seen = now
          local logits = s:step(tensor(ids), at % 3 ~= 0 and tensor(parents) or nil):totable()
          for i = 1, #sources * rows, 5 do
            local distance = checkpoint.distance(logits[i], alone(sources[(i - 1) // rows + 1], seen[i]))
            assert(distance <= 1e-5, ("step %d, row %d: logits off by %g"):format(at, i, distance))
          end
        end
      end)
    end

    it("begins anew when it is opened again", function()
      local function first()
        local s <close> = model:open({ 5, 6 }, { rows = 2, max_new_tokens = 4 })
        local logits = s:step(tensor { 0, 0 }):totable()
        s:step(tensor { 3, 4 }, tensor { 1, 1 })
        return logits, s:step(tensor { 3, 4 }, tensor { 1, 0 }):totable()
      end
      local a, b = first()
      local c, d = first()
      assert.same({ a, b }, { c, d })
    end)

    it("makes the logits of a row nan whose parent is none", function()
      local s <close> = model:open({ 5, 6 }, { rows = 2, max_new_tokens = 4 })
      s:step(tensor { 0, 0 })
      local logits = s:step(tensor { 3, 4 }, tensor { 1, 2 }):totable()
      assert.equal(logits[1][1], logits[1][1])
      assert.are_not.equal(logits[2][1], logits[2][1])
    end)

    it("prints how far it is", function()
      local s = model:open({ 5, 6 }, { rows = 2, max_new_tokens = 4 })
      s:step(tensor { 0, 0 })
      assert.equal("session: 2 rows, 1 of 4 tokens", tostring(s))
      s:close()
      assert.equal("session, closed", tostring(s))
    end)

    it("refuses what does not fit", function()
      local s <close> = model:open({ { 5, 6 }, { 7 } }, { rows = 2, max_new_tokens = 4 })
      assert.equal("step: ids: an i32 tensor of shape {4} is expected, got i32 {2}", why(s.step, s, tensor { 0, 0 }))
      assert.equal("step: ids: an i32 tensor of shape {4} is expected, got number", why(s.step, s, 0))
      assert.equal("step: parents: an i32 tensor of shape {4} is expected, got i32 {1}",
        why(s.step, s, tensor { 0, 0, 0, 0 }, tensor { 0 }))
      assert.equal("open: rows is 256, a whole number from 1 to 255 is expected", why(model.open, model, { 5 }, { rows = 256 }))
    end)
  end)
end)
