/* bind_host.c - reprise inside a host program: a state made ready, host memory in and out of tensors. See reprise.h. */
#include <string.h>

#include "bind.h"
#include "cache.h"
#include "home.h"
#include "reprise.h"

static const char paths[] = "local home = ...\n"
                            "local lua, share = home .. '/lua/?', home .. '/share/lua/5.4/?'\n"
                            "package.path = table.concat({ lua .. '.lua', lua .. '/init.lua', share .. "
                            "'.lua', share .. '/init.lua',\n"
                            "  package.path }, ';')\n"
                            "package.cpath = home .. '/lib/lua/5.4/?.so;' .. package.cpath\n";

/* Pushes package.preload; false: the core is there already. */
static bool is_fresh(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  return lua_getfield(L, -1, "reprise.core") == LUA_TNIL;
}

void rp_state_open(lua_State *L) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 4, "opening reprise");
  if (is_fresh(L)) {
    if (rp_home_find() != RP_OK) luaL_error(L, "%s", rp_message());
    if (luaL_loadbuffer(L, paths, sizeof paths - 1, "=paths") != LUA_OK) lua_error(L);
    lua_pushstring(L, rp_home());
    lua_call(L, 1, 0);
    lua_pushcfunction(L, luaopen_reprise_core);
    lua_setfield(L, top + 1, "reprise.core");
  }
  lua_settop(L, top);
}

/* Types have their metatables once the core is open; a host may push before any script has required it. A script that
 * found another copy by package.cpath has tensors of that one. */
static void open_core(lua_State *L) {
  luaL_requiref(L, "reprise.core", luaopen_reprise_core, 0);
  lua_getfield(L, -1, "file");
  if (strcmp(lua_tostring(L, -1), rp_home_file()) != 0)
    rp_error(L, "reprise.core: %s: this state already uses the copy in %s", rp_home_file(),
             lua_tostring(L, -1));
  lua_pop(L, 2);
}

void rp_buffer_push(lua_State *L, const char *dtype, int rank, const int64_t *shape, const void *from) {
  rp_dtype type;
  luaL_checkstack(L, 8, "pushing a buffer");
  open_core(L);
  if (!rp_dtype_parse(dtype, &type)) rp_error(L, "pushing a buffer: \"%s\" is no dtype", dtype);
  if (rank < 0 || rank > RP_RANK)
    rp_error(L, "pushing a buffer: rank %d: 0 to %d are possible", rank, RP_RANK);
  lua_pushnil(L);
  rp_pool *pool = rp_check_pool(L, lua_gettop(L)); /* nil becomes the device's handle, which keeps the pool */
  rp_tensor *x = rp_push_tensor(L);
  RP_CALL(L, rp_tensor_empty(pool, type, rank, shape, x));
  rp_check(L, rp_tensor_write(x, from));
  lua_remove(L, -2);
}

/* The tensor at `index`, usable for what the sentence says. */
static const rp_tensor *buffer(lua_State *L, int index, const char *doing) {
  open_core(L);
  const rp_tensor *x = rp_test_tensor(L, index);
  if (!x) rp_error(L, "%s: %s expected, got %s", doing, RP_TENSOR_NAME, luaL_typename(L, index));
  rp_check(L, rp_tensor_usable(x, doing));
  return x;
}

size_t rp_buffer_read(lua_State *L, int index, void *to, size_t room) {
  const rp_tensor *x = buffer(L, lua_absindex(L, index), "reading a buffer");
  size_t bytes = rp_tensor_bytes(x);
  if (!to) return bytes;
  if (room < bytes)
    rp_error(L, "reading a buffer: it has %d bytes, there is room for %d", (int)bytes, (int)room);
  rp_check(L, rp_tensor_read(x, to));
  return bytes;
}

void *rp_buffer_address(lua_State *L, int index) {
  const rp_tensor *x = buffer(L, lua_absindex(L, index), "taking a buffer's address");
  rp_device *dev = rp_tensor_device(x);
  if (dev->record) rp_error(L, "taking a buffer's address: not allowed during capture");
  rp_check(L, dev->ops->synchronize(dev));
  return (void *)rp_tensor_address(x);
}

void rp_buffer_touched(lua_State *L, int index) {
  rp_tensor_touched(buffer(L, lua_absindex(L, index), "telling of a written buffer"));
}
