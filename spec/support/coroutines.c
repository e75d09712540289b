/* coroutines.c - switches through forty stacks, three rounds each, then leaves one of them from a signal handler; for
 * spec/core/global_spec.lua, which compiles it with cpu_coroutine.c in every way that there is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu_coroutine.h"

enum { COUNT = 40, ROUNDS = 3, ODD_ONE = 7 };

static rp_coroutines *set;
static rp_coroutine *list[COUNT];
static int running;
static double sum;

static void visit(int me, double value) {
  int next = (me + 1) % COUNT;
  sum += value;
  running = next;
  rp_coroutine_switch(set, list[me], next ? list[next] : NULL);
  if (running != me) abort();
}

static void body(void *own) {
  volatile int *nowhere = own;
  for (int me = running;;) {
    double value = me * 1.5; /* kept in registers, where a compiler does so */
    for (int i = 0; i < ROUNDS; i++) visit(me, value + i);
    if (me == ODD_ONE) *nowhere = 1;
  }
}

static void handle(int signal, siginfo_t *info, void *at) {
  (void)signal, (void)info;
  rp_coroutines_abandon(set, at);
}

static rp_status start(void) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  RP_TRY(rp_coroutines_open(body, NULL, &set));
  for (int i = 0; i < COUNT; i++) RP_TRY(rp_coroutine_take(set, list + i));
  return RP_OK;
}

int main(void) {
  if (start() != RP_OK) return puts(rp_message()), 1;
  for (int i = 0; i < ROUNDS + 1; i++) {
    running = 0;
    rp_coroutines_enter(set, list[0]);
  }
  printf("%g, left from %d\n", sum, running);
  rp_coroutines_close(set);
  return 0;
}
