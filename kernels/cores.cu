/*
 * cores.cu - linear.cu's products for four to eight rows on tensor cores, at the speed at which weights arrive.
 *
 *   a unit: 16 columns of y (with a gate 8, and the gate's 8)
 *   k:      | slice 0 of 128      | slice 1 ... |
 *   slice:  | 32 | 32 | 32 | 32 |                 lanes t = 0 .. 3 have a pack of eight of each, of columns g and g + 8
 *                                                 and of row g of x
 *
 * Where units are few, each slice of a unit has a warp, and all weights are on their way before the wait: the warps' sums
 * meet in shared memory. A warp then has 64 of k, so that there are many warps, each soon done; 128 where n is 513 to 1024:
 * twice as many warps leave the next nodes no room. Where units are many (..._many), a warp has whole units, and rows of h
 * are staged in shared memory, once a block. Slices are added in order: bits depend on n and on which way it is, not on rows,
 * grid or block.
 *
 * Formulas and shapes: linear.cu. W: f16 or bf16. At most 8 rows; n is a multiple of eight, at most 512 (..._more: 1024,
 * ..._long: 2048); x, gamma and weights lie on 16 bytes; else y becomes nan. y may be residual, but not overlap x.
 * Launch: for all units 8 warps a unit, 4 where n is at most half of what it may be, ..._long 32;
 * shared = 704 bytes a warp; at most 256 threads a block, ..._long 1024.
 * ..._many: any grid, any n; shared = 32 * (n rounded up to 128) + 32 bytes a slice + 8192 a warp; at most 256 threads.
 */
#include "product.cuh"
#include "cores.cuh"

enum { PART = 128, GROUP = 32, STEPS = PART / GROUP }; /* of k: a slice, what a warp has at once, turns a slice */
enum { AHEAD = 2 };                                    /* slices a warp with whole units has on their way */
enum { ROWS = 8, COLUMNS = 16, PITCH = 20 };           /* of a unit's sums; floats between rows in shared memory */
enum { KEPT = ROWS * PITCH + 2 * ROWS };               /* floats of shared memory a warp: sums, squares */

/* ---- who does what */

struct place { i32 split, sub, first, each, g, t; }; /* warps a unit, which of them, which group, groups; lane 4 g + t */

INLINE place place_of (i32 split) {
  place p = {split, (i32)WARP & (split - 1), (i32)WARP / split, (i32)WARPS / split, (i32)LANE / 4, (i32)LANE % 4};
  return p;
}

template <bool GATED> INLINE constexpr int wide () { return GATED ? COLUMNS / 2 : COLUMNS; }

/* The row of weights behind a column of y, past the end the last; of the gate's matrix, if it is asked for. */
INLINE const W *row_of (const task &t, i32 column, bool gate) {
  if (column >= t.columns) column = t.columns - 1;
  i32 which = column < t.m ? 0 : column < 2 * t.m ? 1 : 2;
  return matrix_of(t, gate ? 1 : which) + (size_t)(column - which * t.m) * (size_t)t.n;
}

/* ---- weights on their way */

struct stream { const W *w, *w8; i32 unit, k; }; /* rows of columns g and g + 8; a lane's first of a slice */

INLINE void ask (asked8<W> &w, asked8<W> &w8, const stream &s, i32 k, bool there) {
  w = w8 = {};
  if (!there) return;
  w = ask8(s.w + k);
  w8 = ask8(s.w8 + k);
}

/* k: the first of the slice. */
template <bool GATED> INLINE void aim_at (stream &s, const task &t, const place &p, i32 unit, i32 k) {
  i32 column = unit * wide<GATED>() + p.g;
  s.unit = unit;
  s.k = k + p.t * 8;
  s.w = row_of(t, column, false);
  s.w8 = row_of(t, GATED ? column : column + 8, GATED);
}

/* ---- products */

/* Of a slice; chains that do not wait for each other. */
struct sums { tile_sum high[2], low[2]; };

/* s += a turn's packs . x. */
INLINE void multiply (sums &s, int turn, asked8<W> a, asked8<W> a8, float8 x) {
  float8 w = widen8(a), w8 = widen8(a8);
  UNROLL for (int i = 0; i < 8; i += 2) {
    pair high = {cores_high(at8(x, i)), cores_high(at8(x, i + 1))};
    pair low = {at8(x, i) - high.first, at8(x, i + 1) - high.second};
    cores_add(s.high[turn % 2], {at8(w, i), at8(w, i + 1)}, {at8(w8, i), at8(w8, i + 1)}, high);
    cores_add(s.low[turn % 2], {at8(w, i), at8(w, i + 1)}, {at8(w8, i), at8(w8, i + 1)}, low);
  }
}
INLINE float sum_of (const sums &s, int i) { return s.high[0].c[i] + s.high[1].c[i] + (s.low[0].c[i] + s.low[1].c[i]); }

INLINE float8 load_or_zero (const float *x, i32 k, i32 n) { return k < n ? load8(x + k) : splat8(0); }

/* x becomes x * gamma, and q += x . x. */
INLINE void norm (float8 &x, float8 gamma, float &q) {
  q = dot8(x, x, q);
  x = mul8(x, gamma);
}

/* The sum of the lanes of a row. */
INLINE float row_sum (float q) {
  q += __shfl_xor_sync(~0u, q, 1);
  return q + __shfl_xor_sync(~0u, q, 2);
}

/* ---- sums of the warps of a unit */

template <class T> INLINE T *kept_of (T *kept, i32 warp) { return kept + warp * KEPT; }

INLINE void keep (float *kept, const place &p, const sums &s) {
  float *to = kept_of(kept, (i32)WARP);
  UNROLL for (int i = 0; i < 4; i++) to[(2 * p.t + i % 2) * PITCH + p.g + i / 2 * 8] = sum_of(s, i);
}

INLINE float fold (const float *kept, const place &p, i32 at) {
  enum { TOGETHER = 8 };
  float sum = 0;
  ROLLED for (i32 i = 0; i < p.split; i += TOGETHER) {
    float part[TOGETHER];
    UNROLL for (i32 j = 0; j < TOGETHER; j++) part[j] = i + j < p.split ? kept_of(kept, p.first * p.split + i + j)[at] : 0.0f;
    UNROLL for (i32 j = 0; j < TOGETHER; j++) sum += part[j];
  }
  return sum;
}

/* ---- results: a thread of the warps of a unit has one, neighbours are columns */

struct target { i32 at, row, column; bool holds; }; /* at: in the unit */

template <bool GATED> INLINE target target_of (const task &t, const place &p, i32 unit) {
  enum { WIDE = wide<GATED>() };
  i32 at = p.sub * LANES + (i32)LANE;
  target to = {at, at / WIDE, unit * WIDE + at % WIDE, false};
  to.holds = to.row < t.rows && to.column < t.columns;
  return to;
}

INLINE size_t place_in_y (const task &t, i32 row, i32 column) { return (size_t)row * (size_t)t.columns + (size_t)column; }

template <bool GATED> INLINE void put (const task &t, size_t at, float sum, float gate, float factor, float residual) {
  sum *= factor;
  activate<1>(&sum, t.act);
  t.y[at] = (GATED ? sum * (gate * factor) : sum * t.scale) + residual;
}

template <bool GATED, bool NORM> INLINE void put_folded (const task &t, const place &p, const float *kept,
                                                                const target &to, float residual) {
  i32 at = to.row * PITCH + to.at % wide<GATED>();
  float sum = fold(kept, p, at), gate = GATED ? fold(kept, p, at + wide<GATED>()) : 0.0f, factor = 1;
  if (NORM) factor = norm_of(fold(kept, p, ROWS * PITCH + to.row), 1.0f / (float)t.n, t.eps);
  put<GATED>(t, place_in_y(t, to.row, to.column), sum, gate, factor, residual);
}

/* ---- a slice of one unit a warp: all of it is on its way before the wait */

/* TURNS: of a slice */
template <int TURNS> struct once {
  asked8<W> w[TURNS], w8[TURNS];
  asked8<float> gamma[TURNS];
  i32 k[TURNS];
  bool there[TURNS];
  target to;
  size_t at;
};

template <bool GATED, int TURNS> INLINE void begin (once<TURNS> &o, const task &t, const place &p, i32 unit, bool mine,
                                                    const float *x) {
  stream s;
  aim_at<GATED>(s, t, p, unit, p.sub * TURNS * GROUP);
  UNROLL for (int i = 0; i < TURNS; i++) {
    o.k[i] = s.k + i * GROUP;
    o.there[i] = mine && o.k[i] < t.n;
    ask(o.w[i], o.w8[i], s, o.k[i], o.there[i]);
    o.gamma[i] = {};
    if (t.gamma && o.there[i]) o.gamma[i] = ask8(t.gamma + o.k[i]);
  }
  o.to = target_of<GATED>(t, p, unit);
  o.to.holds = o.to.holds && mine;
  o.at = place_in_y(t, o.to.row, o.to.column);
  if (o.there[0]) ready_at(x + o.k[0]);
  if (o.to.holds) ready_at(t.y + o.at);
  if (o.to.holds && t.residual) ready_at(t.residual + o.at);
}

template <bool GATED, bool NORM, int TURNS> INLINE void finish (const once<TURNS> &o, const task &t, const place &p,
                                                                const float *x, float *kept) {
  float8 h[TURNS];
  sums all = {};
  float squares = 0, residual = 0;
  UNROLL for (int i = 0; i < TURNS; i++) h[i] = o.there[i] ? load8(x + o.k[i]) : splat8(0);
  if (o.to.holds && t.residual) residual = t.residual[o.at];
  if (NORM) UNROLL for (int i = 0; i < TURNS; i++) norm(h[i], widen8(o.gamma[i]), squares);
  UNROLL for (int i = 0; i < TURNS; i++) multiply(all, i, o.w[i], o.w8[i], h[i]);
  keep(kept, p, all);
  if (NORM) squares = row_sum(squares);
  if (NORM && p.t == 0) kept_of(kept, (i32)WARP)[ROWS * PITCH + p.g] = squares;
  barrier();
  if (o.to.holds) put_folded<GATED, NORM>(t, p, kept, o.to, residual);
}

/* ---- many units, a warp each: rows of h in shared memory, as lanes need them */

struct staged { float *h, *squares; };

/* Half of what this lane needs of h in a turn; the other half is LANES * 4 behind. */
INLINE float *h_of (const staged &x, i32 turn) { return x.h + (turn * LANES + (i32)LANE) * 4; }

template <bool NORM> INLINE void stage (const task &t, const place &p, const float *x, const staged &to) {
  for (i32 j = (i32)WARP; j * PART < t.n; j += (i32)WARPS) {
    float squares = 0;
    UNROLL for (int i = 0; i < STEPS; i++) {
      i32 k = j * PART + i * GROUP + p.t * 8;
      float8 h = load_or_zero(x, k, t.n);
      if (NORM) norm(h, load_or_zero(t.gamma, k, t.n), squares);
      float *at = h_of(to, (j * STEPS + i) * 2);
      *(float4 *)at = make_float4(at8(h, 0), at8(h, 1), at8(h, 2), at8(h, 3));
      *(float4 *)(at + LANES * 4) = make_float4(at8(h, 4), at8(h, 5), at8(h, 6), at8(h, 7));
    }
    if (NORM) squares = row_sum(squares);
    if (NORM && p.t == 0) to.squares[j * ROWS + p.g] = squares;
  }
}

INLINE float8 staged8 (const staged &x, i32 turn) {
  float *at = h_of(x, turn * 2);
  return rp_widen(rp_words(at), rp_words(at + LANES * 4));
}

INLINE float factor_of (const task &t, const staged &x, i32 row) {
  float sum = 0;
  for (i32 j = 0; j * PART < t.n; j++) sum += x.squares[j * ROWS + row];
  return norm_of(sum, 1.0f / (float)t.n, t.eps);
}

/* Weights on their way, by copies into shared memory, which need no registers: a lane gets what it will use itself, so nobody
 * waits for another. */
struct queue { uint4 *of_lane; i32 next; }; /* next: the slice that is used next, of AHEAD */

INLINE queue queue_of (void *shared) { return {(uint4 *)shared + WARP * AHEAD * STEPS * 2 * LANES + LANE, 0}; }

INLINE uint4 *place_in (const queue &q, i32 slice, int pack) { return q.of_lane + (slice * STEPS * 2 + pack) * LANES; }

/* Asks for the slice that the stream is at, if there is one, and goes on to the next: the warp's next unit follows. */
template <bool GATED> INLINE void ask_slice (const queue &q, i32 slice, stream &s, const task &t, const place &p, i32 last) {
  UNROLL for (int i = 0; i < STEPS; i++) {
    i32 k = s.k + i * GROUP;
    bool there = s.unit < last && k < t.n;
    copy16(place_in(q, slice, 2 * i), s.w + k, there);
    copy16(place_in(q, slice, 2 * i + 1), s.w8 + k, there);
  }
  copies_end();
  s.k += PART;
  if (s.k - p.t * 8 >= t.n) aim_at<GATED>(s, t, p, s.unit + (i32)WARPS, 0);
}

/* sum += h . slice j; its place is for the next that is asked for. */
template <bool GATED> INLINE void add_slice (queue &q, stream &s, const task &t, const place &p, const staged &h, i32 j,
                                             i32 last, float *sum) {
  sums part = {};
  copies_wait<AHEAD - 1>();
  UNROLL for (int i = 0; i < STEPS; i++) {
    asked8<W> w = {*place_in(q, q.next, 2 * i)}, w8 = {*place_in(q, q.next, 2 * i + 1)};
    multiply(part, i, w, w8, staged8(h, j * STEPS + i));
  }
  UNROLL for (int i = 0; i < 4; i++) sum[i] += sum_of(part, i);
  ask_slice<GATED>(q, q.next, s, t, p, last);
  q.next = q.next + 1 < AHEAD ? q.next + 1 : 0;
}

/* A lane has rows 2 t and 2 t + 1 of columns g and g + 8, or of column g and its gate. */
template <bool GATED> INLINE void put_own (const task &t, const place &p, i32 unit, const float *sum, const float *factor) {
  UNROLL for (int i = 0; i < (GATED ? 2 : 4); i++) {
    i32 row = 2 * p.t + i % 2, column = unit * wide<GATED>() + p.g + i / 2 * 8;
    if (row >= t.rows || column >= t.columns) continue;
    size_t at = place_in_y(t, row, column);
    put<GATED>(t, at, sum[i], GATED ? sum[i + 2] : 0.0f, factor[i % 2], t.residual ? t.residual[at] : 0.0f);
  }
}

template <bool GATED, bool NORM> INLINE void alone (const task &t, const place &p, span mine, const float *x, float *kept) {
  i32 slices = (t.n + PART - 1) / PART;
  staged h = {kept, kept + slices * PART * ROWS};
  queue q = queue_of(h.squares + slices * ROWS);
  stream s;
  float factor[2] = {1, 1};
  aim_at<GATED>(s, t, p, mine.first + (i32)WARP, 0);
  ROLLED for (i32 i = 0; i < AHEAD; i++) ask_slice<GATED>(q, i, s, t, p, mine.last);
  wait_previous();
  stage<NORM>(t, p, x, h);
  barrier();
  bool unknown = NORM; /* is the factor to be made? */
  for (i32 unit = mine.first + (i32)WARP; unit < mine.last; unit += (i32)WARPS) {
    float sum[4] = {};
    ROLLED for (i32 j = 0; j < slices; j++) {
      add_slice<GATED>(q, s, t, p, h, j, mine.last, sum);
      if (!unknown) continue;
      UNROLL for (int i = 0; i < 2; i++) factor[i] = factor_of(t, h, 2 * p.t + i); /* once the next slice is asked for */
      unknown = false;
    }
    put_own<GATED>(t, p, unit, sum, factor);
  }
}

/* ---- which way */

INLINE const float *row_of_lane (const task &t, const place &p) {
  return t.x + (size_t)(p.g < t.rows ? p.g : t.rows - 1) * (size_t)t.n;
}

/* SPLIT: most warps a unit. Two copies of what follows the wait, which differ in something, keep ptxas from moving the loads
 * before it behind it: those with and without a norm, or, where none is made, a residual. */
template <int SPLIT, int TURNS, bool GATED, bool NORM> INLINE void run_once (const task &t) {
  DYNAMIC(float, kept);
  enum { SLICE = TURNS * GROUP };
  place p = place_of(t.n > SPLIT / 2 * SLICE ? SPLIT : SPLIT / 2);
  span mine = share((t.columns + wide<GATED>() - 1) / wide<GATED>());
  const float *x = row_of_lane(t, p);
  i32 unit = mine.first + p.first;
  release_next();
  if (!lies_right(t) || t.rows > ROWS || t.n > SPLIT * SLICE || mine.last - mine.first > p.each) return spoil(t);
  once<TURNS> o;
  task bare = t;
  if (!NORM) bare.residual = nullptr;
  begin<GATED>(o, t, p, unit, unit < mine.last, x);
  wait_asked();
  if (NORM ? t.gamma != nullptr : t.residual != nullptr) finish<GATED, NORM>(o, t, p, x, kept);
  else finish<GATED, false>(o, bare, p, x, kept);
}

template <bool GATED> INLINE void run_many (const task &t) {
  DYNAMIC(float, kept);
  place p = place_of(1);
  span mine = share((t.columns + wide<GATED>() - 1) / wide<GATED>());
  release_next();
  if (!lies_right(t) || t.rows > ROWS) spoil(t);
  else if (t.gamma) alone<GATED, true>(t, p, mine, row_of_lane(t, p), kept);
  else alone<GATED, false>(t, p, mine, row_of_lane(t, p), kept);
}

/* ---- kernels */

INLINE task task_of (float *y, const float *x, const float *gamma, const W *w, const W *w2, const W *w3, const float *residual,
                     i32 rows, i32 n, i32 m, i32 act, float eps, float scale) {
  i32 matrices = w3 ? 3 : w2 ? 2 : 1;
  return {y, x, residual, gamma, {w, w2, w3}, rows, n, m, m * matrices, 0, 1, act, eps, scale};
}

/* Bounds of blocks are for the compiler: with less freedom it puts loads off until there are registers. */
WAITS KERNEL void __launch_bounds__(256, 1)
cores_linear (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2, EARLY const W *w3,
              const float *residual, i32 rows, i32 n, i32 m, i32 act, float eps, float scale) {
  run_once<8, 2, false, true>(task_of(y, x, gamma, w, w2, w3, residual, rows, n, m, act, eps, scale));
}

WAITS KERNEL void __launch_bounds__(256, 1)
cores_gated (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate, i32 rows, i32 n,
             i32 m, i32 act, float eps) {
  run_once<8, 2, true, true>({y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, eps, 1.0f});
}

WAITS KERNEL void __launch_bounds__(256, 1)
cores_linear_more (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2, EARLY const W *w3,
                   const float *residual, i32 rows, i32 n, i32 m, i32 act, float eps, float scale) {
  run_once<8, 4, false, true>(task_of(y, x, gamma, w, w2, w3, residual, rows, n, m, act, eps, scale));
}

WAITS KERNEL void __launch_bounds__(256, 1)
cores_gated_more (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate, i32 rows, i32 n,
                  i32 m, i32 act, float eps) {
  run_once<8, 4, true, true>({y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, eps, 1.0f});
}

/* Without a norm. */
WAITS KERNEL void __launch_bounds__(1024, 1)
cores_linear_long (float *y, const float *x, EARLY const W *w, EARLY const W *w2, EARLY const W *w3, const float *residual,
                   i32 rows, i32 n, i32 m, i32 act, float scale) {
  run_once<32, 2, false, false>(task_of(y, x, nullptr, w, w2, w3, residual, rows, n, m, act, 0, scale));
}

WAITS KERNEL void __launch_bounds__(256, 2)
cores_linear_many (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2, EARLY const W *w3,
                   const float *residual, i32 rows, i32 n, i32 m, i32 act, float eps, float scale) {
  run_many<false>(task_of(y, x, gamma, w, w2, w3, residual, rows, n, m, act, eps, scale));
}

WAITS KERNEL void __launch_bounds__(256, 2)
cores_gated_many (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate, i32 rows, i32 n,
                  i32 m, i32 act, float eps) {
  run_many<true>({y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, eps, 1.0f});
}
