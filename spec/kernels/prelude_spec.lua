--- The vocabulary of kernel files, used by kernels of one's own: the same words mean the same on every device.
local helper = require "spec.helper"
local rp = require "reprise"

local SOURCE = [[
#include "prelude.cuh"

KERNEL void put (void *y, const u8 *x, i32 n) { /* bytes, whatever they mean */
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < n; i += (i32)(BLOCKS * THREADS)) ((u8 *)y)[i] = x[i];
}

KERNEL void widen (float *y, const f16 *h, const bf16 *b, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD) * 8; i < n; i += (i32)(BLOCKS * THREADS) * 8) {
    store8(y + i, load8(h + i));
    store8(y + n + i, load8(b + i));
    for (i32 k = 0; k < 8; k++) {
      y[2 * n + i + k] = to_f32(h[i + k]);
      y[3 * n + i + k] = to_f32(b[i + k]);
    }
  }
}

KERNEL void narrow (f16 *h, bf16 *b, f16 *h1, bf16 *b1, const float *x, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD) * 8; i < n; i += (i32)(BLOCKS * THREADS) * 8) {
    store8(h + i, load8(x + i));
    store8(b + i, load8(x + i));
    for (i32 k = 0; k < 8; k++) {
      h1[i + k] = to_f16(x[i + k]);
      b1[i + k] = to_bf16(x[i + k]);
    }
  }
}

KERNEL void functions (float *y, const float *x, i32 n) {
  for (i32 i = (i32)(BLOCK * THREADS + THREAD) * 8; i < n; i += (i32)(BLOCKS * THREADS) * 8) {
    store8(y + i, exp8(load8(x + i)));
    store8(y + n + i, tanh8(load8(x + i)));
    store8(y + 2 * n + i, erf8(load8(x + i)));
  }
}

/* y: warp_sum, block_sum, warp_max, block_max of 1 .. n taken in steps of THREADS or LANES, sum8, most8, part8's sum */
KERNEL void sums (float *y, const float *x, i32 n) {
  float a = 0, b = 0, c = -INF, d = -INF;
  for (i32 i = (i32)LANE; i < n; i += LANES) { a += x[i]; c = x[i] > c ? x[i] : c; }
  for (i32 i = (i32)THREAD; i < n; i += (i32)THREADS) { b += x[i]; d = x[i] > d ? x[i] : d; }
  a = warp_sum(a); b = block_sum(b); c = warp_max(c); d = block_max(d);
  partial p = none();
  for (i32 k = (i32)LANE * 8; k < n / 8 * 8; k += LANES * 8) p = dot8(load8(x + k), splat8(1), p);
  float e = total(p);
  if (THREAD == 0 && BLOCK == 0) {
    y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e;
    y[5] = sum8(load8(x)); y[6] = most8(load8(x)); y[7] = sum8(part8(x, 3));
  }
}

/* each block marks its share; the block that arrives last adds all marks up */
KERNEL void shares (i32 *mark, i32 *sum, u32 *arrived, i32 n) {
  span mine = share(n);
  for (i32 i = mine.first + (i32)THREAD; i < mine.last; i += (i32)THREADS) mark[i] += i + 1;
  if (!last_block(arrived)) return;
  float all = 0;
  for (i32 i = (i32)THREAD; i < n; i += (i32)THREADS) all += (float)mark[i];
  all = block_sum(all);
  if (THREAD == 0) *sum = (i32)all;
}
]]

helper.each_device(function(name)
  local dev, compiled
  setup(function() dev = rp.device(name) end)

  -- Its kernels by name; compiled by the first test that asks for one, pending where that cannot be.
  local prog = setmetatable({}, { __index = function(_, kernel)
    if not compiled then helper.needs_compiler(name) end
    compiled = compiled or rp.compile { source = SOURCE, name = "prelude_spec.cu", device = dev }
    return compiled[kernel]
  end })

  -- All 65,536 patterns of 16 bits, as a tensor of a dtype.
  local function patterns(dtype)
    local bytes = {}
    for i = 0, 65535 do
      bytes[2 * i + 1], bytes[2 * i + 2] = i & 255, i >> 8
    end
    local x = rp.empty({ 65536 }, dtype, dev)
    prog.put { grid = 8, block = 128, x, rp.tensor(bytes, "u8", dev), 131072 }
    return x
  end

  local function half(i)
    local sign, e, m = i >> 15 == 1 and -1 or 1, i >> 10 & 31, i & 1023
    if e == 31 then return m == 0 and sign * math.huge or 0 / 0 end
    return sign * (e == 0 and m * 2.0 ^ -24 or (1024 + m) * 2.0 ^ (e - 25))
  end

  local function same(a, b) return a == b or (a ~= a and b ~= b) end

  it("widens every f16 and every bf16 exactly", function()
    local y = rp.empty({ 4, 65536 }, "f32", dev)
    prog.widen { grid = 4, block = 128, y, patterns "f16", patterns "bf16", 65536 }
    local rows = y:totable()
    for i = 0, 65535 do
      local brain = string.unpack("<f", string.pack("<I4", i << 16))
      assert(same(rows[1][i + 1], half(i)) and same(rows[3][i + 1], half(i)), "f16 " .. i)
      assert(same(rows[2][i + 1], brain) and same(rows[4][i + 1], brain), "bf16 " .. i)
    end
  end)

  it("rounds to the nearest f16 and bf16, ties to even, and saturates f16 at 65504", function()
    local list, want_half, want_brain = {}, {}, {}
    local function add(x, h, b)
      local i = #list + 1
      list[i], want_half[i], want_brain[i] = x, h, b or false
    end
    for i = 1, 31742, 7 do -- between neighbours: below, at and above the middle
      local low, high = half(i), half(i + 1)
      local middle = (low + high) / 2
      add(middle, i % 2 == 0 and low or high)
      add(middle - (high - low) / 16, low)
      add(-(middle + (high - low) / 16), -high)
    end
    for _, x in ipairs { 65504, 65519, 65520, 1e6, math.huge } do
      add(x, 65504)
      add(-x, -65504)
    end
    add(2.0 ^ -25, 0)
    add(2.0 ^ -25 * 1.5, 2.0 ^ -24)
    add(1 + 2.0 ^ -8, 1 + 2.0 ^ -8, 1.0)
    add(1 + 3 * 2.0 ^ -8, 1 + 3 * 2.0 ^ -8, 1 + 2.0 ^ -6)
    add(0 / 0, 0 / 0, 0 / 0)
    while #list % 8 > 0 do add(0, 0) end
    local n = #list
    local x = rp.tensor(list, "f32", dev)
    local h, h1, b, b1 = rp.empty(n, "f16", dev), rp.empty(n, "f16", dev), rp.empty(n, "bf16", dev), rp.empty(n, "bf16", dev)
    prog.narrow { grid = 3, block = 64, h, b, h1, b1, x, n }
    h, b, h1, b1 = h:totable(), b:totable(), h1:totable(), b1:totable()
    for i = 1, n do
      assert(same(h[i], want_half[i]), ("%.9g becomes %.9g, not %.9g"):format(list[i], h[i], want_half[i]))
      assert(same(h1[i], h[i]) and same(b1[i], b[i]), "one at a time differs from a pack")
      if want_brain[i] then assert(same(b[i], want_brain[i]), ("%.9g becomes %.9g"):format(list[i], b[i])) end
    end
  end)

  it("computes exp, tanh and erf within 4e-7 of the value", function()
    local list = {}
    for i = 0, 7999 do list[i + 1] = (i - 4000) / 4000 * (i % 2 == 0 and 20 or 1.5) end
    local x = rp.tensor(list, "f32", dev)
    local y = rp.empty({ 3, #list }, "f32", dev)
    prog.functions { grid = 2, block = 96, y, x, #list }
    local rows = y:totable()
    for i, v in ipairs(x:totable()) do
      local e, t = math.exp(v), v == 0 and 0 or (math.exp(2 * v) - 1) / (math.exp(2 * v) + 1)
      if math.abs(v) < 1e-2 then t = v - v ^ 3 / 3 + 2 * v ^ 5 / 15 end
      assert(math.abs(rows[1][i] - e) <= 4e-7 * e, "exp " .. v)
      assert(math.abs(rows[2][i] - t) <= 4e-7 * math.abs(t), "tanh " .. v)
      assert(math.abs(rows[3][i]) <= 1 and rows[3][i] * v >= 0, "erf " .. v)
    end
  end)

  it("knows the ends of exp and tanh", function()
    local x = rp.tensor({ -math.huge, math.huge, 0 / 0, 0, -90, 89, -1e30, 1e30 }, "f32", dev)
    local y = rp.empty({ 3, 8 }, "f32", dev)
    prog.functions { y, x, 8 }
    local e, t = y:totable()[1], y:totable()[2]
    assert.is_true(e[1] == 0 and e[2] == math.huge and e[3] ~= e[3] and e[4] == 1 and e[6] == math.huge)
    assert.is_true(e[5] < 1e-38 and e[7] == 0 and e[8] == math.huge)
    assert.is_true(t[1] == -1 and t[2] == 1 and t[3] ~= t[3] and t[4] == 0 and t[7] == -1 and t[8] == 1)
  end)

  it("sums and finds the largest over warps and blocks of any size", function()
    local n, list = 1000, {}
    for i = 1, n do list[i] = i end
    local x, y = rp.tensor(list, "f32", dev), rp.empty(8, "f32", dev)
    for _, block in ipairs { 32, 64, 96, 256, 1024 } do
      prog.sums { grid = 2, block = block, y, x, n }
      assert.same({ 500500, 500500, 1000, 1000, 500500, 36, 8, 6 }, y:totable())
    end
  end)

  it("gives every element to one block, and lets the last block see them all", function()
    local arrived = rp.zeros(1, "i32", dev)
    for _, n in ipairs { 1, 5, 1000 } do
      for _, grid in ipairs { 1, 2, 7, 64 } do
        local mark, sum = rp.zeros(n, "i32", dev), rp.zeros(1, "i32", dev)
        prog.shares { grid = grid, block = 64, mark, sum, arrived, n }
        assert.equal(n * (n + 1) // 2, sum[1])
        assert.equal(0, arrived[1])
      end
    end
  end)
end)
