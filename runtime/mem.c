/* mem.c - counted host allocations, with one planned failure. */
#include "mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "err.h"

static _Atomic uint64_t live;
static _Atomic int64_t fail_after = -1;

/* Is this the allocation that was chosen to fail? Counts down once a call; failing once resets to never. */
static int chosen(void) {
  if (atomic_load_explicit(&fail_after, memory_order_relaxed) < 0) return 0;
  return atomic_fetch_sub(&fail_after, 1) == 0;
}

static void *counted(void *p, size_t bytes) {
  if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
  else rp_fail(RP_NOMEM, "allocating %zu bytes of host memory: out of memory", bytes);
  return p;
}

void *rp_alloc(size_t bytes) { return counted(chosen() ? NULL : malloc(bytes ? bytes : 1), bytes); }

void *rp_alloc_zero(size_t count, size_t bytes) {
  return counted(chosen() ? NULL : calloc(count ? count : 1, bytes ? bytes : 1), count * bytes);
}

void *rp_resize(void *p, size_t bytes) {
  if (!p) return rp_alloc(bytes);
  void *moved = chosen() ? NULL : realloc(p, bytes ? bytes : 1);
  if (!moved) rp_fail(RP_NOMEM, "growing to %zu bytes of host memory: out of memory", bytes);
  return moved;
}

char *rp_copy_text(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = rp_alloc(bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

void rp_free(void *p) {
  if (!p) return;
  atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
  free(p);
}

int rp_grow(void *array, size_t *room, size_t need, size_t bytes) {
  if (need <= *room) return 1;
  size_t more = *room < 4 ? 8 : *room + *room / 2;
  if (more < need) more = need;
  void *now;
  memcpy(&now, array, sizeof now); /* `array` is the address of a pointer of any type */
  now = rp_resize(now, more * bytes);
  if (!now) return 0;
  memcpy(array, &now, sizeof now);
  *room = more;
  return 1;
}

uint64_t rp_mem_live(void) { return atomic_load(&live); }
void rp_mem_fail_after(int64_t allocations) { atomic_store(&fail_after, allocations); }
