/* bind_program.c - programs, kernels, their launch, and parameters. */
#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "bind.h"

enum {
  MOST_ARGS = 64,
  KERNEL_BLOCK = 256 /* threads, where none are given: a KERNEL is right for any whole warps */
};

/* ---- programs */

typedef struct
    program_box { /* a closed handle keeps its count until it is collected: a finalizer may close it at any time */
  rp_program *program;
  bool closed;
} program_box;

typedef struct define_list {
  rp_define *items;
  size_t count;
} define_list;

/* The strings stay on the stack through the table they come from; numbers are turned into strings kept in `texts`. */
static void read_define(lua_State *L, int texts, rp_define *out) {
  if (lua_type(L, -2) != LUA_TSTRING)
    rp_error(L, "compiling: define: names are strings, got %s", luaL_typename(L, -2));
  out->name = rp_plain_text(L, -2, "compiling: define: a name");
  if (lua_isboolean(L, -1)) lua_pushstring(L, lua_toboolean(L, -1) ? "1" : "0");
  else if (lua_isstring(L, -1)) lua_pushvalue(L, -1);
  else
    rp_error(L, "compiling: define: %s: string, number or boolean expected, got %s", out->name,
             luaL_typename(L, -1));
  out->value = lua_tostring(L, -1);
  if (strlen(out->value) != lua_rawlen(L, -1))
    rp_error(L, "compiling: define: %s: it holds a NUL byte", out->name);
  lua_rawseti(L, texts, (lua_Integer)lua_rawlen(L, texts) + 1);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const rp_define *)a)->name, ((const rp_define *)b)->name);
}

/* In the order of their names, so that cache keys do not depend on the order of a table. Leaves values on the stack. */
static define_list read_defines(lua_State *L, int spec) {
  define_list list = {0};
  int type = lua_getfield(L, spec, "define"), table = lua_gettop(L);
  if (type == LUA_TNIL) return list;
  if (type != LUA_TTABLE) rp_error(L, "compiling: define: table expected, got %s", luaL_typename(L, -1));
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) list.count++;
  lua_newtable(L);
  int texts = lua_gettop(L);
  list.items = lua_newuserdatauv(L, (list.count + 1) * sizeof *list.items, 0);
  size_t at = 0;
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) read_define(L, texts, list.items + at++);
  qsort(list.items, list.count, sizeof *list.items, by_name);
  return list;
}

static const char *text_field(lua_State *L, int spec, const char *key) {
  int type = lua_getfield(L, spec, key);
  if (type != LUA_TNIL && type != LUA_TSTRING)
    rp_error(L, "compiling: %s: string expected, got %s", key, luaL_typename(L, -1));
  if (lua_tostring(L, -1) && strlen(lua_tostring(L, -1)) != lua_rawlen(L, -1))
    rp_error(L, "compiling: %s: it holds a NUL byte", key);
  return lua_tostring(L, -1);
}

static void check_spec_names(lua_State *L, int spec) {
  static const char *const known[] = {"file", "source", "name", "define", "device", NULL};
  for (lua_pushnil(L); lua_next(L, spec); lua_pop(L, 1)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2);
    int i = 0;
    while (known[i] && strcmp(known[i], name) != 0) i++;
    if (!known[i])
      rp_error(L, "compiling: unknown field '%s': expected file, source, name, define or device", name);
  }
}

static rp_program_spec read_spec(lua_State *L, int spec) {
  rp_program_spec out = {0};
  luaL_checktype(L, spec, LUA_TTABLE);
  check_spec_names(L, spec);
  out.file = text_field(L, spec, "file");
  out.text = text_field(L, spec, "source");
  if (!out.file == !out.text) rp_error(L, "compiling: give either file or source");
  out.name = text_field(L, spec, "name");
  if (out.text && !out.name) out.name = rp_where(L);
  define_list defines = read_defines(L, spec);
  out.defines = defines.items;
  out.define_count = defines.count;
  return out;
}

/* compile { file = path | source = text, name =, define = {}, device = } */
static int compile(lua_State *L) {
  lua_settop(L, 1);
  rp_program_spec spec = read_spec(L, 1);
  lua_getfield(L, 1, "device");
  rp_device *dev = rp_check_device(L, lua_gettop(L));
  program_box *box = rp_new(L, sizeof *box, RP_PROGRAM_NAME);
  RP_CALL(L, rp_program_compile(dev, &spec, &box->program));
  return 1;
}

/* compile_ahead(device, specs): what a spec needs stays on the stack. */
static int compile_ahead(lua_State *L) {
  enum { SLOTS = 12 }; /* a spec takes on the stack, at most */
  rp_device *dev = rp_check_device(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  lua_Integer count = (lua_Integer)lua_rawlen(L, 2);
  luaL_checkstack(L, (int)count * SLOTS + SLOTS, "too many sources");
  rp_program_spec *specs = lua_newuserdatauv(L, ((size_t)count + 1) * sizeof *specs, 0);
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, 2, i + 1);
    specs[i] = read_spec(L, lua_gettop(L));
  }
  rp_ahead(dev, specs, (size_t)count);
  return 0;
}

/* is_compiled(device, spec) */
static int is_compiled(lua_State *L) {
  rp_device *dev = rp_check_device(L, 1);
  lua_settop(L, 2);
  rp_program_spec spec = read_spec(L, 2);
  return lua_pushboolean(L, rp_program_ready(dev, &spec)), 1;
}

/* build_kernels(folder, kind, arch, spec) */
static int build_kernels(lua_State *L) {
  const char *folder = rp_check_text(L, 1), *kind = rp_check_text(L, 2), *arch = rp_check_text(L, 3);
  lua_settop(L, 4);
  rp_program_spec spec = read_spec(L, 4);
  rp_check(L, rp_program_build(kind, arch, &spec, folder));
  return 0;
}

static rp_program *check_program(lua_State *L) {
  program_box *box = luaL_checkudata(L, 1, RP_PROGRAM_NAME);
  if (box->closed || !box->program) rp_argument_error(L, 1, "the program is closed");
  return box->program;
}

/* Kernels are made once a program: its user value holds them by name. */
static int push_kernel(lua_State *L, const rp_program *prog, const char *name) {
  const rp_kernel *kernel = rp_program_kernel(prog, name);
  if (!kernel) return 0;
  if (lua_getiuservalue(L, 1, 1) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setiuservalue(L, 1, 1);
  }
  if (lua_getfield(L, -1, name) == LUA_TUSERDATA) return 1;
  lua_pop(L, 1);
  const rp_kernel **box = rp_new(L, sizeof *box, RP_KERNEL_NAME);
  rp_program_retain(kernel->program);
  *box = kernel;
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, name);
  return 1;
}

static int no_kernel(lua_State *L, const rp_program *prog, const char *name) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < prog->kernel_count; i++) {
    if (i) luaL_addstring(&b, ", ");
    luaL_addstring(&b, prog->signatures[i].name);
  }
  luaL_pushresult(&b);
  return rp_error(L, "program %s: no kernel named '%s'; it has %s", prog->name, name,
                  prog->kernel_count ? lua_tostring(L, -1) : "none");
}

static int kernel_method(lua_State *L) {
  rp_program *prog = check_program(L);
  const char *name = rp_check_text(L, 2);
  return push_kernel(L, prog, name) ? 1 : no_kernel(L, prog, name);
}

static void push_kernel_names(lua_State *L, const rp_program *prog) {
  lua_createtable(L, (int)prog->kernel_count, 0);
  for (size_t i = 0; i < prog->kernel_count; i++) {
    lua_pushstring(L, prog->signatures[i].name);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static int program_get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  if (rp_method(L) && !lua_isnil(L, -1)) return 1;
  rp_program *prog = check_program(L);
  if (push_kernel(L, prog, key)) return 1;
  if (strcmp(key, "kernels") == 0) return push_kernel_names(L, prog), 1;
  if (strcmp(key, "device") == 0) return rp_push_device(L, prog->device), 1;
  return no_kernel(L, prog, key);
}

static int program_close(lua_State *L) {
  program_box *box = luaL_checkudata(L, 1, RP_PROGRAM_NAME);
  box->closed = true;
  lua_pushnil(L);
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int program_collect(lua_State *L) {
  program_box *box = luaL_checkudata(L, 1, RP_PROGRAM_NAME);
  rp_program_release(box->program);
  box->program = NULL;
  return 0;
}

static int program_to_string(lua_State *L) {
  program_box *box = luaL_checkudata(L, 1, RP_PROGRAM_NAME);
  rp_program *prog = box->program;
  if (box->closed || !prog) return lua_pushliteral(L, "program, closed"), 1;
  const char *count = rp_push_count(L, prog->kernel_count, "kernel");
  lua_pushfstring(L, "program %s on %s: %s", prog->name, prog->device->name, count);
  return 1;
}

/* ---- kernels */

const rp_kernel *rp_check_kernel(lua_State *L, int arg) {
  const rp_kernel *kernel = *(const rp_kernel **)luaL_checkudata(L, arg, RP_KERNEL_NAME);
  if (!kernel) rp_argument_error(L, arg, "the kernel is closed");
  return kernel;
}

static int argument_error(lua_State *L, const rp_kernel *kernel, size_t index, const char *why) {
  char formal[160];
  rp_formal_text(kernel->signature, index, formal, sizeof formal);
  return rp_error(L, "launching %s: %s: %s", kernel->signature->name, formal, why);
}

static void read_scalar(lua_State *L, const rp_kernel *kernel, size_t index, rp_actual *out) {
  const rp_formal *formal = kernel->signature->formals + index;
  int type = lua_type(L, -1);
  if (formal->type == RP_T_BOOL && type == LUA_TBOOLEAN) {
    out->scalar[0] = (unsigned char)lua_toboolean(L, -1);
    return;
  }
  if ((out->param = rp_test_param(L, -1))) return;
  if (type != LUA_TNUMBER)
    argument_error(L, kernel, index, lua_pushfstring(L, "number expected, got %s", luaL_typename(L, -1)));
  if (rp_number_store(formal->type, rp_to_number(L, -1), out->scalar) != RP_OK)
    argument_error(L, kernel, index, rp_message());
}

static void read_pointer(lua_State *L, const rp_kernel *kernel, size_t index, rp_actual *out) {
  rp_tensor *x = rp_test_tensor(L, -1);
  if (x && !x->block) argument_error(L, kernel, index, "the tensor is closed");
  if (!x && !(lua_isboolean(L, -1) && !lua_toboolean(L, -1)))
    argument_error(
        L, kernel, index,
        lua_pushfstring(L, "tensor expected (or false for a null pointer), got %s", luaL_typename(L, -1)));
  out->tensor = x;
}

static void read_args(lua_State *L, const rp_kernel *kernel, rp_actual *args) {
  size_t count = kernel->signature->count;
  if (count > MOST_ARGS)
    rp_error(L, "launching %s: it has %d parameters, at most %d are possible", kernel->signature->name,
             (int)count, MOST_ARGS);
  for (size_t i = 0; i < count; i++) {
    if (lua_rawgeti(L, 2, (lua_Integer)i + 1) == LUA_TNIL) argument_error(L, kernel, i, "missing");
    if (kernel->signature->formals[i].pointer) read_pointer(L, kernel, i, args + i);
    else read_scalar(L, kernel, i, args + i);
    lua_pop(L, 1); /* the table keeps it */
  }
}

static uint32_t dim_value(lua_State *L, const rp_kernel *kernel, const char *field) {
  int exact;
  lua_Integer n = lua_tointegerx(L, -1, &exact);
  if (!exact || lua_type(L, -1) != LUA_TNUMBER || n < 0 || n > UINT32_MAX)
    rp_error(L, "launching %s: %s: counts from 0 to 2^32 - 1 expected, got %s", kernel->signature->name,
             field, luaL_tolstring(L, -1, NULL));
  return (uint32_t)n;
}

/* An integer, or up to three in a table. */
static rp_dims read_dims(lua_State *L, const rp_kernel *kernel, const char *field) {
  rp_dims dims = {1, 1, 1};
  if (!lua_istable(L, -1)) return dims.x = dim_value(L, kernel, field), dims;
  uint32_t *each[] = {&dims.x, &dims.y, &dims.z};
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  if (count < 1 || count > 3)
    rp_error(L, "launching %s: %s: one to three counts expected, got %d", kernel->signature->name, field,
             (int)count);
  for (lua_Integer i = 0; i < count; i++) {
    lua_rawgeti(L, -1, i + 1);
    *each[i] = dim_value(L, kernel, field);
    lua_pop(L, 1);
  }
  return dims;
}

static void read_field(lua_State *L, const rp_kernel *kernel, const char *field, rp_geometry *how) {
  if (strcmp(field, "grid") == 0) how->grid = read_dims(L, kernel, field);
  else if (strcmp(field, "block") == 0) how->block = read_dims(L, kernel, field);
  else if (strcmp(field, "cluster") == 0) how->cluster = read_dims(L, kernel, field);
  else if (strcmp(field, "shared") == 0) how->shared = dim_value(L, kernel, field);
  else if (strcmp(field, "cooperative") == 0) how->cooperative = lua_toboolean(L, -1);
  else
    rp_error(L, "launching %s: unknown field '%s': expected grid, block, shared, cluster or cooperative",
             kernel->signature->name, field);
}

/* Named fields, and that there are no more arguments than parameters. */
static void read_geometry(lua_State *L, const rp_kernel *kernel, rp_geometry *how) {
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_isinteger(L, -2)) {
      lua_Integer i = lua_tointeger(L, -2);
      if (i < 1 || (size_t)i > kernel->signature->count)
        rp_error(L, "launching %s: argument %d: it has %d parameters", kernel->signature->name, (int)i,
                 (int)kernel->signature->count);
    } else if (lua_type(L, -2) == LUA_TSTRING) {
      read_field(L, kernel, lua_tostring(L, -2), how);
    } else {
      rp_error(L, "launching %s: a field of type %s: expected names and arguments", kernel->signature->name,
               luaL_typename(L, -2));
    }
  }
}

/* kernel { grid =, block =, shared =, ... } */
static int launch(lua_State *L) {
  const rp_kernel *kernel = rp_check_kernel(L, 1);
  lua_settop(L, 2);
  if (!lua_istable(L, 2))
    return rp_error(L, "launching %s: expected a table of arguments, got %s", kernel->signature->name,
                    luaL_typename(L, 2));
  rp_geometry how = {.grid = {1, 1, 1}, .block = {kernel->signature->kernel ? KERNEL_BLOCK : 1, 1, 1}};
  rp_actual args[MOST_ARGS] = {0};
  read_geometry(L, kernel, &how);
  read_args(L, kernel, args);
  if (kernel->program->device->record) how.where = rp_where(L);
  rp_check(L, rp_launch_kernel(kernel, &how, args));
  return 0;
}

static void push_signature(lua_State *L, const rp_signature *signature) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addstring(&b, signature->name);
  luaL_addstring(&b, " (");
  for (size_t i = 0; i < signature->count; i++) {
    const rp_formal *f = signature->formals + i;
    lua_pushfstring(L, "%s%s%s %s%s", i ? ", " : "", f->pointer && f->constant ? "const " : "",
                    rp_type_name(f->type), f->pointer ? "*" : "", f->name);
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, ')');
  luaL_pushresult(&b);
}

static int kernel_get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  const rp_kernel *kernel = rp_check_kernel(L, 1);
  if (strcmp(key, "name") == 0) return lua_pushstring(L, kernel->signature->name), 1;
  if (strcmp(key, "signature") == 0) return push_signature(L, kernel->signature), 1;
  if (strcmp(key, "waits") == 0) return lua_pushboolean(L, kernel->signature->waits), 1;
  if (strcmp(key, "device") == 0) return rp_push_device(L, kernel->program->device), 1;
  return 0;
}

static int kernel_to_string(lua_State *L) {
  const rp_kernel *kernel = *(const rp_kernel **)luaL_checkudata(L, 1, RP_KERNEL_NAME);
  if (!kernel) return lua_pushliteral(L, "kernel, closed"), 1;
  lua_pushliteral(L, "kernel ");
  push_signature(L, kernel->signature);
  lua_concat(L, 2);
  return 1;
}

static int kernel_close(lua_State *L) {
  const rp_kernel **box = luaL_checkudata(L, 1, RP_KERNEL_NAME);
  if (*box) rp_program_release((*box)->program);
  *box = NULL;
  return 0;
}

/* ---- parameters */

static const struct {
  const char *name;
  rp_type type;
} param_types[] = {
    {"f32", RP_T_F32}, {"f64", RP_T_F64}, {"i32", RP_T_I32}, {"u32", RP_T_U32},
    {"i64", RP_T_I64}, {"u64", RP_T_U64}, {"u8", RP_T_U8},
};

static rp_type check_param_type(lua_State *L, int arg) {
  const char *name = rp_check_text(L, arg);
  for (size_t i = 0; i < sizeof param_types / sizeof *param_types; i++)
    if (strcmp(param_types[i].name, name) == 0) return param_types[i].type;
  rp_argument_error(L, arg, "unknown type '%s': expected f32, f64, i32, u32, i64, u64 or u8", name);
  return RP_T_F32;
}

rp_param *rp_test_param(lua_State *L, int index) {
  rp_param **box = luaL_testudata(L, index, RP_PARAM_NAME);
  return box ? *box : NULL;
}

static void check_value(lua_State *L, int arg, rp_type type, void *out) {
  if (rp_number_store(type, rp_check_number(L, arg), out) != RP_OK)
    rp_argument_error(L, arg, "%s", rp_message());
}

/* param(type, value) */
static int param(lua_State *L) {
  unsigned char value[8] = {0};
  rp_type type = check_param_type(L, 1);
  check_value(L, 2, type, value);
  rp_param **box = rp_new(L, sizeof *box, RP_PARAM_NAME);
  RP_CALL(L, rp_param_new(type, value, box));
  return 1;
}

static rp_param *check_param(lua_State *L) {
  luaL_checkudata(L, 1, RP_PARAM_NAME);
  rp_param *p = rp_test_param(L, 1);
  if (!p) rp_argument_error(L, 1, "the parameter is closed");
  return p;
}

static int param_set(lua_State *L) {
  unsigned char value[8] = {0};
  rp_param *p = check_param(L);
  check_value(L, 2, p->type, value);
  rp_param_set(p, value);
  lua_settop(L, 1);
  return 1;
}

static int param_get(lua_State *L) {
  const char *key = luaL_checkstring(L, 2);
  if (strcmp(key, "value") != 0) return rp_method(L);
  rp_param *p = check_param(L);
  rp_push_number(L, rp_number_load(p->type, p->value));
  return 1;
}

static int param_to_string(lua_State *L) {
  rp_param *p = check_param(L);
  lua_pushfstring(L, "parameter %s ", rp_type_name(p->type));
  rp_push_number(L, rp_number_load(p->type, p->value));
  lua_concat(L, 2);
  return 1;
}

static int param_close(lua_State *L) {
  rp_param **box = luaL_checkudata(L, 1, RP_PARAM_NAME);
  rp_param_release(*box);
  *box = NULL;
  return 0;
}

void rp_bind_program(lua_State *L) {
  static const luaL_Reg functions[] = {{"compile", compile},
                                       {"compile_ahead", compile_ahead},
                                       {"is_compiled", is_compiled},
                                       {"build_kernels", build_kernels},
                                       {"param", param},
                                       {NULL, NULL}};
  static const luaL_Reg program_methods[] = {
      {"kernel", kernel_method}, {"close", program_close}, {NULL, NULL}};
  static const luaL_Reg program_meta[] = {
      {"__gc", program_collect}, {"__close", program_close}, {"__tostring", program_to_string}, {NULL, NULL}};
  static const luaL_Reg kernel_meta[] = {
      {"__call", launch}, {"__gc", kernel_close}, {"__tostring", kernel_to_string}, {NULL, NULL}};
  static const luaL_Reg param_methods[] = {{"set", param_set}, {NULL, NULL}};
  static const luaL_Reg param_meta[] = {{"__gc", param_close}, {"__tostring", param_to_string}, {NULL, NULL}};
  rp_class(L, RP_PROGRAM_NAME, program_methods, program_get, program_meta);
  rp_class(L, RP_KERNEL_NAME, NULL, kernel_get, kernel_meta);
  rp_class(L, RP_PARAM_NAME, param_methods, param_get, param_meta);
  luaL_setfuncs(L, functions, 0);
}
