/* graph.c - see graph.h. */
#include "graph.h"

#include <string.h>

#include "copy.h"
#include "early.h"
#include "mem.h"
#include "portrait.h"
#include "slot.h"

/* ---- planning */

static size_t scratch_values(const rp_record *rec) {
  size_t n = 0;
  for (size_t i = 0; i < rec->value_count; i++)
    n += rec->values[i].place == RP_IN_SCRATCH && rec->values[i].first != RP_NONE;
  return n;
}

static rp_life life_of(const rp_record *rec, const rp_value *value) {
  uint32_t end = (uint32_t)rec->node_count - 1;
  return (rp_life){.bytes = value->bytes ? value->bytes : 1,
                   .first = value->first,
                   .last = value->output ? end : value->last,
                   .output = value->output};
}

static rp_status plan(rp_graph *g) {
  rp_record *rec = g->record;
  size_t count = scratch_values(rec), at = 0;
  rp_life *lives = rp_alloc(count * sizeof *lives);
  if (!lives) return RP_NOMEM;
  for (size_t i = 0; i < rec->value_count; i++)
    if (rec->values[i].place == RP_IN_SCRATCH && rec->values[i].first != RP_NONE)
      lives[at++] = life_of(rec, rec->values + i);
  rp_status status = rp_plan_pack(lives, count, RP_PLAN_TRIES, &g->plan);
  at = 0;
  for (size_t i = 0; i < rec->value_count && status == RP_OK; i++)
    if (rec->values[i].place == RP_IN_SCRATCH && rec->values[i].first != RP_NONE)
      rec->values[i].offset = lives[at++].offset;
  rp_free(lives);
  for (size_t i = 0; i < rec->value_count && status == RP_OK; i++)
    if (rec->values[i].place == RP_IN_SCRATCH) status = rp_pool_part(rec->values[i].block);
  if (status == RP_OK) status = rp_pool_plan(g->pool, g->plan.peak);
  g->planned = status == RP_OK;
  return status;
}

/* ---- addresses and arguments */

/* As planned: the same with and without REPRISE_POOL=off. */
static uintptr_t planned_address(const rp_graph *g, const rp_value *value) {
  switch (value->place) {
    case RP_IN_BLOCK: return rp_block_address(value->block);
    case RP_IN_SLOT:
      return g->input_count > value->input && g->inputs[value->input].block
                 ? rp_tensor_address(g->inputs + value->input)
                 : 0;
    default: return g->pool->arenas[RP_SCRATCH].base + value->offset;
  }
}

static uintptr_t address(const rp_graph *g, const rp_arg *arg) {
  const rp_value *value = g->record->values + arg->value;
  bool apart = value->place == RP_IN_SCRATCH && value->block->apart;
  return arg->from + (apart ? rp_apart_address(value->block->apart) : planned_address(g, value));
}

void rp_graph_range(const rp_graph *g, const rp_arg *arg, uintptr_t *from, uintptr_t *to) {
  uintptr_t base = planned_address(g, g->record->values + arg->value);
  *from = base + arg->from;
  *to = base + arg->to;
}

rp_launch rp_graph_launch(const rp_graph *g, const rp_node *node, uint64_t *cells, void **args) {
  const rp_arg *arg = g->record->args + node->first_arg;
  size_t bytes = 0;
  for (size_t i = 0; i < node->kernel->signature->count; i++, arg++) {
    uintptr_t from = arg->value == RP_NONE ? 0 : address(g, arg);
    if (arg->value != RP_NONE) bytes += arg->to - arg->from;
    const void *bits = arg->kind == RP_POINTER ? (const void *)&from
                       : arg->kind == RP_PARAM ? (const void *)arg->param->value
                                               : arg->scalar;
    memcpy(cells + i, bits, sizeof *cells);
    args[i] = cells + i;
  }
  return (rp_launch){.function = node->kernel->function,
                     .signature = node->kernel->signature,
                     .grid = node->grid,
                     .block = node->block,
                     .cluster = node->cluster,
                     .shared = node->shared,
                     .cooperative = node->cooperative,
                     .args = args,
                     .bytes = bytes};
}

static rp_status build(rp_graph *g, bool parallel) {
  const rp_record *rec = g->record;
  if (parallel) RP_TRY(rp_graph_edges(g));
  rp_launch *nodes =
      rp_alloc(rec->node_count * sizeof *nodes + rec->arg_count * (sizeof(uint64_t) + sizeof(void *)));
  if (!nodes) return RP_NOMEM;
  uint64_t *cells = (uint64_t *)(void *)(nodes + rec->node_count);
  void **args = (void **)(void *)(cells + rec->arg_count);
  for (size_t i = 0; i < rec->node_count; i++) {
    size_t at = rec->nodes[i].first_arg;
    nodes[i] = rp_graph_launch(g, rec->nodes + i, cells + at, args + at);
  }
  rp_status status = parallel ? RP_OK : rp_early_mark(rec, nodes);
  if (status != RP_OK) return rp_free(nodes), status;
  rp_device *dev = g->pool->device;
  static const rp_edge none;
  const rp_edge *edges = !parallel ? NULL : g->edges ? g->edges : &none;
  status = dev->ops->exec_build(dev, nodes, rec->node_count, edges, parallel ? g->edge_count : 0, &g->exec);
  rp_free(nodes);
  if (status != RP_OK) return status;
  g->driver_bytes = dev->ops->exec_bytes ? dev->ops->exec_bytes(g->exec) : 0;
  g->pool->executables += g->driver_bytes;
  return RP_OK;
}

void rp_graph_note_params(rp_graph *g) {
  g->param_count = 0;
  for (size_t i = 0; i < g->record->arg_count; i++)
    if (g->record->args[i].kind == RP_PARAM)
      g->param_versions[i] = g->record->args[i].param->version, g->param_count++;
}

/* ---- making */

static rp_status take_slots(rp_graph *g, const rp_graph_options *o) {
  size_t count = g->record->input_count;
  g->inputs = rp_alloc_zero(count, sizeof *g->inputs);
  if (!g->inputs) return RP_NOMEM;
  for (size_t i = 0; i < count; i++) {
    rp_tensor slot = g->record->inputs[i];
    size_t reserve = i < o->reserve_count ? o->reserve[i] : 0;
    RP_TRY(rp_slot_take(g->pool, i, rp_tensor_bytes(&slot), reserve, &slot.block));
    g->inputs[i] = slot;
    g->input_count = i + 1;
  }
  return RP_OK;
}

/* Outputs of its own lie in blocks of the tensors zone, from here on like tensors from outside. */
static rp_status own_output(rp_graph *g, rp_value *value) {
  rp_block *memory;
  RP_TRY(rp_pool_take(g->pool, value->bytes, &memory));
  rp_block_release(value->block);
  value->block = memory;
  value->place = RP_IN_BLOCK;
  return RP_OK;
}

static rp_status own_outputs(rp_graph *g) {
  for (size_t i = 0; i < g->record->value_count; i++)
    if (g->record->values[i].output && g->record->values[i].place == RP_IN_SCRATCH)
      RP_TRY(own_output(g, g->record->values + i));
  return RP_OK;
}

/* Once for all replays: a record has many arguments, and few blocks that change. */
static rp_status note_changes(rp_graph *g) {
  const rp_record *rec = g->record;
  g->changed = rp_alloc(rec->value_count * sizeof *g->changed);
  if (!g->changed) return RP_NOMEM;
  for (uint32_t i = 0; i < rec->value_count; i++)
    if (rec->values[i].changed && rec->values[i].place == RP_IN_BLOCK) g->changed[g->changed_count++] = i;
  return RP_OK;
}

static rp_status fill_in(rp_graph *g, const rp_graph_options *o) {
  RP_TRY(rp_origin_new(o->name ? o->name : "graph", &g->origin));
  g->name = g->origin->name;
  g->mode = o->mode;
  g->parallel = o->parallel;
  if (g->record->node_count == 0)
    return rp_fail(RP_CAPTURING, "capturing %s: the function launched nothing, so there is no graph",
                   g->name);
  g->param_versions = rp_alloc_zero(g->record->arg_count, sizeof *g->param_versions);
  if (!g->param_versions) return RP_NOMEM;
  if (g->mode == RP_OWN) RP_TRY(own_outputs(g));
  RP_TRY(note_changes(g));
  RP_TRY(plan(g));
  RP_TRY(take_slots(g, o));
  RP_TRY(build(g, o->parallel));
  rp_graph_note_params(g);
  return RP_OK;
}

rp_status rp_graph_make(rp_record *rec, const rp_graph_options *options, rp_graph **out) {
  rp_record_close(rec);
  rp_graph *g = rp_alloc_zero(1, sizeof *g);
  if (!g) return rp_record_free(rec), RP_NOMEM;
  *g = (rp_graph){.pool = rp_pool_retain(rec->pool), .record = rec, .count = 1};
  rp_status status = fill_in(g, options);
  if (status != RP_OK) return rp_graph_release(g), status;
  if (g->pool->history) rp_portrait_of(g);
  *out = g;
  return RP_OK;
}

rp_graph *rp_graph_retain(rp_graph *g) {
  g->count++;
  return g;
}

/* Gives back all but the plan. */
static void dismantle(rp_graph *g) {
  if (g->pool->history) rp_portrait_end(g);
  if (g->exec) g->pool->device->ops->exec_free(g->pool->device, g->exec);
  g->pool->executables -= g->driver_bytes;
  for (size_t i = 0; i < g->input_count; i++) rp_tensor_close(&g->inputs[i]);
  g->exec = NULL;
  g->driver_bytes = 0;
  g->closed = true;
}

void rp_graph_close(rp_graph *g) {
  dismantle(g);
  if (g->planned) rp_pool_unplan(g->pool, g->plan.peak);
  if (g->origin) g->origin->closed = true;
  g->planned = false;
}

void rp_graph_release(rp_graph *g) {
  if (!g || --g->count) return;
  dismantle(g);
  if (g->planned) rp_pool_keep_plan(g->pool, g->plan.peak, g->origin);
  rp_record_free(g->record);
  rp_free(g->inputs);
  rp_free(g->edges);
  rp_free(g->param_versions);
  rp_free(g->changed);
  rp_origin_release(g->origin);
  rp_pool_release(g->pool);
  rp_free(g);
}

/* ---- replaying */

bool rp_graph_fits(const rp_graph *g, const rp_tensor *const *inputs, size_t count) {
  if (count != g->input_count) return false;
  for (size_t i = 0; i < count; i++)
    if (inputs[i]->dtype != g->inputs[i].dtype || !rp_tensor_same_shape(inputs[i], g->inputs + i))
      return false;
  return true;
}

rp_status rp_graph_set_node(rp_graph *g, size_t index) {
  const rp_node *node = g->record->nodes + index;
  uint64_t cells[RP_MOST_PARAMETERS];
  void *args[RP_MOST_PARAMETERS];
  rp_launch launch = rp_graph_launch(g, node, cells, args);
  return g->pool->device->ops->exec_set(g->pool->device, g->exec, index, &launch);
}

/* Hands the device the node again if one of its parameters was set since. */
static rp_status set_params(rp_graph *g, size_t index) {
  const rp_node *node = g->record->nodes + index;
  const rp_arg *args = g->record->args + node->first_arg;
  uint64_t *versions = g->param_versions + node->first_arg;
  size_t count = node->kernel->signature->count;
  bool changed = false;
  for (size_t i = 0; i < count; i++)
    changed |= args[i].kind == RP_PARAM && args[i].param->version != versions[i];
  if (!changed) return RP_OK;
  RP_TRY(rp_graph_set_node(g, index));
  for (size_t i = 0; i < count; i++)
    if (args[i].kind == RP_PARAM) versions[i] = args[i].param->version;
  return RP_OK;
}

static rp_status update_params(rp_graph *g) {
  for (size_t i = 0; i < g->record->node_count; i++) RP_TRY(set_params(g, i));
  return RP_OK;
}

static bool reads_input(const rp_graph *g, const rp_node *node, size_t input) {
  for (size_t i = 0; i < node->kernel->signature->count; i++) {
    uint32_t value = g->record->args[node->first_arg + i].value;
    if (value != RP_NONE && g->record->values[value].place == RP_IN_SLOT &&
        g->record->values[value].input == input)
      return true;
  }
  return false;
}

static rp_status patch_input(rp_graph *g, size_t input, rp_block *place) {
  rp_block_release(g->inputs[input].block);
  g->inputs[input].block = rp_block_retain(place);
  for (size_t i = 0; i < g->record->node_count; i++)
    if (reads_input(g, g->record->nodes + i, input)) RP_TRY(rp_graph_set_node(g, i));
  return RP_OK;
}

/* Follows places that grew since the graph was built. Half patched it would be wrong: on failure it is closed. */
static rp_status follow_slots(rp_graph *g) {
  for (size_t i = 0; i < g->input_count; i++) {
    rp_block *place = rp_slot_moved(g->pool, i, g->inputs[i].block, rp_tensor_bytes(g->inputs + i));
    rp_status status = place ? patch_input(g, i, place) : RP_OK;
    if (status != RP_OK) return rp_graph_close(g), status;
  }
  return RP_OK;
}

/* Copies the inputs that are not in their places already. */
static rp_status fill_slots(rp_graph *g, const rp_tensor *const *inputs) {
  rp_tensor to[RP_MOST_INPUTS];
  const rp_tensor *from[RP_MOST_INPUTS];
  size_t count = 0, copied = 0, skipped = 0;
  for (size_t i = 0; i < g->input_count; i++) {
    size_t bytes = rp_tensor_bytes(inputs[i]);
    bool holds = rp_slot_holds(g->inputs[i].block, inputs[i]);
    if (holds) skipped += bytes;
    else copied += bytes, to[count] = g->inputs[i], from[count++] = inputs[i];
  }
  rp_status status = rp_tensor_copy_all(to, from, count);
  if (status != RP_OK) { /* some places hold new bytes, and nobody knows which */
    for (size_t i = 0; i < g->input_count; i++) rp_slot_forget(g->inputs[i].block);
    return status;
  }
  for (size_t i = 0; i < g->input_count; i++) rp_slot_note(g->inputs[i].block, inputs[i]);
  g->copied += copied, g->pool->copied += copied;
  g->skipped += skipped, g->pool->skipped += skipped;
  return RP_OK;
}

/* An input that is in its place already may have gone stale since: nothing reads it. */
static rp_status check_inputs(const rp_graph *g, const rp_tensor *const *inputs) {
  for (size_t i = 0; i < g->input_count; i++)
    if (!inputs[i]->block || !rp_slot_holds(g->inputs[i].block, inputs[i]))
      RP_TRY(rp_tensor_usable(inputs[i], "passing a tensor to a graph"));
  return RP_OK;
}

/* Every outside block that a node writes has other bytes now. */
static void stamp_writes(const rp_graph *g) {
  for (size_t i = 0; i < g->changed_count; i++) rp_block_touched(g->record->values[g->changed[i]].block);
}

rp_status rp_graph_replay(rp_graph *g, const rp_tensor *const *inputs) {
  rp_device *dev = g->pool->device;
  RP_TRY(rp_device_usable(dev));
  if (g->closed) return rp_fail(RP_CLOSED, "replaying %s: the graph is closed", g->name);
  if (dev->record) return rp_fail(RP_CAPTURING, "replaying %s: not allowed during capture", g->name);
  RP_TRY(rp_overlay_reserve(&g->pool->overlay));
  RP_TRY(follow_slots(g));
  if (g->param_count) RP_TRY(update_params(g));
  if (inputs) RP_TRY(check_inputs(g, inputs));
  if (inputs) RP_TRY(fill_slots(g, inputs));
  rp_status status = g->pool->history ? rp_portrait_replay(g) : dev->ops->exec_launch(dev, g->exec);
  stamp_writes(g); /* also when it was broken off: then some bytes are new */
  rp_pool_replayed(g->pool, g->plan.peak, g->origin);
  return status;
}

static rp_status copy_of(rp_tensor *x) {
  rp_tensor copy;
  RP_TRY(rp_tensor_clone(x, &copy));
  rp_tensor_close(x);
  *x = copy;
  return RP_OK;
}

bool rp_graph_same_output(const rp_graph *g, size_t a, size_t b) {
  const rp_output *outputs = g->record->outputs;
  return g->mode != RP_COPY && outputs[a].value != RP_NONE && outputs[a].value == outputs[b].value;
}

rp_status rp_graph_output(rp_graph *g, size_t index, const rp_tensor *sibling, rp_tensor *out) {
  const rp_output *output = g->record->outputs + index;
  if (sibling) {
    rp_tensor view = output->tensor;
    view.block = rp_block_retain(sibling->block);
    return *out = view, RP_OK;
  }
  if (g->closed) return rp_fail(RP_CLOSED, "taking an output of %s: the graph is closed", g->name);
  if (output->value == RP_NONE) return *out = rp_tensor_share(&output->tensor), RP_OK;
  const rp_value *value = g->record->values + output->value;
  rp_tensor x = output->tensor;
  RP_TRY(rp_pool_output(g->pool, value->offset, value->bytes,
                        value->place == RP_IN_BLOCK ? value->block : NULL, g->origin, &x.block));
  x.block->apart = rp_apart_retain(value->block->apart);
  rp_status status = g->mode == RP_COPY ? copy_of(&x) : RP_OK;
  if (status != RP_OK) return rp_tensor_close(&x), status;
  *out = x;
  return RP_OK;
}

/* ---- edges */

static size_t touches_of(const rp_graph *g, rp_touch *out) {
  size_t count = 0;
  for (uint32_t n = 0; n < g->record->node_count; n++) {
    const rp_node *node = g->record->nodes + n;
    for (size_t i = 0; i < node->kernel->signature->count; i++) {
      const rp_arg *arg = g->record->args + node->first_arg + i;
      if (arg->value == RP_NONE) continue;
      rp_touch touch = {.node = n, .writes = (arg->access & RP_WRITE) != 0};
      rp_graph_range(g, arg, &touch.from, &touch.to);
      out[count++] = touch;
    }
  }
  return count;
}

rp_status rp_graph_edges(rp_graph *g) {
  if (g->edges_known) return RP_OK;
  if (g->closed) return rp_fail(RP_CLOSED, "ordering the nodes of %s: the graph is closed", g->name);
  rp_touch *touches = rp_alloc(g->record->arg_count * sizeof *touches);
  if (!touches) return RP_NOMEM;
  size_t count = touches_of(g, touches);
  rp_status status =
      rp_plan_edges(touches, count, (uint32_t)g->record->node_count, &g->edges, &g->edge_count);
  rp_free(touches);
  g->edges_known = status == RP_OK;
  return status;
}
