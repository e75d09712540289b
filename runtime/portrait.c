/* portrait.c - see portrait.h. */
#include "portrait.h"

#include "mem.h"

enum { TIMED_ALWAYS = 4 }; /* replays of a graph that are timed even when there is no room for more slices */

/* ---- drawing */

static bool planned(const rp_value *value) {
  return value->place == RP_IN_SCRATCH && value->first != RP_NONE;
}

static rp_life life_of(const rp_graph *g, const rp_value *value) {
  uint32_t end = (uint32_t)g->record->node_count - 1;
  size_t bytes = value->bytes ? value->bytes : 1;
  return (rp_life){.bytes = (bytes + RP_ALIGN - 1) / RP_ALIGN * RP_ALIGN,
                   .offset = value->offset,
                   .first = value->first,
                   .last = value->output ? end : value->last,
                   .output = value->output};
}

static void sum_up(const rp_graph *g, rp_portrait *p) {
  for (size_t i = 0; i < g->record->value_count; i++) {
    const rp_value *value = g->record->values + i;
    if (!planned(value)) continue;
    p->apart += life_of(g, value).bytes;
    p->outputs += value->output;
    p->life_count++;
  }
  for (size_t i = 0; i < g->input_count; i++) p->inputs += rp_tensor_bytes(g->inputs + i);
}

static rp_sitter sitter_of(rp_history *h, const rp_graph *g, const rp_node *node) {
  rp_sitter s = {
      .kernel = rp_history_name(h, node->kernel->signature->name), .grid = node->grid, .block = node->block};
  s.where = node->where ? rp_history_name(h, node->where) : RP_NOBODY;
  for (size_t i = 0; i < node->kernel->signature->count; i++) {
    const rp_arg *arg = g->record->args + node->first_arg + i;
    if (arg->kind != RP_POINTER || arg->value == RP_NONE) continue;
    *(arg->access & RP_WRITE ? &s.writes : &s.reads) += arg->to - arg->from;
  }
  return s;
}

/* Lives and nodes; false without host memory. */
static bool draw_in_full(rp_history *h, const rp_graph *g, rp_portrait *p) {
  size_t at = 0;
  p->lives = rp_alloc(p->life_count * sizeof *p->lives + 1);
  p->nodes = rp_alloc(p->node_count * sizeof *p->nodes);
  if (!p->lives || !p->nodes) return false;
  for (size_t i = 0; i < g->record->value_count; i++)
    if (planned(g->record->values + i)) p->lives[at++] = life_of(g, g->record->values + i);
  for (size_t i = 0; i < p->node_count; i++) p->nodes[i] = sitter_of(h, g, g->record->nodes + i);
  return true;
}

void rp_portrait_free(rp_portrait *p) {
  rp_free(p->lives);
  rp_free(p->nodes);
  p->lives = NULL, p->nodes = NULL;
}

static uint32_t draw(rp_history *h, const rp_graph *g) {
  if (!rp_grow(&h->portraits, &h->portrait_room, h->portrait_count + 1, sizeof *h->portraits))
    return h->torn = true, RP_NOBODY;
  rp_portrait *p = h->portraits + h->portrait_count;
  *p = (rp_portrait){.name = rp_history_name(h, g->name),
                     .made = rp_history_now(h),
                     .plan = g->plan,
                     .node_count = g->record->node_count};
  sum_up(g, p);
  if (h->portrait_count < RP_DETAILED && !draw_in_full(h, g, p)) rp_portrait_free(p), h->torn = true;
  return (uint32_t)h->portrait_count++;
}

uint32_t rp_portrait_of(rp_graph *g) {
  rp_history *h = g->pool->history;
  if (g->history != h->serial) g->portrait = draw(h, g), g->history = h->serial;
  return g->portrait;
}

void rp_portrait_end(const rp_graph *g) {
  rp_history *h = g->pool->history;
  if (g->history != h->serial || g->portrait == RP_NOBODY) return;
  rp_portrait *p = h->portraits + g->portrait;
  if (!(p->closed > 0)) p->closed = rp_history_now(h);
}

/* ---- replaying */

static rp_status launch_node(rp_graph *g, size_t index) {
  uint64_t cells[RP_MOST_PARAMETERS];
  void *args[RP_MOST_PARAMETERS];
  rp_launch launch = rp_graph_launch(g, g->record->nodes + index, cells, args);
  return g->pool->device->ops->launch(g->pool->device, &launch);
}

static void note_node(rp_history *h, uint32_t graph, uint32_t node, double from, double to) {
  rp_sitter *s = h->portraits[graph].nodes + node;
  if (!s->timed || to - from < s->least) s->least = to - from;
  s->seconds += to - from;
  s->timed++;
  rp_history_slice(h, (rp_slice){from, to, s->kernel, graph, node});
}

/* Node by node, in the order of the record, which keeps every edge. */
static rp_status replay_timed(rp_history *h, rp_graph *g, uint32_t graph) {
  uint32_t count = (uint32_t)g->record->node_count;
  const double *at;
  RP_TRY(rp_history_stamp(h, 0));
  for (uint32_t i = 0; i < count; i++) {
    RP_TRY(launch_node(g, i));
    RP_TRY(rp_history_stamp(h, i + 1));
  }
  RP_TRY(rp_history_stamps(h, count + 1, &at));
  for (uint32_t i = 0; i < count; i++) note_node(h, graph, i, at[i], at[i + 1]);
  rp_history_replay(h, graph, at[0], at[count]);
  return RP_OK;
}

static rp_status replay_whole(rp_history *h, rp_graph *g, uint32_t graph) {
  rp_device *dev = g->pool->device;
  double from = rp_history_now(h);
  rp_status status = dev->ops->exec_launch(dev, g->exec);
  rp_history_replay(h, graph, from, rp_history_now(h));
  return status;
}

/* Is there room for slices, or has the graph hardly been timed yet? */
static bool wants_times(const rp_history *h, uint32_t graph) {
  if (!h->timed || graph == RP_NOBODY || !h->portraits[graph].nodes) return false;
  const rp_portrait *p = h->portraits + graph;
  return h->slice_count + p->node_count <= RP_MOST_SLICES || p->nodes[0].timed < TIMED_ALWAYS;
}

rp_status rp_portrait_replay(rp_graph *g) {
  rp_history *h = g->pool->history;
  uint32_t graph = rp_portrait_of(g);
  return wants_times(h, graph) ? replay_timed(h, g, graph) : replay_whole(h, g, graph);
}
