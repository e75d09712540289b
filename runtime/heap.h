/* heap.h - which bytes of a range are taken: numbers in, numbers out, no memory of a device is touched.
 *
 *   |##taken##|..free..|##taken##|....free....|  end
 *
 * Two-level segregated fit (Masmano et al., "TLSF", ECRTS 2004): a power of two, then eighths of it, one free list a
 * class, a bit for each list that is not empty; taking and giving back cost the same whatever the heap holds.
 * Extents are aligned to 256 bytes. Neighbouring free extents are merged at once.
 */
#ifndef RP_HEAP_H
#define RP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

enum { RP_ALIGN = 256, RP_HEAP_FIRST = 40, RP_HEAP_SECOND = 8 };

typedef struct rp_extent rp_extent;
struct rp_extent {
  size_t offset, bytes;
  rp_extent *before, *after;  /* neighbours in the range */
  rp_extent *previous, *next; /* in the free list; `next` also in the list of spare nodes */
  bool taken;
};

typedef struct rp_heap {
  rp_extent *last;  /* the extent that ends at `end` */
  rp_extent *spare; /* nodes to use again */
  size_t end;       /* bytes: one past the last extent ever made */
  size_t limit;     /* bytes: end may not pass this */
  uint64_t first_bits;
  uint8_t second_bits[RP_HEAP_FIRST];
  rp_extent *lists[RP_HEAP_FIRST][RP_HEAP_SECOND];
} rp_heap;

void rp_heap_open(rp_heap *heap, size_t limit);
/* An extent of at least `bytes` (rounded up to RP_ALIGN; 0 counts as one unit). RP_NOMEM when `limit` would be passed. */
rp_status rp_heap_take(rp_heap *heap, size_t bytes, rp_extent **out);
void rp_heap_give(rp_heap *heap, rp_extent *extent);
void rp_heap_close(rp_heap *heap); /* frees the nodes, taken ones too */

#endif
