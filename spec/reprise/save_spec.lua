-- model:save(folder): a loaded copy computes the same bits; core.safetensors_write by itself.
local checkpoint = require "spec.support.checkpoint"
local core = require "reprise.core"
local helper = require "spec.helper"
local rp = require "reprise"
local stored = require "spec.support.safetensors"

local SOURCE = { 5, 9, 17, 33, 6, 1 }

helper.each_device(function(name)
  describe("model:save", function()
    local dev = rp.device(name)

    -- Logits of some steps, and what the encoder says.
    local function figures_of(model)
      local out = { model:encode(SOURCE):totable() }
      local s <close> = model:open(SOURCE, { max_new_tokens = 8 })
      for i = 1, 8 do out[#out + 1] = s:step(rp.tensor({ i }, "i32", dev)):totable() end
      return out
    end

    local function round_trip(model)
      local folder = helper.tmp() .. "/made/copy's"
      model:save(folder)
      local copy = rp.t5.load(folder, { device = dev })
      assert.same(figures_of(model), figures_of(copy))
      return folder, copy
    end

    for _, dtype in ipairs { "f32", "f16", "bf16" } do
      it("of a random model in " .. dtype .. " gives a folder that loads into the same bits", function()
        local folder, copy = round_trip(rp.t5.random("demo", { device = dev, seed = 7, dtype = dtype }))
        assert.equal(dtype, copy.decoder.layers[1].ff.gate.dtype)
        local _, list = helper.run("ls " .. helper.quote(folder))
        assert.equal("config.json\ngeneration_config.json\nmodel.safetensors\n", list)
      end)
    end

    for _, kind in ipairs(checkpoint.names) do
      it("of the checkpoint " .. kind .. " likewise", function()
        local folder = checkpoint.folder(kind)
        local before = rp.t5.load(folder, { device = dev })
        local saved, copy = round_trip(before)
        assert.same(before.config.generation.values, copy.config.generation.values)
        assert.equal(before.tokenizer.bytes, copy.tokenizer.bytes)
        local original = checkpoint.json(folder .. "/config.json")
        for key, value in pairs(original) do assert.same(value, checkpoint.json(saved .. "/config.json")[key], key) end
      end)
    end

    it("stores a matrix that serves twice once, and tells readers the format", function()
      local folder = helper.tmp()
      rp.t5.random("demo", { device = dev, dtype = "f16" }):save(folder)
      local text, seen = helper.read(folder .. "/model.safetensors"), 0
      local header = core.json_decode(text:sub(9, 8 + ("<I8"):unpack(text)))
      for _, entry in ipairs(stored.read(folder .. "/model.safetensors")) do
        if entry.shape[1] == 384 then seen = seen + 1 end
      end
      assert.equal(1, seen)
      assert.same({ format = "pt" }, header.__metadata__)
      assert.equal(0, ("<I8"):unpack(text) % 8)
    end)

    it("raises where nothing can be written", function()
      local model = rp.t5.random("demo", { device = dev, dtype = "f16" })
      assert.error_matches(function() model:save "/dev/null/folder" end, "^save: /dev/null/folder/config.json: Not a directory")
      assert.error_matches(function() model:save(3) end, "^bad argument #1 to 'save' %(string expected, got number%)")
    end)
  end)

  describe("core.safetensors_write", function()
    local dev = rp.device(name)

    it("stores tensors of every dtype and rank, views as they look, in the order given", function()
      local path, x = helper.tmp() .. "/all.safetensors", rp.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "f32", dev)
      local list = {
        { "b", x:transpose(1, 2) }, { "a", rp.full({ 2 }, 1.5, "bf16", dev) }, { "h\"\n", rp.full({ 1, 3 }, 2, "f16", dev) },
        { "i", rp.tensor({ -1, 1 << 40 }, "i64", dev) }, { "n", rp.full({}, 7, "i32", dev) }, { "e", rp.empty({ 0, 4 }, "u8", dev) },
      }
      core.safetensors_write(path, list)
      local file = core.safetensors(path)
      for _, pair in ipairs(list) do assert.same(pair[2]:totable(), file:tensor(pair[1], dev):totable()) end
      assert.same({ "b", "a" }, { file:names()[1], file:names()[2] })
      assert.equal("BF16", file:info "a".dtype)
    end)

    it("leaves no half of a file behind, and the old one as it was", function()
      local folder, x = helper.tmp(), rp.zeros({ 4 }, "f32", dev)
      local path = folder .. "/w.safetensors"
      core.safetensors_write(path, { { "x", x } })
      local before = helper.read(path)
      assert.error_matches(function() core.safetensors_write(path, { { "x", x }, { "x", x } }) end, 'tensor "x": the name is there already')
      assert.error_matches(function() core.safetensors_write(path, { { "\xff", x } }) end, "a name is not UTF%-8")
      assert.equal(before, helper.read(path))
      local _, list = helper.run("ls " .. folder)
      assert.equal("w.safetensors\n", list)
    end)

    it("says what is wrong with its arguments", function()
      local x = rp.zeros({ 4 }, "f32", dev)
      assert.error_matches(function() core.safetensors_write("/nowhere/x", { { "x", x } }) end, "^write /nowhere/x: No such file or directory")
      assert.error_matches(function() core.safetensors_write("x", { 3 }) end, "item 1: a pair { name, tensor } expected, got number")
      assert.error_matches(function() core.safetensors_write("x", { { "x", 4 } }) end, "item 1: an open tensor expected, got 4")
      assert.error_matches(function() core.safetensors_write("x", { { 4, x } }) end, "item 1: name: string expected, got number")
      x:close()
      assert.error_matches(function() core.safetensors_write("x", { { "x", x } }) end, "item 1: an open tensor expected")
    end)
  end)
end)
