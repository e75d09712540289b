/* ahead.c - see ahead.h. Threads take one source after the other; the caller is one of them. */
#define _GNU_SOURCE
#include "ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "cache.h"
#include "cpu.h"

enum { MOST = 12 }; /* threads: a compiler takes a few hundred MB */

typedef struct queue {
  rp_device *dev;
  const rp_program_spec *specs;
  size_t count;
  atomic_size_t next;
} queue;

static void *serve(void *own) {
  queue *q = own;
  for (size_t i; (i = atomic_fetch_add(&q->next, 1)) < q->count;) (void)rp_program_warm(q->dev, q->specs + i);
  return NULL;
}

static size_t helpers_for(size_t count) {
  int processors = 1;
  if (rp_cpu_threads(&processors) != RP_OK || processors < 1) processors = 1;
  size_t most = processors < MOST ? (size_t)processors : MOST;
  return (count < most ? count : most) - 1;
}

/* Signals are the caller's; a Ctrl-C waits until all are back. */
void rp_ahead(rp_device *dev, const rp_program_spec *specs, size_t count) {
  queue q = {.dev = dev, .specs = specs, .count = count};
  pthread_t helpers[MOST];
  size_t started = 0;
  sigset_t all, before;
  if (count == 0 || !rp_cache_keeps()) return;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  for (size_t wanted = helpers_for(count); started < wanted; started++)
    if (pthread_create(helpers + started, NULL, serve, &q)) break;
  serve(&q);
  for (size_t i = 0; i < started; i++) pthread_join(helpers[i], NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
