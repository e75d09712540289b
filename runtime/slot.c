/* slot.c - see slot.h. */
#include "slot.h"

#include <string.h>

#include "mem.h"

static rp_status widen(rp_pool *pool, size_t index) {
  if (!rp_grow(&pool->slots, &pool->slot_room, index + 1, sizeof *pool->slots)) return RP_NOMEM;
  while (pool->slot_count <= index) pool->slots[pool->slot_count++] = NULL;
  return RP_OK;
}

static rp_status make_place(rp_pool *pool, size_t bytes, rp_block **out) {
  rp_block *place;
  RP_TRY(rp_pool_slot_block(pool, bytes, &place));
  place->tag = rp_alloc_zero(1, sizeof *place->tag);
  if (!place->tag) return rp_block_release(place), RP_NOMEM;
  *out = place;
  return RP_OK;
}

/* Bytes that a place can hold: memory of its own ends where it was asked to. */
static size_t room_of(const rp_block *place) { return place->apart ? place->bytes : place->extent->bytes; }

rp_status rp_slot_take(rp_pool *pool, size_t index, size_t bytes, size_t reserve, rp_block **out) {
  RP_TRY(widen(pool, index));
  rp_block *present = pool->slots[index];
  if (!present || room_of(present) < bytes) {
    size_t want = bytes > reserve ? bytes : reserve;
    if (present && want < 2 * room_of(present)) want = 2 * room_of(present);
    rp_block *wider;
    RP_TRY(make_place(pool, want, &wider));
    pool->slots[index] = wider;
    rp_block_release(present);
  }
  *out = rp_block_retain(pool->slots[index]);
  return RP_OK;
}

rp_block *rp_slot_moved(const rp_pool *pool, size_t index, const rp_block *block, size_t bytes) {
  rp_block *present = index < pool->slot_count ? pool->slots[index] : NULL;
  return present && present != block && room_of(present) >= bytes ? present : NULL;
}

static const rp_block *memory_of(const rp_tensor *x) { return x->block->base ? x->block->base : x->block; }

bool rp_slot_holds(const rp_block *place, const rp_tensor *x) {
  const rp_tag *tag = place->tag;
  const rp_block *from = memory_of(x);
  size_t dims = (size_t)x->rank * sizeof *x->shape;
  return tag->id == from->id && tag->stamp == from->stamp && tag->offset == x->offset &&
         tag->dtype == x->dtype && tag->rank == x->rank && memcmp(tag->shape, x->shape, dims) == 0 &&
         memcmp(tag->stride, x->stride, dims) == 0;
}

void rp_slot_note(rp_block *place, const rp_tensor *x) {
  rp_tag *tag = place->tag;
  const rp_block *from = memory_of(x);
  *tag =
      (rp_tag){.id = from->id, .stamp = from->stamp, .offset = x->offset, .dtype = x->dtype, .rank = x->rank};
  memcpy(tag->shape, x->shape, sizeof tag->shape);
  memcpy(tag->stride, x->stride, sizeof tag->stride);
}

void rp_slot_forget(rp_block *place) { place->tag->id = 0; }
