/*
 * attention.cuh - T5's attention: y = softmax(q . k + bias) v for each head. No 1/sqrt(size): T5 has none.
 *
 * Shapes of attend_self, attend_cross and attend_all, inner = heads * size: qkv [rows][3][inner] f32 (queries, keys, values
 * side by side), q and y [rows][inner] f32, keys and values [rows or sources][room][inner] of KV (f32, or f16: rounded to
 * nearest even, saturated at 65504). bias [2 * reach + 1][heads] f32, or null: row reach + (key position - query position),
 * held inside the table. position [1], lengths [sources] i32, origin [rows][room] u8 or null. Mistakes nobody can overlook:
 * a position outside the caches, an origin from `beams` on or a source of length 0 gives nan.
 * Launch: any grid and block, shared = 4 * (CHUNK + 8 * max(threads of a block, size / 8 rounded up)) bytes.
 *
 * A block takes one query of one head at a time. Here scores are made CHUNK at a time, a key a thread; a running maximum and
 * sum make any length fit (Milakov, Gimelshein, https://arxiv.org/abs/1805.02867).
 */
#ifndef RP_ATTENTION
#define RP_ATTENTION

#include "heads.cuh"

enum { CHUNK = 1024 };

#ifdef REPRISE_GPU

/* score[i] = q . key[first + i] + bias for i < count, then -INF to a multiple of eight; returns the block's largest. */
template <class T> INLINE float score_keys (const view<const float> &q, const view<T> &keys, const relative &b, i32 size,
                                            i32 first, i32 count, float *score) {
  float most = -INF;
  i32 packed = q.packed & keys.packed;
  for (i32 i = (i32)THREAD; i < ((count + 7) & ~7); i += (i32)THREADS) {
    float s = -INF;
    if (i < count) {
      const T *key = place(keys, first + i);
      float8 sum = splat8(0);
      i32 k = 0;
      for (; k < packed; k += 8) sum = fma8(load8(q.p + k), load8(key + k), sum);
      for (; k < size; k += 8) sum = fma8(part8(q.p + k, size - k), part8(key + k, size - k), sum);
      s = known(keys, first + i) ? sum8(sum) + bias_at(b, first + i) : NOT_A_NUMBER;
    }
    score[i] = s;
    most = s > most ? s : most;
  }
  return block_max(most);
}

#else

/* q . key for eight keys side by side; past `count` the last again. */
template <class T> APART float8 score8 (const view<const float> &q, const view<T> &keys, i32 size, i32 at, i32 count) {
  const T *key[8];
  float8 sum[8];
  UNROLL for (int c = 0; c < 8; c++) key[c] = place(keys, at + (c < count ? c : count - 1));
  UNROLL for (int c = 0; c < 8; c++) sum[c] = hold8(splat8(0)); /* not zeros in memory, which is slow to begin */
  for (i32 k = 0; k < size; k += 8) {
    float8 x = hold8(load8(q.p + k));
    UNROLL for (int c = 0; c < 8; c++) sum[c] = fma8(x, load8(key[c] + k), sum[c]);
  }
  return rp_total8(sum);
}

/* The same where the last pack is not whole. */
template <class T> APART float8 score8_part (const view<const float> &q, const view<T> &keys, i32 size, i32 at, i32 count) {
  float s[8] = {};
  for (int c = 0; c < count && c < 8; c++) {
    const T *key = place(keys, at + c);
    float8 sum = splat8(0);
    for (i32 k = 0; k < size; k += 8) sum = fma8(part8(q.p + k, size - k), part8(key + k, size - k), sum);
    s[c] = sum8(sum);
  }
  return load8(s);
}

/* Biases of eight keys: neighbours, where none lies outside the table. */
INLINE float8 bias8 (const relative &b, i32 at) {
  i32 d = at - b.query;
  if (d < -b.reach || d + 7 > b.reach) {
    float bias[8];
    UNROLL for (int c = 0; c < 8; c++) bias[c] = bias_at(b, at + c);
    return load8(bias);
  }
  const float *row = b.bias + (size_t)(b.reach + d) * (size_t)b.heads + (size_t)b.head;
  size_t next = (size_t)b.heads;
  return rp_of8(row[0], row[next], row[2 * next], row[3 * next], row[4 * next], row[5 * next], row[6 * next],
                row[7 * next]); /* not through memory: eight stores and a load wait for each other */
}

/* The scores of `here` keys at score, where that is less simple; returns the largest, or `most`. */
template <class T> APART float score_part (const view<T> &keys, const relative &b, i32 at, i32 here, float most, float *score) {
  for (i32 c = 0; c < 8; c++) {
    float s = -INF;
    if (c < here) s = known(keys, at + c) ? score[c] + bias_at(b, at + c) : NOT_A_NUMBER;
    score[c] = s;
    most = s > most ? s : most;
  }
  return most;
}

/* As on a GPU, eight keys at a time. */
template <class T> INLINE float score_keys (const view<const float> &q, const view<T> &keys, const relative &b, i32 size,
                                            i32 first, i32 count, float *score) {
  float8 top = splat8(-INF);
  float most = -INF;
  bool whole = q.packed == size && keys.packed == size;
  for (i32 i = 0; i < count; i += 8) {
    i32 here = count - i < 8 ? count - i : 8;
    float8 s = (whole ? score8<T> : score8_part<T>)(q, keys, size, first + i, here);
    if (here == 8 && !keys.origin) {
      if (b.bias) s = add8(s, bias8(b, first + i));
      store8(score + i, s);
      top = max8(s, top);
    } else {
      store8(score + i, s);
      most = score_part(keys, b, first + i, here, most, score + i);
    }
  }
  for (int c = 0; c < 8; c++) most = at8(top, c) > most ? at8(top, c) : most;
  return most;
}

#endif

/* score = e^(score - most); returns the block's sum. */
INLINE float weigh (float *score, i32 count, float most) {
  float sum = 0;
  for (i32 i = (i32)THREAD * 8; i < count; i += (i32)THREADS * 8) {
    float8 e = exp8(sub8(load8(score + i), splat8(most)));
    sum += sum8(e);
    store8(score + i, e);
  }
  return block_sum(sum);
}

/* How the values' packs of eight are shared out: a unit is `many` packs of every `groups`-th position. */
struct layout { i32 packs, many, units, groups; };

INLINE layout layout_of (i32 size) {
  layout l = {(size + 7) / 8, LANES == 1 ? 8 : 1, 0, 0}; /* one thread keeps eight sums going */
  l.units = (l.packs + l.many - 1) / l.many;
  l.groups = (i32)THREADS / l.units > 0 ? (i32)THREADS / l.units : 1;
  return l;
}

/* cell[g][d] = cell[g][d] * keep + sum over the positions of group g of score * value */
template <class T> INLINE void add_values (const view<T> &values, i32 size, i32 first, i32 count, i32 d, i32 group,
                                           i32 groups, const float *score, float keep, float *cell) {
  float8 sum = keep == 0 ? splat8(0) : mul8(splat8(keep), load8(cell));
  for (i32 i = group; i < count; i += groups)
    sum = fma8(splat8(score[i]), piece(place(values, first + i), d, values.packed, size), sum);
  store8(cell, sum);
}

/* The same for N packs that are all there, by one thread: their sums do not wait for each other. */
template <int N, class T> APART void add_whole (const view<T> &values, i32 first, i32 count, i32 d, const float *score,
                                                float keep, float *cell) {
  float8 sum[N];
  UNROLL for (int j = 0; j < N; j++) sum[j] = hold8(keep == 0 ? splat8(0) : mul8(splat8(keep), load8(cell + j * 8)));
  for (i32 i = 0; i < count; i++) {
    const T *value = place(values, first + i) + d;
    float8 s = splat8(score[i]);
    UNROLL for (int j = 0; j < N; j++) sum[j] = fma8(s, load8(value + j * 8), sum[j]);
  }
  UNROLL for (int j = 0; j < N; j++) store8(cell + j * 8, sum[j]);
}

template <class T> INLINE void add_chunk (const view<T> &values, const layout &l, i32 size, i32 first, i32 count,
                                          const float *score, float keep, float *cells) {
  for (i32 u = (i32)THREAD; u < l.units * l.groups; u += (i32)THREADS) {
    i32 group = u / l.units, pack = u % l.units * l.many, end = pack + l.many < l.packs ? pack + l.many : l.packs;
    float *cell = cells + (group * l.packs + pack) * 8;
    bool whole = LANES == 1 && end * 8 <= values.packed;
    if (whole && end - pack == 8) add_whole<8>(values, first, count, pack * 8, score, keep, cell);
    else if (whole && end - pack == 4) add_whole<4>(values, first, count, pack * 8, score, keep, cell);
    else for (; pack < end; pack++, cell += 8) add_values(values, size, first, count, pack * 8, group, l.groups, score, keep, cell);
  }
}

/* y[0 .. size-1] for one query over keys 0 .. count-1. */
template <class T> INLINE void attend (float *y, const view<const float> &q, const view<T> &keys, const view<T> &values,
                                       const relative &b, i32 size, i32 count) {
  DYNAMIC(float, score);
  float *cells = score + CHUNK, most = -INF, sum = 0;
  layout l = layout_of(size);
  for (i32 first = 0; first < count; first += CHUNK) {
    i32 here = count - first < CHUNK ? count - first : CHUNK;
    float top = score_keys(q, keys, b, size, first, here, score);
    top = top > most ? top : most;
    float keep = first ? at8(exp8(splat8(most - top)), 0) : 0.0f;
    sum = sum * keep + weigh(score, here, top);
    most = top;
    add_chunk(values, l, size, first, here, score, keep, cells);
    barrier();
  }
  for (i32 d = (i32)THREAD; d < size; d += (i32)THREADS) {
    float s = 0;
    for (i32 g = 0; g < l.groups; g++) s += cells[g * l.packs * 8 + d];
    y[d] = count > 0 ? s / sum : NOT_A_NUMBER;
  }
  barrier();
}

#endif
