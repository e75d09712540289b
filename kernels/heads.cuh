/*
 * heads.cuh - what a query of a head looks at: keys and values by position, and relative biases.
 */
#ifndef RP_HEADS
#define RP_HEADS

#include "reduce.cuh"

template <class T> struct view { /* one head's keys or values: position p begins at p + p * step */
  T *p;
  size_t step;
  i32 packed; /* how much of a position may be read in packs */
  const u8 *origin; /* not null: and origin[p] * row further on; but position own_at is the row's own, number own_row */
  size_t row;
  i32 beams, own_at, own_row;
};

template <class T> INLINE view<T> view_of (T *p, i32 size, i32 inner) {
  view<T> v = {p, (size_t)inner, packable(p, inner) ? packable(p, size) : 0, nullptr, 0, 0, -1, 0};
  return v;
}

template <class T> INLINE i32 whose (const view<T> &v, i32 at) { return at == v.own_at ? v.own_row : v.origin[at]; }
template <class T> INLINE bool known (const view<T> &v, i32 at) { return !v.origin || whose(v, at) < v.beams; }
template <class T> INLINE T *place (const view<T> &v, i32 at) {
  T *p = v.p + (size_t)at * v.step;
  return v.origin && whose(v, at) < v.beams ? p + (size_t)whose(v, at) * v.row : p;
}

template <class T> INLINE float8 piece (const T *p, i32 k, i32 packed, i32 n) {
  return k < packed ? load8(p + k) : part8(p + k, n - k);
}

struct relative { const float *bias; i32 heads, head, reach, query; };

INLINE float bias_at (const relative &b, i32 key) {
  if (!b.bias) return 0;
  i32 d = key - b.query;
  d = d < -b.reach ? -b.reach : d > b.reach ? b.reach : d;
  return b.bias[(size_t)(b.reach + d) * (size_t)b.heads + (size_t)b.head];
}

/* The caches of some rows. Rows of a group of `beams` share what they have seen, if there is an origin. */
template <class T> struct caches {
  const T *keys, *values;
  const u8 *origin;
  i32 rows, heads, size, room, beams;
};

/* Where the first position of a row's head lies. */
template <class T> INLINE size_t place_of (const caches<T> &c, i32 row, i32 head) {
  return ((size_t)row * (size_t)c.room * (size_t)c.heads + (size_t)head) * (size_t)c.size;
}
/* What a row at position `at` sees: of the others what they had before, at `at` itself its own. */
template <class T> INLINE view<const T> seen_in (const caches<T> &c, const T *p, i32 row, i32 head, i32 at) {
  view<const T> v = view_of(p + place_of(c, c.origin ? row - row % c.beams : row, head), c.size, c.heads * c.size);
  if (!c.origin) return v;
  v.origin = c.origin + (size_t)row * (size_t)c.room;
  v.row = (size_t)c.room * (size_t)(c.heads * c.size);
  v.beams = c.beams, v.own_at = at, v.own_row = row % c.beams;
  return v;
}
template <class T> INLINE view<const T> keys_of (const caches<T> &c, i32 row, i32 head, i32 at = -1) {
  return seen_in(c, c.keys, row, head, at);
}
template <class T> INLINE view<const T> values_of (const caches<T> &c, i32 row, i32 head, i32 at = -1) {
  return seen_in(c, c.values, row, head, at);
}

#endif
