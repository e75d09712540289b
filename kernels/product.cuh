/*
 * product.cuh - what kernels that multiply with weight matrices share: what is to be done, activations, rows of weights.
 */
#ifndef RP_PRODUCT
#define RP_PRODUCT

#include "reduce.cuh"

enum { SLICE = 512 }; /* on a GPU: elements whose products are summed by themselves; the slices' sums are added in order */

struct task {
  float *y;
  const float *x, *residual, *gamma;
  const W *w[3];
  i32 rows, n, m, columns; /* columns: of y */
  i32 tile, staged, act;
  float eps, scale;
};

struct rows_of { const float *x; i32 stride, first, count, packed; }; /* one tile of h */

/* ---- activations ---- */

INLINE float8 silu8 (float8 a) { return div8(a, add8(splat8(1), exp8(sub8(splat8(0), a)))); }
INLINE float8 gelu8 (float8 a) {
  return mul8(mul8(splat8(0.5f), a), add8(splat8(1), erf8(mul8(a, splat8(0.70710678f)))));
}
/* 0.5 a (1 + tanh u) = a / (1 + e^-2u), u = sqrt(2 / pi) (a + 0.044715 a^3) */
INLINE float8 gelu_tanh8 (float8 a) {
  float8 u = mul8(splat8(-1.5957691f), fma8(mul8(mul8(a, a), a), splat8(0.044715f), a));
  return div8(a, add8(splat8(1), exp8(u)));
}
INLINE float8 act8 (float8 a, i32 act) {
  switch (act) {
    case 1: return max8(a, splat8(0));
    case 2: return gelu8(a);
    case 3: return gelu_tanh8(a);
    case 4: return silu8(a);
    default: return a;
  }
}
template <int N> INLINE void activate (float *s, i32 act) {
  if (act == 0) return;
  if (N == 1 && act == 1) { s[0] = s[0] > 0.0f ? s[0] : 0.0f; return; }
  UNROLL for (int i = 0; i < N; i += 8) store_part8(s + i, act8(part8(s + i, N - i), act), N - i);
}

/* 1 / sqrt(mean + eps) of a sum of n squares, part = 1 / n. */
INLINE float norm_of (float squares, float part, float eps) { return rsqrtf(squares * part + eps); }

/* ---- rows of weights ---- */

/* No index that only the device knows: an array of parameters would go to memory. */
INLINE const W *matrix_of (const task &t, i32 which) { return which == 0 ? t.w[0] : which == 1 ? t.w[1] : t.w[2]; }

/* The C rows of weights behind the columns of y from j on; past the end the last column again. With a gate the first
 * half are rows of w, the second half the same rows of the gate. */
template <int C, bool GATED> INLINE void pick (const task &t, i32 j, const W **w) {
  i32 of = j < t.m ? 0 : j < 2 * t.m ? 1 : 2, row = j - of * t.m;
  if (!GATED && row + C <= t.m && j + C <= t.columns) { /* neighbours */
    const W *first = matrix_of(t, of) + (size_t)row * (size_t)t.n;
    UNROLL for (int c = 0; c < C; c++) w[c] = first + (size_t)c * (size_t)t.n;
    return;
  }
  UNROLL for (int c = 0; c < C; c++) {
    i32 column = j + (GATED ? c % (C / 2) : c);
    if (column >= t.columns) column = t.columns - 1;
    i32 which = GATED ? c / (C / 2) : column < t.m ? 0 : column < 2 * t.m ? 1 : 2;
    if (!GATED) column -= which * t.m;
    w[c] = matrix_of(t, which) + (size_t)column * (size_t)t.n;
  }
}

#ifdef REPRISE_GPU
/* May all that a product reads be read in packs? */
INLINE bool lies_right (const task &t) {
  i32 packed = packable(t.x, t.n) & packable(t.w[0], t.n);
  if (t.w[1]) packed &= packable(t.w[1], t.n);
  if (t.w[2]) packed &= packable(t.w[2], t.n);
  if (t.gamma) packed &= packable(t.gamma, t.n);
  return packed == t.n;
}

/* What a launch gets that cannot be served. */
INLINE void spoil (const task &t) {
  wait_asked();
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < t.rows * t.columns; i += (i32)(BLOCKS * THREADS)) t.y[i] = NOT_A_NUMBER;
}
#endif

/* The rows that totals takes for R: a GPU's are powers of two. */
template <int R> INLINE constexpr int padded () { return LANES == 1 ? R : R > 4 ? 8 : R > 2 ? 4 : R; }

#endif
