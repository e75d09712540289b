/* arena.c - see arena.h. */
#include "arena.h"

#include <string.h>

#include "mem.h"

enum { LEAST = 64 << 20, OTHERS = 8 };

/* The most that can be had of bytes, half of them, a quarter ... */
static rp_status reserve_most(rp_arena *out, size_t bytes) {
  for (;; bytes /= 2) {
    rp_status status = out->device->ops->reserve(out->device, bytes, &out->base);
    if (status == RP_OK) return out->reserved = bytes, RP_OK;
    if (bytes / 2 < LEAST) return status;
  }
}

/* Where there are not as many addresses as are wanted, other arenas want some of what there is. */
rp_status rp_arena_open(rp_device *dev, size_t want, rp_arena *out) {
  *out = (rp_arena){.device = dev};
  RP_TRY(reserve_most(out, want));
  if (out->reserved == want || out->reserved / OTHERS < LEAST) return RP_OK;
  dev->ops->release(dev, out->base, out->reserved);
  return reserve_most(out, out->reserved / OTHERS);
}

static size_t down(size_t bytes, size_t unit) { return bytes / unit * unit; }
static size_t up(size_t bytes, size_t unit) { return down(bytes + unit - 1, unit); }

/* The chunks that follow one another from base without a hole. */
static void measure_solid(rp_arena *arena, size_t at) {
  while (at < arena->chunk_count && arena->chunks[at].from == arena->solid)
    arena->solid = arena->chunks[at++].to;
}

/* Maps the gap [from, to) and notes it as the chunk before number `at`. */
static rp_status map(rp_arena *arena, size_t at, size_t from, size_t to) {
  if (!rp_grow(&arena->chunks, &arena->chunk_room, arena->chunk_count + 1, sizeof *arena->chunks))
    return RP_NOMEM;
  RP_TRY(arena->device->ops->commit(arena->device, arena->base + from, to - from));
  rp_chunk *gap = arena->chunks + at;
  memmove(gap + 1, gap, (arena->chunk_count - at) * sizeof *gap);
  *gap = (rp_chunk){from, to};
  arena->chunk_count++;
  arena->committed += to - from;
  if (arena->committed > arena->peak) arena->peak = arena->committed;
  measure_solid(arena, at);
  return RP_OK;
}

rp_status rp_arena_commit(rp_arena *arena, size_t from, size_t to) {
  size_t unit = arena->device->granularity, end = up(to, unit), next = down(from, unit);
  if (to <= arena->solid) return RP_OK;
  if (to > arena->reserved || end > arena->reserved)
    return rp_fail(RP_NOMEM, "growing a zone of %s to %zu bytes: only %zu bytes of addresses were granted",
                   arena->device->name, to, arena->reserved);
  for (size_t i = 0; next < end; i++) {
    bool last = i == arena->chunk_count;
    if (!last && arena->chunks[i].to <= next) continue;
    size_t stop = last || arena->chunks[i].from > end ? end : arena->chunks[i].from;
    if (next < stop) {
      RP_TRY(map(arena, i, next, stop));
      next = stop;
    } else {
      next = arena->chunks[i].to;
    }
  }
  return RP_OK;
}

size_t rp_arena_missing(const rp_arena *arena, size_t from, size_t to) {
  if (to <= arena->solid) return 0;
  size_t unit = arena->device->granularity, start = down(from, unit), end = up(to, unit),
         missing = end - start;
  for (size_t i = 0; i < arena->chunk_count; i++) {
    size_t low = arena->chunks[i].from > start ? arena->chunks[i].from : start;
    size_t high = arena->chunks[i].to < end ? arena->chunks[i].to : end;
    if (low < high) missing -= high - low;
  }
  return missing;
}

static rp_status unmap(rp_arena *arena, size_t at) {
  rp_chunk *chunk = arena->chunks + at;
  size_t bytes = chunk->to - chunk->from;
  RP_TRY(arena->device->ops->decommit(arena->device, arena->base + chunk->from, bytes));
  if (chunk->from < arena->solid) arena->solid = chunk->from;
  memmove(chunk, chunk + 1, (--arena->chunk_count - at) * sizeof *chunk);
  arena->committed -= bytes;
  return RP_OK;
}

rp_status rp_arena_decommit(rp_arena *arena, size_t from, size_t to) {
  for (size_t i = arena->chunk_count; i-- > 0;)
    if (arena->chunks[i].from >= from && arena->chunks[i].to <= to) RP_TRY(unmap(arena, i));
  return RP_OK;
}

void rp_arena_close(rp_arena *arena) {
  if (!arena->reserved) return;
  while (arena->chunk_count && unmap(arena, arena->chunk_count - 1) == RP_OK) continue;
  arena->device->ops->release(arena->device, arena->base, arena->reserved);
  rp_free(arena->chunks);
  *arena = (rp_arena){.device = arena->device};
}
