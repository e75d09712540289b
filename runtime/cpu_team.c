/* cpu_team.c - see cpu_team.h.
 *
 * All that threads share while a job runs is one word, the ticket:
 *
 *   63          32 31      16 15       0
 *   | serial      | blocks   | next     |   [next, blocks) of the present task can be claimed; 0 blocks: idle
 *
 * A claim adds one and is good if the word that it found had blocks left. A good claim holds its task open,
 * so the task and its job may be looked at; a bad one touches nothing but the ticket, so a thread may be late
 * by any time, even by jobs. Who ends a task's last block runs the undivided tasks that follow on its own and
 * publishes the next divided one under a new serial, with block 0 claimed. Waiting for a new serial is 50 us
 * of spinning, then a futex.
 */
#define _GNU_SOURCE
#include "cpu_team.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "cpu_crew.h"
#include "interrupt.h"
#include "mem.h"

enum {
  LINE = 128,                  /* bytes; two cache lines, which the hardware may fetch as a pair */
  SPIN_NS = 50 * 1000,         /* then whoever waits sleeps */
  LOOK_NS = 20 * 1000 * 1000,  /* how long the caller sleeps at most before it looks for Ctrl-C */
  GRACE_NS = 250 * 1000 * 1000 /* from Ctrl-C to giving up: replays mostly end by then, their state whole */
};

typedef struct bed { /* where threads sleep until a bell rings */
  _Alignas(LINE) _Atomic uint32_t asleep;
  _Atomic uint32_t bell;
} bed;

typedef struct member {
  _Alignas(LINE) pthread_t thread;
  rp_scratch *scratch;
  rp_scratch own;
  bool caller;
  int64_t began;   /* caller: when it took its first block of the task, ns; 0: none of it */
  int64_t noticed; /* caller: when it saw the Ctrl-C, ns; 0: none */
} member;

static struct {
  _Alignas(LINE) _Atomic uint64_t ticket;
  _Alignas(LINE) _Atomic uint32_t done; /* blocks of the present task that have ended */
  _Alignas(LINE) const rp_job *job;     /* these two are written only while nobody holds a good claim */
  size_t at;                            /* the present task */
  _Atomic bool stop;                    /* claimed blocks are not run any more: the job was given up */
  rp_fault fault;                       /* why, if a kernel failed */
  bed workers, caller;
  _Atomic bool quit;

  _Alignas(LINE) pthread_mutex_t gate; /* guards users and size */
  int users, size;
  pthread_mutex_t turn;         /* held by who runs a job; guards what follows */
  int members;                  /* threads, the caller included; 0: not started */
  _Atomic bool forked;          /* this process has no threads but has the memory of one that does */
  member list[RP_MOST_THREADS]; /* 0: the caller */
} team = {.gate = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_MUTEX_INITIALIZER};

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void relax(void) {
#if defined __x86_64__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("isb" ::: "memory");
#endif
}

/* ---- scratch memory */

void rp_scratch_free(rp_scratch *scratch) {
  rp_crew_free(scratch->crew);
  rp_free(scratch->raw);
  *scratch = (rp_scratch){0};
}

static rp_status scratch_fit(rp_scratch *scratch, size_t bytes) {
  if (bytes <= scratch->room) return RP_OK;
  void *raw = rp_alloc(bytes + LINE);
  if (!raw) return RP_NOMEM;
  rp_free(scratch->raw);
  uintptr_t at = ((uintptr_t)raw + LINE - 1) & ~(uintptr_t)(LINE - 1);
  scratch->raw = raw;
  scratch->at = (void *)at;
  scratch->room = bytes;
  return RP_OK;
}

/* ---- failing */

void rp_fault_put(rp_fault *fault, const char *text) {
  if (atomic_exchange(&fault->taken, true)) return;
  strncpy(fault->text, text, sizeof fault->text - 1);
}

/* ---- sleeping and waking */

static void sleep_on(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns) {
  struct timespec limit = {.tv_sec = 0, .tv_nsec = limit_ns};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, limit_ns ? &limit : NULL, NULL, 0);
}

/* Wakes all who sleep; costs one load when nobody does. After a new ticket, which a sleeper looks at last. */
static void ring(bed *b) {
  if (!atomic_load(&b->asleep)) return;
  atomic_fetch_add(&b->bell, 1);
  syscall(SYS_futex, &b->bell, FUTEX_WAKE_PRIVATE, RP_MOST_THREADS, NULL, NULL, 0);
}

static uint32_t serial_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }
static uint32_t blocks_of(uint64_t ticket) { return (uint32_t)ticket >> 16; }
static uint32_t next_of(uint64_t ticket) { return (uint32_t)ticket & 0xffff; }

static bool same(uint64_t seen) {
  return serial_of(atomic_load_explicit(&team.ticket, memory_order_acquire)) == serial_of(seen);
}

/* Spins until the serial changes; false after SPIN_NS. */
static bool spin(uint64_t seen) {
  int64_t start = 0;
  do {
    for (int i = 0; i < 64; i++, relax())
      if (!same(seen)) return true;
    if (!start) start = now();
  } while (now() - start < SPIN_NS);
  return false;
}

/* Sleeps until the serial changes, or about limit_ns (0: no limit). */
static void doze(bed *b, uint64_t seen, int64_t limit_ns) {
  uint32_t bell = atomic_load(&b->bell);
  atomic_fetch_add(&b->asleep, 1);
  if (serial_of(atomic_load(&team.ticket)) == serial_of(seen) && !atomic_load(&team.quit))
    sleep_on(&b->bell, bell, limit_ns);
  atomic_fetch_sub(&b->asleep, 1);
}

/* ---- Ctrl-C */

bool rp_team_expired(int64_t *noticed) {
  if (!rp_interrupts) return false;
  if (!*noticed) *noticed = now();
  return now() - *noticed > GRACE_NS;
}

static rp_status given_up(const rp_job *job, const rp_fault *fault) {
  if (fault->taken) return rp_fail(RP_DEVICE, "%s", fault->text);
  return rp_fail(RP_INTERRUPTED,
                 "interrupted while running %zu kernel%s on cpu: what they write is incomplete", job->count,
                 job->count == 1 ? "" : "s");
}

/* ---- working */

static void publish(uint32_t blocks, uint32_t next) {
  uint64_t serial = serial_of(atomic_load_explicit(&team.ticket, memory_order_relaxed)) + 1u;
  atomic_store(&team.ticket, serial << 32 | (uint64_t)blocks << 16 | next);
}

/* Claims a block of the present task; false: none is left, *seen is the ticket that said so. */
static bool claim(uint64_t *seen, uint32_t *block) {
  uint64_t ticket = atomic_load_explicit(&team.ticket, memory_order_acquire);
  if (next_of(ticket) < blocks_of(ticket)) ticket = atomic_fetch_add(&team.ticket, 1);
  *seen = ticket;
  *block = next_of(ticket);
  return next_of(ticket) < blocks_of(ticket);
}

/* False: it failed, or was interrupted inside. */
static inline bool run_one(const rp_task *task, uint32_t block, uint32_t blocks, rp_scratch *scratch,
                           rp_fault *fault) {
  if (task->crewed) return rp_crew_run(task, block, blocks, scratch, fault);
  task->call(task->args, block, block + 1, blocks, scratch->at);
  return true;
}

static void run_block(member *m, const rp_task *task, uint32_t block) {
  if (m->caller && rp_team_expired(&m->noticed)) atomic_store(&team.stop, true);
  if (atomic_load_explicit(&team.stop, memory_order_relaxed)) return;
  if (!run_one(task, block, task->blocks, m->scratch, &team.fault)) atomic_store(&team.stop, true);
}

/* Goes on from a task that has ended to the next divided one; true: block 0 of it is ours; false: the job is
 * over. */
static bool advance(member *m) {
  const rp_job *job = team.job;
  size_t at = team.at;
  for (; at < job->count && job->tasks[at].blocks == 1; at++) run_block(m, job->tasks + at, 0);
  team.at = at;
  if (at == job->count) {
    publish(0, 0); /* the job may be gone from here on */
    ring(&team.caller);
    return false;
  }
  atomic_store_explicit(&team.done, 0, memory_order_relaxed);
  publish(job->tasks[at].blocks, 1);
  ring(&team.workers);
  ring(&team.caller);
  return true;
}

/* Runs a claimed block and others of its task; true if they were the last to end. */
static bool finish(member *m, uint32_t block) {
  const rp_task *task = team.job->tasks + team.at;
  uint32_t blocks = task->blocks, ended = 0;
  uint64_t seen;
  if (m->caller) m->began = now();
  do {
    run_block(m, task, block);
    ended++;
  } while (claim(&seen, &block));
  return atomic_fetch_add(&team.done, ended) + ended == blocks;
}

/* Works from a claimed block on until others have to end theirs or the job is over. */
static void work(member *m, uint32_t block) {
  while (finish(m, block)) {
    team.at++;
    if (!advance(m)) return;
    block = 0;
  }
}

static void *serve(void *own) {
  member *m = own;
  uint64_t seen = 0; /* a serial of the past */
  while (!atomic_load(&team.quit)) {
    uint32_t block;
    if (claim(&seen, &block)) work(m, block);
    else if (!spin(seen)) doze(&team.workers, seen, 0);
  }
  return NULL;
}

/* ---- the caller's side */

/* Was somebody late? The block that the caller waited for should not have taken longer than all those it ran
 * itself. */
static bool waited_long(const member *m, int64_t start) {
  int64_t waited = now() - start;
  return m->began && waited > SPIN_NS && waited > start - m->began;
}

/* Waits until the present task, in which nothing is left to claim, has ended. */
static bool wait_late(member *m, uint64_t seen) {
  if (spin(seen)) return false;
  int64_t start = now() - SPIN_NS;
  while (same(seen)) {
    doze(&team.caller, seen, LOOK_NS);
    if (rp_team_expired(&m->noticed)) atomic_store(&team.stop, true);
  }
  return waited_long(m, start);
}

/* Runs the job with the team; false: it was given up. *late: some thread kept it waiting. */
static bool run_together(const rp_job *job, bool *late) {
  member *m = team.list;
  m->caller = true;
  m->scratch = job->scratch;
  m->began = m->noticed = 0;
  team.job = job;
  team.at = 0;
  atomic_store_explicit(&team.stop, false, memory_order_relaxed);
  atomic_store_explicit(&team.fault.taken, false, memory_order_relaxed);
  if (advance(m)) work(m, 0);
  uint64_t seen;
  uint32_t block;
  for (;;) {
    if (claim(&seen, &block)) work(m, block);
    else if (!blocks_of(seen)) return !atomic_load(&team.stop);
    else {
      *late |= wait_late(m, seen);
      m->began = 0;
    }
  }
}

static bool run_alone(const rp_job *job, rp_fault *fault) {
  int64_t noticed = 0;
  for (size_t i = 0; i < job->count; i++) {
    const rp_task *task = job->tasks + i;
    for (uint32_t block = 0; block < task->alone; block++) {
      if (rp_team_expired(&noticed)) return false;
      if (!run_one(task, block, task->alone, job->scratch, fault)) return false;
    }
  }
  return true;
}

/* ---- starting and ending threads */

static void after_fork(void) { /* in the child: nobody else is here, whatever the locks say */
  pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
  team.gate = team.turn = fresh;
  atomic_store(&team.forked, true);
}

static void watch_fork(void) { pthread_atfork(NULL, NULL, after_fork); }

/* All signals but those for a thread's own faults: a handler of the host program runs in the host program's
 * threads. */
static sigset_t foreign_signals(void) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&set, own[i]);
  return set;
}

static void start(int size) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_fork);
  sigset_t blocked = foreign_signals(), before;
  atomic_store(&team.quit, false);
  publish(0, 0);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  for (team.members = 1; team.members < size; team.members++) {
    member *m = team.list + team.members;
    m->scratch = &m->own;
    if (pthread_create(&m->thread, NULL, serve, m)) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop(void) {
  bool here = !atomic_load(&team.forked);
  atomic_store(&team.quit, true);
  publish(0, 0);
  ring(&team.workers);
  for (int i = 1; i < team.members; i++) {
    if (here) pthread_join(team.list[i].thread, NULL);
    rp_scratch_free(&team.list[i].own);
  }
  team.members = 0;
  atomic_store(&team.forked, false);
}

rp_status rp_team_open(int *threads) {
  rp_status status = RP_OK;
  pthread_mutex_lock(&team.gate);
  if (!team.users) status = rp_cpu_threads(&team.size);
  if (status == RP_OK) team.users++;
  *threads = team.size;
  pthread_mutex_unlock(&team.gate);
  return status;
}

void rp_team_close(void) {
  pthread_mutex_lock(&team.gate);
  if (!--team.users) {
    pthread_mutex_lock(&team.turn);
    stop();
    pthread_mutex_unlock(&team.turn);
  }
  pthread_mutex_unlock(&team.gate);
}

/* At the end of the process, for devices that nobody closed. A job that another thread still runs is left
 * alone. */
__attribute__((destructor)) static void leave(void) {
  if (pthread_mutex_trylock(&team.turn)) return;
  stop();
  pthread_mutex_unlock(&team.turn);
}

/* ---- running */

static bool is_divided(const rp_job *job) {
  for (size_t i = 0; i < job->count; i++)
    if (job->tasks[i].blocks > 1) return true;
  return false;
}

/* Takes the team if it is there and free; turn is held then. */
static bool take_turn(void) {
  if (atomic_load(&team.forked) || pthread_mutex_trylock(&team.turn)) return false;
  if (!team.members) start(team.size);
  if (team.members > 1) return true;
  pthread_mutex_unlock(&team.turn);
  return false;
}

static rp_status fit_members(size_t shared) {
  for (int i = 1; i < team.members; i++) RP_TRY(scratch_fit(&team.list[i].own, shared));
  return RP_OK;
}

static rp_status run(const rp_job *job, bool *late) {
  bool alone = !is_divided(job) || (job->habit && job->habit->alone);
  rp_fault fault = {.taken = false};
  if (alone || !take_turn()) return run_alone(job, &fault) ? RP_OK : given_up(job, &fault);
  rp_status status = fit_members(job->shared);
  if (status == RP_OK && !run_together(job, late)) status = given_up(job, &team.fault);
  pthread_mutex_unlock(&team.turn);
  return status;
}

rp_status rp_team_run(const rp_job *job) {
  bool late = false;
  RP_TRY(scratch_fit(job->scratch, job->shared));
  int64_t start = job->habit ? now() : 0;
  RP_TRY(run(job, &late));
  if (job->habit) rp_habit_note(job->habit, now() - start, late);
  return RP_OK;
}
