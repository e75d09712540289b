/* arena.h - a reserved range of a device's addresses, backed by memory piece by piece, so that nothing ever moves.
 *
 *   base                                                        base + reserved
 *   |#### chunk ####|....hole....|## chunk ##|........................|
 *
 * Chunks are what one commit mapped: they can only be unmapped whole. Owner: the pool, which holds the device.
 */
#ifndef RP_ARENA_H
#define RP_ARENA_H

#include "device.h"

typedef struct rp_chunk {
  size_t from, to;
} rp_chunk; /* bytes from base; multiples of the granularity */

typedef struct rp_arena {
  rp_device *device; /* not counted */
  uintptr_t base;
  size_t reserved;  /* bytes of addresses */
  size_t committed; /* bytes of memory behind them */
  size_t peak;      /* largest committed so far */
  size_t solid;     /* bytes from base without a hole */
  rp_chunk *chunks; /* sorted, disjoint; owned */
  size_t chunk_count, chunk_room;
} rp_arena;

/* Reserves `want` bytes of addresses, or as much as the system grants, halving down to 64 MiB. */
rp_status rp_arena_open(rp_device *dev, size_t want, rp_arena *out);
/* Puts memory behind [from, to), rounded outwards. May wait for the device: never call it inside a replay. */
rp_status rp_arena_commit(rp_arena *arena, size_t from, size_t to);
/* Bytes that commit would map. */
size_t rp_arena_missing(const rp_arena *arena, size_t from, size_t to);
/* Takes the memory away from every chunk that lies wholly inside [from, to). The device must be idle. */
rp_status rp_arena_decommit(rp_arena *arena, size_t from, size_t to);
void rp_arena_close(rp_arena *arena); /* twice is safe */

#endif
