-- `reprise --doctor`: what it says of a sound machine, and of each thing that is not as it should be.
local helper = require "spec.helper"
local core = require "reprise.core"
local doctor = require "reprise.doctor"

local function run(variables, arguments)
  return helper.run(("%s %s --doctor %s"):format(variables or "", helper.quote(helper.program()), arguments or ""))
end

-- The line of a finding with its remedy, if one stands below.
local function finding(page, name)
  local mark, text, rest = page:match("\n  (%S+) +" .. name .. " +([^\n]*)(.*)")
  return mark, text, rest and rest:match "^\n +%-> ([^\n]*)"
end

describe("reprise --doctor", function()
  it("says of every part that it is there, or why not and what to do", function()
    local code, page, err = run()
    assert.equal("", err)
    assert.equal(0, code)
    for _, part in ipairs { "cpu", "cuda", "cache" } do
      for _, fact in ipairs(core.examine(part)) do
        local mark, text, remedy = finding(page, fact.name)
        assert.equal(fact.value and "ok" or "--", mark, fact.name)
        if fact.name ~= "memory" and fact.name ~= "cache" then assert.equal(fact.value or fact.why, text) end
        assert.equal(not fact.value, remedy ~= nil, fact.name)
      end
    end
  end)

  it("runs kernels of the library on every device, and compiles one of a user's", function()
    if not helper.compiler() then helper.pending "no C++ compiler here: kernels of one's own do not compile" end
    local _, page = run()
    for _, device in ipairs(core.devices()) do
      local part = page:match("\n" .. device.name .. ": kernels on [^\n]*(.*)")
      assert.truthy(part, device.name)
      assert.equal("ok", (finding(part, "of the library")))
      local _, text = finding(part, "of one's own")
      assert.matches("^compile for " .. device.arch:gsub("%p", "%%%0"), text)
    end
  end)

  it("leaves nothing behind", function()
    local folder = helper.tmp()
    run("TMPDIR=" .. folder .. " REPRISE_CACHE=" .. folder .. "/cache")
    local _, list = helper.run("find " .. folder .. " -type f")
    assert.equal("", list)
  end)

  it("names a compiler that is none, and goes on: the library's kernels need none", function()
    local code, page = run "REPRISE_CXX=/no/such"
    assert.equal(0, code)
    local mark, text, remedy = finding(page, "compiler")
    assert.equal("--", mark)
    assert.equal('looking for a C++ compiler: REPRISE_CXX is "/no/such", which is no program', text)
    assert.equal("kernels of one's own need it on the CPU; the library's do not", remedy)
  end)

  it("names a cache that others may write to, or that cannot be made", function()
    local folder = helper.tmp()
    helper.run("chmod 777 " .. folder)
    local _, page = run("REPRISE_CACHE=" .. folder)
    local mark, text, remedy = finding(page, "cache")
    assert.equal("--", mark)
    assert.equal("opening " .. folder .. ": it belongs to another user, or others may write there", text)
    assert.matches("name a folder of yours in REPRISE_CACHE$", remedy)
    helper.write(folder .. "/file", "")
    _, page = run("REPRISE_CACHE=" .. folder .. "/file/none")
    _, text = finding(page, "cache")
    assert.equal("opening " .. folder .. "/file/none: Not a directory", text)
  end)

  it("ends with 1 when no device can be opened, after the whole page", function()
    local code, page, err = run "REPRISE_THREADS=none"
    assert.equal(1, code)
    assert.equal("", err)
    local _, text, remedy = finding(page, "threads")
    assert.equal('reading REPRISE_THREADS: "none" is not a number from 1 to 256', text)
    assert.equal("unset it", remedy)
    assert.truthy(page:find("opening cpu: reading REPRISE_THREADS", 1, true))
  end)

  it("says which architecture is none", function()
    local code, page = run "REPRISE_CPU_ARCH='a b'"
    assert.equal(1, code)
    assert.truthy(page:find('reading REPRISE_CPU_ARCH: "a b" is no processor\'s name', 1, true))
  end)

  it("takes no arguments", function()
    local code, out, err = run("", "cpu")
    assert.equal(2, code)
    assert.equal("", out)
    assert.equal("usage: reprise --doctor\n", err)
  end)

  it("is not sound when a part is missing without which nothing runs", function()
    local part = { title = "x", findings = { { name = "memory", value = "enough" }, { name = "own", why = "none" } } }
    local text, sound = doctor.page { part }
    assert.is_true(sound)
    assert.matches("\nx\n  ok  memory         enough\n  %-%-  own            none$", text)
    part.findings[2].fatal = true
    assert.is_false(select(2, doctor.page { part }))
  end)
end)
