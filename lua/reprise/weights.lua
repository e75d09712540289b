-- weights.lua - a folder of weights as published: its files, the tensors in them, and a tensor on a device.
--
-- Knows the layout of folders (one safetensors file, or an index and its shards), nothing of models. Equal
-- matrices are stored once. Weights of another kind are refused in one sentence that says the way on.

local core = require "reprise.core"
local raise = require "reprise.raise"

local m = {}

local MISSING = 2 -- ENOENT
local SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"

---@class reprise.Weights
---@field folder string
---@field private places table<string, reprise.Safetensors> file of each tensor, by name
---@field private loaded table[] matrices already on the device
local Weights = {}
Weights.__index = Weights

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

--- The value of a JSON file; nil where there is no such file and it is `optional`. Raises otherwise.
---@param path string
---@param optional boolean?
---@return any
function m.json(path, optional)
  local file, why, code = io.open(path, "rb")
  if not file and optional and code == MISSING then return nil end
  if not file then raise("open %s", why) end
  local text, fault = file:read("a")
  file:close()
  if not text then raise("read %s: %s", path, fault) end
  local value = core.json_decode(text, path)
  if type(value) ~= "table" then raise("read %s: a JSON object is expected", path) end
  return value
end

-- Why a folder without model.safetensors cannot be loaded, and the way on.
local function other_kind(folder)
  for _, name in ipairs { "pytorch_model.bin", "pytorch_model.bin.index.json" } do
    if exists(folder .. "/" .. name) then
      return "its weights are in pytorch_model.bin only, which is not read: load it in transformers and save it with "
        .. "save_pretrained(folder), which writes safetensors"
    end
  end
  return ("neither %s nor %s is there"):format(SINGLE, INDEX)
end

-- An adapter is a change to some other folder's weights.
local function check_adapter(folder)
  for _, name in ipairs { "adapter_model.safetensors", "adapter_model.bin", "adapter_config.json" } do
    if exists(folder .. "/" .. name) then
      raise("load %s: %s makes it an adapter, not a model: merge it into its base model first (merge_and_unload, "
        .. "then save_pretrained)", folder, name)
    end
  end
end

local function add(places, file)
  for _, name in ipairs(file:names()) do places[name] = file end
  return places
end

-- The shards' names come from a file of a stranger: plain names in the same folder only.
local function check_map(path, map)
  if type(map) ~= "table" then raise("read %s: weight_map is missing", path) end
  for tensor, name in pairs(map) do
    if type(tensor) ~= "string" or type(name) ~= "string" then
      raise("read %s: weight_map is not a map from names to files", path)
    end
    if name:find("[/\\%z]") or not name:find("%.safetensors$") or name:sub(1, 1) == "." then
      raise("read %s: tensor %q: %q is not the name of a safetensors file in this folder", path, tensor, name)
    end
  end
end

local function open_shards(folder)
  local path = folder .. "/" .. INDEX
  local map = m.json(path).weight_map
  check_map(path, map)
  local shards, places = {}, {}
  for _, name in pairs(map) do shards[name] = shards[name] or core.safetensors(folder .. "/" .. name) end
  for name, file in pairs(shards) do
    for _, tensor in ipairs(file:names()) do
      if map[tensor] ~= name then
        raise("read %s: tensor %q is in %s, the index puts it %s",
          path, tensor, name, map[tensor] and "into " .. map[tensor] or "nowhere")
      end
    end
    add(places, file)
  end
  for tensor, name in pairs(map) do
    if not places[tensor] then raise("read %s: tensor %q is not in %s", path, tensor, name) end
  end
  return places
end

--- Opens the weights of a folder; checks all files whole, reads no tensor yet.
---@param folder string
---@return reprise.Weights
function m.open(folder)
  check_adapter(folder)
  local places
  if exists(folder .. "/" .. SINGLE) then
    places = add({}, core.safetensors(folder .. "/" .. SINGLE))
  elseif exists(folder .. "/" .. INDEX) then
    places = open_shards(folder)
  else
    raise("load %s: %s", folder, other_kind(folder))
  end
  return setmetatable({ folder = folder, places = places, loaded = {} }, Weights)
end

--- Is there a tensor of this name?
---@param name string
---@return boolean
function Weights:has(name) return self.places[name] ~= nil end

--- The type of the largest tensor, which is that of the matrices; nil of none.
---@return reprise.Dtype?
function Weights:dtype()
  local most, dtype = 0, nil
  for name, file in pairs(self.places) do
    local info, elements = file:info(name), 1
    for _, n in ipairs(info.shape) do elements = elements * n end
    if elements > most then most, dtype = elements, info.dtype end
  end
  return dtype and dtype:lower() -- safetensors writes F16
end

local function text_of(shape) return "{" .. table.concat(shape, ", ") .. "}" end

-- A matrix already on the device with the same bytes, or nil.
local function twin(self, file, name, info)
  for _, other in ipairs(self.loaded) do
    local alike = other.dtype == info.dtype and other.shape == text_of(info.shape)
    if alike and file:same(name, other.file, other.name) then return other.tensor end
  end
end

local function check_shape(self, name, info, shape)
  local equal = #shape == #info.shape
  for i, n in ipairs(shape) do equal = equal and info.shape[i] == n end
  if not equal then
    raise("load %s: tensor %q has the shape %s, config.json asks for %s",
      self.folder, name, text_of(info.shape), text_of(shape))
  end
end

--- The tensor of a name on a device, as stored. Raises when it is missing or its shape differs.
---@param name string
---@param shape integer[]
---@param device reprise.Device
---@return reprise.Tensor
function Weights:take(name, shape, device)
  local file = self.places[name]
  if not file then raise("load %s: tensor %q is missing", self.folder, name) end
  local info = file:info(name)
  check_shape(self, name, info, shape)
  local tensor = #shape > 1 and twin(self, file, name, info)
  if tensor then return tensor end
  tensor = file:tensor(name, device)
  if #shape > 1 then
    self.loaded[#self.loaded + 1] =
      { tensor = tensor, file = file, name = name, dtype = info.dtype, shape = text_of(info.shape) }
  end
  return tensor
end

--- Unmaps the files; tensors taken stay.
function Weights:close()
  for _, file in pairs(self.places) do file:close() end
end

return m
