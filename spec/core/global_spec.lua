-- __global__ kernels on the CPU device: how the threads of a block take turns, what is refused, how failures are told.
-- What such kernels compute is spec/kernels/cuda_style_spec.lua's.
local rp = require "reprise"
local helper = require "spec.helper"
local kernels = require "spec.support.kernels"

local on_cpu = false
for _, name in ipairs(helper.devices()) do on_cpu = on_cpu or name == "cpu" end
if not on_cpu then return end

local function compile(source, define)
  helper.needs_compiler "cpu"
  return rp.compile { source = source, define = define, device = "cpu", name = "k.cu" }
end

local function zeros(n, dtype) return rp.zeros({ n }, dtype or "i32", "cpu") end

local function fails(kernel, args, ...)
  local ok, why = pcall(kernel, args)
  assert(not ok, "it ran")
  for _, expected in ipairs { ... } do
    assert(why:find(expected, 1, true), ("expected\n  %s\nin\n  %s"):format(expected, why))
  end
end

describe("the threads of a block on the CPU", function()
  it("may be 1024, and number no more", function()
    local prog = compile [[
      __global__ void turn(int *y) {
        __shared__ int line[1024];
        int t = threadIdx.x + blockDim.x * threadIdx.y, n = blockDim.x * blockDim.y;
        line[t] = t;
        for (int i = 0; i < 5; i++) {
          __syncthreads();
          int next = line[(t + 1) % n];
          __syncthreads();
          line[t] = next;
        }
        y[t] = line[t];
      }]]
    local y = zeros(1024)
    prog.turn { grid = 1, block = { 32, 32 }, y }
    local expected = {}
    for i = 0, 1023 do expected[i + 1] = (i + 5) % 1024 end
    assert.same(expected, y:totable())
    fails(prog.turn, { grid = 1, block = { 32, 33 }, y },
      "launching turn on cpu: block of 32 x 33 x 1 = 1056 threads: expected at most 1024")
    fails(prog.turn, { grid = 1, block = { 1, 1, 65 }, y }, "block of 1 x 1 x 65: expected 1 to 1024 x 1024 x 64")
    fails(prog.turn, { grid = { 1, 70000 }, block = 1, y }, "grid of 1 x 70000 x 1: expected 1 to 2147483647 x 65535 x 65535")
    fails(prog.turn, { grid = 1, block = 1, shared = 1 << 20, y },
      "launching turn on cpu: 1048576 bytes of shared memory: expected at most 232448")
  end)

  it("run in several threads, block by block, with atomics between them", function()
    local prog = compile [[
      __global__ void count(int *y, int *blocks) {
        __shared__ int here;
        if (threadIdx.x == 0) here = 0;
        __syncthreads();
        atomicAdd(&here, 1);
        atomicAdd(y, 1);
        __syncthreads();
        if (threadIdx.x == 0) blocks[blockIdx.x] = here;
      }]]
    local y, blocks = zeros(1), zeros(5000)
    prog.count { grid = 5000, block = 48, y, blocks }
    assert.equal(5000 * 48, y:item())
    for _, n in ipairs(blocks:totable()) do assert.equal(48, n) end
  end)

  it("may end before a barrier that others reach", function()
    local prog = compile [[
      __global__ void leave(int *y) {
        if (threadIdx.x % 3 == 0) return;
        atomicAdd(y, 1);
        __syncthreads();
        if (threadIdx.x % 3 == 1) { y[1 + threadIdx.x] = *y; return; }
        y[1 + threadIdx.x] = __syncthreads_count(1);
      }]]
    local y = zeros(100)
    prog.leave { grid = 1, block = 99, y }
    local expected = { 66 }
    for t = 0, 98 do expected[t + 2] = t % 3 == 0 and 0 or t % 3 == 1 and 66 or 33 end
    assert.same(expected, y:totable())
  end)

  it("may part again and again, and meet where their masks say", function()
    local prog = compile [[
      __device__ int halve(int value, unsigned mask, int size) {
        if (size == 1) return value;
        int lane = threadIdx.x % 32, middle = size / 2;
        value += __shfl_xor_sync(mask, value, middle);
        unsigned low = 0;
        for (int i = 0; i < 32; i++) if (mask >> i & 1 && i % size < middle) low |= 1u << i;
        if (lane % size < middle) return halve(value, low, middle);
        return halve(value * 2, mask & ~low, middle);
      }
      __global__ void part(int *y) { y[threadIdx.x] = halve(threadIdx.x, ~0u, 32); }]]
    local function halve(values, lanes, size)
      if size == 1 then return end
      local was = table.move(values, 0, 31, 0, {})
      for _, lane in ipairs(lanes) do
        values[lane] = was[lane] + was[lane ~ size // 2]
        if lane % size >= size // 2 then values[lane] = values[lane] * 2 end
      end
      halve(values, lanes, size // 2)
    end
    local values, lanes, y = {}, {}, zeros(32)
    for i = 0, 31 do values[i], lanes[i + 1] = i, i end
    halve(values, lanes, 32)
    prog.part { grid = 1, block = 32, y }
    assert.same(table.move(values, 0, 31, 1, {}), y:totable())
  end)

  it("wait for lanes that are left when others end", function()
    local prog = compile [[
      __global__ void last(int *y) {
        if (threadIdx.x < 20 && threadIdx.x != 7) {
          y[threadIdx.x] = __popc(__ballot_sync(~0u, 1));
          return;
        }
        if (threadIdx.x == 7) y[7] = -1;
      }]]
    local y, expected = zeros(32), {}
    for t = 0, 31 do expected[t + 1] = t == 7 and -1 or t < 20 and 19 or 0 end
    prog.last { grid = 1, block = 32, y }
    assert.same(expected, y:totable())
  end)

  it("wait for each other by atomics, in a block and between blocks", function()
    local prog = compile [[
      __global__ void lock(int *y) {
        while (atomicCAS(&y[0], 0, 1) != 0) continue;
        int seen = y[1];
        __nanosleep(10);
        y[1] = seen + 1;
        __threadfence();
        atomicExch(&y[0], 0);
      }
      __global__ void flag(int *y) {
        if (threadIdx.x == 0) while (atomicAdd(&y[2], 0) < blockDim.x - 1) continue;
        else atomicAdd(&y[2], 1);
        if (threadIdx.x == 0) y[3] = 1;
      }]]
    local y = zeros(4)
    prog.lock { grid = 20, block = 64, y }
    prog.flag { grid = 1, block = 64, y }
    assert.same({ 0, 20 * 64, 63, 1 }, y:totable())
  end)

  it("see what other kernels of the source left in __device__ data", function()
    local prog = compile [[
      __device__ int kept[4] = {1, 2, 3, 4};
      __global__ void add(int n) { kept[threadIdx.x] += n; }
      __global__ void get(int *y) { y[threadIdx.x] = kept[threadIdx.x]; }]]
    local y = zeros(4)
    prog.add { grid = 1, block = 4, 10 }
    prog.get { grid = 1, block = 4, y }
    assert.same({ 11, 12, 13, 14 }, y:totable())
  end)

  it("print", function()
    helper.needs_compiler "cpu"
    local path = helper.tmp() .. "/print.lua"
    helper.write(path, [[
      local rp = require "reprise"
      rp.compile { device = "cpu", source = '__global__ void hello(int n) {' ..
        ' if (threadIdx.x == 1) printf("hello %d %.2f from %d\\n", n, 0.5, blockIdx.x); }' }
        .hello { grid = 1, block = 2, 7 }]])
    local code, out, err = helper.run(helper.quote(helper.program()) .. " " .. path)
    assert.equal("", err)
    assert.equal(0, code)
    assert.equal("hello 7 0.50 from 0\n", out)
  end)

  it("may be named by extern \"C\", static and bounds, and call functions made by templates", function()
    local prog = compile [[
      template <class T, int N> __device__ T times(T x) { return x * N; }
      extern "C" __global__ void __launch_bounds__(64, 2) a(int *y) { y[0] = times<int, 3>(5); }
      static __global__ __launch_bounds__(64) void b(float *y, double d, bool yes, unsigned char c, long long l) {
        y[1] = (float)(d + yes + c + l);
      }
      __global__ void later(int *y);
      __global__ void later(int *y) { auto set = [&](int v) { y[threadIdx.x] = v; }; set(blockDim.x); }]]
    local y, f = zeros(1), zeros(2, "f32")
    prog.a { grid = 1, block = 1, y }
    assert.equal(15, y:item())
    prog.b { grid = 1, block = 1, f, 0.5, 1, 200, -1000 }
    assert.equal(-798.5, f[2])
    prog.later { grid = 1, block = 1, y }
    assert.equal(1, y:item())
  end)

  it("stand beside KERNELs, in one source", function()
    local prog = compile [[
      #include "prelude.cuh"
      KERNEL void ours(float *y, i32 n) { for (i32 i = BLOCK * THREADS + THREAD; i < n; i += BLOCKS * THREADS) y[i] = 1; }
      __global__ void theirs(float *y) { y[threadIdx.x] += rsqrtf(4.0f) + to_f32(to_f16(0.25f)); }]]
    local y = zeros(40, "f32")
    prog.ours { grid = 1, block = 32, y, 40 }
    prog.theirs { grid = 1, block = 32, y }
    assert.equal(1.75, y[32])
    assert.equal(1, y[33])
  end)

  it("may be compiled with the C++ library's headers", function()
    local prog = compile [[
      #include <cmath>
      #include <cstdint>
      #include <type_traits>
      #include <algorithm>
      __global__ void f(float *y) { y[0] = std::sqrt(2.0f) + sqrt(4.0f) + exp(0.0f) + max(1, 2) + abs(-1.0f) + std::max(1.0f, 2.0f); }]]
    local y = zeros(1, "f32")
    prog.f { grid = 1, block = 1, y }
    assert(math.abs(y:item() - 9.4142) < 1e-3)
  end)
end)

describe("a __global__ kernel that cannot run on the CPU", function()
  it("is refused for words of the prelude, with line and remedy", function()
    local said = kernels.refusal("__global__ void f(float *y) {\n  barrier();\n}", nil, "cpu")
    assert(said:find("k.cu:2: kernel f: uses barrier, prelude.cuh's name, but is declared __global__: " ..
      "write __syncthreads(), or declare it KERNEL", 1, true), said)
  end)

  it("is refused where blocks would have to wait for each other", function()
    local prog = compile "__global__ void f(int *y) { y[blockIdx.x] = 1; }"
    local y = zeros(4)
    prog.f { grid = 1, block = 1, cooperative = true, y }
    prog.f { grid = 4, block = 1, cluster = 2, y }
    assert.same({ 1, 1, 1, 1 }, y:totable())
    fails(prog.f, { grid = 2, block = 1, cooperative = true, y },
      "launching f on cpu: cooperative, with several blocks: expected one block: on a processor blocks run one after the other")
    fails(prog.f, { grid = 3, block = 1, cluster = 2, y }, "expected a grid that is a multiple of the cluster")
  end)

  it("shows the compiler's words with the source's own lines", function()
    helper.needs_compiler "cpu"
    local said = kernels.refusal("\n__global__ void f(float *y) {\n  y[0] = absent;\n}", nil, "cpu")
    assert(said:find("k.cu:3:10: error", 1, true), said)
  end)
end)

describe("a __global__ source with PTX", function()
  local source = [[
      __global__ void f(int *y) {
        int lane;
      #ifdef GUARD
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
      #else
        lane = threadIdx.x % 32;
      #endif
        y[threadIdx.x] = lane;
      }]]

  it("runs where it says so for the GPU alone", function()
    local y = zeros(40)
    compile((source:gsub("GUARD", "__CUDA_ARCH__"))).f { grid = 1, block = 40, y }
    assert.equal(7, y[40])
  end)

  it("is told what to do elsewhere", function()
    helper.needs_compiler "cpu"
    local said = kernels.refusal(source, { GUARD = 1 }, "cpu")
    assert(said:find("line 4 has inline assembly: PTX is a GPU's; put it under #ifdef __CUDA_ARCH__", 1, true), said)
  end)
end)

describe("threads that wait for ever", function()
  it("are a deadlock: it says who waits, and for what", function()
    local prog = compile [[
      __global__ void apart(int *y) { if (threadIdx.x < 16) __syncthreads(); else __syncwarp(); y[0] = 1; }
      __global__ void few(int *y) {
        if (threadIdx.y == 1) return;
        if (threadIdx.x == 2) __shfl_sync(0x0f, 1, 0); else if (threadIdx.x == 3) __ballot_sync(0x0f, 1);
      }]]
    local y = zeros(1)
    fails(prog.apart, { grid = 3, block = 64, y }, "running apart on cpu: block (0, 0, 0): nobody is ready: ",
      " 16 threads wait at __syncthreads (first (0, 0, 0))", " 16 threads wait at __syncwarp with mask 0xffffffff (first (16, 0, 0))")
    fails(prog.few, { grid = 1, block = { 4, 2 }, y }, "running few on cpu: block (0, 0, 0): nobody is ready: " ..
      "1 thread waits at a shuffle (__shfl) with mask 0x0000000f (first (2, 0, 0)); " ..
      "1 thread waits at a vote (__ballot) with mask 0x0000000f (first (3, 0, 0)); 6 ended")
    y:fill(0)
    prog.apart { grid = 1, block = 16, y } -- and the device goes on
    assert.equal(1, y:item())
  end)

  it("are told from a mask that leaves out its own lane", function()
    local prog = compile "__global__ void f(int *y) { y[threadIdx.x] = __shfl_sync(2, 1, 0); }"
    fails(prog.f, { grid = 1, block = 32, zeros(32) },
      "running f on cpu: block (0, 0, 0), thread (0, 0, 0) calls a shuffle (__shfl) with mask 0x00000002, " ..
        "which leaves out its own lane 0")
  end)

  it("do not hang where a block of many fails, in the middle of a graph", function()
    local prog = compile [[
      __global__ void f(int *y, int bad) {
        if (blockIdx.x == bad) { if (threadIdx.x) __syncthreads(); else __trap(); }
        if (threadIdx.x == 0) atomicAdd(y, 1);
      }]]
    local y, bad = zeros(1), rp.param("i32", 700)
    local step = rp.capture(function() prog.f { grid = 1000, block = 32, y, bad } return y end,
      { device = y.device })
    local ok, why = pcall(step)
    assert.is_false(ok)
    assert(why:find("running f on cpu: block (700, 0, 0), thread (0, 0, 0): __trap()", 1, true), why)
    y:fill(0)
    bad:set(-1)
    assert.equal(1000, step():item())
  end)

  it("say which assertion failed", function()
    local prog = compile "__global__ void f(int n) { assert(threadIdx.x + n < 40); }"
    prog.f { grid = 1, block = 32, 0 }
    fails(prog.f, { grid = 2, block = 32, 30 },
      "running f on cpu: block (0, 0, 0), thread (10, 0, 0): assertion failed: threadIdx.x + n < 40")
  end)
end)

-- A script in a process of its own, whose kernels are compiled already.
local function script(text, environment)
  helper.needs_compiler "cpu"
  local path = helper.tmp() .. "/script.lua"
  helper.write(path, "local rp = require 'reprise'\nio.stdout:setvbuf 'no'\n" .. text)
  return ("%s %s %s"):format(environment or "", helper.quote(helper.program()), path)
end

describe("Ctrl-C", function()
  -- One block and one thread, then many: the flag is looked at between switches, and at barriers of one thread.
  for _, how in ipairs { "grid = 1, block = 1", "grid = 1, block = 64", "grid = 64, block = 64" } do
    it("ends a kernel that waits at barriers for ever: " .. how, function()
      local command = script(([[
        local prog = rp.compile { device = "cpu", source = "__global__ void spin(int *y) { " ..
          "while (__syncthreads_count(1)) atomicAdd(y, 1); }" }
        local y = rp.zeros({ 1 }, "i32", "cpu")
        print "ready"
        print(pcall(prog.spin, { %s, y }))]]):format(how))
      local code, out, err = helper.run(([[cd %s && mkfifo pipe
        %s >pipe 2>err & child=$!
        { read line; kill -INT $child; cat; } <pipe
        wait $child; code=$?; cat err >&2; exit $code]]):format(helper.tmp(), command))
      assert.equal(130, code, out .. err)
      assert(err:find("interrupted", 1, true), err)
    end)
  end
end)

describe("stacks to switch between", function()
  for name, flag in pairs { ["as usual"] = "", ["by makecontext"] = "-DRP_UCONTEXT" } do
    it("keep what is on them, and can be left from a signal handler: " .. name, function()
      if not io.open "runtime/cpu_coroutine.c" then helper.pending "the source is not here" end
      if helper.run "command -v cc" ~= 0 then helper.pending "no C compiler here" end
      local program = helper.tmp() .. "/coroutines"
      local code, _, err = helper.run(("cc -std=c11 -O2 -D_GNU_SOURCE= %s -Iruntime -pthread spec/support/coroutines.c " ..
        "runtime/cpu_coroutine.c runtime/mem.c runtime/err.c -o %s"):format(flag, program))
      assert.equal(0, code, err)
      local ended, out = helper.run(program)
      assert.equal("3661.5, left from 7\n", out)
      assert.equal(0, ended)
    end)
  end
end)

describe("REPRISE_GUARD=1", function()
  local function guarded(text)
    local code, out, err = helper.run(script(text, "REPRISE_GUARD=1"))
    assert.equal("", err)
    assert.equal(0, code)
    return out
  end

  local source = [==[
    local function says(kernel, args) local ok, why = pcall(kernel, args) print(ok or why:gsub("^[^ ]+ ", "")) end
    local prog = rp.compile { device = "cpu", source = [[
      __global__ void copy(float *y, const float *x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i <= n) y[i] = x[i];
      }
      __global__ void shuffled(unsigned char *y, int n) {
        __syncthreads();
        if (threadIdx.x == 33) y[n] = 1;
        __syncthreads();
      }
      __global__ void deep(int *y, int n) { volatile int a[1 << 20]; for (int i = 0; i < n; i++) a[i] = i; *y = a[n - 1]; }
      __global__ void divide(int *y, int n) { *y = 7 / n; }
    ]] }
    local function of(n, dtype) return rp.zeros({ n }, dtype or "f32", "cpu") end
  ]==]

  it("names kernel, block, thread and element, and the process lives on", function()
    local out = guarded(source .. [==[
      local y, x = of(100), of(64)
      says(prog.copy, { grid = 2, block = 64, y, x, 64 })
      says(prog.copy, { grid = 2, block = 64, x, y, 64 })
      prog.copy { grid = 2, block = 64, y, x, 63 }
      for n = 1, 20 do
        local b = of(n, "u8")
        prog.shuffled { grid = 1, block = 64, b, n - 1 }
        assert(b[n] == 1)
        if n > 18 then says(prog.shuffled, { grid = 1, block = 64, b, n }) end
      end
      says(prog.deep, { grid = 1, block = 2, of(1, "i32"), 1 << 20 })
      says(prog.divide, { grid = 1, block = 2, of(1, "i32"), 1 })]==])
    assert.equal(table.concat({
      "running copy on cpu: block (1, 0, 0), thread (0, 0, 0) reads x[64] of argument 2 (const float *x), which is outside the tensor",
      "running copy on cpu: block (1, 0, 0), thread (0, 0, 0) writes y[64] of argument 1 (float *y), which is outside the tensor",
      "running shuffled on cpu: block (0, 0, 0), thread (33, 0, 0) writes y[19] of argument 1 (u8 *y), which is outside the tensor",
      "running shuffled on cpu: block (0, 0, 0), thread (33, 0, 0) writes y[20] of argument 1 (u8 *y), which is outside the tensor",
      "running deep on cpu: block (0, 0, 0), thread (0, 0, 0) needs more than its 640 KiB of stack",
      "true", "",
    }, "\n"), (out:gsub("touches", "writes")))
  end)

  it("tells of null pointers, and of divisions that have no result", function()
    if helper.sanitized() then helper.pending "a build with sanitizers: they see these in kernels first" end
    local out = guarded(source .. [==[
      says(prog.copy, { grid = 2, block = 64, of(10), false, 10 })
      says(prog.divide, { grid = 1, block = 2, of(1, "i32"), 0 })]==])
    assert.equal(table.concat({
      "running copy on cpu: block (0, 0, 0), thread (0, 0, 0) reads x[0] of argument 2 (const float *x), which is null",
      "running divide on cpu: block (0, 0, 0), thread (0, 0, 0) divides an integer by zero, or out of its range", "",
    }, "\n"), out)
  end)

  it("guards KERNELs, the values of graphs and many threads", function()
    local out = guarded(source .. [==[
      local ours = rp.compile { device = "cpu", source = [[
        #include "prelude.cuh"
        KERNEL void put(float *y, i32 n) { if (BLOCK == 0) y[n] = 1; }]] }
      says(ours.put, { grid = 8, block = 32, of(3), 3 })
      local n = rp.param("i32", 4095)
      local step = rp.capture(function(x)
        local y = rp.empty({ 4096 }, "f32", "cpu")
        prog.copy { grid = 64, block = 64, y, x, n }
        return y
      end)
      local x = of(4096)
      step(x)
      n:set(4096)
      local ok, why = pcall(step, x)
      print(ok, why)
      n:set(4095)
      print(pcall(step, x))]==])
    assert(out:find("running put on cpu: block 0 of 1, thread (0, 0, 0) writes y[3] of argument 1 (float *y), which is outside", 1, true), out)
    assert(out:find("\ntrue\t", 1, true), out)
  end)

  it("computes what is computed without it", function()
    local command = helper.quote(helper.program()) .. " scripts/g2p.lua knowledge bee"
    local code, out = helper.run("REPRISE_DEVICE=cpu REPRISE_GUARD=1 " .. command)
    assert.equal(0, code)
    assert.equal("N AA1 L IH0 JH\nB IY1\n", out)
  end)

  it("takes nothing but 0 and 1", function()
    local _, _, err = helper.run("REPRISE_GUARD=yes " .. helper.quote(helper.program()) .. " -e \"require'reprise'.device'cpu'\"")
    assert(err:find('opening cpu: reading REPRISE_GUARD: "yes": expected 0 or 1', 1, true), err)
  end)
end)
