-- growing.lua - decoding as it is first written: caches grow by concatenation, so every length has shapes, and a
-- graph, of its own. It makes the tokens that `generate` makes with one graph, for comparing what graphs cost.
--
--   shared   the captured function takes the newest tokens and, a layer, keys, values, cross keys, cross values. Inputs
--            of all graphs lie in the same slots, copied there when their bytes changed; outputs are the next caches
--   own      each graph has static inputs of its own, which are all copied to before each replay
--
-- One row is greedy; more rows are the beams of one search, whose caches change rows as they grow (kernels/grow.cu).

local choice = require "reprise.choice"
local core = require "reprise.core"
local launch = require "reprise.launch"
local nn = require "reprise.nn"
local ops = require "reprise.ops"
local rp = require "reprise"
local search = require "reprise.search"

local m = {}

---@class reprise.Growing
---@field model reprise.T5
---@field rows integer
---@field new integer tokens a row
---@field copied integer bytes copied to inputs
---@field skipped integer bytes of inputs that were in place already
local Growing = {}
Growing.__index = Growing

-- ---- the step

local KV = { f32 = "float", f16 = "f16" }

-- Keys and values with room for one position more; rows go on from their parents.
local function grow(self, keys, values)
  local rows, count, inner = table.unpack(keys.shape)
  local device = keys.device
  local function longer() return core.empty({ rows, count + 1, inner }, keys.dtype, device) end
  local new_keys, new_values = longer(), longer()
  launch.kernel(device, "grow.cu", "grow", "KV", KV[keys.dtype]) {
    grid = launch.grid(device, rows * math.max(count, 1)), block = launch.is_gpu(device) and 64 or launch.ALONE,
    new_keys, new_values, keys, values, self.parents or false, rows, count, inner, self.new,
  }
  return new_keys, new_values
end

local function choose(self, logits)
  if self.rows == 1 then return choice.advance(logits, self.state) end
  local offers = search.offers(self.state, self.model.config.vocab)
  search.candidates(self.state, offers, logits)
  search.search(self.state, offers)
end

-- inputs: the newest tokens, then keys, values, cross keys and cross values of each layer. Returns keys and values.
local function forward(self, inputs)
  local model, c, out = self.model, self.model.config, {}
  local stack = {
    heads = c.heads, epsilon = c.epsilon, activation = c.activation, bias = model.decoder.bias, lengths = self.lengths,
    position = self.state.position,
  }
  local x = ops.embed(model.decoder.embedding, inputs[1])
  for i, layer in ipairs(model.decoder.layers) do
    local keys, values = grow(self, inputs[4 * i - 2], inputs[4 * i - 1])
    local caches = { keys = keys, values = values, cross_keys = inputs[4 * i], cross_values = inputs[4 * i + 1] }
    x = nn.decoder_layer(x, layer, stack, caches)
    out[2 * i - 1], out[2 * i] = keys, values
  end
  choose(self, nn.logits(x, model.decoder.norm, model.head, c.epsilon, c.scale and c.width ^ -0.5 or 1.0))
  return table.unpack(out)
end

-- ---- inputs

-- What a step reads, from the caches that the step before gave back.
local function inputs_of(self, caches)
  local inputs = { self.state.token }
  for i, cross in ipairs(self.cross) do
    inputs[4 * i - 2], inputs[4 * i - 1] = caches[2 * i - 1], caches[2 * i]
    inputs[4 * i], inputs[4 * i + 1] = cross.cross_keys, cross.cross_values
  end
  return inputs
end

-- Slots as large as the last step needs them.
local function reserve_of(self, element)
  local c, reserve = self.model.config, {}
  for i = 1, #self.cross do
    local bytes = self.rows * (self.new - 1) * c.inner * element
    reserve[4 * i - 2], reserve[4 * i - 1] = bytes, bytes
  end
  return reserve
end

local function shared_step(self, element)
  local step = rp.capture(function(...) return forward(self, { ... }) end, {
    name = "growing", device = self.model.device, max_graphs = self.new, reserve = reserve_of(self, element),
  })
  self.captured = { step }
  return function(inputs) return step(table.unpack(inputs)) end
end

-- A graph for these shapes, with static inputs like these.
local function own_graph(self, inputs)
  local static = {}
  for i, x in ipairs(inputs) do static[i] = rp.empty(x.shape, x.dtype, self.model.device) end
  local step = rp.capture(function() return forward(self, static) end, { name = "growing", device = self.model.device })
  table.insert(self.captured, step)
  return function(now)
    for i, x in ipairs(now) do
      static[i]:copy(x)
      self.copied = self.copied + x.bytes
    end
    return step()
  end
end

local function own_step(self)
  local graphs = {}
  self.captured = {}
  return function(inputs)
    local count = inputs[2].shape[2]
    graphs[count] = graphs[count] or own_graph(self, inputs)
    return graphs[count](inputs)
  end
end

-- ---- a decoding

local function encode(self, ids)
  local model, c = self.model, self.model.config
  self.lengths, self.layers, self.cross = rp.zeros({ 1 }, "i32", model.device), {}, {}
  local function cache() return rp.empty({ 1, #ids, c.inner }, model.kv, model.device) end
  for i = 1, c.layers.decoder do self.cross[i] = { cross_keys = cache(), cross_values = cache() } end
  rp.scope(function()
    local hidden, lengths = model:hidden({ ids }, #ids)
    model:cross(hidden, lengths, { lengths = self.lengths, layers = self.cross })
  end)
end

local function state_of(self)
  local device = self.model.device
  if self.rows == 1 then return choice.state(device, { rows = 1, room = self.new + 1 }) end
  local state = search.state(1, self.rows, self.new, 0, device)
  self.parents = state.parents
  return state
end

--- A decoding of one source into rows of `new` tokens, whatever they are: no token ends a row.
---@param model reprise.T5
---@param ids integer[]
---@param how { rows: integer, new: integer, own: boolean? }
---@return reprise.Growing
function m.open(model, ids, how)
  local self = setmetatable({ model = model, rows = how.rows, new = how.new, copied = 0, skipped = 0 }, Growing)
  encode(self, ids)
  self.state = state_of(self)
  self.first = rp.empty({ self.rows, 0, model.config.inner }, model.kv, model.device)
  self.step = how.own and own_step(self) or shared_step(self, model.kv == "f16" and 2 or 4)
  return self
end

local function begin(self)
  local prompts = { { self.model.config.start } }
  if self.rows == 1 then choice.begin(self.state, { prompts = prompts, longest = self.new + 1 })
  else search.begin(self.state, { prompts = prompts, max_new = self.new }) end
end

--- Decodes from the start. Nothing is waited for but the end.
---@return number seconds
function Growing:run()
  local begun, caches, before = core.clock(), {}, self.model.device.pool:figures()
  begin(self)
  for i = 1, 2 * #self.cross do caches[i] = self.first end
  for _ = 1, self.new do caches = { self.step(inputs_of(self, caches)) } end
  self.model.device:synchronize()
  local seconds, after = core.clock() - begun, self.model.device.pool:figures()
  self.copied = self.copied + after.copied - before.copied
  self.skipped = self.skipped + after.skipped - before.skipped
  return seconds
end

--- The tokens of the best row.
---@return integer[]
function Growing:tokens()
  if self.rows > 1 then return search.collect(self.state, 1, 1)[1][1].ids end
  return self.state.history:slice(2, 2, self.new + 1):totable()[1]
end

--- Its graphs.
---@return reprise.Graph[]
function Growing:graphs()
  local list = {}
  for _, step in ipairs(self.captured) do
    for _, graph in ipairs(step:graphs()) do list[#list + 1] = graph end
  end
  return list
end

return m
