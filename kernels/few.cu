/*
 * few.cu - linear.cu's products for one to eight rows on a GPU, made for the speed at which weights arrive.
 *
 *   what a lane asks for:  | unit u, k: columns 0 .. C-1, a few packs of each | the same, further on in k | unit u + WARPS ...
 *   rows in shared memory: | first halves of packs 0 .. 31 | second halves | those of packs 32 .. 63 | ...
 *
 * A warp takes units of C columns, its lanes side by side along n. DEPTH packs a lane are always on their way, the first
 * from before the wait on; as one is used, its successor is asked for. The halves of a row's packs lie apart, so that
 * lanes read neighbouring banks. Sums are made in the order of linear.cu's tiles: the bits are the same.
 *
 * Formulas and shapes: linear.cu. ROWS: 1, 2, 4, 5 or 8, at least `rows`. n is a multiple of eight, and x, gamma and the
 * weights lie on 16 bytes; else y becomes nan. wide: columns of y a warp takes at a time: 1 (ROWS 1, or a gate), 2 or 4.
 * Launch: any grid and block, shared = 4 * rows * (n rounded up to 256) bytes. y may be residual, but not overlap x.
 */
#include "product.cuh"

enum { DEPTH = 16 / sizeof(W), STEP = LANES * 8 }; /* packs of a lane on their way; elements of a row a warp takes at once */

INLINE i32 few_stride (i32 n) { return (n + STEP - 1) / STEP * STEP; }

/* ---- rows */

INLINE float *half_of (float *row, i32 k) { return row + (k & -STEP) + (k & (STEP - 1)) / 2; }
INLINE float8 row8 (float *row, i32 k) {
  float4 *at = (float4 *)half_of(row, k), a = at[0], b = at[STEP / 8];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}
INLINE void store_row8 (float *row, i32 k, float8 v) {
  float4 *at = (float4 *)half_of(row, k);
  at[0] = make_float4(v.v[0], v.v[1], v.v[2], v.v[3]);
  at[STEP / 8] = make_float4(v.v[4], v.v[5], v.v[6], v.v[7]);
}

/* 1 / sqrt(mean(x^2) + eps), as `stage` of linear.cu adds it up. Four loads are on their way together. */
INLINE float norm_of (const float *x, i32 n, float eps) {
  partial squares = none();
  for (i32 k = (i32)LANE * 8; k < n; k += 4 * STEP) {
    float8 v[4];
    UNROLL for (int i = 0; i < 4; i++) v[i] = k + i * STEP < n ? load8(x + k + i * STEP) : splat8(0);
    UNROLL for (int i = 0; i < 4; i++) squares = dot8(v[i], v[i], squares);
  }
  return rsqrtf(total(squares) / (float)n + eps);
}

/* Which row a warp norms, and which steps of it it writes: several warps may norm one row, each for itself. */
struct helper { i32 row, first, each; };

INLINE helper helper_of (i32 item, i32 rows) {
  helper h = {item % rows, item / rows, (i32)WARPS > rows ? (i32)WARPS / rows : 1};
  return h;
}

INLINE void norm_rows (const task &t, float *h, float8 gamma) {
  i32 items = (i32)WARPS > t.rows ? (i32)WARPS / t.rows * t.rows : t.rows;
  for (i32 item = (i32)WARP; item < items; item += (i32)WARPS) {
    helper who = helper_of(item, t.rows);
    const float *x = t.x + (size_t)who.row * (size_t)t.n;
    float *to = h + who.row * few_stride(t.n);
    i32 k = who.first * STEP + (i32)LANE * 8;
    float8 v = k < t.n ? load8(x + k) : splat8(0), norm = splat8(norm_of(x, t.n, t.eps));
    for (; k < t.n; k += who.each * STEP) {
      if (k >= STEP * (who.first + 1)) v = load8(x + k);
      if (k >= STEP * (who.first + 1) || item >= (i32)WARPS) gamma = weight8(t.gamma + k);
      store_row8(to, k, mul8(mul8(v, gamma), norm));
    }
  }
}

INLINE void copy_rows (const task &t, float *h) {
  i32 packs = t.n / 8;
  for (i32 i = (i32)THREAD; i < t.rows * packs; i += (i32)THREADS) {
    i32 r = i / packs;
    store_row8(h + r * few_stride(t.n), (i - r * packs) * 8, load8(t.x + (size_t)i * 8));
  }
}

/* ---- weights */

template <int C> struct stream { const W *w[C]; i32 unit, k; asked8<W> pack[DEPTH]; };

template <int C, bool GATED> INLINE constexpr int few_unit () { return GATED ? C / 2 : C; }

template <int C> INLINE void ask (stream<C> &s, i32 n, i32 last, int c, int i) {
  i32 k = s.k + i * STEP + (i32)LANE * 8;
  if (s.unit < last && k < n) s.pack[c * (DEPTH / C) + i] = ask8(s.w[c] + k);
}

template <int C, bool GATED> INLINE void begin (stream<C> &s, const task &t, i32 unit, i32 last) {
  s.unit = unit;
  s.k = 0;
  pick<C, GATED>(t, unit * few_unit<C, GATED>(), s.w);
  UNROLL for (int i = 0; i < DEPTH / C; i++) UNROLL for (int c = 0; c < C; c++) ask<C>(s, t.n, last, c, i);
}

template <int C, bool GATED> INLINE void advance (stream<C> &s, const task &t) {
  s.k += DEPTH / C * STEP;
  if (s.k < t.n) return;
  s.k = 0;
  s.unit += (i32)WARPS;
  pick<C, GATED>(t, s.unit * few_unit<C, GATED>(), s.w);
}

/* p += rows . packs, of DEPTH / C steps from k on; each pack makes room for the next that is asked for. */
template <int R, int C> INLINE void multiply (stream<C> &s, float *h, i32 k, i32 n, i32 count, i32 last, partial *p) {
  enum { P = padded<R>() };
  i32 stride = few_stride(n);
  UNROLL for (int i = 0; i < DEPTH / C; i++) {
    i32 at = k + i * STEP + (i32)LANE * 8;
    if (at < n) {
      float8 w[C];
      UNROLL for (int c = 0; c < C; c++) w[c] = widen8(s.pack[c * (DEPTH / C) + i]);
      UNROLL for (int r = 0; r < R; r++) {
        float8 x = row8(h + (r < count ? r : count - 1) * stride, at);
        UNROLL for (int c = 0; c < C; c++) p[c * P + r] = dot8(x, w[c], p[c * P + r]);
      }
    }
    UNROLL for (int c = 0; c < C; c++) ask<C>(s, n, last, c, i);
  }
}

/* ---- all of it */

/* F says what becomes of the sums: ready(t, to, first) when a warp begins columns first .. first + WIDE - 1, and
 * take(t, to, sum, gate) with the one sum that this lane holds, the held(P * WIDE)-th: P rows of each column. All threads
 * of a block come back together. */
template <int R, int C, bool GATED, class F> INLINE void few (const task &t, F &to) {
  DYNAMIC(float, h);
  enum { P = padded<R>(), WIDE = few_unit<C, GATED>(), N = P * WIDE };
  span mine = share((t.columns + WIDE - 1) / WIDE);
  stream<C> s;
  partial p[P * C];
  i32 k = 0, u = mine.first + (i32)WARP, first = helper_of((i32)WARP, t.rows).first * STEP + (i32)LANE * 8;
  begin<C, GATED>(s, t, u, mine.last);
  float8 gamma = t.gamma && first < t.n ? weight8(t.gamma + first) : splat8(1);
  wait_asked();
  release_next();
  ready(t, to, u * WIDE);
  if (t.gamma) norm_rows(t, h, gamma);
  else copy_rows(t, h);
  barrier();
  UNROLL for (int i = 0; i < P * C; i++) p[i] = none();
  while (u < mine.last) {
    advance<C, GATED>(s, t);
    multiply<R, C>(s, h, k, t.n, t.rows, mine.last, p);
    k += DEPTH / C * STEP;
    if (k < t.n) continue;
    float sum, gate = 0;
    totals<N>(p, &sum);
    if (GATED) totals<N>(p + P * C - N, &gate);
    take(t, to, sum, gate);
    UNROLL for (int i = 0; i < P * C; i++) p[i] = none();
    u += (i32)WARPS;
    k = 0;
    ready(t, to, u * WIDE);
  }
}

/* ---- on the way to y */

template <int P, int WIDE> struct to_y { size_t at; bool holds, gated; float residual; };

template <int P, int WIDE> INLINE void ready (const task &t, to_y<P, WIDE> &to, i32 first) {
  i32 which = held(P * WIDE), r = which % P, column = first + which / P;
  to.holds = which < P * WIDE && r < t.rows && column < t.columns;
  to.at = (size_t)r * (size_t)t.columns + (size_t)column;
  to.residual = to.holds && t.residual ? t.residual[to.at] : 0.0f;
}
template <int P, int WIDE> INLINE void take (const task &t, const to_y<P, WIDE> &to, float sum, float gate) {
  activate<1>(&sum, t.act);
  if (to.holds) t.y[to.at] = (to.gated ? sum * gate : sum * t.scale) + to.residual;
}

template <int C, bool GATED> INLINE void few_to_y (const task &t) {
  to_y<padded<ROWS>(), few_unit<C, GATED>()> to = {0, false, GATED, 0};
  few<ROWS, C, GATED>(t, to);
}

INLINE bool lies_right (const task &t) {
  i32 packed = packable(t.x, t.n) & packable(t.w[0], t.n);
  if (t.w[1]) packed &= packable(t.w[1], t.n);
  if (t.w[2]) packed &= packable(t.w[2], t.n);
  if (t.gamma) packed &= packable(t.gamma, t.n);
  return packed == t.n && t.rows <= ROWS;
}

INLINE void spoil (const task &t) {
  wait_asked();
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < t.rows * t.columns; i += (i32)(BLOCKS * THREADS)) t.y[i] = NOT_A_NUMBER;
}

WAITS KERNEL void few_linear (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2,
                              EARLY const W *w3, const float *residual, i32 rows, i32 n, i32 m, i32 wide, i32 act,
                              float eps, float scale) {
  i32 matrices = w3 ? 3 : w2 ? 2 : 1;
  task t = {y, x, residual, gamma, {w, w2, w3}, rows, n, m, m * matrices, 0, 1, act, eps, scale};
  if (!lies_right(t)) spoil(t);
  else if (ROWS == 1 && wide == 1) few_to_y<1, false>(t);
  else if (wide == 2) few_to_y<2, false>(t);
  else few_to_y<4, false>(t);
}

WAITS KERNEL void few_gated (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate,
                             i32 rows, i32 n, i32 m, i32 wide, i32 act, float eps) {
  task t = {y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, eps, 1.0f};
  if (!lies_right(t)) spoil(t);
  else if (wide == 1) few_to_y<2, true>(t);
  else few_to_y<4, true>(t);
}
