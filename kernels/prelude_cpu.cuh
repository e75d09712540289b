/*
 * prelude_cpu.cuh - prelude.cuh's words on the CPU: a block is one thread, barriers vanish, packs are the compiler's vectors.
 */
#ifndef RP_PRELUDE_CPU
#define RP_PRELUDE_CPU

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
INLINE float8 rp_of8 (float a, float b, float c, float d, float e, float f, float g, float h) {
  return (float8){a, b, c, d, e, f, g, h};
}
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
  if (count >= 8) return store8(p, a);
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
INLINE bool block_any (bool x) { return x; }

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
