/* record.h - what a captured function did: nodes in program order over values.
 *
 *   values  outside | slot | scratch       places; scratch has no address before the plan
 *   args    scalar | pointer | param       what the device is handed, in signature order
 *   nodes   one launch each                a copy or fill is a launch of a kernel of ours
 *
 * Owner: a record owns its arrays, one count on every program and outside block it names, and one on every block it
 * promised. It knows no Lua and no address. Indices, not pointers: arrays move as they grow.
 */
#ifndef RP_RECORD_H
#define RP_RECORD_H

#include "launch.h"
#include "tensor.h"

#define RP_NONE UINT32_MAX

typedef enum rp_place { RP_IN_BLOCK, RP_IN_SLOT, RP_IN_SCRATCH } rp_place;
typedef enum rp_arg_kind { RP_SCALAR, RP_POINTER, RP_PARAM } rp_arg_kind;
typedef enum rp_access { RP_READ = 1, RP_WRITE = 2, RP_UPDATE = 3 } rp_access; /* `T *` is RP_UPDATE */

typedef struct rp_value {
  rp_place place;
  bool output, written, changed; /* changed: by a node; written: that, or there were bytes before */
  uint32_t first, last;          /* nodes that touch it first and last; RP_NONE: none */
  uint32_t input;                /* IN_SLOT: which input */
  size_t bytes;
  size_t offset;   /* IN_SCRATCH: set by the planner; else 0 */
  rp_block *block; /* counted: the outside block, or the promised one */
} rp_value;

typedef struct rp_arg {
  rp_arg_kind kind;
  rp_access access; /* POINTER */
  uint32_t value;   /* POINTER: index, RP_NONE for the null pointer */
  size_t from, to;  /* POINTER: bytes of the value it reaches; `from` is where it points */
  rp_param *param;  /* PARAM: counted */
  unsigned char scalar[8];
} rp_arg;

typedef struct rp_node {
  const rp_kernel *kernel; /* its program is counted */
  rp_dims grid, block, cluster;
  uint32_t shared, first_arg;
  bool cooperative;
  char *where; /* "step.lua:12", owned; NULL: unknown */
} rp_node;

typedef struct rp_output { /* one result of the captured function */
  uint32_t value;          /* RP_NONE: `tensor` is an outside tensor, counted */
  rp_tensor tensor;        /* else: dtype, shape, strides and offset in the value; no block */
} rp_output;

typedef struct rp_record {
  rp_pool *pool; /* counted */
  rp_value *values;
  rp_arg *args;
  rp_node *nodes;
  rp_tensor *inputs; /* shapes, packed; no block */
  rp_output *outputs;
  size_t value_count, value_room, arg_count, arg_room, node_count, node_room;
  size_t input_count, input_room, output_count, output_room;
} rp_record;

/* Opens a record on the pool's device; RP_CAPTURING when one is open already. */
rp_status rp_record_open(rp_pool *pool, rp_record **out);
/* Ends recording; blocks it promised are GONE from now on. Twice is safe. */
void rp_record_close(rp_record *rec);
void rp_record_free(rp_record *rec); /* closes; takes NULL */

/* While open. On failure the record is unchanged. */
rp_status rp_record_input(rp_record *rec, const rp_tensor *like, rp_tensor *out); /* packed, of that shape */
rp_status rp_record_temporary(rp_record *rec, rp_pool *pool, size_t bytes, rp_block **out);
rp_status rp_record_launch(rp_record *rec, const rp_kernel *kernel, const rp_geometry *how,
                           const rp_actual *args);
/* Makes `x` the next output; an input is copied first, by a node. */
rp_status rp_record_output(rp_record *rec, const rp_tensor *x);

#endif
