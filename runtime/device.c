/* device.c - opening, counting and closing devices; the list of kinds. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "pool.h"
#include "program.h"

static const rp_device_ops *const kinds[] = {
/* best first */
#if RP_HAVE_CUDA
    &rp_cuda_ops,
#endif
    &rp_cpu_ops,
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const rp_device_ops *rp_device_kind(const char *kind) {
  for (size_t i = 0; i < KINDS; i++)
    if (strcmp(kinds[i]->kind, kind) == 0) return kinds[i];
  return NULL;
}

int rp_device_count(const char *kind) {
  const rp_device_ops *ops = rp_device_kind(kind);
  if (ops) return ops->count();
  rp_fail(RP_UNSUPPORTED, "looking for %s devices: this build has none (no CUDA headers when it was built)",
          kind);
  return 0;
}

static rp_status unknown(const char *name) {
  return rp_fail(RP_ARGUMENT, "opening device \"%s\": expected \"cpu\", \"cuda\" or \"cuda:N\"", name);
}

/* The number behind the colon; false: there is none, or it is no device number. */
static bool parse_ordinal(const char *text, int *ordinal) {
  char *end;
  long number = strtol(text, &end, 10);
  if (end == text || *end || number < 0 || number > 1023) return false;
  *ordinal = (int)number;
  return true;
}

/* Splits "cuda:1" into a kind and a number; the number is 0 where none stands. */
static rp_status parse(const char *name, const rp_device_ops **ops, int *ordinal) {
  char kind[16];
  size_t length = strcspn(name, ":");
  if (length >= sizeof kind) return unknown(name);
  memcpy(kind, name, length);
  kind[length] = 0;
  *ops = rp_device_kind(kind);
  *ordinal = 0;
  bool missing = !*ops && strcmp(kind, "cuda") == 0; /* a kind that this build lacks */
  if (!*ops && !missing) return unknown(name);
  if (name[length] && !parse_ordinal(name + length + 1, ordinal)) return unknown(name);
  return missing ? rp_fail(RP_UNSUPPORTED, "opening device \"%s\": this build has no CUDA device", name)
                 : RP_OK;
}

static rp_status best(const rp_device_ops **ops) {
  for (size_t i = 0; i < KINDS; i++)
    if (kinds[i]->count() > 0) return *ops = kinds[i], RP_OK;
  return rp_fail(RP_MISSING, "opening a device: none is present");
}

rp_status rp_device_open(const char *name, rp_device **out) {
  const rp_device_ops *ops = NULL;
  int ordinal = 0;
  RP_TRY(name ? parse(name, &ops, &ordinal) : best(&ops));
  int present = ops->count();
  if (present == 0) return rp_fail_in(RP_MISSING, "opening device \"%s\"", name ? name : ops->kind);
  if (ordinal >= present)
    return rp_fail(RP_MISSING, "opening device \"%s\": there are %d of them, counted from 0", name, present);
  RP_TRY(ops->open(ordinal, out));
  (*out)->ops = ops;
  (*out)->count = 1;
  return RP_OK;
}

rp_device *rp_device_retain(rp_device *dev) {
  dev->count++;
  return dev;
}

void rp_device_release(rp_device *dev) {
  if (!dev || --dev->count) return;
  if (dev->builtin) {
    dev->count = 2; /* the one that it never held, and ours while it goes */
    rp_program_release(dev->builtin);
  }
  dev->ops->free(dev);
}

rp_status rp_device_close(rp_device *dev) {
  if (dev->closed) return RP_OK;
  if (dev->record) return rp_fail(RP_CAPTURING, "closing %s: not allowed during capture", dev->name);
  rp_status waited = dev->ops->synchronize(dev); /* an interrupt or a fault must not keep it open */
  dev->closed = true;
  for (rp_pool *pool = dev->pools; pool; pool = pool->next) rp_pool_shut(pool);
  return waited == RP_INTERRUPTED ? RP_OK : waited;
}

rp_status rp_device_usable(const rp_device *dev) {
  return dev->closed ? rp_fail(RP_CLOSED, "using %s: the device is closed", dev->name) : RP_OK;
}
