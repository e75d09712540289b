/* interrupt.h - Ctrl-C, as the core sees it: a counter that a signal handler raises and long work looks at. */
#ifndef RP_INTERRUPT_H
#define RP_INTERRUPT_H

#include "err.h"
#include <signal.h>

extern volatile sig_atomic_t rp_interrupts; /* SIGINTs not yet answered */

/* RP_INTERRUPTED, with the sentence "interrupted while <doing>", when one is pending; else RP_OK. */
rp_status rp_interrupt_check(const char *doing);

#endif
