/* bind.c - see bind.h. */
#include "bind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors */

/* Is this chunk a part of the library? Its frames are not what a user wants to read. */
static int ours(const char *source) { return source[0] == '@' && strstr(source, "lua/reprise/") != NULL; }

static int find_frame(lua_State *L, lua_Debug *ar) {
  for (int level = 0; lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "Sl", ar);
    if (ar->currentline > 0 && !ours(ar->source)) return 1;
  }
  return 0;
}

const char *rp_where(lua_State *L) {
  lua_Debug ar;
  if (find_frame(L, &ar)) return lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  return lua_pushliteral(L, "");
}

/* Puts "file:line: " before the string on top and raises. */
static int raise_top(lua_State *L) {
  const char *where = rp_where(L);
  if (*where) lua_pushliteral(L, ": ");
  else lua_pushliteral(L, "");
  lua_rotate(L, -3, 2);
  lua_concat(L, 3);
  return lua_error(L);
}

int rp_raise(lua_State *L) {
  lua_pushstring(L, rp_message());
  return raise_top(L);
}

int rp_error(lua_State *L, const char *format, ...) {
  va_list args;
  va_start(args, format);
  lua_pushvfstring(L, format, args);
  va_end(args);
  return raise_top(L);
}

/* "method 'view'" counts its object as no argument, as Lua's own messages do. */
static int named_error(lua_State *L, int arg, const char *why) {
  lua_Debug ar;
  if (!lua_getstack(L, 0, &ar)) return rp_error(L, "bad argument #%d (%s)", arg, why);
  lua_getinfo(L, "n", &ar);
  const char *name = ar.name ? ar.name : "?";
  if (ar.namewhat && strcmp(ar.namewhat, "method") == 0 && --arg == 0)
    return rp_error(L, "calling '%s' on bad self (%s)", name, why);
  return rp_error(L, "bad argument #%d to '%s' (%s)", arg, name, why);
}

int rp_argument_error(lua_State *L, int arg, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *why = lua_pushvfstring(L, format, args);
  va_end(args);
  return named_error(L, arg, why);
}

static const char *type_name(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__name") == LUA_TSTRING) return lua_tostring(L, -1);
  return lua_type(L, index) == LUA_TLIGHTUSERDATA ? "light userdata" : luaL_typename(L, index);
}

int rp_type_error(lua_State *L, int arg, const char *expected) {
  return rp_argument_error(L, arg, "%s expected, got %s", expected, type_name(L, arg));
}

void rp_check(lua_State *L, rp_status status) {
  if (status != RP_OK) rp_raise(L);
}

int rp_collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT);
  lua_gc(L, LUA_GCCOLLECT); /* what a finalizer let go */
  return 1;
}

/* ---- userdata */

void rp_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction get,
              const luaL_Reg *metamethods) {
  luaL_newmetatable(L, name);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, name);
  lua_newtable(L);
  if (methods) luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "methods"); /* seen by completion and documentation */
  if (get) lua_pushcclosure(L, get, 1);
  lua_setfield(L, -2, "__index");
  if (metamethods) luaL_setfuncs(L, metamethods, 0);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

int rp_method(lua_State *L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  return 1;
}

void *rp_new(lua_State *L, size_t bytes, const char *name) {
  void *box = lua_newuserdatauv(L, bytes, 1);
  memset(box, 0, bytes);
  luaL_setmetatable(L, name);
  return box;
}

void *rp_test(lua_State *L, int index, const char *name) {
  void *box = lua_touserdata(L, index);
  if (!box || !lua_getmetatable(L, index)) return NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, name);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? box : NULL;
}

void rp_set_class(lua_State *L, const char *name) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, name);
  lua_setmetatable(L, -2);
}

/* ---- numbers, shapes, dtypes */

rp_number rp_to_number(lua_State *L, int index) {
  if (lua_isinteger(L, index)) return (rp_number){.is_integer = true, .integer = lua_tointeger(L, index)};
  return (rp_number){.real = lua_tonumber(L, index)};
}

rp_number rp_check_number(lua_State *L, int arg) {
  if (lua_type(L, arg) != LUA_TNUMBER) rp_type_error(L, arg, "number");
  return rp_to_number(L, arg);
}

void rp_push_number(lua_State *L, rp_number number) {
  if (number.is_integer) lua_pushinteger(L, number.integer);
  else lua_pushnumber(L, number.real);
}

void rp_push_shape(lua_State *L, int rank, const int64_t *shape) {
  lua_createtable(L, rank, 0);
  for (int d = 0; d < rank; d++) {
    lua_pushinteger(L, shape[d]);
    lua_rawseti(L, -2, d + 1);
  }
}

const char *rp_push_bytes(lua_State *L, size_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  char text[40];
  double value = (double)bytes;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) value /= 1024, unit++;
  snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return lua_pushstring(L, text);
}

const char *rp_push_count(lua_State *L, size_t count, const char *noun) {
  return lua_pushfstring(L, "%I %s%s", (LUAI_UACINT)count, noun, count == 1 ? "" : "s");
}

const char *rp_check_text(lua_State *L, int arg) {
  size_t length;
  const char *text = luaL_checklstring(L, arg, &length);
  if (strlen(text) != length) rp_argument_error(L, arg, "it holds a NUL byte");
  return text;
}

const char *rp_plain_text(lua_State *L, int index, const char *what) {
  const char *text = lua_tostring(L, index);
  if (strlen(text) != lua_rawlen(L, index)) rp_error(L, "%s: it holds a NUL byte", what);
  return text;
}

rp_dtype rp_check_dtype(lua_State *L, int arg) {
  rp_dtype dtype;
  if (lua_type(L, arg) != LUA_TSTRING) rp_type_error(L, arg, "dtype");
  const char *name = rp_check_text(L, arg);
  if (rp_dtype_parse(name, &dtype)) return dtype;
  rp_argument_error(L, arg, "unknown dtype '%s': expected f32, f16, bf16, i32, i64 or u8", name);
  return RP_F32;
}

rp_dtype rp_opt_dtype(lua_State *L, int arg, rp_dtype otherwise) {
  return lua_isnoneornil(L, arg) ? otherwise : rp_check_dtype(L, arg);
}

static int64_t shape_entry(lua_State *L, int arg, int d) {
  int is_integer;
  lua_rawgeti(L, arg, d + 1);
  int64_t n = lua_tointegerx(L, -1, &is_integer);
  if (!is_integer || lua_type(L, -1) != LUA_TNUMBER)
    rp_argument_error(L, arg, "dimension %d of the shape: integer expected, got %s", d + 1, type_name(L, -1));
  lua_pop(L, 1);
  return n;
}

int rp_check_shape(lua_State *L, int arg, int64_t *shape) {
  if (lua_type(L, arg) == LUA_TNUMBER && lua_isinteger(L, arg)) return shape[0] = lua_tointeger(L, arg), 1;
  if (lua_type(L, arg) != LUA_TTABLE) rp_type_error(L, arg, "shape (a table of integers)");
  lua_Unsigned rank = lua_rawlen(L, arg);
  if (rank > RP_RANK) rp_argument_error(L, arg, "%d dimensions: at most %d are possible", (int)rank, RP_RANK);
  for (int d = 0; d < (int)rank; d++) shape[d] = shape_entry(L, arg, d);
  return (int)rank;
}

int rp_call_module(lua_State *L, const char *name, int arguments, int results) {
  lua_getglobal(L, "require");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
  lua_insert(L, -arguments - 1);
  lua_call(L, arguments, results);
  return results;
}
