/*
 * top.cuh - the best k of many numbers in shared memory, in order; for kernel files, after prelude.cuh.
 *
 * The k-th largest among the maxima of packs of eight is a bound: at least k numbers reach it, and few others do. Those
 * that do are listed, and each finds its rank by counting the better ones. Of equal numbers the one with the lower name
 * is better, so the result does not depend on the block nor on the order in which the list was filled.
 */
#ifndef RP_TOP
#define RP_TOP

#include "prelude.cuh"

static const i32 NOBODY = 2147483647; /* a name worse than all */

struct top_space { float *most; i32 *list; }; /* n / 8 (to a multiple of eight) and n elements of shared memory */

/* Before a loop that runs a few times: one block alone works, and waits for every line of code that it has not met. */
#ifdef REPRISE_GPU
#define ROLLED _Pragma("unroll 1")
INLINE i32 rp_claim (i32 *count) { return atomicAdd(count, 1); }
#else
#define ROLLED
INLINE i32 rp_claim (i32 *count) { return (*count)++; }
#endif

#ifdef REPRISE_GPU
INLINE void rp_count (const float *key, i32 n, float v, i32 *above, i32 *equal) {
  ROLLED for (i32 i = 0; i < n; i += 8) {
    float8 x = load8(key + i);
    RP_EACH {
      *above += x.v[i] > v;
      *equal += x.v[i] == v;
    }
  }
}
#else
INLINE void rp_count (const float *key, i32 n, float v, i32 *above, i32 *equal) {
  i32 more = 0, same = 0; /* the compiler makes vectors of this */
  for (i32 i = 0; i < n; i++) {
    more += key[i] > v;
    same += key[i] == v;
  }
  *above = more;
  *equal = same;
}
#endif

/* The k-th largest of most[0 .. n-1], n a multiple of eight, if it is more than -INF, which *edge was. */
INLINE void rp_edge (const float *most, i32 n, i32 k, float *edge) {
  ROLLED for (i32 j = (i32)THREAD; j < n; j += (i32)THREADS) {
    float v = most[j];
    i32 above = 0, equal = 0;
    rp_count(most, n, v, &above, &equal);
    if (above < k && k <= above + equal) *edge = v;
  }
}

/* rank(i) of n things: how many are better; a warp takes a thing. found(rank, i) is called for ranks below k. */
template <class rp_better, class rp_found> INLINE void rank_all (i32 n, i32 k, rp_better better, rp_found found) {
  ROLLED for (i32 i = (i32)WARP; i < n; i += (i32)WARPS) {
    i32 above = 0;
    ROLLED for (i32 j = (i32)LANE; j < n; j += LANES) above += better(j, i);
    i32 rank = (i32)warp_sum((float)above);
    if (LANE == 0 && rank < k) found(rank, i);
  }
}

/* Calls take(rank, i) for the best k of key[0 .. n-1], n a multiple of eight, each in some thread; name(i) tells equal
 * keys apart. What is -INF or nan is never among them: returns how many were taken. The keys must be visible to the
 * block; what take wrote is, at the end. */
template <class rp_name, class rp_take>
INLINE i32 top (const float *key, i32 n, i32 k, const top_space &space, rp_name name, rp_take take) {
  SHARED(float, edge, 1);
  SHARED(i32, found, 1);
  i32 packs = n / 8, padded = (packs + 7) & ~7;
  ROLLED for (i32 j = (i32)THREAD; j < padded; j += (i32)THREADS) space.most[j] = j < packs ? most8(load8(key + j * 8)) : -INF;
  if (THREAD == 0) {
    *edge = -INF;
    *found = 0;
  }
  barrier();
  if (packs > k) {
    rp_edge(space.most, padded, k, edge);
    barrier();
  }
  float bound = *edge;
  ROLLED for (i32 j = (i32)THREAD; j < packs; j += (i32)THREADS) {
    if (space.most[j] < bound) continue;
    ROLLED for (i32 i = j * 8; i < j * 8 + 8; i++)
      if (key[i] >= bound && key[i] > -INF) space.list[rp_claim(found)] = i;
  }
  barrier();
  i32 count = *found;
  const i32 *list = space.list;
  rank_all(count, k, [&] (i32 s, i32 t) {
    float a = key[list[s]], b = key[list[t]];
    return a > b || (a == b && name(list[s]) < name(list[t]));
  }, [&] (i32 rank, i32 s) { take(rank, list[s]); });
  barrier();
  return count < k ? count : k;
}

#endif
