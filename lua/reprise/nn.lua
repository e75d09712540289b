-- nn.lua - T5's layers, made of ops: a function a layer, on plain tables of weight tensors.
--
-- A layer's weights are named as T5 names them; `norm` weights are f32, all others as they are stored:
--
--   attention     { norm, q, k, v, o }            q, k, v {inner, width}, o {width, inner}
--   feed-forward  { norm, wi, gate?, wo }         wi (and gate) {hidden, width}, wo {width, hidden}
--
-- `c` holds what all layers of a stack share: heads, epsilon, activation, bias (see ops.lua), lengths of sources.
-- An encoder layer is 5 launches, a decoder layer 8; nothing but the caches is changed.

local ops = require "reprise.ops"

local m = {}

---@class reprise.AttentionWeights
---@field norm reprise.Tensor f32 {width}
---@field q reprise.Tensor {inner, width}
---@field k reprise.Tensor {inner, width}
---@field v reprise.Tensor {inner, width}
---@field o reprise.Tensor {width, inner}

---@class reprise.FeedForwardWeights
---@field norm reprise.Tensor f32 {width}
---@field wi reprise.Tensor {hidden, width}
---@field gate reprise.Tensor? {hidden, width}
---@field wo reprise.Tensor {width, hidden}

---@class reprise.Stack what the layers of an encoder or decoder share
---@field heads integer
---@field epsilon number
---@field activation string relu, gelu, gelu_new or silu
---@field bias reprise.Tensor f32 {2 * reach + 1, heads}
---@field lengths reprise.Tensor i32 {sources}
---@field position reprise.Tensor? i32 {1}, of a decoder
---@field origin reprise.Tensor? u8 {rows, room}, of a decoder whose rows are beams: see ops.attend_self
---@field beams integer? with origin

---@class reprise.Caches of one decoder layer, f32 or f16
---@field keys reprise.Tensor {rows, room, inner}
---@field values reprise.Tensor {rows, room, inner}
---@field cross_keys reprise.Tensor {sources, source room, inner}
---@field cross_values reprise.Tensor {sources, source room, inner}

--- x + FF(norm(x)), FF(h) = act(h wi^T) wo^T, or (act(h wi^T) * (h gate^T)) wo^T.
---@param x reprise.Tensor f32 {..., width}
---@param w reprise.FeedForwardWeights
---@param c reprise.Stack
---@return reprise.Tensor
function m.feed_forward(x, w, c)
  local options = { norm = w.norm, epsilon = c.epsilon, activation = c.activation }
  local h = w.gate and ops.gated(x, w.wi, w.gate, options) or ops.linear(x, w.wi, options)
  return ops.linear(h, w.wo, { residual = x })
end

local function normed(x, matrices, w, c) return ops.linear(x, matrices, { norm = w.norm, epsilon = c.epsilon }) end

--- One layer of an encoder.
---@param x reprise.Tensor f32 {sources, room, width}
---@param layer { self: reprise.AttentionWeights, ff: reprise.FeedForwardWeights }
---@param c reprise.Stack
---@return reprise.Tensor
function m.encoder_layer(x, layer, c)
  local w = layer.self
  local y = ops.attend_all(normed(x, { w.q, w.k, w.v }, w, c), c.lengths, c.heads, c.bias)
  return m.feed_forward(ops.linear(y, w.o, { residual = x }), layer.ff, c)
end

--- Keys and values of an encoder's output for one decoder layer's cross-attention; f32.
---@param hidden reprise.Tensor f32 {sources, room, width}
---@param w reprise.AttentionWeights
---@return reprise.Tensor keys {sources, room, inner}
---@return reprise.Tensor values
function m.cross_caches(hidden, w) return ops.linear(hidden, w.k), ops.linear(hidden, w.v) end

--- One step of one layer of a decoder: a token a row, the token at c.position.
---@param x reprise.Tensor f32 {rows, width}
---@param layer { self: reprise.AttentionWeights, cross: reprise.AttentionWeights, ff: reprise.FeedForwardWeights }
---@param c reprise.Stack
---@param caches reprise.Caches
---@return reprise.Tensor
function m.decoder_layer(x, layer, c, caches)
  local w, cross = layer.self, layer.cross
  local y = ops.attend_self(normed(x, { w.q, w.k, w.v }, w, c), caches.keys, caches.values, c.position, c.heads, c.bias,
    c.origin, c.beams)
  x = ops.linear(y, w.o, { residual = x })
  y = ops.attend_cross(normed(x, cross.q, cross, c), caches.cross_keys, caches.cross_values, c.lengths, c.heads)
  return m.feed_forward(ops.linear(y, cross.o, { residual = x }), layer.ff, c)
end

--- Logits: scale * norm(x) head^T.
---@param x reprise.Tensor f32 {..., width}
---@param norm reprise.Tensor f32 {width}
---@param head reprise.Tensor {vocab, width} f32, f16 or bf16
---@param epsilon number
---@param scale number
---@return reprise.Tensor f32 {..., vocab}
function m.logits(x, norm, head, epsilon, scale)
  return ops.linear(x, head, { norm = norm, epsilon = epsilon, scale = scale })
end

return m
