/* graph.h - a planned record and the device's executable form of it.
 *
 * Owner: a graph owns its record, edges and executable, one count on its pool and on the slot blocks of its inputs.
 * Scratch of all graphs of a pool lies over each other: outputs are handles on it, fresh at every replay.
 *
 * A replay, in this order: all slot tests; one launch for the copies that are needed; the graph; then what it wrote is
 * stamped. One stream makes this right without events: slots are overwritten after their last reader, and outputs that
 * are fed back are read before they are overlaid.
 */
#ifndef RP_GRAPH_H
#define RP_GRAPH_H

#include "planner.h"
#include "record.h"

enum { RP_MOST_INPUTS = 128 };

typedef enum rp_outputs {
  RP_SHARED, /* in scratch: stale as soon as a later replay reaches over them */
  RP_OWN,    /* in private memory: stale at the next replay of the same graph */
  RP_COPY    /* cloned after every replay */
} rp_outputs;

typedef struct rp_graph_options {
  const char *name; /* NULL: "graph" */
  rp_outputs mode;
  bool parallel;         /* the reduced graph instead of one chain */
  const size_t *reserve; /* bytes for the place of input i, 0: none; NULL: none */
  size_t reserve_count;
} rp_graph_options;

typedef struct rp_graph {
  rp_pool *pool;     /* counted */
  const char *name;  /* the origin's */
  rp_record *record; /* owned; keeps weights and kernels in place */
  rp_plan plan;
  bool planned;      /* the pool counts the plan */
  rp_tensor *inputs; /* the slots, packed; counted */
  size_t input_count;
  rp_edge *edges; /* reduced; made when first asked for */
  size_t edge_count;
  bool edges_known;
  rp_exec *exec;
  size_t driver_bytes; /* what the driver took for the executable; 0 where it cannot tell */
  uint32_t *changed;   /* values outside of scratch that its nodes write; patching leaves them the same */
  size_t changed_count;
  /* one an argument of the record, of PARAM arguments as last handed to the device */
  uint64_t *param_versions;
  size_t param_count; /* arguments that are parameters */
  rp_outputs mode;
  bool parallel;
  rp_origin *origin;          /* counted: its name, replays and end, for its outputs */
  uint64_t copied, skipped;   /* bytes of inputs, of all replays */
  uint32_t history, portrait; /* its portrait in the history of that serial; 0: in none */
  bool closed;
  uint32_t count;
} rp_graph;

/* Closes the record, plans and builds. Takes the record, also on failure. */
rp_status rp_graph_make(rp_record *rec, const rp_graph_options *options, rp_graph **out);
/* Do these inputs have the dtypes and shapes that the graph was captured for? */
bool rp_graph_fits(const rp_graph *g, const rp_tensor *const *inputs, size_t count);
/* Copies the inputs to their slots, sets parameters that changed, runs. NULL inputs: the slots as they are. */
rp_status rp_graph_replay(rp_graph *g, const rp_tensor *const *inputs);
/* A handle on output `index` of the last replay. Outputs that lie in the same value share their block, so that a write
 * through one is known to all: the later ones are given an earlier one as `sibling`, else NULL. */
rp_status rp_graph_output(rp_graph *g, size_t index, const rp_tensor *sibling, rp_tensor *out);
bool rp_graph_same_output(const rp_graph *g, size_t a, size_t b);
/* What the device is handed for a node: args[i] points to cells[i], eight bytes each. */
rp_launch rp_graph_launch(const rp_graph *g, const rp_node *node, uint64_t *cells, void **args);
/* hands the device the node as the record has it now */
rp_status rp_graph_set_node(rp_graph *g, size_t index);
void rp_graph_note_params(rp_graph *g); /* the device has all parameters as they are now */
rp_status rp_graph_edges(rp_graph *g);  /* fills g->edges */
/* Where argument `arg` of node `node` lies: its address range. */
void rp_graph_range(const rp_graph *g, const rp_arg *arg, uintptr_t *from, uintptr_t *to);
/* Puts another record of the same inputs in its place: patches the nodes where the two differ only in scalars, sizes of a
 * launch or outside tensors, else plans and builds anew. On failure the graph is as it was. Takes the record. */
rp_status rp_graph_update(rp_graph *g, rp_record *rec, bool *patched);
/* Gives executable, plan and slots back; every later replay fails. Waits for a replay in flight. Twice is safe. */
void rp_graph_close(rp_graph *g);
rp_graph *rp_graph_retain(rp_graph *g);
void rp_graph_release(rp_graph *g); /* takes NULL; outputs go on while handles do */

#endif
