/* cpu_coroutine.c - see cpu_coroutine.h. */
#define _GNU_SOURCE
#include "cpu_coroutine.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu_switch.h"
#include "mem.h"

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#ifdef __has_include
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h> /* a few instructions that mean nothing elsewhere */
#endif
#endif

enum {
  SLAB = 32, /* stacks that are mapped at once */
  COLOURS = 16,
  COLOUR_BYTES = 256 /* stacks begin at different places of a page: caches tell lines apart by those */
};

struct rp_coroutine {
  rp_context context;
  rp_coroutine *next; /* idle ones */
  char *low;          /* of its stack */
  size_t bytes;
  void *fake, *fiber; /* the address sanitizer's frames; the thread sanitizer's name for it */
  unsigned number;    /* valgrind's */
};

typedef struct slab {
  struct slab *next;
  char *low;
  rp_coroutine list[SLAB];
} slab;

struct rp_coroutines {
  void (*body)(void *own);
  void *own;
  rp_coroutine home, *idle;
  slab *slabs;
  int made; /* in the newest slab */
  bool abandoned;
};

static _Thread_local rp_coroutines *entered; /* the set that this thread runs */

/* ---- checkers */

static void before_switch(rp_coroutine *from, rp_coroutine *to) {
  (void)from, (void)to;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from->fake, to->low, to->bytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

static void after_switch(rp_coroutines *set, rp_coroutine *here) {
  (void)set, (void)here;
#ifdef __SANITIZE_ADDRESS__
  const void *low;
  size_t bytes;
  __sanitizer_finish_switch_fiber(here->fake, &low, &bytes);
  if (!set->home.low) set->home.low = (char *)(uintptr_t)low, set->home.bytes = bytes;
#endif
}

/* At home after a signal handler came back here: the switch that nobody announced. */
static void announce_landing(rp_coroutines *set) {
  (void)set;
#ifdef __SANITIZE_ADDRESS__
  void *lost;
  __sanitizer_start_switch_fiber(&lost, set->home.low, set->home.bytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(set->home.fiber, 0);
#endif
}

static void name_coroutine(rp_coroutine *c) {
  (void)c;
#ifdef __SANITIZE_THREAD__
  c->fiber = __tsan_create_fiber(0);
#endif
#ifdef VALGRIND_STACK_REGISTER
  c->number = VALGRIND_STACK_REGISTER(c->low, c->low + c->bytes);
#endif
}

static void forget_coroutine(rp_coroutine *c) {
  (void)c;
#ifdef __SANITIZE_THREAD__
  __tsan_destroy_fiber(c->fiber);
#endif
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(c->low, c->bytes);
#endif
#ifdef VALGRIND_STACK_REGISTER
  VALGRIND_STACK_DEREGISTER(c->number);
#endif
}

static void name_home(rp_coroutines *set) {
  set->home.low = NULL; /* the first switch tells where it lies */
#ifdef __SANITIZE_THREAD__
  set->home.fiber = __tsan_get_current_fiber();
#endif
}

/* ---- stacks */

static rp_status refused(const char *doing) {
  return rp_fail(RP_NOMEM, "%s a stack of %d bytes for a kernel's threads: %s", doing, RP_STACK_BYTES,
                 strerror(errno));
}

static rp_status add_slab(rp_coroutines *set) {
  slab *s = rp_alloc_zero(1, sizeof *s);
  if (!s) return RP_NOMEM;
  s->low = mmap(NULL, (size_t)SLAB * RP_STACK_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (s->low == MAP_FAILED) return rp_free(s), refused("mapping");
  s->next = set->slabs;
  set->slabs = s;
  set->made = 0;
  return RP_OK;
}

/* What a coroutine starts with. */
static void begin(void) {
  rp_coroutines *set = entered;
  rp_coroutine first = {.fake = NULL};
  after_switch(set, &first);
  set->body(set->own);
}

static rp_status make(rp_coroutines *set, rp_coroutine **out) {
  if (!set->slabs || set->made == SLAB) RP_TRY(add_slab(set));
  const size_t guard = (size_t)sysconf(_SC_PAGESIZE);
  int number = set->made;
  char *at = set->slabs->low + (size_t)number * RP_STACK_BYTES;
  if (mprotect(at, guard, PROT_NONE)) return refused("guarding");
  rp_coroutine *c = set->slabs->list + number;
  c->low = at + guard;
  c->bytes = RP_STACK_BYTES - guard;
  rp_context_make(&c->context, c->low, c->bytes - (size_t)(number % COLOURS * COLOUR_BYTES), begin);
  name_coroutine(c);
  set->made++;
  *out = c;
  return RP_OK;
}

rp_status rp_coroutines_open(void (*body)(void *own), void *own, rp_coroutines **out) {
  rp_coroutines *set = rp_alloc_zero(1, sizeof *set);
  if (!set) return RP_NOMEM;
  set->body = body;
  set->own = own;
  *out = set;
  return RP_OK;
}

void rp_coroutines_close(rp_coroutines *set) {
  if (!set) return;
  for (int count = set->made; set->slabs; count = SLAB) {
    slab *s = set->slabs;
    set->slabs = s->next;
    for (int i = 0; i < count; i++) forget_coroutine(s->list + i);
    munmap(s->low, (size_t)SLAB * RP_STACK_BYTES);
    rp_free(s);
  }
  rp_free(set);
}

rp_status rp_coroutine_take(rp_coroutines *set, rp_coroutine **out) {
  if (!set->idle) return make(set, out);
  *out = set->idle;
  set->idle = set->idle->next;
  return RP_OK;
}

void rp_coroutine_park(rp_coroutines *set, rp_coroutine *c) {
  c->next = set->idle;
  set->idle = c;
}

/* ---- switching */

void rp_coroutine_switch(rp_coroutines *set, rp_coroutine *from, rp_coroutine *to) {
  if (!to) to = &set->home;
  before_switch(from, to);
  rp_context_switch(&from->context, &to->context);
  after_switch(set, from);
}

void rp_coroutines_enter(rp_coroutines *set, rp_coroutine *to) {
  rp_coroutines *outer = entered;
  entered = set;
  set->abandoned = false;
  name_home(set);
  before_switch(&set->home, to);
  rp_context_switch(&set->home.context, &to->context);
  if (set->abandoned) announce_landing(set);
  after_switch(set, &set->home);
  entered = outer;
}

void rp_coroutines_abandon(rp_coroutines *set, void *at) {
  set->abandoned = true;
  rp_context_land(&set->home.context, at);
}

bool rp_coroutines_overflowed(const rp_coroutines *set, uintptr_t address) {
  for (const slab *s = set->slabs; s; s = s->next) {
    uintptr_t from = address - (uintptr_t)s->low; /* huge if it lies below */
    if (from < (uintptr_t)SLAB * RP_STACK_BYTES)
      return from % RP_STACK_BYTES < (uintptr_t)sysconf(_SC_PAGESIZE);
  }
  return false;
}
