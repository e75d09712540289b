/* repl.h - the prompt. */
#ifndef RP_REPL_H
#define RP_REPL_H

#include <lua.h>

/* Reads, runs and prints until the input ends. Errors are shown and the prompt goes on; Ctrl-C returns to it. */
void rp_repl_run(lua_State *L);
/* Writes the message on top of the stack to stderr, as "reprise: ...", and pops it. */
void rp_repl_report(lua_State *L);

#endif
