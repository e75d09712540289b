/* module.c - opens the raw binding `reprise.core`, in the program and in core.so alike. */
#include <lauxlib.h>
#include <string.h>

#include "bind.h"
#include "err.h"
#include "home.h"
#include "reprise.h"

#define LOADED "reprise.core" /* in the registry: the file whose copy this state uses */

/* Two copies would have two pools on one device and could not read each other's tensors. */
static void refuse_second_copy(lua_State *L) {
  const char *file = rp_home_file();
  if (lua_getfield(L, LUA_REGISTRYINDEX, LOADED) == LUA_TSTRING) {
    const char *first = lua_tostring(L, -1);
    if (strcmp(first, file) != 0) {
      luaL_error(L, "reprise.core: %s: this state already uses the copy in %s", file, first);
    }
  }
  lua_pushstring(L, file);
  lua_setfield(L, LUA_REGISTRYINDEX, LOADED);
  lua_pop(L, 1);
}

int luaopen_reprise_core(lua_State *L) {
  refuse_second_copy(L);
  if (rp_home_find() != RP_OK) luaL_error(L, "%s", rp_message());
  rp_bind_open(L);
  lua_pushliteral(L, RP_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushstring(L, rp_home_file());
  lua_setfield(L, -2, "file");
  return 1;
}
