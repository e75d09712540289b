/* bind_device.c - devices. A state has one handle for each device it opened; the default one is opened when first needed. */
#include <stdlib.h>
#include <string.h>

#include "bind.h"

static const char class[] = RP_DEVICE_NAME;

#define HANDLES "reprise.devices" /* in the registry: name -> Device; "" -> the default */

/* ---- opening */

static void push_handles(lua_State *L) { luaL_getsubtable(L, LUA_REGISTRYINDEX, HANDLES); }

static int is_open(lua_State *L, int index) {
  rp_device **box = rp_test(L, index, class);
  return box && *box && !(*box)->closed;
}

/* Under its own name too: "cuda" and "cuda:0" are one device. */
static void remember(lua_State *L, const char *asked, const char *name) {
  push_handles(L);
  lua_pushvalue(L, -2), lua_setfield(L, -2, asked);
  lua_pushvalue(L, -2), lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

static void push_named(lua_State *L, const char *name);

static void open_new(lua_State *L, const char *name) {
  rp_device **box = rp_new(L, sizeof *box, RP_DEVICE_NAME);
  rp_check(L, rp_device_open(*name ? name : NULL, box));
  push_handles(L);
  lua_getfield(L, -1, (*box)->name);
  if (is_open(L, -1))
    lua_copy(L, -1, -3); /* "cuda:0" is open already; this second context goes with its handle */
  lua_pop(L, 2);
  remember(L, name, (*(rp_device **)lua_touserdata(L, -1))->name);
}

static void push_default(lua_State *L) {
  const char *wish = getenv("REPRISE_DEVICE");
  if (wish && *wish) push_named(L, wish);
  else open_new(L, "");
}

static void push_named(lua_State *L, const char *name) {
  push_handles(L);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  if (is_open(L, -1)) return;
  lua_pop(L, 1);
  open_new(L, name);
}

static void push_best(lua_State *L) {
  push_handles(L);
  lua_getfield(L, -1, "");
  lua_remove(L, -2);
  if (is_open(L, -1)) return;
  lua_pop(L, 1);
  push_default(L);
  remember(L, "", (*(rp_device **)lua_touserdata(L, -1))->name);
}

void rp_push_device(lua_State *L, rp_device *dev) {
  push_handles(L);
  lua_getfield(L, -1, dev->name);
  lua_remove(L, -2);
  rp_device **known = rp_test(L, -1, class);
  if (known && *known == dev) return;
  lua_pop(L, 1); /* that of an older tensor, closed and opened anew since */
  rp_device **box = rp_new(L, sizeof *box, RP_DEVICE_NAME);
  *box = rp_device_retain(dev);
}

static rp_device *box_device(lua_State *L, int arg) {
  rp_device *dev = *(rp_device **)luaL_checkudata(L, arg, RP_DEVICE_NAME);
  rp_check(L, rp_device_usable(dev));
  return dev;
}

/* Replaces argument `arg` by its handle. */
static rp_device *resolve(lua_State *L, int arg) {
  if (lua_gettop(L) < arg) lua_settop(L, arg);
  if (lua_isnil(L, arg)) push_best(L);
  else if (lua_type(L, arg) == LUA_TSTRING) push_named(L, rp_check_text(L, arg));
  else if (rp_test(L, arg, class)) return box_device(L, arg);
  else rp_type_error(L, arg, RP_DEVICE_NAME);
  lua_replace(L, arg);
  return box_device(L, arg);
}

rp_device *rp_check_device(lua_State *L, int arg) { return resolve(L, lua_absindex(L, arg)); }

/* ---- functions */

static int device(lua_State *L) {
  rp_check_device(L, 1);
  lua_settop(L, 1);
  return 1;
}

static void set_text(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

static void push_facts(lua_State *L, const rp_device *dev) {
  size_t free_bytes = 0, total = 0;
  dev->ops->memory((rp_device *)(uintptr_t)dev, &free_bytes, &total);
  lua_createtable(L, 0, 6);
  set_text(L, "name", dev->name);
  set_text(L, "model", dev->model);
  set_text(L, "arch", dev->arch);
  lua_pushinteger(L, dev->units), lua_setfield(L, -2, "units");
  lua_pushinteger(L, (lua_Integer)total), lua_setfield(L, -2, "memory");
  lua_pushinteger(L, (lua_Integer)free_bytes), lua_setfield(L, -2, "free");
}

static int devices(lua_State *L) {
  static const char *const kinds[] = {"cuda", "cpu"};
  lua_settop(L, 0);
  lua_newtable(L);
  for (size_t k = 0; k < 2; k++)
    for (int i = 0, count = rp_device_count(kinds[k]); i < count; i++) {
      if (k == 0) push_named(L, lua_pushfstring(L, "cuda:%d", i));
      else push_named(L, "cpu");
      push_facts(L, *(rp_device **)lua_touserdata(L, -1));
      lua_rawseti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1);
      lua_settop(L, 1);
    }
  return 1;
}

static int has_cuda(lua_State *L) {
  if (rp_device_count("cuda") > 0) return lua_pushboolean(L, 1), 1;
  lua_pushnil(L);
  lua_pushstring(L, rp_message());
  return 2;
}

/* ---- the handle */

static int synchronize(lua_State *L) {
  rp_device *dev = box_device(L, 1);
  if (dev->record) return rp_error(L, "synchronizing %s: not allowed during capture", dev->name);
  rp_check(L, dev->ops->synchronize(dev));
  return 0;
}

static int close_device(lua_State *L) {
  rp_device **box = luaL_checkudata(L, 1, RP_DEVICE_NAME);
  if (*box) rp_check(L, rp_device_close(*box));
  return 0;
}

/* The default pool lives as long as the handle, so that memory is kept between tensors: the user value holds it. */
static void push_pool(lua_State *L, rp_device *dev) {
  if (lua_getiuservalue(L, 1, 1) == LUA_TUSERDATA) return;
  lua_pop(L, 1);
  rp_pool **box = rp_new(L, sizeof *box, RP_POOL_NAME);
  RP_CALL(L, rp_pool_default(dev, box));
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, 1, 1);
}

/* Bytes of memory: in all, or free now. */
static void push_memory(lua_State *L, rp_device *dev, bool all) {
  size_t free_bytes = 0, total = 0;
  rp_check(L, dev->ops->memory(dev, &free_bytes, &total));
  lua_pushinteger(L, (lua_Integer)(all ? total : free_bytes));
}

static int get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  rp_device *dev = *(rp_device **)luaL_checkudata(L, 1, RP_DEVICE_NAME);
  if (strcmp(key, "name") == 0) return lua_pushstring(L, dev->name), 1;
  if (strcmp(key, "model") == 0) return lua_pushstring(L, dev->model), 1;
  if (strcmp(key, "arch") == 0) return lua_pushstring(L, dev->arch), 1;
  if (strcmp(key, "simt") == 0) return lua_pushboolean(L, dev->simt), 1;
  if (strcmp(key, "units") == 0) return lua_pushinteger(L, dev->units), 1;
  if (strcmp(key, "waits") == 0) return lua_pushinteger(L, (lua_Integer)dev->waits), 1;
  if (strcmp(key, "downloaded") == 0) return lua_pushinteger(L, (lua_Integer)dev->downloaded), 1;
  if (strcmp(key, "closed") == 0) return lua_pushboolean(L, dev->closed), 1;
  if (strcmp(key, "recording") == 0) return lua_pushboolean(L, dev->record != NULL), 1;
  if (strcmp(key, "memory") == 0) return push_memory(L, box_device(L, 1), true), 1;
  if (strcmp(key, "free") == 0) return push_memory(L, box_device(L, 1), false), 1;
  if (strcmp(key, "pool") == 0) return push_pool(L, box_device(L, 1)), 1;
  return rp_method(L);
}

static int to_string(lua_State *L) {
  rp_device *dev = *(rp_device **)luaL_checkudata(L, 1, RP_DEVICE_NAME);
  lua_pushfstring(L, "device %s (%s)%s", dev->name, dev->model, dev->closed ? ", closed" : "");
  return 1;
}

static int collect(lua_State *L) {
  rp_device **box = luaL_checkudata(L, 1, RP_DEVICE_NAME);
  rp_device_release(*box);
  *box = NULL;
  return 0;
}

/* The pool of the device's handle at `arg`, which keeps it. */
static rp_pool *pool_of_handle(lua_State *L, int arg, rp_device *dev) {
  if (lua_getiuservalue(L, arg, 1) != LUA_TUSERDATA) {
    lua_pushcfunction(L, get);
    lua_pushvalue(L, arg);
    lua_pushliteral(L, "pool");
    lua_call(L, 2, 1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return dev->pool;
}

rp_pool *rp_check_pool(lua_State *L, int arg) {
  rp_device **handle = rp_test(L, arg, class); /* first: it is what constructors are given most */
  if (handle) {
    rp_check(L, rp_device_usable(*handle));
    return pool_of_handle(L, lua_absindex(L, arg), *handle);
  }
  rp_pool **box = luaL_testudata(L, arg, RP_POOL_NAME);
  if (!box) {
    rp_device *dev = rp_check_device(L, arg);
    return pool_of_handle(L, lua_absindex(L, arg), dev);
  }
  if (!*box) rp_argument_error(L, arg, "the pool is closed");
  rp_check(L, rp_device_usable((*box)->device));
  return *box;
}

void rp_bind_device(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"device", device}, {"devices", devices}, {"has_cuda", has_cuda}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"synchronize", synchronize}, {"close", close_device}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {{"__gc", collect}, {"__tostring", to_string}, {NULL, NULL}};
  rp_class(L, class, methods, get, metamethods);
  luaL_setfuncs(L, functions, 0);
}
