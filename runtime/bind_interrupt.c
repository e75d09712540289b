/* bind_interrupt.c - SIGINT becomes a Lua error of the running coroutine.
 *
 * Hooks belong to one coroutine, so we must know which one runs: resume, wrap and close of the standard library are
 * replaced by forms that keep `running` right. They behave as the originals do. Only count hooks are used: call hooks
 * would also stop the closers that put things in order while the error travels up.
 */
#include "bind_interrupt.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "interrupt.h"

enum {
  PATIENCE =
      10000,   /* instructions that closers may run after the first error; halved with each further one */
  GIVE_UP = 3, /* unanswered SIGINTs after which the next one ends the process */
};

static lua_State *volatile running; /* the coroutine inside rp_interrupt_call, or NULL; not owned */
static volatile sig_atomic_t patience;

static void raise_interrupted(lua_State *L, lua_Debug *unused) {
  (void)unused;
  if (rp_interrupts == 0) {
    lua_sethook(L, NULL, 0, 0);
    return;
  }
  lua_sethook(L, raise_interrupted, LUA_MASKCOUNT, patience);
  patience = patience > 1 ? patience / 2 : 1;
  luaL_where(L, 0); /* inside a hook, level 0 is the function that runs */
  lua_pushliteral(L, "interrupted");
  lua_concat(L, 2);
  lua_error(L);
}

static void stop_soon(lua_State *L) { lua_sethook(L, raise_interrupted, LUA_MASKCOUNT, 1); }

static void on_sigint(int number) {
  rp_interrupts = rp_interrupts + 1;
  patience = PATIENCE;
  if (rp_interrupts >= GIVE_UP) signal(number, SIG_DFL);
  lua_State *L = running;
  if (L) stop_soon(L);
}

static void listen(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action); /* no SA_RESTART: a read that waits for input returns */
  action.sa_handler = on_sigint;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
}

/* `co` has stopped running and `was` goes on: it has not heard of a Ctrl-C that came meanwhile. */
static void come_back(lua_State *was) {
  running = was;
  if (was && rp_interrupts) stop_soon(was);
}

/* Moves the arguments on top of L to co and runs it. The count of results, which are on L; -1: the error is on L. */
static int resume(lua_State *L, lua_State *co, int arguments) {
  if (!lua_checkstack(co, arguments)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, arguments);
  lua_State *was = running;
  int results = 1;
  running = co;
  int status = lua_resume(co, L, arguments, &results);
  come_back(was);
  bool ok = status == LUA_OK || status == LUA_YIELD;
  if (!ok) results = 1;
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return ok ? results : -1;
}

static lua_State *check_coroutine(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "thread");
  return co;
}

static int coroutine_resume(lua_State *L) {
  lua_State *co = check_coroutine(L);
  int results = resume(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, results >= 0);
  int shown = results >= 0 ? results : 1;
  lua_insert(L, -(shown + 1));
  return shown + 1;
}

/* Closes co, which failed or waits. Its error, if any, is moved to L. */
static bool close_coroutine(lua_State *L, lua_State *co) {
  lua_State *was = running;
  running = co;
  int status = lua_resetthread(co);
  come_back(was);
  if (status != LUA_OK) lua_xmove(co, L, 1);
  return status == LUA_OK;
}

/* The function that coroutine.wrap returns; its coroutine is upvalue 1. An error closes the coroutine first. */
static int wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int results = resume(L, co, lua_gettop(L));
  if (results >= 0) return results;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) close_coroutine(L, co);
  if (lua_type(L, -1) ==
      LUA_TSTRING) { /* the place of the call goes before the message, as in the original */
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int coroutine_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

/* Upvalue 1 is coroutine.status. */
static int coroutine_close(lua_State *L) {
  lua_State *co = check_coroutine(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  const char *state = lua_tostring(L, -1);
  if (strcmp(state, "suspended") != 0 && strcmp(state, "dead") != 0) {
    return luaL_error(L, "cannot close a %s coroutine", state);
  }
  bool ok = close_coroutine(L, co);
  lua_pushboolean(L, ok);
  if (ok) return 1;
  lua_insert(L, -2);
  return 2;
}

void rp_interrupt_open(lua_State *L) {
  listen();
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, coroutine_resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, coroutine_wrap);
  lua_setfield(L, -2, "wrap");
  lua_getfield(L, -1, "status");
  lua_pushcclosure(L, coroutine_close, 1);
  lua_setfield(L, -2, "close");
  lua_pop(L, 1);
}

/* ---- tracebacks */

/* Levels of the stack, the running function included. */
static int depth(lua_State *L) {
  lua_Debug ar;
  int there = 0, missing = 1; /* so many levels are there; so many are not */
  while (lua_getstack(L, missing - 1, &ar)) there = missing, missing *= 2;
  while (missing - there > 1) {
    int middle = (there + missing) / 2;
    if (lua_getstack(L, middle - 1, &ar)) there = middle;
    else missing = middle;
  }
  return there;
}

static void look(lua_State *L, int level, lua_Debug *ar) {
  lua_getstack(L, level, ar);
  lua_getinfo(L, "St", ar);
}

static bool of_prompt(const lua_Debug *ar) { return strstr(ar->source, "lua/reprise/repl/") != NULL; }

/* Are there frames of Lua above `level`? */
static bool has_lua_above(lua_State *L, int level) {
  lua_Debug ar;
  while (--level > 0) {
    look(L, level, &ar);
    if (*ar.what != 'C') return true;
  }
  return false;
}

/* Lines that a traceback gives to the frames that are not the user's: the oldest `below` ones, those of the prompt on
 * top of them; -1: there are no others. */
static int lines_below(lua_State *L, int below) {
  lua_Debug ar;
  int lines = 0, level = depth(L) - 1, first = level - below;
  for (;; level--) {
    look(L, level, &ar);
    if (level <= first && !of_prompt(&ar)) break;
    lines += 1 + ar.istailcall;
  }
  return level < first && *ar.what == 'C' && !has_lua_above(L, level) ? -1 : lines;
}

/* The message handler: any error value becomes text with a traceback, down to the function that was called. Upvalue 1:
 * how many levels lie below that. */
static int add_traceback(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (!message && luaL_callmeta(L, 1, "__tostring")) message = lua_tostring(L, -1);
  if (!message) message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  int lines = lines_below(L, (int)lua_tointeger(L, lua_upvalueindex(1)));
  if (lines < 0) return lua_pushstring(L, message), 1;
  luaL_traceback(L, L, message, 1);
  const char *text = lua_tostring(L, -1), *end = text + strlen(text);
  for (; lines > 0; lines--) {
    while (*--end != '\n') continue;
  }
  lua_pushlstring(L, text, (size_t)(end - text));
  return 1;
}

int rp_interrupt_call(lua_State *L, int arguments, int results) {
  int base = lua_gettop(L) - arguments;
  lua_pushinteger(L, depth(L));
  lua_pushcclosure(L, add_traceback, 1);
  lua_insert(L, base);
  lua_State *was = running;
  running = L;
  int status = lua_pcall(L, arguments, results, base);
  running = was;
  lua_remove(L, base);
  return status;
}

void rp_interrupt_answer(lua_State *L) {
  if (lua_gethook(L) == raise_interrupted) lua_sethook(L, NULL, 0, 0);
  if (rp_interrupts >= GIVE_UP) listen();
  rp_interrupts = 0;
}
