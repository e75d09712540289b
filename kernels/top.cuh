/*
 * top.cuh - the best k of many numbers in shared memory, in order; for kernel files, after prelude.cuh.
 *
 * The k-th largest among the maxima of packs of eight is a bound: at least k numbers reach it, and few others do (a GPU
 * takes one near it, which is found sooner). Those that do are listed, and each finds its rank by counting the better ones.
 * Of equal numbers the one with the lower name is better, so the result does not depend on the block, the bound, nor on the
 * order in which the list was filled.
 */
#ifndef RP_TOP
#define RP_TOP

#include "prelude.cuh"

static const i32 NOBODY = 2147483647; /* a name worse than all */

/* Shared memory: n / 8 (to a multiple of eight) maxima, n elements of the list and n of its keys. */
struct top_space { float *most, *listed; i32 *list; };

/* Before a loop that runs a few times: one block alone works, and waits for every line of code that it has not met. */
#ifdef REPRISE_GPU

#define ROLLED_BY(n) _Pragma(n) /* "unroll 4": loads in flight together */
INLINE i32 rp_claim (i32 *count) { return atomicAdd(count, 1); }

/* How many of key[0 .. n-1] are more than v, and how many are v; n a multiple of eight. */
INLINE void count_above (const float *key, i32 n, float v, i32 *above, i32 *equal) {
  ROLLED for (i32 k = 0; k < n; k += 8) {
    float8 x = load8(key + k);
    RP_EACH {
      *above += x.v[i] > v;
      *equal += x.v[i] == v;
    }
  }
}
/* How many of key[0 .. n-1] are better than the one at `mine`; of equal ones the first is. */
INLINE i32 rank_of (const float *key, i32 n, i32 mine) {
  float v = key[mine];
  i32 rank = 0;
  ROLLED for (i32 k = 0; k < n; k += 8) {
    float8 x = load8(key + k);
    RP_EACH rank += x.v[i] > v || (x.v[i] == v && k + i < mine);
  }
  return rank;
}

#else /* the compiler makes vectors of these */

#define ROLLED_BY(n)
INLINE i32 rp_claim (i32 *count) { return (*count)++; }

INLINE void count_above (const float *key, i32 n, float v, i32 *above, i32 *equal) {
  i32 more = 0, same = 0;
  for (i32 i = 0; i < n; i++) {
    more += key[i] > v;
    same += key[i] == v;
  }
  *above = more;
  *equal = same;
}
INLINE i32 rank_of (const float *key, i32 n, i32 mine) {
  float v = key[mine];
  i32 rank = 0;
  for (i32 i = 0; i < n; i++) rank += key[i] > v;
  for (i32 i = 0; i < mine; i++) rank += key[i] == v;
  return rank;
}

#endif

/* for i from 0 to n - 1, shared out among the threads of the block */
#define FOR_THREADS(i, n) ROLLED for (i32 i = (i32)THREAD; i < (n); i += (i32)THREADS)

#ifdef REPRISE_GPU

/* A bound that at least k of most[0 .. n-1] reach, n a multiple of eight, if it is more than -INF. Looked for in groups: the
 * largest of the groups' k-th, and the smallest of their k / groups-th. */
INLINE float rp_bound (const float *most, i32 n, i32 k) {
  SHARED(float, least, 32);
  SHARED(float, alone, 32);
  i32 size = 32 * ((k + 31) / 32);
  if (n > size * 32) size = (n / 32 + 31) & ~31;
  i32 groups = (n + size - 1) / size, each = (k + groups - 1) / groups;
  FOR_THREADS(g, groups) least[g] = alone[g] = -INF;
  barrier();
  FOR_THREADS(j, n) {
    i32 above = 0, equal = 0, g = j / size, here = n - g * size < size ? n - g * size : size;
    count_above(most + g * size, here, most[j], &above, &equal);
    if (above < each && each <= above + equal) least[g] = most[j];
    if (above < k && k <= above + equal) alone[g] = most[j];
  }
  barrier();
  float all = INF, some = -INF;
  ROLLED for (i32 g = 0; g < groups; g++) {
    all = fminf(all, least[g]);
    some = fmaxf(some, alone[g]);
  }
  return fmaxf(all, some);
}

#else

/* The k-th largest of most[0 .. n-1], n a multiple of eight, if it is more than -INF. */
INLINE float rp_bound (const float *most, i32 n, i32 k) {
  float edge = -INF;
  for (i32 j = 0; j < n; j++) {
    i32 above = 0, equal = 0;
    count_above(most, n, most[j], &above, &equal);
    if (above < k && k <= above + equal) edge = most[j];
  }
  return edge;
}

#endif

/* Lists what reaches the bound, with its keys, filled up to a multiple of eight with -INF; returns how many. */
INLINE i32 rp_list (const float *key, i32 packs, float bound, const top_space &space) {
  SHARED(i32, found, 1);
  if (THREAD == 0) *found = 0;
  barrier();
  FOR_THREADS(j, packs) {
    if (space.most[j] < bound) continue;
    ROLLED for (i32 i = j * 8; i < j * 8 + 8; i++) {
      if (!(key[i] >= bound && key[i] > -INF)) continue;
      i32 place = rp_claim(found);
      space.list[place] = i;
      space.listed[place] = key[i];
    }
  }
  barrier();
  i32 count = *found;
  for (i32 i = count + (i32)THREAD; i < ((count + 7) & ~7); i += (i32)THREADS) space.listed[i] = -INF;
  barrier();
  return count;
}

/* Calls take(rank, i) for the best k of key[0 .. n-1], n a multiple of eight, each in some thread; name(i) tells equal
 * keys apart. What is -INF or nan is never among them: returns how many were taken. The keys must be visible to the
 * block; what take wrote is, at the end. */
template <class rp_name, class rp_take>
INLINE i32 top (const float *key, i32 n, i32 k, const top_space &space, rp_name name, rp_take take) {
  i32 packs = n / 8, padded = (packs + 7) & ~7;
  FOR_THREADS(j, padded) space.most[j] = j < packs ? most8(load8(key + j * 8)) : -INF;
  barrier();
  i32 count = rp_list(key, packs, packs > k ? rp_bound(space.most, padded, k) : -INF, space);
  FOR_THREADS(s, count) {
    i32 rank = 0, equal = 0, mine = space.list[s];
    count_above(space.listed, (count + 7) & ~7, space.listed[s], &rank, &equal);
    if (equal > 1)
      ROLLED for (i32 t = 0; t < count; t++)
        rank += space.listed[t] == space.listed[s] && name(space.list[t]) < name(mine);
    if (rank < k) take(rank, mine);
  }
  barrier();
  return count < k ? count : k;
}

#endif
