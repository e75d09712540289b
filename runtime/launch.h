/* launch.h - starting a kernel: now, or into the record of an open capture.
 *
 * A typed pointer takes a packed tensor of that element type; `void *` takes any tensor (its kernel knows the strides).
 */
#ifndef RP_LAUNCH_H
#define RP_LAUNCH_H

#include "program.h"
#include "tensor.h"

enum { RP_MOST_PARAMETERS = 64 }; /* of a kernel that is launched */

typedef struct rp_param { /* a scalar that can be set between replays */
  rp_type type;
  _Alignas(8) unsigned char value[8]; /* of `type`, from the first byte; kernels read it in place */
  uint64_t version;                   /* one more at every set */
  uint32_t count;
} rp_param;

typedef struct rp_actual {             /* one argument */
  const rp_tensor *tensor;             /* pointer formals; NULL is the null pointer */
  rp_param *param;                     /* value formals; NULL: the bytes in `scalar` */
  _Alignas(8) unsigned char scalar[8]; /* kernels read it in place */
} rp_actual;

typedef struct rp_geometry {
  rp_dims grid, block, cluster;
  uint32_t shared; /* bytes of dynamic shared memory */
  bool cooperative;
  const char *where; /* "step.lua:12", for messages and the manifest; NULL: unknown */
} rp_geometry;

/* `args` has one entry a formal. Messages name the argument: "argument 2 (const float *x): ...". */
rp_status rp_launch_kernel(const rp_kernel *kernel, const rp_geometry *how, const rp_actual *args);
/* "argument 2 (const float *x)" */
void rp_formal_text(const rp_signature *signature, size_t index, char *out, size_t room);

rp_status rp_param_new(rp_type type, const void *value, rp_param **out);
void rp_param_set(rp_param *param, const void *value);
rp_param *rp_param_retain(rp_param *param);
void rp_param_release(rp_param *param); /* takes NULL */

#endif
