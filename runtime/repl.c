/* repl.c - the prompt's loop: a line is read, the session (lua/reprise/repl) says what it means, what it means is run.
 *
 *   line -> session:take -> a function -> session:show(its results)    or session:report(its error)
 *                        -> true: nothing to run, or more lines are needed
 *                        -> false: the user leaves
 *
 * The function is called from here, so that its traceback and its Ctrl-C are those of a script.
 */
#include "repl.h"

#include <dirent.h>
#include <errno.h>
#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bind_interrupt.h"
#include "interrupt.h"
#include "repl_lines.h"

enum { SESSION = 1, FAILED = 1, INTERRUPTED = 130 }; /* its stack index; exit codes */

typedef struct repl {
  bool terminal;  /* a person sits there; else a pipe, whose end or Ctrl-C ends us */
  int code;       /* of the exit */
  double stopped; /* when Ctrl-C was pressed at the prompt last, in seconds */
} repl;

void rp_repl_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fflush(stdout);
  fprintf(stderr, "reprise: %s\n", message ? message : "(no message)");
  lua_pop(L, 1);
}

/* ---- the session */

/* Calls a method with the values on top as its arguments. */
static int ask(lua_State *L, const char *method, int arguments, int results) {
  lua_getfield(L, SESSION, method);
  lua_pushvalue(L, SESSION);
  lua_rotate(L, -(arguments + 2), 2);
  return rp_interrupt_call(L, arguments + 1, results);
}

static const char *field(lua_State *L, const char *name) {
  lua_getfield(L, SESSION, name);
  const char *text = lua_tostring(L, -1);
  return text ? text : "";
}

/* The message on top goes to stderr. */
static void report(lua_State *L, repl *r) {
  rp_interrupt_answer(L);
  r->code = FAILED;
  if (ask(L, "report", 1, 0) != LUA_OK) rp_repl_report(L);
}

/* list(folder): its entries, those of folders with a slash behind them; nil, why */
static int list(lua_State *L) {
  DIR *folder = opendir(luaL_checkstring(L, 1));
  if (!folder) return luaL_fileresult(L, 0, lua_tostring(L, 1));
  lua_newtable(L);
  for (const struct dirent *entry; (entry = readdir(folder));) {
    lua_pushfstring(L, "%s%s", entry->d_name, entry->d_type == DT_DIR ? "/" : "");
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  closedir(folder);
  return 1;
}

static void complete(lua_State *L, const char *before, int columns) {
  lua_pushstring(L, before);
  lua_pushinteger(L, columns);
  if (ask(L, "complete", 2, 2) == LUA_OK) return;
  lua_pop(L, 1); /* completing is no occasion to complain */
  rp_interrupt_answer(L);
  lua_pushliteral(L, ""), lua_pushliteral(L, "");
}

/* require("reprise.repl").open { terminal =, errors =, list = } */
static int open_session(lua_State *L, const repl *r) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "reprise.repl");
  int status = rp_interrupt_call(L, 1, 1);
  if (status != LUA_OK) return status;
  lua_getfield(L, -1, "open");
  lua_remove(L, -2);
  lua_newtable(L);
  lua_pushboolean(L, r->terminal), lua_setfield(L, -2, "terminal");
  lua_pushboolean(L, isatty(STDERR_FILENO)), lua_setfield(L, -2, "errors");
  lua_pushcfunction(L, list), lua_setfield(L, -2, "list");
  return rp_interrupt_call(L, 1, 1);
}

/* ---- one turn */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ctrl-C at the prompt drops what was typed; once more within a second, with nothing typed, leaves. Do we go on? */
static bool stop_line(lua_State *L, repl *r, bool bare) {
  double before = r->stopped;
  rp_interrupt_answer(L);
  if (!r->terminal) return r->code = INTERRUPTED, false;
  r->stopped = now();
  fputc('\n', stdout);
  if (bare && r->stopped - before < 1) return false;
  if (ask(L, "drop", 0, 0) != LUA_OK) report(L, r);
  return true;
}

/* Runs the function on top. Ctrl-C returns to the prompt; a pipe has none to return to. */
static bool run_chunk(lua_State *L, repl *r) {
  int base = lua_gettop(L) - 1;
  int status = rp_interrupt_call(L, 0, LUA_MULTRET);
  if (rp_interrupts && r->terminal) fputc('\n', stdout); /* behind the ^C that the terminal shows */
  if (status == LUA_OK) status = ask(L, "show", lua_gettop(L) - base, 0);
  bool stopped = rp_interrupts != 0;
  if (status != LUA_OK) report(L, r);
  rp_interrupt_answer(L);
  if (!stopped || r->terminal) return true;
  r->code = INTERRUPTED;
  return false;
}

/* Does what the line on top, or nil at the end of the input, asks for. Do we go on? */
static bool take_line(lua_State *L, repl *r) {
  bool end = lua_isnil(L, -1);
  if (ask(L, "take", 1, 1) != LUA_OK) {
    report(L, r);
    return !end;
  }
  if (lua_isfunction(L, -1)) return run_chunk(L, r) && !end;
  return lua_toboolean(L, -1) && !end;
}

static bool take_turn(lua_State *L, repl *r) {
  lua_settop(L, SESSION);
  rp_got got = rp_lines_read(L, field(L, "prompt"), field(L, "colour"));
  if (got == RP_GOT_STOP || got == RP_GOT_BARE_STOP) return stop_line(L, r, got == RP_GOT_BARE_STOP);
  if (got == RP_GOT_END) {
    if (r->terminal) fputc('\n', stdout);
    lua_pushnil(L);
  }
  return take_line(L, r);
}

int rp_repl_run(lua_State *L) {
  repl r = {.terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO), .stopped = -HUGE_VAL};
  lua_settop(L, 0);
  if (open_session(L, &r) != LUA_OK) {
    rp_repl_report(L);
    return FAILED;
  }
  rp_lines_open(L, r.terminal, complete);
  while (take_turn(L, &r)) continue;
  rp_lines_close();
  fflush(stdout);
  return r.terminal ? 0 : r.code;
}
