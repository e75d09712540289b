/* copy.h - copies, conversions and fills as launches of kernels/copy.cu, so that a capture records them like any other. */
#ifndef RP_COPY_H
#define RP_COPY_H

#include "program.h"
#include "tensor.h"

/* Is this kernel one of ours, and which: "copy", "fill" or NULL; for the manifest. */
const char *rp_copy_kind(const rp_kernel *kernel);

/* Copies from[i] to to[i], all in one launch where they are packed and of one dtype each (16 a launch). */
rp_status rp_tensor_copy_all(const rp_tensor *to, const rp_tensor *const *from, size_t count);

#endif
