/*
 * reduce.cuh - ends of dot products, and the largest of many with its place; for kernel files, after prelude.cuh.
 *
 *   totals      N open dot products of a warp become N sums, spread so that none is computed twice: on the CPU all are
 *               in s[0 .. N-1]; on a GPU a lane holds one. `held(N)` is the index of s[0], N where a lane holds none.
 *               Each sum has the bits that total() gives, so a row's result does not depend on how many rows there are.
 *   warp_most   warp_max of numbers none of which is nan, -0 among them as 0
 *   best        a value and its id; of equal values the lower id is better, so the order of comparing does not matter
 */
#ifndef RP_REDUCE
#define RP_REDUCE

#include "prelude.cuh"

struct best { float value; i32 id; };
INLINE best better (best a, best b) { return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a; }

#ifdef REPRISE_GPU

#define HELD(N) 1 /* length of s */
INLINE i32 held (i32 n) { return (i32)LANE % (LANES / n) ? n : (i32)LANE / (LANES / n); }

/* rp_n sums are left, over lanes that differ in rp_mask and the bits below it. */
template <int rp_n, int rp_mask> INLINE void rp_fold (partial *p) {
  if constexpr (rp_n == 1) p[0] += __shfl_xor_sync(~0u, p[0], rp_mask);
  UNROLL for (int i = 0; i < rp_n / 2; i++) {
    bool upper = LANE & rp_mask;
    float keep = upper ? p[i + rp_n / 2] : p[i], give = upper ? p[i] : p[i + rp_n / 2];
    p[i] = keep + __shfl_xor_sync(~0u, give, rp_mask);
  }
  if constexpr (rp_mask > 1) rp_fold<(rp_n > 1 ? rp_n / 2 : 1), rp_mask / 2>(p);
}
/* rp_n is a power of two, at most LANES. Each turn a lane gives half of what it has to its partner: 31 exchanges for
 * N = 32, where N sums by themselves take 160. */
template <int rp_n> INLINE void totals (partial *p, float *s) {
  rp_fold<rp_n, LANES / 2>(p);
  s[0] = p[0];
}

#if __CUDA_ARCH__ >= 800
/* Floats in order as integers; both zeros are one. */
INLINE i32 rp_ordered (float x) {
  i32 i = __float_as_int(x + 0.0f);
  return i < 0 ? i ^ 0x7fffffff : i;
}
INLINE float rp_number (i32 i) { return __int_as_float(i < 0 ? i ^ 0x7fffffff : i); }
INLINE float warp_most (float x) { return rp_number(__reduce_max_sync(~0u, rp_ordered(x))); }
INLINE best warp_best (best a) {
  i32 mine = rp_ordered(a.value), most = __reduce_max_sync(~0u, mine);
  best b = {rp_number(most), __reduce_min_sync(~0u, mine == most ? a.id : 0x7fffffff)};
  return b;
}
#else
INLINE float warp_most (float x) { return warp_max(x); }
INLINE best warp_best (best a) {
  UNROLL for (int m = LANES / 2; m; m /= 2) {
    best b = {__shfl_xor_sync(~0u, a.value, m), __shfl_xor_sync(~0u, a.id, m)};
    a = better(a, b);
  }
  return a;
}
#endif
INLINE best block_best (best a) { /* two barriers: the scratch may be used again at once */
  __shared__ best part[32];
  a = warp_best(a);
  if (LANE == 0) part[WARP] = a;
  barrier();
  a = warp_best(part[LANE < WARPS ? LANE : 0]);
  barrier();
  return a;
}

#else

#define HELD(N) (N)
INLINE i32 held (i32) { return 0; }

/* Eight at a time by adding halves of pairs, the same additions as sum8 does: 21 steps for eight, not 48. */
#ifdef RP_WIDE
INLINE rp_f32x4 rp_total4 (const float8 *p) {
  rp_f32x4 s[4], a[2];
  for (int i = 0; i < 4; i++) s[i] = p[i].lo + p[i].hi;
  for (int i = 0; i < 2; i++) /* a[i]: 0+2 1+3 of s[2 i], then of the next */
    a[i] = RP_SHUFFLE4(s[2 * i], s[2 * i + 1], 0, 1, 4, 5) + RP_SHUFFLE4(s[2 * i], s[2 * i + 1], 2, 3, 6, 7);
  return RP_SHUFFLE4(a[0], a[1], 0, 2, 4, 6) + RP_SHUFFLE4(a[0], a[1], 1, 3, 5, 7);
}
INLINE float8 rp_total8 (const float8 *p) { return {rp_total4(p), rp_total4(p + 4)}; }
INLINE float8 rp_firsts (float8 a, float8 b) { return {a.lo, b.lo}; }
INLINE float8 rp_lasts (float8 a, float8 b) { return {a.hi, b.hi}; }
#elif defined __clang__ || __GNUC__ >= 12
INLINE float8 rp_total8 (const float8 *p) {
  float8 a[4], b[2];
  for (int i = 0; i < 4; i++) /* a[i]: 0+4 1+5 2+6 3+7 of p[i], then of p[i + 4] */
    a[i] = __builtin_shufflevector(p[i], p[i + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(p[i], p[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  for (int i = 0; i < 2; i++)
    b[i] = __builtin_shufflevector(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  return __builtin_shufflevector(b[0], b[1], 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(b[0], b[1], 1, 9, 3, 11, 5, 13, 7, 15);
}
INLINE float8 rp_firsts (float8 a, float8 b) { return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11); }
INLINE float8 rp_lasts (float8 a, float8 b) { return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15); }
#else
INLINE float8 rp_total8 (const float8 *p) {
  float s[8];
  for (int i = 0; i < 8; i++) s[i] = sum8(p[i]);
  return load8(s);
}
INLINE float8 rp_firsts (float8 a, float8 b) { return (float8){a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]}; }
INLINE float8 rp_lasts (float8 a, float8 b) { return (float8){a[4], a[5], a[6], a[7], b[4], b[5], b[6], b[7]}; }
#endif
template <int rp_n> INLINE void totals (partial *p, float *s) {
  int i = 0;
  for (; i + 8 <= rp_n; i += 8) store8(s + i, rp_total8(p + i));
  for (; i < rp_n; i++) s[i] = sum8(p[i]);
}

INLINE float warp_most (float x) { return x; }
INLINE best warp_best (best a) { return a; }
INLINE best block_best (best a) { return a; }

#endif
#endif
