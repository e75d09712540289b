/* signals.h - words of host memory that kernels write and the host polls: when to stop, and the tokens so far.
 *
 *   word 0         control: the newest step, value 1 once decoding is done
 *   words 1 .. n   ring: record i of the run at word 1 + i % n
 *   word           epoch 16 | step 16 | value 32, written by one relaxed system-scope store (prelude.cuh: publish)
 *
 * Pinned and mapped on a GPU, so that the host sees a store at once and waits for nothing. A run has an epoch of its own:
 * words of earlier runs, still being written by steps queued past their end, are told apart by it.
 */
#ifndef RP_SIGNALS_H
#define RP_SIGNALS_H

#include "tensor.h"

typedef struct rp_signal {
  rp_tensor words;         /* i64 [1 + records], in mapped memory; counted */
  volatile uint64_t *host; /* the same words */
  uint32_t records;
  uint32_t epoch; /* of the present run; 1 to 65535 */
  uint32_t count;
} rp_signal;

rp_status rp_signal_new(rp_pool *pool, uint32_t records, rp_signal **out); /* records: 1 to 65535 */
rp_signal *rp_signal_retain(rp_signal *s);
void rp_signal_release(rp_signal *s);   /* takes NULL */
uint32_t rp_signal_reset(rp_signal *s); /* starts a run; its epoch, which the kernels must be told */
/* The newest step that was published in this run (from 1; 0: none), and whether it said that decoding is done. */
uint32_t rp_signal_step(const rp_signal *s, bool *done);
/* Record `index` (from 0) of this run; false while it is not there, or is there no more. */
bool rp_signal_read(const rp_signal *s, uint32_t index, int32_t *value);
/* The same, waiting for it; false when the device is idle and it is not there. Ctrl-C and faults are looked for. */
rp_status rp_signal_wait(const rp_signal *s, uint32_t index, int32_t *value, bool *there);

#endif
