--- What all specs share. busted loads it once, before them; they get it with `require "spec.helper"`.

local busted = require "busted"
local core = require "reprise.core"

local m = {}
package.loaded.helper = m -- the short name

local test -- the one that runs, or nil
busted.subscribe({ "test", "start" }, function(element) test = element; return nil, true end)
busted.subscribe({ "test", "end" }, function() test = nil; return nil, true end)

--- `pending` for modules that specs require: busted gives it to the spec files alone. To be called inside a test.
---@param reason string
function m.pending(reason)
  if not test then error("only a test (`it`) can be pending, not what comes before it: " .. reason, 2) end
  test.env.pending(reason)
end

--- Runs once a device: in a describe block named after it, or, inside a test, directly.
---@param fn fun(device: string)
function m.each_device(fn)
  for _, name in ipairs(m.devices()) do
    if test then fn(name) else busted.describe("on " .. name, function() fn(name) end) end
  end
end

--- The names of the devices present: "cpu" and, where there are GPUs, "cuda:0" ....
--- REPRISE_DEVICE confines the suite to one of them.
---@return string[]
function m.devices()
  local only, names = os.getenv "REPRISE_DEVICE", {}
  for _, device in ipairs(core.devices()) do
    if not only or only == "" or device.name == only or device.name:match("^%a+") == only then
      names[#names + 1] = device.name
    end
  end
  return names
end

--- Folders to be removed when the state closes: after the last spec, and after Ctrl-C.
local folders = setmetatable({}, {
  __gc = function(list)
    for _, path in ipairs(list) do os.execute("rm -rf '" .. path .. "'") end
  end,
})

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

m.read, m.write = read, write

--- A fresh folder, removed at the end.
---@return string path
function m.tmp()
  local pipe = assert(io.popen("mktemp -d"))
  local path = pipe:read "l"
  pipe:close()
  assert(path, "mktemp -d gave no folder")
  folders[#folders + 1] = path
  return path
end

local capture_folder

--- Runs a shell command to its end.
---@param command string
---@return integer code 128 + n after signal n
---@return string stdout
---@return string stderr
function m.run(command)
  capture_folder = capture_folder or m.tmp()
  local out, err = capture_folder .. "/out", capture_folder .. "/err"
  local _, how, code = os.execute(("( %s\n) >'%s' 2>'%s' </dev/null"):format(command, out, err))
  return how == "signal" and 128 + code or code, read(out), read(err)
end

--- Text as one word of a shell command.
---@param text string
---@return string
function m.quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

--- The path of a file under spec/fixtures/.
---@param path string
---@return string
function m.fixture(path)
  return "spec/fixtures/" .. path
end

--- The path of the running program; REPRISE_PROGRAM names a way to start it where that is not enough (an emulator).
---@return string
function m.program()
  return os.getenv "REPRISE_PROGRAM" or core.file
end

local compiler

--- The host's C++ compiler, or nil: kernels of one's own do not compile on the CPU then.
---@return string?
function m.compiler()
  if compiler == nil then
    compiler = false
    for _, name in ipairs { os.getenv "REPRISE_CXX" or "c++", "g++", "clang++" } do
      if not compiler and os.execute("command -v " .. m.quote(name) .. " >/dev/null 2>&1") then compiler = name end
    end
  end
  return compiler or nil
end

--- A setting of the build, as CMake keeps it; nil in an installed program.
---@param name string
---@return string?
function m.setting(name)
  local file = io.open(core.home() .. "/CMakeCache.txt")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text:match("\n" .. name .. ":%w+=([^\n]*)")
end

--- Does the program watch itself with sanitizers?
function m.sanitized() return (m.setting "REPRISE_SANITIZE" or "OFF") ~= "OFF" end

--- All of a list; every N-th where REPRISE_SAMPLE says N: under a checker that makes everything fifty times slower.
---@param list any[]
---@return any[]
function m.some(list)
  local step, out = tonumber(os.getenv "REPRISE_SAMPLE") or 1, {}
  for i = 1, #list, step do out[#out + 1] = list[i] end
  return out
end

--- Runs `fn` with products made as without tensor cores: in one order of adding, however many rows there are.
---@param fn fun()
function m.without_cores(fn)
  local cores = require "reprise.cores"
  local before = cores.enabled
  cores.enabled = false
  local ok, why = pcall(fn)
  cores.enabled = before
  if not ok then error(why, 0) end
end

--- Marks the test that runs as pending where kernels of one's own do not compile for the device.
---@param device string
function m.needs_compiler(device)
  if device == "cpu" then
    if not m.compiler() then m.pending "no C++ compiler here: kernels of one's own do not compile on the CPU device" end
    return
  end
  local ok, why = pcall(core.compile, { source = "__global__ void f() {}", device = device })
  if not ok and tostring(why):find("libnvrtc", 1, true) then m.pending "no NVRTC here: kernels of one's own do not compile" end
end

return m
