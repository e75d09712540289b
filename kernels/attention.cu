/*
 * attention.cu - T5's attention: y = softmax(q . k + bias) v for each head. No 1/sqrt(size): T5 has none.
 *
 *   attend_self    one query a row; its key and value go into the caches at *position first, then it looks at all
 *                  positions up to and with its own. `beams` rows stand together and share what they have seen: with
 *                  `origin`, position p of a row lies in the caches of row origin[row][p] of the group; *position in its own
 *   attend_cross   one query a row over the keys and values of the row's source, as many as the source is long; no bias
 *   attend_all     every position of a source over all positions of the source, both ways (encoder); rows of y past a
 *                  source's length are zero
 *
 * Shapes, inner = heads * size: qkv [rows][3][inner] f32 (queries, keys, values side by side), q and y [rows][inner] f32,
 * keys and values [rows or sources][room][inner] of KV (f32, or f16: rounded to nearest even, saturated at 65504).
 * bias [2 * reach + 1][heads] f32, or null: row reach + (key position - query position), held inside the table.
 * position [1], lengths [sources] i32, origin [rows][room] u8 or null. Mistakes nobody can overlook: a position outside
 * the caches, an origin from `beams` on or a source of length 0 gives nan.
 * Launch: any grid and block, shared = 4 * (CHUNK + 8 * max(threads of a block, size / 8 rounded up)) bytes.
 *
 * A block takes one query of one head at a time. Scores are made CHUNK at a time, a key a thread; a running maximum and
 * sum make any length fit (Milakov, Gimelshein, https://arxiv.org/abs/1805.02867).
 */
#include "query.cuh"

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
  UNROLL for (int c = 0; c < 8; c++) sum[c] = splat8(0);
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

/* As on a GPU, eight keys at a time. */
template <class T> INLINE float score_keys (const view<const float> &q, const view<T> &keys, const relative &b, i32 size,
                                            i32 first, i32 count, float *score) {
  float most = -INF;
  bool whole = q.packed == size && keys.packed == size;
  for (i32 i = 0; i < count; i += 8) {
    i32 here = count - i < 8 ? count - i : 8;
    store8(score + i, (whole ? score8<T> : score8_part<T>)(q, keys, size, first + i, here));
    for (i32 c = 0; c < 8; c++) {
      float s = -INF;
      if (c < here) s = known(keys, first + i + c) ? score[i + c] + bias_at(b, first + i + c) : NOT_A_NUMBER;
      score[i + c] = s;
      most = s > most ? s : most;
    }
  }
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

/* The same for eight packs that are all there, by one thread. */
template <class T> APART void add_whole (const view<T> &values, i32 first, i32 count, i32 d, const float *score, float keep,
                                         float *cell) {
  float8 sum[8];
  UNROLL for (int j = 0; j < 8; j++) sum[j] = keep == 0 ? splat8(0) : mul8(splat8(keep), load8(cell + j * 8));
  for (i32 i = 0; i < count; i++) {
    const T *value = place(values, first + i) + d;
    float8 s = splat8(score[i]);
    UNROLL for (int j = 0; j < 8; j++) sum[j] = fma8(s, load8(value + j * 8), sum[j]);
  }
  UNROLL for (int j = 0; j < 8; j++) store8(cell + j * 8, sum[j]);
}

template <class T> INLINE void add_chunk (const view<T> &values, const layout &l, i32 size, i32 first, i32 count,
                                          const float *score, float keep, float *cells) {
  for (i32 u = (i32)THREAD; u < l.units * l.groups; u += (i32)THREADS) {
    i32 group = u / l.units, pack = u % l.units * l.many, end = pack + l.many < l.packs ? pack + l.many : l.packs;
    float *cell = cells + (group * l.packs + pack) * 8;
    bool whole = LANES == 1 && end - pack == 8 && end * 8 <= values.packed;
    if (whole) add_whole(values, first, count, pack * 8, score, keep, cell);
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

template <class T> INLINE void keep (T *to, const float *from, i32 size) {
  i32 packed = packable(to, size) & packable(from, size);
  for (i32 k = (i32)THREAD * 8; k < size; k += (i32)THREADS * 8)
    if (k < packed) store8(to + k, load8(from + k));
    else store_part8(to + k, part8(from + k, size - k), size - k);
}

#ifdef REPRISE_GPU

INLINE void self_ahead (float *y, const caches<KV> &c, KV *keys, KV *values, const float *qkv, const float *bias, i32 at,
                        i32 reach) {
  bool inside = 0 <= at && at < c.room;
  i32 inner = c.heads * c.size;
  attend_queries<KV>(c.rows * c.heads, c.size, [&] (i32 i) {
    i32 row = i / c.heads, head = i % c.heads;
    size_t to = place_of(c, row, head) + (size_t)at * (size_t)inner;
    size_t from = place_of(c, c.origin ? row - row % c.beams : row, head);
    const float *q = qkv + (size_t)(row * 3) * (size_t)inner + head * c.size;
    query<KV> a = {};
    a.y = y + (size_t)i * (size_t)c.size;
    a.q = q;
    if (inside) a.own_key = q + inner, a.own_value = q + 2 * inner;
    a.keep_key = keys + to, a.keep_value = values + to;
    a.keys = keys + from, a.values = values + from;
    a.origin = c.origin ? c.origin + (size_t)row * (size_t)c.room : nullptr;
    a.bias = bias ? bias + reach * c.heads + head : nullptr;
    a.size = c.size, a.inner = inner, a.row = c.room * inner;
    a.count = inside ? at : 0, a.at = at;
    a.heads = c.heads, a.reach = reach, a.beams = c.beams;
    return a;
  });
}

INLINE void cross_ahead (float *y, const caches<KV> &c, const float *q, const i32 *lengths, i32 rows) {
  i32 inner = c.heads * c.size, each = rows / c.rows;
  attend_queries<KV>(rows * c.heads, c.size, [&] (i32 i) {
    i32 source = i / c.heads / each, length = lengths[source];
    size_t from = place_of(c, source, i % c.heads), at = (size_t)i * (size_t)c.size;
    query<KV> a = {};
    a.y = y + at, a.q = q + at;
    a.keys = c.keys + from, a.values = c.values + from;
    a.size = c.size, a.inner = inner;
    a.count = length < c.room ? length : c.room;
    return a;
  });
}

#endif

/* ---- kernels */

WAITS KERNEL void attend_self (float *y, EARLY KV *keys, EARLY KV *values, const float *qkv, EARLY const float *bias,
                               EARLY const i32 *position, EARLY const u8 *origin, i32 rows, i32 heads, i32 size, i32 room,
                               i32 reach, i32 beams) {
  release_next();
  i32 inner = heads * size;
  caches<KV> c = {keys, values, origin, rows, heads, size, room, beams};
#ifdef REPRISE_GPU
  if (fits_ahead(c, qkv, y)) return self_ahead(y, c, keys, values, qkv, bias, *position, reach);
#endif
  span mine = share(rows * heads);
  wait_previous();
  i32 at = *position;
  bool inside = 0 <= at && at < room;
  for (i32 item = mine.first; item < mine.last; item++) {
    i32 row = item / heads, head = item % heads;
    size_t cache = place_of(c, row, head) + (size_t)at * (size_t)inner;
    const float *q = qkv + (size_t)row * 3 * (size_t)inner + head * size;
    if (inside) {
      keep(keys + cache, q + inner, size);
      keep(values + cache, q + 2 * inner, size);
    }
    barrier();
    relative b = {bias, heads, head, reach, at};
    attend(y + (size_t)row * (size_t)inner + head * size, view_of(q, size, inner), keys_of(c, row, head, at),
           values_of(c, row, head, at), b, size, inside ? at + 1 : 0);
  }
}

WAITS KERNEL void attend_cross (float *y, const float *q, EARLY const KV *keys, EARLY const KV *values,
                                EARLY const i32 *lengths, i32 rows, i32 sources, i32 heads, i32 size, i32 room) {
  release_next();
  i32 inner = heads * size;
  caches<KV> c = {keys, values, nullptr, sources, heads, size, room, 1};
#ifdef REPRISE_GPU
  if (fits_ahead(c, q, y)) return cross_ahead(y, c, q, lengths, rows);
#endif
  span mine = share(rows * heads);
  wait_previous();
  for (i32 item = mine.first; item < mine.last; item++) {
    i32 row = item / heads, head = item % heads, source = row / (rows / sources), length = lengths[source];
    size_t at = (size_t)row * (size_t)inner + (size_t)(head * size);
    relative unbiased = {nullptr, 0, 0, 0, 0};
    attend(y + at, view_of(q + at, size, inner), keys_of(c, source, head), values_of(c, source, head), unbiased, size,
           length < room ? length : room);
  }
}

WAITS KERNEL void attend_all (float *y, const float *qkv, const float *bias, const i32 *lengths, i32 sources, i32 heads,
                              i32 size, i32 room, i32 reach) {
  release_next();
  span mine = share(sources * heads * room);
  i32 inner = heads * size;
  wait_previous();
  for (i32 item = mine.first; item < mine.last; item++) {
    i32 query = item % room, head = item / room % heads, source = item / room / heads, length = lengths[source];
    size_t row = (size_t)source * (size_t)room + (size_t)query;
    const float *start = qkv + (size_t)source * (size_t)room * 3 * (size_t)inner + head * size;
    float *to = y + row * (size_t)inner + head * size;
    if (query >= length) {
      for (i32 d = (i32)THREAD; d < size; d += (i32)THREADS) to[d] = 0;
      continue;
    }
    relative b = {bias, heads, head, reach, query};
    attend(to, view_of(start + (size_t)query * 3 * (size_t)inner, size, 3 * inner), view_of(start + inner, size, 3 * inner),
           view_of(start + 2 * inner, size, 3 * inner), b, size, length < room ? length : room);
  }
}
