/*
 * attend_cross.cu - attention of one query a row over the keys and values of the row's source, as many as the source is long;
 * no bias.
 *
 * Formula, shapes, launch: attention.cuh; on a GPU, where it fits, query.cuh.
 */
#include "attention.cuh"
#include "query.cuh"

#ifdef REPRISE_GPU

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
