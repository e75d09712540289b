/* bind.h - where C meets Lua: the types as users read them, and the helpers that all bindings share.
 *
 * A binding checks all its arguments, makes one core call and pushes the result. Errors are strings
 * "file:line: what was tried: object: why"; the line is the first frame outside lua/reprise/.
 */
#ifndef RP_BIND_H
#define RP_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "graph.h"
#include "number.h"
#include "pool.h"
#include "program.h"
#include "signals.h"
#include "tensor.h"

#define RP_DEVICE_NAME "reprise.Device"   /* userdata: rp_device * */
#define RP_POOL_NAME "reprise.Pool"       /* rp_pool * */
#define RP_TENSOR_NAME "reprise.Tensor"   /* rp_tensor */
#define RP_PROGRAM_NAME "reprise.Program" /* see bind_program.c */
#define RP_KERNEL_NAME "reprise.Kernel"   /* const rp_kernel *, one count on its program */
#define RP_PARAM_NAME "reprise.Param"     /* rp_param * */
#define RP_GRAPH_NAME "reprise.Graph"     /* rp_graph * */
#define RP_STEP_NAME "reprise.Step"       /* see bind_step.c */
#define RP_SIGNAL_NAME "reprise.Signal"   /* rp_signal * */
#define RP_SCOPE_NAME "reprise.Scope"     /* see bind_scope.c */
#define RP_HISTORY_NAME "reprise.History" /* rp_history * */

#ifdef __clang_analyzer__ /* functions that raise; they have a result so that a binding can return it */
#define RP_RAISES __attribute__((analyzer_noreturn))
#else
#define RP_RAISES
#endif

/* ---- errors */
RP_RAISES int rp_raise(lua_State *L); /* raises rp_message() with its line; never returns */
/* raises a sentence of the binding's own, likewise */
RP_RAISES int rp_error(lua_State *L, const char *format, ...);
/* "bad argument #1 to 'view' (...)" */
RP_RAISES int rp_argument_error(lua_State *L, int arg, const char *format, ...);
RP_RAISES int rp_type_error(lua_State *L, int arg, const char *expected);
void rp_check(lua_State *L, rp_status status); /* raises unless RP_OK */
int rp_collect(lua_State *L);                  /* a full collection; 1 */
/* A core call that may find no memory: then garbage is collected, and it is tried once more. */
#define RP_CALL(L, call)                                              \
  do {                                                                \
    rp_status rp_called_ = (call);                                    \
    if (rp_called_ == RP_NOMEM && rp_collect(L)) rp_called_ = (call); \
    rp_check(L, rp_called_);                                          \
  } while (0)
const char *
rp_where(lua_State *L); /* "step.lua:12" of the frame that errors name, or ""; pushes it on the stack */

/* ---- userdata */
/* A metatable with methods (first looked up by __index), properties and metamethods; all may be NULL. */
void rp_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction get,
              const luaL_Reg *metamethods);
/* zeroed, with its metatable; the resource comes last */
void *rp_new(lua_State *L, size_t bytes, const char *name);
/* The same as luaL_testudata and luaL_setmetatable, at a third of the time: `name` is the very array that rp_class was
 * given, whose address is looked up instead of its letters. */
void *rp_test(lua_State *L, int index, const char *name);
void rp_set_class(lua_State *L, const char *name);
/* Calls the function that the Lua module `name` is with the topmost `arguments` values; returns `results`. */
int rp_call_module(lua_State *L, const char *name, int arguments, int results);
int rp_method(lua_State *L); /* in a `get`: pushes methods[key] or nil; returns 1 */

/* ---- tensors */
rp_tensor *rp_push_tensor(lua_State *L);            /* an empty handle to fill in; noted by an open scope */
rp_tensor *rp_check_tensor(lua_State *L, int arg);  /* open */
rp_tensor *rp_test_tensor(lua_State *L, int index); /* any handle, or NULL */
const char *rp_check_text(lua_State *L, int arg);   /* a string without a NUL byte, at which C would cut it */
/* the same of a value that is a string: "what: it holds ..." */
const char *rp_plain_text(lua_State *L, int index, const char *what);
rp_dtype rp_check_dtype(lua_State *L, int arg);
rp_dtype rp_opt_dtype(lua_State *L, int arg, rp_dtype otherwise);
int rp_check_shape(lua_State *L, int arg, int64_t *shape); /* a table of integers or one integer; the rank */
rp_number rp_check_number(lua_State *L, int arg);
rp_number rp_to_number(lua_State *L, int index); /* of a value that is a Lua number */
void rp_push_number(lua_State *L, rp_number number);
void rp_push_shape(lua_State *L, int rank, const int64_t *shape);
const char *rp_push_bytes(lua_State *L, size_t bytes);                   /* "512 bytes", "1.50 MiB" */
const char *rp_push_count(lua_State *L, size_t count, const char *noun); /* "1 graph", "2 graphs" */

/* ---- devices and pools */
rp_device *rp_check_device(lua_State *L, int arg); /* a device or its name; nil: the default; open */
rp_pool *rp_check_pool(lua_State *L, int arg); /* a pool, a device or its name; nil: the default; borrowed */
void rp_push_device(lua_State *L, rp_device *dev); /* the handle of this state for it */
rp_pool *rp_field_pool(lua_State *L, int table);   /* fields `pool` or `device`; NULL: neither is given */

/* ---- launching and graphs */
const rp_kernel *rp_check_kernel(lua_State *L, int arg);
rp_signal *rp_test_signal(lua_State *L, int index);
rp_param *rp_test_param(lua_State *L, int index);
rp_graph **rp_push_graph(lua_State *L); /* an empty handle: making it may run finalizers */

typedef struct rp_recording { /* how a function is called while its device records */
  rp_pool *pool;
  const char *name;               /* of the capture, for messages */
  const rp_tensor *const *inputs; /* what its inputs look like */
  int count;
  int tensors; /* stack index of the first input, for a warm-up; 0: there are none */
  lua_Integer warmup;
  bool *busy;        /* true while it runs; may be NULL */
  rp_record *record; /* out */
} rp_recording;
/* Calls the function at stack index `function` and gives its closed record, which the caller takes at once. */
rp_record *rp_record_call(lua_State *L, int function, rp_recording *how);

/* ---- scopes */
void rp_scope_note(lua_State *L); /* the tensor on top belongs to the open scope, if any */

/* ---- openers: each adds its functions to the table on top of the stack */
void rp_bind_device(lua_State *L);
void rp_bind_pool(lua_State *L);
void rp_bind_tensor(lua_State *L);
void rp_bind_program(lua_State *L);
void rp_bind_record(lua_State *L);
void rp_bind_graph(lua_State *L);
void rp_bind_step(lua_State *L);
void rp_bind_scope(lua_State *L);
void rp_bind_signal(lua_State *L);
void rp_bind_history(lua_State *L);
void rp_bind_file(lua_State *L);
void rp_bind_open(lua_State *L); /* pushes the table of reprise.core */

#endif
