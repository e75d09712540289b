-- usage: reprise scripts/g2p.lua [options] [word ...]
-- English words to ARPAbet phones with a trained T5; without words, one word a line from standard input.
-- Results go to standard output, warnings and figures to standard error.
local rp = require "reprise"
local cli = require "reprise.cli"

local folder = (arg[0]:match "^(.*)/" or ".") .. "/models/g2p"
local options, words = cli.parse(arg, {
  usage = "reprise scripts/g2p.lua [options] [word ...]",
  { "model", "FOLDER", "a T5 that reads bytes; default " .. folder, default = folder },
  { "device", "NAME", "cpu, cuda:0, ...; default: REPRISE_DEVICE, else the best present" },
  { "max-new-tokens", "N", "longest result; default: generation_config.json", number = true },
  { "kv", "TYPE", "type of the caches, f32 or f16; default f32", default = "f32", choices = { "f32", "f16" } },
  { "json", nil, "print one JSON object a line" },
  { "eager", nil, "run each step uncaptured" },
})

-- Load: the decoder's step is captured when the first word of its length comes, and replayed for every token after.
local model = rp.t5.load(options.model, {
  device = rp.device(options.device), kv = options.kv, capture = not options.eager,
})

local function warn(format, ...) io.stderr:write("g2p: ", format:format(...), "\n") end

local function show(word, out)
  if not options.json then return print(out.text) end
  local input = utf8.len(word) and word or word:gsub("[\x80-\xff]", "\u{FFFD}")
  local result = { text = out.text, score = out.score or rp.null, tokens = #out.ids }
  print(rp.json_encode({ input = input, outputs = { result } }, { "input", "outputs", "text", "score", "tokens" }))
end

local count = { words = 0, tokens = 0 }

local function phones(line)
  if line:find "^%s*$" then return print() end
  local word = line:gsub("\r$", ""):lower()
  if word:find "[^a-z']" then warn("%q has bytes outside a-z and '", word) end
  local out = model:generate(word, { max_new_tokens = options.max_new_tokens })[1]
  if out.finish == "length" then warn("%q: cut after %d tokens", word, #out.ids) end
  count.words, count.tokens = count.words + 1, count.tokens + #out.ids
  show(word, out)
end

if #words > 0 then
  for _, word in ipairs(words) do phones(word) end
else
  for line in io.lines() do phones(line) end
end

-- Steps that capture or compile are left out of the time a token takes.
local f, compiled = model:figures(), rp.cache_counts().compiled
warn("%s, %d words, %d tokens", model.device.name, count.words, count.tokens)
warn("%.1f us a token %s, %.2f ms a word encoded", f.steps > 0 and f.stepping / f.steps * 1e6 or 0,
  options.eager and "eager" or "replayed", f.encoding / math.max(count.words, 1) * 1e3)
warn("%d graphs captured in %.1f ms, largest plan %.3f of its lower bound, %d kernels compiled",
  f.captured, f.capturing * 1e3, f.ratio, compiled)
