/* cpu_guard.h - REPRISE_GUARD=1: each tensor ends where a page ends, with an inaccessible page behind it, and a kernel
 * that touches what is not its own fails with a sentence; the process lives on.
 *
 *   | facts | ... tensor| inaccessible |     facts: how long this is; inaccessible too while it is in use
 *
 * The signal is taken on a stack of its own, so that a kernel may also run out of its stack. A signal that no kernel
 * caused goes to whoever was there before.
 */
#ifndef RP_CPU_GUARD_H
#define RP_CPU_GUARD_H

#include <signal.h>

#include "cpu_crew.h"

/* A device opens: reads REPRISE_GUARD; the first one puts the handlers in place, the last one takes them away.
 * Errors: RP_ARGUMENT for a value other than 0 and 1. */
rp_status rp_guard_open(void);
void rp_guard_close(void);
bool rp_guarding(void); /* as the first device that is open found it */

/* Memory for a tensor: its last byte is the last of a page. RP_NOMEM. */
rp_status rp_guard_take(size_t bytes, uintptr_t *out);
void rp_guard_give(uintptr_t at);

typedef struct rp_guard_seat {
  stack_t before;
} rp_guard_seat;
/* Round the kernels that a thread runs: a stack for the handler. Nothing where there is no guard. */
void rp_guard_sit(rp_guard_seat *seat);
void rp_guard_rise(const rp_guard_seat *seat);

/* Prints what the thread did, as the end of a sentence: " writes y[64] ..." */
void rp_guard_describe(const rp_task *task, const rp_fault_facts *facts, char *out, size_t room);

#endif
