-- The text of the project, by scripts/lint.sh: what takes seconds. clang-tidy takes minutes, so CI alone runs it.
local helper = require "spec.helper"

describe("scripts/lint.sh", function()
  for check, tool in pairs { lua = "luacheck", shell = "shellcheck", format = "clang-format" } do
    it("has nothing to say of " .. check, function()
      if not io.open "CMakeLists.txt" then helper.pending "the source is not here" end
      if helper.run("command -v " .. tool) ~= 0 then helper.pending(("there is no %s here"):format(tool)) end
      local _, out = helper.run("bash scripts/lint.sh " .. check)
      assert.equal(("lint: %s: nothing to say\n"):format(check), out)
    end)
  end
end)
