-- usage: reprise scripts/reference.lua [file]
-- Writes the reference, lua/README.md, from the comments in lua/reprise: to be run in the source tree after a change
-- there. What stands above the mark in that file is kept.
local reference = require "reprise.reference"

local MARK = "<!-- From here on: made by scripts/reference.lua from the comments in lua/reprise. -->\n"

-- What stands in the reference: titles, and of which file which entries. `of`: a class with its methods.
local SECTIONS = {
  { "rp", file = "init" },
  { "rp, from the core", file = "types", of = "reprise.core" },
  { "Types of arguments", file = "types", kinds = { alias = true } },
  { "What functions take and give", file = "types", plain = true },
  { "Device", file = "types", of = "reprise.Device" },
  { "Pool", file = "types", of = "reprise.Pool" },
  { "Tensor", file = "types", of = "reprise.Tensor" },
  { "Program", file = "types", of = "reprise.Program" },
  { "Kernel", file = "types", of = "reprise.Kernel" },
  { "Param", file = "types", of = "reprise.Param" },
  { "Step: a captured function", file = "types", of = "reprise.Step" },
  { "Graph", file = "types", of = "reprise.Graph" },
  { "Signal", file = "types", of = "reprise.Signal" },
  { "Scope", file = "types", of = "reprise.Scope" },
  { "Safetensors", file = "types", of = "reprise.Safetensors" },
  { "Recording", file = "recording", of = "reprise.Recording" },
  { "rp.t5", file = "t5", of = "reprise.t5" },
  { "T5: a model", file = "t5", of = "reprise.T5" },
  { "Options of a generation", file = "types", of = "reprise.GenerateOptions" },
  { "Output", file = "generate", of = "reprise.Output" },
  { "Session: a decoder of one's own", file = "session", of = "reprise.Session" },
  { "Tokenizer", file = "tokenizer", of = "reprise.Tokenizer" },
  { "rp.ops", file = "ops", of = "reprise.ops" },
  { "rp.nn", file = "nn", of = "reprise.nn" },
  { "reprise.cli, for scripts", file = "cli", of = "reprise.cli" },
}

local function head()
  local file <close> = assert(io.open "lua/README.md")
  local text = file:read "a"
  return text:sub(1, assert(select(2, text:find(MARK, 1, true)), "lua/README.md has no mark"))
end

local text = head()
local file = assert(io.open(arg[1] or "lua/README.md", "w"))
file:write(text, reference(SECTIONS, "lua/reprise"))
assert(file:close())
