/* bind_record.c - calls a Lua function while its device records.
 *
 * Recording is a pair of open and close: a guard on the stack closes it, whatever the function does. The function is
 * called plainly, so that tracebacks stay whole and the error object comes out unchanged; but a coroutine that dies of an
 * error closes nothing before it is closed itself, so there the call is a protected one.
 */
#include "bind.h"

#define GUARD "reprise.Guard"

typedef struct guard { /* what an open capture must undo, however it ends */
  rp_record *record;
  bool *busy;
} guard;

static int guard_close(lua_State *L) {
  guard *g = luaL_checkudata(L, 1, GUARD);
  if (g->busy) *g->busy = false;
  rp_record_free(g->record);
  *g = (guard){0};
  return 0;
}

static guard *push_guard(lua_State *L, const rp_recording *how) {
  guard *g = rp_new(L, sizeof *g, GUARD);
  lua_toclose(L, -1);
  if ((g->busy = how->busy)) *g->busy = true;
  RP_CALL(L, rp_record_open(how->pool, &g->record));
  return g;
}

/* Calls the function at 1 with slots for its inputs; pushes its results. */
static void call_recorded(lua_State *L, guard *g, const rp_recording *how) {
  luaL_checkstack(L, how->count + 4, "too many inputs");
  lua_pushvalue(L, 1);
  for (int i = 0; i < how->count; i++)
    rp_check(L, rp_record_input(g->record, how->inputs[i], rp_push_tensor(L)));
  lua_call(L, how->count, LUA_MULTRET);
}

static void note_outputs(lua_State *L, guard *g, const rp_recording *how, int first) {
  for (int i = first; i <= lua_gettop(L); i++) {
    rp_tensor *x = rp_test_tensor(L, i);
    if (!x)
      rp_error(L, "capturing %s: result %d: tensor expected, got %s", how->name, i - first + 1,
               luaL_typename(L, i));
    if (!x->block) rp_error(L, "capturing %s: result %d: the tensor is closed", how->name, i - first + 1);
    rp_check(L, rp_record_output(g->record, x));
  }
}

/* Running it eagerly would run its state on: a record that writes a tensor from outside has no warm-up. */
static void refuse_state(lua_State *L, const rp_record *rec, const rp_recording *how) {
  for (size_t i = 0; i < rec->arg_count; i++)
    if (rec->args[i].access & RP_WRITE && rec->args[i].value != RP_NONE &&
        rec->values[rec->args[i].value].place == RP_IN_BLOCK)
      rp_error(L,
               "capturing %s: warmup = %d: the function writes a tensor from outside, so running it would "
               "change its state",
               how->name, (int)how->warmup);
}

static void warm_up(lua_State *L, guard *g, const rp_recording *how) {
  if (!how->warmup) return;
  refuse_state(L, g->record, how);
  rp_record_close(g->record);
  for (lua_Integer n = 0; n < how->warmup; n++) {
    lua_pushvalue(L, 1);
    for (int i = 0; i < how->count; i++) lua_pushvalue(L, 3 + i);
    lua_call(L, how->count, 0);
  }
}

/* [1] the function, [2] rp_recording *, [3 ..] the inputs for a warm-up */
static int record_body(lua_State *L) {
  rp_recording *how = lua_touserdata(L, 2);
  guard *g = push_guard(L, how);
  int top = lua_gettop(L);
  call_recorded(L, g, how);
  note_outputs(L, g, how, top + 1);
  warm_up(L, g, how);
  rp_record_close(g->record);
  how->record = g->record;
  g->record = NULL;
  return 0; /* closes the guard */
}

rp_record *rp_record_call(lua_State *L, int function, rp_recording *how) {
  int inputs = how->tensors ? how->count : 0;
  luaL_checkstack(L, inputs + 8, "too many inputs");
  lua_pushcfunction(L, record_body);
  lua_pushvalue(L, function);
  lua_pushlightuserdata(L, how);
  for (int i = 0; i < inputs; i++) lua_pushvalue(L, how->tensors + i);
  int is_main = lua_pushthread(L);
  lua_pop(L, 1);
  if (is_main) lua_call(L, inputs + 2, 0);
  else if (lua_pcall(L, inputs + 2, 0, 0) != LUA_OK) lua_error(L);
  return how->record;
}

void rp_bind_record(lua_State *L) {
  static const luaL_Reg guard_meta[] = {{"__close", guard_close}, {"__gc", guard_close}, {NULL, NULL}};
  rp_class(L, GUARD, NULL, NULL, guard_meta);
}
