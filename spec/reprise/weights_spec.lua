-- Folders of weights: what is found in them, and the one sentence for each way they can be wrong.
local rp = require "reprise"
local helper = require "spec.helper"
local stored = require "spec.support.safetensors"
local weights = require "reprise.weights"

local function f32(...) return string.pack(("f"):rep(select("#", ...)), ...) end

local function entry(name, shape, ...) return { name = name, dtype = "F32", shape = shape, data = f32(...) } end

local function index(folder, map)
  local parts = {}
  for name, file in pairs(map) do parts[#parts + 1] = ("%q: %q"):format(name, file) end
  helper.write(folder .. "/model.safetensors.index.json", '{"weight_map": {' .. table.concat(parts, ", ") .. "}}")
end

-- A folder of two shards: a in the first, b in the second.
local function shards(map)
  local folder = helper.tmp()
  stored.write(folder .. "/one.safetensors", { entry("a", { 2 }, 1, 2) })
  stored.write(folder .. "/two.safetensors", { entry("b", { 1 }, 3) })
  index(folder, map or { a = "one.safetensors", b = "two.safetensors" })
  return folder
end

local function single(entries)
  local folder = helper.tmp()
  stored.write(folder .. "/model.safetensors", entries)
  return folder
end

local function refusal(folder)
  local ok, why = pcall(weights.open, folder)
  assert.is_false(ok)
  return (why:gsub(folder, "F"):gsub("^%S+:%d+: ", ""))
end

describe("weights", function()
  helper.each_device(function(name)
    local device = rp.device(name)

    it("come from one file", function()
      local w = weights.open(single { entry("x", { 2, 2 }, 1, 2, 3, 4) })
      assert.is_true(w:has "x")
      assert.is_false(w:has "y")
      assert.are.same({ { 1, 2 }, { 3, 4 } }, w:take("x", { 2, 2 }, device):totable())
      w:close()
    end)

    it("have the type of the largest of them", function()
      local half = { name = "y", dtype = "F16", shape = { 3, 2 }, data = ("\0"):rep(12) }
      assert.equal("f16", weights.open(single { entry("x", { 2, 2 }, 1, 2, 3, 4), half, entry("z", { 1 }, 1) }):dtype())
      assert.is_nil(weights.open(single {}):dtype())
    end)

    it("come from shards by an index", function()
      local w = weights.open(shards())
      assert.are.same({ 1, 2 }, w:take("a", { 2 }, device):totable())
      assert.are.same({ 3 }, w:take("b", { 1 }, device):totable())
    end)

    it("stay when the files are closed", function()
      local w = weights.open(shards())
      local a = w:take("a", { 2 }, device)
      w:close()
      assert.are.same({ 1, 2 }, a:totable())
    end)

    it("that are equal matrices are stored once, other shapes and bytes are not", function()
      local w = weights.open(single {
        entry("a", { 2, 2 }, 1, 2, 3, 4), entry("b", { 2, 2 }, 1, 2, 3, 4),
        entry("c", { 1, 4 }, 1, 2, 3, 4), entry("d", { 2, 2 }, 1, 2, 3, 5),
      })
      local a = w:take("a", { 2, 2 }, device)
      assert.are.equal(a, w:take("b", { 2, 2 }, device))
      assert.are_not.equal(a, w:take("c", { 1, 4 }, device))
      assert.are_not.equal(a, w:take("d", { 2, 2 }, device))
      assert.are.same({ { 1, 2 }, { 3, 5 } }, w:take("d", { 2, 2 }, device):totable())
    end)

    it("say which tensor is missing, and which has another shape", function()
      local folder = single { entry("x", { 2, 2 }, 1, 2, 3, 4) }
      local w = weights.open(folder)
      local function why(...) return (select(2, pcall(w.take, w, ...)):gsub("^%S+:%d+: ", "")) end
      assert.are.equal(('load %s: tensor "y" is missing'):format(folder), why("y", { 1 }, device))
      assert.are.equal(('load %s: tensor "x" has the shape {2, 2}, config.json asks for {2, 3}'):format(folder),
        why("x", { 2, 3 }, device))
      assert.are.equal(('load %s: tensor "x" has the shape {2, 2}, config.json asks for {4}'):format(folder),
        why("x", { 4 }, device))
    end)

    it("of a type that tensors cannot have are refused by name", function()
      local folder = single { { name = "x", dtype = "F64", shape = { 1 }, data = ("d"):pack(1) } }
      local w = weights.open(folder)
      local ok, why = pcall(w.take, w, "x", { 1 }, device)
      assert.is_false(ok)
      assert.matches('model%.safetensors: tensor "x": dtype F64', why)
    end)
  end)
end)

describe("a folder", function()
  it("without weights says what it looked for", function()
    assert.are.equal("load F: neither model.safetensors nor model.safetensors.index.json is there",
      refusal(helper.tmp()))
  end)

  it("with pytorch_model.bin alone says the way on", function()
    local folder = helper.tmp()
    helper.write(folder .. "/pytorch_model.bin", "x")
    local why = refusal(folder)
    assert.matches("^load F: its weights are in pytorch_model.bin only, which is not read: ", why)
    assert.matches("save_pretrained", why)
  end)

  it("that is an adapter says the way on", function()
    local folder = single { entry("x", { 1 }, 1) }
    stored.write(folder .. "/adapter_model.safetensors", { entry("x", { 1 }, 1) })
    local why = refusal(folder)
    assert.matches("^load F: adapter_model.safetensors makes it an adapter, not a model: ", why)
    assert.matches("merge", why)
  end)

  it("with a shard missing names it", function()
    local folder = shards()
    os.remove(folder .. "/two.safetensors")
    assert.matches("F/two%.safetensors: No such file or directory", refusal(folder))
  end)

  it("whose shard lacks a tensor of the index names both", function()
    assert.are.equal('read F/model.safetensors.index.json: tensor "c" is not in two.safetensors',
      refusal(shards { a = "one.safetensors", b = "two.safetensors", c = "two.safetensors" }))
  end)

  it("whose shard has a tensor the index does not know, or puts elsewhere, names it", function()
    local folder = shards()
    stored.write(folder .. "/two.safetensors", { entry("b", { 1 }, 3), entry("z", { 1 }, 3) })
    assert.are.equal('read F/model.safetensors.index.json: tensor "z" is in two.safetensors, the index puts it nowhere',
      refusal(folder))
    stored.write(folder .. "/two.safetensors", { entry("a", { 1 }, 3), entry("b", { 1 }, 3) })
    assert.are.equal(
      'read F/model.safetensors.index.json: tensor "a" is in two.safetensors, the index puts it into one.safetensors',
      refusal(folder))
  end)

  it("whose index points out of it is refused", function()
    for _, name in ipairs { "../one.safetensors", "/one.safetensors", "sub/one.safetensors", "..", "one.bin", "" } do
      local why = refusal(shards { a = name, b = "two.safetensors" })
      assert.are.equal(('read F/model.safetensors.index.json: tensor "a": %q is not the name of a safetensors file '
        .. "in this folder"):format(name), why)
    end
  end)

  it("whose index is no index is refused", function()
    local folder = shards()
    helper.write(folder .. "/model.safetensors.index.json", "{}")
    assert.are.equal("read F/model.safetensors.index.json: weight_map is missing", refusal(folder))
    helper.write(folder .. "/model.safetensors.index.json", "{")
    assert.matches("^read F/model%.safetensors%.index%.json: .*line 1", refusal(folder))
    helper.write(folder .. "/model.safetensors.index.json", '{"weight_map": {"a": 7}}')
    assert.matches("weight_map is not a map from names to files$", refusal(folder))
  end)
end)
