/* bind_tensor.c - tensors: making them from Lua values, views, copies, reading values. */
#include <math.h>
#include <string.h>

#include "bind.h"

static const lua_Integer HOST_BYTES = (lua_Integer)1
                                      << 46; /* more than any host has: sizes below do not overflow */

/* ---- handles */

static const char class[] = RP_TENSOR_NAME;

rp_tensor *rp_push_tensor(lua_State *L) {
  rp_tensor *x = lua_newuserdatauv(L, sizeof *x, 0);
  *x = (rp_tensor){0};
  rp_set_class(L, class);
  rp_scope_note(L);
  return x;
}

rp_tensor *rp_test_tensor(lua_State *L, int index) { return rp_test(L, index, class); }

/* Open or closed. */
static rp_tensor *check_handle(lua_State *L, int arg) {
  rp_tensor *x = rp_test_tensor(L, arg);
  if (!x) rp_type_error(L, arg, RP_TENSOR_NAME);
  return x;
}

rp_tensor *rp_check_tensor(lua_State *L, int arg) {
  rp_tensor *x = check_handle(L, arg);
  if (!x->block) rp_argument_error(L, arg, "the tensor is closed");
  return x;
}

/* Dimensions and elements count from 1, negatives from the end. */
static int64_t from_end(lua_Integer i, int64_t size) { return i < 0 ? i + size : i - 1; }

static int check_dim(lua_State *L, int arg, const rp_tensor *x) {
  lua_Integer dim = luaL_checkinteger(L, arg);
  int64_t d = from_end(dim, x->rank);
  if (dim == 0 || d < 0 || d >= x->rank)
    rp_argument_error(L, arg, "dimension %I of a tensor that has %d", (LUAI_UACINT)dim, x->rank);
  return (int)d;
}

/* ---- making */

static void *scratch(lua_State *L, size_t bytes) { return lua_newuserdatauv(L, bytes ? bytes : 1, 0); }

static int empty(lua_State *L) {
  int64_t shape[RP_RANK];
  lua_settop(L, 3);
  int rank = rp_check_shape(L, 1, shape);
  rp_dtype dtype = rp_opt_dtype(L, 2, RP_F32);
  rp_pool *pool = rp_check_pool(L, 3);
  rp_tensor *x = rp_push_tensor(L);
  RP_CALL(L, rp_tensor_empty(pool, dtype, rank, shape, x));
  return 1;
}

static void check_element(lua_State *L, int arg, rp_dtype dtype, rp_number number, void *out) {
  if (rp_number_store(rp_dtype_type(dtype), number, out) != RP_OK)
    rp_argument_error(L, arg, "%s", rp_message());
}

/* A tensor full of `value`, which is argument `value_arg`; dtype and place follow from `rest` on. */
static int filled(lua_State *L, rp_number value, int value_arg, int rest) {
  int64_t shape[RP_RANK];
  unsigned char element[8];
  int rank = rp_check_shape(L, 1, shape);
  rp_dtype dtype = rp_opt_dtype(L, rest, RP_F32);
  check_element(L, value_arg, dtype, value, element);
  rp_pool *pool = rp_check_pool(L, rest + 1);
  rp_tensor *x = rp_push_tensor(L);
  RP_CALL(L, rp_tensor_empty(pool, dtype, rank, shape, x));
  rp_check(L, rp_tensor_fill(x, element));
  return 1;
}

/* full(shape, value, dtype, place) */
static int full(lua_State *L) {
  lua_settop(L, 4);
  return filled(L, rp_check_number(L, 2), 2, 3);
}

/* zeros(shape, dtype, place) */
static int zeros(lua_State *L) {
  lua_settop(L, 3);
  return filled(L, (rp_number){.is_integer = true}, 1, 2);
}

/* arange(n, dtype, place): 0 .. n - 1; dtype i32 unless given */
static int arange(lua_State *L) {
  lua_settop(L, 3);
  lua_Integer n = luaL_checkinteger(L, 1);
  if (n < 0) rp_argument_error(L, 1, "%I is negative", (LUAI_UACINT)n);
  rp_dtype dtype = rp_opt_dtype(L, 2, RP_I32);
  rp_pool *pool = rp_check_pool(L, 3);
  size_t bytes = rp_dtype_bytes(dtype);
  if (n > HOST_BYTES / (lua_Integer)bytes)
    rp_argument_error(L, 1, "%I elements are more than a host list can hold", (LUAI_UACINT)n);
  char *data = scratch(L, (size_t)n * bytes);
  for (lua_Integer i = 0; i < n; i++)
    check_element(L, 1, dtype, (rp_number){.is_integer = true, .integer = i}, data + (size_t)i * bytes);
  rp_tensor *x = rp_push_tensor(L);
  RP_CALL(L, rp_tensor_empty(pool, dtype, 1, &(int64_t){n}, x));
  rp_check(L, rp_tensor_write(x, data));
  return 1;
}

/* What a nested table is being read into. */
typedef struct reading {
  int rank;
  int64_t shape[RP_RANK];
  rp_dtype dtype;
  char *data;
  size_t at;                 /* elements stored */
  lua_Integer path[RP_RANK]; /* where we are, for messages */
} reading;

static void bad_element(lua_State *L, const reading *r, int depth, const char *why) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int d = 0; d < depth; d++)
    luaL_addstring(&b, lua_pushfstring(L, "[%d]", (int)r->path[d])), lua_remove(L, -2);
  luaL_pushresult(&b);
  rp_argument_error(L, 1, "value%s: %s", lua_tostring(L, -1), why);
}

/* The shape is that of the first elements. */
static void measure(lua_State *L, reading *r) {
  lua_pushvalue(L, 1);
  while (lua_istable(L, -1)) {
    if (r->rank == RP_RANK) rp_argument_error(L, 1, "nested deeper than %d dimensions", RP_RANK);
    r->shape[r->rank++] = (int64_t)lua_rawlen(L, -1);
    luaL_checkstack(L, 4, "nested too deeply");
    lua_rawgeti(L, -1, 1);
  }
  lua_settop(L, 3);
}

static void read_value(lua_State *L, reading *r, int depth) {
  if (depth < r->rank) {
    if (!lua_istable(L, -1))
      bad_element(L, r, depth, lua_pushfstring(L, "table expected, got %s", luaL_typename(L, -1)));
    if ((int64_t)lua_rawlen(L, -1) != r->shape[depth])
      bad_element(
          L, r, depth,
          lua_pushfstring(L, "%d elements expected, got %d", (int)r->shape[depth], (int)lua_rawlen(L, -1)));
    for (int64_t i = 1; i <= r->shape[depth]; i++) {
      r->path[depth] = i;
      lua_rawgeti(L, -1, i);
      read_value(L, r, depth + 1);
      lua_pop(L, 1);
    }
    return;
  }
  if (lua_type(L, -1) != LUA_TNUMBER)
    bad_element(L, r, depth, lua_pushfstring(L, "number expected, got %s", luaL_typename(L, -1)));
  if (rp_number_store(rp_dtype_type(r->dtype), rp_to_number(L, -1),
                      r->data + r->at++ * rp_dtype_bytes(r->dtype)) != RP_OK)
    bad_element(L, r, depth, rp_message());
}

/* tensor(value, dtype, place): a number or nested tables */
static int tensor(lua_State *L) {
  reading r = {0};
  lua_settop(L, 3);
  if (!lua_istable(L, 1) && lua_type(L, 1) != LUA_TNUMBER)
    rp_type_error(L, 1, "number or nested tables of numbers");
  r.dtype = rp_opt_dtype(L, 2, RP_F32);
  rp_pool *pool = rp_check_pool(L, 3);
  if (pool->device->record) rp_error(L, "uploading values: not allowed during capture");
  measure(L, &r);
  size_t count = 1;
  for (int d = 0; d < r.rank; d++)
    if (__builtin_mul_overflow(count, (size_t)r.shape[d], &count) || count > (size_t)HOST_BYTES / 8)
      rp_argument_error(L, 1, "more elements than a host list can hold");
  r.data = scratch(L, count * rp_dtype_bytes(r.dtype));
  lua_pushvalue(L, 1);
  read_value(L, &r, 0);
  rp_tensor *x = rp_push_tensor(L);
  RP_CALL(L, rp_tensor_empty(pool, r.dtype, r.rank, r.shape, x));
  rp_check(L, rp_tensor_write(x, r.data));
  return 1;
}

/* ---- reading */

static void *read_all(lua_State *L, const rp_tensor *x) {
  void *data = scratch(L, rp_tensor_bytes(x));
  RP_CALL(L, rp_tensor_read(x, data));
  return data;
}

static void push_values(lua_State *L, const rp_tensor *x, int depth, const char **at) {
  if (depth == x->rank) {
    rp_push_number(L, rp_number_load(rp_dtype_type(x->dtype), *at));
    *at += rp_dtype_bytes(x->dtype);
    return;
  }
  luaL_checkstack(L, 4, "nested too deeply");
  lua_createtable(L, (int)x->shape[depth], 0);
  for (int64_t i = 1; i <= x->shape[depth]; i++) {
    push_values(L, x, depth + 1, at);
    lua_rawseti(L, -2, i);
  }
}

/* Tables without elements are tables all the same. */
static void check_rows(lua_State *L, const rp_tensor *x) {
  lua_Integer rows = 1;
  for (int d = 0; d + 1 < x->rank && rows; d++)
    if (__builtin_mul_overflow(rows, (lua_Integer)x->shape[d], &rows) || rows > INT32_MAX)
      rp_error(L, "reading values: more than 2^31 rows are no table");
}

static int totable(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1);
  check_rows(L, x);
  const char *at = read_all(L, x);
  push_values(L, x, 0, &at);
  return 1;
}

static int item(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1);
  unsigned char element[8];
  if (rp_tensor_recording(x)) return rp_error(L, "reading values: not allowed during capture");
  if (rp_tensor_elements(x) != 1)
    return rp_error(L, "reading the item of a tensor: it has %d elements, not one",
                    (int)rp_tensor_elements(x));
  RP_CALL(L, rp_tensor_read(x, element));
  rp_push_number(L, rp_number_load(rp_dtype_type(x->dtype), element));
  return 1;
}

static int equal(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1), *y = rp_check_tensor(L, 2);
  if (x->dtype != y->dtype || !rp_tensor_same_shape(x, y)) return lua_pushboolean(L, 0), 1;
  const char *a = read_all(L, x), *b = read_all(L, y);
  size_t step = rp_dtype_bytes(x->dtype), n = (size_t)rp_tensor_elements(x);
  rp_type type = rp_dtype_type(x->dtype);
  bool same = true; /* as numbers: nan differs from itself, -0 equals 0 */
  for (size_t i = 0; i < n && same; i++) {
    rp_number v = rp_number_load(type, a + i * step), w = rp_number_load(type, b + i * step);
    same = v.is_integer ? v.integer == w.integer : v.real == w.real;
  }
  lua_pushboolean(L, same);
  return 1;
}

/* ---- work */

static int copy(lua_State *L) {
  rp_tensor *to = rp_check_tensor(L, 1), *from = rp_check_tensor(L, 2);
  RP_CALL(L, rp_tensor_copy(to, from));
  lua_settop(L, 1);
  return 1;
}

static int fill(lua_State *L) {
  unsigned char element[8];
  rp_tensor *x = rp_check_tensor(L, 1);
  check_element(L, 2, x->dtype, rp_check_number(L, 2), element);
  rp_check(L, rp_tensor_fill(x, element));
  lua_settop(L, 1);
  return 1;
}

static int clone(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1), *y = rp_push_tensor(L);
  RP_CALL(L, rp_tensor_clone(x, y));
  return 1;
}

static int to(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1);
  rp_dtype dtype = rp_check_dtype(L, 2);
  rp_tensor *y = rp_push_tensor(L);
  rp_check_tensor(L, 1); /* making the handle may have run a finalizer that closed it */
  if (dtype == x->dtype) *y = rp_tensor_share(x);
  else RP_CALL(L, rp_tensor_convert(x, dtype, y));
  return 1;
}

static int contiguous(lua_State *L) {
  rp_tensor *y = (rp_check_tensor(L, 1), rp_push_tensor(L)), *x = rp_check_tensor(L, 1);
  if (rp_tensor_packed(x)) *y = rp_tensor_share(x);
  else RP_CALL(L, rp_tensor_clone(x, y));
  return 1;
}

/* ---- views */

static int view(lua_State *L) {
  int64_t shape[RP_RANK];
  rp_tensor *x = rp_check_tensor(L, 1);
  int rank = rp_check_shape(L, 2, shape);
  rp_check(L, rp_tensor_view(x, rank, shape, rp_push_tensor(L)));
  return 1;
}

static int expand(lua_State *L) {
  int64_t shape[RP_RANK];
  rp_tensor *x = rp_check_tensor(L, 1);
  int rank = rp_check_shape(L, 2, shape);
  rp_check(L, rp_tensor_expand(x, rank, shape, rp_push_tensor(L)));
  return 1;
}

/* slice(dim, first, last): both included, as string.sub */
static int slice(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1);
  int dim = check_dim(L, 2, x);
  int64_t size = x->shape[dim], from = from_end(luaL_checkinteger(L, 3), size),
          last = from_end(luaL_optinteger(L, 4, -1), size);
  rp_check(L, rp_tensor_slice(x, dim, from, last + 1, rp_push_tensor(L)));
  return 1;
}

static int transpose(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1);
  int a = check_dim(L, 2, x), b = check_dim(L, 3, x);
  rp_check(L, rp_tensor_transpose(x, a, b, rp_push_tensor(L)));
  return 1;
}

static int close_tensor(lua_State *L) {
  rp_tensor_close(check_handle(L, 1));
  return 0;
}

/* ---- the handle */

/* x[i]: a number for rank 1, else a view of row i */
static int row(lua_State *L, rp_tensor *x) {
  lua_Integer i = lua_tointeger(L, 2);
  if (x->rank == 0) return rp_error(L, "indexing a tensor: it has no dimensions; item() gives its value");
  rp_tensor *y = rp_push_tensor(L);
  if (i == 0) return rp_error(L, "indexing a tensor: elements count from 1, got 0");
  rp_check(L, rp_tensor_select(x, 0, from_end(i, x->shape[0]), y));
  if (x->rank > 1) return 1;
  unsigned char element[8];
  RP_CALL(L, rp_tensor_read(y, element));
  rp_tensor_close(y); /* or its block would stay until a collection */
  rp_push_number(L, rp_number_load(rp_dtype_type(x->dtype), element));
  return 1;
}

static int get(lua_State *L) {
  rp_tensor *x = check_handle(L, 1);
  if (lua_isinteger(L, 2)) return row(L, rp_check_tensor(L, 1));
  if (lua_type(L, 2) != LUA_TSTRING)
    return rp_error(L, "indexing a tensor: integer or name expected, got %s", luaL_typename(L, 2));
  if (rp_method(L) && !lua_isnil(L, -1)) return 1;
  const char *key = lua_tostring(L, 2);
  if (strcmp(key, "shape") == 0) return rp_push_shape(L, x->rank, x->shape), 1;
  if (strcmp(key, "dtype") == 0) return lua_pushstring(L, rp_dtype_name(x->dtype)), 1;
  if (strcmp(key, "rank") == 0) return lua_pushinteger(L, x->rank), 1;
  if (strcmp(key, "bytes") == 0) return lua_pushinteger(L, (lua_Integer)rp_tensor_bytes(x)), 1;
  if (strcmp(key, "elements") == 0) return lua_pushinteger(L, rp_tensor_elements(x)), 1;
  if (strcmp(key, "offset") == 0) return lua_pushinteger(L, (lua_Integer)x->offset), 1;
  if (strcmp(key, "packed") == 0) return lua_pushboolean(L, rp_tensor_packed(x)), 1;
  if (strcmp(key, "closed") == 0) return lua_pushboolean(L, !x->block), 1;
  if (strcmp(key, "device") == 0) return rp_push_device(L, rp_tensor_device(rp_check_tensor(L, 1))), 1;
  return 0;
}

static int no_set(lua_State *L) {
  return rp_error(L, "assigning to a field of a tensor: not possible; use x:fill(value) or x[i]:copy(y)");
}

static int length(lua_State *L) {
  rp_tensor *x = rp_check_tensor(L, 1);
  lua_pushinteger(L, x->rank ? x->shape[0] : 1);
  return 1;
}

/* Why there are no values to show; NULL: there are. A closed device, a stale output: the sentence that reading it would raise. */
static const char *no_values(const rp_tensor *x) {
  if (!x->block) return "closed";
  if (rp_tensor_recording(x)) return "no values while a capture is open";
  return rp_tensor_usable(x, "showing values") == RP_OK ? NULL : rp_message();
}

/* How they are written is the business of lua/reprise/values.lua. */
static int show_values(lua_State *L) {
  lua_pushvalue(L, 1);
  return rp_call_module(L, "reprise.values", 1, 1);
}

static int to_string(lua_State *L) {
  rp_tensor *x = check_handle(L, 1);
  char shape[128];
  const char *why = no_values(x);
  if (!why) return show_values(L);
  rp_shape_text(x->rank, x->shape, shape, sizeof shape);
  lua_pushfstring(L, "tensor %s %s%s%s, %s", rp_dtype_name(x->dtype), shape, x->block ? " on " : "",
                  x->block ? rp_tensor_device(x)->name : "", why);
  return 1;
}

void rp_bind_tensor(lua_State *L) {
  static const luaL_Reg functions[] = {{"empty", empty},   {"zeros", zeros},   {"full", full},
                                       {"arange", arange}, {"tensor", tensor}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"totable", totable},
      {"item", item},
      {"equal", equal},
      {"copy", copy},
      {"fill", fill},
      {"clone", clone},
      {"to", to},
      {"view", view},
      {"expand", expand},
      {"slice", slice},
      {"transpose", transpose},
      {"contiguous", contiguous},
      {"close", close_tensor},
      {NULL, NULL},
  };
  static const luaL_Reg metamethods[] = {{"__newindex", no_set},    {"__len", length},
                                         {"__tostring", to_string}, {"__gc", close_tensor},
                                         {"__close", close_tensor}, {NULL, NULL}};
  rp_class(L, class, methods, get, metamethods);
  luaL_setfuncs(L, functions, 0);
}
