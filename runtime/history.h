/* history.h - what happened in a pool while it was being recorded: for the page and the timeline made of it.
 *
 *   moments    the pool's figures whenever they changed      |
 *   spans      replays, from when to when, of which graph    |  bounded: a long run grows coarser, not longer
 *   slices     launches of kernels, where they are timed     |
 *   portraits  every graph that was alive: portrait.h
 *
 * When a list is full, neighbours are merged: of moments the highest figures stay, so peaks are kept whatever
 * is lost. Recording changes nothing else, but timed histories replay graphs node by node. Times are in seconds
 * since the history began. Owner: whoever started it; it holds one count on its pool, which points back while
 * it records.
 */
#ifndef RP_HISTORY_H
#define RP_HISTORY_H

#include "pool.h"

typedef struct rp_portrait rp_portrait; /* portrait.h */

enum { RP_MOST_MOMENTS = 16384, RP_MOST_SPANS = 16384, RP_MOST_SLICES = 32768 };
#define RP_NOBODY UINT32_MAX

typedef struct rp_moment {                        /* one or more changes of the pool's figures */
  double at;                                      /* of the first of them */
  size_t allocated[RP_ZONES], reserved[RP_ZONES]; /* bytes, the most of any */
  uint32_t changes;
} rp_moment;

typedef struct rp_span { /* one or more replays in a row */
  double from, to;
  uint32_t graph, replays; /* graph: index of its portrait; NOBODY: of several */
} rp_span;

typedef struct rp_slice { /* one launch */
  double from, to;
  uint32_t name;        /* index in `names`: of the kernel */
  uint32_t graph, node; /* NOBODY: not of a graph */
} rp_slice;

typedef struct rp_history {
  rp_pool *pool;   /* counted */
  double began;    /* of the host's clock */
  double ended;    /* since then; 0: it still records */
  bool timed;      /* kernels are timed, one by one */
  bool torn;       /* there was no host memory for all of it */
  uint32_t serial; /* never 0: graphs remember in which history they are */
  rp_moment *moments;
  rp_span *spans;
  rp_slice *slices;
  rp_portrait *portraits;
  char **names;
  size_t moment_count, moment_room, span_count, span_room, slice_count, slice_room;
  size_t portrait_count, portrait_room, name_count, name_room;
  uint32_t stride;                     /* changes a moment holds by now */
  uint64_t changes, replays, launches; /* in all, also those that were merged or left out */
  double *row;                         /* stamps of a device that ends every operation before it returns */
  size_t row_room;
} rp_history;

/* Begins to record the pool; RP_ARGUMENT when it is being recorded already. */
rp_status rp_history_start(rp_pool *pool, bool timed, rp_history **out);
void rp_history_stop(rp_history *h); /* what was recorded stays; twice is safe */
void rp_history_free(rp_history *h); /* stops; takes NULL */

double rp_history_now(const rp_history *h);
/* None of these fails: without host memory the history is torn, and the work goes on. */
void rp_history_change(rp_history *h); /* the pool's figures are others now */
void rp_history_replay(rp_history *h, uint32_t graph, double from, double to);
void rp_history_slice(rp_history *h, rp_slice slice); /* left out when there is no room */
/* The index of a name in `names`; NOBODY without host memory. */
uint32_t rp_history_name(rp_history *h, const char *name);

/* Stamp number `index` of a row: when all that was enqueued so far has ended (see rp_device_ops.stamp). */
rp_status rp_history_stamp(rp_history *h, uint32_t index);
/* Waits, and gives the row's first `count` times. The array is the history's until the next stamp. */
rp_status rp_history_stamps(rp_history *h, uint32_t count, const double **out);
/* Launches now; in a timed history its time is noted. */
rp_status rp_history_launch(rp_history *h, const rp_launch *launch);

#endif
