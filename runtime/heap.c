/* heap.c - see heap.h. Sizes are counted in units of RP_ALIGN inside. */
#include "heap.h"

#include "mem.h"

typedef struct slot {
  unsigned first, second;
} slot;

/* The class whose extents are at least as large as its lower bound: class(bytes) holds an extent of `bytes`. */
static slot class_of(size_t units) {
  if (units < RP_HEAP_SECOND) return (slot){0, (unsigned)units};
  unsigned top = 63u - (unsigned)__builtin_clzll(units); /* units in [2^top, 2^(top+1)) */
  return (slot){top - 2, (unsigned)(units >> (top - 3)) & (RP_HEAP_SECOND - 1)};
}

/* The class of which every extent is large enough. */
static slot class_for(size_t units) {
  if (units < RP_HEAP_SECOND) return class_of(units);
  unsigned top = 63u - (unsigned)__builtin_clzll(units);
  return class_of(units + ((size_t)1 << (top - 3)) - 1);
}

static rp_extent **list_of(rp_heap *heap, slot s) { return &heap->lists[s.first][s.second]; }

static void link_free(rp_heap *heap, rp_extent *extent) {
  slot s = class_of(extent->bytes / RP_ALIGN);
  rp_extent **list = list_of(heap, s);
  extent->taken = false;
  extent->previous = NULL;
  extent->next = *list;
  if (*list) (*list)->previous = extent;
  *list = extent;
  heap->first_bits |= 1ull << s.first;
  heap->second_bits[s.first] |= (uint8_t)(1u << s.second);
}

static void unlink_free(rp_heap *heap, rp_extent *extent) {
  slot s = class_of(extent->bytes / RP_ALIGN);
  rp_extent **list = list_of(heap, s);
  if (extent->previous) extent->previous->next = extent->next;
  else *list = extent->next;
  if (extent->next) extent->next->previous = extent->previous;
  if (*list) return;
  heap->second_bits[s.first] &= (uint8_t) ~(1u << s.second);
  if (!heap->second_bits[s.first]) heap->first_bits &= ~(1ull << s.first);
}

static rp_extent *find(rp_heap *heap, size_t units) {
  slot s = class_for(units);
  if (s.first >= RP_HEAP_FIRST) return NULL;
  unsigned second = heap->second_bits[s.first] & (0xffu << s.second);
  if (!second) {
    uint64_t first = s.first + 1 < 64 ? heap->first_bits & (~0ull << (s.first + 1)) : 0;
    if (!first) return NULL;
    s.first = (unsigned)__builtin_ctzll(first);
    second = heap->second_bits[s.first];
  }
  s.second = (unsigned)__builtin_ctz(second);
  return *list_of(heap, s);
}

/* Not cleared: who asks sets all of it. */
static rp_extent *new_node(rp_heap *heap) {
  rp_extent *node = heap->spare;
  if (!node) return rp_alloc(sizeof *node);
  heap->spare = node->next;
  return node;
}

static void drop_node(rp_heap *heap, rp_extent *node) {
  node->next = heap->spare;
  heap->spare = node;
}

/* Gives a free extent another size. It keeps its place in the free list while its class is the same, as a large one does
 * that small ones are cut from. */
static void resize_free(rp_heap *heap, rp_extent *extent, size_t bytes) {
  slot now = class_of(extent->bytes / RP_ALIGN), then = class_of(bytes / RP_ALIGN);
  bool same = now.first == then.first && now.second == then.second;
  if (!same) unlink_free(heap, extent);
  extent->bytes = bytes;
  if (!same) link_free(heap, extent);
}

/* Cuts the first bytes off a free extent, into `node`. */
static void cut(rp_heap *heap, rp_extent *extent, size_t bytes, rp_extent *node) {
  *node = (rp_extent){.offset = extent->offset, .bytes = bytes, .before = extent->before, .after = extent};
  if (node->before) node->before->after = node;
  extent->before = node;
  extent->offset += bytes;
  resize_free(heap, extent, extent->bytes - bytes);
}

/* Joins an extent that is in no list to the free one behind it. */
static void join_after(rp_heap *heap, rp_extent *extent) {
  rp_extent *after = extent->after;
  after->offset = extent->offset;
  after->before = extent->before;
  if (after->before) after->before->after = after;
  resize_free(heap, after, after->bytes + extent->bytes);
  drop_node(heap, extent);
}

/* Joins an extent that is in no list to the free one before it. */
static void join_before(rp_heap *heap, rp_extent *extent) {
  rp_extent *before = extent->before;
  before->after = extent->after;
  if (before->after) before->after->before = before;
  else heap->last = before;
  resize_free(heap, before, before->bytes + extent->bytes);
  drop_node(heap, extent);
}

static size_t taken(const rp_heap *heap) {
  size_t sum = 0;
  for (const rp_extent *e = heap->last; e; e = e->before) sum += e->taken ? e->bytes : 0;
  return sum;
}

static rp_status append(rp_heap *heap, size_t bytes, rp_extent **out) {
  rp_extent *last = heap->last, *grown = last && !last->taken ? last : NULL;
  size_t have = grown ? grown->bytes : 0;
  if (bytes > heap->limit || heap->end - have > heap->limit - bytes)
    return rp_fail(RP_NOMEM, "taking %zu bytes of a zone of %zu bytes, %zu of them taken: no room", bytes,
                   heap->limit, taken(heap));
  if (grown) {
    unlink_free(heap, grown);
    grown->bytes = bytes;
  } else {
    if (!(grown = new_node(heap))) return RP_NOMEM;
    *grown = (rp_extent){.offset = heap->end, .bytes = bytes, .before = last};
    if (last) last->after = grown;
    heap->last = grown;
  }
  heap->end = grown->offset + bytes;
  *out = grown;
  return RP_OK;
}

void rp_heap_open(rp_heap *heap, size_t limit) { *heap = (rp_heap){.limit = limit}; }

rp_status rp_heap_take(rp_heap *heap, size_t bytes, rp_extent **out) {
  if (bytes > SIZE_MAX / 2)
    return rp_fail(RP_NOMEM, "taking %zu bytes: more than there are addresses", bytes);
  size_t units = bytes ? (bytes + RP_ALIGN - 1) / RP_ALIGN : 1;
  rp_extent *extent = find(heap, units),
            *node = extent && extent->bytes > units * RP_ALIGN ? new_node(heap) : NULL;
  if (node) {
    cut(heap, extent, units * RP_ALIGN, node);
    extent = node;
  } else if (extent) {
    unlink_free(heap, extent);
  } else {
    RP_TRY(append(heap, units * RP_ALIGN, &extent));
  }
  extent->taken = true;
  *out = extent;
  return RP_OK;
}

static bool is_free(const rp_extent *extent) { return extent && !extent->taken; }

void rp_heap_give(rp_heap *heap, rp_extent *extent) {
  bool before = is_free(extent->before), after = is_free(extent->after);
  if (before && after) {
    unlink_free(heap, extent->before);
    extent->before->bytes += extent->bytes;
    extent->before->after = extent->after;
    extent->after->before = extent->before;
    join_after(heap, extent->before);
    drop_node(heap, extent);
  } else if (after) {
    join_after(heap, extent);
  } else if (before) {
    join_before(heap, extent);
  } else {
    link_free(heap, extent);
  }
}

void rp_heap_close(rp_heap *heap) {
  for (rp_extent *e = heap->last, *before; e; e = before) before = e->before, rp_free(e);
  for (rp_extent *e = heap->spare, *next; e; e = next) next = e->next, rp_free(e);
  *heap = (rp_heap){0};
}
