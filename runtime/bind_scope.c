/* bind_scope.c - notes the tensors made while a scope is open, and closes those that were not kept.
 *
 * core.open_scope() gives a Scope; it is to be held in a <close> variable. scope:keep(...) returns its arguments after
 * taking every tensor among them, also inside tables, out of the note. Scopes nest.
 */
#include "bind.h"

/* Its address is a key of the registry: a table coroutine -> its open scope; the one outside that is its user value 2. */
static const char open_scopes;

static void push_current(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &open_scopes);
  lua_pushthread(L);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

/* Takes it from the stack. */
static void set_current(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &open_scopes);
  lua_pushthread(L);
  lua_rotate(L, -3, 2);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

typedef struct scope {
  int open;
} scope;

/* User value 1: set of tensors (userdata -> true). */
void rp_scope_note(lua_State *L) {
  push_current(L);
  if (lua_isuserdata(L, -1)) {
    lua_getiuservalue(L, -1, 1);
    lua_pushvalue(L, -3);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static int open_scope(lua_State *L) {
  scope *s = lua_newuserdatauv(L, sizeof *s, 2);
  s->open = 1;
  lua_newtable(L), lua_setiuservalue(L, -2, 1);
  push_current(L), lua_setiuservalue(L, -2, 2);
  luaL_setmetatable(L, RP_SCOPE_NAME);
  lua_pushvalue(L, -1);
  set_current(L);
  return 1;
}

/* The tensor at `index` is the scope's (argument 1) no longer, but that of the scope outside it. */
static void hand_out(lua_State *L, int index, int set) {
  lua_pushvalue(L, index), lua_pushnil(L), lua_rawset(L, set);
  if (lua_getiuservalue(L, 1, 2) == LUA_TUSERDATA) {
    lua_getiuservalue(L, -1, 1);
    lua_pushvalue(L, index), lua_pushboolean(L, 1), lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Takes the value at `index` out of the set; a table not seen yet joins the queue instead (`queue` is the set of seen too). */
static void keep_value(lua_State *L, int index, int set, int queue) {
  if (rp_test_tensor(L, index)) return hand_out(L, index, set);
  if (!lua_istable(L, index)) return;
  lua_pushvalue(L, index);
  if (lua_rawget(L, queue) == LUA_TNIL) {
    lua_pushvalue(L, index), lua_pushboolean(L, 1), lua_rawset(L, queue);
    lua_pushvalue(L, index), lua_rawseti(L, queue, (lua_Integer)lua_rawlen(L, queue) + 1);
  }
  lua_pop(L, 1);
}

static void keep_entries(lua_State *L, int set, int queue) {
  for (lua_Integer i = 1; lua_rawgeti(L, queue, i) == LUA_TTABLE; i++, lua_pop(L, 1)) {
    int table = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) keep_value(L, lua_gettop(L), set, queue);
  }
}

static int keep(lua_State *L) {
  luaL_checkudata(L, 1, RP_SCOPE_NAME);
  int last = lua_gettop(L);
  luaL_checkstack(L, 12, "too many results");
  lua_getiuservalue(L, 1, 1);
  lua_newtable(L);
  for (int i = 2; i <= last; i++) keep_value(L, i, last + 1, last + 2);
  keep_entries(L, last + 1, last + 2);
  lua_settop(L, last);
  return last - 1;
}

static int close_scope(lua_State *L) {
  scope *s = luaL_checkudata(L, 1, RP_SCOPE_NAME);
  if (!s->open) return 0;
  s->open = 0;
  lua_getiuservalue(L, 1, 2), set_current(L);
  lua_getiuservalue(L, 1, 1);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) rp_tensor_close(rp_test_tensor(L, -2));
  return 0;
}

void rp_bind_scope(lua_State *L) {
  static const luaL_Reg functions[] = {{"open_scope", open_scope}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"keep", keep}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__close", close_scope}, {"__gc", close_scope}, {NULL, NULL}};
  rp_class(L, RP_SCOPE_NAME, methods, NULL, metamethods);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &open_scopes);
  luaL_setfuncs(L, functions, 0);
}
