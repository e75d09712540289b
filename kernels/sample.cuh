/*
 * sample.cuh - what sample.cu and draw.cu share: what is known of a row of logits, and the end of a step.
 *
 * In the prompt a row takes the prompt's token. Else a finished row takes `pad`; any other adds the log-probability of its
 * token, by the softmax of the logits as they are, to its sum, and is finished by an end id or at length `longest`:
 * finished[row] becomes the number of tokens after the prompt. The block that arrives last does that for all rows, moves
 * the position on, and publishes: the token of a single row, after its last token the bits of its sum, and the step with
 * whether no row is open. Once none is open, nothing changes any more.
 *
 * Shapes: logits, scores [rows][vocab] f32, scores may be null: the logits; token, finished [rows]; history [rows][room],
 * prompt included; sums [rows] f32; found [rows][parts][3] f32 and ids [rows][parts], of no meaning afterwards; words
 * [1 + records]. control holds the numbers below.
 */
#ifndef RP_SAMPLE
#define RP_SAMPLE

#include "filter.cuh"

enum control : i32 { /* words of `control`; floats as their bits */
  POSITION, OPEN, ARRIVED, EPOCH, PROMPT, LONGEST, SHORTEST, PAD, NGRAM, TOP_K, PENALTY, TEMPERATURE, TOP_P, MIN_P,
  END_COUNT, ENDS
};

static const i32 NOBODY = 2147483647; /* an id worse than all */

INLINE float float_of (i32 bits) {
  union { i32 i; float f; } u = {bits};
  return u.f;
}
INLINE u32 bits_of (float x) {
  union { float f; u32 u; } bits = {x};
  return bits.u;
}

/* The ends, while a row is too short for them. */
INLINE i32 banned_count (const i32 *control) {
  return control[POSITION] + 1 < control[SHORTEST] ? control[END_COUNT] : 0;
}

/* ---- what a part of a row has to say */

struct part { best b; float top, sum; }; /* best score; largest logit, sum of e^(logit - top) */

INLINE part nothing () { return {{-INF, NOBODY}, -INF, 0}; }

/* What the lanes of a warp say together; the same in all of them. */
INLINE part warp_part (part a) {
  float top = warp_max(a.top), sum = a.top == -INF ? 0.0f : a.sum * expf(a.top - top);
  return {warp_best(a.b), top, warp_sum(sum)};
}

/* What the block says; the same in all threads. Two barriers: the scratch may be used again at once. */
INLINE part block_part (part a) {
  SHARED(part, said, 32);
  a = warp_part(a);
  if (LANE == 0) said[WARP] = a;
  barrier();
  a = warp_part(LANE < WARPS ? said[LANE] : nothing());
  barrier();
  return a;
}

#ifdef REPRISE_GPU

INLINE float8 pack_at (const float *p, i32 count) { /* what is not there is -INF */
  if (count >= 8 && packable(p, 8)) return load8(p);
  float8 v;
  RP_EACH v.v[i] = i < count ? p[i] : -INF;
  return v;
}

/* A thread sees each of its logits once. */
INLINE part look_at (const row_scores &r, const float *logits, i32 first, i32 last) {
  part m = nothing();
  for (i32 i = first + (i32)THREAD * 8; i < last; i += (i32)THREADS * 8) {
    float8 v = pack_at(logits + i, last - i), s = r.scores == logits ? v : pack_at(r.scores + i, last - i);
    float top = fmaxf(m.top, most8(v));
    UNROLL for (int k = 0; k < 8; k++) {
      best c = {usable(r, at8(s, k), i + k), i + k};
      m.b = better(m.b, c);
    }
    if (top > -INF) m.sum = m.sum * expf(m.top - top) + sum8(exp8(sub8(v, splat8(top))));
    m.top = top;
  }
  return block_part(m);
}

#else

INLINE float top_of (const float *logits, i32 first, i32 last) {
  float8 tops = splat8(-INF);
  float top = -INF;
  i32 i = first;
  for (; i + 8 <= last; i += 8) tops = max8(load8(logits + i), tops);
  for (; i < last; i++) top = logits[i] > top ? logits[i] : top;
  UNROLL for (int k = 0; k < 8; k++) top = at8(tops, k) > top ? at8(tops, k) : top;
  return top;
}

INLINE float sum_of (const float *logits, i32 first, i32 last, float top) {
  float8 sums = splat8(0);
  float sum = 0;
  if (top == -INF) return 0;
  for (i32 i = first; i < last; i += 8) {
    i32 count = last - i < 8 ? last - i : 8;
    float8 e = exp8(sub8(part8(logits + i, count), splat8(top)));
    if (count == 8) sums = add8(sums, e);
    else UNROLL for (int k = 0; k < 8; k++) sum += k < count ? at8(e, k) : 0.0f;
  }
  return sum8(sums) + sum;
}

/* A nan is never best; of nothing but nan, NOBODY is. top: the largest of the scores, if no id is banned. */
INLINE best best_of (const row_scores &r, i32 first, i32 last, float top) {
  best b = {-INF, NOBODY};
  if (r.banned_count == 0 && r.temperature == 1.0f && top > -INF) {
    while (r.scores[first] != top) first++;
    return {top, first};
  }
  for (i32 i = first; i < last; i++) {
    best c = {score_of(r, i), i};
    b = better(b, c);
  }
  return b;
}

/* A block is one thread. */
INLINE part look_at (const row_scores &r, const float *logits, i32 first, i32 last) {
  float top = top_of(logits, first, last), most = r.scores == logits ? top : top_of(r.scores, first, last);
  return {best_of(r, first, last, most), top, sum_of(logits, first, last, top)};
}

#endif

INLINE void keep_part (float *found, i32 *ids, i32 at, part a) {
  if (THREAD != 0) return;
  found[at * 3] = a.b.value;
  found[at * 3 + 1] = a.top;
  found[at * 3 + 2] = a.sum;
  ids[at] = a.b.id;
}

/* Few rows are a warp's each, many a thread's. */
struct walk { i32 first, step, lane, lanes; };

INLINE walk walk_over (i32 rows) {
  if (rows > (i32)WARPS) return {(i32)THREAD, (i32)THREADS, 0, 1};
  return {(i32)WARP, (i32)WARPS, (i32)LANE, LANES};
}

INLINE part merged (const float *found, const i32 *ids, i32 parts, const walk &w) {
  part m = nothing();
  for (i32 p = w.lane; p < parts; p += w.lanes) {
    best b = {found[p * 3], ids[p]};
    float top = found[p * 3 + 1], sum = found[p * 3 + 2], most = top > m.top ? top : m.top;
    if (most > -INF) m.sum = m.sum * expf(m.top - most) + sum * expf(top - most);
    m.b = better(m.b, b);
    m.top = most;
  }
  return w.lanes == 1 ? m : warp_part(m);
}

/* ---- the end of choose and draw */

struct rows_state { i32 *control, *token, *finished, *history; float *sums; i32 room; };

/* Row r takes `id`, of log-probability p; `next` is where it stands in the history. Is it finished? */
INLINE bool take (const rows_state &s, i32 r, i32 next, i32 id, float p) {
  const i32 *c = s.control;
  i32 finished = s.finished[r], pad = c[PAD];
  float sum = s.sums[r];
  if (finished) id = pad;
  else {
    s.sums[r] = sum + p;
    if (is_among(c + ENDS, c[END_COUNT], id) || next + 1 >= c[LONGEST]) s.finished[r] = finished = next + 1 - c[PROMPT];
  }
  s.token[r] = id;
  if (next < s.room) s.history[(size_t)r * (size_t)s.room + (size_t)next] = id;
  return finished != 0;
}

INLINE void tell (const rows_state &s, u64 *words, i32 records, i32 rows, i32 next, bool done) {
  u32 epoch = (u32)s.control[EPOCH] << 16, index = (u32)(next - s.control[PROMPT]);
  if (rows == 1 && next >= s.control[PROMPT]) {
    publish(words + 1 + index % (u32)records, epoch | (index & 0xffffu), (u32)s.token[0]);
    if (done) publish(words + 1 + (index + 1) % (u32)records, epoch | ((index + 1) & 0xffffu), bits_of(s.sums[0]));
  }
  publish(words, epoch | ((u32)next & 0xffffu), done);
}

/* said(r, w) is what row r's parts say; its best score is a logit where `logits` is null. */
template <class F> INLINE void move_rows (const rows_state &s, const float *logits, F said, u64 *words, i32 rows, i32 vocab,
                                          i32 records) {
  i32 next = s.control[POSITION] + 1, prompt = s.control[PROMPT];
  float open = 0;
  walk w = walk_over(rows);
  for (i32 r = w.first; r < rows; r += w.step) {
    bool over;
    if (next < prompt) {
      s.token[r] = s.history[(size_t)r * (size_t)s.room + (size_t)next];
      over = s.finished[r] != 0;
    } else {
      part m = said(r, w);
      i32 id = m.b.id < vocab ? m.b.id : 0;
      float x = logits ? logits[(size_t)r * (size_t)vocab + (size_t)id] : m.b.value, p = x - (m.top + logf(m.sum));
      if (w.lane != 0) continue;
      over = take(s, r, next, id, p);
    }
    if (w.lane == 0) open += over ? 0.0f : 1.0f;
  }
  open = block_sum(open);
  if (THREAD != 0) return;
  s.control[POSITION] = next;
  s.control[OPEN] = (i32)open;
  tell(s, words, records, rows, next, open == 0);
}

#endif
