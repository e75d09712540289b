/* host.c - a host program that does with reprise.h what example.c does not: addresses, errors, states one after the
 * other. Prints a line a step; host_spec.lua compares them.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <reprise.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const int64_t shape[] = {2, 2};
static const float values[] = {1, 2, 3, 4};

static int push_wrong_dtype(lua_State *L) { return rp_buffer_push(L, "f64", 2, shape, values), 0; }
static int push_wrong_rank(lua_State *L) { return rp_buffer_push(L, "f32", 9, shape, values), 0; }

static int read_number(lua_State *L) {
  lua_pushinteger(L, 1);
  return (int)rp_buffer_read(L, -1, NULL, 0);
}

static int read_into_little(lua_State *L) {
  float little[3];
  rp_buffer_push(L, "f32", 2, shape, values);
  return (int)rp_buffer_read(L, -1, little, sizeof little);
}

static int read_closed(lua_State *L) {
  rp_buffer_push(L, "f32", 2, shape, values);
  lua_getfield(L, -1, "close");
  lua_pushvalue(L, -2);
  lua_call(L, 1, 0);
  return (int)rp_buffer_read(L, -1, NULL, 0);
}

/* A transposed view arrives packed. */
static int read_view(lua_State *L) {
  float back[4];
  rp_buffer_push(L, "f32", 2, shape, values);
  lua_getfield(L, -1, "transpose");
  lua_insert(L, -2);
  lua_pushinteger(L, 1);
  lua_pushinteger(L, 2);
  lua_call(L, 3, 1);
  printf("%d bytes\n", (int)rp_buffer_read(L, -1, NULL, 0));
  rp_buffer_read(L, -1, back, sizeof back);
  return printf("%g %g %g %g\n", back[0], back[1], back[2], back[3]), 0;
}

/* Does the tensor on top lie on the CPU? */
static bool is_cpu(lua_State *L) {
  lua_getfield(L, -1, "device");
  lua_getfield(L, -1, "name");
  bool cpu = strcmp(lua_tostring(L, -1), "cpu") == 0;
  lua_pop(L, 2);
  return cpu;
}

/* A captured step copies its input only when it changed: written behind its back, it changed once that was told.
 * Memory of a GPU is not the host's to write: nothing changes there. */
static int write_in_place(lua_State *L) {
  static const char script[] = "local step = require 'reprise'.capture(function(x) return x end)\n"
                               "return function(x) return step(x)[1][1] end";
  if (luaL_dostring(L, script)) return lua_error(L);
  rp_buffer_push(L, "f32", 2, shape, values);
  bool ours = is_cpu(L);
  for (int i = 0; i < 3; i++) {
    float *at = rp_buffer_address(L, 2);
    if (ours) *at = (float)i * 10;
    if (i != 1) rp_buffer_touched(L, 2);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    printf("%g ", lua_tonumber(L, -1));
    lua_settop(L, 2);
  }
  return printf("\n"), 0;
}

static int open_twice(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  rp_state_open(L);
  lua_getfield(L, 1, "path");
  return printf("%s\n", lua_compare(L, -1, -2, LUA_OPEQ) ? "one path" : "two paths"), 0;
}

static void show(lua_State *L, lua_CFunction f) {
  lua_settop(L, 0);
  lua_pushcfunction(L, f);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) printf("%s\n", lua_tostring(L, -1));
}

int main(void) {
  static const lua_CFunction steps[] = {push_wrong_dtype, push_wrong_rank, read_number,    read_into_little,
                                        read_closed,      read_view,       write_in_place, open_twice};
  for (int round = 0; round < 2; round++) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    rp_state_open(L);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) show(L, steps[i]);
    lua_close(L);
  }
}
