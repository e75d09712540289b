-- usage: reprise scripts/look.lua [options] [word]
-- What lies in memory, and when, while a word is decoded: by beam search, then once more as decoding is first written,
-- with caches that grow and a graph for every length. Writes a page to open in a browser: the pool over time, the plan
-- of each graph, its nodes with their times.
local rp = require "reprise"
local cli = require "reprise.cli"
local growing = require "reprise.growing"

local options, words = cli.parse(arg, {
  usage = "reprise scripts/look.lua [options] [word]",
  { "out", "FILE", "a page (.html), or a timeline for Perfetto (.json); default memory.html", default = "memory.html" },
  { "new", "N", "graphs of the second part; default 32", number = true, default = 32 },
  { "untimed", nil, "do not time kernels: graphs are replayed as they are" },
})
local word = words[1] or "internationalization"

local record = options.untimed and rp.record_memory or rp.trace
local recording <close> = record(options.out)

local model = rp.t5.load((arg[0]:match "^(.*)/" or ".") .. "/models/g2p")
print(model:generate(word, { num_beams = 5 })[1].text)

local lengths = growing.open(model, model.tokenizer:encode(word), { rows = 5, new = options.new })
for _ = 1, 2 do lengths:run() end
print(("%d graphs share %.2f MiB of scratch and %.2f MiB of inputs: see %s"):format(#lengths:graphs(),
  model.device.pool:figures().scratch.allocated / 2 ^ 20, model.device.pool:figures().slots.allocated / 2 ^ 20,
  recording.file))
