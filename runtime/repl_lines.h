/* repl_lines.h - where the prompt's lines come from: on a terminal an editor (libedit, where the build found it), else
 * standard input as it is.
 */
#ifndef RP_REPL_LINES_H
#define RP_REPL_LINES_H

#include <lua.h>
#include <stdbool.h>

typedef enum rp_got {
  RP_GOT_LINE,
  RP_GOT_END,       /* of the input */
  RP_GOT_STOP,      /* Ctrl-C, with text in the line, which is gone */
  RP_GOT_BARE_STOP, /* Ctrl-C, with nothing in it */
} rp_got;

/* Pushes what Tab puts in behind the text before the cursor, and what is to be shown below it; either may be "". */
typedef void rp_completer(lua_State *L, const char *before, int columns);

void rp_lines_open(lua_State *L, bool terminal, rp_completer *complete);
/* RP_GOT_LINE pushes it, without its end. `colour`: escape codes that the prompt is put into, or "". */
rp_got rp_lines_read(lua_State *L, const char *prompt, const char *colour);
void rp_lines_close(void);

#if RP_HAVE_EDIT
/* The same by libedit; false: it does not know this terminal. Prompt and colour are used until the next read. */
bool rp_editor_open(lua_State *L, rp_completer *complete);
rp_got rp_editor_read(lua_State *L, const char *prompt, const char *colour);
void rp_editor_close(void);
#endif

#endif
