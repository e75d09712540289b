-- usage: reprise scripts/g2p.lua [options] [word ...]
-- English words to ARPAbet phones with a trained T5; without words, one word a line from standard input.
-- Results go to standard output, warnings and figures to standard error.
local rp = require "reprise"
local cli = require "reprise.cli"
local help = require "reprise.help"
local progress = require "reprise.progress"

local GENERATION = {
  "num_beams", "num_return_sequences", "batch", "max_new_tokens", "min_new_tokens", "length_penalty", "early_stopping",
  "repetition_penalty", "no_repeat_ngram_size", "do_sample", "temperature", "top_k", "top_p", "min_p", "seed",
}
local folder = (arg[0]:match "^(.*)/" or ".") .. "/models/g2p"
local options, words = cli.parse(arg, {
  usage = "reprise scripts/g2p.lua [options] [word ...]",
  { "model", "FOLDER", "a T5 that reads bytes; default " .. folder, default = folder },
  { "device", "NAME", "cpu, cuda:0, ...; default: REPRISE_DEVICE, else the best present" },
  { "kv", "TYPE", "type of the caches, f32 or f16; default f32", default = "f32", choices = { "f32", "f16" } },
  { "scores", nil, "print scores behind results" },
  { "json", nil, "print one JSON object a line" },
  { "eager", nil, "run each step uncaptured" },
}, help.flags(GENERATION))

-- Load: the decoder's step is captured when the first word of its length comes, and replayed for every token after.
local model = rp.t5.load(options.model, {
  device = rp.device(options.device), kv = options.kv, capture = not options.eager,
})

local function warn(format, ...) io.stderr:write("g2p: ", format:format(...), "\n") end

local function show_json(word, outs)
  local results = {}
  for i, out in ipairs(outs) do results[i] = { text = out.text, score = out.score, tokens = #out.ids } end
  local input = utf8.len(word) and word or word:gsub("[\x80-\xff]", "\u{FFFD}")
  print(rp.json_encode({ input = input, outputs = results }, { "input", "outputs", "text", "score", "tokens" }))
end

local function show(word, outs)
  if options.json then return show_json(word, outs) end
  for _, out in ipairs(outs) do print(options.scores and ("%s\t%.5f"):format(out.text, out.score) or out.text) end
end

-- The words in order; `before` counts the blank lines in front of each, which come out as they came in.
local next_line = io.lines()
if #words > 0 then
  local at = 0
  function next_line()
    at = at + 1
    return words[at]
  end
end
local taken, before, blank = {}, {}, 0
local function next_word()
  for line in next_line do
    if line:find "%S" then
      local word = line:gsub("\r$", ""):lower()
      if word:find "[^a-z']" then warn("%q has bytes outside a-z and '", word) end
      taken[#taken + 1], before[#taken + 1], blank = word, blank, 0
      return word
    end
    blank = blank + 1
  end
end

local call = {}
for _, name in ipairs(GENERATION) do call[name] = options[name] end
local begun, tokens, bar = rp.clock(), 0, progress.new(progress.bytes(words))
for i, outs in model:each(next_word, call) do
  io.write(("\n"):rep(before[i]))
  show(taken[i], outs)
  bar:add(#taken[i] + 1 + before[i])
  tokens = tokens + #outs[1].ids
  if outs[1].finish == "length" then warn("%q: cut after %d tokens", taken[i], #outs[1].ids) end
end
io.write(("\n"):rep(blank))
bar:finish()

-- Steps that capture or compile are left out of the time a token takes.
local f, compiled = model:figures(), rp.cache_counts().compiled
warn("%s, %d words, %d tokens, %.0f words a second", model.device.name, #taken, tokens, #taken / (rp.clock() - begun))
warn("%.1f us a %s %s, %.2f ms a word encoded", f.steps > 0 and f.stepping / f.steps * 1e6 or 0,
  (options.batch or 1) > 1 and "step" or "token", options.eager and "eager" or "replayed",
  f.encoding / math.max(#taken, 1) * 1e3)
warn("%d graphs captured in %.1f ms, largest plan %.3f of its lower bound, %d kernels compiled",
  f.captured, f.capturing * 1e3, f.ratio, compiled)
