/* bind_file.c - what Lua needs of the host: JSON values, safetensors files, a clock.
 *
 *   core.json_decode(text [, name])   objects and lists become tables, null core.null; `name` is for errors
 *   core.json_encode(value [, keys])  objects show the names in `keys` first, in this order; else sorted
 *   core.safetensors(path)            a file: file:names() file:info(name) file:tensor(name [, device])
 *                                     file:same(name, other, other_name) file:close()
 *   core.safetensors_write(path, list) of { name, tensor } pairs
 *   core.clock()                      seconds since some moment; never goes back
 *
 * A JSON tree that is being read or written lies in a userdata, so that a Lua error cannot leak it. The
 * functions that build a tree never raise: they store a message and return NULL.
 */
#include "bind.h"

#include <jansson.h>
#include <string.h>
#include <time.h>

#include "safetensors.h"
#include "safetensors_write.h"

#define TREE_NAME "reprise.JSON"               /* userdata: tree, see below */
#define SAFETENSORS_NAME "reprise.Safetensors" /* rp_safetensors *; its path is the user value */

enum { DEEPEST = 200 }; /* levels of a value to encode: more is a table that holds itself */

/* ---- JSON */

typedef struct tree {
  json_t *root;
} tree;

static void drop(tree *t) {
  json_decref(t->root);
  t->root = NULL;
}

/* After an error. What is made while a state closes is never finalized: else drop is called when it is done. */
static int tree_free(lua_State *L) {
  drop(lua_touserdata(L, 1));
  return 0;
}

static const luaL_Reg tree_meta[] = {{"__gc", tree_free}, {NULL, NULL}};

static void push_json(lua_State *L, json_t *value);

static void push_object(lua_State *L, json_t *object) {
  const char *key;
  json_t *item;
  lua_createtable(L, 0, (int)json_object_size(object));
  json_object_foreach(object, key, item) {
    lua_pushstring(L, key);
    push_json(L, item);
    lua_rawset(L, -3);
  }
}

static void push_array(lua_State *L, json_t *array) {
  size_t i;
  json_t *item;
  lua_createtable(L, (int)json_array_size(array), 0);
  json_array_foreach(array, i, item) {
    push_json(L, item);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static void push_json(lua_State *L, json_t *value) {
  luaL_checkstack(L, 4, "JSON is nested too deep");
  switch (json_typeof(value)) {
    case JSON_OBJECT: push_object(L, value); break;
    case JSON_ARRAY: push_array(L, value); break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: lua_pushinteger(L, json_integer_value(value)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(value)); break;
    case JSON_TRUE: lua_pushboolean(L, 1); break;
    case JSON_FALSE: lua_pushboolean(L, 0); break;
    case JSON_NULL: lua_pushlightuserdata(L, NULL); break;
  }
}

static int json_decode(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length), *name = luaL_optstring(L, 2, "JSON");
  tree *t = rp_new(L, sizeof *t, TREE_NAME);
  json_error_t error;
  t->root = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
  if (!t->root) return rp_error(L, "read %s: not JSON: line %d: %s", name, error.line, error.text);
  push_json(L, t->root);
  drop(t);
  return 1;
}

/* Stores why, and returns the NULL that the builders pass on. */
static json_t *refused(const char *why, const char *what) {
  rp_fail(RP_ARGUMENT, "encode JSON: %s%s", why, what);
  return NULL;
}

static json_t *build(lua_State *L, int keys, int depth);

/* jansson's objects have no names with a NUL byte, and its readers take none. */
static bool cut(lua_State *L, int index) { return strlen(lua_tostring(L, index)) != lua_rawlen(L, index); }

/* How many pairs the table at the top of the stack has. */
static lua_Integer pairs(lua_State *L) {
  lua_Integer count = 0;
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) count++;
  return count;
}

/* The list at the top of the stack. */
static json_t *build_array(lua_State *L, int keys, int depth) {
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  if (count != pairs(L)) return refused("a table with both list items and names", "");
  json_t *array = json_array();
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, i);
    json_t *item = build(L, keys, depth);
    lua_pop(L, 1);
    if (item && json_array_append_new(array, item) == 0) continue;
    json_decref(array);
    return NULL;
  }
  return array;
}

/* Takes the key below and the value at the top of the stack into the object; false on failure. */
static bool set_pair(lua_State *L, json_t *object, int keys, int depth) {
  if (lua_type(L, -2) != LUA_TSTRING) return refused("a table with both names and other keys", "") != NULL;
  if (cut(L, -2)) return refused("a name holds a NUL byte: ", lua_tostring(L, -2)) != NULL;
  json_t *item = build(L, keys, depth);
  if (!item) return false;
  const char *key = lua_tostring(L, -2);
  return json_object_set_new(object, key, item) == 0 || refused("a name is not UTF-8", "") != NULL;
}

/* The names that `keys` lists, in its order: the rest keeps the place it gets. */
static void reserve_order(lua_State *L, json_t *object, int keys) {
  lua_Integer count = (lua_Integer)lua_rawlen(L, keys);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, keys, i);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) != LUA_TNIL) json_object_set_new(object, lua_tostring(L, -2), json_null());
    lua_pop(L, 2);
  }
}

/* The table with names at the top of the stack. */
static json_t *build_object(lua_State *L, int keys, int depth) {
  json_t *object = json_object();
  if (object && keys) reserve_order(L, object, keys);
  for (lua_pushnil(L); object && lua_next(L, -2); lua_pop(L, 1)) {
    if (set_pair(L, object, keys, depth)) continue;
    lua_pop(L, 2);
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *build_table(lua_State *L, int keys, int depth) {
  if (depth > DEEPEST || !lua_checkstack(L, 8)) return refused("tables are nested too deep", "");
  bool list = lua_rawlen(L, -1) || pairs(L) == 0;
  return list ? build_array(L, keys, depth + 1) : build_object(L, keys, depth + 1);
}

static json_t *build_number(lua_State *L) {
  if (lua_isinteger(L, -1)) return json_integer(lua_tointeger(L, -1));
  json_t *number = json_real(lua_tonumber(L, -1));
  return number ? number : refused("a number is not finite", "");
}

static json_t *build_string(lua_State *L) {
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  json_t *string = json_stringn(text, length);
  return string ? string : refused("a string is not UTF-8", "");
}

/* The value at the top of the stack, which stays. NULL on failure, with a message. */
static json_t *build(lua_State *L, int keys, int depth) {
  switch (lua_type(L, -1)) {
    case LUA_TTABLE: return build_table(L, keys, depth);
    case LUA_TSTRING: return build_string(L);
    case LUA_TNUMBER: return build_number(L);
    case LUA_TBOOLEAN: return json_boolean(lua_toboolean(L, -1));
    case LUA_TLIGHTUSERDATA:
      if (!lua_touserdata(L, -1)) return json_null();
  }
  return refused("no JSON for a ", luaL_typename(L, -1));
}

static int json_encode(lua_State *L) {
  luaL_checkany(L, 1);
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
  int keys = lua_istable(L, 2) ? 2 : 0;
  for (lua_Integer i = 1; keys && i <= (lua_Integer)lua_rawlen(L, 2); i++, lua_pop(L, 1))
    if (lua_rawgeti(L, 2, i) != LUA_TSTRING || cut(L, -1))
      return rp_argument_error(L, 2, "a list of names expected");
  tree *t = rp_new(L, sizeof *t, TREE_NAME);
  lua_pushvalue(L, 1);
  t->root = build(L, keys, 0);
  if (!t->root) return rp_raise(L);
  const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(17) | (keys ? 0 : JSON_SORT_KEYS);
  size_t length = json_dumpb(t->root, NULL, 0, flags);
  char *text = lua_newuserdatauv(L, length, 0);
  if (json_dumpb(t->root, text, length, flags) != length) return rp_error(L, "encode JSON: out of memory");
  lua_pushlstring(L, text, length);
  drop(t);
  return 1;
}

static int host_clock(lua_State *L) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  lua_pushnumber(L, (lua_Number)t.tv_sec + (lua_Number)t.tv_nsec * 1e-9);
  return 1;
}

/* ---- safetensors */

static rp_safetensors *check_file(lua_State *L, int arg) {
  rp_safetensors **box = luaL_testudata(L, arg, SAFETENSORS_NAME);
  if (!box) rp_type_error(L, arg, SAFETENSORS_NAME);
  if (!*box) rp_argument_error(L, arg, "%s is closed", SAFETENSORS_NAME);
  return *box;
}

/* Raises unless the file has the tensor that argument `arg` names. Borrowed from the file: a finalizer may close that at
 * any allocation, so it is asked for behind the last one. */
static const rp_stored *check_stored(lua_State *L, int file_arg, int arg) {
  const char *name = (check_file(L, file_arg), rp_check_text(L, arg));
  const rp_stored *stored = rp_safetensors_find(check_file(L, file_arg), name);
  if (stored) return stored;
  lua_getiuservalue(L, file_arg, 1);
  rp_error(L, "read %s: tensor \"%s\": not in this file", lua_tostring(L, -1), name);
  return NULL;
}

static int safetensors_open(lua_State *L) {
  const char *path = rp_check_text(L, 1);
  rp_safetensors **box = rp_new(L, sizeof *box, SAFETENSORS_NAME);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  RP_CALL(L, rp_safetensors_open(path, box));
  return 1;
}

static int file_close(lua_State *L) {
  rp_safetensors **box = luaL_checkudata(L, 1, SAFETENSORS_NAME);
  rp_safetensors_close(*box);
  *box = NULL;
  return 0;
}

static int file_text(lua_State *L) {
  rp_safetensors **box = luaL_checkudata(L, 1, SAFETENSORS_NAME);
  lua_getiuservalue(L, 1, 1);
  lua_pushfstring(L, "%s (%s%s)", SAFETENSORS_NAME, lua_tostring(L, -1), *box ? "" : ", closed");
  return 1;
}

static int file_names(lua_State *L) {
  size_t count = rp_safetensors_count(check_file(L, 1));
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_pushstring(L, rp_safetensors_at(check_file(L, 1), i)->name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int file_info(lua_State *L) {
  const char *name = (check_file(L, 1), rp_check_text(L, 2));
  lua_createtable(L, 0, 3);
  const rp_stored *found = rp_safetensors_find(check_file(L, 1), name);
  if (!found) return lua_pushnil(L), 1;
  const rp_stored stored = *found; /* its texts are gone once something was allocated */
  lua_pushstring(L, stored.dtype), lua_setfield(L, -2, "dtype");
  lua_pushinteger(L, (lua_Integer)(stored.to - stored.from)), lua_setfield(L, -2, "bytes");
  rp_push_shape(L, stored.rank, stored.shape), lua_setfield(L, -2, "shape");
  return 1;
}

static int no_dtype(lua_State *L, const rp_stored *stored) {
  lua_getiuservalue(L, 1, 1);
  return rp_error(L, "read %s: tensor \"%s\": dtype %s: tensors are F32, F16, BF16, I32, I64 or U8",
                  lua_tostring(L, -1), stored->name, stored->dtype);
}

/* file:tensor(name [, device or pool]): from the mapping straight into the pool. */
static int file_tensor(lua_State *L) {
  check_stored(L, 1, 2);
  rp_pool *pool = rp_check_pool(L, 3);
  rp_tensor *x = rp_push_tensor(L);
  const rp_stored stored = *check_stored(L, 1, 2);
  rp_dtype dtype;
  if (!rp_dtype_stored(stored.dtype, &dtype)) return no_dtype(L, &stored);
  RP_CALL(L, rp_tensor_empty(pool, dtype, stored.rank, stored.shape, x));
  rp_check(L, rp_tensor_write(x, check_stored(L, 1, 2)->data));
  return 1;
}

/* file:same(name, other, other_name): are the bytes equal? */
static int file_same(lua_State *L) {
  /* now both names are strings, and nothing is allocated any more */
  check_stored(L, 1, 2), check_stored(L, 3, 4);
  const rp_stored *a = check_stored(L, 1, 2), *b = check_stored(L, 3, 4);
  size_t bytes = a->to - a->from;
  lua_pushboolean(L, bytes == b->to - b->from && memcmp(a->data, b->data, bytes) == 0);
  return 1;
}

/* The pair { name, tensor } at the top of the stack; the list keeps both. */
static rp_to_store check_pair(lua_State *L, lua_Integer i) {
  if (!lua_istable(L, -1))
    rp_argument_error(L, 2, "item %d: a pair { name, tensor } expected, got %s", (int)i,
                      luaL_typename(L, -1));
  if (lua_rawgeti(L, -1, 1) != LUA_TSTRING)
    rp_argument_error(L, 2, "item %d: name: string expected, got %s", (int)i, luaL_typename(L, -1));
  lua_rawgeti(L, -2, 2);
  const rp_tensor *x = rp_test_tensor(L, -1);
  if (!x || !x->block)
    rp_argument_error(L, 2, "item %d: an open tensor expected, got %s", (int)i, luaL_tolstring(L, -1, NULL));
  if (cut(L, -2)) rp_argument_error(L, 2, "item %d: name: it holds a NUL byte", (int)i);
  rp_to_store pair = {lua_tostring(L, -2), x};
  lua_pop(L, 2);
  return pair;
}

/* safetensors_write(path, list of { name, tensor }) */
static int safetensors_write(lua_State *L) {
  const char *path = rp_check_text(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t count = lua_rawlen(L, 2);
  rp_to_store *list = lua_newuserdatauv(L, (count + 1) * sizeof *list, 0);
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i + 1);
    list[i] = check_pair(L, (lua_Integer)i + 1);
    lua_pop(L, 1);
  }
  RP_CALL(L, rp_safetensors_write(path, list, count));
  return 0;
}

static const luaL_Reg file_methods[] = {
    {"names", file_names}, {"info", file_info},   {"tensor", file_tensor},
    {"same", file_same},   {"close", file_close}, {NULL, NULL},
};
static const luaL_Reg file_meta[] = {
    {"__gc", file_close},
    {"__close", file_close},
    {"__tostring", file_text},
    {NULL, NULL},
};
static const luaL_Reg functions[] = {
    {"json_decode", json_decode},
    {"json_encode", json_encode},
    {"safetensors", safetensors_open},
    {"safetensors_write", safetensors_write},
    {"clock", host_clock},
    {NULL, NULL},
};

void rp_bind_file(lua_State *L) {
  rp_class(L, TREE_NAME, NULL, NULL, tree_meta);
  rp_class(L, SAFETENSORS_NAME, file_methods, NULL, file_meta);
  luaL_setfuncs(L, functions, 0);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
}
