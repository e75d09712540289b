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

#include "apart.h"
#include "arena.h"
#include "device.h"
#include "heap.h"
#include "overlay.h"

typedef enum rp_zone {
  RP_TENSORS,
  RP_SLOTS,
  RP_SCRATCH,
  RP_ZONES,
  /* host memory that the device writes: no zone of the pool, addresses as the driver gave them */
  RP_MAPPED = RP_ZONES
} rp_zone;
typedef enum rp_block_state {
  RP_LIVE,
  RP_PROMISED, /* recorded: no address before its graph is planned */
  RP_GONE      /* was a temporary of a capture that is over */
} rp_block_state;

typedef struct rp_pool rp_pool;
typedef struct rp_tag rp_tag; /* slot.h */

typedef struct rp_block { /* memory shared by a tensor and its views */
  rp_pool *pool;          /* lives as long as its blocks */
  rp_extent *extent;      /* tensors, slots: its place in the heap; else NULL */
  struct rp_block *next;  /* in the pool's list of spare blocks; else unset */
  size_t offset, bytes;   /* from the zone's first address; bytes asked for */
  uint64_t id;            /* never used again on this device */
  uint64_t stamp;         /* pool clock at its last write: equal stamps, equal bytes */
  void *host;             /* MAPPED: where the host sees it */
  rp_zone zone;
  rp_block_state state;
  uint32_t value; /* PROMISED: its value in the open record; else unset */
  uint32_t count;
  rp_tag *tag;            /* slots: what it holds; owned */
  rp_origin *origin;      /* outputs: the graph they came from; counted */
  uint64_t replay, clock; /* outputs: which of its replays; pool clock when the handle was made */
  struct rp_block *base;  /* outputs of a graph's own: the private memory behind this handle; counted */
  rp_apart *apart;        /* REPRISE_POOL=off: where its bytes lie instead of in a zone; counted */
} rp_block;

typedef struct rp_zone_figures {
  size_t allocated, reserved, peak_allocated, peak_reserved;
} rp_zone_figures;
typedef struct rp_figures {
  rp_zone_figures zones[RP_ZONES], all;
  size_t device_used;       /* bytes in use on the device, by the driver */
  size_t blocks, graphs;    /* live */
  size_t limit;             /* 0: none */
  size_t executables;       /* bytes that the driver took for live graphs */
  uint64_t copied, skipped; /* bytes of graph inputs so far */
} rp_figures;

struct rp_pool {
  rp_device *device; /* counted */
  rp_pool *next;     /* in the device's list */
  rp_arena arenas[RP_ZONES];
  rp_heap heaps[2]; /* tensors, slots */
  size_t allocated[RP_ZONES], allocated_all, peak[RP_ZONES], peak_all, peak_reserved_all;
  rp_block *spare;  /* block nodes to use again */
  rp_block **slots; /* the present place of input i, counted; NULL where none */
  size_t slot_count, slot_room;
  size_t *plans; /* peaks of live plans, bytes */
  size_t plan_count, plan_room;
  rp_overlay overlay;         /* which replay overwrote which scratch */
  size_t limit;               /* bytes that may be reserved in all zones together */
  size_t executables;         /* bytes that the driver took for live graphs */
  uint64_t copied, skipped;   /* bytes of inputs, of all replays */
  uint64_t clock;             /* one more at every enqueued write */
  struct rp_history *history; /* while it is being recorded: history.h; not owned */
  size_t live_blocks;         /* they hold the pool too */
  uint32_t count;             /* handles, graphs, records */
  bool apart;                 /* REPRISE_POOL=off */
};

rp_status rp_pool_open(rp_device *dev, size_t limit, rp_pool **out); /* limit in bytes, 0: none */
rp_status rp_pool_default(rp_device *dev, rp_pool **out);            /* the device's; one count more */
rp_pool *rp_pool_retain(rp_pool *pool);
void rp_pool_release(rp_pool *pool); /* takes NULL */
void rp_pool_shut(rp_pool *pool);    /* the device is closing: gives all memory back */

/* tensors; one count; contents undefined */
rp_status rp_pool_take(rp_pool *pool, size_t bytes, rp_block **out);
/* host memory, zeroed; see rp_block.host */
rp_status rp_pool_mapped(rp_pool *pool, size_t bytes, rp_block **out);
rp_status rp_pool_promise(rp_pool *pool, size_t bytes, uint32_t value, rp_block **out);
rp_status rp_pool_slot_block(rp_pool *pool, size_t bytes, rp_block **out); /* slots; for slot.c */
rp_status rp_pool_part(rp_block *block); /* memory of its own for a planned block, if the pool is off */
/* A handle on planned bytes of scratch, or (base not NULL) on the private memory of a graph, as its last replay left them. */
rp_status rp_pool_output(rp_pool *pool, size_t offset, size_t bytes, rp_block *base, rp_origin *origin,
                         rp_block **out);
rp_status rp_pool_plan(rp_pool *pool, size_t peak); /* a graph was planned: scratch holds `peak` bytes */
void rp_pool_unplan(rp_pool *pool, size_t peak);
/* The graph is gone, not closed: its bytes stay for as long as handles on its outputs do. */
void rp_pool_keep_plan(rp_pool *pool, size_t peak, rp_origin *origin);
/* A replay that writes scratch up to `peak` was enqueued; outputs below it are stale. Reserve first: then it cannot fail. */
void rp_pool_replayed(rp_pool *pool, size_t peak, rp_origin *origin);
/* Waits, then unmaps every chunk nobody names, and lets the driver give back what it keeps of graphs that are gone;
 * bytes unmapped. */
rp_status rp_pool_trim(rp_pool *pool, size_t *freed);
void rp_pool_figures(rp_pool *pool, rp_figures *out);

rp_block *rp_block_retain(rp_block *block);
void rp_block_release(rp_block *block);            /* takes NULL */
uintptr_t rp_block_address(const rp_block *block); /* of a block that is LIVE */
void rp_block_touched(rp_block *block);            /* its bytes were, or will be, written */
/* Does an output still hold what its replay wrote? The sentence names graph, replay and remedy. */
rp_status rp_block_fresh(const rp_block *block, const char *doing);
const char *rp_zone_name(rp_zone zone);

#endif
