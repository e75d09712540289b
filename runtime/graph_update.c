/* graph_update.c - a graph given another record: patched where it can be, else built anew. */
#include "graph.h"

#include <string.h>

#include "mem.h"

/* ---- comparing: may the new record use the old one's plan and executable? */

static bool same_value(const rp_value *a, const rp_value *b) {
  return a->place == b->place && a->output == b->output && a->first == b->first && a->last == b->last &&
         a->bytes == b->bytes && a->input == b->input;
}

static bool same_arg(const rp_arg *a, const rp_arg *b) {
  return a->kind == b->kind && a->access == b->access && a->value == b->value && a->from == b->from &&
         a->to == b->to;
}

static bool same_output(const rp_output *a, const rp_output *b) {
  const rp_tensor *x = &a->tensor, *y = &b->tensor;
  return a->value == b->value && a->value != RP_NONE && x->offset == y->offset && x->dtype == y->dtype &&
         rp_tensor_same_shape(x, y) && memcmp(x->stride, y->stride, (size_t)x->rank * sizeof *x->stride) == 0;
}

static bool same_node(const rp_node *a, const rp_node *b) {
  return a->kernel == b->kernel && a->cooperative == b->cooperative &&
         memcmp(&a->cluster, &b->cluster, sizeof a->cluster) == 0;
}

static bool alike(const rp_record *a, const rp_record *b) {
  bool same = a->value_count == b->value_count && a->arg_count == b->arg_count &&
              a->node_count == b->node_count && a->output_count == b->output_count;
  for (size_t i = 0; same && i < a->value_count; i++) same = same_value(a->values + i, b->values + i);
  for (size_t i = 0; same && i < a->arg_count; i++) same = same_arg(a->args + i, b->args + i);
  for (size_t i = 0; same && i < a->node_count; i++) same = same_node(a->nodes + i, b->nodes + i);
  for (size_t i = 0; same && i < a->output_count; i++) same = same_output(a->outputs + i, b->outputs + i);
  return same;
}

/* ---- patching */

static rp_status set_all(rp_graph *g) {
  for (size_t i = 0; i < g->record->node_count; i++) RP_TRY(rp_graph_set_node(g, i));
  return RP_OK;
}

static void inherit(const rp_value *from, rp_value *to) {
  to->offset = from->offset;
  if (from->place == RP_IN_SCRATCH) to->block->apart = rp_apart_retain(from->block->apart);
}

/* The plan of the old record serves the new one. On failure the old nodes are put back; if that fails too, the graph ends. */
static rp_status patch(rp_graph *g, rp_record *rec) {
  rp_record *old = g->record;
  for (size_t i = 0; i < rec->value_count; i++) inherit(old->values + i, rec->values + i);
  g->record = rec;
  rp_status status = set_all(g);
  if (status == RP_OK) {
    rp_graph_note_params(g);
    rp_record_free(old);
    g->edges_known = false;
    rp_free(g->edges);
    g->edges = NULL;
    g->edge_count = 0;
    return RP_OK;
  }
  char why[256];
  strncpy(why, rp_message(), sizeof why - 1)[sizeof why - 1] = 0;
  g->record = old;
  rp_record_free(rec);
  if (set_all(g) != RP_OK) rp_graph_close(g);
  return rp_fail(status, "updating %s: %s", g->name, why);
}

static rp_status rebuild(rp_graph *g, rp_record *rec) {
  rp_graph_options options = {.name = g->name, .mode = g->mode, .parallel = g->parallel};
  rp_graph *built;
  RP_TRY(rp_graph_make(rec, &options, &built));
  rp_graph old = *g;
  uint32_t count = g->count;
  *g = *built;
  g->count = count;
  *built = old;
  built->count = 1;
  rp_graph_release(built);
  return RP_OK;
}

rp_status rp_graph_update(rp_graph *g, rp_record *rec, bool *patched) {
  if (g->closed)
    return rp_record_free(rec), rp_fail(RP_CLOSED, "updating %s: the graph was closed meanwhile", g->name);
  *patched = !g->parallel && g->mode != RP_OWN && alike(g->record, rec);
  return *patched ? patch(g, rec) : rebuild(g, rec);
}
