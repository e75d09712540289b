/* repl_lines.c - lines as standard input gives them; the editor's, where there is one. */
#include "repl_lines.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"

static bool asks, edits; /* a person types; with an editor */

void rp_lines_open(lua_State *L, bool terminal, rp_completer *complete) {
  asks = isatty(STDIN_FILENO);
#if RP_HAVE_EDIT
  edits = terminal && rp_editor_open(L, complete);
#else
  (void)L, (void)terminal, (void)complete;
#endif
}

void rp_lines_close(void) {
#if RP_HAVE_EDIT
  if (edits) rp_editor_close();
#endif
  edits = false;
}

/* Standard output may be a file: then the prompt is no part of it. */
static void show_prompt(const char *prompt) {
  FILE *to = isatty(STDOUT_FILENO) ? stdout : stderr;
  fputs(prompt, to);
  fflush(to);
}

/* One more piece of the line into `line`; false when it is whole, the input ended or Ctrl-C was pressed. */
static bool read_piece(luaL_Buffer *line) {
  char *piece = luaL_prepbuffer(line);
  if (!fgets(piece, LUAL_BUFFERSIZE, stdin)) return false;
  size_t length = strlen(piece);
  luaL_addsize(line, length);
  return length > 0 && piece[length - 1] != '\n';
}

static rp_got read_plainly(lua_State *L) {
  luaL_Buffer line;
  luaL_buffinit(L, &line);
  while (read_piece(&line)) continue;
  size_t length = luaL_bufflen(&line);
  if (length && luaL_buffaddr(&line)[length - 1] == '\n') luaL_buffsub(&line, 1);
  luaL_pushresult(&line);
  if (length && !rp_interrupts) return RP_GOT_LINE;
  lua_pop(L, 1);
  clearerr(stdin);
  return rp_interrupts ? RP_GOT_BARE_STOP : RP_GOT_END;
}

rp_got rp_lines_read(lua_State *L, const char *prompt, const char *colour) {
  fflush(stdout);
#if RP_HAVE_EDIT
  if (edits) return rp_editor_read(L, prompt, colour);
#endif
  (void)colour;
  if (asks) show_prompt(prompt);
  return read_plainly(L);
}
