-- The reader of safetensors files: what it takes, and what it says about each kind of damage.
local rp = require "reprise"
local core = require "reprise.core"
local helper = require "spec.helper"
local stored = require "spec.support.safetensors"

local function path() return helper.tmp() .. "/x.safetensors" end

local function entry(name, dtype, shape, data) return { name = name, dtype = dtype, shape = shape, data = data } end

-- What the reader says about `header` over `data`; F stands for the file.
local function complaint(header, data, length)
  local file = path()
  stored.write_raw(file, header, data or "", length)
  local ok, why = pcall(core.safetensors, file)
  assert.is_false(ok, "the file was accepted")
  return why:sub((assert(why:find("read " .. file, 1, true))) + #file + 7)
end

describe("a safetensors file", function()
  local packed = {
    entry("f32", "F32", { 2 }, string.pack("<ff", 1.5, -2)), entry("f16", "F16", { 1, 2 }, "\x00\x3c\x00\xc0"),
    entry("bf16", "BF16", { 2, 1 }, "\x80\x3f\x00\xc0"), entry("i64", "I64", {}, string.pack("<i8", -7)),
    entry("i32", "I32", { 1 }, string.pack("<i4", 5)), entry("u8", "U8", { 3 }, "\1\2\255"),
    entry("none", "U8", { 0, 4 }, ""),
  }

  it("lists its tensors by place, with type and shape", function()
    local file = path()
    stored.write(file, packed)
    local opened = core.safetensors(file)
    assert.are.same({ "f32", "f16", "bf16", "i64", "i32", "u8", "none" }, opened:names())
    assert.are.same({ dtype = "F16", shape = { 1, 2 }, bytes = 4 }, opened:info "f16")
    assert.are.same({ dtype = "I64", shape = {}, bytes = 8 }, opened:info "i64")
    assert.is_nil(opened:info "other")
    opened:close()
    opened:close()
    assert.has_error(function() opened:names() end)
    assert.matches("closed", tostring(opened))
  end)

  helper.each_device(function(name)
    it("gives tensors of every type that tensors have", function()
      local file, device = path(), rp.device(name)
      stored.write(file, packed)
      local opened <close> = core.safetensors(file)
      assert.are.same({ 1.5, -2 }, opened:tensor("f32", device):totable())
      assert.are.same({ { 1, -2 } }, opened:tensor("f16", device):totable())
      assert.are.same({ { 1 }, { -2 } }, opened:tensor("bf16", device):totable())
      assert.are.equal(-7, opened:tensor("i64", device):item())
      assert.are.same({ 5 }, opened:tensor("i32", device):totable())
      assert.are.same({ 1, 2, 255 }, opened:tensor("u8", device):totable())
      assert.are.same({ 0, 4 }, opened:tensor("none", device).shape)
      assert.are.equal("bf16", opened:tensor("bf16", device).dtype)
    end)

    it("names a tensor that it does not have", function()
      local file, device = path(), rp.device(name)
      stored.write(file, packed)
      local opened <close> = core.safetensors(file)
      local ok, why = pcall(opened.tensor, opened, "zzz", device)
      assert.is_false(ok)
      assert.matches('x%.safetensors: tensor "zzz": ', why)
    end)
  end)

  it("with no tensors is one", function()
    local file = path()
    stored.write_raw(file, "{}", "")
    assert.are.same({}, core.safetensors(file):names())
  end)

  it("may carry metadata", function()
    local file = path()
    stored.write_raw(file, '{"__metadata__": {"format": "pt"}, '
      .. '"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}', "x")
    assert.are.same({ "a" }, core.safetensors(file):names())
  end)

  it("is compared by bytes", function()
    local file = path()
    stored.write(file, { entry("a", "U8", { 2 }, "xy"), entry("b", "U8", { 1, 2 }, "xy"),
      entry("c", "U8", { 2 }, "xz"), entry("d", "U8", { 1 }, "x") })
    local opened <close> = core.safetensors(file)
    assert.is_true(opened:same("a", opened, "b"))
    assert.is_false(opened:same("a", opened, "c"))
    assert.is_false(opened:same("a", opened, "d"))
  end)
end)

describe("a damaged safetensors file", function()
  it("that is not there, or is a folder, is named", function()
    local folder = helper.tmp()
    local function why(path_of) return select(2, pcall(core.safetensors, path_of)) end
    assert.matches("open " .. folder .. "/no: No such file or directory", why(folder .. "/no"), 1, true)
    assert.matches("open " .. folder .. ": not a regular file", why(folder), 1, true)
  end)

  it("cut at any length is refused", function()
    local file, cut = path(), path()
    stored.write(file, { entry("a", "F32", { 2 }, ("f"):rep(2):pack(1, 2)), entry("b", "U8", { 1 }, "x") })
    local whole = helper.read(file)
    for length = 0, #whole - 1 do
      helper.write(cut, whole:sub(1, length))
      local ok, why = pcall(core.safetensors, cut)
      assert.is_false(ok)
      assert.matches("x%.safetensors: .*offset", why)
    end
  end)

  local function one(dtype, shape, from, to)
    return ('{"a": {"dtype": "%s", "shape": %s, "data_offsets": [%d, %d]}}'):format(dtype, shape, from, to)
  end
  local two = '{"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, '
    .. '"b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}'

  -- What it is; the complaint, where @n stands for the offset of byte n of the data; the header; the data; a length
  -- that is not the header's.
  local cases = {
    { "has a header that is too long for it",
      "offset 8: the header is 90 bytes long, but the file ends after 2 of them: cut short?", "{}", "", 90 },
    { "has a header over 100 MB",
      "offset 0: a header of 1000000000 bytes, at most 100000000 are allowed: not a safetensors file?",
      "{}", "", 1000000000 },
    { "has a length beyond all numbers",
      "offset 0: a header of 18446744073709551615 bytes, at most 100000000 are allowed: not a safetensors file?",
      "{}", "", -1 },
    { "is not JSON", "offset 9: the header is not JSON: string or '}' expected near end of file", "{" },
    { "is a list", "offset 8: the header is not a JSON object", "[]" },
    { "names a tensor twice", "offset 20: the header is not JSON: duplicate object key near '\"a\"'", '{"a": 1, "a": 1}' },
    { "has a dtype of no kind", 'tensor "a": unknown dtype "Q4"', one("Q4", "[1]", 0, 4), "1234" },
    { "has no dtype", 'tensor "a": dtype is missing or not a string', '{"a": {"shape": [1], "data_offsets": [0, 4]}}' },
    { "has a negative dimension", 'tensor "a": shape: dimension 2 is not a whole number from 0',
      one("U8", "[1, -1]", 0, 4), "1234" },
    { "has a broken dimension", 'tensor "a": shape: dimension 1 is not a whole number from 0',
      one("U8", "[1.5]", 0, 4), "1234" },
    { "has nine dimensions", 'tensor "a": shape: 9 dimensions, at most 8 are supported',
      one("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1), "1" },
    { "has a shape beyond all numbers", 'tensor "a": shape: the product of its dimensions is too large',
      one("F32", "[4611686018427387904, 4]", 0, 0) },
    { "has a shape of more bytes than there are numbers", 'tensor "a": shape: the product of its dimensions is too large',
      one("F32", "[4611686018427387905]", 0, 4), "1234" },
    { "has a shape unlike its bytes", 'tensor "a": offset @0: its shape of F32 needs 8 bytes, its data_offsets span 4',
      one("F32", "[2]", 0, 4), "1234" },
    { "ends before a tensor does",
      'tensor "a": data_offsets: offset @0 + 8 lies behind the end of the file, which has @4 bytes: cut short?',
      one("F32", "[2]", 0, 8), "1234" },
    { "has offsets in the wrong order", 'tensor "a": data_offsets end at @0, before their begin @4',
      one("F32", "[2]", 4, 0), "1234" },
    { "has a negative offset", 'tensor "a": data_offsets are not whole numbers from 0', one("U8", "[2]", -2, 0), "1234" },
    { "has one offset", 'tensor "a": data_offsets is not a list of two numbers',
      '{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0]}}', "1" },
    { "has overlapping tensors", 'tensor "b": begins at offset @1 and overlaps "a", which ends at @2', two, "123" },
    { "has a hole", 'tensor "a": begins at offset @1, after a hole of 1 bytes', one("U8", "[1]", 1, 2), "12" },
    { "has bytes behind the last tensor", "offset @1: 2 bytes behind the last tensor", one("U8", "[1]", 0, 1), "123" },
    { "has metadata that is no map of strings", '__metadata__: "a" is not a string', '{"__metadata__": {"a": 1}}' },
    { "has control characters in a name", 'tensor "?[2J": its entry is not a JSON object', '{"\\u001b[2J": 1}' },
  }
  for _, case in ipairs(cases) do
    it("that " .. case[1] .. " is refused, with the place", function()
      local start = 8 + #case[3]
      local wanted = case[2]:gsub("@(%d)", function(n) return tostring(start + math.tointeger(n)) end)
      assert.are.equal(wanted, complaint(case[3], case[4], case[5]))
    end)
  end

  it("is refused, or read, whatever one byte of its header is", function()
    local file = path()
    stored.write(file, { entry("a", "F32", { 2 }, ("f"):rep(2):pack(1, 2)), entry("b", "U8", { 1 }, "x") })
    local whole = helper.read(file)
    local random = 1
    for i = 1, #whole - 9 do
      random = (random * 1103515245 + 12345) % 2147483648
      helper.write(file, whole:sub(1, i - 1) .. string.char(random >> 16 & 255) .. whole:sub(i + 1))
      local ok, result = pcall(core.safetensors, file)
      if ok then result:close() else assert.matches("x%.safetensors: ", result) end
    end
  end)
end)
