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

struct top_space { float *most; i32 *list; }; /* n / 8 and n elements of shared memory */

#ifdef REPRISE_GPU
INLINE i32 rp_claim (i32 *count) { return atomicAdd(count, 1); }
#else
INLINE i32 rp_claim (i32 *count) { return (*count)++; }
#endif

/* *edge = the k-th largest of most[0 .. n-1], which was -INF; it stays where there are fewer. */
INLINE void rp_edge (const float *most, i32 n, i32 k, float *edge) {
  for (i32 j = (i32)THREAD; j < n; j += (i32)THREADS) {
    float v = most[j];
    i32 above = 0, equal = 0;
    for (i32 i = 0; i < n; i++) {
      above += most[i] > v;
      equal += most[i] == v;
    }
    if (above < k && k <= above + equal) *edge = v;
  }
}

/* Calls take(rank, i) for the best k of key[0 .. n-1], n a multiple of eight, each in some thread; name(i) tells equal
 * keys apart. What is -INF or nan is never among them: returns how many were taken. The keys must be visible to the
 * block; what take wrote is, at the end. */
template <class rp_name, class rp_take>
INLINE i32 top (const float *key, i32 n, i32 k, const top_space &space, rp_name name, rp_take take) {
  SHARED(float, edge, 1);
  SHARED(i32, found, 1);
  for (i32 j = (i32)THREAD; j < n / 8; j += (i32)THREADS) space.most[j] = most8(load8(key + j * 8));
  if (THREAD == 0) {
    *edge = -INF;
    *found = 0;
  }
  barrier();
  rp_edge(space.most, n / 8, k, edge);
  barrier();
  float bound = *edge;
  for (i32 j = (i32)THREAD; j < n / 8; j += (i32)THREADS) {
    if (space.most[j] < bound) continue;
    for (i32 i = j * 8; i < j * 8 + 8; i++)
      if (key[i] >= bound && key[i] > -INF) space.list[rp_claim(found)] = i;
  }
  barrier();
  i32 count = *found;
  for (i32 s = (i32)THREAD; s < count; s += (i32)THREADS) {
    i32 mine = space.list[s], rank = 0;
    for (i32 t = 0; t < count; t++) {
      i32 other = space.list[t];
      rank += key[other] > key[mine] || (key[other] == key[mine] && name(other) < name(mine));
    }
    if (rank < k) take(rank, mine);
  }
  barrier();
  return count < k ? count : k;
}

#endif
