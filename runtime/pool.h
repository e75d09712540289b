/* pool.h - the memory of a device: three zones of addresses that never move, and the blocks in them.
 *
 *   tensors  weights, state, eager results: a heap of blocks, recycled as their last handle goes
 *   slots    input i of every captured graph, in the same place
 *   scratch  temporaries and outputs of captured graphs; every graph is planned from offset 0
 *
 * Counts: device <- pool <- block <- tensor, record, graph. A block goes back to its zone with its last count. Work is
 * enqueued in one order, so memory may be handed out again while an earlier use of it is still queued.
 */
#ifndef RP_POOL_H
#define RP_POOL_H

#include "arena.h"
#include "device.h"
#include "heap.h"

typedef enum rp_zone { RP_TENSORS, RP_SLOTS, RP_SCRATCH, RP_ZONES } rp_zone;
typedef enum rp_block_state {
  RP_LIVE,
  RP_PROMISED, /* recorded: no address before its graph is planned */
  RP_GONE      /* was a temporary of a capture that is over */
} rp_block_state;

typedef struct rp_pool rp_pool;

typedef struct rp_block {    /* memory shared by a tensor and its views */
  rp_pool *pool;             /* counted */
  rp_extent *extent;         /* tensors, slots: its place in the heap; else NULL */
  struct rp_block *next;     /* in the pool's list of spare blocks */
  size_t offset, bytes;      /* from the zone's first address; bytes asked for */
  uint64_t id;               /* never used again in this pool */
  uint64_t stamp;            /* pool clock at its last write: equal stamps, equal bytes */
  rp_zone zone;
  rp_block_state state;
  uint32_t value;            /* PROMISED: its value in the open record */
  uint32_t count;
} rp_block;

typedef struct rp_zone_figures { size_t allocated, reserved, peak_allocated, peak_reserved; } rp_zone_figures;
typedef struct rp_figures {
  rp_zone_figures zones[RP_ZONES], all;
  size_t device_used;        /* bytes in use on the device, by the driver */
  size_t blocks, graphs;     /* live */
} rp_figures;

struct rp_pool {
  rp_device *device;         /* counted */
  rp_pool *next;             /* in the device's list */
  rp_arena arenas[RP_ZONES];
  rp_heap heaps[2];          /* tensors, slots */
  size_t allocated[RP_ZONES], peak[RP_ZONES], peak_all, peak_reserved_all;
  rp_block *spare;           /* block nodes to use again */
  rp_block **slots;          /* the present place of input i, counted; NULL where none */
  size_t slot_count, slot_room;
  size_t *plans;             /* peaks of live plans, bytes */
  size_t plan_count, plan_room;
  uint64_t clock, last_id;
  size_t live_blocks;
  uint32_t count;
};

rp_status rp_pool_open(rp_device *dev, rp_pool **out);
rp_status rp_pool_default(rp_device *dev, rp_pool **out); /* the device's; one count more */
rp_pool *rp_pool_retain(rp_pool *pool);
void rp_pool_release(rp_pool *pool);                      /* takes NULL */
void rp_pool_shut(rp_pool *pool);                         /* the device is closing: gives all memory back */

rp_status rp_pool_take(rp_pool *pool, size_t bytes, rp_block **out);      /* tensors; one count; contents undefined */
rp_status rp_pool_promise(rp_pool *pool, size_t bytes, uint32_t value, rp_block **out);
/* The place of input `index`, at least `bytes`: the present one, or a new one of twice the present size (or `reserve`). */
rp_status rp_pool_slot(rp_pool *pool, size_t index, size_t bytes, size_t reserve, rp_block **out);
rp_status rp_pool_scratch(rp_pool *pool, size_t offset, size_t bytes, rp_block **out); /* a handle on planned bytes */
rp_status rp_pool_plan(rp_pool *pool, size_t peak);       /* a graph was planned: scratch holds `peak` bytes */
void rp_pool_unplan(rp_pool *pool, size_t peak);
void rp_pool_figures(rp_pool *pool, rp_figures *out);

rp_block *rp_block_retain(rp_block *block);
void rp_block_release(rp_block *block);                   /* takes NULL */
uintptr_t rp_block_address(const rp_block *block);        /* of a block that is LIVE */
void rp_block_touched(rp_block *block);                   /* its bytes were, or will be, written */
const char *rp_zone_name(rp_zone zone);

#endif
