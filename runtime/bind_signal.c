/* bind_signal.c - signals: mapped host memory that kernels write and scripts read without waiting. */
#include <string.h>

#include "bind.h"

rp_signal *rp_test_signal(lua_State *L, int index) {
  rp_signal **box = luaL_testudata(L, index, RP_SIGNAL_NAME);
  return box ? *box : NULL;
}

static rp_signal *check_signal(lua_State *L) {
  luaL_checkudata(L, 1, RP_SIGNAL_NAME);
  rp_signal *s = rp_test_signal(L, 1);
  if (!s) rp_argument_error(L, 1, "the signal is closed");
  return s;
}

/* signal(place, records): 128 records unless given */
static int signal(lua_State *L) {
  lua_settop(L, 2);
  lua_Integer records = luaL_optinteger(L, 2, 128);
  if (records < 1 || records > UINT16_MAX)
    return rp_argument_error(L, 2, "%I records: 1 to 65535 are possible", (LUAI_UACINT)records);
  rp_pool *pool = rp_check_pool(L, 1);
  rp_signal **box = rp_new(L, sizeof *box, RP_SIGNAL_NAME);
  RP_CALL(L, rp_signal_new(pool, (uint32_t)records, box));
  return 1;
}

/* reset(): starts a run; its epoch */
static int reset(lua_State *L) {
  lua_pushinteger(L, rp_signal_reset(check_signal(L)));
  return 1;
}

/* step(): the newest step published in this run, and whether decoding is done */
static int step(lua_State *L) {
  bool done;
  lua_pushinteger(L, rp_signal_step(check_signal(L), &done));
  lua_pushboolean(L, done);
  return 2;
}

/* read(i): record i of this run, from 0; nil while it is not there */
static int read(lua_State *L) {
  int32_t value;
  rp_signal *s = check_signal(L);
  lua_Integer index = luaL_checkinteger(L, 2);
  if (index < 0 || index > UINT16_MAX)
    return rp_argument_error(L, 2, "record %I: 0 to 65535 are possible", (LUAI_UACINT)index);
  if (!rp_signal_read(s, (uint32_t)index, &value)) return lua_pushnil(L), 1;
  lua_pushinteger(L, value);
  return 1;
}

/* wait(i): the same, waiting for it; nil when the device is idle and it is not there */
static int wait_for(lua_State *L) {
  bool there;
  int32_t value;
  rp_signal *s = check_signal(L);
  lua_Integer index = luaL_checkinteger(L, 2);
  if (index < 0 || index > UINT16_MAX)
    return rp_argument_error(L, 2, "record %d: 0 to 65535 are possible", (int)index);
  RP_CALL(L, rp_signal_wait(s, (uint32_t)index, &value, &there));
  if (!there) return lua_pushnil(L), 1;
  lua_pushinteger(L, value);
  return 1;
}

static int get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  if (rp_method(L) && !lua_isnil(L, -1)) return 1;
  rp_signal *s = check_signal(L);
  if (strcmp(key, "words") == 0) {
    rp_tensor *words = rp_push_tensor(L);
    s = check_signal(L); /* making the handle may have run a finalizer that closed it */
    return *words = rp_tensor_share(&s->words), 1;
  }
  if (strcmp(key, "epoch") == 0) return lua_pushinteger(L, s->epoch), 1;
  if (strcmp(key, "records") == 0) return lua_pushinteger(L, s->records), 1;
  return 0;
}

static int close_signal(lua_State *L) {
  rp_signal **box = luaL_checkudata(L, 1, RP_SIGNAL_NAME);
  rp_signal_release(*box);
  *box = NULL;
  return 0;
}

static int to_string(lua_State *L) {
  bool done;
  rp_signal *s = *(rp_signal **)luaL_checkudata(L, 1, RP_SIGNAL_NAME);
  if (!s) return lua_pushliteral(L, "signal, closed"), 1;
  uint32_t at = rp_signal_step(s, &done);
  lua_pushfstring(L, "signal: epoch %d, step %d%s", (int)s->epoch, (int)at, done ? ", done" : "");
  return 1;
}

void rp_bind_signal(lua_State *L) {
  static const luaL_Reg functions[] = {{"signal", signal}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"reset", reset},   {"step", step},          {"read", read},
                                     {"wait", wait_for}, {"close", close_signal}, {NULL, NULL}};
  static const luaL_Reg metamethods[] = {
      {"__gc", close_signal}, {"__close", close_signal}, {"__tostring", to_string}, {NULL, NULL}};
  rp_class(L, RP_SIGNAL_NAME, methods, get, metamethods);
  luaL_setfuncs(L, functions, 0);
}
