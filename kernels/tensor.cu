/*
 * tensor.cu - linear.cu's products for one to eight rows on a GPU's tensor cores, as accurate as f32.
 *
 *   a unit: 16 rows of weights (8, and the same 8 of the gate); the warps of a block share it along n
 *   a chunk of 32 elements, lane (g, t) = LANE / 4, LANE % 4:
 *     weights  elements 8 t .. 8 t + 7 of rows g and g + 8      as they lie in memory: the order along n is free, so two
 *     x        elements 8 t .. 8 t + 7 of row g                  mma.m16n8k16 take these as they are
 *
 * x is scaled by a power of two, row by row, and split into as many numbers of the weights' type as hold f32's bits: 2 of
 * f16, 3 of bf16, once a block. Products of two such numbers are exact in f32, where they are summed. Weights are on their
 * way before the wait, and for the next unit while one is worked on. A row's result has the same bits whatever other rows
 * there are.
 *
 * Formulas and shapes: linear.cu. rows: 1 to 8, n a multiple of 32; x, gamma and the weights lie on 16 bytes; else y becomes
 * nan. Launch: any grid, a warp for each 128 elements of n; shared = 1344 bytes a warp. From compute capability 8.0 on. y
 * may be residual, but not overlap x.
 */
#include "product.cuh"

#if __CUDA_ARCH__ >= 800 || defined(RP_SIMT)

INLINE constexpr int terms (const f16 *) { return 2; }
INLINE constexpr int terms (const bf16 *) { return 3; }

enum { CHUNK = 32, DEEP = 4, TERMS = terms((const W *)nullptr), ROOM = 8 * 20 + 8 }; /* ROOM: floats a warp has in shared memory */

INLINE i32 group () { return (i32)LANE / 4; }
INLINE i32 member () { return (i32)LANE % 4 * 8; }

/* ---- tensor cores */

struct sums { float v[4]; }; /* of weights' rows g, g + 8 with x's rows 2 (LANE % 4), and the next: in this order of the x */

#ifdef __CUDA_ARCH__
INLINE void mma (sums &c, const u32 *a, const u32 *b, const f16 *) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
INLINE void mma (sums &c, const u32 *a, const u32 *b, const bf16 *) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else /* a CPU that plays a GPU: what the lanes hold comes by shuffles */
INLINE float half_of (u32 word, int which) {
  W w = {(u16)(word >> 16 * which)};
  return to_f32(w);
}
INLINE void mma (sums &c, const u32 *a, const u32 *b, const W *) {
  for (i32 p = 0; p < 4; p++) {
    u32 w[4], x[4];
    for (int i = 0; i < 4; i++) w[i] = __shfl_sync(~0u, a[i], (i32)LANE / 4 * 4 + p);
    for (int i = 0; i < 4; i++) x[i] = __shfl_sync(~0u, b[i / 2], ((i32)LANE % 4 * 2 + i % 2) * 4 + p);
    for (int i = 0; i < 8; i++) { /* i: which half, which eight of the sixteen, row g or g + 8 */
      float v = half_of(w[i / 2 % 2 * 2 + i / 4], i % 2);
      for (int r = 0; r < 2; r++) c.v[i / 4 * 2 + r] += v * half_of(x[i / 2 % 2 * 2 + r], i % 2);
    }
  }
}
#endif

/* ---- x: scaled and split */

struct split8 { u32 term[TERMS][4]; };

#ifdef __CUDA_ARCH__ /* both at once: one by one they take a slower way */
INLINE u32 pair_of (float lo, float hi, const f16 *) {
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}
INLINE u32 pair_of (float lo, float hi, const bf16 *) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}
#else
INLINE u32 pair_of (float lo, float hi, const f16 *) { return rp_pair(rp_half_bits(lo), rp_half_bits(hi)); }
INLINE u32 pair_of (float lo, float hi, const bf16 *) { return rp_pair(to_bf16(lo).bits, to_bf16(hi).bits); }
#endif
INLINE float first_of (u32 pair, const f16 *) { return rp_half(pair); }
INLINE float first_of (u32 pair, const bf16 *) { return __uint_as_float(pair << 16); }

INLINE split8 split_of (float8 x) {
  const W *type = nullptr;
  split8 s;
  UNROLL for (int k = 0; k < TERMS; k++)
    UNROLL for (int i = 0; i < 8; i += 2) {
      u32 pair = s.term[k][i / 2] = pair_of(at8(x, i), at8(x, i + 1), type);
      x.v[i] -= first_of(pair & 0xffffu, type);
      x.v[i + 1] -= first_of(pair >> 16, type);
    }
  return s;
}

INLINE float most_of (float8 x) {
  float m = 0;
  RP_EACH m = fmaxf(m, fabsf(x.v[i]));
  return m;
}

/* A power of two that brings numbers up to `most` near 2^14, and what undoes it. */
INLINE float scale_for (float most) { return __uint_as_float((268u - max(__float_as_uint(most) >> 23, 15u)) << 23); }
INLINE float unscale (float scale) { return __uint_as_float((254u << 23) - __float_as_uint(scale)); }

/* A warp's part of x: DEEP chunks of row g. */
struct operand { split8 chunk[DEEP]; float undo[2], squares; };

/* This warp's i-th chunk; past the last that again: it is read for nothing, and nothing branches. */
INLINE bool has (i32 n, int i) { return (i32)(WARP + i * WARPS) < n / CHUNK; } /* the same in a warp */
INLINE i32 at_chunk (i32 n, int i) { return min((i32)(WARP + i * WARPS), n / CHUNK - 1) * CHUNK + member(); }

struct pieces { float8 x[DEEP], gamma[DEEP]; };

/* Lanes of rows past the last read the last: nobody looks at their sums. */
INLINE size_t line_of (const task &t) {
  size_t line = (size_t)(min(group(), t.rows - 1) * t.n);
  ready_now(line);
  return line;
}

INLINE void fetch (pieces &v, const task &t, size_t line) {
  size_t k[DEEP];
  UNROLL for (int i = 0; i < DEEP; i++) k[i] = (size_t)at_chunk(t.n, i);
  UNROLL for (int i = 0; i < DEEP; i++) v.x[i] = load8(t.x + line + k[i]);
  if (!t.gamma) return;
  UNROLL for (int i = 0; i < DEEP; i++) v.gamma[i] = load8(t.gamma + k[i]);
}

INLINE void split_all (operand &o, pieces &v, const task &t) {
  float most = 0, squares = 0;
  if (t.gamma)
    UNROLL for (int i = 0; i < DEEP; i++) {
      float sum = dot8(v.x[i], v.x[i], 0);
      squares += has(t.n, i) ? sum : 0.0f;
      v.x[i] = mul8(v.x[i], v.gamma[i]);
    }
  UNROLL for (int i = 0; i < DEEP; i++) most = fmaxf(most, most_of(v.x[i]));
  UNROLL for (int m = 2; m; m /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, m));
    squares += __shfl_xor_sync(~0u, squares, m);
  }
  float scale = scale_for(most), undo = unscale(scale);
  o.squares = squares;
  UNROLL for (int r = 0; r < 2; r++) o.undo[r] = __shfl_sync(~0u, undo, ((i32)LANE % 4 * 2 + r) * 4);
  UNROLL for (int i = 0; i < DEEP; i++) o.chunk[i] = split_of(mul8(v.x[i], splat8(scale)));
}

/* ---- weights */

struct rows16 { const W *low, *high; asked8<W> a[DEEP][2]; };

/* The row of weights behind a column of y; past the end the last. */
INLINE const W *row_of (const task &t, i32 column) {
  if (column >= t.columns) column = t.columns - 1;
  i32 which = column < t.m ? 0 : column < 2 * t.m ? 1 : 2;
  return (which == 0 ? t.w[0] : which == 1 ? t.w[1] : t.w[2]) + (size_t)(column - which * t.m) * (size_t)t.n;
}

template <bool GATED> INLINE constexpr int wide () { return GATED ? 8 : 16; }

template <bool GATED> INLINE void aim (rows16 &s, const task &t, i32 unit) {
  i32 column = unit * wide<GATED>() + group();
  if (GATED && column >= t.columns) column = t.columns - 1;
  s.low = GATED ? t.w[0] + (size_t)column * (size_t)t.n : row_of(t, column);
  s.high = GATED ? t.w[1] + (size_t)column * (size_t)t.n : row_of(t, column + 8);
}

INLINE void ask (rows16 &s, i32 n, int i) {
  if (!has(n, i)) return;
  i32 k = at_chunk(n, i);
  s.a[i][0] = ask8(s.low + k);
  s.a[i][1] = ask8(s.high + k);
}

INLINE void multiply (sums *c, const rows16 &s, const operand &o, int i) {
  const u32 *low = &s.a[i][0].words[0].x, *high = &s.a[i][1].words[0].x;
  UNROLL for (int h = 0; h < 2; h++) {
    u32 a[4] = {low[2 * h], high[2 * h], low[2 * h + 1], high[2 * h + 1]};
    UNROLL for (int k = 0; k < TERMS; k++) mma(c[(h + 2 * k) % 4], a, o.chunk[i].term[k] + 2 * h, (const W *)nullptr);
  }
}

/* ---- a block's outputs */

/* Sums of a warp into its part of shared memory: [row][column], 20 floats a row, squares behind them. */
INLINE void put (float *room, const sums &c, float squares) {
  i32 r = (i32)LANE % 4 * 2;
  UNROLL for (int i = 0; i < 4; i++) room[(r + i % 2) * 20 + group() + i / 2 * 8] = c.v[i];
  if (LANE % 4 == 0) room[160 + group()] = squares;
}

INLINE float gathered (const float *room, i32 at) {
  float sum = 0;
  ROLLED for (u32 base = 0; base < WARPS; base += 4) /* the loads of four are on their way together */
    UNROLL for (u32 w = base; w < base + 4; w++) sum += w < WARPS ? room[(w < WARPS ? w : 0) * ROOM + at] : 0.0f;
  return sum;
}

template <bool GATED> struct output { i32 row, column; bool holds; size_t at; float residual; };

template <bool GATED> INLINE output<GATED> output_of (const task &t, i32 unit, i32 i) {
  output<GATED> o = {i / wide<GATED>(), i % wide<GATED>(), false, 0, 0};
  i32 column = unit * wide<GATED>() + o.column;
  o.holds = o.row < t.rows && column < t.columns;
  o.at = (size_t)o.row * (size_t)t.columns + (size_t)column;
  return o;
}

template <bool GATED> INLINE void finish (const task &t, const output<GATED> &o, const float *room, float part) {
  float sum = gathered(room, o.row * 20 + o.column), gate = GATED ? gathered(room, o.row * 20 + o.column + 8) : t.scale;
  if (t.gamma) {
    float norm = norm_of(gathered(room, 160 + o.row), part, t.eps);
    sum *= norm;
    if (GATED) gate *= norm;
  }
  activate<1>(&sum, t.act);
  t.y[o.at] = sum * gate + o.residual;
}

/* ---- all of it */

/* A unit; what is asked for belongs to unit `next`, if there is one. */
template <bool GATED> INLINE sums work (const task &t, rows16 &s, const operand &o, i32 next) {
  sums c[4] = {}, all;
  if (next >= 0) aim<GATED>(s, t, next);
  UNROLL for (int i = 0; i < DEEP; i++) {
    if (has(t.n, i)) multiply(c, s, o, i);
    if (next >= 0) ask(s, t.n, i);
  }
  UNROLL for (int i = 0; i < 4; i++) all.v[i] = ((c[0].v[i] + c[1].v[i]) + (c[2].v[i] + c[3].v[i])) * o.undo[i % 2];
  return all;
}

INLINE void read_x (operand &o, const task &t, size_t line) {
  pieces v;
  fetch(v, t, line);
  split_all(o, v, t);
}

template <bool GATED> INLINE void run (const task &t) {
  DYNAMIC(float, room);
  enum { WIDE = wide<GATED>() };
  span mine = share((t.columns + WIDE - 1) / WIDE);
  float part = 1.0f / (float)t.n;
  rows16 s;
  operand o;
  if (mine.first < mine.last) {
    aim<GATED>(s, t, mine.first);
    UNROLL for (int i = 0; i < DEEP; i++) ask(s, t.n, i);
  }
  size_t line = line_of(t);
  wait_asked();
  read_x(o, t, line);
  for (i32 unit = mine.first; unit < mine.last; unit++) {
    float *here = room + (unit - mine.first & 1) * (i32)WARPS * ROOM;
    output<GATED> out = output_of<GATED>(t, unit, (i32)THREAD);
    if (t.residual && out.holds) out.residual = t.residual[out.at];
    put(here + WARP * ROOM, work<GATED>(t, s, o, unit + 1 < mine.last ? unit + 1 : -1), o.squares);
    barrier();
    if (out.holds) finish(t, out, here, part);
    ROLLED for (i32 i = (i32)(THREAD + THREADS); i < 8 * WIDE; i += (i32)THREADS) {
      out = output_of<GATED>(t, unit, i);
      if (!out.holds) continue;
      if (t.residual) out.residual = t.residual[out.at];
      finish(t, out, here, part);
    }
  }
}

INLINE bool lies_right (const task &t) {
  i32 packed = packable(t.x, t.n) & packable(t.w[0], t.n);
  if (t.w[1]) packed &= packable(t.w[1], t.n);
  if (t.w[2]) packed &= packable(t.w[2], t.n);
  if (t.gamma) packed &= packable(t.gamma, t.n);
  return packed == t.n && t.n % CHUNK == 0 && t.n <= CHUNK * DEEP * (i32)WARPS && t.rows <= 8;
}

#else

template <bool> INLINE void run (const task &) {}
INLINE bool lies_right (const task &) { return false; }

#endif

INLINE void spoil (const task &t) {
  wait_asked();
  for (i32 i = (i32)(BLOCK * THREADS + THREAD); i < t.rows * t.columns; i += (i32)(BLOCKS * THREADS)) t.y[i] = NOT_A_NUMBER;
}

WAITS KERNEL void tensor_linear (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *w2,
                                 EARLY const W *w3, const float *residual, i32 rows, i32 n, i32 m, i32 act, float eps,
                                 float scale) {
  i32 matrices = w3 ? 3 : w2 ? 2 : 1;
  task t = {y, x, residual, gamma, {w, w2, w3}, rows, n, m, m * matrices, 0, 1, act, eps, scale};
  release_next();
  if (lies_right(t)) run<false>(t);
  else spoil(t);
}

WAITS KERNEL void tensor_gated (float *y, const float *x, EARLY const float *gamma, EARLY const W *w, EARLY const W *gate,
                                i32 rows, i32 n, i32 m, i32 act, float eps) {
  task t = {y, x, nullptr, gamma, {w, gate, nullptr}, rows, n, m, m, 0, 1, act, eps, 1.0f};
  release_next();
  if (lies_right(t)) run<true>(t);
  else spoil(t);
}
