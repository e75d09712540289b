-- lua/README.md, the reference: made from the comments of the modules, and whole.
local helper = require "spec.helper"

local function needs_source()
  if not io.open "CMakeLists.txt" then helper.pending "the source is not here" end
end

describe("lua/README.md", function()
  it("is what scripts/reference.lua makes of the comments", function()
    needs_source()
    local file = helper.tmp() .. "/README.md"
    local code, _, err = helper.run(helper.quote(helper.program()) .. " scripts/reference.lua " .. file)
    assert.equal(0, code, err)
    local made, there = helper.read(file), helper.read "lua/README.md"
    assert.is_true(made == there, "lua/README.md is old: run `build/reprise scripts/reference.lua`")
  end)

  it("has every function of the modules that it is about, with a text", function()
    needs_source()
    local text = helper.read "lua/README.md"
    for name, value in pairs(require "reprise") do
      if type(value) == "function" then assert.truthy(text:find("### `rp." .. name .. "(", 1, true), name) end
    end
    for _, part in ipairs { "ops", "nn", "t5" } do
      for name, value in pairs(require("reprise." .. part)) do
        local title = ("### `rp.%s.%s("):format(part, name)
        if type(value) == "function" then assert.truthy(text:find(title, 1, true), title) end
      end
    end
  end)
end)
