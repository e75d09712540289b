/* cpu_coroutine.h - stacks to switch between inside one system thread, made when they are needed and used again.
 *
 *   slab:  | guard | stack 0 | guard | stack 1 | ...   guard: a page that nobody may touch
 *
 * All coroutines of a set run the same body, which never returns: what it does next is its owner's business
 * (cpu_crew.c). The thread that runs a set is its home. Address and thread sanitizer are told of every
 * switch, valgrind of every stack.
 */
#ifndef RP_CPU_COROUTINE_H
#define RP_CPU_COROUTINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct rp_coroutine rp_coroutine;
typedef struct rp_coroutines rp_coroutines;

enum { RP_STACK_BYTES = 640 << 10 }; /* of one coroutine, guard included; memory is used as it is touched */

/* RP_NOMEM. */
rp_status rp_coroutines_open(void (*body)(void *own), void *own, rp_coroutines **out);
void rp_coroutines_close(rp_coroutines *set); /* takes NULL; what still lies on the stacks is forgotten */

/* An idle coroutine; else a new one, which begins its body when it is switched to. RP_NOMEM. */
rp_status rp_coroutine_take(rp_coroutines *set, rp_coroutine **out);
void rp_coroutine_park(rp_coroutines *set,
                       rp_coroutine *c); /* idle from now on; it may be the one that runs */

/* From home into a coroutine; returns when one goes home. */
void rp_coroutines_enter(rp_coroutines *set, rp_coroutine *to);
/* From the coroutine that runs to another (NULL: home); returns when it is switched to again. */
void rp_coroutine_switch(rp_coroutines *set, rp_coroutine *from, rp_coroutine *to);

/* For a signal handler with its third argument, while a coroutine runs: it returns to home instead, for good. The set
 * must be closed then. */
void rp_coroutines_abandon(rp_coroutines *set, void *at);
bool rp_coroutines_overflowed(const rp_coroutines *set,
                              uintptr_t address); /* is it the guard below a stack? */

#endif
