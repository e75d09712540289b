/*
 * prelude.cuh - the whole vocabulary of a kernel file: one C++17 text for NVRTC and for the host's compiler.
 *
 * KERNEL is a promise: right for any 1-D grid and any block of whole warps, where on the CPU a block is one thread and
 * all counts inside it are 1. So loops step by BLOCKS, WARPS, THREADS or LANES, sums go through warp_sum and block_sum,
 * and barrier, block_sum, last_block and wait_previous are reached by all threads of a block or by none.
 *
 *   where am I       BLOCK of BLOCKS, WARP of WARPS in the block, THREAD of THREADS in the block, LANE of LANES
 *   my part          span s = share(n): s.first to s.last - 1 of 0 .. n-1 are this block's, neighbours together
 *   memory           SHARED(type, name, count), DYNAMIC(type, name) for the bytes that the launch asks for, barrier()
 *   signatures       const T * is only read, T * is read and written; WAITS: every thread calls wait_previous() before
 *                    it touches memory; what EARLY parameters point to may be read above it: weights, and what was
 *                    there before the graph. release_next() comes after it
 *   storage          f16 and bf16 hold numbers, float computes: to_f32(x), to_f16(x), to_bf16(x); to_f16 rounds to
 *                    nearest even and saturates at 65504
 *   packs of eight   load8, weight8 (EARLY parameters only), store8; part8 and store_part8 move up to eight, and read
 *                    zeros for the rest; splat8, add8, sub8, mul8, div8, fma8, max8, exp8, tanh8, erf8, sum8, most8;
 *                    at8(v, i) is one of them, i a constant after unrolling; hold8(v) is v, in a register: what is used
 *                    more than once is not loaded again each time
 *                    asked8<T> a = ask8(p) (EARLY parameters only) asks for a pack, widen8(a) waits for it and unpacks;
 *                    ask_state8(p) likewise, for EARLY parameters that the kernel writes elsewhere;
 *                    wait_asked() is wait_previous() with packs on their way: they are asked for before it, not after;
 *                    prefetch(p) asks for the memory at p, which need not be ours, prefetch_far(p) not for the nearest
 *                    cache; only for EARLY parameters
 *   dot products     partial p = none(); p = dot8(x, w, p); total(p) is the sum over the warp
 *   sums, maxima     warp_sum, warp_max, block_sum, block_max; the same bits in all threads
 *   whole grid       last_block(count): true in the block that arrives last, with all that the others wrote visible
 *   the host         publish(ring, number, value)
 *
 * A pointer is read in packs where it lies on 16 bytes: `packable(p, n)` says how much of every row of n may be.
 * Never __restrict__ on what a graph writes: the compiler then moves or merges loads across wait_previous().
 */
#ifndef RP_PRELUDE
#define RP_PRELUDE

#define WAITS /* before KERNEL */
#define EARLY /* before a const parameter */

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef struct { u16 bits; } f16;
typedef struct { u16 bits; } bf16;

#if defined(__CUDACC__) || defined(RP_SIMT) /* a GPU's compiler, or a CPU that plays one (REPRISE_SIMT): cuda.cuh */

/* ---- on a GPU: the words are CUDA's ---- */

#define REPRISE_GPU 1
#define KERNEL extern "C" __global__
#define INLINE static __device__ __forceinline__
#define APART INLINE
#define SHARED(T, name, n) __shared__ __align__(16) T name[n]
#define DYNAMIC(T, name) extern __shared__ __align__(16) u8 rp_dynamic[]; T *name = (T *)rp_dynamic
enum { LANES = 32 };
#define LANE (threadIdx.x & 31u)
#define WARP (threadIdx.x >> 5)
#define WARPS (blockDim.x >> 5)
#define THREAD threadIdx.x
#define THREADS blockDim.x
#define BLOCK blockIdx.x
#define BLOCKS gridDim.x
#define INF __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")

#define barrier() __syncthreads()
/* ready_now(i): i, a place in memory, is known here and not only where it is used. */
#if __CUDA_ARCH__ >= 900
#define wait_previous() asm volatile("griddepcontrol.wait;" ::: "memory")
/* The way out is never taken: it ends a basic block, or ptxas would move the wait above what stands before it. */
#define wait_asked() \
  asm volatile("{ .reg .pred never; setp.eq.u32 never, %0, 0; @never exit; }\n\tgriddepcontrol.wait;" \
               :: "r"(gridDim.x) : "memory")
#define rp_release() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#if REPRISE_PDL_STRESS
/* Warps fall behind by up to 32 us, each by a time of its own, once the next kernel may begin: what that reads before its
 * wait, or writes too early, is then seen in the results. */
#define release_next() \
  do { \
    rp_release(); \
    u32 ns = ((u32)clock() ^ blockIdx.x * 0x9e3779b9u ^ threadIdx.x >> 5) * 0x85ebca6bu; \
    __nanosleep(ns >> 17); \
  } while (0)
#else
#define release_next() rp_release()
#endif
#else
#define wait_previous() ((void)0)
#define wait_asked() ((void)0)
#define release_next() ((void)0)
#endif

typedef struct { float v[8]; } float8;
#define RP_EACH UNROLL for (int i = 0; i < 8; i++)
#define at8(a, i) ((a).v[i])

#ifdef __CUDA_ARCH__
INLINE float rp_half (u32 bits) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((u16)bits)); return f; }
INLINE u16 rp_half_bits (float x) { u16 bits; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); return bits; }
INLINE uint4 rp_words (const void *p) { return *(const uint4 *)p; } /* 16 bytes as four words */
INLINE uint4 rp_words_once (const void *p) { /* read-only path; not kept in L1 */
  uint4 a;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w) : "l"(p));
  return a;
}
INLINE uint4 rp_ask (const void *p) { /* volatile, or the compiler asks when it is needed */
  uint4 a;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w) : "l"(p));
  return a;
}
INLINE uint4 rp_ask_state (const void *p) { /* the same by the coherent path */
  uint4 a;
  asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a.x), "=r"(a.y), "=r"(a.z), "=r"(a.w) : "l"(p));
  return a;
}
INLINE void ready_now (size_t &i) { asm volatile("" : "+l"(i)); }
INLINE void prefetch (const void *p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }
INLINE void rp_store_system (u64 *p, u64 x) { asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(p), "l"(x) : "memory"); }
#else /* on the CPU device, which plays a GPU: see REPRISE_SIMT */
RP_DYNAMIC("rp_dynamic", "_ZTH10rp_dynamic")
INLINE float rp_half (u32 bits) { /* times 2^-112 puts the exponent right, subnormals too */
  u32 u = (bits & 0x7fffu) << 13;
  float f = (bits & 0x7c00u) == 0x7c00u ? __uint_as_float(u | 0x7f800000u) : __uint_as_float(u) * 0x1p112f;
  return bits & 0x8000u ? -f : f;
}
INLINE u16 rp_half_bits (float x) { /* to nearest even; the exponent of what is small is lifted until bits fall off */
  u32 u = __float_as_uint(x), sign = u >> 16 & 0x8000u;
  u &= 0x7fffffffu;
  if (u >= 0x47800000u) return (u16)(sign | (u > 0x7f800000u ? 0x7fffu : 0x7c00u));
  if (u < 0x38800000u) return (u16)(sign | __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u);
  return (u16)(sign | (u + 0xc8000fffu + (u >> 13 & 1u)) >> 13);
}
INLINE uint4 rp_words (const void *p) {
  if ((u64)p & 15) rp_now.trap(rp_now.crew, "16 bytes are read from an address that is not a multiple of 16");
  return *(const uint4 *)p;
}
INLINE uint4 rp_words_once (const void *p) { return rp_words(p); }
INLINE uint4 rp_ask (const void *p) { return rp_words(p); }
INLINE uint4 rp_ask_state (const void *p) { return rp_words(p); }
INLINE void ready_now (size_t &) {}
INLINE void prefetch (const void *) {}
INLINE void rp_store_system (u64 *p, u64 x) { __atomic_store_n(p, x, __ATOMIC_RELAXED); }
#endif

INLINE float to_f32 (float x) { return x; }
INLINE float to_f32 (f16 x) { return rp_half(x.bits); }
INLINE float to_f32 (bf16 x) { return __uint_as_float((u32)x.bits << 16); }

INLINE f16 to_f16 (float x) {
  x = x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; /* not fminf: that would lose a nan */
  f16 h = {rp_half_bits(x)};
  return h;
}

INLINE bf16 to_bf16 (float x) {
  u32 u = __float_as_uint(x);
  bf16 b = {(u16)(x != x ? u >> 16 | 64u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
  return b;
}

/* words as floats; the last argument only says which type */
INLINE float8 rp_widen (uint4 a, uint4 b) {
  u32 u[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  float8 r;
  RP_EACH r.v[i] = __uint_as_float(u[i]);
  return r;
}
INLINE float8 rp_widen (uint4 a, const f16 *) {
  u32 u[4] = {a.x, a.y, a.z, a.w};
  float8 r;
  RP_EACH r.v[i] = rp_half(u[i / 2] >> 16 * (i & 1));
  return r;
}
INLINE float8 rp_widen (uint4 a, const bf16 *) {
  u32 u[4] = {a.x, a.y, a.z, a.w};
  float8 r;
  RP_EACH r.v[i] = __uint_as_float(i & 1 ? u[i / 2] & 0xffff0000u : u[i / 2] << 16);
  return r;
}

INLINE float8 load8 (const float *p) { return rp_widen(rp_words(p), rp_words(p + 4)); }
INLINE float8 load8 (const f16 *p) { return rp_widen(rp_words(p), p); }
INLINE float8 load8 (const bf16 *p) { return rp_widen(rp_words(p), p); }
INLINE float8 weight8 (const float *p) { return rp_widen(rp_words_once(p), rp_words_once(p + 4)); }
INLINE float8 weight8 (const f16 *p) { return rp_widen(rp_words_once(p), p); }
INLINE float8 weight8 (const bf16 *p) { return rp_widen(rp_words_once(p), p); }

/* A pack of weights on its way: nothing waits for it until widen8. */
template <class rp_t> struct asked8 { uint4 words[sizeof(rp_t) / 2]; };
template <class rp_t> INLINE asked8<rp_t> ask8 (const rp_t *p) { return {rp_ask(p)}; }
INLINE asked8<float> ask8 (const float *p) { return {rp_ask(p), rp_ask(p + 4)}; }
template <class rp_t> INLINE asked8<rp_t> ask_state8 (const rp_t *p) { return {rp_ask_state(p)}; }
INLINE asked8<float> ask_state8 (const float *p) { return {rp_ask_state(p), rp_ask_state(p + 4)}; }
template <class rp_t> INLINE float8 widen8 (asked8<rp_t> a) { return rp_widen(a.words[0], (const rp_t *)nullptr); }
INLINE float8 widen8 (asked8<float> a) { return rp_widen(a.words[0], a.words[1]); }

INLINE void prefetch_far (const void *p) { prefetch(p); }

INLINE void store8 (float *p, float8 a) {
  ((float4 *)p)[0] = make_float4(a.v[0], a.v[1], a.v[2], a.v[3]);
  ((float4 *)p)[1] = make_float4(a.v[4], a.v[5], a.v[6], a.v[7]);
}
INLINE u32 rp_pair (u16 lo, u16 hi) { return (u32)hi << 16 | lo; }
INLINE void store8 (f16 *p, float8 a) {
  u16 h[8];
  RP_EACH h[i] = to_f16(a.v[i]).bits;
  *(uint4 *)p = make_uint4(rp_pair(h[0], h[1]), rp_pair(h[2], h[3]), rp_pair(h[4], h[5]), rp_pair(h[6], h[7]));
}
INLINE void store8 (bf16 *p, float8 a) {
  u16 h[8];
  RP_EACH h[i] = to_bf16(a.v[i]).bits;
  *(uint4 *)p = make_uint4(rp_pair(h[0], h[1]), rp_pair(h[2], h[3]), rp_pair(h[4], h[5]), rp_pair(h[6], h[7]));
}
template <class rp_t> INLINE float8 part8 (const rp_t *p, i32 count) {
  float8 r;
  RP_EACH r.v[i] = i < count ? to_f32(p[i]) : 0.0f;
  return r;
}
INLINE void store_part8 (float *p, float8 a, i32 count) { RP_EACH if (i < count) p[i] = a.v[i]; }
INLINE void store_part8 (f16 *p, float8 a, i32 count) { RP_EACH if (i < count) p[i] = to_f16(a.v[i]); }
INLINE void store_part8 (bf16 *p, float8 a, i32 count) { RP_EACH if (i < count) p[i] = to_bf16(a.v[i]); }

INLINE float8 hold8 (float8 a) { return a; }
INLINE float8 splat8 (float x) { float8 r; RP_EACH r.v[i] = x; return r; }
INLINE float8 add8 (float8 a, float8 b) { RP_EACH a.v[i] += b.v[i]; return a; }
INLINE float8 sub8 (float8 a, float8 b) { RP_EACH a.v[i] -= b.v[i]; return a; }
INLINE float8 mul8 (float8 a, float8 b) { RP_EACH a.v[i] *= b.v[i]; return a; }
INLINE float8 div8 (float8 a, float8 b) { RP_EACH a.v[i] /= b.v[i]; return a; }
INLINE float8 fma8 (float8 a, float8 b, float8 c) { RP_EACH c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]); return c; }
INLINE float8 max8 (float8 a, float8 b) { RP_EACH a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i]; return a; }
#define rsqrtf(x) __frsqrt_rn(x) /* rounded to nearest: the plain one is two units off, and a norm scales all by it */
INLINE float8 exp8 (float8 a) { RP_EACH a.v[i] = expf(a.v[i]); return a; }
INLINE float8 tanh8 (float8 a) { RP_EACH a.v[i] = tanhf(a.v[i]); return a; }
INLINE float8 erf8 (float8 a) { RP_EACH a.v[i] = erff(a.v[i]); return a; }
INLINE float sum8 (float8 a) {
  return ((a.v[0] + a.v[4]) + (a.v[2] + a.v[6])) + ((a.v[1] + a.v[5]) + (a.v[3] + a.v[7]));
}
INLINE float most8 (float8 a) {
  float m = a.v[0];
  RP_EACH m = fmaxf(m, a.v[i]);
  return m;
}

template <class rp_t> INLINE i32 packable (const rp_t *p, i32 n) { return ((u64)p | (u64)n * sizeof(rp_t)) & 15 ? 0 : n & ~7; }

INLINE float warp_sum (float x) {
  UNROLL for (int m = LANES / 2; m; m /= 2) x += __shfl_xor_sync(~0u, x, m);
  return x;
}
INLINE float warp_max (float x) {
  UNROLL for (int m = LANES / 2; m; m /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
  return x;
}
/* Two barriers each: the scratch may be used again at once. */
INLINE float block_sum (float x) {
  __shared__ float part[32];
  x = warp_sum(x);
  if (LANE == 0) part[WARP] = x;
  barrier();
  x = warp_sum(LANE < WARPS ? part[LANE] : 0.0f);
  barrier();
  return x;
}
INLINE float block_max (float x) {
  __shared__ float part[32];
  x = warp_max(x);
  if (LANE == 0) part[WARP] = x;
  barrier();
  x = warp_max(LANE < WARPS ? part[LANE] : -INF);
  barrier();
  return x;
}

/* A lane's share of a dot product is one float here: many may be open at once. */
typedef float partial;
INLINE partial none () { return 0.0f; }
INLINE partial dot8 (float8 x, float8 w, partial p) { RP_EACH p = fmaf(x.v[i], w.v[i], p); return p; }
INLINE float total (partial p) { return warp_sum(p); }

/* *count is 0 before and after; one counter serves one kernel at a time. */
INLINE int last_block (u32 *count) {
  __shared__ u32 arrived;
  barrier();
  if (THREAD == 0) {
    __threadfence();
    arrived = BLOCKS == 1 ? 1 : atomicAdd(count, 1u) + 1;
    if (arrived == BLOCKS) { *count = 0; __threadfence(); }
  }
  barrier();
  return arrived == BLOCKS;
}

/* One aligned 8-byte store into mapped host memory, read whole by the polling host: no fence, no order is needed.
 * number = epoch << 16 | step, so at most 65,535 steps. */
INLINE void publish (u64 *ring, u32 number, u32 value) {
  rp_store_system(ring, (u64)number << 32 | value);
}

#else

/* ---- on the CPU: a block is one thread, barriers vanish, packs are the compiler's vectors ---- */

#include "host_math.cuh"

#ifdef __clang__ /* fuse a * b + c where it is written, not where the optimizer happens to find it: one result everywhere */
#pragma STDC FP_CONTRACT ON
#endif

#define KERNEL static
#define INLINE static inline __attribute__((always_inline, unused))
#define APART static __attribute__((noinline, unused)) /* a function that has all registers for itself */
#define SHARED(T, name, n) T name[n] __attribute__((aligned(64)))
#define DYNAMIC(T, name) T *name = (T *)rp_here.dynamic
enum : i32 { LANES = 1 };
static const u32 LANE = 0, WARP = 0, WARPS = 1, THREAD = 0, THREADS = 1;
struct rp_place { u32 block, blocks; void *dynamic; };
static thread_local rp_place rp_here; /* set by the code that the runtime appends */
#define BLOCK rp_here.block
#define BLOCKS rp_here.blocks
#define INF INFINITY
#define NOT_A_NUMBER NAN
#define UNROLL
#define ROLLED
#define rsqrtf(x) (1.0f / sqrtf(x))

#define barrier() ((void)0)
#define wait_previous() ((void)0)
#define wait_asked() ((void)0)
#define release_next() ((void)0)

typedef float rp_f32x4 __attribute__((vector_size(16)));
typedef i16 rp_i16x8 __attribute__((vector_size(16)));
typedef u16 rp_u16x8 __attribute__((vector_size(16)));
INLINE u32 rp_bits (float x) { u32 u; __builtin_memcpy(&u, &x, 4); return u; }
INLINE float rp_float (u32 u) { float x; __builtin_memcpy(&x, &u, 4); return x; }

#ifdef __AVX2__
typedef float float8 __attribute__((vector_size(32)));
typedef i32 rp_i32x8 __attribute__((vector_size(32)));
typedef u32 rp_u32x8 __attribute__((vector_size(32)));
#define at8(a, i) ((a)[i])
INLINE float8 load8 (const float *p) { float8 v; __builtin_memcpy(&v, p, 32); return v; }
INLINE void store8 (float *p, float8 a) { __builtin_memcpy(p, &a, 32); }
INLINE float8 splat8 (float x) { return (float8){x, x, x, x, x, x, x, x}; }
INLINE rp_u32x8 rp_all (u32 x) { return (rp_u32x8){} + x; }
INLINE rp_i32x8 rp_whole (float8 a) { return __builtin_convertvector(a, rp_i32x8); }
INLINE rp_u16x8 rp_shorts (rp_u32x8 a) { return __builtin_convertvector(a, rp_u16x8); }
#ifndef __clang__ /* g++ 12 makes six instructions of the conversion, where one will do */
INLINE rp_u32x8 rp_tops (rp_u16x8 h) { return (rp_u32x8)__builtin_ia32_pmovzxwd256((rp_i16x8)h) << 16; }
#else
INLINE rp_u32x8 rp_tops (rp_u16x8 h) { return __builtin_convertvector(h, rp_u32x8) << 16; }
#endif
#else
#include "wide.cuh"
#endif

INLINE float8 rp_pick (rp_i32x8 mask, float8 yes, float8 no) { /* mask: all ones or zero */
  return (float8)(((rp_i32x8)yes & mask) | ((rp_i32x8)no & ~mask));
}
INLINE rp_u16x8 rp_load (const void *p) { rp_u16x8 h; __builtin_memcpy(&h, p, 16); return h; }

#ifdef __AVX2__
INLINE float8 hold8 (float8 a) { __asm__("" : "+x"(a)); return a; }
#else
INLINE float8 hold8 (float8 a) { return a; }
#endif
INLINE float8 add8 (float8 a, float8 b) { return a + b; }
INLINE float8 sub8 (float8 a, float8 b) { return a - b; }
INLINE float8 mul8 (float8 a, float8 b) { return a * b; }
INLINE float8 div8 (float8 a, float8 b) { return a / b; }
INLINE float8 fma8 (float8 a, float8 b, float8 c) { return a * b + c; }
INLINE float8 max8 (float8 a, float8 b) { return rp_pick(a > b, a, b); }

INLINE bool rp_unusual (rp_u16x8 h) { /* is one of them, as f16, infinite or nan? */
#ifdef __SSE2__
  typedef char chars __attribute__((vector_size(16)));
  return __builtin_ia32_pmovmskb128((chars)((h & 0x7c00) == 0x7c00));
#else
  i64 any[2];
  h = (rp_u16x8)((h & 0x7c00) == 0x7c00);
  __builtin_memcpy(any, &h, 16);
  return any[0] | any[1];
#endif
}
/* f16: a product with a power of two moves the exponent, and makes subnormals right by itself */
INLINE float8 rp_widen (rp_u16x8 h) {
  rp_i32x8 x = (rp_i32x8)rp_tops(h) >> 3 & (i32)0x8fffe000; /* the sign stays in its place, the rest goes three bits down */
  float8 v = (float8)x * 0x1p112f;
  if (__builtin_expect(!rp_unusual(h), 1)) return v;
  return (float8)((rp_i32x8)v | (((x & 0x7fffffff) > (rp_i32x8)rp_all(0x0f7fffff)) & 0x7f800000));
}
/* and back: above 2^-14 round the mantissa by hand; below, adding 0.5 lets the addition round to f16's last place */
INLINE rp_u16x8 rp_narrow (float8 x) {
  rp_u32x8 u = (rp_u32x8)x, m = u & 0x7fffffff, top = rp_all(0x477fe000);
  m = (rp_u32x8)rp_pick((rp_i32x8)m > (rp_i32x8)top, (float8)top, (float8)m);
  rp_u32x8 large = (m + 0xfff + (m >> 13 & 1) - 0x38000000u) >> 13;
  rp_u32x8 small = (rp_u32x8)((float8)m + 0.5f) - 0x3f000000u;
  rp_u32x8 r = (rp_u32x8)rp_pick((rp_i32x8)m < (rp_i32x8)rp_all(0x38800000), (float8)small, (float8)large);
  r = (rp_u32x8)rp_pick(x != x, (float8)rp_all(0x7e00), (float8)r);
  return rp_shorts(r | (u >> 16 & 0x8000));
}

INLINE float8 load8 (const bf16 *p) { return (float8)rp_tops(rp_load(p)); }
INLINE void store8 (bf16 *p, float8 a) {
  rp_u32x8 u = (rp_u32x8)a, r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  r = (rp_u32x8)rp_pick(a != a, (float8)(u >> 16 | 64), (float8)r);
  rp_u16x8 h = rp_shorts(r);
  __builtin_memcpy(p, &h, 16);
}
INLINE float8 rp_clamp (float8 a) { /* to f16's range */
  float8 top = splat8(65504.0f);
  return rp_pick(a > top, top, rp_pick(a < -top, -top, a));
}
#if defined __F16C__ && defined __AVX2__
INLINE float8 load8 (const f16 *p) { return (float8)__builtin_ia32_vcvtph2ps256((rp_i16x8)rp_load(p)); }
INLINE void store8 (f16 *p, float8 a) {
  a = rp_clamp(a);
  rp_i16x8 h = (rp_i16x8)__builtin_ia32_vcvtps2ph256(a, 0);
  __builtin_memcpy(p, &h, 16);
}
#elif defined __aarch64__ /* g++ 12 converts its own vectors of __fp16 number by number */
INLINE float8 load8 (const f16 *p) {
  rp_u16x8 h = rp_load(p);
  float8 a;
  __asm__("fcvtl %0.4s, %1.4h" : "=w"(a.lo) : "w"(h));
  __asm__("fcvtl2 %0.4s, %1.8h" : "=w"(a.hi) : "w"(h));
  return a;
}
INLINE void store8 (f16 *p, float8 a) {
  a = rp_clamp(a);
  rp_u16x8 h;
  __asm__("fcvtn %0.4h, %1.4s" : "=w"(h) : "w"(a.lo));
  __asm__("fcvtn2 %0.8h, %1.4s" : "+w"(h) : "w"(a.hi));
  __builtin_memcpy(p, &h, 16);
}
#else
INLINE float8 load8 (const f16 *p) { return rp_widen(rp_load(p)); }
INLINE void store8 (f16 *p, float8 a) { rp_u16x8 h = rp_narrow(a); __builtin_memcpy(p, &h, 16); }
#endif
template <class rp_t> INLINE float8 weight8 (const rp_t *p) { return load8(p); }
template <class rp_t> struct asked8 { const rp_t *p; };
template <class rp_t> INLINE asked8<rp_t> ask8 (const rp_t *p) { return {p}; }
template <class rp_t> INLINE float8 widen8 (asked8<rp_t> a) { return load8(a.p); }
INLINE void prefetch (const void *p) { __builtin_prefetch(p, 0, 3); }
INLINE void prefetch_far (const void *p) { __builtin_prefetch(p, 0, 2); }
template <class rp_t> INLINE float8 part8 (const rp_t *p, i32 count) {
  if (count >= 8) return load8(p);
  rp_t some[8] = {};
  for (i32 i = 0; i < count; i++) some[i] = p[i];
  return load8(some);
}
template <class rp_t> INLINE void store_part8 (rp_t *p, float8 a, i32 count) {
  rp_t some[8];
  store8(some, a);
  for (i32 i = 0; i < count && i < 8; i++) p[i] = some[i];
}

INLINE float to_f32 (float x) { return x; }
INLINE float to_f32 (bf16 x) { return rp_float((u32)x.bits << 16); }
INLINE float to_f32 (f16 x) {
  u32 m = x.bits & 0x7fffu;
  return rp_float(rp_bits(rp_float(m << 13) * 0x1p112f) | (m >= 0x7c00 ? 0x7f800000u : 0u) | (x.bits & 0x8000u) << 16);
}
INLINE f16 to_f16 (float x) { f16 h[8]; store8(h, splat8(x)); return h[0]; }
INLINE bf16 to_bf16 (float x) { bf16 h[8]; store8(h, splat8(x)); return h[0]; }

INLINE float sum8 (float8 a) { /* (((0+4) + (2+6)) + ((1+5) + (3+7))) */
  rp_f32x4 half[2];
  __builtin_memcpy(half, &a, 32);
  rp_f32x4 s = half[0] + half[1];
  return (s[0] + s[2]) + (s[1] + s[3]);
}
INLINE float most8 (float8 a) {
  float m = at8(a, 0);
  for (int i = 1; i < 8; i++) m = at8(a, i) > m ? at8(a, i) : m;
  return m;
}

/* e^x = 2^n e^r, |r| <= ln 2 / 2, e^r = 1 + r + r^2 q(r); q is a minimax fit of ours. Within 2 units of the last
 * place; 0 below -87.33 (no subnormals), infinite above 88.7228, nan stays. */
INLINE float8 exp8 (float8 x) {
  float8 low = splat8(-87.33f), high = splat8(88.72283f);
  float8 c = rp_pick(x < low, low, rp_pick(x > high, high, x));
  float8 n = (c * 1.44269504f + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23: rounds to an integer */
  float8 r = c - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float8 q = ((((r * 1.3901285e-3f) + 8.3631404e-3f) * r + 4.1666853e-2f) * r + 1.6666577e-1f) * r + 0.5f;
  float8 e = (r * r) * q + r + 1.0f;
  rp_i32x8 k = rp_whole(n), k2 = k >> 1; /* in two steps: 2^128 is no float */
  e = e * (float8)((k2 + 127) << 23) * (float8)((k - k2 + 127) << 23);
  return rp_pick(x != x, x, rp_pick(x < low, splat8(0), rp_pick(x > high, splat8(INF), e)));
}
/* |x| < 0.6: x + x^3 p(x^2), a minimax fit of ours; else 1 - 2 / (e^2|x| + 1). Within 3 units of the last place. */
INLINE float8 tanh8 (float8 x) {
  float8 a = (float8)((rp_u32x8)x & 0x7fffffffu), z = x * x;
  float8 p = ((((z * -5.6027405e-3f) + 2.0539940e-2f) * z - 5.3705321e-2f) * z + 1.3330932e-1f) * z - 3.3333252e-1f;
  float8 large = 1.0f - 2.0f / (exp8(a + a) + 1.0f);
  large = (float8)((rp_u32x8)large | ((rp_u32x8)x & 0x80000000u));
  return rp_pick(a < splat8(0.6f), x + x * z * p, large);
}
INLINE float8 erf8 (float8 x) {
  float v[8];
  store8(v, x);
  for (int i = 0; i < 8; i++) v[i] = erff(v[i]);
  return load8(v);
}

template <class rp_t> INLINE i32 packable (const rp_t *, i32 n) { return n & ~7; } /* rows may lie anywhere */

INLINE float warp_sum (float x) { return x; }
INLINE float warp_max (float x) { return x; }
INLINE float block_sum (float x) { return x; }
INLINE float block_max (float x) { return x; }

/* A dot product stays eight sums wide to its end here. */
typedef float8 partial;
INLINE partial none () { return splat8(0); }
INLINE partial dot8 (float8 x, float8 w, partial p) { return x * w + p; }
INLINE float total (partial p) { return sum8(p); }

INLINE int last_block (u32 *count) {
  if (__atomic_add_fetch(count, 1u, __ATOMIC_ACQ_REL) != BLOCKS) return 0;
  __atomic_store_n(count, 0u, __ATOMIC_RELEASE);
  return 1;
}
INLINE void publish (u64 *ring, u32 number, u32 value) {
  __atomic_store_n(ring, (u64)number << 32 | value, __ATOMIC_RELAXED);
}

#endif

/* ---- on both ---- */

struct span { i32 first, last; };
INLINE span share (i32 n) {
  u32 b = BLOCK, all = BLOCKS;
  if ((u32)n < 1 << 15 && all < 1 << 15) { /* a GPU divides 64 bits by a long function */
    span s = {(i32)((u32)n * b / all), (i32)((u32)n * (b + 1) / all)};
    return s;
  }
  span s = {(i32)((i64)n * b / all), (i32)((i64)n * (b + 1) / all)};
  return s;
}

#endif
