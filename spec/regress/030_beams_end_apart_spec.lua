-- CTranslate2 PR 1552, transformers 16930: beams of a batch that ended at different steps, or a decoder that starts with
-- another token than pad, changed each other's results.
local rp = require "reprise"
local beam = require "reprise.beam"
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"

local LISTS = {
  { 7, 9, 4 }, { 3, 80, 44, 12, 5, 6, 7, 8, 1 }, { 50 }, { 9, 9, 9, 9, 9, 1 }, { 2, 4, 6, 8, 10, 12, 14 },
}

helper.each_device(function(name)
  describe("beams that start with 5 and end apart", function()
    local function found(model, lists, w, early)
      local s <close> = beam.open(model, lists, {
        num_beams = 3, num_return_sequences = 3, prompt = { model.config.start }, ends = { 1 }, max_new = 20,
        length_penalty = w, early_stopping = early,
      })
      return s:run(), s:results()
    end

    for _, w in ipairs { -1, 0, 1, 2 } do
      for _, early in ipairs { false, true, "never" } do
        it(("are those of each source alone, with length penalty %g and early stopping %s"):format(w, tostring(early)), function()
          local model, steps = rp.t5.load(checkpoint.folder "start-not-pad", { device = name }), {}
          local made, together = found(model, LISTS, w, early)
          for i, ids in ipairs(LISTS) do
            local alone, list = found(model, { ids }, w, early)
            steps[i] = alone
            assert.same(list[1], together[i])
          end
          assert.equal(math.max(table.unpack(steps)), made)
        end)
      end
    end
  end)
end)
