/* bind_graph.c - a graph as Lua looks at it: plan, nodes with their byte ranges, the reduced order as a drawing. */
#include <string.h>

#include "bind.h"
#include "copy.h"

rp_graph **rp_push_graph(lua_State *L) { return rp_new(L, sizeof(rp_graph *), RP_GRAPH_NAME); }

static rp_graph *check_graph(lua_State *L) {
  rp_graph *g = *(rp_graph **)luaL_checkudata(L, 1, RP_GRAPH_NAME);
  if (!g || g->closed) rp_argument_error(L, 1, "the graph is closed");
  return g;
}

static void set_integer(lua_State *L, const char *key, uint64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, key);
}

static void set_text(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

/* ---- manifest */

static const char *zone_of(const rp_value *value) {
  return value->place == RP_IN_BLOCK ? "tensors" : value->place == RP_IN_SLOT ? "slots" : "scratch";
}

/* { name =, access = "read" or "update", zone =, from =, to =, memory =, input = } or { name =, value = } */
static void push_arg(lua_State *L, const rp_graph *g, const rp_formal *formal, const rp_arg *arg) {
  lua_newtable(L);
  set_text(L, "name", formal->name);
  if (arg->kind != RP_POINTER) {
    rp_push_number(L, rp_number_load(formal->type, arg->kind == RP_PARAM ? arg->param->value : arg->scalar));
    lua_setfield(L, -2, "value");
    if (arg->kind == RP_PARAM) lua_pushboolean(L, 1), lua_setfield(L, -2, "param");
    return;
  }
  uintptr_t from = 0, to = 0;
  if (arg->value != RP_NONE) {
    rp_graph_range(g, arg, &from, &to);
    const rp_value *value = g->record->values + arg->value;
    set_text(L, "zone", zone_of(value));
    set_integer(L, "memory", arg->value + 1);
    if (value->place == RP_IN_SLOT) set_integer(L, "input", value->input + 1);
  }
  set_text(L, "access", arg->access == RP_READ ? "read" : "update");
  set_integer(L, "from", from);
  set_integer(L, "to", to);
}

static void set_dims(lua_State *L, const char *key, rp_dims dims) {
  rp_push_shape(L, 3, (int64_t[]){dims.x, dims.y, dims.z});
  lua_setfield(L, -2, key);
}

static void push_node(lua_State *L, const rp_graph *g, const rp_node *node) {
  const rp_signature *signature = node->kernel->signature;
  const char *kind = rp_copy_kind(node->kernel);
  lua_newtable(L);
  set_text(L, "kernel", signature->name);
  set_text(L, "kind", kind ? kind : "launch");
  set_text(L, "where", node->where ? node->where : "");
  set_dims(L, "grid", node->grid);
  set_dims(L, "block", node->block);
  set_integer(L, "shared", node->shared);
  lua_createtable(L, (int)signature->count, 0);
  for (size_t i = 0; i < signature->count; i++) {
    push_arg(L, g, signature->formals + i, g->record->args + node->first_arg + i);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "args");
}

static void push_edges(lua_State *L, const rp_graph *g) {
  lua_createtable(L, (int)g->edge_count, 0);
  for (size_t i = 0; i < g->edge_count; i++) {
    rp_push_shape(L, 2, (int64_t[]){(int64_t)g->edges[i].from + 1, (int64_t)g->edges[i].to + 1});
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* The node that touches each output last; inputs and outside tensors that are handed out have none. */
static void push_outputs(lua_State *L, const rp_graph *g) {
  lua_newtable(L);
  set_integer(L, "count", g->record->output_count);
  for (size_t i = 0; i < g->record->output_count; i++) {
    uint32_t value = g->record->outputs[i].value;
    if (value == RP_NONE || g->record->values[value].last == RP_NONE) continue;
    lua_pushinteger(L, (lua_Integer)g->record->values[value].last + 1);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

/* A list of nodes. Field `edges`: pairs of node numbers, what must run before what, reduced; `outputs`: by output, the
 * node that touches it last. */
static int manifest(lua_State *L) {
  rp_graph *g = check_graph(L);
  rp_check(L, rp_graph_edges(g));
  lua_createtable(L, (int)g->record->node_count, 1);
  for (size_t i = 0; i < g->record->node_count; i++) {
    push_node(L, g, g->record->nodes + i);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  push_edges(L, g);
  lua_setfield(L, -2, "edges");
  push_outputs(L, g);
  lua_setfield(L, -2, "outputs");
  return 1;
}

/* ---- drawing */

/* dot(file): how a graph is drawn is the business of lua/reprise/dot.lua */
static int dot(lua_State *L) {
  check_graph(L);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  return rp_call_module(L, "reprise.dot", 2, 0);
}

/* ---- updating */

/* update(fn): records fn for the same inputs; "patched" when only values changed, else "rebuilt" */
static int update(lua_State *L) {
  rp_graph *g = check_graph(L);
  const rp_tensor *inputs[RP_MOST_INPUTS];
  bool patched;
  if (!lua_isfunction(L, 2)) return rp_type_error(L, 2, "function");
  for (size_t i = 0; i < g->input_count; i++) inputs[i] = g->record->inputs + i;
  rp_recording how = {.pool = g->pool, .name = g->name, .inputs = inputs, .count = (int)g->input_count};
  rp_record *rec = rp_record_call(L, 2, &how);
  rp_check(L, rp_graph_update(g, rec, &patched));
  lua_pushstring(L, patched ? "patched" : "rebuilt");
  return 1;
}

/* ---- the handle */

static void push_plan(lua_State *L, const rp_graph *g) {
  lua_createtable(L, 0, 2);
  set_integer(L, "peak", g->plan.peak);
  set_integer(L, "lower_bound", g->plan.lower_bound);
}

static int get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  rp_graph *g = *(rp_graph **)luaL_checkudata(L, 1, RP_GRAPH_NAME);
  if (strcmp(key, "closed") == 0) return lua_pushboolean(L, !g || g->closed), 1;
  if (rp_method(L) && !lua_isnil(L, -1)) return 1;
  g = check_graph(L);
  if (strcmp(key, "name") == 0) return lua_pushstring(L, g->name), 1;
  if (strcmp(key, "plan") == 0) return push_plan(L, g), 1;
  if (strcmp(key, "nodes") == 0) return lua_pushinteger(L, (lua_Integer)g->record->node_count), 1;
  if (strcmp(key, "driver_bytes") == 0) {
    if (!g->pool->device->ops->exec_bytes) return 0;
    return lua_pushinteger(L, (lua_Integer)g->driver_bytes), 1;
  }
  if (strcmp(key, "copied") == 0) return lua_pushinteger(L, (lua_Integer)g->copied), 1;
  if (strcmp(key, "skipped") == 0) return lua_pushinteger(L, (lua_Integer)g->skipped), 1;
  if (strcmp(key, "replays") == 0) return lua_pushinteger(L, (lua_Integer)g->origin->replays), 1;
  return 0;
}

static int close_graph(lua_State *L) {
  rp_graph **box = luaL_checkudata(L, 1, RP_GRAPH_NAME);
  if (*box) rp_graph_close(*box);
  return 0;
}

static int collect(lua_State *L) {
  rp_graph **box = luaL_checkudata(L, 1, RP_GRAPH_NAME);
  rp_graph_release(*box);
  *box = NULL;
  return 0;
}

static int to_string(lua_State *L) {
  rp_graph *g = *(rp_graph **)luaL_checkudata(L, 1, RP_GRAPH_NAME);
  if (!g || g->closed) return lua_pushliteral(L, "graph, closed"), 1;
  const char *nodes = rp_push_count(L, g->record->node_count, "node"),
             *replays = rp_push_count(L, (size_t)g->origin->replays, "replay");
  const char *peak = rp_push_bytes(L, g->plan.peak), *bound = rp_push_bytes(L, g->plan.lower_bound);
  lua_pushfstring(L, "graph %s: %s, plan %s (lower bound %s), %s", g->name, nodes, peak, bound, replays);
  return 1;
}

void rp_bind_graph(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"manifest", manifest}, {"dot", dot}, {"update", update}, {"close", close_graph}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {
      {"__gc", collect}, {"__close", close_graph}, {"__tostring", to_string}, {NULL, NULL}};
  rp_class(L, RP_GRAPH_NAME, methods, get, metamethods);
}
