--- Kernels for specs: what a source is answered with, and compiling in processes with a cache of their own.
local helper = require "spec.helper"
local rp = require "reprise"

local m = {}

--- What rp.compile says about a source that it refuses, behind its own "file:line: ". The source is called
--- k.cu.
---@param source string
---@param define? table
---@param device? string
---@return string
function m.refusal(source, define, device)
  local ok, why = pcall(rp.compile, {
    source = source, name = "k.cu", define = define, device = device or helper.devices()[1],
  })
  assert(not ok, "the source was accepted")
  return (why:gsub("^[^\n]-_spec%.lua:%d+: ", ""))
end

--- The parameters of a kernel with an empty body, as launches name them: "const f16 *w, i32 n".
--- Each argument in turn is wrong (a function is nothing) and then right, so that the next is complained of.
---@param kernel any
---@return string
function m.formals(kernel)
  local args, found = { grid = 1, block = 1 }, {}
  for i = 1, 64 do
    args[i] = print
    local ok, why = pcall(kernel, args)
    local text = not ok and why:match("argument " .. i .. " (%b())")
    if not text then break end
    found[i] = text:sub(2, -2)
    args[i] = not found[i]:find("*", 1, true) and 0
  end
  return table.concat(found, ", ")
end

local script = [[
local rp, core = require "reprise", require "reprise.core"
for i = 1, #arg do rp.compile { file = arg[i] } end
local c = core.cache_counts()
io.write(("%d %d %d %d\n"):format(c.prebuilt, c.hits, c.compiled, c.rebuilt))
]]

--- The command that compiles files in a process of its own and writes its counts.
---@param device string
---@param cache string folder
---@param files string[]
---@return string
function m.command(device, cache, files)
  local path = cache .. ".lua"
  helper.write(path, script)
  local words = { "REPRISE_CACHE=" .. helper.quote(cache), "REPRISE_DEVICE=" .. device, helper.program(),
    path }
  for _, file in ipairs(files) do words[#words + 1] = helper.quote(file) end
  return table.concat(words, " ")
end

--- Reads the counts that such a process wrote.
---@param line string
---@return table
function m.counts(line)
  local prebuilt, hits, compiled, rebuilt = line:match "^(%d+) (%d+) (%d+) (%d+)"
  assert(prebuilt, line)
  return {
    prebuilt = tonumber(prebuilt), hits = tonumber(hits), compiled = tonumber(compiled),
      rebuilt = tonumber(rebuilt),
  }
end

--- Compiles files in a process of its own; its counts.
---@param device string
---@param cache string folder
---@param files string[]
---@return table
function m.compile(device, cache, files)
  local code, out, err = helper.run(m.command(device, cache, files))
  assert(code == 0, err)
  return m.counts(out)
end

--- The names of the entries in a cache folder.
---@param cache string
---@return string[]
function m.entries(cache)
  local _, out = helper.run("ls " .. helper.quote(cache))
  local names = {}
  for name in out:gmatch "%x+" do names[#names + 1] = #name == 32 and name or nil end
  return names
end

--- Writes `count` sources of one kernel each, unlike each other, into a folder.
---@param folder string
---@param count integer
---@return string[] paths
function m.sources(folder, count)
  local files = {}
  for i = 1, count do
    files[i] = ("%s/k%02d.cu"):format(folder, i)
    helper.write(files[i], ('#include "prelude.cuh"\nKERNEL void k%d(float *y) { y[BLOCK] = %d; }\n')
      :format(i, i))
  end
  return files
end

return m
