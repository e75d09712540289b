/* planner.c - see planner.h. Outputs are placed first from the bottom of a mirrored space, which is turned over at the
 * end: that puts them at the top whatever the peak comes to be. */
#include "planner.h"

#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "mem.h"

typedef struct search {
  rp_life *lives;
  size_t count, fixed;    /* the first `fixed` of each order are the outputs */
  uint32_t *order, *best; /* indices of lives */
  uint32_t *done;         /* placed so far, by offset */
  size_t *offsets;        /* of the lives, as `best` places them */
  uint64_t random;
} search;

/* ---- placing one order */

static bool together(const rp_life *a, const rp_life *b) {
  return a->first <= b->last && b->first <= a->last;
}

static size_t lowest_gap(const search *s, size_t placed, const rp_life *life) {
  size_t at = 0;
  for (size_t k = 0; k < placed; k++) {
    const rp_life *other = s->lives + s->done[k];
    if (!together(other, life)) continue;
    if (other->offset >= at + life->bytes) break;
    if (other->offset + other->bytes > at) at = other->offset + other->bytes;
  }
  return at;
}

static void insert(search *s, size_t placed, uint32_t index) {
  size_t k = placed;
  for (; k > 0 && s->lives[s->done[k - 1]].offset > s->lives[index].offset; k--) s->done[k] = s->done[k - 1];
  s->done[k] = index;
}

/* First fit at the lowest offset, in the order given; stops early once `limit` is passed. */
static size_t place(search *s, size_t limit) {
  size_t peak = 0;
  for (size_t i = 0; i < s->count && peak <= limit; i++) {
    rp_life *life = s->lives + s->order[i];
    life->offset = lowest_gap(s, i, life);
    if (life->offset + life->bytes > peak) peak = life->offset + life->bytes;
    insert(s, i, s->order[i]);
  }
  return peak;
}

/* ---- orders */

typedef uint64_t weight(const rp_life *life); /* larger comes first */

static uint64_t by_size(const rp_life *life) { return life->bytes; }
static uint64_t by_length(const rp_life *life) { return life->last - life->first; }
static uint64_t by_area(const rp_life *life) {
  return (uint64_t)life->bytes * (life->last - life->first + 1);
}
static uint64_t by_start(const rp_life *life) { return UINT32_MAX - life->first; }

static _Thread_local const search *sorting;
static _Thread_local weight *sort_weight;

static int heavier(const void *a, const void *b) {
  uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
  const rp_life *x = sorting->lives + i, *y = sorting->lives + j;
  if (x->output != y->output) return x->output ? -1 : 1;
  uint64_t v = sort_weight(x), w = sort_weight(y);
  if (v != w) return v > w ? -1 : 1;
  return i < j ? -1 : i > j;
}

static void sort_order(search *s, weight *by) {
  for (size_t i = 0; i < s->count; i++) s->order[i] = (uint32_t)i;
  sorting = s;
  sort_weight = by;
  qsort(s->order, s->count, sizeof *s->order, heavier);
}

/* ---- local search */

static uint32_t next_random(search *s, size_t below) { /* xorshift64 (Marsaglia 2003) */
  s->random ^= s->random << 13;
  s->random ^= s->random >> 7;
  s->random ^= s->random << 17;
  return (uint32_t)((s->random >> 11) % below);
}

/* Moves a life that ends at the peak earlier in the order, and now and then swaps two. Outputs keep their places. */
static bool disturb(search *s, size_t peak) {
  size_t pick = 0, seen = 0, free_count = s->count - s->fixed;
  for (size_t i = s->fixed; i < s->count; i++) {
    const rp_life *life = s->lives + s->order[i];
    if (life->offset + life->bytes == peak && next_random(s, ++seen) == 0) pick = i;
  }
  if (!seen || free_count < 2) return false;
  size_t to = s->fixed + next_random(s, pick - s->fixed + 1);
  uint32_t moved = s->order[pick];
  memmove(s->order + to + 1, s->order + to, (pick - to) * sizeof *s->order);
  s->order[to] = moved;
  if (next_random(s, 3)) return true;
  size_t a = s->fixed + next_random(s, free_count), b = s->fixed + next_random(s, free_count);
  uint32_t swapped = s->order[a];
  s->order[a] = s->order[b];
  s->order[b] = swapped;
  return true;
}

/* The order just placed is the best so far. */
static void keep_best(search *s) {
  memcpy(s->best, s->order, s->count * sizeof *s->order);
  for (size_t i = 0; i < s->count; i++) s->offsets[i] = s->lives[i].offset;
}

static void back_to_best(search *s) {
  memcpy(s->order, s->best, s->count * sizeof *s->order);
  for (size_t i = 0; i < s->count; i++) s->lives[i].offset = s->offsets[i];
}

static size_t improve(search *s, size_t peak, size_t bound, uint32_t tries) {
  for (uint32_t t = 0; t < tries && peak > bound; t++) {
    back_to_best(s);
    if (!disturb(s, peak)) break;
    size_t now = place(s, peak);
    if (now > peak) continue;
    peak = now;
    keep_best(s);
  }
  return peak;
}

static size_t best_order(search *s, size_t bound) {
  static weight *const weights[] = {by_size, by_area, by_length, by_start};
  size_t peak = SIZE_MAX;
  for (size_t w = 0; w < sizeof weights / sizeof *weights && peak > bound; w++) {
    sort_order(s, weights[w]);
    size_t now = place(s, peak);
    if (now >= peak) continue;
    peak = now;
    keep_best(s);
  }
  return peak;
}

static rp_status lower_bound(const rp_life *lives, size_t count, size_t *out) {
  uint32_t end = 0;
  for (size_t i = 0; i < count; i++) end = lives[i].last + 1 > end ? lives[i].last + 1 : end;
  size_t *change = rp_alloc_zero((size_t)end + 1, sizeof *change); /* wraps around: sums stay right */
  if (!change) return RP_NOMEM;
  for (size_t i = 0; i < count; i++)
    change[lives[i].first] += lives[i].bytes, change[lives[i].last + 1] -= lives[i].bytes;
  size_t alive = 0, most = 0;
  for (uint32_t n = 0; n < end; n++) {
    alive += change[n];
    if (alive > most) most = alive;
  }
  rp_free(change);
  *out = most;
  return RP_OK;
}

rp_status rp_plan_pack(rp_life *lives, size_t count, uint32_t tries, rp_plan *out) {
  *out = (rp_plan){0};
  search s = {.lives = lives, .count = count, .random = 88172645463325252ull};
  for (size_t i = 0; i < count; i++) {
    lives[i].bytes = (lives[i].bytes + RP_ALIGN - 1) / RP_ALIGN * RP_ALIGN;
    s.fixed += lives[i].output;
  }
  if (count == 0) return RP_OK;
  RP_TRY(lower_bound(lives, count, &out->lower_bound));
  s.offsets = rp_alloc(count * (sizeof *s.offsets + 3 * sizeof *s.order));
  if (!s.offsets) return RP_NOMEM;
  s.order = (uint32_t *)(void *)(s.offsets + count);
  s.best = s.order + count;
  s.done = s.best + count;
  size_t peak = best_order(&s, out->lower_bound);
  out->peak = improve(&s, peak, out->lower_bound, tries);
  back_to_best(&s);
  for (size_t i = 0; i < count; i++) lives[i].offset = out->peak - lives[i].offset - lives[i].bytes;
  rp_free(s.offsets);
  return RP_OK;
}

/* ---- edges */

typedef struct reach {
  size_t words;
  uint64_t *bits;
} reach; /* bits[n]: every node that n runs after */

static bool reaches(const reach *r, uint32_t from, uint32_t to) {
  return r->bits[to * r->words + from / 64] >> (from & 63) & 1;
}

static void follow(reach *r, uint32_t from, uint32_t to) {
  for (size_t w = 0; w < r->words; w++) r->bits[to * r->words + w] |= r->bits[from * r->words + w];
  r->bits[to * r->words + from / 64] |= 1ull << (from & 63);
}

static bool conflict(const rp_touch *a, const rp_touch *b) {
  return (a->writes || b->writes) && a->from < b->to && b->from < a->to;
}

/* Does a touch of `node` (they start at `at`) conflict with one of `earlier`? */
static bool depends(const rp_touch *touches, size_t count, size_t at, size_t earlier) {
  for (size_t i = at; i < count && touches[i].node == touches[at].node; i++)
    for (size_t j = earlier; j < count && touches[j].node == touches[earlier].node; j++)
      if (conflict(touches + i, touches + j)) return true;
  return false;
}

typedef struct edge_list {
  rp_edge *edges;
  size_t count, room;
} edge_list;

/* Looks back from the node that starts at `at`, nearest first: what is reached already needs no edge. */
static rp_status look_back(const rp_touch *touches, size_t count, size_t at, reach *r, edge_list *list) {
  for (size_t j = at; j-- > 0;) {
    uint32_t earlier = touches[j].node;
    while (j > 0 && touches[j - 1].node == earlier) j--;
    if (reaches(r, earlier, touches[at].node) || !depends(touches, count, at, j)) continue;
    if (!rp_grow(&list->edges, &list->room, list->count + 1, sizeof *list->edges)) return RP_NOMEM;
    list->edges[list->count++] = (rp_edge){earlier, touches[at].node};
    follow(r, earlier, touches[at].node);
  }
  return RP_OK;
}

rp_status rp_plan_edges(const rp_touch *touches, size_t count, uint32_t nodes, rp_edge **edges,
                        size_t *edge_count) {
  reach r = {.words = (nodes + 63) / 64};
  edge_list list = {0};
  r.bits = rp_alloc_zero(r.words * nodes, sizeof *r.bits);
  if (!r.bits) return RP_NOMEM;
  rp_status status = RP_OK;
  for (size_t at = 0; at < count && status == RP_OK;) {
    status = look_back(touches, count, at, &r, &list);
    uint32_t node = touches[at].node;
    while (at < count && touches[at].node == node) at++;
  }
  rp_free(r.bits);
  if (status != RP_OK) {
    rp_free(list.edges);
    return status;
  }
  *edges = list.edges;
  *edge_count = list.count;
  return RP_OK;
}
