/*
 * prelude_gpu.cuh - prelude.cuh's words on a GPU, where they are CUDA's.
 */
#ifndef RP_PRELUDE_GPU
#define RP_PRELUDE_GPU

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
/* ready_now(i): i, a place in memory, is known here and not only where it is used; ready_at(p) likewise, for an address
 * that is read behind the wait. */
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
INLINE void ready_at (const void *p) { prefetch(p); } /* what is used here is not computed later */
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
INLINE void ready_at (const void *) {}
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

INLINE bool block_any (bool x) { return __syncthreads_or(x); } /* a barrier */

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

#endif
