/* repl.h - the prompt. */
#ifndef RP_REPL_H
#define RP_REPL_H

#include <lua.h>

/* Reads, runs and prints until the input ends or the user leaves. Errors are shown and the prompt goes on; Ctrl-C
 * returns to it. The exit code: of a terminal 0; of a pipe 1 when anything failed, 130 after Ctrl-C. Clears the stack. */
int rp_repl_run(lua_State *L);
/* Writes the message on top of the stack to stderr, as "reprise: ...", and pops it. */
void rp_repl_report(lua_State *L);

#endif
