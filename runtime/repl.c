/* repl.c - a plain prompt: a chunk may take several lines, an expression prints its values.
 *
 * A line is first compiled as `return LINE`, so that `1 + 1` shows 2; then as it stands. While the compiler says that
 * the text is incomplete, more lines are asked for.
 */
#include "repl.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "bind_interrupt.h"
#include "interrupt.h"

void rp_repl_report(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  fflush(stdout);
  fprintf(stderr, "reprise: %s\n", message ? message : "(no message)");
  lua_pop(L, 1);
}

/* One more piece of the line into `line`; false when the input ended or Ctrl-C was pressed. */
static bool read_piece(luaL_Buffer *line) {
  char *piece = luaL_prepbuffer(line);
  if (!fgets(piece, LUAL_BUFFERSIZE, stdin)) return false;
  size_t length = strlen(piece);
  luaL_addsize(line, length);
  return length > 0 && piece[length - 1] != '\n';
}

/* Pushes the next line without its end; false, and nothing pushed, at the end of the input or on Ctrl-C. */
static bool read_line(lua_State *L, const char *prompt) {
  fputs(prompt, stdout);
  fflush(stdout);
  luaL_Buffer line;
  luaL_buffinit(L, &line);
  while (read_piece(&line)) continue;
  bool any = luaL_bufflen(&line) > 0 && !rp_interrupts;
  if (any && luaL_buffaddr(&line)[luaL_bufflen(&line) - 1] == '\n') luaL_buffsub(&line, 1);
  luaL_pushresult(&line);
  if (!any) lua_pop(L, 1);
  return any;
}

static bool incomplete(lua_State *L, int status) {
  static const char mark[] = "<eof>";
  size_t length;
  const char *message = status == LUA_ERRSYNTAX ? lua_tolstring(L, -1, &length) : NULL;
  return message && length >= sizeof mark - 1 && strcmp(message + length - (sizeof mark - 1), mark) == 0;
}

/* Compiles the text on top of the stack, which stays; the function or the message goes above it. */
static int compile(lua_State *L) {
  const char *text = lua_tostring(L, -1);
  const char *expression = lua_pushfstring(L, "return %s", text);
  int status = luaL_loadbuffer(L, expression, strlen(expression), "=stdin");
  lua_remove(L, -2); /* the expression */
  if (status == LUA_OK) return status;
  lua_pop(L, 1);
  return luaL_loadbuffer(L, text, strlen(text), "=stdin");
}

/* Reads a whole chunk and pushes its function, or a message; the status of the compiler, or -1 at the end of input. */
static int read_chunk(lua_State *L) {
  if (!read_line(L, "> ")) return -1;
  for (;;) {
    int status = compile(L);
    if (!incomplete(L, status)) {
      lua_remove(L, -2); /* the text */
      return status;
    }
    if (!read_line(L, ">> ")) {
      lua_pop(L, rp_interrupts ? 2 : 0);
      if (rp_interrupts) return -1;
      lua_remove(L, -2);
      return status; /* the input ended in the middle: say so */
    }
    lua_remove(L, -2); /* the message */
    lua_pushliteral(L, "\n");
    lua_insert(L, -2);
    lua_concat(L, 3);
  }
}

static void print_results(lua_State *L, int count) {
  if (count == 0) return;
  luaL_checkstack(L, LUA_MINSTACK, "too many results to print");
  lua_getglobal(L, "print");
  lua_insert(L, -(count + 1));
  if (rp_interrupt_call(L, count, 0) != LUA_OK) rp_repl_report(L);
}

static void run_chunk(lua_State *L) {
  int base = lua_gettop(L) - 1;
  if (rp_interrupt_call(L, 0, LUA_MULTRET) != LUA_OK) {
    rp_repl_report(L);
  } else {
    print_results(L, lua_gettop(L) - base);
  }
}

/* After Ctrl-C at the prompt or in a chunk: a fresh line. True when there was one. */
static bool answer(lua_State *L) {
  if (!rp_interrupts) return false;
  rp_interrupt_answer(L);
  clearerr(stdin);
  return true;
}

void rp_repl_run(lua_State *L) {
  for (;;) {
    lua_settop(L, 0);
    int status = read_chunk(L);
    if (status == LUA_OK) {
      run_chunk(L);
    } else if (status > 0) {
      rp_repl_report(L);
    }
    bool interrupted = answer(L);
    if (interrupted && status < 0) fputc('\n', stdout);
    if (!interrupted && status < 0) break;
  }
  fputc('\n', stdout);
  fflush(stdout);
}
