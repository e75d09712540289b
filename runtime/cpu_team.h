/* cpu_team.h - the threads that run kernels on the CPU device: one team a process, shared by all of its
 * devices.
 *
 * A job is a list of nodes, run one after the other. The blocks of a node are shared out among the calling thread, which
 * always works too, and the team's threads; who is done takes shares that nobody has begun. So a thread that sleeps or is
 * late delays nobody, every block runs exactly once, and no block of a node starts before all blocks of the node before
 * it have ended. One job runs at a time; a caller that finds the team busy runs its job alone, as does a child process
 * after fork.
 */
#ifndef RP_CPU_TEAM_H
#define RP_CPU_TEAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu_habit.h"
#include "err.h"
#include "signature.h"

/* Runs the blocks [first, last) of a grid of `blocks`; dynamic: the thread's memory for DYNAMIC. */
typedef void rp_call(void *const *args, unsigned first, unsigned last, unsigned blocks, void *dynamic);

typedef struct rp_task { /* one node */
  rp_call *call;
  void *const *args;
  uint32_t blocks; /* how the team splits it, 1 to RP_MOST_BLOCKS; 1: not at all */
  uint32_t alone;  /* how one thread does, so that it can look for Ctrl-C in between */
  bool crewed;     /* by rp_crew_run (cpu_crew.h): __global__, or under guard; what follows is for it */
  rp_dims grid, block;
  const rp_signature *kernel; /* lives as long as call */
} rp_task;

enum { RP_MOST_BLOCKS = 1 << 15 };

typedef struct rp_scratch { /* a thread's dynamic shared memory, and its crew; zeroed: none yet */
  void *raw, *at;           /* owned; `at` is on 128 bytes */
  size_t room;
  struct rp_crew *crew; /* owned */
} rp_scratch;

typedef struct rp_fault { /* why a job failed: the first who says so is heard */
  _Atomic bool taken;
  char text[800];
} rp_fault;

void rp_fault_put(rp_fault *fault, const char *text);

typedef struct rp_job {
  const rp_task *tasks;
  size_t count;
  size_t shared;       /* bytes of dynamic shared memory that its tasks need at most */
  rp_scratch *scratch; /* the caller's; grown as needed */
  rp_habit *habit;     /* of jobs of this kind; NULL: always with the team */
} rp_job;

/* Joins the process's team, and says how many threads it has, the caller included. Threads start with the
 * first job. Errors: as rp_cpu_threads. */
rp_status rp_team_open(int *threads);
void rp_team_close(void); /* the last one ends the threads */
/* Runs a job and waits for it. A job that is still at work a quarter of a second after a Ctrl-C is given up
 * between blocks. Errors: RP_NOMEM, nothing has run; RP_INTERRUPTED, some of it has; RP_DEVICE, a kernel failed. */
rp_status rp_team_run(const rp_job *job);
/* Has that quarter of a second passed? *noticed: 0 at first; when the Ctrl-C was seen, ns. */
bool rp_team_expired(int64_t *noticed);

void rp_scratch_free(rp_scratch *scratch);

#endif
