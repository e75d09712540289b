--- T5's layers against a layer in plain Lua and double precision, captured and eager.
local helper = require "spec.helper"
local reference = require "spec.kernels.reference"
local rp = require "reprise"

local WIDTH, HEADS, SIZE, HIDDEN, REACH, EPSILON = 24, 3, 5, 20, 4, 1e-6
local INNER = HEADS * SIZE
local BOUND = 2e-5 -- for values of about 1 to 10

helper.each_device(function(name)
  local dev, nn, random
  setup(function() dev, nn = rp.device(name), rp.nn end)
  before_each(function() random = reference.random(29) end)

  -- Weights as tensors and, under the same names, as lists.
  local function weights(shapes, dtype)
    local tensors, lists = {}, {}
    for field, shape in pairs(shapes) do
      tensors[field], lists[field] = reference.tensor(random, shape, field == "norm" and "f32" or dtype, dev, 0.4)
    end
    return tensors, lists
  end

  local ATTENTION = {
    norm = { WIDTH }, q = { INNER, WIDTH }, k = { INNER, WIDTH }, v = { INNER, WIDTH }, o = { WIDTH, INNER },
  }

  local function feed_forward(gated)
    return { norm = { WIDTH }, wi = { HIDDEN, WIDTH }, gate = gated and { HIDDEN, WIDTH } or nil, wo = { WIDTH, HIDDEN } }
  end

  local function add(x, y)
    local z = {}
    for i = 1, #x do z[i] = x[i] + y[i] end
    return z
  end

  local function normed(x, w, rows) return reference.norm(x, w.norm, rows, WIDTH, EPSILON) end
  local function product(x, w, rows, n, m) return (reference.product(x, w, rows, n, m)) end

  local function plain_feed_forward(x, w, rows, activation)
    local h = normed(x, w, rows)
    local a = product(h, w.wi, rows, WIDTH, HIDDEN)
    local b = w.gate and product(h, w.gate, rows, WIDTH, HIDDEN)
    for i = 1, #a do a[i] = reference.activation[activation](a[i]) * (b and b[i] or 1) end
    return add(x, product(a, w.wo, rows, HIDDEN, WIDTH))
  end

  -- Attention of queries x [rows] over keys and values of y [count]; bias(head, query, key) or nil; visible(query).
  local function plain_attention(x, y, w, rows, count, bias, visible)
    local q = product(normed(x, w, rows), w.q, rows, WIDTH, INNER)
    local k, v = product(y, w.k, count, WIDTH, INNER), product(y, w.v, count, WIDTH, INNER)
    local out = {}
    for r = 0, rows - 1 do
      for h = 0, HEADS - 1 do
        local seen = bias and function(key) return bias(h, r, key) end
        local one = reference.attend(q, r * INNER + h * SIZE, k, v, h * SIZE, INNER, SIZE, visible(r), seen)
        table.move(one, 1, SIZE, r * INNER + h * SIZE + 1, out)
      end
    end
    return add(x, product(out, w.o, rows, INNER, WIDTH))
  end

  local function bias_table()
    local tensor, list = reference.tensor(random, { 2 * REACH + 1, HEADS }, "f32", dev)
    return tensor, function(head, query, key)
      return list[(REACH + math.max(-REACH, math.min(REACH, key - query))) * HEADS + head + 1]
    end
  end

  for _, kind in ipairs { { "relu", false, "f32" }, { "gelu_new", true, "f16" }, { "silu", true, "bf16" } } do
    local activation, gated, dtype = table.unpack(kind)

    it(("runs an encoder layer: %s, %s, %s"):format(activation, gated and "gated" or "plain", dtype), function()
      local room = 9
      local self, self_list = weights(ATTENTION, dtype)
      local ff, ff_list = weights(feed_forward(gated), dtype)
      local bias, bias_at = bias_table()
      local x, xs = reference.tensor(random, { 1, room, WIDTH }, "f32", dev)
      local stack = {
        heads = HEADS, epsilon = EPSILON, activation = activation, bias = bias, lengths = rp.tensor({ room }, "i32", dev),
      }
      local y = nn.encoder_layer(x, { self = self, ff = ff }, stack)
      local want = plain_attention(xs, normed(xs, self_list, room), self_list, room, room, bias_at, function() return room end)
      want = plain_feed_forward(want, ff_list, room, activation)
      assert.is_nil(reference.difference(reference.flat(y), want, BOUND))
    end)

    it(("runs steps of a decoder layer: %s, %s, %s"):format(activation, gated and "gated" or "plain", dtype), function()
      local steps, source = 7, 6
      local self, self_list = weights(ATTENTION, dtype)
      local cross, cross_list = weights(ATTENTION, dtype)
      local ff, ff_list = weights(feed_forward(gated), dtype)
      local bias, bias_at = bias_table()
      local hidden, hiddens = reference.tensor(random, { 1, source, WIDTH }, "f32", dev)
      local xs, list = reference.tensor(random, { steps, WIDTH }, "f32", dev)

      local want = plain_attention(list, normed(list, self_list, steps), self_list, steps, steps, bias_at,
        function(r) return r + 1 end)
      want = plain_attention(want, hiddens, cross_list, steps, source, nil, function() return source end)
      want = plain_feed_forward(want, ff_list, steps, activation)

      local position = rp.zeros(1, "i32", dev)
      local stack = {
        heads = HEADS, epsilon = EPSILON, activation = activation, bias = bias, position = position,
        lengths = rp.tensor({ source }, "i32", dev),
      }
      local caches = { keys = rp.zeros({ 1, steps, INNER }, "f32", dev), values = rp.zeros({ 1, steps, INNER }, "f32", dev) }
      caches.cross_keys, caches.cross_values = nn.cross_caches(hidden, cross)
      local function layer(x) return nn.decoder_layer(x, { self = self, cross = cross, ff = ff }, stack, caches) end
      local step = rp.capture(layer)
      for i = 1, steps do
        position:fill(i - 1)
        local x = xs:slice(1, i, i)
        local eager = layer(x)
        local replayed = step(x)
        assert.is_true(replayed:equal(eager))
        local expected = { table.unpack(want, (i - 1) * WIDTH + 1, i * WIDTH) }
        assert.is_nil(reference.difference(reference.flat(replayed), expected, BOUND))
      end
      assert.equal(8, step:graphs()[1].nodes)
    end)
  end

  it("makes logits of the norm of x, scaled", function()
    local x, xs = reference.tensor(random, { 2, WIDTH }, "f32", dev)
    local norm, norms = reference.tensor(random, { WIDTH }, "f32", dev)
    local head, heads = reference.tensor(random, { 11, WIDTH }, "f16", dev)
    local want = product(reference.norm(xs, norms, 2, WIDTH, EPSILON), heads, 2, WIDTH, 11)
    for i = 1, #want do want[i] = want[i] * 0.25 end
    assert.is_nil(reference.difference(reference.flat(nn.logits(x, norm, head, EPSILON, 0.25)), want, BOUND))
  end)
end)
