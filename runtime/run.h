/* run.h - replaying a graph again and again until the device says stop, with a few replays queued ahead.
 *
 * The host never waits for a step: it queues, and looks at the signal's words. While it has nothing to do it asks the
 * device every 100 us whether it still works (a fault never sets a flag) and looks for Ctrl-C.
 */
#ifndef RP_RUN_H
#define RP_RUN_H

#include "graph.h"
#include "signals.h"

typedef struct rp_run {
  rp_signal *signal; /* NULL: there is no stop, every step is waited for */
  uint32_t max;      /* most steps */
  uint32_t ahead;    /* replays queued beyond the one that runs; 0: each is waited for, exact */
} rp_run;

/* The signal may have counted steps before, of replays one by one; those still on their way count as steps done.
 * Steps done: those up to and with the one that published done, else max. Returns when that is known; with `ahead`, steps
 * queued past the end may still run, and change nothing. */
rp_status rp_graph_run(rp_graph *g, const rp_run *how, uint32_t *steps);

#endif
