-- The prompt on a terminal: keys are typed, the screen is looked at.
local helper = require "spec.helper"
local terminal = require "spec.support.terminal"

local function open(arguments, environment)
  terminal.needed()
  return terminal.open(helper.quote(helper.program()) .. " " .. (arguments or ""), environment)
end

describe("the prompt on a terminal", function()
  it("says who it is, and how to leave", function()
    local screen = open():ready()
    assert.truthy(screen:find "^reprise %d+%.%d+%.%d+ %(Lua 5%.4%.%d+%)\nrp is the module reprise%. %? shows help, Ctrl%-D leaves%.\n> ?\n$")
  end)

  it("prints an expression without return or =", function()
    local t = open()
    t:enter "1 + 1, 'a'"
    assert.truthy(t:enter("= 3 * 7"):find('2       "a"\n> = 3 * 7\n21\n', 1, true), t:screen())
  end)

  it("keeps quiet after a semicolon and knows the last result", function()
    local t = open()
    t:enter "6 * 7;"
    assert.truthy(t:enter("_ + 1"):find("> 6 * 7;\n> _ + 1\n43\n>", 1, true), t:screen())
  end)

  it("shows the values of a tensor", function()
    local t = open(nil, { REPRISE_DEVICE = "cpu" })
    assert.truthy(t:enter("rp.arange(3)"):find("{0, 1, 2} i32 {3} on cpu\n", 1, true), t:screen())
  end)

  it("asks for more lines while a chunk is incomplete", function()
    local t = open()
    t:ready()
    t:type "for i = 1, 2 do\n"
    t:expect "\n>>"
    t:type "print(i)\nend\n"
    t:expect "\n>> print(i)\n>> end\n1\n2\n>"
  end)

  it("shows an error with the traceback of the user's frames alone", function()
    local t = open()
    t:enter "function f() error 'broken' end"
    t:enter "f();"
    t:expect "stdin:1: broken\nstack traceback:\n        [C]: in function 'error'\n        stdin:1: in function 'f'\n"
    assert.truthy(t:screen():find("        (...tail calls...)\n>", 1, true), t:screen()) -- `return f()` is one
  end)

  it("runs a script, then prompts with its globals", function()
    local path = helper.tmp() .. "/script.lua"
    helper.write(path, "here = 'there' print 'ran'")
    local t = open("-i " .. path)
    assert.truthy(t:enter("here"):find('ran\nrp is the module reprise. ? shows help, Ctrl-D leaves.\n> here\n"there"\n', 1, true), t:screen())
  end)

  it("keeps the prompt below output that has no end of line out of the way of the next line", function()
    local t = open()
    t:ready()
    t:type "io.write 'abc'\n"
    t:expect "> io.write 'abc'\nabc"
    t:type "1 + 1\n"
    t:expect "\n2\n>"
  end)

  it("leaves at the end of the input, at :quit, and hands back the terminal", function()
    for _, how in ipairs { "C-d", ":quit" } do
      local t = open()
      t:ready()
      if how == "C-d" then t:press(how) else t:type(how .. "\n") end
      t:expect "[exit 0]"
    end
  end)

  it("drops a line at Ctrl-C, and leaves at two of them within a second", function()
    local t = open()
    t:ready()
    t:type "this is no Lua"
    t:expect "> this is no Lua"
    t:press "C-c"
    t:expect "> this is no Lua\n>"
    t:enter "1 + 1"
    t:press("C-c", "C-c")
    assert.truthy(t:expect("[exit 0]"):find("> 1 + 1\n2\n", 1, true))
  end)

  it("forgets an incomplete chunk at Ctrl-C", function()
    local t = open()
    t:ready()
    t:type "for i = 1, 2 do\n"
    t:expect "\n>>"
    t:press "C-c"
    t:expect "\n>>\n>"
    assert.truthy(t:enter("7"):find("\n> 7\n7\n>", 1, true))
  end)
end)

describe("colours", function()
  local function coloured(environment)
    local t = open(nil, environment)
    t:enter "error 'broken'"
    return t:screen(true):find "\27%[31m" ~= nil
  end

  it("mark errors and the prompt", function() assert.is_true(coloured { NO_COLOR = "", TERM = "xterm" }) end)
  it("are left out for NO_COLOR", function() assert.is_false(coloured { NO_COLOR = "1", TERM = "xterm" }) end)
  it("are left out on a dumb terminal", function() assert.is_false(coloured { NO_COLOR = "", TERM = "dumb" }) end)
end)

describe("the line editor", function()
  local function editor(...)
    terminal.needs_editor()
    return open(...)
  end

  it("moves in the line and takes letters beyond ASCII", function()
    local t = editor()
    t:ready()
    t:type "'für 語'"
    t:press("C-a", "Right")
    t:type "ü"
    t:press("C-e", "Left", "BSpace")
    t:type "!"
    t:press "Enter"
    t:expect '"üfür !"\n>'
  end)

  it("draws the line anew after a stop and when the window changes", function()
    local t = editor()
    t:ready()
    t:type "1 + 1"
    t:expect "> 1 + 1"
    helper.run(t.server .. " resize-window -x 60")
    t:type " + 1"
    t:press "Enter"
    t:expect "> 1 + 1 + 1\n3\n>"
  end)

  it("remembers lines, finds them with Up and Ctrl-R, and across sessions", function()
    local t = editor()
    t:enter "first = 'alpha'"
    t:enter "second = 'beta'"
    t:press("Up", "Up")
    t:expect("> first = 'alpha'", 2)
    t:press "C-c"
    t:ready()
    t:press "C-d"
    t:expect "[exit 0]"
    t = terminal.open(helper.quote(helper.program()), nil, t.folder)
    t:ready()
    t:press "C-r"
    t:type "alp"
    t:expect "first = 'alpha'"
    t:press "Enter"
    t:expect "> first = 'alpha'\n>"
    assert.truthy(t:enter("first"):find('\n"alpha"\n', 1, true))
  end)

  it("keeps the history for its owner alone, in the folder for states", function()
    local t = editor()
    t:enter "first = 1"
    t:enter "first = 1"
    t:enter "  "
    t:enter "-- second"
    local path = t.folder .. "/state/reprise/history"
    assert.equal("first = 1\n-- second\n", helper.read(path))
    local _, mode = helper.run("stat -c %a " .. path .. " " .. t.folder .. "/state/reprise")
    assert.equal("600\n700\n", mode)
  end)

  it("looks for the folder for states in the home", function()
    local t = editor(nil, { XDG_STATE_HOME = "" })
    t:enter "1"
    assert.equal("1\n", helper.read(t.folder .. "/home/.local/state/reprise/history"))
  end)

  it("says why it keeps no history", function()
    local t = editor(nil, { XDG_STATE_HOME = "/dev/null" })
    t:ready()
    t:expect "reprise: the history of this prompt is not kept: "
    assert.truthy(t:enter("1 + 1"):find("\n2\n>", 1, true))
  end)

  it("cuts the history when it has grown to twice what it remembers", function()
    terminal.needs_editor()
    local folder = helper.tmp()
    helper.run("mkdir -p " .. folder .. "/state/reprise")
    local lines = {}
    for i = 1, 4001 do lines[i] = "line_" .. i .. "\n" end
    helper.write(folder .. "/state/reprise/history", table.concat(lines))
    local t = terminal.open(helper.quote(helper.program()), nil, folder)
    t:ready()
    assert.equal(table.concat(lines, "", 2002), helper.read(folder .. "/state/reprise/history"))
    t:press "Up"
    t:expect "> line_4001"
  end)
end)
