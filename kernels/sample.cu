/*
 * sample.cu - the end of a step: the next token of each row, and the state that a captured step moves on by itself.
 *
 * A row's next token is its largest logit, the lowest id among equals; a finished row takes `pad`. A row is finished by
 * an end id, or when the history is full. The block that arrives last does the rest: tokens, history, finished flags,
 * position and the count of open rows. Once no row is open, nothing changes any more.
 *
 * Shapes: logits [rows][vocab] f32; token, finished [rows]; history [rows][longest]; position, open, arrived [1];
 * ends [end_count]; values, ids [rows][parts]. All state i32, arrived u32 (0 between launches). finished, history, ends
 * and open may be null together: then tokens are replaced and position grows, without end.
 * Launch: any grid and block, no shared memory. parts: into how many pieces a row of logits is cut, from 1.
 */
#include "reduce.cuh"

static const i32 NOBODY = 2147483647; /* an id worse than all */

/* The best of logits first .. last-1, by a block. A nan is never best; of nothing but nan, NOBODY is. */
INLINE best best_of (const float *logits, i32 first, i32 last) {
  best b = {-INF, NOBODY};
  for (i32 i = first + (i32)THREAD; i < last; i += (i32)THREADS) {
    best c = {logits[i], i};
    b = better(b, c);
  }
  return block_best(b);
}

struct state { i32 *token, *position, *finished, *history, *open; };

INLINE bool is_end (const i32 *ends, i32 count, i32 id) {
  bool found = false;
  for (i32 i = 0; i < count; i++) found |= ends[i] == id;
  return found;
}

/* Row r has chosen `id`; returns whether it stays open. */
INLINE bool move_row (const state &s, const i32 *ends, i32 end_count, i32 pad, i32 r, i32 id, i32 at, i32 longest) {
  if (s.finished && s.finished[r]) id = pad;
  s.token[r] = id;
  if (!s.finished) return true;
  if (at < longest) s.history[(size_t)r * (size_t)longest + (size_t)at] = id;
  if (at + 1 >= longest || is_end(ends, end_count, id)) s.finished[r] = 1;
  return !s.finished[r];
}

WAITS KERNEL void choose (const float *logits, i32 *token, i32 *position, i32 *finished, i32 *history, i32 *open,
                          u32 *arrived, float *values, i32 *ids, const i32 *ends, i32 rows, i32 vocab, i32 parts,
                          i32 end_count, i32 pad, i32 longest) {
  wait_previous();
  release_next();
  span mine = share(rows * parts);
  for (i32 i = mine.first; i < mine.last; i++) {
    i32 row = i / parts, part = i % parts;
    best b = best_of(logits + (size_t)row * (size_t)vocab, (i32)((i64)vocab * part / parts), (i32)((i64)vocab * (part + 1) / parts));
    if (THREAD == 0) { values[i] = b.value; ids[i] = b.id; }
  }
  if (!last_block(arrived) || (open && *open == 0)) return;
  state s = {token, position, finished, history, open};
  i32 at = *position;
  float still = 0;
  barrier();
  for (i32 r = (i32)THREAD; r < rows; r += (i32)THREADS) {
    best b = {-INF, NOBODY};
    for (i32 p = 0; p < parts; p++) {
      best c = {values[r * parts + p], ids[r * parts + p]};
      b = better(b, c);
    }
    still += move_row(s, ends, end_count, pad, r, b.id < vocab ? b.id : 0, at, longest) ? 1.0f : 0.0f;
  }
  still = block_sum(still);
  if (THREAD == 0) {
    *position = at + 1;
    if (open) *open = (i32)still;
  }
}
