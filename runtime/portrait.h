/* portrait.h - what a history keeps of a graph, which may be gone when somebody looks: its plan and nodes.
 *
 * Drawn when the graph is made, or first replayed, while its pool is being recorded. It names no block and no
 * kernel, so that looking keeps nothing alive. The first RP_DETAILED graphs are drawn in full, later ones by
 * their sums alone.
 */
#ifndef RP_PORTRAIT_H
#define RP_PORTRAIT_H

#include "graph.h"
#include "history.h"

enum { RP_DETAILED = 256 };

typedef struct rp_sitter { /* one node */
  uint32_t kernel, where;  /* names of the history; NOBODY: unknown */
  size_t reads, writes;    /* bytes that its arguments span; `T *` is written */
  rp_dims grid, block;
  uint32_t timed;        /* replays that were timed */
  double seconds, least; /* of them all; of the fastest */
} rp_sitter;

struct rp_portrait {
  uint32_t name;       /* of the history */
  double made, closed; /* closed 0: it is alive */
  rp_plan plan;
  size_t apart;  /* bytes of all temporaries and outputs, had each memory of its own */
  size_t inputs; /* bytes of its inputs */
  uint32_t outputs;
  uint64_t replays;
  rp_life *lives;   /* owned; NULL: not in detail */
  rp_sitter *nodes; /* owned; likewise */
  size_t life_count, node_count;
};

/* Its portrait in the history of its pool, drawn if need be; NOBODY without host memory. */
uint32_t rp_portrait_of(rp_graph *g);
void rp_portrait_end(const rp_graph *g); /* the graph closes */
/* Launches the graph, noting from when to when; in a timed history node by node. */
rp_status rp_portrait_replay(rp_graph *g);
void rp_portrait_free(rp_portrait *portrait); /* what it owns */

#endif
