/* graph.h - a planned record and the device's executable form of it.
 *
 * Owner: a graph owns its record, edges and executable, one count on its pool and on the slot blocks of its inputs.
 * Scratch of all graphs of a pool lies over each other: outputs are handles on it, fresh at every replay.
 */
#ifndef RP_GRAPH_H
#define RP_GRAPH_H

#include "planner.h"
#include "record.h"

typedef struct rp_graph_options {
  const char *name;          /* NULL: "graph" */
  bool parallel;             /* the reduced graph instead of one chain */
  const size_t *reserve;     /* bytes for the place of input i, 0: none; NULL: none */
  size_t reserve_count;
} rp_graph_options;

typedef struct rp_graph {
  rp_pool *pool;             /* counted */
  char *name;                /* owned */
  rp_record *record;         /* owned; keeps weights and kernels in place */
  rp_plan plan;
  bool planned;              /* the pool counts the plan */
  rp_tensor *inputs;         /* the slots, packed; counted */
  size_t input_count;
  rp_edge *edges;            /* reduced; made when first asked for */
  size_t edge_count;
  bool edges_known;
  rp_exec *exec;
  uint64_t *param_versions;  /* one an argument of the record, of PARAM arguments as last handed to the device */
  size_t param_count;        /* arguments that are parameters */
  uint64_t replays;
  bool closed;
  uint32_t count;
} rp_graph;

/* Closes the record, plans and builds. Takes the record, also on failure. */
rp_status rp_graph_make(rp_record *rec, const rp_graph_options *options, rp_graph **out);
/* Do these inputs have the dtypes and shapes that the graph was captured for? */
bool rp_graph_fits(const rp_graph *g, const rp_tensor *const *inputs, size_t count);
/* Copies the inputs to their slots, sets parameters that changed, runs. NULL inputs: the slots as they are. */
rp_status rp_graph_replay(rp_graph *g, const rp_tensor *const *inputs);
/* A handle on output `index` of the last replay. */
rp_status rp_graph_output(rp_graph *g, size_t index, rp_tensor *out);
rp_status rp_graph_edges(rp_graph *g);                     /* fills g->edges */
/* Where argument `arg` of node `node` lies: its address range. */
void rp_graph_range(const rp_graph *g, const rp_arg *arg, uintptr_t *from, uintptr_t *to);
/* Gives executable, plan and slots back; every later replay fails. Waits for a replay in flight. Twice is safe. */
void rp_graph_close(rp_graph *g);
rp_graph *rp_graph_retain(rp_graph *g);
void rp_graph_release(rp_graph *g);                        /* takes NULL; closes */

#endif
