/*
 * tiles.cu - linear.cu's products for many rows on tensor cores.
 *
 *   a block: a tile of y, 64 columns by 64 rows, a quarter of it a warp; or 32 by 32, where tiles would be too few: then
 *   each of its four warps has all of it for a quarter of k, and their sums are added in order
 *
 *   shared memory:  | stage: weights, rows of x | the next stage, on its way | one more |     32 of k a warp and stage
 *
 * Weights and rows come by asynchronous copies, the first weights from before the wait on. A row's bits depend on n and
 * on the size of tile, not on where it lies.
 *
 * Formulas and shapes: linear.cu, without its norm. W: f16 or bf16. n is a multiple of eight; x and weights lie on 16
 * bytes; else y becomes nan.
 * Launch: any grid, blocks of 128 threads; shared = 39936 bytes, with `quarters` 81408. y may be residual, but
 * not overlap x.
 */
#include "product.cuh"
#include "cores.cuh"

enum { STAGES = 3, WARP_K = 32, PACK = 16 };      /* stages; of k, a warp and stage; bytes of a copy */
enum { KEPT_PITCH = 36, KEPT = 32 * KEPT_PITCH }; /* floats: of a warp's sums, a row of them and all */

template <bool QUARTERS> struct tile_of {
  enum { SIDE = QUARTERS ? 32 : 64, K = QUARTERS ? 4 * WARP_K : WARP_K };
  enum { W_PITCH = K * (int)sizeof(W) + (QUARTERS ? 64 : 0), X_PITCH = K * 4 + 16 }; /* bytes: no two rows in one bank */
  enum { W_BYTES = SIDE * W_PITCH, BYTES = W_BYTES + SIDE * X_PITCH };               /* of a stage */
};

/* ---- from memory to shared memory: a thread copies the same packs of rows that lie STEP apart, stage after stage */

template <int ROWS, int PACKS> struct copier { /* of ROWS rows of PACKS packs; 128 threads */
  enum { STEP = 128 / PACKS, COUNT = ROWS / STEP };
  const u8 *from[COUNT]; /* null: there is no such row */
};

template <int ROWS, int PACKS> INLINE i32 row_in (const copier<ROWS, PACKS> &, i32 j) {
  return (i32)THREAD / PACKS + j * copier<ROWS, PACKS>::STEP;
}
template <int PACKS> INLINE i32 byte_in () { return (i32)THREAD % PACKS * PACK; }

/* bytes: of a row in memory; any: some address; to, pitch: where the stage lies, and its rows. */
template <int ROWS, int PACKS> INLINE void copy_stage (const copier<ROWS, PACKS> &c, const void *any, i32 stage, i32 bytes,
                                                       u8 *to, i32 pitch) {
  i32 at = stage * PACKS * PACK + byte_in<PACKS>();
  UNROLL for (int j = 0; j < copier<ROWS, PACKS>::COUNT; j++) {
    bool there = c.from[j] && at < bytes;
    copy16(to + row_in(c, j) * pitch + byte_in<PACKS>(), there ? c.from[j] + at : any, there);
  }
}

template <bool QUARTERS> struct copiers {
  typedef tile_of<QUARTERS> tile;
  copier<tile::SIDE, tile::K * (int)sizeof(W) / PACK> w;
  copier<tile::SIDE, tile::K * 4 / PACK> x;
};

/* The row of weights behind a row of the tile; with a gate, eight of w and eight of the gate by turns. */
template <bool GATED> INLINE const W *weights_of (const task &t, i32 first, i32 a) {
  i32 column = first + (GATED ? a / 16 * 8 + a % 8 : a), which = column < t.m ? 0 : column < 2 * t.m ? 1 : 2;
  if (column >= t.columns) return nullptr;
  return matrix_of(t, GATED ? a % 16 / 8 : which) + (size_t)(column - which * t.m) * (size_t)t.n;
}

template <bool GATED, bool QUARTERS> INLINE void aim (copiers<QUARTERS> &c, const task &t, i32 column, i32 row) {
  UNROLL for (int j = 0; j < (int)(sizeof c.w.from / sizeof c.w.from[0]); j++)
    c.w.from[j] = (const u8 *)weights_of<GATED>(t, column, row_in(c.w, j));
  UNROLL for (int j = 0; j < (int)(sizeof c.x.from / sizeof c.x.from[0]); j++) {
    i32 r = row + row_in(c.x, j);
    c.x.from[j] = r < t.rows ? (const u8 *)(t.x + (size_t)r * (size_t)t.n) : nullptr;
  }
}

template <bool QUARTERS> INLINE void copy_weights (const copiers<QUARTERS> &c, const task &t, i32 stage, u8 *shared) {
  typedef tile_of<QUARTERS> tile;
  copy_stage(c.w, t.w[0], stage, t.n * (i32)sizeof(W), shared + stage % STAGES * tile::BYTES, tile::W_PITCH);
}
template <bool QUARTERS> INLINE void copy_rows (const copiers<QUARTERS> &c, const task &t, i32 stage, u8 *shared) {
  typedef tile_of<QUARTERS> tile;
  copy_stage(c.x, t.x, stage, t.n * 4, shared + stage % STAGES * tile::BYTES + tile::W_BYTES, tile::X_PITCH);
}

/* ---- products: a warp's 32 columns by 32 rows */

struct sums { tile_sum s[2][4]; };

/* A warp's part of a stage: 32 of k. w, x: its first row and k. */
template <bool QUARTERS> INLINE void multiply (sums &all, const u8 *w, const u8 *x, i32 g, i32 t) {
  typedef tile_of<QUARTERS> tile;
  float8 a[2][2], b[4];
  UNROLL for (int i = 0; i < 4; i++)
    a[i / 2][i % 2] = load8((const W *)(w + (i * 8 + g) * tile::W_PITCH) + t * 8);
  UNROLL for (int j = 0; j < 4; j++) b[j] = load8((const float *)(x + (j * 8 + g) * tile::X_PITCH) + t * 8);
  UNROLL for (int k = 0; k < 8; k += 2)
    UNROLL for (int j = 0; j < 4; j++) {
      pair high = {cores_high(at8(b[j], k)), cores_high(at8(b[j], k + 1))};
      pair low = {at8(b[j], k) - high.first, at8(b[j], k + 1) - high.second};
      UNROLL for (int i = 0; i < 2; i++) {
        pair up = {at8(a[i][0], k), at8(a[i][0], k + 1)}, down = {at8(a[i][1], k), at8(a[i][1], k + 1)};
        cores_add(all.s[i][j], up, down, low);
        cores_add(all.s[i][j], up, down, high);
      }
    }
}

/* ---- results */

/* kept: rows of 32 sums, one part a warp. */
INLINE void keep (float *kept, const sums &all, i32 g, i32 t) {
  UNROLL for (int i = 0; i < 2; i++)
    UNROLL for (int j = 0; j < 4; j++)
      UNROLL for (int c = 0; c < 4; c++)
        kept[(j * 8 + 2 * t + c % 2) * KEPT_PITCH + i * 16 + g + c / 2 * 8] = all.s[i][j].c[c];
}

/* Row r, row a of weights, of the tile. */
template <bool QUARTERS> INLINE float kept_at (const float *kept, i32 r, i32 a) {
  typedef tile_of<QUARTERS> tile;
  i32 at = r % 32 * KEPT_PITCH + a % 32;
  if (!QUARTERS) return kept[(r / 32 * 2 + a / 32) * KEPT + at];
  return (kept[at] + kept[KEPT + at]) + (kept[2 * KEPT + at] + kept[3 * KEPT + at]);
}

template <bool GATED, bool QUARTERS> INLINE void put (const task &t, const float *kept, i32 column, i32 row) {
  enum { SIDE = tile_of<QUARTERS>::SIDE, WIDE = GATED ? SIDE / 2 : SIDE };
  for (i32 i = (i32)THREAD; i < SIDE * WIDE; i += (i32)THREADS) {
    i32 r = i / WIDE, c = i % WIDE, a = GATED ? c / 8 * 16 + c % 8 : c;
    if (row + r >= t.rows || column + c >= t.columns) continue;
    size_t at = (size_t)(row + r) * (size_t)t.columns + (size_t)(column + c);
    float sum = kept_at<QUARTERS>(kept, r, a);
    activate<1>(&sum, t.act);
    float y = GATED ? sum * kept_at<QUARTERS>(kept, r, a + 8) : sum * t.scale;
    t.y[at] = y + (t.residual ? t.residual[at] : 0.0f);
  }
}

/* ---- a tile */

/* early: the first weights are on their way. */
template <bool GATED, bool QUARTERS> INLINE void make (const task &t, const copiers<QUARTERS> &c, i32 column, i32 row,
                                                       bool early, u8 *shared) {
  typedef tile_of<QUARTERS> tile;
  i32 stages = (t.n + tile::K - 1) / tile::K, g = (i32)LANE / 4, lane = (i32)LANE % 4, warp = (i32)WARP;
  i32 a = QUARTERS ? 0 : warp % 2 * 32, r = QUARTERS ? 0 : warp / 2 * 32, k = QUARTERS ? warp * WARP_K : 0;
  sums all = {};
  for (i32 s = 0; s < STAGES - 1; s++) {
    if (!early) copy_weights(c, t, s, shared);
    copy_rows(c, t, s, shared);
    copies_end();
  }
  for (i32 s = 0; s < stages; s++) {
    copies_wait<STAGES - 2>();
    barrier();
    copy_weights(c, t, s + STAGES - 1, shared);
    copy_rows(c, t, s + STAGES - 1, shared);
    copies_end();
    const u8 *here = shared + s % STAGES * tile::BYTES;
    multiply<QUARTERS>(all, here + a * tile::W_PITCH + k * (i32)sizeof(W),
                       here + tile::W_BYTES + r * tile::X_PITCH + k * 4, g, lane);
  }
  copies_wait<0>();
  barrier();
  keep((float *)shared + warp * KEPT, all, g, lane);
  barrier();
  put<GATED, QUARTERS>(t, (const float *)shared, column, row);
}

template <bool GATED, bool QUARTERS> INLINE void run (const task &t) {
  DYNAMIC(u8, shared);
  typedef tile_of<QUARTERS> tile;
  enum { WIDE = GATED ? tile::SIDE / 2 : tile::SIDE };
  i32 down = (t.rows + tile::SIDE - 1) / tile::SIDE; /* tiles of the same columns are neighbours: weights are read once */
  span mine = share((t.columns + WIDE - 1) / WIDE * down);
  copiers<QUARTERS> c;
  aim<GATED>(c, t, mine.first / down * WIDE, mine.first % down * tile::SIDE);
  if (mine.first < mine.last)
    for (i32 s = 0; s < STAGES - 1; s++) copy_weights(c, t, s, shared);
  wait_previous();
  for (i32 i = mine.first; i < mine.last; i++) {
    if (i > mine.first) aim<GATED>(c, t, i / down * WIDE, i % down * tile::SIDE), barrier();
    make<GATED>(t, c, i / down * WIDE, i % down * tile::SIDE, i == mine.first, shared);
  }
}

template <bool GATED> INLINE void run_any (const task &t, i32 quarters) {
  release_next();
  if (!lies_right(t) || THREADS != 128) spoil(t);
  else if (quarters) run<GATED, true>(t);
  else run<GATED, false>(t);
}

/* ---- kernels */

WAITS KERNEL void __launch_bounds__(128)
tile_linear (float *y, const float *x, EARLY const W *w, EARLY const W *w2, EARLY const W *w3, const float *residual,
             i32 rows, i32 n, i32 m, i32 quarters, i32 act, float scale) {
  i32 matrices = w3 ? 3 : w2 ? 2 : 1;
  task t = {y, x, residual, nullptr, {w, w2, w3}, rows, n, m, m * matrices, 0, 1, act, 0, scale};
  run_any<false>(t, quarters);
}

WAITS KERNEL void __launch_bounds__(128)
tile_gated (float *y, const float *x, EARLY const W *w, EARLY const W *gate, i32 rows, i32 n, i32 m, i32 quarters,
            i32 act) {
  task t = {y, x, nullptr, nullptr, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, 0, 1.0f};
  run_any<true>(t, quarters);
}
