/* planner.h - packs lifetimes into offsets, and finds which nodes must wait for which. Numbers in, numbers out.
 *
 *   offset
 *     ^   [ output ][ output        ]      outputs: from their first node to the end, at the top
 *     |   [ b   ]  [ c       ]
 *     |   [ a          ]    [ d  ]
 *     +----------------------------> node
 *
 * The same input gives the same plan: no clock, no random seed from outside.
 */
#ifndef RP_PLANNER_H
#define RP_PLANNER_H

#include "err.h"
#include "types.h"

typedef struct rp_life {
  size_t bytes;         /* rounded up to RP_ALIGN by the planner */
  size_t offset;        /* out */
  uint32_t first, last; /* nodes, both included */
  bool output;          /* packed at the top */
} rp_life;

enum { RP_PLAN_TRIES = 120 }; /* placements of the local search: some milliseconds at 400 lives */

typedef struct rp_plan {
  size_t peak, lower_bound;
} rp_plan; /* bytes; the bound: largest sum alive at one node */

/* Greedy by size, then other orders, then local search for at most `tries` placements; stops at the lower bound. */
rp_status rp_plan_pack(rp_life *lives, size_t count, uint32_t tries, rp_plan *out);

typedef struct rp_touch {
  uintptr_t from, to;
  uint32_t node;
  bool writes;
} rp_touch; /* final addresses, by node */

/* Edges so that every node runs after those whose bytes it reads or overwrites, transitively reduced.
 * `touches` are sorted by node. Free *edges with rp_free. */
rp_status rp_plan_edges(const rp_touch *touches, size_t count, uint32_t nodes, rp_edge **edges,
                        size_t *edge_count);

#endif
