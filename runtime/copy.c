/* copy.c - see copy.h. Dimensions that lie in one row are joined first; what then has more than four is looped over. */
#include "copy.h"

#include <stdio.h>
#include <string.h>

#include "cache.h"
#include "launch.h"
#include "mem.h"
#include "record.h"

enum { KERNEL_RANK = 4, THREADS = 256, PER_BLOCK = THREADS * 4, SEGMENTS = 16 /* of copy_many */ };

typedef struct pair { /* two tensors of one shape, joined; x is unused for a fill */
  int rank;
  int64_t shape[RP_RANK], y[RP_RANK], x[RP_RANK];
} pair;

/* The program of kernels/copy.cu. It must not count the device that owns it: the count is given back. */
static rp_status builtin(rp_device *dev, const char *name, const rp_kernel **out) {
  if (!dev->builtin) {
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/kernels/copy.cu", rp_home()) >= sizeof path)
      return rp_fail(RP_IO, "opening kernels/copy.cu: the path of the home folder is too long");
    RP_TRY(rp_program_compile(dev, &(rp_program_spec){.file = path}, &dev->builtin));
    dev->count--;
  }
  *out = rp_program_kernel(dev->builtin, name);
  return *out ? RP_OK : rp_fail(RP_MISSING, "kernels/copy.cu: kernel %s not found", name);
}

const char *rp_copy_kind(const rp_kernel *kernel) {
  if (kernel->program != kernel->program->device->builtin) return NULL;
  return strcmp(kernel->signature->name, "fill") == 0 ? "fill" : "copy";
}

static void join(pair *p, const rp_tensor *y, const rp_tensor *x) {
  *p = (pair){0};
  for (int d = 0; d < y->rank; d++) {
    int64_t n = y->shape[d], ys = y->stride[d], xs = x->stride[d];
    if (n == 1) continue;
    int last = p->rank - 1;
    if (last >= 0 && p->y[last] == ys * n && p->x[last] == xs * n) {
      p->shape[last] *= n, p->y[last] = ys, p->x[last] = xs;
    } else {
      p->shape[p->rank] = n, p->y[p->rank] = ys, p->x[p->rank] = xs;
      p->rank++;
    }
  }
}

static rp_actual tensor_arg(const rp_tensor *x) { return (rp_actual){.tensor = x}; }

static rp_actual int_arg(int64_t value, size_t bytes) {
  rp_actual actual = {0};
  memcpy(actual.scalar, &value, bytes); /* little-endian hosts only, as the file formats here are */
  return actual;
}

static rp_status run(rp_device *dev, const char *name, int64_t elements, const rp_actual *args) {
  const rp_kernel *kernel;
  RP_TRY(builtin(dev, name, &kernel));
  int64_t blocks = (elements + PER_BLOCK - 1) / PER_BLOCK, most = (int64_t)dev->units * 8;
  rp_geometry how = {.grid = {(uint32_t)(blocks < most ? blocks : most), 1, 1}, .block = {THREADS, 1, 1}};
  return rp_launch_kernel(kernel, &how, args);
}

static int64_t at(const int64_t *list, int rank, int place,
                  int64_t missing) { /* place counts from the last */
  return place < rank ? list[rank - 1 - place] : missing;
}

static int64_t elements(const pair *p) {
  int64_t n = 1;
  for (int d = 0; d < p->rank; d++) n *= p->shape[d];
  return n;
}

static void shape_args(rp_actual *args, const pair *p) { /* n, n1, n2, n3 */
  args[0] = int_arg(elements(p), 8);
  for (int k = 0; k < 3; k++) args[1 + k] = int_arg(at(p->shape, p->rank, 2 - k, 1), 8);
}

static void stride_args(rp_actual *args, const int64_t *stride, int rank) {
  for (int k = 0; k < 4; k++) args[k] = int_arg(at(stride, rank, 3 - k, 0), 8);
}

/* One launch: the last four dimensions. */
static rp_status copy_inner(const rp_tensor *y, const rp_tensor *x, const pair *p) {
  bool same = y->dtype == x->dtype;
  rp_actual args[16] = {tensor_arg(y), tensor_arg(x)}, *rest = args + 2;
  *rest++ = int_arg(same ? (int64_t)rp_dtype_bytes(y->dtype) : y->dtype, 4);
  if (!same) *rest++ = int_arg(x->dtype, 4);
  shape_args(rest, p);
  stride_args(rest + 4, p->y, p->rank);
  stride_args(rest + 8, p->x, p->rank);
  return run(rp_tensor_device(y), same ? "copy" : "convert", elements(p), args);
}

static rp_status fill_inner(const rp_tensor *y, const pair *p, uint64_t bits) {
  rp_actual args[11] = {tensor_arg(y), int_arg((int64_t)rp_dtype_bytes(y->dtype), 4),
                        int_arg((int64_t)bits, 8)};
  shape_args(args + 3, p);
  stride_args(args + 7, p->y, p->rank);
  return run(rp_tensor_device(y), "fill", elements(p), args);
}

/* Loops over the outer dimensions that the kernels do not have. x NULL: a fill. */
static rp_status outer(rp_tensor y, const rp_tensor *x, const pair *p, uint64_t bits) {
  if (p->rank <= KERNEL_RANK) return x ? copy_inner(&y, x, p) : fill_inner(&y, p, bits);
  pair inner = {.rank = p->rank - 1};
  size_t tail = (size_t)inner.rank * sizeof *p->shape;
  memcpy(inner.shape, p->shape + 1, tail);
  memcpy(inner.y, p->y + 1, tail);
  memcpy(inner.x, p->x + 1, tail);
  rp_tensor from = x ? *x : y;
  for (int64_t i = 0; i < p->shape[0]; i++) {
    RP_TRY(outer(y, x ? &from : NULL, &inner, bits));
    y.offset += (size_t)p->y[0] * rp_dtype_bytes(y.dtype);
    from.offset += (size_t)p->x[0] * rp_dtype_bytes(from.dtype);
  }
  return RP_OK;
}

static rp_tensor as_bytes(const rp_tensor *x) {
  rp_tensor bytes = *x;
  bytes.dtype = RP_U8;
  bytes.rank = 1;
  bytes.shape[0] = (int64_t)rp_tensor_bytes(x);
  bytes.stride[0] = 1;
  return bytes;
}

static rp_status copy_apart(const rp_tensor *to, const rp_tensor *from) {
  if (to->dtype == from->dtype && rp_tensor_packed(to) && rp_tensor_packed(from)) {
    rp_tensor y = as_bytes(to), x = as_bytes(from);
    rp_actual args[3] = {tensor_arg(&y), tensor_arg(&x), int_arg(y.shape[0], 8)};
    return run(rp_tensor_device(to), "copy_bytes", (y.shape[0] + 15) / 16, args);
  }
  pair p;
  join(&p, to, from);
  return outer(*to, from, &p, 0);
}

/* Two handles on a graph's own output have one memory. */
static const rp_block *memory_of(const rp_tensor *x) { return x->block->base ? x->block->base : x->block; }

static bool overlap(const rp_tensor *a, const rp_tensor *b) {
  size_t a0, a1, b0, b1;
  if (memory_of(a) != memory_of(b)) return false;
  rp_tensor_span(a, &a0, &a1);
  rp_tensor_span(b, &b0, &b1);
  return a0 < b1 && b0 < a1;
}

static bool same_place(const rp_tensor *a, const rp_tensor *b) {
  return memory_of(a) == memory_of(b) && a->offset == b->offset && a->dtype == b->dtype &&
         memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride) == 0;
}

static bool repeats(const rp_tensor *x) {
  if (rp_tensor_elements(x) == 0) return false;
  for (int d = 0; d < x->rank; d++)
    if (x->stride[d] == 0 && x->shape[d] > 1) return true;
  return false;
}

static rp_status check_copy(const rp_tensor *to, const rp_tensor *from) {
  RP_TRY(rp_tensor_usable(to, "copying to a tensor"));
  RP_TRY(rp_tensor_usable(from, "copying from a tensor"));
  if (rp_tensor_device(to) != rp_tensor_device(from))
    return rp_fail(RP_ARGUMENT, "copying a tensor: it is on %s, the target on %s",
                   rp_tensor_device(from)->name, rp_tensor_device(to)->name);
  if (!rp_tensor_same_shape(to, from)) {
    char have[128], want[128];
    rp_shape_text(from->rank, from->shape, have, sizeof have);
    rp_shape_text(to->rank, to->shape, want, sizeof want);
    return rp_fail(RP_ARGUMENT, "copying a tensor of shape %s to one of shape %s: the shapes differ", have,
                   want);
  }
  return repeats(to) ? rp_fail(RP_ARGUMENT, "copying to a tensor: its elements repeat (stride 0)") : RP_OK;
}

rp_status rp_tensor_copy(const rp_tensor *to, const rp_tensor *from) {
  RP_TRY(check_copy(to, from));
  if (rp_tensor_elements(to) == 0 || same_place(to, from)) return RP_OK;
  if (!overlap(to, from)) return copy_apart(to, from);
  rp_tensor between;
  RP_TRY(rp_tensor_clone(from, &between));
  rp_status status = copy_apart(to, &between);
  rp_tensor_close(&between);
  return status;
}

/* ---- many at once */

typedef struct batch { /* a launch of copy_many being filled */
  rp_tensor y[SEGMENTS], x[SEGMENTS];
  rp_actual args[3 * SEGMENTS];
  size_t count;
  int64_t most; /* bytes of the largest */
} batch;

static rp_status flush(batch *b) {
  if (b->count == 0) return RP_OK;
  rp_device *dev = rp_tensor_device(&b->y[0]);
  for (size_t i = b->count; i < SEGMENTS; i++)
    b->args[3 * i] = b->args[3 * i + 1] = b->args[3 * i + 2] = (rp_actual){0};
  rp_status status = run(dev, "copy_many", (b->most + 15) / 16, b->args);
  b->count = 0;
  b->most = 0;
  return status;
}

static rp_status add(batch *b, const rp_tensor *to, const rp_tensor *from) {
  size_t i = b->count++;
  b->y[i] = as_bytes(to);
  b->x[i] = as_bytes(from);
  b->args[3 * i] = tensor_arg(&b->y[i]);
  b->args[3 * i + 1] = tensor_arg(&b->x[i]);
  b->args[3 * i + 2] = int_arg(b->y[i].shape[0], 8);
  if (b->y[i].shape[0] > b->most) b->most = b->y[i].shape[0];
  return b->count == SEGMENTS ? flush(b) : RP_OK;
}

rp_status rp_tensor_copy_all(const rp_tensor *to, const rp_tensor *const *from, size_t count) {
  batch b; /* not cleared: six KiB, at every replay */
  b.count = 0;
  b.most = 0;
  for (size_t i = 0; i < count; i++) {
    bool plain = to[i].dtype == from[i]->dtype && rp_tensor_packed(to + i) && rp_tensor_packed(from[i]) &&
                 !overlap(to + i, from[i]);
    if (!plain) RP_TRY(rp_tensor_copy(to + i, from[i]));
    else if (rp_tensor_elements(to + i)) RP_TRY(add(&b, to + i, from[i]));
  }
  return flush(&b);
}

rp_status rp_tensor_fill(const rp_tensor *x, const void *element) {
  RP_TRY(rp_tensor_usable(x, "filling a tensor"));
  if (rp_tensor_elements(x) == 0) return RP_OK;
  uint64_t bits = 0;
  memcpy(&bits, element, rp_dtype_bytes(x->dtype));
  pair p;
  join(&p, x, x);
  return outer(*x, NULL, &p, bits);
}
