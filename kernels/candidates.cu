/*
 * candidates.cu - the first half of a step of beam search: of each row of logits, the ids that may go on.
 *
 * A row is cut into parts of `part` ids; a piece is `width` columns of logits from id `first` on, so that the logits of
 * large vocabularies need not all be stored. Of each part go out: its best k ids, its largest logit, and the sum of
 * e^(logit - largest), from which select (beam.cu) makes log-softmax. What an option forbids is left out: an id that
 * would repeat an n-gram of the row, an end id while the row is short.
 *   vocab <= part   the keys are final: log-softmax, repetition penalty (s * r below zero, else s / r) for each id that
 *                   the row holds, plus the row's score. So equal sums are told apart by their ids alone
 *   else            the keys are logits; ids that the row holds are left out where there is a penalty, and their logits go
 *                   to seen[row][position], once an id, -INF elsewhere
 *
 * Shapes, parts = vocab / part rounded up: logits [rows][width]; keys and ids [rows][parts][k], best first, the rest -INF
 * and NOBODY; most, sums [rows][parts]; seen [rows][room], not touched without penalty or where vocab <= part. The state
 * (control, scores, open, tokens, origin, factor, ends) is beam.cu's. first and part are multiples of eight.
 * Launch: any grid and block, shared = 4 * (3 * part + part / 8 (to a multiple of eight)) bytes. Nothing happens while a
 * prompt is read, nor for sources that are no longer open.
 */
#include "beam.cuh"

struct part_of { /* one part of one row, in shared memory */
  float *key;
  const float *logits;
  i32 first, count, padded;
  float most, sum;
};

INLINE float score_of (const part_of &p, float x, float log_sum) { return (x - p.most) - log_sum; }

/* The part's most and sum, of what each thread has of it; the keys are visible from then on. */
INLINE void add_up (part_of &p, float most, float sum) {
  SHARED(float, tops, 32);
  SHARED(float, sums, 32);
  float top = warp_most(most);
  sum = warp_sum(most > -INF ? sum * expf(most - top) : 0.0f);
  if (LANE == 0) tops[WARP] = top, sums[WARP] = sum;
  barrier();
  top = LANE < WARPS ? tops[LANE] : -INF;
  p.most = warp_most(top);
  p.sum = warp_sum(top > -INF ? sums[LANE] * expf(top - p.most) : 0.0f);
  if (p.most == -INF) p.most = 0;
}

/* Fills key, most and sum; nan counts as -INF. */
INLINE void read_part (part_of &p, i32 packed) {
  float most = -INF, sum = 0;
  ROLLED for (i32 i = (i32)THREAD * 8; i < p.padded; i += (i32)THREADS * 8) {
    float8 x = i + 8 <= p.count && packed ? load8(p.logits + i) : part8(p.logits + i, p.count - i);
    store8(p.key + i, max8(x, splat8(-INF)));
    ROLLED for (i32 j = p.count; j < i + 8; j++) p.key[j] = -INF;
    float here = most8(load8(p.key + i));
    most = here > most ? here : most;
  }
  ROLLED for (i32 i = (i32)THREAD * 8; i < p.padded && most > -INF; i += (i32)THREADS * 8)
    sum += sum8(exp8(sub8(load8(p.key + i), splat8(most))));
  add_up(p, most, sum);
}

struct limits { i32 ngram, length, banned; float penalty; }; /* banned: how many end ids come too soon */

/* Takes out the ids that options forbid. */
INLINE void forbid (const part_of &p, const row_of &row, const limits &l, const i32 *ends) {
  i32 n = l.ngram, length = l.length;
  FOR_THREADS(i, n > 0 ? length - n + 1 : 0) {
    i32 same = 0;
    while (same < n - 1 && token_at(row, i + same) == token_at(row, length - n + 1 + same)) same++;
    i32 at = token_at(row, i + n - 1) - p.first;
    if (same == n - 1 && 0 <= at && at < p.count) p.key[at] = -INF;
  }
  FOR_THREADS(e, l.banned) {
    i32 at = ends[e] - p.first;
    if (0 <= at && at < p.count) p.key[at] = -INF;
  }
  if (n > 0 || l.banned > 0) barrier();
}

/* The ids that the row holds, if they are not forbidden. One that it holds twice is read by all before it is written, by several
 * threads the same. */
INLINE void penalize (const part_of &p, const row_of &row, i32 length, float penalty, float log_sum) {
  ROLLED for (i32 first = 0; first < length; first += (i32)THREADS) {
    i32 i = first + (i32)THREAD, id = i < length ? token_at(row, i) : 0;
    bool may = i < length && p.key[id] > -INF;
    barrier();
    if (may) p.key[id] = penalized(score_of(p, p.logits[id], log_sum), penalty);
    barrier();
  }
}

INLINE void finish_scores (const part_of &p, const row_of &row, i32 length, float penalty, float score) {
  float log_sum = logf(p.sum);
  ROLLED for (i32 i = (i32)THREAD * 8; i < p.padded; i += (i32)THREADS * 8)
    store8(p.key + i, sub8(sub8(load8(p.key + i), splat8(p.most)), splat8(log_sum)));
  barrier();
  if (penalty != 1) penalize(p, row, length, penalty, log_sum);
  ROLLED for (i32 i = (i32)THREAD * 8; i < p.padded; i += (i32)THREADS * 8)
    store8(p.key + i, add8(load8(p.key + i), splat8(score)));
}

INLINE bool is_first (const row_of &row, i32 at, i32 id) {
  i32 i = 0;
  while (i < at && token_at(row, i) != id) i++;
  return i == at;
}

INLINE void set_seen_apart (const part_of &p, const row_of &row, i32 length, float *seen) {
  FOR_THREADS(i, length) {
    i32 id = token_at(row, i), at = id - p.first;
    if (at < 0 || at >= p.count) continue;
    bool first = is_first(row, i, id);
    seen[i] = first ? p.key[at] : -INF;
    if (first) p.key[at] = -INF;
  }
}

/* The best k, then -INF and NOBODY. */
INLINE void write_best (const part_of &p, i32 k, const top_space &space, float *keys, i32 *ids) {
  i32 found = top(p.key, p.padded, k, space, [] (i32 i) { return i; }, [&] (i32 rank, i32 i) {
    keys[rank] = p.key[i];
    ids[rank] = p.first + i;
  });
  FOR_THREADS(i, k - found) {
    keys[found + i] = -INF;
    ids[found + i] = NOBODY;
  }
}

struct share_of { i32 row, from, source, part; }; /* an item: which part of the piece, and of all, of which row */

INLINE share_of item_at (i32 item, i32 here, i32 part, i32 first, i32 beams) {
  i32 row = item / here, of = item - row * here;
  share_of s = {row, of * part, row / beams, first / part + of};
  return s;
}

WAITS KERNEL void candidates (const float *logits, float *keys, i32 *ids, float *most, float *sums, float *seen,
                              EARLY const i32 *control, EARLY const float *scores, EARLY const i32 *open,
                              const i32 *tokens, const u8 *origin, EARLY const float *factor, const i32 *ends, i32 rows,
                              i32 beams, i32 room, i32 vocab, i32 width, i32 first, i32 part, i32 k) {
  DYNAMIC(float, key);
  top_space space = {key + 2 * part, key + part, (i32 *)(key + 2 * part + ((part / 8 + 7) & ~7))};
  i32 here = (width + part - 1) / part, parts = (vocab + part - 1) / part, packed = packable(logits, width);
  span mine = share(rows * here);
  release_next();
  i32 done = control[DONE], length = control[POSITION] + 1, prompt = control[PROMPT];
  limits l = {control[NGRAM], length, length < control[SHORTEST] ? control[END_COUNT] : 0, factor[0]};
  share_of s = item_at(mine.first, here, part, first, beams); /* divisions are slow: where there is time */
  bool is_open = mine.first < mine.last && open[s.source];
  wait_previous();
  if (done || length < prompt) return;
  ROLLED for (i32 item = mine.first; item < mine.last;) {
    if (is_open) {
      row_of r = row_at(tokens, origin, s.source, s.row, beams, room);
      i32 count = width - s.from < part ? width - s.from : part;
      part_of p = {key, logits + (size_t)s.row * (size_t)width + s.from, first + s.from, count, (count + 7) & ~7, 0, 0};
      read_part(p, packed);
      forbid(p, r, l, ends);
      if (parts == 1) finish_scores(p, r, length, l.penalty, scores[running_score(s.row, beams)]);
      else if (l.penalty != 1) set_seen_apart(p, r, length, seen + (size_t)s.row * (size_t)room);
      if (parts == 1 || l.penalty != 1) barrier();
      size_t at = (size_t)s.row * (size_t)parts + (size_t)s.part;
      if (THREAD == 0) {
        most[at] = p.sum > 0 ? p.most : -INF;
        sums[at] = p.sum;
      }
      write_best(p, k, space, keys + at * (size_t)k, ids + at * (size_t)k);
      barrier();
    }
    if (++item == mine.last) break;
    s = item_at(item, here, part, first, beams);
    is_open = open[s.source];
  }
}
