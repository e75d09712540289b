/* tensor.c - shapes, views and the entry to copies; the kernels behind copies are started in copy.c. */
#include "tensor.h"

#include <stdio.h>
#include <string.h>

#include "copy.h"
#include "mem.h"
#include "record.h"

/* ---- facts */

int64_t rp_tensor_elements(const rp_tensor *x) {
  int64_t n = 1;
  for (int d = 0; d < x->rank; d++) n *= x->shape[d];
  return n;
}

size_t rp_tensor_bytes(const rp_tensor *x) {
  return (size_t)rp_tensor_elements(x) * rp_dtype_bytes(x->dtype);
}
rp_device *rp_tensor_device(const rp_tensor *x) { return x->block->pool->device; }
bool rp_tensor_recording(const rp_tensor *x) { return rp_tensor_device(x)->record != NULL; }
uintptr_t rp_tensor_address(const rp_tensor *x) { return rp_block_address(x->block) + x->offset; }
void rp_tensor_touched(const rp_tensor *x) { rp_block_touched(x->block); }

bool rp_tensor_packed(const rp_tensor *x) {
  int64_t step = 1;
  for (int d = x->rank; d-- > 0;) {
    if (x->shape[d] != 1 && x->stride[d] != step) return false;
    step *= x->shape[d];
  }
  return true;
}

bool rp_tensor_same_shape(const rp_tensor *a, const rp_tensor *b) {
  return a->rank == b->rank && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

void rp_tensor_span(const rp_tensor *x, size_t *from, size_t *to) {
  size_t bytes = rp_dtype_bytes(x->dtype), last = 0;
  *from = x->offset;
  *to = x->offset;
  if (rp_tensor_elements(x) == 0) return;
  for (int d = 0; d < x->rank; d++) last += (size_t)(x->shape[d] - 1) * (size_t)x->stride[d];
  *to = x->offset + (last + 1) * bytes;
}

void rp_shape_text(int rank, const int64_t *shape, char *out, size_t room) {
  size_t at = (size_t)snprintf(out, room, "{");
  for (int d = 0; d < rank && at < room; d++)
    at += (size_t)snprintf(out + at, room - at, d ? ", %lld" : "%lld", (long long)shape[d]);
  if (at < room) snprintf(out + at, room - at, "}");
}

rp_status rp_tensor_usable(const rp_tensor *x, const char *doing) {
  if (!x->block) return rp_fail(RP_CLOSED, "%s: the tensor is closed", doing);
  RP_TRY(rp_device_usable(rp_tensor_device(x)));
  if (x->block->state == RP_GONE)
    return rp_fail(RP_CAPTURING,
                   "%s: the tensor was a temporary of a captured function and was not returned by it", doing);
  return rp_block_fresh(x->block, doing);
}

/* ---- making */

static void pack(rp_tensor *x) {
  int64_t step = 1;
  for (int d = x->rank; d-- > 0;) x->stride[d] = step, step *= x->shape[d];
}

/* Checks rank and shape and counts the elements; their bytes must fit half the address space. */
static rp_status measure(rp_dtype dtype, int rank, const int64_t *shape, size_t *bytes) {
  if (rank < 0 || rank > RP_RANK)
    return rp_fail(RP_ARGUMENT, "shaping a tensor: %d dimensions, at most %d are possible", rank, RP_RANK);
  size_t n = rp_dtype_bytes(dtype);
  bool none = false;
  for (int d = 0; d < rank; d++) {
    if (shape[d] < 0)
      return rp_fail(RP_ARGUMENT, "shaping a tensor: dimension %d is negative (%lld)", d + 1,
                     (long long)shape[d]);
    none |= shape[d] == 0;
    if (shape[d] && __builtin_mul_overflow(n, (size_t)shape[d], &n)) n = SIZE_MAX;
    if (n > PTRDIFF_MAX) return rp_fail(RP_ARGUMENT, "shaping a tensor: more bytes than there are addresses");
  }
  *bytes = none ? 0 : n;
  return RP_OK;
}

rp_status rp_tensor_empty(rp_pool *pool, rp_dtype dtype, int rank, const int64_t *shape, rp_tensor *out) {
  size_t bytes;
  RP_TRY(measure(dtype, rank, shape, &bytes));
  rp_tensor x = {.dtype = dtype, .rank = rank};
  if (rank) memcpy(x.shape, shape, (size_t)rank * sizeof *shape);
  pack(&x);
  rp_record *record = pool->device->record;
  if (record) RP_TRY(rp_record_temporary(record, pool, bytes, &x.block));
  else RP_TRY(rp_pool_take(pool, bytes, &x.block));
  *out = x;
  return RP_OK;
}

void rp_tensor_close(rp_tensor *x) {
  rp_block_release(x->block);
  x->block = NULL;
}

rp_tensor rp_tensor_share(const rp_tensor *x) {
  rp_block_retain(x->block);
  return *x;
}

rp_status rp_tensor_convert(const rp_tensor *x, rp_dtype dtype, rp_tensor *out) {
  RP_TRY(rp_tensor_usable(x, "copying a tensor"));
  rp_tensor y;
  RP_TRY(rp_tensor_empty(x->block->pool, dtype, x->rank, x->shape, &y));
  rp_status status = rp_tensor_copy(&y, x);
  if (status != RP_OK) return rp_tensor_close(&y), status;
  *out = y;
  return RP_OK;
}

rp_status rp_tensor_clone(const rp_tensor *x, rp_tensor *out) { return rp_tensor_convert(x, x->dtype, out); }

/* ---- views */

static rp_status misfit(const rp_tensor *x, int rank, const int64_t *shape) {
  char have[128], want[128];
  rp_shape_text(x->rank, x->shape, have, sizeof have);
  rp_shape_text(rank, shape, want, sizeof want);
  return rp_fail(RP_ARGUMENT, "viewing a tensor of shape %s as %s: the numbers of elements differ", have,
                 want);
}

/* Fills in the one entry that is -1. */
static rp_status infer(const rp_tensor *x, int rank, int64_t *shape) {
  int64_t known = 1, n = rp_tensor_elements(x);
  int open = -1;
  for (int d = 0; d < rank; d++) {
    if (shape[d] != -1) {
      if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known)) return misfit(x, rank, shape);
    } else if (open >= 0) return rp_fail(RP_ARGUMENT, "viewing a tensor: only one dimension may be -1");
    else open = d;
  }
  if (open >= 0 && (known == 0 || n % known)) return misfit(x, rank, shape);
  if (open >= 0) shape[open] = n / known;
  return RP_OK;
}

/* Strides for the new shape: runs of dimensions of equal size products must be packed among themselves. */
static bool restride(const rp_tensor *x, rp_tensor *y) {
  int i = x->rank - 1, j = y->rank - 1;
  while (j >= 0) {
    while (i >= 0 && x->shape[i] == 1) i--;
    int64_t have = i >= 0 ? x->shape[i] : 1, want = y->shape[j], step = i >= 0 ? x->stride[i] : 1;
    y->stride[j--] = step;
    while (have != want) {
      if (have < want) {
        if (i <= 0) return false;
        if (x->stride[i - 1] != x->stride[i] * x->shape[i]) return false;
        have *= x->shape[--i];
      } else {
        if (j < 0) return false;
        y->stride[j] = step * want;
        want *= y->shape[j--];
      }
    }
    i--;
  }
  return true;
}

rp_status rp_tensor_view(const rp_tensor *x, int rank, const int64_t *shape, rp_tensor *out) {
  size_t bytes;
  rp_tensor y = {.block = x->block, .offset = x->offset, .dtype = x->dtype, .rank = rank};
  RP_TRY(rp_tensor_usable(x, "viewing a tensor"));
  if (rank < 0 || rank > RP_RANK)
    return rp_fail(RP_ARGUMENT, "viewing a tensor: at most %d dimensions are possible", RP_RANK);
  if (rank) memcpy(y.shape, shape, (size_t)rank * sizeof *shape);
  RP_TRY(infer(x, rank, y.shape));
  RP_TRY(measure(x->dtype, rank, y.shape, &bytes));
  if (bytes != rp_tensor_bytes(x)) return misfit(x, rank, y.shape);
  if (bytes == 0 || rp_tensor_packed(x)) pack(&y);
  else if (!restride(x, &y))
    return rp_fail(RP_ARGUMENT, "viewing a tensor whose elements are not in one row: clone it first");
  *out = rp_tensor_share(&y);
  return RP_OK;
}

static rp_status check_dim(const rp_tensor *x, int dim, const char *doing) {
  RP_TRY(rp_tensor_usable(x, doing));
  if (dim >= 0 && dim < x->rank) return RP_OK;
  return rp_fail(RP_ARGUMENT, "%s: dimension %d of a tensor that has %d", doing, dim + 1, x->rank);
}

rp_status rp_tensor_slice(const rp_tensor *x, int dim, int64_t from, int64_t to, rp_tensor *out) {
  RP_TRY(check_dim(x, dim, "slicing a tensor"));
  if (from < 0 || to > x->shape[dim] || from > to)
    return rp_fail(RP_ARGUMENT, "slicing a tensor: elements %lld to %lld of dimension %d, which has %lld",
                   (long long)from + 1, (long long)to, dim + 1, (long long)x->shape[dim]);
  rp_tensor y = rp_tensor_share(x);
  y.offset += (size_t)(from * x->stride[dim]) * rp_dtype_bytes(x->dtype);
  y.shape[dim] = to - from;
  *out = y;
  return RP_OK;
}

rp_status rp_tensor_select(const rp_tensor *x, int dim, int64_t index, rp_tensor *out) {
  rp_tensor y;
  RP_TRY(check_dim(x, dim, "indexing a tensor"));
  if (index < 0 || index >= x->shape[dim])
    return rp_fail(RP_ARGUMENT, "indexing a tensor: element %lld of dimension %d, which has %lld",
                   (long long)index + 1, dim + 1, (long long)x->shape[dim]);
  RP_TRY(rp_tensor_slice(x, dim, index, index + 1, &y));
  for (int d = dim; d + 1 < y.rank; d++) y.shape[d] = y.shape[d + 1], y.stride[d] = y.stride[d + 1];
  y.rank--;
  *out = y;
  return RP_OK;
}

rp_status rp_tensor_transpose(const rp_tensor *x, int a, int b, rp_tensor *out) {
  RP_TRY(check_dim(x, a, "transposing a tensor"));
  RP_TRY(check_dim(x, b, "transposing a tensor"));
  rp_tensor y = rp_tensor_share(x);
  y.shape[a] = x->shape[b], y.shape[b] = x->shape[a];
  y.stride[a] = x->stride[b], y.stride[b] = x->stride[a];
  *out = y;
  return RP_OK;
}

rp_status rp_tensor_expand(const rp_tensor *x, int rank, const int64_t *shape, rp_tensor *out) {
  size_t bytes;
  RP_TRY(rp_tensor_usable(x, "expanding a tensor"));
  RP_TRY(measure(x->dtype, rank, shape, &bytes));
  rp_tensor y = {.block = x->block, .offset = x->offset, .dtype = x->dtype, .rank = rank};
  for (int d = 0; d < rank; d++) {
    int from = d - (rank - x->rank);
    int64_t have = from >= 0 ? x->shape[from] : 1;
    if (rank < x->rank || (have != 1 && have != shape[d])) {
      char now[128], want[128];
      rp_shape_text(x->rank, x->shape, now, sizeof now);
      rp_shape_text(rank, shape, want, sizeof want);
      return rp_fail(RP_ARGUMENT, "expanding a tensor of shape %s to %s: only dimensions of size 1 repeat",
                     now, want);
    }
    y.shape[d] = shape[d];
    y.stride[d] = have == 1 ? 0 : x->stride[from];
  }
  *out = rp_tensor_share(&y);
  return RP_OK;
}

/* ---- host data */

static rp_status no_host(const rp_tensor *x, const char *doing) {
  RP_TRY(rp_tensor_usable(x, doing));
  return rp_tensor_recording(x) ? rp_fail(RP_CAPTURING, "%s: not allowed during capture", doing) : RP_OK;
}

rp_status rp_tensor_write(const rp_tensor *x, const void *from) {
  RP_TRY(no_host(x, "uploading values"));
  rp_device *dev = rp_tensor_device(x);
  size_t bytes = rp_tensor_bytes(x);
  if (bytes == 0) return RP_OK;
  if (rp_tensor_packed(x)) {
    RP_TRY(dev->ops->upload(dev, rp_tensor_address(x), from, bytes));
    return rp_tensor_touched(x), RP_OK;
  }
  rp_tensor packed;
  RP_TRY(rp_tensor_empty(x->block->pool, x->dtype, x->rank, x->shape, &packed));
  rp_status status = rp_tensor_write(&packed, from);
  if (status == RP_OK) status = rp_tensor_copy(x, &packed);
  rp_tensor_close(&packed);
  return status;
}

rp_status rp_tensor_read(const rp_tensor *x, void *to) {
  RP_TRY(no_host(x, "reading values"));
  rp_device *dev = rp_tensor_device(x);
  size_t bytes = rp_tensor_bytes(x);
  if (bytes == 0) return RP_OK;
  if (rp_tensor_packed(x)) {
    dev->downloaded += bytes;
    return dev->ops->download(dev, to, rp_tensor_address(x), bytes);
  }
  rp_tensor packed;
  RP_TRY(rp_tensor_clone(x, &packed));
  rp_status status = rp_tensor_read(&packed, to);
  rp_tensor_close(&packed);
  return status;
}
