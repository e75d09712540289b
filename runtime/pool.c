/* pool.c - see pool.h. */
#include "pool.h"

#include <stdio.h>
#include <string.h>

#include "history.h"
#include "mem.h"
#include "slot.h"

static const size_t wish[RP_ZONES] = {(size_t)256 << 30, (size_t)64 << 30,
                                      (size_t)64 << 30}; /* bytes of addresses */

const char *rp_zone_name(rp_zone zone) {
  static const char *const names[] = {"tensors", "slots", "scratch"};
  return names[zone];
}

static void close_zones(rp_pool *pool) {
  for (int z = 0; z < RP_ZONES; z++) rp_arena_close(&pool->arenas[z]);
}

static void unlist(rp_pool *pool) {
  rp_pool **link = &pool->device->pools;
  while (*link != pool) link = &(*link)->next;
  *link = pool->next;
  if (pool->device->pool == pool) pool->device->pool = NULL;
}

rp_status rp_pool_open(rp_device *dev, size_t limit, rp_pool **out) {
  bool apart;
  RP_TRY(rp_device_usable(dev));
  RP_TRY(rp_apart_wanted(dev, &apart));
  rp_pool *pool = rp_alloc_zero(1, sizeof *pool);
  if (!pool) return RP_NOMEM;
  for (int z = 0; z < RP_ZONES; z++) {
    rp_status status = rp_arena_open(dev, wish[z], &pool->arenas[z]);
    if (status == RP_OK) continue;
    close_zones(pool);
    rp_free(pool);
    return status;
  }
  for (int z = 0; z < 2; z++) rp_heap_open(&pool->heaps[z], pool->arenas[z].reserved);
  pool->device = rp_device_retain(dev);
  pool->apart = apart;
  pool->limit = limit ? limit : SIZE_MAX;
  pool->count = 1;
  pool->next = dev->pools;
  dev->pools = pool;
  *out = pool;
  return RP_OK;
}

rp_status rp_pool_default(rp_device *dev, rp_pool **out) {
  RP_TRY(rp_device_usable(dev));
  if (dev->pool) return *out = rp_pool_retain(dev->pool), RP_OK;
  RP_TRY(rp_pool_open(dev, 0, out));
  dev->pool = *out;
  return RP_OK;
}

rp_pool *rp_pool_retain(rp_pool *pool) {
  pool->count++;
  return pool;
}

static void drop_slots(rp_pool *pool) {
  for (size_t i = 0; i < pool->slot_count; i++) rp_block_release(pool->slots[i]);
  pool->slot_count = 0;
}

/* Places of inputs that nobody but the pool holds. */
static size_t slots_alone(const rp_pool *pool) {
  size_t alone = 0;
  for (size_t i = 0; i < pool->slot_count; i++) alone += pool->slots[i] && pool->slots[i]->count == 1;
  return alone;
}

static void destroy(rp_pool *pool) {
  for (rp_block *b = pool->spare, *next; b; b = next) next = b->next, rp_free(b);
  for (int z = 0; z < 2; z++) rp_heap_close(&pool->heaps[z]);
  close_zones(pool);
  unlist(pool);
  rp_device_release(pool->device);
  rp_overlay_close(&pool->overlay);
  rp_free(pool->slots);
  rp_free(pool->plans);
  rp_free(pool);
}

/* Ends a pool that no handle, graph or record holds, once its slots are the last of its blocks. */
static void settle(rp_pool *pool) {
  if (pool->live_blocks > pool->slot_count || pool->live_blocks > slots_alone(pool)) return;
  pool->count++; /* hold it while its slots let go */
  drop_slots(pool);
  destroy(pool);
}

void rp_pool_release(rp_pool *pool) {
  if (pool && --pool->count == 0) settle(pool);
}

void rp_pool_shut(rp_pool *pool) { close_zones(pool); }

/* ---- figures */

static void note_peaks(rp_pool *pool) {
  size_t reserved = 0;
  for (int z = 0; z < RP_ZONES; z++) reserved += pool->arenas[z].committed;
  if (reserved > pool->peak_reserved_all) pool->peak_reserved_all = reserved;
  if (pool->history) rp_history_change(pool->history);
}

static inline void account(rp_pool *pool, rp_zone zone, size_t now) {
  size_t all = pool->allocated_all += now - pool->allocated[zone];
  pool->allocated[zone] = now;
  if (now > pool->peak[zone]) pool->peak[zone] = now;
  if (all > pool->peak_all) pool->peak_all = all;
  if (pool->history) rp_history_change(pool->history);
}

void rp_pool_figures(rp_pool *pool, rp_figures *out) {
  *out = (rp_figures){.blocks = pool->live_blocks,
                      .graphs = pool->plan_count,
                      .limit = pool->limit == SIZE_MAX ? 0 : pool->limit,
                      .executables = pool->executables,
                      .copied = pool->copied,
                      .skipped = pool->skipped};
  for (int z = 0; z < RP_ZONES; z++) {
    out->zones[z] =
        (rp_zone_figures){pool->allocated[z], pool->arenas[z].committed, pool->peak[z], pool->arenas[z].peak};
    out->all.reserved += pool->arenas[z].committed;
  }
  out->all.allocated = pool->allocated_all;
  out->all.peak_allocated = pool->peak_all;
  out->all.peak_reserved = pool->peak_reserved_all;
  size_t free_bytes = 0, total = 0;
  if (pool->device->ops->memory(pool->device, &free_bytes, &total) == RP_OK)
    out->device_used = total - free_bytes;
}

/* ---- blocks */

/* Spare nodes have no tag, origin, base, host memory or memory of their own; the rest is set here. Clearing the whole would take as long again. */
static inline rp_block *new_block(rp_pool *pool, rp_zone zone, rp_block_state state, size_t bytes) {
  rp_block *block = pool->spare;
  if (block) pool->spare = block->next;
  else if (!(block = rp_alloc_zero(1, sizeof *block))) return NULL;
  block->pool = pool;
  block->extent = NULL;
  block->offset = 0;
  block->bytes = bytes;
  block->id = ++pool->device->last_id;
  block->stamp = block->clock = ++pool->clock;
  block->zone = zone;
  block->state = state;
  block->count = 1;
  pool->live_blocks++;
  return block;
}

static void drop_output(rp_block *block) {
  rp_origin *origin = block->origin;
  if (!block->base && --origin->outputs == 0 && origin->kept)
    rp_pool_unplan(block->pool, origin->kept), origin->kept = 0;
  rp_origin_release(origin);
}

static void drop_rare(rp_block *block) {
  if (block->origin) drop_output(block);
  if (block->host) block->pool->device->ops->unmap(block->pool->device, block->host);
  rp_free(block->tag);
  rp_block_release(block->base);
  rp_apart_release(block->apart);
  block->host = NULL, block->tag = NULL, block->origin = NULL, block->base = NULL, block->apart = NULL;
}

static inline void free_block(rp_block *block) {
  rp_pool *pool = block->pool;
  pool->live_blocks--;
  if (block->host || block->tag || block->origin || block->base || block->apart) drop_rare(block);
  block->next = pool->spare;
  pool->spare = block;
  if (pool->count == 0) settle(pool);
}

rp_block *rp_block_retain(rp_block *block) {
  block->count++;
  return block;
}

void rp_block_release(rp_block *block) {
  if (!block || --block->count) return;
  rp_pool *pool = block->pool;
  if (block->extent) {
    account(pool, block->zone, pool->allocated[block->zone] - block->extent->bytes);
    rp_heap_give(&pool->heaps[block->zone], block->extent);
  }
  free_block(block);
}

static rp_status describe_full(rp_pool *pool, rp_zone zone, size_t bytes) {
  rp_figures f;
  size_t free_bytes = 0, total = 0;
  char why[512], limit[64] = "";
  strncpy(why, rp_message(), sizeof why - 1)[sizeof why - 1] = 0;
  rp_pool_figures(pool, &f);
  pool->device->ops->memory(pool->device, &free_bytes, &total);
  if (f.limit) snprintf(limit, sizeof limit, " of at most %zu", f.limit);
  return rp_fail(RP_NOMEM,
                 "taking %zu bytes in zone %s of %s: %s (pool: %zu bytes allocated, %zu reserved%s; device: "
                 "%zu of %zu free)",
                 bytes, rp_zone_name(zone), pool->device->name, why, f.all.allocated, f.all.reserved, limit,
                 free_bytes, total);
}

/* Puts memory behind [from, to) of a zone, within the limit. */
static rp_status commit(rp_pool *pool, rp_zone zone, size_t from, size_t to) {
  size_t reserved = 0, more = rp_arena_missing(&pool->arenas[zone], from, to);
  if (!more)
    return rp_arena_commit(&pool->arenas[zone], from, to); /* refuses what lies beyond its addresses */
  for (int z = 0; z < RP_ZONES; z++) reserved += pool->arenas[z].committed;
  if (more > pool->limit || reserved > pool->limit - more)
    return rp_fail(RP_NOMEM, "%zu more bytes do not fit into the limit", more);
  RP_TRY(rp_arena_commit(&pool->arenas[zone], from, to));
  return note_peaks(pool), RP_OK;
}

/* The same; when there is none, unmaps what nobody names and tries once more. */
static rp_status back(rp_pool *pool, rp_zone zone, size_t from, size_t to) {
  rp_status status = commit(pool, zone, from, to);
  if (status == RP_OK) return RP_OK;
  size_t freed = 0;
  if (rp_pool_trim(pool, &freed) == RP_OK && (freed || pool->device->ops->trim))
    status = commit(pool, zone, from, to);
  return status == RP_OK ? RP_OK : describe_full(pool, zone, to - from);
}

static rp_status take_extent(rp_pool *pool, rp_zone zone, size_t bytes, rp_extent **out) {
  rp_status status = rp_heap_take(&pool->heaps[zone], bytes, out);
  if (status != RP_OK) return describe_full(pool, zone, bytes);
  size_t end = (*out)->offset + (*out)->bytes;
  if (end <= pool->arenas[zone].solid) return RP_OK;
  status = back(pool, zone, (*out)->offset, end);
  if (status != RP_OK) rp_heap_give(&pool->heaps[zone], *out);
  return status;
}

/* A block in a zone that has a heap, with memory behind it. */
static rp_status take(rp_pool *pool, rp_zone zone, size_t bytes, rp_block **out) {
  rp_block *block = new_block(pool, zone, RP_LIVE, bytes);
  if (!block) return RP_NOMEM;
  rp_extent *extent;
  rp_status status = take_extent(pool, zone, bytes, &extent);
  if (status != RP_OK) return free_block(block), status;
  block->extent = extent;
  block->offset = extent->offset;
  account(pool, zone, pool->allocated[zone] + extent->bytes);
  status = rp_pool_part(block);
  if (status != RP_OK) return rp_block_release(block), status;
  *out = block;
  return RP_OK;
}

rp_status rp_pool_part(rp_block *block) {
  return block->pool->apart ? rp_apart_take(block->pool->device, block->bytes, &block->apart) : RP_OK;
}

rp_status rp_pool_take(rp_pool *pool, size_t bytes, rp_block **out) {
  if (pool->device->closed) return rp_device_usable(pool->device);
  return take(pool, RP_TENSORS, bytes, out);
}

rp_status rp_pool_mapped(rp_pool *pool, size_t bytes, rp_block **out) {
  rp_device *dev = pool->device;
  uintptr_t address;
  RP_TRY(rp_device_usable(dev));
  rp_block *block = new_block(pool, RP_MAPPED, RP_LIVE, bytes);
  if (!block) return RP_NOMEM;
  rp_status status = dev->ops->map(dev, bytes, &block->host, &address);
  if (status != RP_OK) return block->host = NULL, free_block(block), status;
  memset(block->host, 0, bytes);
  block->offset = address;
  *out = block;
  return RP_OK;
}

rp_status rp_pool_promise(rp_pool *pool, size_t bytes, uint32_t value, rp_block **out) {
  rp_block *block = new_block(pool, RP_SCRATCH, RP_PROMISED, bytes);
  if (!block) return RP_NOMEM;
  block->value = value;
  *out = block;
  return RP_OK;
}

rp_status rp_pool_slot_block(rp_pool *pool, size_t bytes, rp_block **out) {
  return take(pool, RP_SLOTS, bytes, out);
}

rp_status rp_pool_output(rp_pool *pool, size_t offset, size_t bytes, rp_block *base, rp_origin *origin,
                         rp_block **out) {
  rp_block *block = new_block(pool, base ? RP_TENSORS : RP_SCRATCH, RP_LIVE, bytes);
  if (!block) return RP_NOMEM;
  block->offset = base ? base->offset : offset;
  block->base = base ? rp_block_retain(base) : NULL;
  block->origin = rp_origin_retain(origin);
  origin->outputs += !base;
  block->replay = origin->replays;
  *out = block;
  return RP_OK;
}

static size_t largest_plan(const rp_pool *pool) {
  size_t most = 0;
  for (size_t i = 0; i < pool->plan_count; i++) most = pool->plans[i] > most ? pool->plans[i] : most;
  return most;
}

rp_status rp_pool_plan(rp_pool *pool, size_t peak) {
  if (!rp_grow(&pool->plans, &pool->plan_room, pool->plan_count + 1, sizeof *pool->plans)) return RP_NOMEM;
  RP_TRY(back(pool, RP_SCRATCH, 0, peak));
  pool->plans[pool->plan_count++] = peak;
  account(pool, RP_SCRATCH, largest_plan(pool));
  return RP_OK;
}

void rp_pool_unplan(rp_pool *pool, size_t peak) {
  for (size_t i = pool->plan_count; i-- > 0;) {
    if (pool->plans[i] != peak) continue;
    pool->plans[i] = pool->plans[--pool->plan_count];
    break;
  }
  account(pool, RP_SCRATCH, largest_plan(pool));
}

void rp_pool_keep_plan(rp_pool *pool, size_t peak, rp_origin *origin) {
  if (origin->outputs && !origin->closed) origin->kept = peak;
  else rp_pool_unplan(pool, peak);
}

/* ---- trimming */

static rp_status trim_heap(rp_pool *pool, rp_zone zone) {
  rp_heap *heap = &pool->heaps[zone];
  for (const rp_extent *e = heap->last; e; e = e->before)
    if (!e->taken) RP_TRY(rp_arena_decommit(&pool->arenas[zone], e->offset, e->offset + e->bytes));
  return rp_arena_decommit(&pool->arenas[zone], heap->end, SIZE_MAX);
}

rp_status rp_pool_trim(rp_pool *pool, size_t *freed) {
  rp_device *dev = pool->device;
  size_t before = 0, after = 0;
  *freed = 0;
  if (dev->record)
    return rp_fail(RP_CAPTURING, "trimming the pool of %s: not allowed during capture", dev->name);
  RP_TRY(dev->ops->synchronize(dev));
  for (int z = 0; z < RP_ZONES; z++) before += pool->arenas[z].committed;
  RP_TRY(trim_heap(pool, RP_TENSORS));
  RP_TRY(trim_heap(pool, RP_SLOTS));
  RP_TRY(rp_arena_decommit(&pool->arenas[RP_SCRATCH], largest_plan(pool), SIZE_MAX));
  if (dev->ops->trim) RP_TRY(dev->ops->trim(dev));
  for (int z = 0; z < RP_ZONES; z++) after += pool->arenas[z].committed;
  *freed = before - after;
  if (pool->history && *freed) rp_history_change(pool->history);
  return RP_OK;
}

/* ---- outputs and their age */

void rp_pool_replayed(rp_pool *pool, size_t peak, rp_origin *origin) {
  origin->replays++;
  rp_overlay_cover(&pool->overlay, ++pool->clock, peak, origin);
}

static rp_status stale(const rp_block *block, const char *doing, const char *name, uint64_t replay) {
  return rp_fail(RP_ARGUMENT,
                 "%s: this output of replay %llu of %s was overwritten by replay %llu of %s: clone it before "
                 "the next replay, or capture with outputs = \"copy\"",
                 doing, (unsigned long long)block->replay, block->origin->name, (unsigned long long)replay,
                 name);
}

rp_status rp_block_fresh(const rp_block *block, const char *doing) {
  const rp_origin *origin = block->origin;
  if (!origin) return RP_OK;
  if (origin->closed)
    return rp_fail(RP_CLOSED, "%s: this is an output of %s, which is closed", doing, origin->name);
  if (block->base)
    return origin->replays == block->replay ? RP_OK : stale(block, doing, origin->name, origin->replays);
  const rp_cover *cover = rp_overlay_find(&block->pool->overlay, block->clock, block->offset);
  return cover ? stale(block, doing, cover->origin->name, cover->replay) : RP_OK;
}

uintptr_t rp_block_address(const rp_block *block) {
  if (block->apart) return rp_apart_address(block->apart);
  return block->zone == RP_MAPPED ? block->offset : block->pool->arenas[block->zone].base + block->offset;
}

void rp_block_touched(rp_block *block) { (block->base ? block->base : block)->stamp = ++block->pool->clock; }
