/*
 * beam.cu - beam search on the device: the lists of running and finished hypotheses, moved on by a captured step.
 *
 *   begin     a new search: prompts, empty lists
 *   search    the last node of a step: the best k continuations of each source become running and finished beams
 *   follow    beams that the host chose: rows take over what their parents have seen
 *   collect   the ids of finished hypotheses, read backwards along their parents
 *
 * A step, for each source by itself (score and end of a hypothesis as transformers 5.17 computes them):
 *   1. the k best of a = score of the row + log p(id) over all rows and ids are the candidates, ids of row b being
 *      b * vocab + id: of equal sums the lower is better
 *   2. an end id, or the last position, is a hit; the best `beams` by a + (hit ? -1e9 : 0) run on
 *   3. a hit of rank < beams finishes with a / n^length_penalty, others with that - 1e9, n new tokens; the best `beams` of
 *      the finished and the candidates are finished, old before new
 *   4. the source closes when its best running score, divided likewise, cannot beat the worst finished one, when enough
 *      are finished and early_stopping is true, or when all candidates are hits. Once closed nothing of it changes
 * Real is what did not come from the -1e9 of rows that only fill the list. Nothing is copied but a byte a row and
 * position (origin): keys and values stay where they were written.
 *
 * Shapes: beam.cuh; keys, ids, most, sums, seen: candidates.cu; parents of follow [rows] i32.
 * Launch: any grid and block; search: shared = 4 * (4 * tile + tile / 8 + 7 * k + 12 * beams + 24), tile a multiple of
 * 64 greater than k; the others none. A block takes a source.
 */
#include "beam.cuh"

static const float FAR = -1.0e9f;

INLINE bool is_end (const i32 *ends, i32 count, i32 id) {
  bool found = false;
  ROLLED for (i32 i = 0; i < count; i++) found |= ends[i] == id;
  return found;
}

/* ---- starting ---- */

/* prompt [sources][PROMPT]. Sources from `live` on are closed: they fill a bucket. */
WAITS KERNEL void begin (float *scores, i32 *lists, i32 *open, i32 *token, i32 *tokens, u8 *origin, const i32 *prompt,
                         const i32 *control, i32 sources, i32 live, i32 beams, i32 room) {
  span mine = share(sources * beams);
  release_next();
  wait_previous();
  ROLLED for (i32 row = mine.first + (i32)THREAD; row < mine.last; row += (i32)THREADS) {
    i32 source = row / beams, beam = row % beams, length = control[PROMPT];
    scores[(source * 2 + 0) * beams + beam] = beam ? FAR : 0;
    scores[(source * 2 + 1) * beams + beam] = FAR;
    ROLLED for (i32 l = 0; l < LISTS; l++) lists[(source * LISTS + l) * beams + beam] = l == REAL && beam == 0;
    if (beam == 0) open[source] = source < live;
    ROLLED for (i32 p = 0; p < length; p++) tokens[(size_t)row * (size_t)room + (size_t)p] = prompt[source * length + p];
    token[row] = prompt[source * length];
    origin[(size_t)row * (size_t)room] = (u8)beam;
  }
}

/* ---- the table of origins ---- */

/* Rows row .. row + beams - 1 of origin take over positions 0 .. count-1 of their parents; a parent out of range gives
 * 255, which attention answers with nan. A thread takes a position of all rows. */
template <int MOST, class P> INLINE void take_over (u8 *origin, P parent, i32 row, i32 beams, i32 room, i32 count) {
  u8 old[MOST];
  u8 *rows = origin + (size_t)row * (size_t)room;
  FOR_THREADS(p, count) {
    ROLLED_BY("unroll 4") for (i32 b = 0; b < beams; b++) old[b] = rows[(size_t)b * (size_t)room + (size_t)p];
    ROLLED for (i32 b = 0; b < beams; b++) {
      i32 from = parent(b);
      rows[(size_t)b * (size_t)room + (size_t)p] = 0 <= from && from < beams ? old[from] : (u8)255;
    }
  }
}

/* Before a step at *position: each row goes on from row parents[row] of its source; beams at most 255. */
WAITS KERNEL void follow (u8 *origin, const i32 *position, const i32 *parents, i32 rows, i32 beams, i32 room) {
  span mine = share(rows / beams);
  release_next();
  wait_previous();
  i32 at = *position;
  ROLLED for (i32 source = mine.first; source < mine.last && 0 <= at && at < room; source++) {
    const i32 *parent = parents + source * beams;
    take_over<255>(origin, [&] (i32 b) { return parent[b]; }, source * beams, beams, room, at);
    FOR_THREADS(b, beams)
      origin[(size_t)(source * beams + b) * (size_t)room + (size_t)at] = (u8)b;
  }
}

/* ---- one step of one source ---- */

struct inputs { /* what candidates made, and what it was told */
  const float *keys, *most, *sums, *seen, *factor;
  const i32 *ids, *ends, *tokens;
  const u8 *origin;
  i32 beams, room, vocab, parts, k;
  i32 position, prompt, longest, early, epoch, end_count; /* of control */
  i32 count; /* new tokens with the one that is chosen now */
  float penalty, divisor, furthest; /* of scores: now, and as far as a running beam may come */
};

/* Before the wait: each of these loads takes as long as a phase of the search. */
INLINE void read_control (inputs &in, const i32 *control) {
  i32 horizon = control[HORIZON];
  in.position = control[POSITION];
  in.prompt = control[PROMPT];
  in.longest = control[LONGEST];
  in.early = control[STOP_EARLY];
  in.epoch = control[EPOCH];
  in.end_count = control[END_COUNT];
  in.count = in.position + 2 - in.prompt;
  in.penalty = in.factor[0];
  in.divisor = in.factor[in.count > 0 ? in.count : 0]; /* of no meaning while a prompt is read */
  in.furthest = horizon ? in.factor[horizon] : in.divisor;
}

struct place { /* of a source in shared memory, and what is found there */
  float *key, *a, *run, *ended, *row_most, *row_log, *scores;
  i32 *name, *flat, *beam, *id, *hit, *lists, *next, *kept;
  top_space space;
  i32 tile, source;
};

INLINE place place_at (float *memory, i32 tile, i32 k, i32 beams) {
  place p = {};
  float *at = memory;
  auto some = [&] (i32 n) { at += n; return at - n; };
  auto whole = [&] (i32 n) { return (i32 *)some(n); };
  p.key = some(tile), p.name = whole(tile), p.tile = tile;
  p.space.most = some(tile / 8), p.space.listed = some(tile), p.space.list = whole(tile);
  p.run = some((k + 7) & ~7), p.ended = some((k + beams + 7) & ~7);
  p.a = some(k), p.flat = whole(k), p.hit = whole(k), p.beam = whole(k), p.id = whole(k);
  p.row_most = some(beams), p.row_log = some(beams), p.scores = some(2 * beams), p.lists = whole(LISTS * beams);
  p.next = whole(beams), p.kept = whole(beams);
  return p;
}

/* Log-softmax's constants of row b, from those of its parts; by a warp. */
INLINE void merge_parts (const place &p, const inputs &in, i32 b) {
  size_t row = (size_t)(p.source * in.beams + b) * (size_t)in.parts;
  float top = -INF, sum = 0;
  ROLLED for (i32 i = (i32)LANE; i < in.parts; i += LANES) {
    float here = in.most[row + i], more = in.sums[row + i], now = here > top ? here : top;
    sum = now > -INF ? sum * expf(top - now) + more * expf(here - now) : 0.0f;
    top = now;
  }
  float most = warp_most(top);
  sum = warp_sum(most > -INF ? sum * expf(top - most) : 0.0f);
  if (LANE == 0) {
    p.row_most[b] = most;
    p.row_log[b] = logf(sum);
  }
}

/* The lists as they were: what only this kernel writes, so that the first may be read before the wait. */
INLINE void read_lists (const place &p, const inputs &in, const float *scores, const i32 *lists) {
  FOR_THREADS(i, 2 * in.beams) p.scores[i] = scores[p.source * 2 * in.beams + i];
  FOR_THREADS(i, LISTS * in.beams) p.lists[i] = lists[p.source * LISTS * in.beams + i];
}

/* The constants of the rows; the lists are there from then on. */
INLINE void read_rows (const place &p, const inputs &in) {
  ROLLED for (i32 b = (i32)WARP; in.parts > 1 && b < in.beams; b += (i32)WARPS) merge_parts(p, in, b);
  barrier();
}

/* An entry's key among those of all rows, and its name. */
INLINE void put_entry (const place &p, const inputs &in, float x, i32 id, i32 beam, bool seen, i32 at) {
  if (in.parts > 1) {
    x = (x - p.row_most[beam]) - p.row_log[beam];
    if (seen) x = penalized(x, in.penalty);
    x += p.scores[beam];
  }
  p.key[at] = x;
  p.name[at] = x > -INF ? beam * in.vocab + id : NOBODY;
}

enum { TOGETHER = LANES == 1 ? 1 : 3 }; /* entries a thread has on their way */
struct offers { float key[TOGETHER]; i32 id[TOGETHER], beam[TOGETHER]; };

/* What the parts of all rows offer, as it lies in memory: entries first, first + THREADS and so on, before the last-th. Of
 * which beam they are is known before the wait. */
INLINE void aim_offers (offers &o, const inputs &in, i32 first) {
  UNROLL for (i32 j = 0; j < TOGETHER; j++) o.beam[j] = (i32)((u32)(first + j * (i32)THREADS) / (u32)(in.parts * in.k));
}
INLINE void ask_offers (offers &o, const place &p, const inputs &in, i32 first, i32 last) {
  size_t from = (size_t)(p.source * in.beams) * (size_t)(in.parts * in.k);
  UNROLL for (i32 j = 0; j < TOGETHER; j++) {
    i32 e = first + j * (i32)THREADS;
    if (e < last) o.key[j] = in.keys[from + e], o.id[j] = in.ids[from + e];
  }
}
INLINE void put_offers (const offers &o, const place &p, const inputs &in, i32 first, i32 last, i32 at) {
  UNROLL for (i32 j = 0; j < TOGETHER; j++) {
    i32 e = first + j * (i32)THREADS;
    if (e < last) put_entry(p, in, o.key[j], o.id[j], o.beam[j], false, at + e);
  }
}

/* Entry e of first .. last - 1 goes to at + e. `ahead`: a thread's first of all, which were asked for before the rows. */
INLINE void read_offers (const offers &ahead, const place &p, const inputs &in, i32 first, i32 last, i32 at) {
  i32 e = first + (i32)THREAD;
  if (first == 0) {
    put_offers(ahead, p, in, e, last, at);
    e += TOGETHER * (i32)THREADS;
  }
  ROLLED for (; e < last; e += TOGETHER * (i32)THREADS) {
    offers o;
    aim_offers(o, in, e);
    ask_offers(o, p, in, e, last);
    put_offers(o, p, in, e, last, at);
  }
}

/* Ids under the penalty, from the first-th on, a row after the other. */
INLINE void read_seen (const place &p, const inputs &in, i32 first, i32 last, i32 at) {
  ROLLED for (i32 e = first + (i32)THREAD; e < last; e += (i32)THREADS) {
    u32 length = (u32)in.position + 1, b = (u32)e / length, i = (u32)e - b * length;
    i32 row = p.source * in.beams + (i32)b, id = token_at(row_at(in.tokens, in.origin, p.source, row, in.beams, in.room), (i32)i);
    put_entry(p, in, in.seen[(size_t)row * (size_t)in.room + i], id, (i32)b, true, at + e - first);
  }
}

/* A tile: the best k so far, `here` entries from `first` on, nobody to a multiple of eight. */
INLINE void fill_tile (const offers &ahead, const place &p, const inputs &in, i32 first, i32 here, i32 padded) {
  i32 k = in.k, offered = in.beams * in.parts * k, split = first + here < offered ? first + here : offered;
  i32 from = first > offered ? first : offered;
  FOR_THREADS(i, k) p.key[i] = p.a[i], p.name[i] = p.flat[i];
  for (i32 i = k + here + (i32)THREAD; i < padded; i += (i32)THREADS) p.key[i] = -INF, p.name[i] = NOBODY;
  read_offers(ahead, p, in, first, split, k - first);
  read_seen(p, in, from - offered, first + here - offered, k + from - first);
}

/* p.a and p.flat: the candidates in order, as many tiles as it takes; the best so far stand before the next ones. */
INLINE void find_candidates (const offers &ahead, const place &p, const inputs &in) {
  i32 k = in.k, all = in.beams * in.parts * k;
  if (in.parts > 1 && in.penalty != 1) all += in.beams * (in.position + 1);
  ROLLED for (i32 first = 0; first < all; first += p.tile - k) {
    i32 here = all - first < p.tile - k ? all - first : p.tile - k, padded = (k + here + 7) & ~7;
    fill_tile(ahead, p, in, first, here, padded);
    barrier();
    top(p.key, padded, k, p.space, [&] (i32 i) { return p.name[i]; }, [&] (i32 rank, i32 i) {
      p.a[rank] = p.key[i];
      p.flat[rank] = p.name[i];
    });
  }
}

/* Parent, id and hit of each candidate (one that is not there is id 0 of the first row), and the keys of the two orders:
 * run over the candidates, ended over the finished and then the candidates. */
INLINE void judge (const place &p, const inputs &in) {
  i32 longest = in.prompt + in.count >= in.longest;
  FOR_THREADS(i, in.k + in.beams) {
    i32 j = i - in.beams;
    if (j < 0) {
      p.ended[i] = p.scores[in.beams + i];
      continue;
    }
    float a = p.a[j];
    i32 beam = 0, id = p.flat[j] == NOBODY ? 0 : p.flat[j];
    ROLLED for (; id >= in.vocab; id -= in.vocab) beam++;
    p.beam[j] = beam;
    p.id[j] = id;
    p.hit[j] = longest || is_end(in.ends, in.end_count, id);
    p.run[j] = a + (p.hit[j] ? FAR : 0.0f);
    p.ended[i] = (a > -INF ? a / in.divisor : a) + (p.hit[j] && j < in.beams ? 0.0f : FAR);
  }
  barrier();
}

/* next[rank] = i for the best of the running keys, kept for those of the ended; of equal ones the first is better. */
INLINE void choose_best (const place &p, const inputs &in) {
  i32 ended = in.k + in.beams;
  FOR_THREADS(t, in.k + ended) {
    bool runs = t < in.k;
    i32 i = runs ? t : t - in.k, rank = rank_of(runs ? p.run : p.ended, runs ? in.k : ended, i);
    if (rank < in.beams) (runs ? p.next : p.kept)[rank] = i;
  }
  barrier();
}

/* Writes place r of both lists. */
INLINE void write_place (const place &p, const inputs &in, i32 r, float *scores, i32 *lists) {
  i32 beams = in.beams, j = p.next[r], i = p.kept[r], *list = lists + p.source * LISTS * beams + r;
  float *score = scores + p.source * 2 * beams + r;
  score[0] = p.run[j];
  score[beams] = p.ended[i];
  list[REAL * beams] = p.lists[REAL * beams + p.beam[j]] && p.a[j] > -INF;
  i32 c = i - beams, from = c < 0 ? 0 : p.beam[c];
  i32 real = c >= 0 && c < beams && p.lists[REAL * beams + from] && p.a[c] > -INF;
  list[FINISHED * beams] = c < 0 ? p.lists[FINISHED * beams + i] : p.hit[c] && c < beams ? 1 + 2 * real : 0;
  list[AT * beams] = c < 0 ? p.lists[AT * beams + i] : in.position;
  list[BEAM * beams] = c < 0 ? p.lists[BEAM * beams + i] : from;
  list[TOKEN * beams] = c < 0 ? p.lists[TOKEN * beams + i] : p.id[c];
}

enum { KEPT = LANES == 1 ? 1 : 2048 }; /* bytes of the first source's origins that are copied before the wait */

struct memory_of { /* what beams leave behind */
  i32 *token, *tokens;
  u8 *parents, *origin;
  const u8 *was; /* the copy of the source's origins, or null */
};

/* The rows take over what their parents have seen: from the copy, if there is one. */
INLINE void move_origins (const place &p, const inputs &in, const memory_of &m) {
  i32 beams = in.beams, count = in.position + 1, first = p.source * beams;
  auto parent = [&] (i32 b) { return p.beam[p.next[b]]; };
  if (!m.was) return take_over<16>(m.origin, parent, first, beams, in.room, count);
  u8 *rows = m.origin + (size_t)first * (size_t)in.room;
  FOR_THREADS(i, count)
    ROLLED for (i32 b = 0; b < beams; b++) rows[(size_t)b * (size_t)in.room + (size_t)i] = m.was[parent(b) * count + i];
}

INLINE void write_rows (const place &p, const inputs &in, const memory_of &m) {
  i32 beams = in.beams, at = in.position, first = p.source * beams;
  move_origins(p, in, m);
  FOR_THREADS(b, beams) {
    size_t next = (size_t)(first + b) * (size_t)in.room + (size_t)at + 1;
    i32 id = p.id[p.next[b]];
    m.token[first + b] = id;
    if (at + 1 >= in.room) continue;
    m.tokens[next] = id;
    m.parents[next] = (u8)p.beam[p.next[b]];
    m.origin[next] = (u8)b;
  }
}

/* Did place r of the finished list finish? */
INLINE bool finished_at (const place &p, const inputs &in, i32 r) {
  i32 i = p.kept[r], c = i - in.beams;
  return c < 0 ? p.lists[FINISHED * in.beams + i] & 1 : p.hit[c] && c < in.beams;
}

/* May the source still improve? The same in all threads. */
INLINE bool stays_open (const place &p, const inputs &in) {
  float best = p.run[p.next[0]] / in.furthest, worst = p.ended[p.kept[in.beams - 1]];
  bool missing = false, going = false; /* places of the finished list, candidates that did not hit */
  FOR_THREADS(r, in.beams) missing |= !finished_at(p, in, r);
  FOR_THREADS(j, in.k) going |= !p.hit[j];
  missing = block_any(missing);
  going = block_any(going);
  return going && !(!missing && in.early) && best > (missing ? FAR : worst);
}

/* Says whether the source stays open, to all threads. */
INLINE bool move_source (offers &ahead, const place &p, const inputs &in, float *scores, i32 *lists, i32 *open,
                         const memory_of &m) {
  ask_offers(ahead, p, in, (i32)THREAD, in.beams * in.parts * in.k);
  FOR_THREADS(i, in.k) p.a[i] = -INF, p.flat[i] = NOBODY;
  read_rows(p, in);
  find_candidates(ahead, p, in);
  judge(p, in);
  choose_best(p, in);
  FOR_THREADS(r, in.beams) write_place(p, in, r, scores, lists);
  write_rows(p, in, m);
  bool more = stays_open(p, in);
  if (THREAD == 0) open[p.source] = more;
  barrier();
  return more;
}

/* ---- the whole step ---- */

/* Copies what the rows of a source have seen, if that is little. */
INLINE bool keep_origins (const inputs &in, i32 source, u8 *was) {
  i32 each = in.position + 1;
  if (each <= 0 || each > in.room || in.beams * each > KEPT) return false;
  const u8 *rows = in.origin + (size_t)(source * in.beams) * (size_t)in.room;
  FOR_THREADS(i, in.beams * each) {
    u32 b = (u32)i / (u32)each;
    was[i] = rows[(size_t)b * (size_t)in.room + (size_t)((u32)i - b * (u32)each)];
  }
  return true;
}

/* While a prompt is read: its next token, for every row of a source. */
INLINE void read_on (i32 source, const inputs &in, const memory_of &m) {
  FOR_THREADS(b, in.beams) {
    size_t next = (size_t)(source * in.beams + b) * (size_t)in.room + (size_t)in.position + 1;
    m.token[source * in.beams + b] = in.tokens[next];
    m.origin[next] = (u8)b;
  }
}

/* The block that arrives last moves the position on, sees whether any source is open, and tells the host. still: is one of
 * this block's? */
INLINE void finish_step (const inputs &in, i32 *control, const i32 *open, i32 sources, u64 *words, bool still) {
  if (BLOCKS > 1) {
    if (!last_block((u32 *)control + ARRIVED)) return;
    FOR_THREADS(s, sources) still |= open[s] != 0;
    still = block_any(still);
  }
  barrier(); /* all have read the control */
  if (THREAD) return;
  control[POSITION] = in.position + 1;
  control[DONE] = !still;
  publish(words, (u32)in.epoch << 16 | (u32)(in.position + 1), !still);
}

WAITS KERNEL void search (const float *keys, const i32 *ids, const float *most, const float *sums, const float *seen,
                          EARLY const float *factor, const i32 *ends, EARLY i32 *control, EARLY float *scores,
                          EARLY i32 *lists, EARLY i32 *open, i32 *token, i32 *tokens, u8 *parents, EARLY u8 *origin, u64 *words,
                          i32 sources, i32 beams, i32 room, i32 vocab, i32 parts, i32 k, i32 tile) {
  DYNAMIC(float, memory);
  inputs in = {keys, most, sums, seen, factor, ids, ends, tokens, origin, beams, room, vocab, parts, k};
  SHARED(u8, was, KEPT);
  memory_of m = {token, tokens, parents, origin, nullptr};
  place p = place_at(memory, tile, k, beams);
  span mine = share(sources);
  release_next();
  i32 done = control[DONE];
  bool is_open = false, still = false;
  offers ahead;
  read_control(in, control);
  aim_offers(ahead, in, (i32)THREAD);
  p.source = mine.first;
  if (p.source < mine.last) {
    read_lists(p, in, scores, lists);
    is_open = open[p.source];
    if (keep_origins(in, p.source, was)) m.was = was;
  }
  wait_previous();
  if (done) return;
  ROLLED for (; p.source < mine.last; p.source++) {
    if (p.source > mine.first) {
      read_lists(p, in, scores, lists);
      is_open = open[p.source];
      m.was = nullptr;
    }
    if (in.position + 1 < in.prompt) read_on(p.source, in, m);
    else if (is_open) is_open = move_source(ahead, p, in, scores, lists, open, m);
    still |= is_open;
  }
  finish_step(in, control, open, sources, words, still);
}

/* ---- results ---- */

/* ids [sources][wanted][room] and, for each, counts [sources][wanted][2]: how many ids without prompt and end id (-1: it
 * is not real), and 1 if an end id ended it. */
WAITS KERNEL void collect (i32 *ids, i32 *counts, const i32 *lists, const i32 *tokens, const u8 *parents, const i32 *control,
                           const i32 *ends, i32 sources, i32 wanted, i32 beams, i32 room) {
  span mine = share(sources * wanted);
  release_next();
  wait_previous();
  ROLLED for (i32 item = mine.first + (i32)THREAD; item < mine.last; item += (i32)THREADS) {
    i32 source = item / wanted;
    const i32 *list = lists + source * LISTS * beams + item % wanted;
    i32 at = list[AT * beams], beam = list[BEAM * beams], last = list[TOKEN * beams], prompt = control[PROMPT];
    bool ended = is_end(ends, control[END_COUNT], last);
    i32 *to = ids + (size_t)item * (size_t)room;
    bool real = list[FINISHED * beams] == 3;
    counts[item * 2] = real ? at + 1 - prompt + !ended : -1;
    counts[item * 2 + 1] = ended;
    if (real && !ended) to[at + 1 - prompt] = last;
    ROLLED for (; real && at >= prompt; at--) {
      size_t node = (size_t)(source * beams + beam) * (size_t)room + (size_t)at;
      to[at - prompt] = tokens[node];
      beam = parents[node];
    }
  }
}
