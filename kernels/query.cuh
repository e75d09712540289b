/*
 * query.cuh - one query of a head on a GPU, over keys and values of which all but its own were there before the graph:
 * they are asked for before the wait, a window at a time, so what is left to wait for is the query.
 *
 *   a warp:   | G lanes: a key of G packs of eight | the next key ... |     a block has slots() keys side by side
 *   a window: deep<G>() times slots() keys and their values, in registers
 *
 * A running maximum and sums (Milakov, Gimelshein, https://arxiv.org/abs/1805.02867), which begin with the query's own
 * key; the lanes' sums are put together at the end. The order of adding depends on the block alone.
 */
#ifndef RP_QUERY
#define RP_QUERY

#include "heads.cuh"

#ifdef REPRISE_GPU

template <int G> INLINE constexpr int deep () { return G / 2; } /* 256 threads have 128 positions at once */

/* A lane's place: which key of those side by side, and which elements of it. */
template <int G> INLINE i32 slot () { return (i32)THREAD / G; }
template <int G> INLINE i32 slots () { return (i32)THREADS / G; }
template <int G> INLINE i32 element () { return (i32)THREAD % G * 8; }

template <class T> struct query { /* of one row and head; null where there is no such thing */
  float *y;
  const float *q, *own_key, *own_value;
  T *keep_key, *keep_value; /* where its own go */
  const T *keys, *values;   /* of position 0, of the first row of its group */
  const u8 *origin;
  const float *bias; /* of distance 0 */
  i32 size, count, at, inner, row, heads, reach, beams; /* count: positions before it; row: elements between rows */
};

INLINE float bias_of (const float *bias, i32 distance, i32 reach, i32 heads) {
  return bias ? bias[max(distance, -reach) * heads] : 0.0f; /* nobody looks ahead */
}

template <int G, class T> struct window { /* what a lane has of it */
  asked8<T> key[deep<G>()], value[deep<G>()]; /* zeros where there is none: nothing branches on it */
  float bias[deep<G>()]; /* -INF where there is no key, nan where nobody knows whose it is */
};

/* Asks for the keys from `first` on. */
template <int G, class T> INLINE void look (window<G, T> &w, const query<T> &a, i32 first) {
  i32 from[deep<G>()];
  UNROLL for (int i = 0; i < deep<G>(); i++) {
    i32 at = first + i * slots<G>() + slot<G>();
    w.bias[i] = -INF;
    from[i] = at * a.inner + element<G>();
    if (at >= a.count) continue;
    w.bias[i] = bias_of(a.bias, at - a.at, a.reach, a.heads);
    if (!a.origin) continue;
    i32 whose = a.origin[at];
    if (whose < a.beams) from[i] += whose * a.row;
    else w.bias[i] = NOT_A_NUMBER;
  }
  UNROLL for (int i = 0; i < deep<G>(); i++) {
    w.key[i] = w.value[i] = {};
    if (first + i * slots<G>() + slot<G>() >= a.count || element<G>() >= a.size) continue;
    w.key[i] = ask_state8(a.keys + from[i]);
    w.value[i] = ask_state8(a.values + from[i]);
  }
}

template <int G> INLINE float group_sum (float x) { /* over the lanes of a key */
  UNROLL for (int m = G / 2; m; m /= 2) x += __shfl_xor_sync(~0u, x, m);
  return x;
}

/* q . key of eight, two chains; with fmaf, so that every compiler rounds at the same places. */
INLINE float dot_of (float8 q, float8 key) {
  float a = at8(q, 0) * at8(key, 0), b = at8(q, 4) * at8(key, 4);
  UNROLL for (int i = 1; i < 4; i++) {
    a = fmaf(at8(q, i), at8(key, i), a);
    b = fmaf(at8(q, i + 4), at8(key, i + 4), b);
  }
  return a + b;
}

struct tally { float most, sum; float8 y; }; /* most: the block's so far; sum, y: of a lane's keys */

/* f(i) for the block's warps; of eight, all loads are on their way together. */
template <class F> INLINE void each_warp (F f) {
  if (WARPS == 8) {
    UNROLL for (u32 i = 0; i < 8; i++) f(i);
  } else {
    ROLLED for (u32 i = 0; i < WARPS; i++) f(i);
  }
}

/* The largest of the block's, of what is the same in the lanes of a key, by one barrier: the scratch alternates. */
template <int G> INLINE float block_most (float x, i32 turn) {
  __shared__ float part[2][32];
  UNROLL for (int m = G; m < LANES; m *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, m));
  if (LANE == 0) part[turn & 1][WARP] = x;
  barrier();
  each_warp([&] (u32 i) { x = fmaxf(x, part[turn & 1][i]); });
  return x;
}

/* The first N of a window's keys a lane. */
template <int G, int N, class T> INLINE void add_window (tally &t, const window<G, T> &w, float8 q, i32 turn) {
  float s[N], most = t.most;
  UNROLL for (int i = 0; i < N; i++) s[i] = dot_of(q, widen8(w.key[i]));
  UNROLL for (int m = G / 2; m; m /= 2) UNROLL for (int i = 0; i < N; i++) s[i] += __shfl_xor_sync(~0u, s[i], m);
  UNROLL for (int i = 0; i < N; i++) most = fmaxf(most, s[i] += w.bias[i]);
  most = block_most<G>(most, turn);
  float base = most == -INF ? 0.0f : most, keep = expf(t.most - base);
  t = {most, t.sum, mul8(t.y, splat8(keep))};
  UNROLL for (int i = 0; i < N; i++) {
    float e = expf(s[i] - base);
    t.sum = i == 0 ? fmaf(t.sum, keep, e) : t.sum + e;
    t.y = fma8(splat8(e), widen8(w.value[i]), t.y);
  }
}

/* y from what the lanes have seen; none of them anything: nan. */
template <int G> INLINE void put_together (float *y, tally t, i32 size) {
  DYNAMIC(float, sum);
  float *part = sum + 32;
  UNROLL for (int m = G; m < LANES; m *= 2) {
    t.sum += __shfl_xor_sync(~0u, t.sum, m);
    RP_EACH t.y.v[i] += __shfl_xor_sync(~0u, t.y.v[i], m);
  }
  if (LANE == 0) sum[WARP] = t.sum;
  if (LANE < G) RP_EACH part[(WARP * 8 + i) * G + LANE] = t.y.v[i];
  barrier();
  ROLLED for (i32 d = (i32)THREAD; d < size; d += (i32)THREADS) {
    float all = 0, v = 0;
    each_warp([&] (u32 i) {
      all += sum[i];
      v += part[(i * 8 + d % 8) * G + d / 8];
    });
    y[d] = v / all;
  }
}

template <class T> INLINE float8 rounded8 (float8 a, const T *) { RP_EACH a.v[i] = to_f32(to_f16(a.v[i])); return a; }
INLINE float8 rounded8 (float8 a, const float *) { return a; }

template <int G> INLINE float8 pack_of (const float *p, i32 size) {
  return element<G>() < size ? load8(p + element<G>()) : splat8(0);
}

/* The query's own key and value go to where they will be looked for, and are the first that the first group sees. */
template <int G, class T> INLINE tally see_own (const query<T> &a, float8 q, float bias) {
  float8 key = pack_of<G>(a.own_key, a.size), value = pack_of<G>(a.own_value, a.size);
  if (slot<G>() == 0 && element<G>() < a.size) {
    store8(a.keep_key + element<G>(), key);
    store8(a.keep_value + element<G>(), value);
  }
  float s = group_sum<G>(dot_of(q, rounded8(key, a.keys))) + bias;
  tally t = {s == s ? s : -INF, 0, splat8(0)};
  if (slot<G>() == 0) t = {t.most, s == s ? 1.0f : s, rounded8(value, a.keys)};
  return t;
}

/* started: has this block waited? */
template <int G, class T> INLINE void attend_ahead (const query<T> &a, bool &started) {
  tally t = {-INF, 0, splat8(0)};
  float8 q;
  window<G, T> w;
  i32 first = 0, turn = 0;
  float bias = bias_of(a.bias, 0, 0, 0);
  do {
    look<G>(w, a, first);
    if (!started) ready_at(a.q + element<G>());
    if (!started) wait_asked();
    started = true;
    if (first == 0) {
      q = pack_of<G>(a.q, a.size);
      if (a.own_key) t = see_own<G>(a, q, bias);
    }
    if (a.count - first <= slots<G>()) add_window<G, 1>(t, w, q, turn++);
    else add_window<G, deep<G>()>(t, w, q, turn++);
    first += deep<G>() * slots<G>();
  } while (first < a.count);
  put_together<G>(a.y, t, a.size);
}

/* All that this block has to do: query i is what `of(i)` says. */
template <class T, class F> INLINE void attend_queries (i32 count, i32 size, F of) {
  span mine = share(count);
  bool started = false;
  for (i32 i = mine.first; i < mine.last; i++)
    if (size <= 64) attend_ahead<8, T>(of(i), started);
    else attend_ahead<16, T>(of(i), started);
  if (!started) wait_previous();
}

/* Can queries be worked on here? Else attention.cuh's general way serves. */
template <class T> INLINE bool fits_ahead (const caches<T> &c, const float *q, const float *y) {
  i32 inner = c.heads * c.size;
  bool packed = packable(c.keys, inner) && packable(c.values, inner) && packable(q, inner) && packable(y, inner);
  return packed && c.size <= 128 && c.size % 8 == 0 && (i64)c.beams * c.room * inner < 1 << 30;
}

#endif
#endif
