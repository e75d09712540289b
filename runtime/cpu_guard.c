/* cpu_guard.c - see cpu_guard.h. */
#define _GNU_SOURCE
#include "cpu_guard.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
  STACK = 64 << 10,
  NEAR = 1 << 20
}; /* bytes: of the handler; how far from a tensor an access may still be its */

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
enum { SIGNALS = sizeof signals / sizeof *signals };

static struct {
  pthread_mutex_t gate; /* guards what follows */
  int users;
  bool on;
  struct sigaction before[SIGNALS];
} guard = {.gate = PTHREAD_MUTEX_INITIALIZER};

/* ---- signals */

static int access_of(int signal, const void *at) {
  (void)at;
#if defined __x86_64__
  const ucontext_t *context = at;
  if (signal == SIGSEGV) return context->uc_mcontext.gregs[REG_ERR] & 2 ? 'w' : 'r';
#else
  (void)signal;
#endif
  return 0;
}

/* Not a kernel's fault: whoever was there before us, or the end of the process when the instruction is tried again. */
static void pass_on(int signal, siginfo_t *info, void *at) {
  int i = 0;
  while (i < SIGNALS - 1 && signals[i] != signal) i++;
  const struct sigaction *before = guard.before + i;
  if (before->sa_flags & SA_SIGINFO) before->sa_sigaction(signal, info, at);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) before->sa_handler(signal);
  else sigaction(signal, before, NULL);
}

static void handle(int signal, siginfo_t *info, void *at) {
  rp_fault_facts facts = {signal, access_of(signal, at), (uintptr_t)info->si_addr};
  if (info->si_code <= 0 || !rp_crew_fault(&facts, at)) pass_on(signal, info, at);
}

static void place_handlers(void) {
  struct sigaction own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&own.sa_mask);
  for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &own, guard.before + i);
}

/* Handlers that somebody else placed over ours stay. */
static void remove_handlers(void) {
  struct sigaction present;
  for (int i = 0; i < SIGNALS; i++)
    if (sigaction(signals[i], NULL, &present) == 0 && present.sa_sigaction == handle)
      sigaction(signals[i], guard.before + i, NULL);
}

static rp_status wanted(bool *out) {
  const char *word = getenv("REPRISE_GUARD");
  *out = word && strcmp(word, "1") == 0;
  if (*out || !word || !*word || strcmp(word, "0") == 0) return RP_OK;
  return rp_fail(RP_ARGUMENT, "reading REPRISE_GUARD: \"%s\": expected 0 or 1", word);
}

rp_status rp_guard_open(void) {
  bool on = guard.on;
  pthread_mutex_lock(&guard.gate);
  rp_status status = guard.users ? RP_OK : wanted(&on);
  if (status == RP_OK && !guard.users++) {
    guard.on = on;
    if (on) place_handlers();
  }
  pthread_mutex_unlock(&guard.gate);
  return status;
}

void rp_guard_close(void) {
  pthread_mutex_lock(&guard.gate);
  if (--guard.users == 0 && guard.on) {
    guard.on = false;
    remove_handlers();
  }
  pthread_mutex_unlock(&guard.gate);
}

bool rp_guarding(void) { return guard.on; }

/* ---- the handler's stack */

void rp_guard_sit(rp_guard_seat *seat) {
  static _Thread_local char stack[STACK];
  stack_t own = {.ss_sp = stack, .ss_size = STACK};
  if (guard.on) sigaltstack(&own, &seat->before);
}

void rp_guard_rise(const rp_guard_seat *seat) {
  if (guard.on) sigaltstack(&seat->before, NULL);
}

/* ---- memory */

rp_status rp_guard_take(size_t bytes, uintptr_t *out) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t inside = (bytes + page - 1) / page * page, whole = inside + 2 * page;
  if (whole < bytes) return rp_fail(RP_NOMEM, "taking %zu bytes on cpu under guard: too many", bytes);
  char *low = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (low == MAP_FAILED)
    return rp_fail(RP_NOMEM, "taking %zu bytes on cpu under guard: %s", bytes, strerror(errno));
  memcpy(low, &whole, sizeof whole);
  if (mprotect(low, page, PROT_NONE) || mprotect(low + page + inside, page, PROT_NONE)) {
    rp_status status = rp_fail(RP_NOMEM, "guarding %zu bytes on cpu: %s", bytes, strerror(errno));
    return munmap(low, whole), status;
  }
  *out = (uintptr_t)low + page + inside - bytes;
  return RP_OK;
}

void rp_guard_give(uintptr_t at) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *low = (char *)(at / page * page - page);
  size_t whole;
  if (mprotect(low, page, PROT_READ)) return; /* the system is out of mappings: this one stays */
  memcpy(&whole, low, sizeof whole);
  munmap(low, whole);
}

/* ---- sentences */

/* The parameter whose tensor an address is nearest to; its distance in bytes. -1: none is near. */
static int nearest(const rp_task *task, uintptr_t address, int64_t *distance) {
  int best = -1;
  for (size_t i = 0; i < task->kernel->count; i++) {
    uintptr_t pointer;
    if (!task->kernel->formals[i].pointer) continue;
    memcpy(&pointer, task->args[i], sizeof pointer);
    int64_t away = (int64_t)(address - pointer);
    if (llabs(away) < NEAR && (best < 0 || llabs(away) < llabs(*distance))) best = (int)i, *distance = away;
  }
  return best;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

void rp_guard_describe(const rp_task *task, const rp_fault_facts *facts, char *out, size_t room) {
  const char *verb = facts->access == 'w' ? "writes" : facts->access == 'r' ? "reads" : "touches";
  int64_t away = 0;
  int i = nearest(task, facts->address, &away);
  if (facts->signal == SIGFPE) snprintf(out, room, " divides an integer by zero, or out of its range");
  else if (i < 0)
    snprintf(out, room, " %s address 0x%zx, which is near none of its tensors", verb, (size_t)facts->address);
  else {
    const rp_formal *f = task->kernel->formals + i;
    size_t bytes = rp_type_bytes(f->type);
    uintptr_t pointer = facts->address - (uintptr_t)away;
    snprintf(out, room, " %s %s[%lld] of argument %d (%s%s *%s), %s", verb, f->name,
             (long long)floor_divide(away, bytes ? (int64_t)bytes : 1), i + 1, f->constant ? "const " : "",
             rp_type_name(f->type), f->name, pointer ? "which is outside the tensor" : "which is null");
  }
}
