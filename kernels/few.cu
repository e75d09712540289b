/*
 * few.cu - linear.cu's products for one to eight rows on a GPU, made for the speed at which weights arrive.
 *
 *   what a lane asks for:  | unit u, k: columns 0 .. C-1, a few packs of each | the same, further on in k | unit u + WARPS ...
 *
 * A warp takes units of C columns, its lanes side by side along n. DEPTH packs a lane are always on their way, the first
 * from before the wait on; as one is used, its successor is asked for. Nothing is staged: a warp reads the rows that it
 * needs, all but the first of a block from the nearest cache, and makes their norms by the way. Few blocks with much to do
 * start sooner than many. Sums are made in the order of linear.cu's tiles: the bits are the same.
 *
 * Formulas and shapes: linear.cu. ROWS: 1, 2, 4, 5 or 8, at least `rows`. n is a multiple of eight, and x, gamma and the
 * weights lie on 16 bytes; else y becomes nan. wide: columns of y a warp takes at a time: 1, 2 or 4; 1 or 2 with a gate.
 * Launch: any grid and block, no shared memory. y may be residual, but not overlap x.
 */
#include "product.cuh"

enum { DEPTH = 16 / sizeof(W), STEP = LANES * 8 }; /* packs of a lane on their way; elements of a row a warp takes at once */

INLINE i32 few_stride (i32 n) { return (n + STEP - 1) / STEP * STEP; }

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

/* p += h . packs, of DEPTH / C steps from k on, and q += x . x; each pack makes room for the next that is asked for. */
template <int R, int C> INLINE void multiply (stream<C> &s, const task &t, i32 k, i32 last, partial *p, partial *q) {
  enum { P = padded<R>() };
  UNROLL for (int i = 0; i < DEPTH / C; i++) {
    i32 at = k + i * STEP + (i32)LANE * 8;
    if (at < t.n) {
      float8 w[C], gamma = splat8(1);
      if (t.gamma) gamma = load8(t.gamma + at);
      UNROLL for (int c = 0; c < C; c++) w[c] = widen8(s.pack[c * (DEPTH / C) + i]);
      UNROLL for (int r = 0; r < R; r++) {
        float8 x = load8(t.x + (size_t)(r < t.rows ? r : t.rows - 1) * (size_t)t.n + at);
        if (t.gamma) q[r] = dot8(x, x, q[r]), x = mul8(x, gamma);
        UNROLL for (int c = 0; c < C; c++) p[c * P + r] = dot8(x, w[c], p[c * P + r]);
      }
    }
    UNROLL for (int c = 0; c < C; c++) ask<C>(s, t.n, last, c, i);
  }
}

/* What this lane's sum is to be multiplied with: its row's norm. */
template <int R> INLINE float norm_for (const task &t, partial *q, i32 r) {
  enum { P = padded<R>() };
  float squares;
  totals<P>(q, &squares);
  squares = __shfl_sync(~0u, squares, r * (LANES / P));
  return rsqrtf(squares / (float)t.n + t.eps);
}

/* ---- all of it */

/* F says what becomes of the sums: ready(t, to, first) when a warp begins columns first .. first + WIDE - 1, and
 * take(t, to, sum, gate) with the one sum that this lane holds, the held(P * WIDE)-th: P rows of each column. */
template <int R, int C, bool GATED, class F> INLINE void few (const task &t, F &to) {
  enum { P = padded<R>(), WIDE = few_unit<C, GATED>(), N = P * WIDE };
  span mine = share((t.columns + WIDE - 1) / WIDE);
  stream<C> s;
  partial p[P * C], q[P];
  i32 k = 0, u = mine.first + (i32)WARP;
  begin<C, GATED>(s, t, u, mine.last);
  wait_asked();
  release_next();
  ready(t, to, u * WIDE);
  UNROLL for (int i = 0; i < P * C; i++) p[i] = none();
  UNROLL for (int i = 0; i < P; i++) q[i] = none();
  while (u < mine.last) {
    advance<C, GATED>(s, t);
    multiply<R, C>(s, t, k, mine.last, p, q);
    k += DEPTH / C * STEP;
    if (k < t.n) continue;
    float sum, gate = 0;
    totals<N>(p, &sum);
    if (GATED) totals<N>(p + P * C - N, &gate);
    if (t.gamma) {
      float norm = norm_for<R>(t, q, held(N) % P);
      sum *= norm;
      gate *= norm;
    }
    take(t, to, sum, gate);
    UNROLL for (int i = 0; i < P * C; i++) p[i] = none();
    UNROLL for (int i = 0; i < P; i++) q[i] = none();
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
  else if (wide == 1) few_to_y<1, false>(t);
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
