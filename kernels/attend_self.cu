/*
 * attend_self.cu - attention of one query a row: its key and value go into the caches at *position first, then it looks at
 * all positions up to and with its own. `beams` rows stand together and share what they have seen: with `origin`, position
 * p of a row lies in the caches of row origin[row][p] of the group; *position in its own.
 *
 * Formula, shapes, launch: attention.cuh; on a GPU, where it fits, query.cuh.
 */
#include "attention.cuh"
#include "query.cuh"

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

#endif

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
