/*
 * filter.cuh - which tokens of a row may be drawn: temperature, top-k, top-p, min-p, in this order, by a block.
 *
 *   top_k    scores below the k-th largest go; equals of the k-th stay
 *   top_p    in ascending order, lower ids first among equals: ids go as long as the sum of probabilities, with their
 *            own, is at most 1 - p; the last in the order stays
 *   min_p    ids go whose probability is below min_p times the largest; the largest stays
 *
 * Each sees what the ones before left. No sorting: thresholds are found a digit of four bits at a time, from the top,
 * over all scores. Probabilities are summed as integers of 2^-40 of the largest, so that no order of adding matters.
 */
#ifndef RP_FILTER
#define RP_FILTER

#include "reduce.cuh"

/* ---- sixteen sums at once */

struct tally { u64 n[16]; };

#ifdef REPRISE_GPU

INLINE void tally_add (tally &t, u32 digit, u64 weight) { UNROLL for (u32 i = 0; i < 16; i++) t.n[i] += i == digit ? weight : 0; }

INLINE void tally_total (tally &t) {
  __shared__ u64 part[32][16], all[16];
  UNROLL for (int i = 0; i < 16; i++) {
    UNROLL for (int m = LANES / 2; m; m /= 2) t.n[i] += __shfl_xor_sync(~0u, t.n[i], m);
    if (LANE == 0) part[WARP][i] = t.n[i];
  }
  barrier();
  for (u32 i = THREAD; i < 16; i += THREADS) {
    u64 sum = 0;
    for (u32 w = 0; w < WARPS; w++) sum += part[w][i];
    all[i] = sum;
  }
  barrier();
  UNROLL for (int i = 0; i < 16; i++) t.n[i] = all[i];
  barrier();
}

#else

INLINE void tally_add (tally &t, u32 digit, u64 weight) { t.n[digit] += weight; }
INLINE void tally_total (tally &) {}

#endif

/* ---- scores and thresholds */

struct row_scores {
  const float *scores;
  i32 vocab;
  float temperature;
  const i32 *banned;
  i32 banned_count;
};

INLINE bool is_among (const i32 *ids, i32 count, i32 id) {
  bool found = false;
  for (i32 i = 0; i < count; i++) found |= ids[i] == id;
  return found;
}

/* A nan is never drawn. */
INLINE float usable (const row_scores &r, float s, i32 i) {
  if (s != s || is_among(r.banned, r.banned_count, i)) s = -INF;
  return r.temperature == 1.0f ? s : s / r.temperature;
}
INLINE float score_of (const row_scores &r, i32 i) { return usable(r, r.scores[i], i); }

/* Larger floats have larger keys; -0 is 0. */
INLINE u32 key_of (float x) {
  union { float f; u32 u; } bits = {x + 0.0f};
  return bits.u & 0x80000000u ? ~bits.u : bits.u | 0x80000000u;
}

/* What may be searched for a threshold: number i has a key and a weight. */

struct by_count { const row_scores &r; };
INLINE u32 key_at (const by_count &w, i32 i) { return key_of(score_of(w.r, i)); }
INLINE u64 weight_at (const by_count &, i32) { return 1; }

struct by_mass { const row_scores &r; float top; u32 least; }; /* of what top-k left */
INLINE u32 key_at (const by_mass &w, i32 i) { return key_of(score_of(w.r, i)); }
INLINE u64 weight_at (const by_mass &w, i32 i) {
  float s = score_of(w.r, i);
  return key_of(s) < w.least ? 0 : (u64)(expf(s - w.top) * 0x1p40f);
}

struct by_place { const row_scores &r; u32 equal; }; /* of what has this key, later ids first */
INLINE u32 key_at (const by_place &, i32 i) { return (u32)i; }
INLINE u64 weight_at (const by_place &w, i32 i) { return key_of(score_of(w.r, i)) == w.equal; }

struct threshold { u32 key; u64 above, at; }; /* weights of what is above the key, and of what is equal to it */

/* The largest key whose equals and betters weigh `want` or more in all; 0 when all together do not. */
template <class weighted> INLINE threshold find_threshold (const weighted &w, i32 count, u64 want) {
  threshold t = {0, 0, 0};
  for (int shift = 28; shift >= 0; shift -= 4) {
    tally sums = {};
    for (i32 i = (i32)THREAD; i < count; i += (i32)THREADS) {
      u32 key = key_at(w, i);
      if ((u64)(key ^ t.key) >> (shift + 4) == 0) tally_add(sums, key >> shift & 15, weight_at(w, i));
    }
    tally_total(sums);
    u32 digit = 0;
    bool found = false;
    UNROLL for (int d = 15; d >= 0; d--) {
      if (found) continue;
      digit = (u32)d;
      t.at = sums.n[d];
      found = t.above + t.at >= want || d == 0;
      if (!found) t.above += t.at;
    }
    t.key |= digit << shift;
  }
  return t;
}

template <class weighted> INLINE u64 total_weight (const weighted &w, i32 count) {
  tally sums = {};
  for (i32 i = (i32)THREAD; i < count; i += (i32)THREADS) tally_add(sums, 0, weight_at(w, i));
  tally_total(sums);
  return sums.n[0];
}

/* ---- the three filters */

struct survivors {
  u32 least;   /* keys from here on stay, */
  i32 from;    /* of those equal to it the ids from here on, */
  float top, min_p;
};

INLINE bool survives (const survivors &s, float score, i32 id) {
  u32 key = key_of(score);
  if (key < s.least || (key == s.least && id < s.from)) return false;
  return !(s.min_p > 0) || score == s.top || !(expf(score - s.top) < s.min_p);
}

/* The fewest of the best that together reach p of all that top-k left. */
INLINE void keep_mass (survivors &s, const row_scores &r, float p) {
  by_mass masses = {r, s.top, s.least};
  u64 want = (u64)ceil((double)p * (double)total_weight(masses, r.vocab));
  want = want ? want : 1;
  threshold t = find_threshold(masses, r.vocab, want);
  s.least = t.key > s.least ? t.key : s.least;
  by_place places = {r, s.least};
  u64 count = total_weight(places, r.vocab), each = count ? t.at / count : 0;
  u64 needed = each ? (want - t.above + each - 1) / each : count;
  if (needed < count) s.from = (i32)find_threshold(places, r.vocab, needed).key;
}

INLINE survivors filter_row (const row_scores &r, float top, i32 top_k, float top_p, float min_p) {
  survivors s = {0, 0, top, min_p};
  if (top == -INF) return s;
  if (top_k > 0 && top_k < r.vocab) {
    by_count counts = {r};
    s.least = find_threshold(counts, r.vocab, (u64)top_k).key;
  }
  if (top_p < 1) keep_mass(s, r, top_p);
  return s;
}

#endif
