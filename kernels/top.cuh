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

#include "reduce.cuh"

static const i32 NOBODY = 2147483647; /* a name worse than all */

/* Shared memory: n / 8 (to a multiple of eight) maxima, which a GPU keeps in registers, n elements of the list and n of its
 * keys. */
struct top_space { float *most, *listed; i32 *list; };

/* Before a loop that runs a few times: one block alone works, and waits for every line of code that it has not met. */
#ifdef REPRISE_GPU

#define ROLLED_BY(n) _Pragma(n) /* "unroll 4": loads in flight together */

/* How many of key[0 .. n-1] are better than the one at `mine`; of equal ones the first is. */
INLINE i32 rank_of (const float *key, i32 n, i32 mine) {
  float v = key[mine];
  i32 rank = 0;
  ROLLED_BY("unroll 4") for (i32 k = 0; k < n; k++) rank += key[k] > v || (key[k] == v && k < mine);
  return rank;
}

#else /* the compiler makes vectors of these */

#define ROLLED_BY(n)

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

/* The n-th largest of a warp's numbers, or one that more reach; -INF if there are not so many. */
INLINE float rp_edge (float x, i32 n) {
  float most = -INF;
  ROLLED for (i32 found = 0; found < n;) {
    most = warp_most(x);
    if (most == -INF) break;
    found += __popc(__ballot_sync(~0u, x == most));
    if (x == most) x = -INF;
  }
  return most;
}

/* A bound that at least k of key's packs reach, more than k packs in all: they are dealt out to at most 32 groups (an odd number
 * of them, for the banks of shared memory), a warp takes the largest but so many of each, and the least of these is it. */
INLINE float rp_bound (const float *key, i32 packs, i32 k) {
  SHARED(float, least, 32);
  i32 groups = packs < 960 ? (packs + 31) / 32 | 1 : 31, each = 1;
  ROLLED while (each * groups < k) each++; /* a division is more lines of code */
  ROLLED for (i32 g = (i32)WARP; g < groups; g += (i32)WARPS) {
    float most = -INF;
    ROLLED for (i32 j = g + (i32)LANE * groups; j < packs; j += LANES * groups)
      most = fmaxf(most, most8(load8(key + j * 8)));
    most = rp_edge(most, each);
    if (LANE == 0) least[g] = most;
  }
  barrier();
  float bound = INF;
  ROLLED for (i32 g = 0; g < groups; g++) bound = fminf(bound, least[g]);
  return bound;
}

/* Lists what reaches the bound, with its keys. */
INLINE void rp_list (const float *key, i32 n, float bound, const top_space &space, i32 *found) {
  ROLLED_BY("unroll 4") for (i32 i = (i32)THREAD; i < n; i += (i32)THREADS) {
    float x = key[i];
    if (!(x >= bound && x > -INF)) continue;
    i32 place = atomicAdd(found, 1);
    space.list[place] = i;
    space.listed[place] = x;
  }
}

/* How many of the `count` that are listed are more than v, and how many are v. */
INLINE void rp_count (const float *listed, i32 count, float v, i32 *above, i32 *equal) {
  ROLLED_BY("unroll 4") for (i32 t = 0; t < count; t++) {
    *above += listed[t] > v;
    *equal += listed[t] == v;
  }
}

INLINE i32 rp_survey (const float *key, i32 n, i32 k, const top_space &space) {
  SHARED(i32, found, 1);
  i32 packs = n / 8;
  float bound = -INF;
  if (THREAD == 0) *found = 0;
  if (packs > k) bound = rp_bound(key, packs, k);
  else barrier();
  rp_list(key, n, bound, space, found);
  barrier();
  return *found;
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

/* How many of the `count` that are listed are more than v, and how many are v; they are filled up to a multiple of eight. */
INLINE void rp_count (const float *listed, i32 count, float v, i32 *above, i32 *equal) {
  count_above(listed, (count + 7) & ~7, v, above, equal);
}

INLINE i32 rp_survey (const float *key, i32 n, i32 k, const top_space &space) {
  i32 packs = n / 8, padded = (packs + 7) & ~7, count = 0;
  for (i32 j = 0; j < padded; j++) space.most[j] = j < packs ? most8(load8(key + j * 8)) : -INF;
  float bound = packs > k ? rp_bound(space.most, padded, k) : -INF;
  for (i32 j = 0; j < packs; j++) {
    if (space.most[j] < bound) continue;
    for (i32 i = j * 8; i < j * 8 + 8; i++) {
      if (!(key[i] >= bound && key[i] > -INF)) continue;
      space.list[count] = i;
      space.listed[count++] = key[i];
    }
  }
  for (i32 i = count; i < ((count + 7) & ~7); i++) space.listed[i] = -INF;
  return count;
}

#endif

/* Calls take(rank, i) for the best k of key[0 .. n-1], n a multiple of eight, each in some thread; name(i) tells equal
 * keys apart. What is -INF or nan is never among them: returns how many were taken. The keys must be visible to the
 * block; what take wrote is, at the end. */
template <class rp_name, class rp_take>
INLINE i32 top (const float *key, i32 n, i32 k, const top_space &space, rp_name name, rp_take take) {
  i32 count = rp_survey(key, n, k, space); /* what may be among the best is listed */
  FOR_THREADS(s, count) {
    i32 rank = 0, equal = 0, mine = space.list[s];
    rp_count(space.listed, count, space.listed[s], &rank, &equal);
    if (equal > 1)
      ROLLED for (i32 t = 0; t < count; t++)
        rank += space.listed[t] == space.listed[s] && name(space.list[t]) < name(mine);
    if (rank < k) take(rank, mine);
  }
  barrier();
  return count < k ? count : k;
}

#endif
