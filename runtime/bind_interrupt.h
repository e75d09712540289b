/* bind_interrupt.h - Ctrl-C for the program: SIGINT stops the Lua code that runs, in whichever coroutine that is.
 *
 * The handler raises rp_interrupts (long work of the core polls it) and puts a count hook on the running coroutine.
 * The hook raises "interrupted" and stays armed, at ever shorter intervals, until the front has answered by setting
 * rp_interrupts to 0: a script that catches all errors still ends, one that closes its things gets the time to.
 */
#ifndef RP_BIND_INTERRUPT_H
#define RP_BIND_INTERRUPT_H

#include <lua.h>

/* Installs the SIGINT handler of the process and wraps resume, wrap and close of the `coroutine` table. */
void rp_interrupt_open(lua_State *L);
/* lua_pcall with a traceback added to the message; the only way the program runs Lua code. */
int rp_interrupt_call(lua_State *L, int arguments, int results);
/* The front has answered: the counter is 0 and the hook is gone. */
void rp_interrupt_answer(lua_State *L);

#endif
