-- What the scanner reads from a kernel source, and what it says about what it cannot read. The refusals come
-- before any compiler is asked, so they need none.
local rp = require "reprise"
local helper = require "spec.helper"
local kernels = require "spec.support.kernels"

local function compile(device, source, define)
  return rp.compile { source = '#include "prelude.cuh"\n' .. source, name = "k.cu", define = define,
    device = device }
end

describe("a kernel's signature", function()
  helper.each_device(function(device)
    local function formals(list, define)
      helper.needs_compiler(device)
      return kernels.formals(compile(device, "KERNEL void f(" .. list .. ") {}", define).f)
    end

    it("tells pointers that are read from pointers that are written", function()
      assert.are.equal("float *y, const float *x, const i32 *p",
        formals "float *y, const float *x, int const * p")
    end)

    it("takes qualifiers on either side", function()
      local text = formals("EARLY const float *__restrict__ a, float const *const __restrict b, " ..
        "const i32 n, volatile float *v")
      assert.are.equal("const float *a, const float *b, i32 n, float *v", text)
    end)

    it("takes types of several words, in any order", function()
      local text = formals("unsigned a, unsigned long long int b, long unsigned c, signed char d, " ..
        "size_t e, u8 g, short int h")
      assert.are.equal("u32 a, u64 b, u64 c, i8 d, u64 e, u8 g, i16 h", text)
    end)

    it("substitutes types that are given in define, also by way of each other", function()
      local text = formals("W *w, const W *c, N n, P p", { W = "f16", N = "unsigned int", P = "const Q *",
        Q = "float" })
      assert.are.equal("f16 *w, const f16 *c, u32 n, const float *p", text)
    end)

    it("numbers parameters that have no name", function()
      assert.are.equal("const float *p1, i32 p2, u32 p3", formals "const float *, int, unsigned int")
    end)

    it("may be empty", function()
      assert.are.equal("", formals "")
      assert.are.equal("", formals "void")
    end)

    it("is not looked for in comments, strings, continued comments and #if 0", function()
      helper.needs_compiler(device)
      local prog = compile(device, table.concat({
        "// KERNEL void a(int &x) {}", "/* KERNEL void b(int &x) {", "*/",
        "// continued \\", "KERNEL void c(int &x) {}",
        "#if 0", "KERNEL void d(int &x) { don't }", "#endif",
        [[INLINE int length(const char *s) { return s[0] ? 1 : 0; }]],
        "INLINE int text() {",
        [[  return length("KERNEL void e(int &x) {\"") + length(R"x(KERNEL void g(int &) { )" )x")]],
        [[    + '"' + 1'000;]],
        "}",
        "KERNEL void h(i32 *y) { *y = text(); }",
      }, "\n"))
      assert.are.same({ "h" }, prog.kernels)
    end)

    it("follows braces that an #if opens twice, and skips declarations", function()
      helper.needs_compiler(device)
      local prog = compile(device, table.concat({
        "KERNEL void a(i32 n);",
        "KERNEL void a(i32 n) {", "#ifdef ABSENT", "  if (n) {", "#else", "  while (n) {", "#endif",
          "    n = 0;", "  }", "}",
        'extern "C" {', "KERNEL void b(i32 n) {}", "}",
        "KERNEL void NAME(i32 n) {}",
      }, "\n"), { NAME = "c" })
      assert.are.same({ "a", "b", "c" }, prog.kernels)
    end)
  end)
end)

describe("a signature that cannot be read", function()
  local function refuses(name, source, expected, define)
    it("is refused: " .. name, function()
      local said = kernels.refusal(source, define)
      assert(said:find(expected, 1, true), ("expected\n  %s\nin\n  %s"):format(expected, said))
    end)
  end

  refuses("a reference", "KERNEL void f(float &y) {}",
    "k.cu:1: kernel f: parameter 1: a reference cannot be passed: write `const T *` or a value")
  refuses("an array", "KERNEL void f(float y[4]) {}",
    "k.cu:1: kernel f: parameter 1: an array cannot be passed")
  refuses("a default argument", "KERNEL void f(int n = 4) {}",
    "k.cu:1: kernel f: parameter 1: a default argument is not used")
  refuses("a pointer to a pointer", "KERNEL void f(float *y, float **x) {}",
    "k.cu:1: kernel f: parameter 2: a pointer to a pointer cannot be passed: pass the tensors one by one")
  refuses("a structure by value, with the types that are known", "KERNEL void f(float *y,\n  Shape shape) {}",
    "k.cu:2: kernel f: parameter 2: unknown type `Shape` (a structure cannot be passed by value): " ..
      "known are float, double, f16,")
  refuses("a pointer to a structure", "KERNEL void f(struct Shape *s) {}",
    "parameter 1: unknown type `struct Shape`: known are")
  refuses("a template type", "KERNEL void f(vec<float> v) {}",
    "parameter 1: a template type cannot be passed")
  refuses("a function pointer", "KERNEL void f(void (*g)(int)) {}",
    "parameter 1: function pointers, macros and attributes")
  refuses("a variable number of arguments", "KERNEL void f(int n, ...) {}",
    "parameter 2: a variable number of arguments")
  refuses("void as a value", "KERNEL void f(void v) {}", "parameter 1: void is no value: write `void *`")
  refuses("EARLY on a number", "KERNEL void f(EARLY float w) {}",
    "parameter 1: EARLY stands only before a pointer")
  refuses("a parameter of no type", "KERNEL void f(int n,) {}", "parameter 2: no type: expected `type name`")
  refuses("a list that does not end", "KERNEL void f(int n {}",
    "k.cu:1: kernel f: parameter 1: the parameter list does not end")
  refuses("a directive in the list", "KERNEL void f(int n,\n#if A\n int m) {}",
    "k.cu:2: kernel f: parameter 2: a preprocessor directive inside the parameter list")
  refuses("a define that names itself", "KERNEL void f(A n) {}", "parameter 1: define A names itself",
    { A = "B", B = "A" })
  refuses("a result", "KERNEL int f() {}", "k.cu:1: kernel f: returns `int`: a kernel returns void")
  refuses("a template", "\ntemplate <class T>\n__global__ void f(T *y) {}",
    "k.cu:3: kernel f: a template cannot be launched: write the kernel for one type, and give the type in " ..
      "define")
  refuses("a kernel in a namespace", "namespace n {\n__global__ void f(float *y) {}\n}",
    "k.cu:2: kernel f: stands in the namespace of line 1: move it to the top level")
  refuses("a kernel under #if", "#ifdef A\n\nKERNEL void f(float *y) {}\n#endif",
    "k.cu:3: kernel f: stands under the #if of line 1: signatures are read before the preprocessor runs")
  refuses("a kernel made by a macro", "#define MAKE(T) \\\n  KERNEL void f_##T(T *y) {}\nMAKE(float)",
    "k.cu:1: macro MAKE makes a kernel: signatures are read before macros are expanded")
  refuses("a kernel inside braces that stay open",
    "KERNEL void f(float *y) {\n  for (;;) {\n}\nKERNEL void g(float *y) {}",
    "k.cu:4: kernel g: does not stand at the top level: the brace of line 1 is still open")
  refuses("a text that ends too early", "\nKERNEL void f(float *y) {\n  *y = 1;\n",
    "k.cu:2: kernel f: the text ends inside it: a brace is not closed")
  refuses("two kernels of one name", "KERNEL void f() {}\n\n__global__ void f(int n) {}",
    "k.cu:3: kernel f: is defined twice, first in line 1")
  refuses("a source without kernels", "int f(int n);\n",
    "compiling k.cu: it defines no kernel: expected `KERNEL void name(...)")
end)

describe("a kernel that mixes the two vocabularies", function()
  local function refuses(source, expected)
    it("is refused: " .. expected, function()
      local said = kernels.refusal(source)
      assert(said:find("k.cu:2: kernel f: uses " .. expected, 1, true), said)
    end)
  end

  local of_cuda = {
    { "threadIdx", "y[threadIdx.x] = 0;", "write THREAD (or WARP and LANE)" },
    { "blockIdx", "y[blockIdx.x] = 0;", "write BLOCK" },
    { "blockDim", "y[blockDim.x] = 0;", "write THREADS (or WARPS)" },
    { "gridDim", "y[gridDim.x] = 0;", "write BLOCKS" },
    { "warpSize", "y[warpSize] = 0;", "write LANES" },
    { "__shared__", "__shared__ float s[4];", "write SHARED(T, name, n) or DYNAMIC(T, name)" },
    { "__syncthreads", "__syncthreads();", "write barrier()" },
    { "__shfl_xor_sync", "y[0] = __shfl_xor_sync(~0u, y[0], 1);",
      "write warp_sum() or another function of prelude.cuh" },
  }
  for _, row in ipairs(of_cuda) do
    refuses("KERNEL void f(float *y) {\n  " .. row[2] .. "\n}",
      ("%s, CUDA's name, but is declared KERNEL: %s, or declare it __global__"):format(row[1], row[3]))
  end

  for _, name in ipairs { "BLOCK", "WARP", "LANE", "THREAD", "BLOCKS", "WARPS", "LANES", "THREADS" } do
    refuses("__global__ void f(float *y) {\n  y[" .. name .. "] = 0;\n}",
      name .. ", prelude.cuh's name, but is declared __global__: write ")
  end
  for _, call in ipairs { "SHARED(float, s, 4)", "DYNAMIC(float, s)", "barrier()", "y[0] = warp_sum(1)",
    "y[0] = block_sum(1)" } do
    refuses("__global__ void f(float *y) {\n  " .. call .. ";\n}",
      call:match "(%w+_?%w*)%(" .. ", prelude.cuh's name, but is declared __global__: write ")
  end

  -- Here the next refusal proves that the first kernel was accepted, without a compiler.
  local function accepts(name, source, define)
    it("is not one when " .. name, function()
      local said = kernels.refusal(source .. "\nKERNEL void last(int &x) {}", define)
      assert(said:find("kernel last: parameter 1: a reference", 1, true), said)
    end)
  end

  accepts("the source defines the name",
    "#define THREADS 256\n__global__ void f(float *y) { y[THREADS] = 0; }")
  accepts("a constant has the name", "const int BLOCK = 4;\n__global__ void f(float *y) { y[BLOCK] = 0; }")
  accepts("a template has the name",
    "template <int WARP> __device__ int g() { return WARP; }\n__global__ void f(int *y) { *y = WARP; }")
  accepts("define gives the name", "__global__ void f(float *y) { y[BLOCK] = 0; }", { BLOCK = 128 })
  accepts("the name is a member's",
    "__global__ void f(float *y) { cuda::barrier(1); s.WARP = 1; t->barrier(); }")
end)
