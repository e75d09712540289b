/* history.c - see history.h. */
#include "history.h"

#include <string.h>
#include <time.h>

#include "mem.h"
#include "portrait.h"

/* ---- time */

static double host_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double rp_history_now(const rp_history *h) { return host_clock() - h->began; }

rp_status rp_history_stamp(rp_history *h, uint32_t index) {
  rp_device *dev = h->pool->device;
  if (dev->ops->stamp) return dev->ops->stamp(dev, index);
  if (!rp_grow(&h->row, &h->row_room, (size_t)index + 1, sizeof *h->row)) return RP_NOMEM;
  h->row[index] = host_clock();
  return RP_OK;
}

rp_status rp_history_stamps(rp_history *h, uint32_t count, const double **out) {
  rp_device *dev = h->pool->device;
  if (!rp_grow(&h->row, &h->row_room, count, sizeof *h->row)) return RP_NOMEM;
  if (dev->ops->stamps) RP_TRY(dev->ops->stamps(dev, count, h->row));
  for (uint32_t i = 0; i < count; i++) h->row[i] -= h->began;
  *out = h->row;
  return RP_OK;
}

/* ---- beginning and ending */

rp_status rp_history_start(rp_pool *pool, bool timed, rp_history **out) {
  static uint32_t serial; /* of this process; graphs compare it */
  if (pool->history)
    return rp_fail(RP_ARGUMENT, "recording the pool of %s: it is being recorded already", pool->device->name);
  rp_history *h = rp_alloc_zero(1, sizeof *h);
  if (!h) return RP_NOMEM;
  *h = (rp_history){.pool = rp_pool_retain(pool), .timed = timed, .stride = 1, .began = host_clock()};
  h->serial = __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
  pool->history = h;
  if (!pool->device->history) pool->device->history = h;
  rp_history_change(h);
  *out = h;
  return RP_OK;
}

void rp_history_stop(rp_history *h) {
  if (h->ended > 0) return;
  rp_history_change(h);
  h->ended = rp_history_now(h);
  h->pool->history = NULL;
  if (h->pool->device->history == h) h->pool->device->history = NULL;
}

void rp_history_free(rp_history *h) {
  if (!h) return;
  rp_history_stop(h);
  for (size_t i = 0; i < h->portrait_count; i++) rp_portrait_free(h->portraits + i);
  for (size_t i = 0; i < h->name_count; i++) rp_free(h->names[i]);
  rp_free(h->moments);
  rp_free(h->spans);
  rp_free(h->slices);
  rp_free(h->portraits);
  rp_free(h->names);
  rp_free(h->row);
  rp_pool_release(h->pool);
  rp_free(h);
}

uint32_t rp_history_name(rp_history *h, const char *name) {
  for (size_t i = 0; i < h->name_count; i++)
    if (strcmp(h->names[i], name) == 0) return (uint32_t)i;
  bool room = rp_grow(&h->names, &h->name_room, h->name_count + 1, sizeof *h->names);
  char *copy = room ? rp_copy_text(name) : NULL;
  if (!copy) return h->torn = true, RP_NOBODY;
  h->names[h->name_count] = copy;
  return (uint32_t)h->name_count++;
}

/* ---- moments */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* The later moment goes into the earlier one. */
static void merge_moments(rp_moment *into, const rp_moment *later) {
  for (int z = 0; z < RP_ZONES; z++) {
    into->allocated[z] = larger(into->allocated[z], later->allocated[z]);
    into->reserved[z] = larger(into->reserved[z], later->reserved[z]);
  }
  into->changes += later->changes;
}

static void halve_moments(rp_history *h) {
  size_t kept = 0;
  for (size_t i = 0; i < h->moment_count; i += 2) {
    rp_moment moment = h->moments[i];
    if (i + 1 < h->moment_count) merge_moments(&moment, h->moments + i + 1);
    h->moments[kept++] = moment;
  }
  h->moment_count = kept;
  h->stride *= 2;
}

static rp_moment present(const rp_history *h) {
  rp_moment moment = {.at = rp_history_now(h), .changes = 1};
  for (int z = 0; z < RP_ZONES; z++) {
    moment.allocated[z] = h->pool->allocated[z];
    moment.reserved[z] = h->pool->arenas[z].committed;
  }
  return moment;
}

void rp_history_change(rp_history *h) {
  rp_moment moment = present(h), *newest = h->moment_count ? h->moments + h->moment_count - 1 : NULL;
  h->changes++;
  if (newest && newest->changes < h->stride) return merge_moments(newest, &moment);
  if (newest && h->moment_count == RP_MOST_MOMENTS) halve_moments(h);
  if (!rp_grow(&h->moments, &h->moment_room, h->moment_count + 1, sizeof moment))
    return (void)(h->torn = true);
  h->moments[h->moment_count++] = moment;
}

/* ---- spans */

/* Merges neighbours that lie at most `gap` seconds apart. */
static void merge_spans(rp_history *h, double gap) {
  size_t kept = 0;
  for (size_t i = 1; i < h->span_count; i++) {
    rp_span *span = h->spans + kept, *later = h->spans + i;
    if (later->from - span->to > gap) {
      h->spans[++kept] = *later;
      continue;
    }
    if (span->graph != later->graph) span->graph = RP_NOBODY;
    span->replays += later->replays;
    span->to = later->to;
  }
  h->span_count = kept + 1;
}

/* Makes half of the room free. The gap doubles until it does. */
static void thin_spans(rp_history *h) {
  for (double gap = 1e-6; h->span_count > RP_MOST_SPANS / 2; gap *= 2) merge_spans(h, gap);
}

void rp_history_replay(rp_history *h, uint32_t graph, double from, double to) {
  h->replays++;
  if (graph != RP_NOBODY) h->portraits[graph].replays++;
  if (h->span_count == RP_MOST_SPANS) thin_spans(h);
  if (!rp_grow(&h->spans, &h->span_room, h->span_count + 1, sizeof *h->spans)) return (void)(h->torn = true);
  h->spans[h->span_count++] = (rp_span){from, to, graph, 1};
}

/* ---- slices */

void rp_history_slice(rp_history *h, rp_slice slice) {
  h->launches++;
  if (h->slice_count == RP_MOST_SLICES || slice.name == RP_NOBODY) return;
  if (!rp_grow(&h->slices, &h->slice_room, h->slice_count + 1, sizeof slice)) return (void)(h->torn = true);
  h->slices[h->slice_count++] = slice;
}

rp_status rp_history_launch(rp_history *h, const rp_launch *launch) {
  rp_device *dev = h->pool->device;
  const double *times;
  if (!h->timed || h->slice_count == RP_MOST_SLICES) return h->launches++, dev->ops->launch(dev, launch);
  RP_TRY(rp_history_stamp(h, 0));
  RP_TRY(dev->ops->launch(dev, launch));
  RP_TRY(rp_history_stamp(h, 1));
  RP_TRY(rp_history_stamps(h, 2, &times));
  uint32_t name = rp_history_name(h, launch->signature->name);
  rp_history_slice(h, (rp_slice){times[0], times[1], name, RP_NOBODY, RP_NOBODY});
  return RP_OK;
}
