/* run.c - see run.h. */
#include "run.h"

#include <time.h>

#include "interrupt.h"

enum { POLL_NS = 100000, SPINS = 64 };

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

typedef struct progress { /* what is known of a run */
  rp_device *dev;
  rp_signal *signal;
  uint32_t begun, queued, step; /* as the signal counts: replays before the run may have published too */
  bool done;
  int64_t asked; /* when the device was last asked whether it still works */
} progress;

/* What goes beyond what was queued came from replays that were on their way when the run began. */
static void look(progress *p) {
  p->step = rp_signal_step(p->signal, &p->done);
  if (p->step <= p->queued) return;
  p->begun += p->step - p->queued;
  p->queued = p->step;
}

/* Asks the device, at most every 100 us. An idle device has done all that was queued, whatever its kernels published. */
static rp_status ask(progress *p) {
  int64_t now = now_ns();
  bool idle;
  if (now - p->asked < POLL_NS) return RP_OK;
  p->asked = now;
  RP_TRY(rp_interrupt_check("decoding"));
  RP_TRY(p->dev->ops->poll(p->dev, &idle));
  look(p);
  if (idle && !p->done && p->step < p->queued) p->step = p->queued;
  return RP_OK;
}

/* Until at most `most` replays are outstanding, or decoding is done. */
static rp_status drain(progress *p, uint32_t most) {
  for (look(p); !p->done && p->queued - p->step > most; look(p)) {
    RP_TRY(ask(p));
    if (p->queued - p->step <= most) break;
    for (volatile int i = 0; i < SPINS; i++) continue;
  }
  return RP_OK;
}

static rp_status run_ahead(rp_graph *g, const rp_run *how, uint32_t *steps) {
  progress p = {.dev = g->pool->device, .signal = how->signal};
  look(&p);
  while (p.queued - p.begun < how->max && !p.done) {
    /* here too: a device that has done each replay at once is never waited for */
    RP_TRY(rp_interrupt_check("decoding"));
    RP_TRY(rp_graph_replay(g, NULL));
    p.queued++;
    RP_TRY(drain(&p, how->ahead));
  }
  RP_TRY(drain(&p, 0));
  *steps = (p.done ? p.step : p.queued) - p.begun;
  return RP_OK;
}

/* Each step is waited for; the signal is read when the device is idle. */
static rp_status run_exact(rp_graph *g, const rp_run *how, uint32_t *steps) {
  rp_device *dev = g->pool->device;
  bool done = false;
  uint32_t n = 0;
  while (n < how->max && !done) {
    RP_TRY(rp_interrupt_check("decoding"));
    RP_TRY(rp_graph_replay(g, NULL));
    rp_status status = dev->ops->synchronize(dev);
    if (status == RP_INTERRUPTED) return rp_interrupt_check("decoding"); /* not: waiting for a device */
    RP_TRY(status);
    n++;
    if (how->signal) rp_signal_step(how->signal, &done);
  }
  *steps = n;
  return RP_OK;
}

rp_status rp_graph_run(rp_graph *g, const rp_run *how, uint32_t *steps) {
  return how->signal && how->ahead ? run_ahead(g, how, steps) : run_exact(g, how, steps);
}
