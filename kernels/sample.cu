/*
 * sample.cu - the end of a step: the next token of each row, and the state that a captured step moves on by itself.
 *
 *   begin    puts rows at the start of their prompts
 *   adjust   scores = logits with repetition penalty and without tokens that would repeat an n-gram
 *   choose   a row's next token is its largest score, the lowest id among equals
 *   tick     the end of a step whose tokens the caller chooses: one position on
 *
 * How choose ends, and shapes: sample.cuh. seeds [rows][3]: see draw.cu.
 * Launch: any grid and block, no shared memory. parts: into how many pieces a row of logits is cut, from 1.
 */
#include "sample.cuh"

/* Parts begin at multiples of eight. */
INLINE i32 begin_of (i32 part, i32 parts, i32 vocab) {
  i32 at = (i32)((i64)((vocab + 7) / 8) * part / parts) * 8;
  return at < vocab ? at : vocab;
}

WAITS KERNEL void choose (const float *logits, const float *scores, EARLY i32 *control, i32 *token, i32 *finished,
                          i32 *history, float *sums, float *found, i32 *ids, u64 *words, i32 rows, i32 vocab, i32 parts,
                          i32 room, i32 records) {
  span mine = share(rows * parts);
  i32 open = control[OPEN], banned = banned_count(control);
  release_next();
  wait_previous();
  rows_state s = {control, token, finished, history, sums, room};
  const float *read = scores || banned ? logits : nullptr;
  if (open == 0) return;
  for (i32 i = mine.first; i < mine.last; i++) {
    size_t row = (size_t)(i / parts) * (size_t)vocab;
    i32 first = begin_of(i % parts, parts, vocab), last = begin_of(i % parts + 1, parts, vocab);
    row_scores r = {(scores ? scores : logits) + row, vocab, 1.0f, control + ENDS, banned};
    part p = look_at(r, logits + row, first, last);
    if (rows * parts == 1)
      return move_rows(s, read, [&] (i32, const walk &) { return p; }, words, rows, vocab, records);
    keep_part(found, ids, i, p);
  }
  if (rows * parts == 1 || !last_block((u32 *)control + ARRIVED)) return;
  auto said = [&] (i32 r, const walk &w) { return merged(found + r * parts * 3, ids + r * parts, parts, w); };
  move_rows(s, read, said, words, rows, vocab, records);
}

/* ---- before */

INLINE void ban_repeats (float *scores, const i32 *row, i32 length, i32 n) {
  const i32 *key = row + length + 1 - n; /* the newest n - 1 tokens */
  for (i32 i = (i32)THREAD; i + n <= length; i += (i32)THREADS) {
    bool same = true;
    for (i32 k = 0; same && k < n - 1; k++) same = row[i + k] == key[k];
    if (same) scores[row[i + n - 1]] = -INF;
  }
}

/* Tokens that occur twice are written twice, with one value: it is made of the logit. */
INLINE void penalize (float *scores, const float *logits, const i32 *row, i32 length, float penalty) {
  for (i32 i = (i32)THREAD; i < length; i += (i32)THREADS) {
    float x = logits[row[i]];
    scores[row[i]] = x < 0 ? x * penalty : x / penalty;
  }
}

WAITS KERNEL void adjust (float *scores, const float *logits, const i32 *history, const i32 *control, i32 rows, i32 vocab,
                          i32 room) {
  release_next();
  wait_previous();
  span mine = share(rows);
  float penalty = float_of(control[PENALTY]);
  i32 length = control[POSITION] + 1, n = control[NGRAM];
  for (i32 r = mine.first; r < mine.last; r++) {
    const i32 *row = history + (size_t)r * (size_t)room;
    const float *from = logits + (size_t)r * (size_t)vocab;
    float *to = scores + (size_t)r * (size_t)vocab;
    for (i32 i = (i32)THREAD; i < vocab; i += (i32)THREADS) to[i] = from[i];
    barrier();
    if (length > room) continue;
    if (penalty != 1.0f) penalize(to, from, row, length, penalty);
    barrier();
    if (n > 0) ban_repeats(to, row, length, n);
  }
}

/* `words` become the control's. prompts [prompt_count][length], a row of it for neighbours; rows from `real` on are there
 * to fill up and are finished before they begin. given [rows][3] and seeds may be null together. */
WAITS KERNEL void begin (i32 *control, i32 *token, i32 *finished, i32 *history, float *sums, i32 *seeds, const i32 *words,
                         const i32 *prompts, const i32 *given, i32 count, i32 rows, i32 real, i32 room, i32 prompt_count,
                         i32 length) {
  release_next();
  wait_previous();
  if (BLOCK != 0) return;
  for (i32 i = (i32)THREAD; i < count; i += (i32)THREADS) control[i] = words[i];
  for (i32 r = (i32)THREAD; r < rows; r += (i32)THREADS) {
    const i32 *prompt = prompts + (r / (rows / prompt_count)) * length;
    token[r] = prompt[0];
    finished[r] = r < real ? 0 : 1;
    sums[r] = 0;
    for (i32 i = 0; i < length && i < room; i++) history[(size_t)r * (size_t)room + (size_t)i] = prompt[i];
    for (i32 i = 0; given && i < 3; i++) seeds[r * 3 + i] = given[r * 3 + i];
  }
}

/* The end of a step whose tokens the caller chooses. */
WAITS KERNEL void tick (i32 *position) {
  release_next();
  wait_previous();
  if (BLOCK == 0 && THREAD == 0) *position += 1;
}
