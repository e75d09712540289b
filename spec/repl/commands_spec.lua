-- `? name` and the commands of the prompt: by what they print over a pipe, and once each at a terminal.
local core = require "reprise.core"
local helper = require "spec.helper"
local terminal = require "spec.support.terminal"

local function talk(input)
  local command = ("printf '%%s' %s | REPRISE_DEVICE=cpu %s -i"):format(helper.quote(input), helper.quote(helper.program()))
  local code, out, err = helper.run(command)
  return out, err, code
end

local function has(text, piece) assert.truthy(text:find(piece, 1, true), text) end

describe("? at the prompt", function()
  it("shows a page with all commands", function()
    local page = talk "?\n"
    for _, word in ipairs { "? NAME", ":time", ":mem", ":graphs", ":load", ":quit", "Tab", "Ctrl-R", "Ctrl-C" } do has(page, word) end
    assert.is_nil(page:find(("[^\n]"):rep(110)))
  end)

  it("explains a function of the raw binding by types.lua", function()
    assert.equal([[
rp.tensor(value, dtype, place) -> reprise.Tensor
A tensor from a number or nested tables; its shape is that of the tables.
  value  reprise.Nested
  dtype  reprise.Dtype?  default "f32"
  place  reprise.Place
]], (talk "? rp.tensor\n"))
  end)

  it("explains a method by a value, by its class, by its name", function()
    for _, name in ipairs { "x:view", "x.view", "Tensor:view", "Tensor.view", "view" } do
      local out = talk("x = rp.arange(3);\n?" .. name .. "\n")
      has(out, "Tensor:view(shape) -> reprise.Tensor\nThe same elements in another shape; one dimension may be -1.\n")
    end
  end)

  it("explains every function and method that types.lua describes", function()
    local text = helper.read(core.home() .. "/lua/reprise/types.lua")
    local input, count, classes, class = {}, 0, {}, nil
    for line in text:gmatch "[^\n]+" do
      class = line:match "^%-%-%-@class ([%w.]+)" or class
      local name = line:match "^local (%w+) = {}"
      if name then classes[name] = class end
      local owner, member = line:match "^function (%w+)[.:]([%w_]+)%("
      if owner then
        count = count + 1
        input[count] = "? " .. classes[owner]:gsub("^reprise%.core$", "rp") .. "." .. member .. "\n"
      end
    end
    local out, err = talk(table.concat(input))
    assert.equal("", err)
    for _, line in ipairs(input) do has(out, line:match "([%w_]+)\n$" .. "(") end
  end)

  it("explains a function of the library by the comment above it, with its place", function()
    local out = talk "? rp.scope\n"
    has(out, "rp.scope(fn, ...) -> T\nRuns `fn`; tensors made inside")
    has(out, "lua/reprise/init.lua:")
  end)

  it("explains a function of the user's by the comment above it", function()
    local path = helper.tmp() .. "/own.lua"
    helper.write(path, "-- Doubles a number.\nfunction double(x) return 2 * x end\nfunction plain(a, ...) end\n")
    local out = talk((":load %s\n? double\n? plain\nfunction here(a, b) end\n? here\n"):format(path))
    has(out, ("double(x)\nDoubles a number.\n"))
    has(out, "plain(a, ...)\n")
    has(out, "here(a, b)\nstdin:1\n")
  end)

  it("explains a value by its class, a module by its functions, an option, a type", function()
    has((talk "x = rp.arange(3);\n? x\n"), "tensor i32 {3} on cpu\nreprise.Tensor\n  shape      integer[]\n")
    has((talk "? rp.ops\n"), "  rp.ops.linear(")
    has((talk "? num_beams\n"), "reprise.GenerateOptions.num_beams: integer|false|nil  beams a source")
    has((talk "? Dtype\n"), 'reprise.Dtype: "f32"|"f16"|"bf16"|"i32"|"i64"|"u8"')
  end)

  it("points to Lua's manual for what is Lua's", function()
    assert.equal("string.format: of Lua itself: https://www.lua.org/manual/5.4/manual.html#pdf-string.format\n",
      (talk "? string.format\n"))
  end)

  it("says what a wrong name may have meant", function()
    local _, err = talk "? tensro\n"
    assert.equal("? tensro: nothing is known of it: did you mean tensor?\n", err)
  end)
end)

describe("the prompt's command", function()
  it(":time says how long an expression takes", function()
    local out, err = talk ":time 1 + 1\n"
    assert.equal("", err)
    local time = "[%d.e+-]+ %w+"
    local pattern = "^median T, half of them T to T, all T to T\n%d+ runs, after a first one of T\n$"
    assert.truthy(out:find((pattern:gsub("T", (time:gsub("%%", "%%%%"))))), out)
  end)

  it(":time shows the user's frames alone when the expression fails", function()
    local out, err = talk ":time (nil)()\n:time 1 +\n:time\n"
    assert.equal("", out)
    assert.truthy(err:find "^stdin:1: attempt to call a nil value\nstack traceback:\n\tstdin:1: in [^\n]*\n", err)
    assert.is_nil(err:find("lua/reprise/repl", 1, true))
    has(err, "\nstdin:1: unexpected symbol near <eof>\n:time: an expression is expected\n")
  end)

  it(":mem shows the pools of the devices that are open", function()
    local out = talk ":mem\nx = rp.zeros({ 1024 });\n:mem\n"
    assert.truthy(out:find "^no device is open: rp.device%(%) opens the best one\npool of cpu: 4.00 KiB allocated", out)
    has(out, "\n  scratch ")
  end)

  it(":graphs lists those alive, most used first", function()
    local out = talk [[
:graphs
step = rp.capture(function(x) return x:clone() end, { name = "one" })
other = rp.capture(function(x) return x:clone() end, { name = "two" })
x = rp.arange(3);
step(x);
for i = 1, 3 do other(x) end
:graphs
other:close()
:graphs
]]
    assert.truthy(out:find "^no graph: [^\n]*\n[^\n]*two[^\n]*; plan %d+ bytes, lower bound %d+\n[^\n]*one[^\n]*\n[^\n]*one[^\n]*\n$", out)
  end)

  it(":load runs a file, whose globals stay, and says what is wrong with it", function()
    local folder = helper.tmp()
    helper.write(folder .. "/good.lua", "loaded = 'yes' return 5")
    helper.write(folder .. "/bad.lua", "error 'no'")
    helper.write(folder .. "/worse.lua", "x = = 1")
    local out, err, code = talk((":load %s/good.lua\nloaded\n:load %s/bad.lua\n:load %s/worse.lua\n:load %s/none.lua\n:load\n"):format(folder,
      folder, folder, folder))
    assert.equal('5\n"yes"\n', out)
    has(err, "bad.lua:1: no\nstack traceback:\n")
    has(err, "worse.lua:1: unexpected symbol near '='\n")
    has(err, ":load: " .. folder .. "/none.lua: No such file or directory\n:load: a file's path is expected\n")
    assert.equal(1, code)
  end)

  it("is named when it was misspelt", function()
    local _, err = talk ":tmie 1\n"
    assert.equal(":tmie is no command: did you mean :time? ? lists them\n", err)
  end)

  it("works at a terminal", function()
    terminal.needed()
    local t = terminal.open(helper.quote(helper.program()), { REPRISE_DEVICE = "cpu" })
    assert.truthy(t:enter("? rp.arange"):find('rp.arange(n, dtype, place) -> reprise.Tensor\n', 1, true), t:screen())
    t:enter "x = rp.arange(3)"
    assert.truthy(t:enter(":mem"):find("pool of cpu: 256 bytes allocated", 1, true), t:screen())
    assert.truthy(t:enter(":graphs"):find("no graph: ", 1, true), t:screen())
    assert.truthy(t:enter(":time x:clone()"):find("\nmedian ", 1, true), t:screen())
    t:enter "?"
    t:expect "Ctrl-D             leaves"
    t:type ":quit\n"
    t:expect "[exit 0]"
  end)
end)
