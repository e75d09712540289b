-- Options of a generation: where their values come from, what is refused and how, and what is made of their table.
local checkpoint = require "spec.support.checkpoint"
local helper = require "spec.helper"
local help = require "reprise.help"
local options = require "reprise.options"
local rp = require "reprise"

local TINY = "tied-relu"
local device = rp.device(helper.devices()[1])

local function load(file, change)
  local path = checkpoint.variant(TINY, function(_, config)
    if change then change(config) end
  end)
  if file then helper.write(path .. "/generation_config.json", file) end
  return rp.t5.load(path, { device = device }), path
end

local function why(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok)
  return (message:gsub("^%S+:%d+: ", ""))
end

describe("the value of an option", function()
  it("is the call's, else generation_config.json's, else the default", function()
    local model = load '{"num_beams": 4, "length_penalty": 2.0, "eos_token_id": [1, 12], "early_stopping": true}'
    local o = options.resolve(model, "generate", { num_beams = 2, early_stopping = false })
    assert.same({ 2, 2.0, { 1, 12 }, false, 1.0 },
      { o.num_beams, o.length_penalty, o.eos_token_id, o.early_stopping, o.repetition_penalty })
  end)

  it("is config.json's where there is no generation_config.json, and only there", function()
    local function with(config) config.num_beams, config.max_length, config.eos_token_id = 3, 7, 36 end
    local o = options.resolve(load(nil, with), "generate", {})
    assert.same({ 3, 7, { 36 } }, { o.num_beams, o.max_length, o.eos_token_id })
    o = options.resolve(load("{}", with), "generate", {})
    assert.same({ 1 }, { o.num_beams, o.max_length, o.eos_token_id })
  end)

  it("is the default where the file says null or the call says false", function()
    local model = load '{"num_beams": null, "max_new_tokens": 9, "eos_token_id": 1, "early_stopping": "never"}'
    local o = options.resolve(model, "generate", { max_new_tokens = false, eos_token_id = false })
    assert.same({ 1, nil, nil, "never" }, { o.num_beams, o.max_new_tokens, o.eos_token_id, o.early_stopping })
  end)

  it("ignores names in the file that nobody knows", function()
    local model = load '{"num_beams": 2, "transformers_version": "5.17.0", "num_bems": 7, "bad_words_ids": null, "typical_p": 1.0}'
    assert.equal(2, options.resolve(model, "generate", {}).num_beams)
  end)

  it("of a call wins over the other way of saying a length in the file", function()
    local model = load '{"max_new_tokens": 9, "min_new_tokens": 3}'
    local o = options.resolve(model, "generate", { max_length = 5, min_length = 2 })
    assert.same({ 5, nil, 2, nil }, { o.max_length, o.max_new_tokens, o.min_length, o.min_new_tokens })
    o = options.resolve(model, "generate", {})
    assert.same({ 9, 3 }, { o.max_new_tokens, o.min_new_tokens })
  end)

  it("is a list of ids also where one id was given", function()
    local o = options.resolve(load(), "generate", { eos_token_id = 5, decoder_input_ids = rp.tensor({ 0, 3 }, "i32", device) })
    assert.same({ { 5 }, { 0, 3 } }, { o.eos_token_id, o.decoder_input_ids })
  end)
end)

describe("a wrong option", function()
  local model
  setup(function() model = load() end)

  local ids = { 7, 8, 1 }
  local PROMPT = "a list of ids of the vocabulary (0 to 95), or lists of one length, one a source, is expected"

  for _, case in ipairs {
    { { num_beam = 2 }, "option num_beam is not known: did you mean num_beams?" },
    { { max_new_token = 2 }, "option max_new_token is not known: did you mean max_new_tokens?" },
    { { nbeams = 2 }, "option nbeams is not known: did you mean num_beams?" },
    { { temprature = 2 }, "option temprature is not known: did you mean temperature?" },
    { { "x" }, "option 1 is not known: did you mean seed?" },
    { { num_beams = 0 }, "num_beams is 0, a whole number from 1 to 16 is expected" },
    { { num_beams = 17 }, "num_beams is 17, a whole number from 1 to 16 is expected" },
    { { num_beams = 2.5 }, "num_beams is 2.5, a whole number from 1 to 16 is expected" },
    { { num_beams = "5" }, 'num_beams is "5", a whole number from 1 to 16 is expected' },
    { { max_new_tokens = 0 }, "max_new_tokens is 0, a whole number from 1 to 65000 is expected" },
    { { max_length = 1 }, "max_length is 1, and the prompt has 1 token" },
    { { max_length = 3, decoder_input_ids = { 4, 5 } }, "max_length is 3, and the prompt has 3 tokens" },
    { { length_penalty = 0 / 0 }, "length_penalty is -nan, a number is expected" },
    { { length_penalty = 1 / 0 }, "length_penalty is inf, a number is expected" },
    { { repetition_penalty = 0 }, "repetition_penalty is 0, a number above 0 is expected" },
    { { repetition_penalty = 1e-46 }, "repetition_penalty is 1e-46, a number above 0 in f32 is expected" },
    { { num_beams = 2, length_penalty = 1e300 }, "length_penalty is 1e+300, a number in f32 is expected" },
    { { early_stopping = "always" }, 'early_stopping is "always", true, false or "never" is expected' },
    { { do_sample = 1 }, "do_sample is 1, true or false is expected" },
    { { eos_token_id = 96 }, "eos_token_id is 96, an id of the vocabulary (0 to 95) or a list of ids is expected" },
    { { eos_token_id = { 1, "2" } }, 'eos_token_id is {1, "2"}, an id of the vocabulary (0 to 95) or a list of ids is expected' },
    { { pad_token_id = -1 }, "pad_token_id is -1, an id of the vocabulary is expected" },
    { { decoder_input_ids = {} }, "decoder_input_ids is {}, " .. PROMPT },
    { { decoder_input_ids = { { 1, 2 }, { 3 } } }, "decoder_input_ids is {{1, 2}, {3}}, " .. PROMPT },
    { { decoder_input_ids = { 1, 2, 3, 4, 5, 6, 96 } }, "decoder_input_ids is {1, 2, 3, 4, 5, 6, ...}, " .. PROMPT },
    { { decoder_input_ids = { { 1 }, { 3 } } }, "decoder_input_ids: 2 lists for 1 sources" },
    { { do_sample = true, top_p = 1.5 }, "top_p is 1.5, a number from 0 to 1 is expected" },
    { { do_sample = true, top_k = -1 }, "top_k is -1, a whole number from 0 is expected" },
    { { do_sample = true, temperature = 0 }, "temperature is 0, a number above 0 is expected" },
    { { do_sample = true, seed = 1.5 }, "seed is 1.5, a whole number or a list of them, one a source, is expected" },
    { { do_sample = true, seed = { 1, 2 } }, "seed: 2 seeds for 1 sources" },
    { { temperature = 0.5 }, "temperature says how to draw, and nothing is drawn without do_sample = true" },
    { { seed = 5, num_beams = 2 }, "seed says how to draw, and nothing is drawn without do_sample = true" },
    { { do_sample = true, num_beams = 3 },
      "do_sample with num_beams = 3 is not supported: draw with num_beams = 1, or search without do_sample" },
    { { num_beams = 3, num_return_sequences = 4 }, "num_return_sequences is 4, more than num_beams, 3" },
    { { num_return_sequences = 2 },
      "num_return_sequences is 2: a greedy decoding has one result; use num_beams or do_sample" },
    { { bad_words_ids = { { 3 } } }, "bad_words_ids is not supported" },
    { { typical_p = 0.9 }, "typical_p is not supported" },
    { { prefix = 5 }, "prefix is 5, a string is expected" },
    { 5, "options: table expected, got number" },
  } do
    it("raises: " .. case[2], function()
      local message = why(model.generate, model, ids, case[1]):gsub("is nan", "is -nan")
      assert.equal("generate: " .. case[2], message)
    end)
  end

  it("of the specification's list of what is not covered raises by its name", function()
    for _, name in ipairs { "sequence_bias", "encoder_repetition_penalty", "encoder_no_repeat_ngram_size", "bad_words_ids",
      "forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty", "suppress_tokens",
      "begin_suppress_tokens", "renormalize_logits", "typical_p", "top_h", "epsilon_cutoff", "eta_cutoff", "guidance_scale",
      "penalty_alpha", "num_beam_groups", "constraints", "max_time", "stop_strings" } do
      assert.equal(("generate: %s is not supported"):format(name), why(model.generate, model, ids, { [name] = 1 }))
    end
  end)

  it("that makes no number on the device raises", function()
    assert.equal("search: length_penalty is 40.0: 10^40.0 does not fit f32",
      why(model.generate, model, ids, { num_beams = 2, length_penalty = 40, max_new_tokens = 12 }))
  end)

  it("without a model is told how to call", function()
    assert.equal("generate: a model is expected first, as in model:generate(...)", why(model.generate, ids))
  end)

  it("of another function is named, with those that are taken", function()
    assert.matches("^generate: option batch is not taken here: taken are num_beams, num_return_sequences, ",
      why(model.generate, model, ids, { batch = 2 }))
    assert.equal("open: option num_beams is not taken here: taken are max_new_tokens, rows",
      why(model.open, model, ids, { num_beams = 2 }))
    assert.equal("open: option row is not known: did you mean rows?", why(model.open, model, ids, { row = 2 }))
  end)

  it("raises at the user's line", function()
    local ok, message = pcall(function() model:generate(ids, { num_beam = 2 }) end)
    assert.is_false(ok)
    assert.matches("^spec/reprise/options_spec.lua:%d+: generate: option num_beam", message)
  end)

  it("in a file raises when it is used, and says where it stands", function()
    local broken, path = load '{"num_beams": 99, "forced_eos_token_id": 1, "decoder_start_token_id": 0}'
    local file = path .. "/generation_config.json"
    assert.equal(("generate: forced_eos_token_id, which is not supported, is set in %s: forced_eos_token_id = false in the "
      .. "call leaves it out"):format(file), why(broken.generate, broken, ids))
    assert.equal(("generate: num_beams is 99 in %s, a whole number from 1 to 16 is expected"):format(file),
      why(broken.generate, broken, ids, { forced_eos_token_id = false }))
    assert.has_no.errors(function()
      broken:generate(ids, { forced_eos_token_id = false, num_beams = 1, max_new_tokens = 2 })
    end)
  end)

  it("that says how to draw is no mistake in a file", function()
    local quiet = load '{"temperature": 0.5, "top_k": 5, "max_new_tokens": 3, "decoder_start_token_id": 0}'
    assert.same(model:generate(ids, { max_new_tokens = 3, eos_token_id = false }), quiet:generate(ids))
  end)
end)

describe("task_specific_params", function()
  local FILE = {
    summarization = { num_beams = 2, early_stopping = true, max_length = 8, prefix = "summarize: ", unknown = 3 },
  }

  it("are options by the task's name, with what is known of them", function()
    local model = load(nil, function(config) config.task_specific_params = FILE end)
    assert.same({ num_beams = 2, early_stopping = true, max_length = 8, prefix = "summarize: " }, model.tasks.summarization)
    local out = model:generate({ 7, 8, 1 }, model.tasks.summarization)[1]
    assert.same(model:generate({ 7, 8, 1 }, { num_beams = 2, early_stopping = true, max_length = 8 })[1], out)
    assert.same({}, load().tasks)
  end)

  it("put their prefix before texts, not before ids", function()
    local model = rp.t5.load("scripts/models/g2p", { device = device })
    assert.equal(model:generate("knowledge")[1].text, model:generate("ledge", { prefix = "know" })[1].text)
    local ids = model.tokenizer:encode "ledge"
    assert.equal(model:generate("ledge")[1].text, model:generate(ids, { prefix = "know" })[1].text)
  end)
end)

describe("the table of options", function()
  it("is what types.lua says", function()
    local text = helper.read(require("reprise.core").home() .. "/lua/reprise/types.lua")
    assert.truthy(text:find(help.cats(), 1, true), "lines of types.lua are not those of help.cats()")
  end)

  it("makes flags of scripts", function()
    local flags = help.flags { "num_beams", "do_sample", "early_stopping", "eos_token_id", "temperature" }
    assert.same({ "num-beams", "N" }, { flags[1][1], flags[1][2] })
    assert.matches("default: 1$", flags[1][3])
    assert.equal(5, flags[1].read "5")
    assert.same({ nil, '"0": a whole number from 1 to 16 is expected' }, { flags[1].read "0" })
    assert.same({ nil, '"x": a whole number from 1 to 16 is expected' }, { flags[1].read "x" })
    assert.is_nil(flags[2][2])
    assert.same({ false, true, "never" }, { flags[3].read "false", flags[3].read "true", (flags[3].read "never") })
    assert.same({ nil, '"no": true, false or "never" is expected' }, { flags[3].read "no" })
    assert.same({ 1, 12 }, flags[4].read "1,12")
    assert.equal(0.5, flags[5].read "0.5")
  end)
end)
