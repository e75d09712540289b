/* bind_history.c - recording what happens in a pool; what was recorded, as tables.
 *
 * Lists of many numbers are tables of columns. Times are integers, nanoseconds since the history began; names,
 * graphs and nodes are numbers of their lists, from 1, and 0 where there is none.
 */
#include "bind.h"
#include "history.h"
#include "portrait.h"

static rp_history *check_history(lua_State *L) {
  rp_history *h = *(rp_history **)luaL_checkudata(L, 1, RP_HISTORY_NAME);
  if (!h) rp_argument_error(L, 1, "the history is closed");
  return h;
}

/* history(place, timed): begins to record a pool */
static int history(lua_State *L) {
  rp_pool *pool = rp_check_pool(L, 1);
  bool timed = lua_toboolean(L, 2);
  rp_history **box = rp_new(L, sizeof *box, RP_HISTORY_NAME);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2,
                    1); /* the pool's handle, or its device's: the default pool lives as long as that */
  RP_CALL(L, rp_history_start(pool, timed, box));
  return 1;
}

static int stop(lua_State *L) {
  rp_history_stop(check_history(L));
  return 0;
}

/* ---- columns */

static void set_integer(lua_State *L, const char *key, uint64_t value) {
  lua_pushinteger(L, (lua_Integer)value);
  lua_setfield(L, -2, key);
}

static uint64_t nanoseconds(double seconds) { return (uint64_t)(seconds * 1e9 + 0.5); }
static uint64_t number_of(uint32_t index) { return index == RP_NOBODY ? 0 : (uint64_t)index + 1; }

/* A list of one figure of each of `count` items. */
typedef uint64_t (*figure)(const void *items, size_t i);

static void set_column(lua_State *L, const char *key, const void *items, size_t count, figure of) {
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++)
    lua_pushinteger(L, (lua_Integer)of(items, i)), lua_rawseti(L, -2, (lua_Integer)i + 1);
  lua_setfield(L, -2, key);
}

#define RP_FIGURE(name, type, expression)             \
  static uint64_t name(const void *items, size_t i) { \
    const type *item = (const type *)items + i;       \
    return (uint64_t)(expression);                    \
  }

RP_FIGURE(moment_at, rp_moment, nanoseconds(item->at))
RP_FIGURE(moment_tensors, rp_moment, item->allocated[RP_TENSORS])
RP_FIGURE(moment_slots, rp_moment, item->allocated[RP_SLOTS])
RP_FIGURE(moment_scratch, rp_moment, item->allocated[RP_SCRATCH])
RP_FIGURE(reserved_tensors, rp_moment, item->reserved[RP_TENSORS])
RP_FIGURE(reserved_slots, rp_moment, item->reserved[RP_SLOTS])
RP_FIGURE(reserved_scratch, rp_moment, item->reserved[RP_SCRATCH])
RP_FIGURE(span_from, rp_span, nanoseconds(item->from))
RP_FIGURE(span_to, rp_span, nanoseconds(item->to))
RP_FIGURE(span_graph, rp_span, number_of(item->graph))
RP_FIGURE(span_replays, rp_span, item->replays)
RP_FIGURE(slice_from, rp_slice, nanoseconds(item->from))
RP_FIGURE(slice_to, rp_slice, nanoseconds(item->to))
RP_FIGURE(slice_name, rp_slice, number_of(item->name))
RP_FIGURE(slice_graph, rp_slice, number_of(item->graph))
RP_FIGURE(slice_node, rp_slice, number_of(item->node))
RP_FIGURE(life_first, rp_life, number_of(item->first))
RP_FIGURE(life_last, rp_life, number_of(item->last))
RP_FIGURE(life_offset, rp_life, item->offset)
RP_FIGURE(life_bytes, rp_life, item->bytes)
RP_FIGURE(life_output, rp_life, item->output)
RP_FIGURE(node_kernel, rp_sitter, number_of(item->kernel))
RP_FIGURE(node_where, rp_sitter, number_of(item->where))
RP_FIGURE(node_reads, rp_sitter, item->reads)
RP_FIGURE(node_writes, rp_sitter, item->writes)
RP_FIGURE(node_blocks, rp_sitter, (uint64_t)item->grid.x * item->grid.y * item->grid.z)
RP_FIGURE(node_timed, rp_sitter, item->timed)
RP_FIGURE(node_time, rp_sitter, nanoseconds(item->seconds))
RP_FIGURE(node_least, rp_sitter, nanoseconds(item->least))

typedef struct column {
  const char *key;
  figure of;
} column;

/* Sets field `key` to a table of columns, of which the last has no key. */
static void set_columns(lua_State *L, const char *key, const void *items, size_t count,
                        const column *columns) {
  lua_newtable(L);
  for (; columns->key; columns++) set_column(L, columns->key, items, count, columns->of);
  lua_setfield(L, -2, key);
}

static const column of_moments[] = {{"at", moment_at},
                                    {"tensors", moment_tensors},
                                    {"slots", moment_slots},
                                    {"scratch", moment_scratch},
                                    {"reserved_tensors", reserved_tensors},
                                    {"reserved_slots", reserved_slots},
                                    {"reserved_scratch", reserved_scratch},
                                    {NULL, NULL}};
static const column of_spans[] = {
    {"from", span_from}, {"to", span_to}, {"graph", span_graph}, {"replays", span_replays}, {NULL, NULL}};
static const column of_slices[] = {{"from", slice_from},   {"to", slice_to},     {"name", slice_name},
                                   {"graph", slice_graph}, {"node", slice_node}, {NULL, NULL}};
static const column of_lives[] = {{"first", life_first}, {"last", life_last},     {"offset", life_offset},
                                  {"bytes", life_bytes}, {"output", life_output}, {NULL, NULL}};
static const column of_nodes[] = {{"kernel", node_kernel}, {"where", node_where},   {"reads", node_reads},
                                  {"writes", node_writes}, {"blocks", node_blocks}, {"timed", node_timed},
                                  {"time", node_time},     {"least", node_least},   {NULL, NULL}};

/* ---- the whole */

static void push_portrait(lua_State *L, const rp_portrait *p) {
  lua_newtable(L);
  set_integer(L, "name", number_of(p->name));
  set_integer(L, "made", nanoseconds(p->made));
  set_integer(L, "closed", nanoseconds(p->closed));
  set_integer(L, "peak", p->plan.peak);
  set_integer(L, "lower_bound", p->plan.lower_bound);
  set_integer(L, "apart", p->apart);
  set_integer(L, "inputs", p->inputs);
  set_integer(L, "outputs", p->outputs);
  set_integer(L, "replays", p->replays);
  set_integer(L, "node_count", p->node_count);
  set_integer(L, "life_count", p->life_count);
  if (!p->nodes) return;
  set_columns(L, "lives", p->lives, p->life_count, of_lives);
  set_columns(L, "nodes", p->nodes, p->node_count, of_nodes);
}

static void set_names(lua_State *L, const rp_history *h) {
  lua_createtable(L, (int)h->name_count, 0);
  for (size_t i = 0; i < h->name_count; i++)
    lua_pushstring(L, h->names[i]), lua_rawseti(L, -2, (lua_Integer)i + 1);
  lua_setfield(L, -2, "names");
}

static void set_graphs(lua_State *L, const rp_history *h) {
  lua_createtable(L, (int)h->portrait_count, 0);
  for (size_t i = 0; i < h->portrait_count; i++)
    push_portrait(L, h->portraits + i), lua_rawseti(L, -2, (lua_Integer)i + 1);
  lua_setfield(L, -2, "graphs");
}

/* report(): all that was recorded until now */
static int report(lua_State *L) {
  const rp_history *h = check_history(L);
  lua_newtable(L);
  lua_pushstring(L, h->pool->device->name), lua_setfield(L, -2, "device");
  lua_pushstring(L, h->pool->device->model), lua_setfield(L, -2, "model");
  lua_pushboolean(L, h->timed), lua_setfield(L, -2, "timed");
  lua_pushboolean(L, h->torn), lua_setfield(L, -2, "torn");
  set_integer(L, "duration", nanoseconds(h->ended > 0 ? h->ended : rp_history_now(h)));
  set_integer(L, "changes", h->changes);
  set_integer(L, "replays", h->replays);
  set_integer(L, "launches", h->launches);
  set_names(L, h);
  set_columns(L, "moments", h->moments, h->moment_count, of_moments);
  set_columns(L, "spans", h->spans, h->span_count, of_spans);
  set_columns(L, "slices", h->slices, h->slice_count, of_slices);
  set_graphs(L, h);
  return 1;
}

static int close_history(lua_State *L) {
  rp_history **box = luaL_checkudata(L, 1, RP_HISTORY_NAME);
  rp_history_free(*box);
  *box = NULL;
  return 0;
}

static int to_string(lua_State *L) {
  const rp_history *h = *(rp_history **)luaL_checkudata(L, 1, RP_HISTORY_NAME);
  if (!h) return lua_pushliteral(L, "history, closed"), 1;
  const char *changes = rp_push_count(L, (size_t)h->changes, "change"),
             *replays = rp_push_count(L, (size_t)h->replays, "replay");
  lua_pushfstring(L, "history of the pool of %s%s: %s, %s", h->pool->device->name,
                  h->ended > 0 ? ", over" : "", changes, replays);
  return 1;
}

void rp_bind_history(lua_State *L) {
  static const luaL_Reg functions[] = {{"history", history}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"stop", stop}, {"report", report}, {"close", close_history}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {
      {"__gc", close_history}, {"__close", close_history}, {"__tostring", to_string}, {NULL, NULL}};
  rp_class(L, RP_HISTORY_NAME, methods, NULL, metamethods);
  luaL_setfuncs(L, functions, 0);
}
