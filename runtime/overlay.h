/* overlay.h - which bytes of scratch hold what: all graphs of a pool lie over each other, so a replay overwrites outputs.
 *
 *   peak  ^
 *         |#            an entry a replay that reached higher than all later ones:
 *         |#   #        clocks rise, peaks fall; a new replay drops those it reaches over
 *         |#   #  #
 *         +-----------> clock
 *
 * An output at `offset`, made at `clock`, is stale once a later replay reached above `offset`.
 */
#ifndef RP_OVERLAY_H
#define RP_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct rp_origin { /* the graph that an output came from; outlives the graph while handles do */
  char *name;              /* owned */
  uint64_t replays;
  bool closed;
  uint32_t count, outputs; /* holders; blocks in scratch among them */
  size_t kept;             /* bytes of scratch that outlive the graph, for its outputs */
} rp_origin;

typedef struct rp_cover { /* one replay */
  uint64_t clock, replay;
  size_t peak;
  rp_origin *origin; /* counted */
} rp_cover;

typedef struct rp_overlay {
  rp_cover *covers;
  size_t count, room;
} rp_overlay;

rp_status rp_origin_new(const char *name, rp_origin **out);
rp_origin *rp_origin_retain(rp_origin *origin);
void rp_origin_release(rp_origin *origin); /* takes NULL */

/* Makes room, so that rp_overlay_cover cannot fail. */
rp_status rp_overlay_reserve(rp_overlay *overlay);
void rp_overlay_cover(rp_overlay *overlay, uint64_t clock, size_t peak, rp_origin *origin);
/* The replay that overwrote bytes from `offset` up since `clock`; NULL: none. */
const rp_cover *rp_overlay_find(const rp_overlay *overlay, uint64_t clock, size_t offset);
void rp_overlay_close(rp_overlay *overlay);

#endif
