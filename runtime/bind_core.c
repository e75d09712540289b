/* bind_core.c - the table of reprise.core: what every binding adds to it, and facts about the runtime itself. */
#include <string.h>

#include "bind.h"
#include "cache.h"
#include "mem.h"

static int cache_counts(lua_State *L) {
  rp_cache_counts counts = rp_cache_counted();
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, (lua_Integer)counts.prebuilt), lua_setfield(L, -2, "prebuilt");
  lua_pushinteger(L, (lua_Integer)counts.hits), lua_setfield(L, -2, "hits");
  lua_pushinteger(L, (lua_Integer)counts.compiled), lua_setfield(L, -2, "compiled");
  lua_pushinteger(L, (lua_Integer)counts.rebuilt), lua_setfield(L, -2, "rebuilt");
  return 1;
}

static int home(lua_State *L) {
  if (!lua_isnoneornil(L, 1)) rp_check(L, rp_home_set(rp_check_text(L, 1)));
  lua_pushstring(L, rp_home());
  return 1;
}

/* One more { name, value, why } in the list on top. */
static void note_fact(void *to, const char *fact, const char *value, const char *why) {
  lua_State *L = to;
  lua_createtable(L, 0, 3);
  lua_pushstring(L, fact), lua_setfield(L, -2, "name");
  lua_pushstring(L, value), lua_setfield(L, -2, "value");
  lua_pushstring(L, why), lua_setfield(L, -2, "why");
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static int examine(lua_State *L) {
  static const char *const parts[] = {"cpu", "cuda", "cache", NULL};
  const char *part = parts[luaL_checkoption(L, 1, NULL, parts)];
  const rp_device_ops *ops = rp_device_kind(part);
  lua_newtable(L);
  if (ops) ops->examine(note_fact, L);
  else if (strcmp(part, "cache") == 0) rp_cache_examine(note_fact, L);
  else
    note_fact(L, "CUDA", NULL, "this build has no CUDA device: there were no CUDA headers when it was built");
  return 1;
}

static int memory_live(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)rp_mem_live());
  return 1;
}

static int memory_fail_after(lua_State *L) {
  rp_mem_fail_after(luaL_checkinteger(L, 1));
  return 0;
}

static const luaL_Reg functions[] = {
    {"cache_counts", cache_counts},
    {"examine", examine},
    {"home", home},
    {"memory_live", memory_live},
    {"memory_fail_after", memory_fail_after},
    {NULL, NULL},
};

void rp_bind_open(lua_State *L) {
  luaL_newlib(L, functions);
  rp_bind_device(L);
  rp_bind_pool(L);
  rp_bind_tensor(L);
  rp_bind_program(L);
  rp_bind_record(L);
  rp_bind_graph(L);
  rp_bind_step(L);
  rp_bind_scope(L);
  rp_bind_signal(L);
  rp_bind_history(L);
  rp_bind_file(L);
}
