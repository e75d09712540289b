-- usage: reprise scripts/g2p.lua [options] [word ...]
-- English words to ARPAbet phones with a trained T5; without words, one word a line from standard input.
-- Results go to standard output, figures to standard error.
local rp = require "reprise"
local cli = require "reprise.cli"

local folder = (arg[0]:match("^(.*)/") or ".") .. "/models/g2p"
local options, words = cli.parse(arg, {
  usage = "reprise scripts/g2p.lua [options] [word ...]",
  { "model", "FOLDER", "weights, default " .. folder, default = folder },
  { "device", "NAME", "cpu, cuda:0, ...; default: the best present" },
  { "max-new-tokens", "N", "longest result, default: the model's", number = true },
  { "kv", "TYPE", "f32 or f16, the type of the caches, default f32", default = "f32", choices = { "f32", "f16" } },
  { "json", nil, "print one JSON object a line" },
  { "eager", nil, "run each step uncaptured" },
})

local model = rp.t5.load(options.model, {
  device = rp.device(options.device), kv = options.kv, capture = not options.eager,
})

-- Counts of this run.
local count = { words = 0, tokens = 0, seconds = 0 }

local function warn(format, ...) io.stderr:write("g2p: ", format:format(...), "\n") end

local function show(word, out)
  if not options.json then return print(out.text) end
  local readable = utf8.len(word) and word or word:gsub("[\x80-\xff]", "?")
  print(rp.json({
    input = readable, outputs = { { text = out.text, score = out.score or rp.null, tokens = #out.ids } },
  }, { "input", "outputs", "text", "score", "tokens" }))
end

local function phones(line)
  if line:find("^%s*$") then return print(options.json and "{}" or "") end
  local word = line:lower()
  if word:find("[^a-z']") then warn("%q has bytes outside a-z and ': the model has not seen such words", line) end
  local begun = rp.clock()
  local out = model:generate(word, { max_new_tokens = options.max_new_tokens })[1]
  count.words, count.tokens = count.words + 1, count.tokens + #out.ids
  count.seconds = count.seconds + rp.clock() - begun
  if out.finish == "length" then warn("%q: the result was cut after %d tokens", line, #out.ids) end
  show(word, out)
end

if #words > 0 then
  for _, word in ipairs(words) do phones(word) end
else
  for line in io.lines() do phones(line) end
end
