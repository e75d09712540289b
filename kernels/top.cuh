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

struct rp_groups { i32 size, count, each; }; /* of maxima; of each of them the each-th largest is wanted */

INLINE rp_groups rp_groups_of (i32 n, i32 k) {
  i32 size = 32 * ((k + 31) / 32);
  if (n > size * 32) size = (n / 32 + 31) & ~31;
  i32 count = (n + size - 1) / size;
  return {size, count, (k + count - 1) / count};
}

/* A bound that at least k of most[0 .. n-1] reach, n a multiple of eight: the largest of the groups' k-th, or the smallest of
 * their each-th. At most 32 groups; least[g] is INF for what is no group, else -INF, and alone[g] -INF. */
INLINE float rp_bound (const float *most, i32 n, i32 k, const rp_groups &of, float *least, float *alone) {
  FOR_THREADS(j, n) {
    i32 above = 0, equal = 0, g = j / of.size, here = n - g * of.size < of.size ? n - g * of.size : of.size;
    count_above(most + g * of.size, here, most[j], &above, &equal);
    if (above < of.each && of.each <= above + equal) least[g] = most[j];
    if (above < k && k <= above + equal) alone[g] = most[j];
  }
  barrier();
  float all = INF, some = -INF;
  ROLLED for (i32 g = 0; g < of.count; g += 8) {
    float8 a = load8(least + g);
    RP_EACH all = fminf(all, a.v[i]);
    some = fmaxf(some, most8(load8(alone + g)));
  }
  return fmaxf(all, some);
}

/* Lists what reaches the bound, with its keys. */
INLINE void rp_list (const float *key, i32 packs, float bound, const top_space &space, i32 *found) {
  FOR_THREADS(j, packs) {
    if (space.most[j] < bound) continue;
    float8 x = load8(key + j * 8);
    i32 count = 0;
    RP_EACH count += x.v[i] >= bound && x.v[i] > -INF;
    i32 place = atomicAdd(found, count);
    RP_EACH if (x.v[i] >= bound && x.v[i] > -INF) {
      space.list[place] = j * 8 + i;
      space.listed[place++] = x.v[i];
    }
  }
}

/* How many of the `count` that are listed are more than v, and how many are v. */
INLINE void rp_count (const float *listed, i32 count, float v, i32 *above, i32 *equal) {
  ROLLED for (i32 k = 0; k < count; k += 8) {
    float8 x = load8(listed + k);
    RP_EACH {
      *above += k + i < count && x.v[i] > v;
      *equal += k + i < count && x.v[i] == v;
    }
  }
}

INLINE i32 rp_survey (const float *key, i32 n, i32 k, const top_space &space) {
  SHARED(float, least, 32);
  SHARED(float, alone, 32);
  SHARED(i32, found, 1);
  i32 packs = n / 8, padded = (packs + 7) & ~7;
  rp_groups of = rp_groups_of(padded, k);
  FOR_THREADS(j, padded) space.most[j] = j < packs ? most8(load8(key + j * 8)) : -INF;
  FOR_THREADS(g, 32) least[g] = g < of.count ? -INF : INF, alone[g] = -INF;
  if (THREAD == 0) *found = 0;
  barrier();
  rp_list(key, packs, packs > k ? rp_bound(space.most, padded, k, of, least, alone) : -INF, space, found);
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
