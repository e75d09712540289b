/*
 * few.cu - linear.cu's products for one to eight rows on a GPU, made for the speed at which weights arrive.
 *
 *   a unit: C columns of y; a warp has it alone, or `split` warps share its slices (linear.cu's) by turns
 *   what a lane asks for:  | columns 0 .. C-1, a few packs of each | the same, further on in k | the next slice, unit ...
 *
 * DEPTH packs a lane are always on their way, the first from before the wait on; as one is used, its successor is asked
 * for. Nothing is staged: a warp reads the rows that it needs, all but the first of a block from the nearest cache, and
 * makes their norms by the way. Few blocks with much to do start sooner than many. Sums are made in the order of
 * linear.cu's tiles: the bits are the same.
 *
 * Formulas and shapes: linear.cu. ROWS: 1, 2, 4, 5 or 8, at least `rows`. n is a multiple of eight, and x, gamma and the
 * weights lie on 16 bytes; else y becomes nan. split: 1, with gamma; or a power of two that divides the block's warps.
 * Launch: any grid and block, but for few_linear_two a warp a unit at least; shared = 0, or where units are split,
 * 4 * 32 * slices * warps / split bytes. y may be residual, but not overlap x.
 */
#include "product.cuh"

enum { DEPTH = 16 / sizeof(W), STEP = LANES * 8 }; /* packs of a lane on their way; elements of a row a warp takes at once */
enum { C = 4, ROUND = DEPTH / C, P = padded<ROWS>() }; /* steps that packs on their way reach; rows of sums */

/* ---- weights */

struct team { i32 split, sub, each; }; /* warps a unit, which of them this is, units a block works on at a time */

INLINE team team_of (i32 split) {
  team m = {split, (i32)WARP & (split - 1), (i32)WARPS / split};
  return m;
}

struct stream { const W *w[C]; i32 unit, k; asked8<W> pack[DEPTH]; };

template <bool GATED> INLINE constexpr int wide () { return GATED ? C / 2 : C; }

INLINE void ask (stream &s, i32 n, i32 last, int c, int i) {
  i32 k = s.k + i * STEP + (i32)LANE * 8;
  if (s.unit < last && k < n) s.pack[c * ROUND + i] = ask8(s.w[c] + k);
}

template <bool GATED> INLINE void begin (stream &s, const task &t, const team &m, i32 unit, i32 last) {
  s.unit = unit;
  s.k = m.sub * SLICE;
  pick<C, GATED>(t, unit * wide<GATED>(), s.w);
  UNROLL for (int i = 0; i < ROUND; i++) UNROLL for (int c = 0; c < C; c++) ask(s, t.n, last, c, i);
}

template <bool GATED> INLINE void advance (stream &s, const task &t, const team &m, i32 last) {
  s.k += ROUND * STEP;
  if (s.k % SLICE == 0) s.k += (m.split - 1) * SLICE;
  if (s.k < t.n) return;
  s.k = m.sub * SLICE;
  s.unit += m.each;
  if (s.unit < last) pick<C, GATED>(t, s.unit * wide<GATED>(), s.w);
}

/* ---- sums */

struct lines { size_t x[ROWS]; }; /* where this lane reads rows; past the last row it again */

INLINE lines lines_of (const task &t) {
  lines l;
  UNROLL for (int r = 0; r < ROWS; r++) {
    l.x[r] = (size_t)(r < t.rows ? r : t.rows - 1) * (size_t)t.n + LANE * 8;
    ready_now(l.x[r]);
  }
  return l;
}

enum { TOGETHER = ROWS * ROUND <= 10 ? ROUND : 1 }; /* steps whose rows are asked for together: as registers allow */
struct operands { float8 x[TOGETHER][ROWS], gamma[TOGETHER]; };

INLINE void load (operands &o, const task &t, const lines &l, i32 k) {
  UNROLL for (int i = 0; i < TOGETHER; i++) {
    if (k + i * STEP + (i32)LANE * 8 >= t.n) continue;
    UNROLL for (int r = 0; r < ROWS; r++) o.x[i][r] = load8(t.x + l.x[r] + k + i * STEP);
    if (t.gamma) o.gamma[i] = load8(t.gamma + (i32)LANE * 8 + k + i * STEP);
  }
}

/* x becomes x * gamma, and q += x . x. */
INLINE void norm (operands &o, i32 n, i32 k, partial *q) {
  UNROLL for (int i = 0; i < TOGETHER; i++) {
    if (k + i * STEP + (i32)LANE * 8 >= n) continue;
    UNROLL for (int r = 0; r < ROWS; r++) {
      q[r] = dot8(o.x[i][r], o.x[i][r], q[r]);
      o.x[i][r] = mul8(o.x[i][r], o.gamma[i]);
    }
  }
}

/* p += h . packs of TOGETHER steps from k on, the j-th and following of what is on its way; each pack makes room for the
 * next that is asked for. */
INLINE void multiply (stream &s, const operands &o, i32 n, i32 k, int j, i32 last, partial *p) {
  UNROLL for (int i = 0; i < TOGETHER; i++) {
    if (k + i * STEP + (i32)LANE * 8 < n) {
      float8 w[C];
      UNROLL for (int c = 0; c < C; c++) w[c] = widen8(s.pack[c * ROUND + j + i]);
      UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int c = 0; c < C; c++) p[c * P + r] = dot8(o.x[i][r], w[c], p[c * P + r]);
    }
    UNROLL for (int c = 0; c < C; c++) ask(s, n, last, c, j + i);
  }
}

template <int N> INLINE void none_of (partial *p) { UNROLL for (int i = 0; i < N; i++) p[i] = none(); }

/* Rows as a warp has them. whole: all of n is loaded at once, so they are made ready once for all units. */
struct ready_rows {
  lines at;
  operands o;
  partial squares[P];
  float part, factor; /* 1 / n; what this lane's sums are to be multiplied with */
  bool whole, loaded, fresh;
};

/* p = sums of the slice from `slice` on, spread over the lanes. */
template <bool GATED> INLINE void add_slice (stream &s, const task &t, const team &m, ready_rows &x, i32 slice, i32 last,
                                             partial *p) {
  none_of<P * C>(p);
  for (i32 k = slice; k < slice + SLICE && k < t.n; k += ROUND * STEP)
    UNROLL for (int j = 0; j < ROUND; j += TOGETHER) {
      if (!x.loaded) load(x.o, t, x.at, k + j * STEP);
      x.loaded = x.whole;
      if (j == 0) advance<GATED>(s, t, m, last);
      if (t.gamma && x.fresh) norm(x.o, t.n, k + j * STEP, x.squares);
      multiply(s, x.o, t.n, k + j * STEP, j, last, p);
    }
}

/* The one sum that this lane holds, of a unit without its norm, and the gate's. The warps of a unit keep a slice's sums in
 * shared memory, slice after slice: its first adds them. */
template <bool GATED> INLINE void add_unit (stream &s, const task &t, const team &m, ready_rows &x, bool mine, i32 last,
                                            float *kept, float *sum, float *gate) {
  enum { N = P * wide<GATED>() };
  i32 slices = (t.n + SLICE - 1) / SLICE;
  float *of_unit = kept + (i32)WARP / m.split * slices * LANES + (i32)LANE;
  *sum = *gate = 0;
  for (i32 slice = m.sub * SLICE; slice < t.n && mine; slice += m.split * SLICE) {
    partial p[P * C];
    float part, half;
    add_slice<GATED>(s, t, m, x, slice, last, p);
    totals<N>(p, &part);
    if (GATED) totals<N>(p + P * C - N, &half), *gate += half;
    *sum += part;
    if (m.split > 1) of_unit[slice / SLICE * LANES] = part;
  }
  if (m.split == 1) return;
  barrier();
  *sum = 0;
  for (i32 i = 0; i < slices && m.sub == 0; i++) *sum += of_unit[i * LANES];
  barrier();
}

/* The norm of the row of the sum that this lane holds. */
template <int N> INLINE float factor_of (const task &t, ready_rows &x) {
  float squares;
  totals<P>(x.squares, &squares);
  return norm_of(__shfl_sync(~0u, squares, held(N) % P * (LANES / P)), x.part, t.eps);
}

/* ---- one unit a warp

 * Most products of a small decoder: each warp has at most one slice of one unit, so nothing is asked for behind it. What a
 * warp does once, in a straight line, takes as long as its instructions take to arrive: there are few, and no branches. */

enum { STEPS = SLICE / STEP };

/* SLICES that a warp has: one, or two where rows are longer. */
template <int SLICES> struct once {
  asked8<W> pack[SLICES * STEPS * C];
  asked8<float> gamma[SLICES * STEPS];
  const float *x[ROWS];
  bool there[SLICES * STEPS];
};

template <bool GATED, int SLICES> INLINE void begin (once<SLICES> &o, const task &t, const team &m, i32 unit, bool mine) {
  const W *w[C];
  pick<C, GATED>(t, unit * wide<GATED>(), w);
  UNROLL for (int i = 0; i < SLICES * STEPS; i++) {
    i32 k = m.sub * SLICE + i * STEP + (i32)LANE * 8;
    o.there[i] = mine && k < t.n;
    UNROLL for (int c = 0; c < C; c++) o.pack[i * C + c] = {};
    o.gamma[i] = {};
    if (!o.there[i]) continue;
    UNROLL for (int c = 0; c < C; c++) o.pack[i * C + c] = ask8(w[c] + k);
    if (t.gamma) o.gamma[i] = ask8(t.gamma + k);
  }
  UNROLL for (int r = 0; r < ROWS; r++) {
    o.x[r] = t.x + (size_t)(r < t.rows ? r : t.rows - 1) * (size_t)t.n + (size_t)(m.sub * SLICE) + LANE * 8;
    if (o.there[0]) ready_at(o.x[r]);
  }
}

/* A slice, from step `first` on: p += x . packs, q += x . x; x is multiplied with gamma in between, if there is one. */
template <bool NORM, int SLICES> INLINE void multiply (const once<SLICES> &o, int first, float8 (*x)[ROWS], partial *p,
                                                       partial *q) {
  UNROLL for (int i = first; i < first + STEPS; i++) {
    if (NORM) UNROLL for (int r = 0; r < ROWS; r++) {
      q[r] = dot8(x[i][r], x[i][r], q[r]);
      x[i][r] = mul8(x[i][r], widen8(o.gamma[i]));
    }
    UNROLL for (int c = 0; c < C; c++) {
      float8 w = widen8(o.pack[i * C + c]);
      UNROLL for (int r = 0; r < ROWS; r++) p[c * P + r] = dot8(x[i][r], w, p[c * P + r]);
    }
  }
}

/* The sum of the slices' sums, which the warps of a unit have; its first gets it. */
INLINE float add_slices (const task &t, const team &m, float sum, float *kept) {
  i32 slices = (t.n + SLICE - 1) / SLICE;
  float *of_unit = kept + (i32)WARP / m.split * slices * LANES + (i32)LANE;
  if (m.sub < slices) of_unit[m.sub * LANES] = sum;
  barrier();
  sum = 0;
  for (i32 i = 0; i < slices && m.sub == 0; i++) sum += of_unit[i * LANES];
  return sum;
}

/* The one sum that this lane holds, and the gate's. */
template <bool GATED, bool NORM, int SLICES> INLINE void add_once (const once<SLICES> &o, float8 (*x)[ROWS], float *sum,
                                                                   float *gate, partial *q) {
  enum { N = P * wide<GATED>() };
  UNROLL for (int s = 0; s < SLICES; s++) {
    partial p[P * C];
    float part, half = 0;
    none_of<P * C>(p);
    multiply<NORM>(o, s * STEPS, x, p, q);
    totals<N>(p, &part);
    if (GATED) totals<N>(p + P * C - N, &half);
    *sum = s ? *sum + part : part;
    *gate = s ? *gate + half : half;
  }
}

template <bool GATED, bool NORM, int SLICES, class F> INLINE void finish_once (const task &t, const team &m,
                                                                               const once<SLICES> &o, bool mine,
                                                                               float *kept, F &to) {
  enum { N = P * wide<GATED>() };
  float8 x[SLICES * STEPS][ROWS];
  UNROLL for (int i = 0; i < SLICES * STEPS; i++) UNROLL for (int r = 0; r < ROWS; r++)
    x[i][r] = o.there[i] ? load8(o.x[r] + i * STEP) : splat8(0);
  fetch(t, to);
  partial q[P];
  float sum, gate, factor = 1;
  none_of<P>(q);
  add_once<GATED, NORM>(o, x, &sum, &gate, q);
  if (NORM) {
    float squares;
    totals<P>(q, &squares);
    factor = norm_of(__shfl_sync(~0u, squares, held(N) % P * (LANES / P)), 1.0f / (float)t.n, t.eps);
  }
  if (m.split > 1) sum = add_slices(t, m, sum, kept);
  if (m.sub == 0 && mine) take(t, to, sum * factor, gate * factor);
}

template <bool GATED, int SLICES, class F> INLINE void few_once (const task &t, const team &m, span mine, float *kept,
                                                                 F &to) {
  i32 u = mine.first + (i32)WARP / m.split;
  once<SLICES> o;
  begin<GATED>(o, t, m, u, u < mine.last);
  aim(t, to, u * wide<GATED>());
  wait_asked();
  if (t.gamma) finish_once<GATED, true>(t, m, o, u < mine.last, kept, to);
  else finish_once<GATED, false>(t, m, o, u < mine.last, kept, to);
}

/* ---- all of it */

/* F says what becomes of the sums: aim(t, to, first) before a warp makes columns first .. first + WIDE - 1, fetch(t, to)
 * reads what it needs, and take(t, to, sum, gate) has the one sum that this lane holds, the held(P * WIDE)-th: P rows of
 * each column. What comes between the wait and the first load is lost time: addresses are made before. */
template <bool GATED, class F> INLINE void few (const task &t, i32 split, F &to) {
  DYNAMIC(float, kept);
  enum { WIDE = wide<GATED>() };
  i32 units = (t.columns + WIDE - 1) / WIDE;
  span mine = share(units);
  team m = team_of(split);
  if (m.split * SLICE >= t.n && units <= (i32)BLOCKS * m.each) return few_once<GATED, 1>(t, m, mine, kept, to);
  stream s;
  i32 u = mine.first + (i32)WARP / split;
  begin<GATED>(s, t, m, u, mine.last);
  aim(t, to, u * WIDE);
  ready_rows x;
  x.at = lines_of(t);
  x.part = 1.0f / (float)t.n, x.factor = 1;
  x.whole = TOGETHER * STEP >= t.n, x.loaded = true;
  wait_asked();
  load(x.o, t, x.at, m.sub * SLICE);
  fetch(t, to);
  for (i32 base = mine.first; base < mine.last; base += m.each, u += m.each) {
    float sum, gate;
    x.fresh = !x.whole || base == mine.first;
    if (x.fresh) none_of<P>(x.squares);
    add_unit<GATED>(s, t, m, x, u < mine.last, mine.last, kept, &sum, &gate);
    if (t.gamma && x.fresh) x.factor = factor_of<P * WIDE>(t, x);
    if (m.sub == 0 && u < mine.last) take(t, to, sum * x.factor, gate * x.factor);
    if (base + m.each >= mine.last) break;
    aim(t, to, (u + m.each) * WIDE);
    fetch(t, to);
  }
}

/* ---- on the way to y */

template <int WIDE> struct to_y { size_t at; bool holds, gated; float residual; };

template <int WIDE> INLINE void aim (const task &t, to_y<WIDE> &to, i32 first) {
  i32 which = held(P * WIDE), r = which % P, column = first + which / P;
  to.holds = which < P * WIDE && r < t.rows && column < t.columns;
  to.at = (size_t)r * (size_t)t.columns + (size_t)column;
  if (to.holds) ready_at(t.y + to.at);
  if (to.holds && t.residual) ready_at(t.residual + to.at);
}
template <int WIDE> INLINE void fetch (const task &t, to_y<WIDE> &to) {
  to.residual = to.holds && t.residual ? t.residual[to.at] : 0.0f;
}
template <int WIDE> INLINE void take (const task &t, const to_y<WIDE> &to, float sum, float gate) {
  activate<1>(&sum, t.act);
  if (to.holds) t.y[to.at] = (to.gated ? sum * gate : sum * t.scale) + to.residual;
}

template <bool GATED> INLINE void few_to_y (const task &t, i32 split) {
  to_y<wide<GATED>()> to = {0, false, GATED, 0};
  release_next();
  if (lies_right(t) && t.rows <= ROWS) few<GATED>(t, split, to);
  else spoil(t);
}

WAITS KERNEL void few_linear (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2,
                              EARLY const W *w3, const float *residual, i32 rows, i32 n, i32 m, i32 split, i32 act,
                              float eps, float scale) {
  i32 matrices = w3 ? 3 : w2 ? 2 : 1;
  task t = {y, x, residual, gamma, {w, w2, w3}, rows, n, m, m * matrices, 0, 1, act, eps, scale};
  few_to_y<false>(t, split);
}

WAITS KERNEL void few_gated (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate,
                             i32 rows, i32 n, i32 m, i32 act, float eps) {
  task t = {y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, eps, 1.0f};
  few_to_y<true>(t, 1);
}

/* few_linear for one row of up to two slices, where each warp has at most one unit: all of it is on its way before the wait. */
WAITS KERNEL void few_linear_two (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2,
                                  EARLY const W *w3, const float *residual, i32 rows, i32 n, i32 m, i32 split, i32 act,
                                  float eps, float scale) {
  enum { WIDE = wide<false>() };
  i32 matrices = w3 ? 3 : w2 ? 2 : 1, units = (m * matrices + WIDE - 1) / WIDE;
  task t = {y, x, residual, gamma, {w, w2, w3}, rows, n, m, m * matrices, 0, 1, act, eps, scale};
  to_y<WIDE> to = {0, false, false, 0};
  release_next();
  if (ROWS > 1 || !lies_right(t) || split != 1 || n > 2 * SLICE || units > (i32)(BLOCKS * WARPS)) return spoil(t);
  few_once<false, 2>(t, team_of(1), share(units), nullptr, to);
}
