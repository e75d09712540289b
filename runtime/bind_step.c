/* bind_step.c - what capture returns: a function that keeps one graph for each shape of its inputs.
 *
 *   step(x, ...)   inputs of known shapes: copy to the slots, replay, hand out the outputs
 *                  new shapes: record, plan, build first
 */
#include <string.h>

#include "bind.h"
#include "run.h"

enum { MOST_INPUTS = RP_MOST_INPUTS, MOST_GRAPHS = 64 };

typedef struct step {
  rp_pool *pool; /* counted; NULL: that of the first call's inputs, not known yet */
  char name[64];
  rp_graph **graphs; /* newest use first; counted; the array is user memory held by user value 2 */
  size_t count, most;
  lua_Integer warmup;
  rp_outputs mode;
  bool parallel, busy, closed;
  size_t reserve[MOST_INPUTS];
} step;

static const char class[] = RP_STEP_NAME;

static step *check_handle(lua_State *L) {
  step *s = rp_test(L, 1, class);
  if (!s) rp_type_error(L, 1, RP_STEP_NAME);
  return s;
}

static step *check_step(lua_State *L) {
  step *s = check_handle(L);
  if (s->closed) rp_argument_error(L, 1, "the captured function is closed");
  return s;
}

/* ---- options */

static void check_names(lua_State *L, int options) {
  static const char *const known[] = {"name",   "outputs", "copy_outputs", "max_graphs", "parallel",
                                      "warmup", "reserve", "pool",         "device",     NULL};
  for (lua_pushnil(L); lua_next(L, options); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      rp_error(L, "capturing: options: names expected, got a key of type %s", luaL_typename(L, -2));
    const char *name = lua_tostring(L, -2);
    int i = 0;
    while (known[i] && strcmp(known[i], name) != 0) i++;
    if (!known[i])
      rp_error(L,
               "capturing: unknown option '%s': expected name, outputs, copy_outputs, max_graphs, parallel, "
               "warmup, reserve, pool or device",
               name);
  }
}

static lua_Integer count_option(lua_State *L, int options, const char *name, lua_Integer least,
                                lua_Integer otherwise) {
  int exact;
  if (lua_getfield(L, options, name) == LUA_TNIL) return lua_pop(L, 1), otherwise;
  lua_Integer n = lua_tointegerx(L, -1, &exact);
  if (!exact || lua_type(L, -1) != LUA_TNUMBER || n < least)
    rp_error(L, "capturing: option %s: an integer from %d expected, got %s", name, (int)least,
             luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return n;
}

static const char *const modes[] = {[RP_SHARED] = "shared", [RP_OWN] = "own", [RP_COPY] = "copy"};

static rp_outputs named_mode(lua_State *L) {
  const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  for (int i = 0; i < 3; i++)
    if (strcmp(modes[i], name) == 0) return (rp_outputs)i;
  rp_error(L, "capturing: option outputs: \"shared\", \"own\" or \"copy\" expected, got %s",
           luaL_tolstring(L, -1, NULL));
  return RP_SHARED;
}

/* outputs = mode; copy_outputs = true is outputs = "copy" */
static rp_outputs read_mode(lua_State *L, int options) {
  bool given = lua_getfield(L, options, "copy_outputs") != LUA_TNIL, copies = lua_toboolean(L, -1);
  bool named = lua_getfield(L, options, "outputs") != LUA_TNIL;
  rp_outputs mode = named ? named_mode(L) : copies ? RP_COPY : RP_SHARED;
  if (named && given && copies != (mode == RP_COPY))
    rp_error(L, "capturing: options outputs = \"%s\" and copy_outputs = %s contradict each other",
             modes[mode], copies ? "true" : "false");
  lua_pop(L, 2);
  return mode;
}

static void read_reserve(lua_State *L, int options, step *s) {
  int type = lua_getfield(L, options, "reserve"), table = lua_gettop(L);
  if (type == LUA_TNIL) return lua_pop(L, 1);
  if (type != LUA_TTABLE)
    rp_error(L, "capturing: option reserve: a table of bytes by input expected, got %s",
             luaL_typename(L, -1));
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    int is_index, is_bytes;
    lua_Integer i = lua_tointegerx(L, -2, &is_index), bytes = lua_tointegerx(L, -1, &is_bytes);
    if (!is_index || !is_bytes || i < 1 || i > MOST_INPUTS || bytes < 0)
      rp_error(L, "capturing: option reserve: inputs from 1 to %d and bytes from 0 expected", MOST_INPUTS);
    s->reserve[i - 1] = (size_t)bytes;
  }
  lua_pop(L, 1);
}

static void read_options(lua_State *L, int options, step *s) {
  check_names(L, options);
  s->mode = read_mode(L, options);
  if (lua_getfield(L, options, "name") != LUA_TNIL) {
    if (lua_type(L, -1) != LUA_TSTRING)
      rp_error(L, "capturing: option name: string expected, got %s", luaL_typename(L, -1));
    strncpy(s->name, rp_plain_text(L, -1, "capturing: option name"), sizeof s->name - 1);
  }
  lua_pop(L, 1);
  s->most = (size_t)count_option(L, options, "max_graphs", 1, MOST_GRAPHS);
  s->warmup = count_option(L, options, "warmup", 0, 0);
  lua_getfield(L, options, "parallel"), s->parallel = lua_toboolean(L, -1), lua_pop(L, 1);
  read_reserve(L, options, s);
}

/* Weakly notes the captured function on top, so that a prompt can list what is there: registry["reprise.steps"]. */
static void note_step(lua_State *L) {
  if (!luaL_getsubtable(L, LUA_REGISTRYINDEX, "reprise.steps")) {
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k"), lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
  }
  lua_pushvalue(L, -2);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

/* capture(fn, options) */
static int capture(lua_State *L) {
  lua_settop(L, 2);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (lua_isnil(L, 2)) lua_newtable(L), lua_replace(L, 2);
  luaL_checktype(L, 2, LUA_TTABLE);
  step *s = lua_newuserdatauv(L, sizeof *s, 2);
  *s = (step){.name = "graph"};
  luaL_setmetatable(L, RP_STEP_NAME);
  read_options(L, 2, s);
  lua_pushvalue(L, 1), lua_setiuservalue(L, 3, 1);
  s->graphs = lua_newuserdatauv(L, (s->most < 4096 ? s->most : 4096) * sizeof *s->graphs, 0);
  if (s->most > 4096) s->most = 4096;
  lua_setiuservalue(L, 3, 2);
  rp_pool *pool = rp_field_pool(L, 2);
  s->pool = pool ? rp_pool_retain(pool) : NULL;
  lua_settop(L, 3);
  note_step(L);
  return 1;
}

/* ---- recording */

/* The oldest graph makes room. */
static void keep_graph(step *s, rp_graph *g) {
  if (s->count == s->most) {
    rp_graph *oldest = s->graphs[--s->count];
    rp_graph_close(oldest);
    rp_graph_release(oldest);
  }
  memmove(s->graphs + 1, s->graphs, s->count++ * sizeof *s->graphs);
  s->graphs[0] = g;
}

/* A new graph for the inputs at 2 .. 1 + count. */
static void record_graph(lua_State *L, step *s, const rp_tensor *const *inputs, int count) {
  if (s->busy) rp_error(L, "capturing %s: it is being captured already", s->name);
  lua_getiuservalue(L, 1, 1);
  rp_recording how = {.pool = s->pool,
                      .name = s->name,
                      .inputs = inputs,
                      .count = count,
                      .tensors = 2,
                      .warmup = s->warmup,
                      .busy = &s->busy};
  rp_record *rec = rp_record_call(L, lua_gettop(L), &how);
  rp_graph_options options = {.name = s->name,
                              .mode = s->mode,
                              .parallel = s->parallel,
                              .reserve = s->reserve,
                              .reserve_count = MOST_INPUTS};
  rp_graph *graph;
  rp_check(L, rp_graph_make(rec, &options, &graph));
  keep_graph(s, graph);
  lua_pop(L, 1);
}

/* ---- calling */

/* Drops graphs that were closed by hand. */
static void drop_closed(step *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (s->graphs[i]->closed) rp_graph_release(s->graphs[i]);
    else s->graphs[kept++] = s->graphs[i];
  }
  s->count = kept;
}

/* Puts the graph for these inputs first; false where there is none. */
static bool find_graph(step *s, const rp_tensor *const *inputs, size_t count) {
  for (size_t i = 0; i < s->count; i++) {
    rp_graph *g = s->graphs[i];
    if (g->closed || !rp_graph_fits(g, inputs, count)) continue;
    memmove(s->graphs + 1, s->graphs, i * sizeof *s->graphs);
    s->graphs[0] = g;
    return true;
  }
  return false;
}

/* Where none was named, a captured function belongs to the device of its first input, or to the default one. */
static void settle(lua_State *L, step *s, int count) {
  if (s->pool) return;
  if (count) rp_push_device(L, rp_tensor_device(rp_check_tensor(L, 2)));
  else lua_pushnil(L);
  s->pool = rp_pool_retain(rp_check_pool(L, lua_gettop(L)));
  lua_pop(L, 1);
}

static const rp_tensor *check_input(lua_State *L, const step *s, int i) {
  const rp_tensor *x = rp_test_tensor(L, 1 + i);
  if (!x) rp_error(L, "calling %s: input %d: tensor expected, got %s", s->name, i, luaL_typename(L, 1 + i));
  if (x->block) rp_check(L, rp_device_usable(rp_tensor_device(x)));
  rp_check_tensor(L, 1 + i);
  if (rp_tensor_device(x) != s->pool->device)
    rp_error(L, "calling %s: input %d is on %s, the graph on %s", s->name, i, rp_tensor_device(x)->name,
             s->pool->device->name);
  return x;
}

typedef struct calling { /* a call under way: inputs from stack index 2 on, then handles of the outputs */
  step *s;
  const rp_tensor *inputs[MOST_INPUTS];
  int count, outputs;
} calling;

/* Its graph, which is there: but finalizers run at every allocation and collection, and may close or change it. */
static rp_graph *graph_of(lua_State *L, const calling *c) {
  step *s = c->s;
  if (s->closed || !find_graph(s, c->inputs, (size_t)c->count) ||
      (int)s->graphs[0]->record->output_count != c->outputs)
    rp_error(L, "calling %s: it was closed meanwhile", s->name);
  return s->graphs[0];
}

static rp_graph *replay(lua_State *L, const calling *c) {
  rp_graph *g = graph_of(L, c);
  rp_status status = rp_graph_replay(g, c->inputs);
  if (status == RP_NOMEM && rp_collect(L)) status = rp_graph_replay(g = graph_of(L, c), c->inputs);
  rp_check(L, status);
  return g;
}

/* Hands out output `i` of the last replay. */
static rp_status fill_output(lua_State *L, const calling *c, rp_graph *g, int i) {
  const rp_tensor *sibling = NULL;
  int first = 2 + c->count;
  for (int k = 0; k < i && !sibling; k++)
    if (rp_graph_same_output(g, (size_t)k, (size_t)i)) sibling = rp_check_tensor(L, first + k);
  return rp_graph_output(g, (size_t)i, sibling, rp_test_tensor(L, first + i));
}

static void fill_outputs(lua_State *L, const calling *c, rp_graph *g) {
  const uint64_t turn = g->origin->replays;
  for (int i = 0; i < c->outputs; i++) {
    rp_status status = fill_output(L, c, g, i);
    if (status == RP_NOMEM && rp_collect(L)) {
      const rp_graph *now = graph_of(L, c);
      if (now != g || g->origin->replays != turn)
        rp_error(L, "calling %s: it was called meanwhile", c->s->name);
      status = fill_output(L, c, g, i);
    }
    rp_check(L, status);
  }
}

/* step(x, ...): the handles of outputs are made before the replay, so that nothing is allocated behind it. */
static int call(lua_State *L) {
  calling c; /* not cleared: it has room for many inputs */
  step *s = c.s = check_step(L);
  c.count = lua_gettop(L) - 1;
  if (c.count && !rp_test_tensor(L, 2))
    return rp_error(L, "calling %s: input 1: tensor expected, got %s", s->name, luaL_typename(L, 2));
  settle(L, s, c.count);
  if (c.count > MOST_INPUTS)
    return rp_error(L, "calling %s: %d inputs, at most %d are possible", s->name, c.count, MOST_INPUTS);
  for (int i = 0; i < c.count; i++) c.inputs[i] = check_input(L, s, i + 1);
  rp_check(L, rp_device_usable(s->pool->device));
  if (s->pool->device->record)
    return rp_error(L, "calling %s: a replay is not allowed during capture", s->name);
  drop_closed(s);
  if (!find_graph(s, c.inputs, (size_t)c.count)) record_graph(L, s, c.inputs, c.count);
  c.outputs = s->count ? (int)s->graphs[0]->record->output_count : 0;
  luaL_checkstack(L, c.outputs + 8, "too many outputs");
  for (int i = 0; i < c.outputs; i++) rp_push_tensor(L);
  fill_outputs(L, &c, replay(L, &c));
  return c.outputs;
}

static rp_signal *stop_option(lua_State *L, const step *s) {
  rp_signal *signal = lua_getfield(L, 2, "stop") == LUA_TNIL ? NULL : rp_test_signal(L, -1);
  if (!signal && luaL_testudata(L, -1, RP_SIGNAL_NAME))
    rp_error(L, "running %s: option stop: the signal is closed", s->name);
  if (!signal && !lua_isnil(L, -1))
    rp_error(L, "running %s: option stop: %s expected, got %s", s->name, RP_SIGNAL_NAME,
             luaL_typename(L, -1));
  lua_pop(L, 1); /* the table keeps it */
  return signal;
}

static uint32_t run_count(lua_State *L, const step *s, const char *option, lua_Integer otherwise) {
  lua_Integer n = count_option(L, 2, option, 0, otherwise);
  if (n < 0) rp_error(L, "running %s: option %s: the number of steps expected", s->name, option);
  lua_getfield(L, 2, "stop");
  lua_Integer most = lua_isnil(L, -1) ? UINT32_MAX : UINT16_MAX; /* a signal counts steps in 16 bits */
  lua_pop(L, 1);
  if (n > most)
    rp_error(L, "running %s: option %s: at most %I steps are possible here", s->name, option,
             (LUAI_UACINT)most);
  return (uint32_t)n;
}

/* step:run { max = n, stop = signal, ahead = k }: replays the graph of the last call, its inputs as the slots hold them */
static int run(lua_State *L) {
  step *s = check_step(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  rp_run how = {
      .max = run_count(L, s, "max", -1), .ahead = run_count(L, s, "ahead", 0), .signal = stop_option(L, s)};
  uint32_t steps;
  if (how.ahead && !how.signal)
    return rp_error(L, "running %s: option ahead: it needs a signal to stop by, as option stop", s->name);
  drop_closed(s);
  if (!s->count)
    return rp_error(L, "running %s: it was not called yet, so there is no graph to replay", s->name);
  rp_check(L, rp_graph_run(s->graphs[0], &how, &steps)); /* runs no Lua: nothing can close it */
  lua_pushinteger(L, steps);
  return 1;
}

/* graphs(): a list, newest use first */
static int graphs(lua_State *L) {
  step *s = check_step(L);
  drop_closed(s);
  lua_createtable(L, (int)s->count, 0);
  for (size_t i = 0; i < s->count; i++) {
    rp_graph **handle = rp_push_graph(L);
    if (i < s->count) *handle = rp_graph_retain(s->graphs[i]);
    else return rp_error(L, "listing the graphs of %s: it was closed meanwhile", s->name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int end_step(step *s, bool closes) {
  while (s->count) {
    rp_graph *g = s->graphs[--s->count];
    if (closes) rp_graph_close(g);
    rp_graph_release(g);
  }
  rp_pool_release(s->pool);
  s->pool = NULL;
  s->closed = true;
  return 0;
}

static int close_step(lua_State *L) {
  step *s = check_handle(L);
  if (s->busy) return rp_error(L, "closing %s: it is being captured", s->name);
  return end_step(s, true);
}

/* When this happens must not show: handles on graphs and on outputs go on. */
static int collect_step(lua_State *L) { return end_step(check_handle(L), false); }

static int to_string(lua_State *L) {
  step *s = check_handle(L);
  lua_pushfstring(L, "captured function %s%s%s", s->name, s->closed ? ", closed" : ": ",
                  s->closed ? "" : rp_push_count(L, s->count, "graph"));
  return 1;
}

static int get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  step *s = check_handle(L);
  if (strcmp(key, "name") == 0) return lua_pushstring(L, s->name), 1;
  return rp_method(L);
}

void rp_bind_step(lua_State *L) {
  static const luaL_Reg functions[] = {{"capture", capture}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"run", run}, {"graphs", graphs}, {"close", close_step}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__call", call},
                                         {"__gc", collect_step},
                                         {"__close", close_step},
                                         {"__tostring", to_string},
                                         {NULL, NULL}};
  rp_class(L, class, methods, get, metamethods);
  luaL_setfuncs(L, functions, 0);
}
