/* slot.h - the places of graph inputs: input i of every graph of a pool lies in the same place, which remembers what it holds.
 *
 * A place that must grow is replaced by one of twice the size; graphs that were built with the old one keep it until they
 * are patched at their next replay. Equal tags mean equal bytes: then nothing is copied.
 */
#ifndef RP_SLOT_H
#define RP_SLOT_H

#include "tensor.h"

struct rp_tag { /* the source of what a place holds; id 0: nothing known */
  uint64_t id, stamp;
  size_t offset;
  rp_dtype dtype;
  int rank;
  int64_t shape[RP_RANK], stride[RP_RANK];
};

/* The place of input `index`, of at least `bytes`: the present one, or a new one of at least `reserve`, one count. */
rp_status rp_slot_take(rp_pool *pool, size_t index, size_t bytes, size_t reserve, rp_block **out);
/* The present place, if it is another than `block` and large enough; else NULL. Borrowed. */
rp_block *rp_slot_moved(const rp_pool *pool, size_t index, const rp_block *block, size_t bytes);

bool rp_slot_holds(const rp_block *place, const rp_tensor *x);
void rp_slot_note(rp_block *place, const rp_tensor *x); /* a copy of x to it was enqueued */
void rp_slot_forget(rp_block *place);

#endif
