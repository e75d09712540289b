/*
 * draw.cu - a row's next token is drawn from the softmax of the scores that the filters leave (filter.cuh): the largest of
 * score plus Gumbel noise, by Philox of (seed, sequence number, position, id).
 *
 * A file of its own, since it takes a compiler longer than all that greedy decoding needs of sample.cu.
 *
 * How a step ends, and shapes, with one part a row: sample.cuh. seeds [rows][3]: low and high word of the seed, sequence
 * number. Launch: any grid and block, no shared memory.
 */
#include "philox.cuh"
#include "sample.cuh"

INLINE best draw_of (const row_scores &r, const survivors &s, const i32 *seed, i32 position) {
  best b = {-INF, NOBODY};
  for (i32 four = (i32)THREAD; four < (r.vocab + 3) / 4; four += (i32)THREADS) {
    words4 counter = {{(u32)four, (u32)position, (u32)seed[2], 0}}, noise = philox(counter, (u32)seed[0], (u32)seed[1]);
    UNROLL for (i32 k = 0; k < 4; k++) {
      i32 i = four * 4 + k;
      float score = i < r.vocab ? score_of(r, i) : -INF;
      if (i >= r.vocab || !survives(s, score, i)) continue;
      best c = {score + gumbel(noise.v[k]), i};
      b = better(b, c);
    }
  }
  return block_best(b);
}

WAITS KERNEL void draw (const float *logits, const float *scores, const i32 *seeds, i32 *control, i32 *token, i32 *finished,
                        i32 *history, float *sums, float *found, i32 *ids, u64 *words, i32 rows, i32 vocab, i32 room,
                        i32 records) {
  release_next();
  wait_previous();
  if (control[OPEN] == 0) return;
  span mine = share(rows);
  for (i32 i = mine.first; i < mine.last; i++) {
    const float *row = logits + (size_t)i * (size_t)vocab;
    row_scores r = {(scores ? scores + (size_t)i * (size_t)vocab : row), vocab, float_of(control[TEMPERATURE]),
                    control + ENDS, banned_count(control)};
    part p = look_at(r, row, 0, vocab);
    survivors s = filter_row(r, p.b.value, control[TOP_K], float_of(control[TOP_P]), float_of(control[MIN_P]));
    p.b = draw_of(r, s, seeds + i * 3, control[POSITION] + 1);
    keep_part(found, ids, i, p);
  }
  if (!last_block((u32 *)control + ARRIVED)) return;
  rows_state s = {control, token, finished, history, sums, room};
  move_rows(s, logits, [&] (i32 r, const walk &w) { return merged(found + r * 3, ids + r, 1, w); }, words, rows, vocab, records);
}
