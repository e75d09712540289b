-- Kernels as CUDA users write them, by CUDA's own rules, on every device: each against plain Lua.
local rp = require "reprise"
local helper = require "spec.helper"

-- Whole numbers below 2^24 add up the same in any order, so results are compared with ==.
local function integers(n, modulus)
  local list = {}
  for i = 1, n do list[i] = (i * 7919 + i // 5) % modulus end
  return list
end

local function map(list, fn)
  local out = {}
  for i, v in ipairs(list) do out[i] = fn(v, i) end
  return out
end

helper.each_device(function(device)
  local function compile(source, define)
    helper.needs_compiler(device)
    local ok, prog = pcall(rp.compile, { source = source, define = define, device = device, name = "style.cu" })
    if not ok and tostring(prog):find("cuda_fp16.h was found in none of", 1, true) then
      helper.pending "CUDA's headers are not here: NVRTC has no cuda_fp16.h of its own"
    end
    return ok and prog or error(prog)
  end
  local function tensor(list, dtype) return rp.tensor(list, dtype or "f32", device) end
  local function zeros(shape, dtype) return rp.zeros(type(shape) == "table" and shape or { shape }, dtype or "f32", device) end

  describe("a kernel in CUDA's style", function()
    it("scales and adds, with a grid that covers more than there is", function()
      local prog = compile [[
        __global__ void saxpy(float *__restrict__ y, const float *__restrict__ x, float a, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] = a * x[i] + y[i];
        }]]
      local n = 1001
      local x, y = integers(n, 100), integers(n, 37)
      local to = tensor(y)
      prog.saxpy { grid = 8, block = 128, to, tensor(x), 3, n }
      assert.same(map(x, function(v, i) return 3.0 * v + y[i] end), to:totable())
    end)

    it("walks with the stride of the grid", function()
      local prog = compile [[
        __global__ void square(float *y, const float *x, int n) {
          for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * x[i];
        }]]
      local x = integers(777, 50)
      local y = zeros(#x)
      prog.square { grid = 3, block = 32, y, tensor(x), #x }
      assert.same(map(x, function(v) return v * v + 0.0 end), y:totable())
    end)

    it("transposes by tiles in shared memory", function()
      local prog = compile [[
        #define TILE 16
        __global__ void transpose(float *y, const float *x, int rows, int columns) {
          __shared__ float tile[TILE][TILE + 1];
          int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
          if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
          __syncthreads();
          column = blockIdx.y * TILE + threadIdx.x, row = blockIdx.x * TILE + threadIdx.y;
          if (row < columns && column < rows) y[row * rows + column] = tile[threadIdx.x][threadIdx.y];
        }]]
      local rows, columns = 50, 35
      local x, expected = integers(rows * columns, 1000), {}
      for r = 0, rows - 1 do
        for c = 0, columns - 1 do expected[c * rows + r + 1] = x[r * columns + c + 1] + 0.0 end
      end
      local y = zeros(rows * columns)
      prog.transpose { grid = { 3, 4 }, block = { 16, 16 }, y, tensor(x), rows, columns }
      assert.same(expected, y:totable())
    end)

    it("reduces a block by halves", function()
      local prog = compile [[
        __global__ void block_sums(float *sums, const float *x, int n) {
          __shared__ float part[256];
          unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
          part[t] = i < n ? x[i] : 0.0f;
          __syncthreads();
          for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
            if (t < s) part[t] += part[t + s];
            __syncthreads();
          }
          if (t == 0) sums[blockIdx.x] = part[0];
        }]]
      local x = integers(1500, 100)
      local sums, expected = zeros(6), { 0, 0, 0, 0, 0, 0 }
      for i, v in ipairs(x) do expected[(i - 1) // 256 + 1] = expected[(i - 1) // 256 + 1] + v end
      prog.block_sums { grid = 6, block = 256, sums, tensor(x), #x }
      assert.same(map(expected, function(v) return v + 0.0 end), sums:totable())
    end)

    it("reduces warps by shuffles, then the warps of a block", function()
      local prog = compile [[
        __device__ __forceinline__ float warp_total(float v) {
          for (int k = warpSize / 2; k > 0; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);
          return v;
        }
        __global__ void total(float *y, const float *x) {
          __shared__ float part[32];
          int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
          float v = warp_total(x[threadIdx.x]);
          if (lane == 0) part[warp] = v;
          __syncthreads();
          v = threadIdx.x < blockDim.x / warpSize ? part[lane] : 0;
          if (warp == 0) v = warp_total(v);
          if (threadIdx.x == 0) *y = v;
        }]]
      local x, sum = integers(512, 1000), 0
      for _, v in ipairs(x) do sum = sum + v end
      local y = zeros(1)
      prog.total { grid = 1, block = 512, y, tensor(x) }
      assert.equal(sum + 0.0, y:item())
    end)

    it("shares dynamic memory by a name declared in a template", function()
      local prog = compile [[
        template <class T> __device__ void turn(T *y, const T *x) {
          extern __shared__ unsigned char bytes[];
          T *held = (T *)bytes;
          held[threadIdx.x] = x[threadIdx.x];
          __syncthreads();
          y[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
        }
        __global__ void turned(int *y, const int *x) { turn(y, x); }]]
      local y = zeros(4, "i32")
      prog.turned { grid = 1, block = 4, shared = 16, y, tensor({ 1, 2, 3, 4 }, "i32") }
      assert.same({ 4, 3, 2, 1 }, y:totable())
    end)

    it("scans by prefix, twice over each step", function()
      local prog = compile [[
        __global__ void scan(int *y, const int *x) {
          extern __shared__ int buffer[];
          int t = threadIdx.x, n = blockDim.x, in = 0, out = 1;
          buffer[t] = x[t];
          __syncthreads();
          for (int d = 1; d < n; d *= 2) {
            buffer[out * n + t] = t >= d ? buffer[in * n + t] + buffer[in * n + t - d] : buffer[in * n + t];
            in = 1 - in, out = 1 - out;
            __syncthreads();
          }
          y[t] = buffer[in * n + t];
        }]]
      local x, sum = integers(200, 90), 0
      local y = zeros(#x, "i32")
      prog.scan { grid = 1, block = #x, shared = 2 * 4 * #x, y, tensor(x, "i32") }
      assert.same(map(x, function(v) sum = sum + v return sum end), y:totable())
    end)

    it("scans a warp by shuffles upwards", function()
      local prog = compile [[
        __global__ void scan(long long *y, const long long *x) {
          long long v = x[threadIdx.x];
          for (unsigned d = 1; d < 32; d *= 2) {
            long long other = __shfl_up_sync(~0u, v, d);
            if (threadIdx.x % 32 >= d) v += other;
          }
          y[threadIdx.x] = v;
        }]]
      local x, sum = map(integers(64, 90), function(v) return v << 33 end), 0
      local y = zeros(#x, "i64")
      prog.scan { grid = 1, block = 64, y, tensor(x, "i64") }
      assert.same(map(x, function(v, i) sum = i == 33 and v or sum + v return sum end), y:totable())
    end)

    it("counts a histogram with atomics, in shared memory and then for all", function()
      local prog = compile [[
        __global__ void histogram(unsigned int *bins, const unsigned char *x, int n) {
          __shared__ unsigned int own[64];
          for (int i = threadIdx.x; i < 64; i += blockDim.x) own[i] = 0;
          __syncthreads();
          for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            atomicAdd(&own[x[i] % 64], 1u);
          __syncthreads();
          for (int i = threadIdx.x; i < 64; i += blockDim.x) if (own[i]) atomicAdd(bins + i, own[i]);
        }]]
      local x, expected = integers(20000, 251), {}
      for i = 1, 64 do expected[i] = 0 end
      for _, v in ipairs(x) do expected[v % 64 + 1] = expected[v % 64 + 1] + 1 end
      local bins = zeros(64, "i32")
      prog.histogram { grid = 40, block = 96, bins, tensor(x, "u8"), #x }
      assert.same(expected, bins:totable())
    end)

    it("takes a stencil with a halo, coefficients in constant memory", function()
      local prog = compile [[
        #define RADIUS 3
        __constant__ float weights[2 * RADIUS + 1] = {1, -2, 3, 4, 3, -2, 1};
        __global__ void __launch_bounds__(128) stencil(float *y, const float *x, int n) {
          __shared__ float line[128 + 2 * RADIUS];
          int i = blockIdx.x * blockDim.x + threadIdx.x, at = threadIdx.x + RADIUS;
          line[at] = i < n ? x[i] : 0;
          if (threadIdx.x < RADIUS) {
            line[at - RADIUS] = i >= RADIUS ? x[i - RADIUS] : 0;
            line[at + blockDim.x] = i + blockDim.x < n ? x[i + blockDim.x] : 0;
          }
          __syncthreads();
          if (i >= n) return;
          float sum = 0;
          for (int k = -RADIUS; k <= RADIUS; k++) sum += weights[k + RADIUS] * line[at + k];
          y[i] = sum;
        }]]
      local x, weights = integers(500, 64), { 1, -2, 3, 4, 3, -2, 1 }
      local y = zeros(#x)
      prog.stencil { grid = 4, block = 128, y, tensor(x), #x }
      assert.same(map(x, function(_, i)
        local sum = 0.0
        for k = -3, 3 do sum = sum + weights[k + 4] * (x[i + k] or 0) end
        return sum
      end), y:totable())
    end)

    it("has three dimensions of threads and of blocks", function()
      local prog = compile [[
        __global__ void where(int *y) {
          int x = blockIdx.x * blockDim.x + threadIdx.x;
          int row = blockIdx.y * blockDim.y + threadIdx.y;
          int plane = blockIdx.z * blockDim.z + threadIdx.z;
          int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
          y[(plane * height + row) * width + x] = x + 100 * row + 10000 * plane;
        }]]
      local y, expected = zeros({ 2 * 3, 3 * 2, 2 * 5 }, "i32"), {}
      for plane = 0, 5 do
        for row = 0, 5 do
          for x = 0, 9 do expected[#expected + 1] = x + 100 * row + 10000 * plane end
        end
      end
      prog.where { grid = { 2, 3, 2 }, block = { 5, 2, 3 }, y }
      assert.same(expected, y:view({ 360 }):totable())
    end)

    it("may end threads early before a warp works with a mask of those that are left", function()
      local prog = compile [[
        __global__ void some(float *y, const float *x, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          unsigned mask = __ballot_sync(0xffffffff, i < n);
          if (i >= n) return;
          float v = x[i];
          for (int k = 16; k; k /= 2) {
            float other = __shfl_down_sync(mask, v, k);
            if (threadIdx.x % 32 + k < __popc(mask)) v += other;
          }
          if (threadIdx.x % 32 == 0) y[i / 32] = v;
        }]]
      local x, expected = integers(117, 1000), { 0.0, 0.0, 0.0, 0.0 }
      for i, v in ipairs(x) do expected[(i - 1) // 32 + 1] = expected[(i - 1) // 32 + 1] + v end
      local y = zeros(4)
      prog.some { grid = 2, block = 64, y, tensor(x), #x }
      assert.same(expected, y:totable())
    end)

    it("lets parts of a warp work apart, each with its own mask", function()
      local prog = compile [[
        __global__ void parts(int *y) {
          int lane = threadIdx.x;
          if (lane < 8) {
            for (int k = 4; k; k /= 2) lane += __shfl_xor_sync(0x000000ff, lane, k);
          } else if (lane < 24) {
            unsigned mask = 0x00ffff00;
            lane = __any_sync(mask, lane == 9) * 100 + __all_sync(mask, lane > 9) * 10 + __popc(__ballot_sync(mask, lane & 1));
          } else {
            __syncwarp(0xff000000);
            lane = __shfl_sync(0xff000000, lane, 30);
          }
          y[threadIdx.x] = lane;
        }]]
      local y, expected = zeros(32, "i32"), {}
      for i = 0, 31 do expected[i + 1] = i < 8 and 28 or i < 24 and 108 or 30 end
      prog.parts { grid = 1, block = 32, y }
      assert.same(expected, y:totable())
    end)

    it("counts and votes at barriers", function()
      local prog = compile [[
        __global__ void votes(int *y, const int *x) {
          int v = x[threadIdx.x];
          int even = __syncthreads_count(v % 2 == 0);
          int all = __syncthreads_and(v >= 0), any = __syncthreads_or(v == 77);
          y[threadIdx.x] = even * 100 + all * 10 + any;
        }]]
      local x, even = integers(300, 76), 0
      for _, v in ipairs(x) do even = even + (v % 2 == 0 and 1 or 0) end
      local y = zeros(#x, "i32")
      prog.votes { grid = 1, block = 300, y, tensor(x, "i32") }
      assert.same(map(x, function() return even * 100 + 10 end), y:totable())
    end)

    it("shuffles within parts of a warp, numbers of every size", function()
      local prog = compile [[
        __global__ void shuffles(int *y) {
          unsigned lane = threadIdx.x;
          double sum = __shfl_sync(~0u, (double)lane, 1, 8) + __shfl_up_sync(~0u, (float)lane, 2, 8) +
            __shfl_down_sync(~0u, lane, 3, 16) + __shfl_xor_sync(~0u, (long long)lane, 5, 8);
          y[lane] = (int)sum;
        }]]
      local y, expected = zeros(32, "i32"), {}
      prog.shuffles { grid = 1, block = 32, y }
      for lane = 0, 31 do
        local down, up = lane % 16 + 3 < 16 and lane + 3 or lane, lane % 8 >= 2 and lane - 2 or lane
        expected[lane + 1] = lane // 8 * 8 + 1 + up + down + (lane ~ 5)
      end
      assert.same(expected, y:totable())
    end)

    it("finds lanes that agree", function()
      local prog = compile [[
        __global__ void match(int *y, const int *x) {
          unsigned same = __match_any_sync(~0u, x[threadIdx.x]);
          int all, leader = __ffs(same) - 1;
          __match_all_sync(~0u, 5, &all);
          y[threadIdx.x] = leader * 1000 + __popc(same) * 10 + all;
        }]]
      local x = integers(32, 5)
      local first, count = {}, {}
      for i, v in ipairs(x) do first[v], count[v] = first[v] or i - 1, (count[v] or 0) + 1 end
      local y = zeros(32, "i32")
      prog.match { grid = 1, block = 32, y, tensor(x, "i32") }
      assert.same(map(x, function(v) return first[v] * 1000 + count[v] * 10 + 1 end), y:totable())
    end)

    it("gathers atomics of lanes that are active together", function()
      local prog = compile [[
        __device__ int gathered(int *count) {
          unsigned active = __activemask();
          int lane = threadIdx.x % 32, leader = __ffs(active) - 1, base = 0;
          if (lane == leader) base = atomicAdd(count, __popc(active));
          base = __shfl_sync(active, base, leader);
          return base + __popc(active & ((1u << lane) - 1));
        }
        __global__ void keep(int *to, int *count, const int *x) {
          int v = x[blockIdx.x * blockDim.x + threadIdx.x];
          if (v % 3 == 0) to[gathered(count)] = v;
        }]]
      local x, expected = integers(640, 1000), {}
      for _, v in ipairs(x) do expected[#expected + 1] = v % 3 == 0 and v or nil end
      local to, count = zeros(#x, "i32"), zeros(1, "i32")
      prog.keep { grid = 5, block = 128, to, count, tensor(x, "i32") }
      local kept = to:totable()
      assert.equal(#expected, count:item())
      kept = table.move(kept, 1, #expected, 1, {})
      table.sort(kept)
      table.sort(expected)
      assert.same(expected, kept)
    end)

    it("multiplies matrices by tiles", function()
      local prog = compile([[
        __global__ void product(float *c, const float *a, const float *b, int n) {
          __shared__ float left[T][T], right[T][T];
          int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
          float sum = 0;
          for (int k = 0; k < n; k += T) {
            left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
            right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
            __syncthreads();
            for (int i = 0; i < T; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
            __syncthreads();
          }
          c[row * n + column] = sum;
        }]], { T = 8 })
      local n = 32
      local a, b, expected = integers(n * n, 13), integers(n * n, 17), {}
      for row = 0, n - 1 do
        for column = 1, n do
          local sum = 0.0
          for k = 0, n - 1 do sum = sum + a[row * n + k + 1] * b[k * n + column] end
          expected[row * n + column] = sum
        end
      end
      local c = zeros(n * n)
      prog.product { grid = { 4, 4 }, block = { 8, 8 }, c, tensor(a), tensor(b), n }
      assert.same(expected, c:totable())
    end)

    it("computes in halves and pairs of halves", function()
      local prog = compile [[
        #include <cuda_fp16.h>
        __global__ void halves(__half *y, const __half *x, __half a, int n) {
          int i = threadIdx.x;
          if (i < n) y[i] = __hfma(a, x[i], __hmul(x[i], __hsub(x[i], __float2half(1.0f))));
          __half2 pair = __hadd2(reinterpret_cast<const __half2 *>(x)[i / 2], __float2half2_rn(0.5f));
          __half low = __shfl_xor_sync(0xffffffff, i % 2 ? __high2half(pair) : __low2half(pair), 1);
          if (i < n && __hgt(low, __float2half(40.0f))) y[i] = __hneg(low);
        }]]
      local x = map(integers(32, 50), function(v) return v / 4 end)
      x[3] = 60
      local y = zeros(32, "f16")
      prog.halves { grid = 1, block = 32, y, tensor(x, "f16"), 2, 32 }
      assert.same(map(x, function(v, i)
        local other = x[(i - 1 ~ 1) + 1] + 0.5
        if other > 40 then return -other end
        local square = string.unpack("f", string.pack("f", v * (v - 1)))
        return rp.tensor({ 2 * v + rp.tensor({ square }, "f16", "cpu"):item() }, "f16", "cpu"):item()
      end), y:totable())
    end)

    it("computes in bfloat16", function()
      local prog = compile [[
        #include <cuda_bf16.h>
        __global__ void brain(__nv_bfloat16 *y, const __nv_bfloat16 *x) {
          __nv_bfloat16 v = x[threadIdx.x];
          y[threadIdx.x] = __hadd_rn(__hmul_rn(v, v), __float2bfloat16(0.125f)); /* without _rn a GPU fuses them */
          if (__bfloat162float(v) > 20) y[threadIdx.x] = __hmax(v, __int2bfloat16_rn(30));
        }]]
      local x = map(integers(32, 27), function(v) return v + 0.0 end)
      local function rounded(v) return rp.tensor({ v }, "bf16", "cpu"):item() end
      local y = zeros(32, "bf16")
      prog.brain { grid = 1, block = 32, y, tensor(x, "bf16") }
      assert.same(map(x, function(v) return v > 20 and math.max(v, 30.0) or rounded(rounded(v * v) + 0.125) end), y:totable())
    end)

    it("moves vectors of four, and has types of two and three", function()
      local prog = compile [[
        __device__ float4 operator+(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
        __global__ void add(float *y, const float *x, const int *shift) {
          int2 s = *reinterpret_cast<const int2 *>(shift);
          float3 three = make_float3(1, 2, s.x);
          float4 v = reinterpret_cast<const float4 *>(x)[threadIdx.x];
          v = v + make_float4(three.x, three.y, three.z, s.y);
          reinterpret_cast<float4 *>(y)[threadIdx.x] = v;
        }]]
      local x = integers(256, 100)
      local y = zeros(256)
      prog.add { grid = 1, block = 64, y, tensor(x), tensor({ 30, 40 }, "i32") }
      local more = { 1, 2, 30, 40 }
      assert.same(map(x, function(v, i) return v + more[(i - 1) % 4 + 1] + 0.0 end), y:totable())
    end)

    it("has CUDA's functions of bits and numbers", function()
      local prog = compile [[
        __global__ void bits(int *y) {
          y[0] = __popc(0xf0f0u), y[1] = __clz(1), y[2] = __clz(0), y[3] = __ffs(8), y[4] = __ffs(0);
          y[5] = (int)(__brev(1u) >> 31), y[6] = __popcll(~0ull), y[7] = __clzll(1), y[8] = __ffsll(1ll << 40);
          y[9] = (int)__byte_perm(0x03020100, 0x07060504, 0x7410), y[10] = __mulhi(1 << 30, 8), y[11] = __umulhi(~0u, 2);
          y[12] = (int)__funnelshift_l(0x80000000u, 1u, 1), y[13] = (int)__funnelshift_r(0x80000000u, 1u, 4);
          y[14] = __float2int_rn(2.5f), y[15] = __float2int_rz(-2.7f), y[16] = __float2int_ru(2.1f), y[17] = __float2int_rd(-2.1f);
          y[18] = __float2int_rn(1e20f), y[19] = (int)__float2uint_rn(-5.0f), y[20] = __float_as_int(1.0f);
          y[21] = min(3, -4) + max(7u, 5u), y[22] = (int)(min(1.5f, 2.5f) * 10 + max(1.0, 2.0)), y[23] = abs(-3) + (int)fabsf(-4.0f);
          y[24] = (int)(1000 * rsqrtf(4.0f)), y[25] = (int)(__fdividef(9.0f, 3.0f)), y[26] = (int)fmaf(2, 3, 4);
          y[27] = (int)roundf(exp(1.0f) * 1000), y[28] = (int)round(pow(2.0, 0.5) * 1000), y[29] = __sad(3, -4, 10);
          y[30] = (int)roundf(__expf(2.0f) * 10), y[31] = (int)(__saturatef(1.5f) + __int_as_float(0x40000000) + floorf(1.5f));
        }]]
      local y = zeros(32, "i32")
      prog.bits { grid = 1, block = 1, y }
      assert.same({
        8, 31, 32, 4, 0, 1, 64, 63, 41, 0x07040100, 2, 1, 3, 0x18000000, 2, -2, 3, -3, 2147483647, 0, 1065353216,
        3, 17, 7, 500, 3, 10, 2718, 1414, 17, 74, 4,
      }, y:totable())
    end)

    it("has atomics of every kind", function()
      local prog = compile [[
        __global__ void atomics(int *i, unsigned int *u, float *f, unsigned long long *l) {
          atomicAdd(&i[0], 2), atomicSub(&i[1], 3), atomicMin(&i[2], -(int)threadIdx.x), atomicMax(&i[3], (int)threadIdx.x);
          atomicAnd(&i[4], ~(1 << threadIdx.x % 32)), atomicOr(&i[5], 1 << threadIdx.x % 30), atomicXor(&i[6], 1);
          atomicInc(&u[0], 9), atomicDec(&u[1], 9);
          atomicAdd(&f[0], 0.5f);
          atomicAdd(&l[0], 1ull << 40);
          int seen = i[7], before;
          do before = seen, seen = atomicCAS(&i[7], before, before * 3 % 10007); while (seen != before);
          if (threadIdx.x == 0 && blockIdx.x == 0) i[8] = atomicExch(&i[9], 5);
        }]]
      local threads, power = 4 * 64, 1
      for _ = 1, threads do power = power * 3 % 10007 end
      local i, u = tensor({ 0, 0, 0, 0, -1, 0, 0, 1, 0, 7 }, "i32"), zeros(2, "i32")
      local f, l = zeros(1), zeros(1, "i64")
      prog.atomics { grid = 4, block = 64, i, u, f, l }
      assert.same({ 2 * threads, -3 * threads, -63, 63, 0, (1 << 30) - 1, 0, power, 7, 5 }, i:totable())
      assert.same({ threads % 10, (10 - threads % 10) % 10 }, u:totable())
      assert.equal(threads / 2, f:item())
      assert.equal(threads << 40, l:item())
    end)

    it("hands a total on from block to block: who is last adds up", function()
      local prog = compile [[
        __device__ unsigned int arrived = 0;
        __global__ void total(float *y, float *parts, const float *x, int n) {
          __shared__ bool last;
          __shared__ float sum;
          if (threadIdx.x == 0) sum = 0;
          __syncthreads();
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) atomicAdd(&sum, x[i]);
          __syncthreads();
          if (threadIdx.x == 0) {
            parts[blockIdx.x] = sum;
            __threadfence();
            last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
          }
          __syncthreads();
          if (!last || threadIdx.x) return;
          float all = 0;
          for (int b = 0; b < gridDim.x; b++) all += ((volatile float *)parts)[b];
          *y = all;
        }]]
      local x, sum = integers(3000, 100), 0
      for _, v in ipairs(x) do sum = sum + v end
      local y, parts = zeros(1), zeros(30)
      for _ = 1, 3 do
        prog.total { grid = 30, block = 100, y, parts, tensor(x), #x }
        assert.equal(sum + 0.0, y:item())
      end
    end)

    it("works in cooperative groups", function()
      local prog = compile [[
        #include <cooperative_groups.h>
        #include <cooperative_groups/reduce.h>
        namespace cg = cooperative_groups;
        __global__ void groups(int *y, const int *x) {
          cg::thread_block block = cg::this_thread_block();
          cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
          __shared__ int sums[16];
          int v = x[block.thread_rank()];
          int sum = cg::reduce(tile, v, cg::plus<int>()), most = cg::reduce(tile, v, cg::greater<int>());
          if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = sum;
          block.sync();
          int odd = 0;
          if (v % 2) odd = cg::coalesced_threads().size() > 0;
          y[block.thread_rank()] = sums[0] * 1000 + most * 10 + tile.any(v == 49) + odd * 2 + tile.shfl(v, 3) * 100000;
        }]]
      local x, first = integers(64, 50), 0
      for i = 1, 8 do first = first + x[i] end
      local y = zeros(64, "i32")
      prog.groups { grid = 1, block = 64, y, tensor(x, "i32") }
      assert.same(map(x, function(v, i)
        local from, most, any = (i - 1) // 8 * 8, 0, 0
        for k = from + 1, from + 8 do most, any = math.max(most, x[k]), any | (x[k] == 49 and 1 or 0) end
        return first * 1000 + most * 10 + any + v % 2 * 2 + x[from + 4] * 100000
      end), y:totable())
    end)

    it("is captured and replayed like any other", function()
      local prog = compile [[
        __global__ void shift(float *y, const float *x) {
          extern __shared__ float row[];
          row[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
          __syncthreads();
          y[blockIdx.x * blockDim.x + threadIdx.x] = row[(threadIdx.x + 1) % blockDim.x] + 1;
        }]]
      local step = rp.capture(function(x)
        local a, b = rp.empty({ 4, 64 }, "f32", device), rp.empty({ 4, 64 }, "f32", device)
        prog.shift { grid = 4, block = 64, shared = 256, a, x }
        prog.shift { grid = 4, block = 64, shared = 256, b, a }
        return b
      end)
      for round = 1, 3 do
        local x = map(integers(256, 100), function(v) return v + round + 0.0 end)
        local expected = map(x, function(_, i) return x[(i - 1) // 64 * 64 + (i + 1) % 64 + 1] + 2 end)
        assert.same(expected, step(tensor(x):view({ 4, 64 })):view({ 256 }):totable())
      end
    end)
  end)
end)
