/* cpu_crew.h - the threads of one block of a __global__ kernel, taking turns inside one system thread.
 *
 *   team thread -> rp_crew_run -> the program's call -> run_blocks -> a coroutine -> the kernel, thread by thread
 *
 * A coroutine runs one thread of the block after the other; only when one of them waits (a barrier, a shuffle) does
 * another coroutine go on with the next. So a kernel that never waits never switches. The threads of a block run in
 * one system thread: its __shared__ memory is thread-local there. In guard mode (cpu_guard.h) KERNELs are run in a
 * coroutine too, so that a fault can be left behind.
 */
#ifndef RP_CPU_CREW_H
#define RP_CPU_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_team.h"
#include "signature.h"

enum {
  RP_CREW_THREADS = 1024,    /* of a block, as on a GPU */
  RP_CREW_SHARED = 227 << 10 /* bytes of dynamic shared memory, as on an H200 */
};

typedef struct rp_crew rp_crew;

/* What a program of __global__ kernels shares with its crew; kernels/cuda/cuda.cuh has the same. One for each system
 * thread, in the program. */
typedef struct rp_env {
  rp_dims thread, block, threads, blocks; /* threadIdx, blockIdx, blockDim, gridDim */
  rp_crew *crew;
  uint32_t (*barrier)(rp_crew *, uint32_t ask, uint32_t value);
  uint64_t (*lanes)(rp_crew *, uint32_t what, uint32_t mask, uint64_t value, uint32_t source);
  uint32_t (*active)(rp_crew *, const void *site);
  void (*yield)(rp_crew *);
  void (*trap)(rp_crew *, const char *why);
} rp_env;

typedef void rp_thread(void *const *args); /* runs the kernel as the thread that env says */

/* What the program's call finds behind its last argument. */
typedef struct rp_crew_door {
  void (*run_blocks)(rp_crew *, rp_env *, rp_thread *, void *const *args, uint32_t part, uint32_t parts);
  rp_crew *crew;
} rp_crew_door;

/* Runs part `part` of `parts` of a task on the calling thread. False: it failed, or was interrupted (then fault is
 * as it was), and the rest of the job should not run. */
bool rp_crew_run(const rp_task *task, uint32_t part, uint32_t parts, rp_scratch *scratch, rp_fault *fault);
void rp_crew_free(rp_crew *crew); /* takes NULL */

typedef struct rp_fault_facts { /* what a signal handler knows */
  int signal;
  int access; /* 'r' it reads, 'w' it writes, 0 unknown */
  uintptr_t address;
} rp_fault_facts;

/* For the signal handler, `at` being its third argument: ends the block if this thread runs a kernel; else false. */
bool rp_crew_fault(const rp_fault_facts *facts, void *at);

#endif
