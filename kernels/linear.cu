/*
 * linear.cu - products with weight matrices: y = act(h w^T), where h is x or T5's norm of x.
 *
 *   linear   y[r][j] = scale * act(h[r] . w[j]) + residual[r][j]; up to three matrices of one shape, whose products
 *            then stand side by side in a row of y
 *   gated    y[r][j] = act(h[r] . w[j]) * (h[r] . gate[j])
 *   h[r][k] = gamma ? x[r][k] * gamma[k] / sqrt(mean(x[r]^2) + eps) : x[r][k]
 *
 * Shapes: x [rows][n], each w [m][n] of W (f32, f16 or bf16, as stored), y and residual [rows][m, 2m or 3m], gamma [n];
 * all but the weights f32. w2, w3 (then in this order), residual and gamma may be null.
 * act: 0 none, 1 relu, 2 gelu by erf, 3 gelu by tanh, 4 silu.
 * Launch: any grid and block; tile: rows worked on together, from 1 to TILE; staged (always with gamma): rows of h are
 * kept in shared memory, shared = 4 * tile * (1 + n rounded up to 8) bytes. y may be residual, but not overlap x.
 *
 * A warp makes a few columns of a tile of rows at a time, its lanes side by side along n: a weight that arrives serves
 * all rows of the tile. A row's result has the same bits whatever the number of rows, the tile, the grid and the block.
 * On a GPU slices of 512 elements are summed by themselves.
 */
#include "product.cuh"

/* ---- one tile ---- */

/* Rows of x, or of x * gamma, into shared memory, each filled up with zeros, and behind them the rows' norms: what a sum is
 * to be multiplied with. A warp takes whole rows: one order of adding squares. */
INLINE void stage (const task &t, const rows_of &tile, float *h) {
  i32 packed = packable(t.x, t.n), gammas = packable(t.gamma, t.n);
  for (i32 r = (i32)WARP; r < tile.count; r += (i32)WARPS) {
    const float *x = t.x + (size_t)(tile.first + r) * (size_t)t.n;
    float *to = h + r * tile.stride;
    partial squares = none();
    for (i32 k = (i32)LANE * 8; k < tile.stride; k += LANES * 8) {
      float8 v = k < packed ? load8(x + k) : part8(x + k, t.n - k);
      if (t.gamma) {
        squares = dot8(v, v, squares);
        v = mul8(v, k < gammas ? load8(t.gamma + k) : part8(t.gamma + k, t.n - k));
      }
      store8(to + k, v);
    }
    h[t.tile * tile.stride + r] = t.gamma ? norm_of(total(squares), 1.0f / (float)t.n, t.eps) : 1.0f;
  }
}

/* Norm of a tile's row; 1 where there is none. */
INLINE float norm_in (const task &t, const rows_of &tile, i32 r) { return t.gamma ? tile.x[t.tile * tile.stride + r] : 1.0f; }

/* p[c * padded<R>() + r] += x(r) . w(c) for packs of eight. Of rows and columns the fewer wait in registers for the others, which
 * come one by one: the CPU has 16. */
template <int R, int C, class X, class U> INLINE void step (X x, U w, partial *p) {
  float8 held[R < C ? R : C];
  UNROLL for (int i = 0; i < (R < C ? R : C); i++) held[i] = R < C ? x(i) : w(i);
  UNROLL for (int i = 0; i < (R < C ? C : R); i++) {
    float8 next = hold8(R < C ? w(i) : x(i));
    UNROLL for (int j = 0; j < (R < C ? R : C); j++) {
      partial *sum = p + (R < C ? i * padded<R>() + j : j * padded<R>() + i);
      *sum = dot8(next, held[j], *sum);
    }
  }
}

#ifdef REPRISE_GPU

/* ---- a unit of work on a GPU: a few columns of a tile of rows */

/* p[c * padded<R>() + r] = h[r] . w[c] over a slice from `k` to `end`, spread over the warp's lanes. */
template <int R, int C> INLINE void dots (const rows_of &tile, i32 k, i32 end, const W **w, partial *p) {
  i32 row[R], packed = tile.packed < end ? tile.packed : end;
  UNROLL for (int r = 0; r < R; r++) row[r] = (r < tile.count ? r : tile.count - 1) * tile.stride;
  UNROLL for (int i = 0; i < padded<R>() * C; i++) p[i] = none();
  k += (i32)LANE * 8;
  auto x = [&] (int r) { return load8(tile.x + row[r] + k); };
  auto weight = [&] (int c) { return weight8(w[c] + k); };
  auto part_of_x = [&] (int r) { return part8(tile.x + row[r] + k, end - k); };
  auto part_of_w = [&] (int c) { return part8(w[c] + k, end - k); };
  for (; k < packed; k += LANES * 8) step<R, C>(x, weight, p);
  for (; k < end; k += LANES * 8) step<R, C>(part_of_x, part_of_w, p);
}

/* Columns from j on (C of them, half as many with a gate) of a tile of at most R rows. */
template <int R, int C, bool GATED> INLINE void make (const task &t, const rows_of &tile, i32 j) {
  enum { P = padded<R>(), N = P * (GATED ? C / 2 : C) };
  const W *w[C];
  float s[HELD(N)] = {0}, gate[HELD(N)] = {0};
  pick<C, GATED>(t, j, w);
  for (i32 k = 0; k < t.n; k += SLICE) {
    partial p[P * C];
    float part[HELD(N)];
    dots<R, C>(tile, k, k + SLICE < t.n ? k + SLICE : t.n, w, p);
    totals<N>(p, part);
    s[0] += part[0];
    if (GATED) totals<N>(p + P * C - N, part), gate[0] += part[0];
  }
  float norm = norm_in(t, tile, held(N) % P < tile.count ? held(N) % P : 0);
  s[0] *= norm;
  gate[0] *= norm;
  activate<HELD(N)>(s, t.act);
  for (int i = 0; i < HELD(N); i++) {
    i32 which = held(N) + i, r = which % P, column = j + which / P;
    if (which >= N || r >= tile.count || column >= t.columns) continue;
    size_t at = (size_t)(tile.first + r) * (size_t)t.columns + (size_t)column;
    t.y[at] = (GATED ? s[i] * gate[i] : s[i] * t.scale) + (t.residual ? t.residual[at] : 0.0f);
  }
}

/* A few rows that few.cu does not take are made as if there were eight: a variant for each number of rows makes the compiler
 * three times as slow. */
template <bool GATED> INLINE i32 unit () { return GATED ? 2 : 4; }
template <bool GATED> INLINE void make_units (const task &t, const rows_of &tile, i32 from, i32 to) {
  for (i32 u = from + (i32)WARP; u < to; u += (i32)WARPS) make<8, 4, GATED>(t, tile, u * unit<GATED>());
}

#else

/* ---- on the CPU: eight columns, a few at a time; registers hold about twelve sums of eight */

/* Asks for weights that a thread by itself needs later, in the order in which they lie in memory: those that are read now
 * are read side by side, which no hardware takes for a stream. One row needs those behind these; several rows take their
 * time. FAR: for L2, what is used now stays in L1. With a gate, half of the weights lie elsewhere. */
template <int R, int C, bool GATED, bool FAR> INLINE void ask_ahead (const W *const *w, i32 n, i32 k) {
  enum { REGIONS = GATED ? 2 : 1, ROWS = C / REGIONS, AHEAD = R == 1 ? ROWS : 16 / REGIONS };
  enum { BYTES = ROWS * 8 * (int)sizeof(W), LINE = 64 };
  UNROLL for (int i = 0; i < REGIONS; i++) {
    const u8 *next = (const u8 *)(w[i * ROWS] + (size_t)AHEAD * (size_t)n + (size_t)k * ROWS);
    UNROLL for (int at = 0; at < BYTES; at += LINE)
      if (FAR) prefetch_far(next + at);
      else prefetch(next + at);
  }
}

/* The packs from k on, the last of them incomplete. */
template <int R, int C> APART void finish (const rows_of &tile, i32 n, i32 k, const i32 *row, const W *const *w, partial *p) {
  auto x = [&] (int r) { return part8(tile.x + row[r] + k, n - k); };
  auto weight = [&] (int c) { return part8(w[c] + k, n - k); };
  for (; k < n; k += 8) step<R, C>(x, weight, p);
}

/* p[c * R + r] = h[r] . w[c] */
template <int R, int C, bool GATED> INLINE void dots (const rows_of &tile, i32 n, const W *const *w, partial *p) {
  i32 row[R], k = 0;
  UNROLL for (int r = 0; r < R; r++) row[r] = (r < tile.count ? r : tile.count - 1) * tile.stride;
  UNROLL for (int i = 0; i < R * C; i++) p[i] = none();
  auto x = [&] (int r) { return load8(tile.x + row[r] + k); };
  auto weight = [&] (int c) { return weight8(w[c] + k); };
  for (; k < tile.packed; k += 8) {
    ask_ahead<R, C, GATED, true>(w, n, k);
    step<R, C>(x, weight, p);
  }
  if (k < n) finish<R, C>(tile, n, k, row, w, p);
}

template <bool GATED> INLINE i32 unit () { return 8; }

/* y[0 .. 7] of a row, from column j on. */
INLINE void put (const task &t, i32 row, i32 j, float8 s, float8 scale) {
  size_t at = (size_t)row * (size_t)t.columns + (size_t)j;
  i32 count = t.columns - j < 8 ? t.columns - j : 8;
  float8 more = t.residual ? part8(t.residual + at, count) : splat8(0);
  store_part8(t.y + at, fma8(act8(s, t.act), scale, more), count);
}

/* C rows of weights at a time. */
template <int R, int C, bool GATED> INLINE void make (const task &t, const rows_of &tile, i32 j) {
  enum { WIDE = GATED ? C / 2 : C };
  float s[8 * R], gate[8 * R], sums[R * C];
  for (int done = 0; done < 8; done += WIDE) {
    const W *w[C];
    partial p[R * C];
    pick<C, GATED>(t, j + done, w);
    dots<R, C, GATED>(tile, t.n, w, p);
    totals<R * C>(p, sums);
    UNROLL for (int i = 0; i < R * WIDE; i++) s[i % R * 8 + done + i / R] = sums[i];
    UNROLL for (int i = 0; GATED && i < R * WIDE; i++) gate[i % R * 8 + done + i / R] = sums[R * WIDE + i];
  }
  for (int r = 0; r < tile.count; r++) {
    float8 norm = splat8(norm_in(t, tile, r));
    put(t, tile.first + r, j, mul8(load8(s + r * 8), norm), GATED ? mul8(load8(gate + r * 8), norm) : splat8(t.scale));
  }
}

/* h . w for four rows of weights from a on and four from b on, which follow them if there is no gate. */
template <bool GATED> INLINE float8 eight (const float *h, i32 n, const W *a, const W *b) {
  float8 sum[8];
  size_t row = (size_t)n;
  const W *w[8] = {a, a + row, a + 2 * row, a + 3 * row, b, b + row, b + 2 * row, b + 3 * row};
  UNROLL for (int c = 0; c < 8; c++) sum[c] = splat8(0);
  for (i32 k = 0; k < n; k += 8) {
    float8 x = load8(h + k);
    ask_ahead<1, 8, GATED, false>(w, n, k);
    UNROLL for (int c = 0; c < 8; c++) sum[c] = fma8(x, hold8(weight8(w[c] + k)), sum[c]);
  }
  return rp_total8(sum);
}

/* One row by whole units of a matrix, which are most of a small decoder: what they share is computed once. */
template <bool GATED> APART void make_whole (const task &t, const rows_of &tile, i32 u, i32 last) {
  size_t n = (size_t)t.n, at = (size_t)tile.first * (size_t)t.columns;
  float8 norm = splat8(norm_in(t, tile, 0)), scale = splat8(t.scale);
  for (i32 j = u * 8; j < last * 8; j += 8) {
    i32 of = GATED ? 0 : j / t.m;
    const W *w = matrix_of(t, of) + (size_t)(j - of * t.m) * n, *beside = GATED ? t.w[1] + (size_t)j * n : w + 4 * n;
    float8 s = eight<GATED>(tile.x, t.n, w, beside);
    if (GATED) {
      float8 more = eight<GATED>(tile.x, t.n, w + 4 * n, beside + 4 * n);
      scale = mul8(rp_lasts(s, more), norm);
      s = rp_firsts(s, more);
    }
    float8 residual = t.residual ? load8(t.residual + at + j) : splat8(0);
    store8(t.y + at + j, fma8(act8(mul8(s, norm), t.act), scale, residual));
  }
}

/* Other units of one row: fewer rows of weights are read side by side. */
template <bool GATED> APART void make_far (const task &t, const rows_of &tile, i32 u, i32 last) {
  for (; u < last; u++) make<1, 4, GATED>(t, tile, u * 8);
}

enum { NEAR = 2048 / (i32)sizeof(W) }; /* longest row of weights of which 16, two units, fit into L1 */

/* Whole units end where the columns do, or where a matrix does: all matrices are then of whole units. */
template <bool GATED> INLINE void make_row (const task &t, const rows_of &tile, i32 u, i32 last) {
  bool whole = t.n <= NEAR && tile.packed == t.n && (t.m % 8 == 0 || t.m == t.columns);
  i32 split = whole ? t.columns / 8 : u;
  split = split < last ? split : last;
  make_whole<GATED>(t, tile, u, split);
  make_far<GATED>(t, tile, u > split ? u : split, last);
}
template <int R, int C, bool GATED> INLINE void make_many (const task &t, const rows_of &tile, i32 u, i32 last) {
  for (; u < last; u++) make<R, C, GATED>(t, tile, u * 8);
}

template <bool GATED> INLINE void make_units (const task &t, const rows_of &tile, i32 u, i32 last) {
  switch (tile.count) {
    case 1: make_row<GATED>(t, tile, u, last); break;
    case 2: make_many<2, 4, GATED>(t, tile, u, last); break;
    case 3: make_many<3, 4, GATED>(t, tile, u, last); break;
    case 4: make_many<4, 2, GATED>(t, tile, u, last); break;
    case 5: make_many<5, 2, GATED>(t, tile, u, last); break;
    default: make_many<6, 2, GATED>(t, tile, u, last); break;
  }
}

#endif

/* A block's share of (tile, unit of columns), a tile's units together, so that rows are staged as rarely as may be. */
template <bool GATED> INLINE void run (const task &t) {
  DYNAMIC(float, h);
  i32 wide = unit<GATED>(), units = (t.columns + wide - 1) / wide;
  span mine = share((t.rows + t.tile - 1) / t.tile * units);
  release_next();
  i32 packed = packable(t.w[0], t.n);
  if (t.w[1]) packed &= packable(t.w[1], t.n);
  if (t.w[2]) packed &= packable(t.w[2], t.n);
  wait_previous();
  rows_of tile = {h, (t.n + 7) & ~7, 0, 0, packed};
  for (i32 at = mine.first; at < mine.last;) {
    i32 from = at % units, to = from + mine.last - at < units ? from + mine.last - at : units;
    tile.first = at / units * t.tile;
    tile.count = t.rows - tile.first < t.tile ? t.rows - tile.first : t.tile;
    if (t.staged) {
      if (at > mine.first) barrier();
      stage(t, tile, h);
      barrier();
    } else {
      tile.x = t.x + (size_t)tile.first * (size_t)t.n;
      tile.stride = t.n;
      tile.packed = packed & packable(t.x, t.n);
    }
    make_units<GATED>(t, tile, from, to);
    at += to - from;
  }
}

WAITS KERNEL void linear (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2,
                          EARLY const W *w3, const float *residual, i32 rows, i32 n, i32 m, i32 tile, i32 staged,
                          i32 act, float eps, float scale) {
  i32 matrices = w3 ? 3 : w2 ? 2 : 1;
  task t = {y, x, residual, gamma, {w, w2, w3}, rows, n, m, m * matrices, tile, staged, act, eps, scale};
  run<false>(t);
}

WAITS KERNEL void gated (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate,
                         i32 rows, i32 n, i32 m, i32 tile, i32 staged, i32 act, float eps) {
  task t = {y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, tile, staged, act, eps, 1.0f};
  run<true>(t);
}
