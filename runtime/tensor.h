/* tensor.h - dtype, shape, strides and a place in a block.
 *
 * A rp_tensor is a value that holds one count on its block: views share the block. Shapes and strides count elements;
 * stride 0 repeats. While the device records a capture, constructors promise memory instead of taking it, and copies and
 * fills are recorded. Every function that fails leaves its out-parameter untouched.
 */
#ifndef RP_TENSOR_H
#define RP_TENSOR_H

#include "pool.h"

typedef struct rp_tensor {
  rp_block *block; /* NULL once closed */
  size_t offset;   /* bytes into the block */
  rp_dtype dtype;
  int rank; /* 0: one value */
  int64_t shape[RP_RANK], stride[RP_RANK];
} rp_tensor;

/* New tensors are packed, last dimension fastest. Contents undefined. */
rp_status rp_tensor_empty(rp_pool *pool, rp_dtype dtype, int rank, const int64_t *shape, rp_tensor *out);
rp_status rp_tensor_clone(const rp_tensor *x, rp_tensor *out); /* packed copy */
/* packed, of another dtype */
rp_status rp_tensor_convert(const rp_tensor *x, rp_dtype dtype, rp_tensor *out);
void rp_tensor_close(rp_tensor *x);            /* twice is safe */
rp_tensor rp_tensor_share(const rp_tensor *x); /* one more handle */

/* Views: no bytes move. One shape entry may be -1: what is left over. */
rp_status rp_tensor_view(const rp_tensor *x, int rank, const int64_t *shape, rp_tensor *out);
/* [from, to), from 0 */
rp_status rp_tensor_slice(const rp_tensor *x, int dim, int64_t from, int64_t to, rp_tensor *out);
/* drops the dimension */
rp_status rp_tensor_select(const rp_tensor *x, int dim, int64_t index, rp_tensor *out);
rp_status rp_tensor_transpose(const rp_tensor *x, int a, int b, rp_tensor *out);
/* repeats with stride 0 */
rp_status rp_tensor_expand(const rp_tensor *x, int rank, const int64_t *shape, rp_tensor *out);

/* Enqueued work. copy converts between dtypes (rounding to nearest even; to integers: towards zero, saturating; f16
 * saturates at 65504) and needs equal shapes. Parts that overlap are copied through a temporary. */
rp_status rp_tensor_copy(const rp_tensor *to, const rp_tensor *from);
rp_status rp_tensor_fill(const rp_tensor *x, const void *element); /* rp_dtype_bytes(x->dtype) bytes */

/* Host data, packed. They wait; not allowed during capture. */
rp_status rp_tensor_write(const rp_tensor *x, const void *from);
rp_status rp_tensor_read(const rp_tensor *x, void *to);

/* What a host program calls when it wrote a tensor's bytes behind our back. */
void rp_tensor_touched(const rp_tensor *x);

/* open, on an open device, with bytes to speak of */
rp_status rp_tensor_usable(const rp_tensor *x, const char *doing);
bool rp_tensor_recording(const rp_tensor *x);
rp_device *rp_tensor_device(const rp_tensor *x);
int64_t rp_tensor_elements(const rp_tensor *x);
size_t rp_tensor_bytes(const rp_tensor *x); /* elements x element size */
bool rp_tensor_packed(const rp_tensor *x);
bool rp_tensor_same_shape(const rp_tensor *a, const rp_tensor *b);
void rp_tensor_span(const rp_tensor *x, size_t *from, size_t *to); /* bytes of the block it reaches */
uintptr_t rp_tensor_address(const rp_tensor *x);                   /* of a live block */
void rp_shape_text(int rank, const int64_t *shape, char *out, size_t room); /* "{2, 3}" */

#endif
