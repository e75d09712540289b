/* interrupt.c - the counter that SIGINT raises. */
#include "interrupt.h"

volatile sig_atomic_t rp_interrupts;

rp_status rp_interrupt_check(const char *doing) {
  return rp_interrupts ? rp_fail(RP_INTERRUPTED, "interrupted while %s", doing) : RP_OK;
}
