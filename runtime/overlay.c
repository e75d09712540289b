/* overlay.c - see overlay.h. */
#include "overlay.h"

#include "mem.h"

rp_status rp_origin_new(const char *name, rp_origin **out) {
  rp_origin *origin = rp_alloc_zero(1, sizeof *origin);
  if (!origin) return RP_NOMEM;
  origin->count = 1;
  if (!(origin->name = rp_copy_text(name))) return rp_free(origin), RP_NOMEM;
  *out = origin;
  return RP_OK;
}

rp_origin *rp_origin_retain(rp_origin *origin) {
  origin->count++;
  return origin;
}

void rp_origin_release(rp_origin *origin) {
  if (!origin || --origin->count) return;
  rp_free(origin->name);
  rp_free(origin);
}

rp_status rp_overlay_reserve(rp_overlay *overlay) {
  return rp_grow(&overlay->covers, &overlay->room, overlay->count + 1, sizeof *overlay->covers) ? RP_OK
                                                                                                : RP_NOMEM;
}

void rp_overlay_cover(rp_overlay *overlay, uint64_t clock, size_t peak, rp_origin *origin) {
  while (overlay->count && overlay->covers[overlay->count - 1].peak <= peak)
    rp_origin_release(overlay->covers[--overlay->count].origin);
  overlay->covers[overlay->count++] = (rp_cover){clock, origin->replays, peak, rp_origin_retain(origin)};
}

const rp_cover *rp_overlay_find(const rp_overlay *overlay, uint64_t clock, size_t offset) {
  for (size_t i = 0; i < overlay->count; i++) {
    const rp_cover *cover = overlay->covers + i;
    if (cover->clock > clock) return cover->peak > offset ? cover : NULL; /* the highest of those since */
  }
  return NULL;
}

void rp_overlay_close(rp_overlay *overlay) {
  while (overlay->count) rp_origin_release(overlay->covers[--overlay->count].origin);
  rp_free(overlay->covers);
  *overlay = (rp_overlay){0};
}
