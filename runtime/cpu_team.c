/* cpu_team.c - see cpu_team.h.
 *
 * Tasks have numbers that go on from job to job. Each member has a share of each task, and two numbers: of the newest
 * task whose share somebody has taken, and of the newest whose share has ended.
 *
 *   job published:  last = 74      tasks up to 74 may be worked on, one after the other
 *   member 0:       taken 71, ended 71
 *   member 1:       taken 71, ended 70      works on its share of task 71; 72 waits for it
 *
 * A member takes its own share of the next task as soon as all shares of the task before have ended; while it waits for
 * others it takes shares that nobody has taken yet, so who sleeps or is late delays nobody. A taken share holds its task
 * open, and the job with it: only who has taken one looks at the job. Both numbers lie on lines of their own: what a task
 * costs beside its work is one line that goes from one processor to the other. Who waits spins for 50 us, then sleeps.
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
  PATIENCE = 64,               /* looks at a number, before whoever waits looks for something to do */
  SPIN_NS = 50 * 1000,         /* then whoever waits sleeps */
  LOOK_NS = 20 * 1000 * 1000,  /* how long the caller sleeps at most before it looks for Ctrl-C */
  GRACE_NS = 250 * 1000 * 1000 /* from Ctrl-C to giving up: replays mostly end by then, their state whole */
};

typedef struct bed { /* where threads sleep until a bell rings */
  _Alignas(LINE) _Atomic uint32_t asleep;
  _Atomic uint32_t bell;
} bed;

typedef struct member {
  _Alignas(
      LINE) _Atomic uint64_t taken; /* number of the newest task of which this member's share was taken */
  _Alignas(LINE) _Atomic uint64_t ended; /* the same: has ended */
  _Alignas(LINE) pthread_t thread;
  rp_scratch *scratch;
  rp_scratch own;
  uint64_t next; /* number of the first task that it may work on, when its thread starts */
  bool caller;
  int64_t began;   /* caller: when the job began, ns */
  int64_t noticed; /* caller: when it saw the Ctrl-C, ns; 0: none */
  bool late;       /* caller: somebody kept it waiting */
} member;

static struct {
  _Alignas(LINE) _Atomic uint64_t last; /* number of the last task of the newest job */
  _Alignas(LINE) const rp_job *job;     /* these two are written only while no share is taken */
  uint64_t first;                       /* number of the job's first task */
  _Atomic bool stop;                    /* blocks are not run any more: the job was given up */
  rp_fault fault;                       /* why, if a kernel failed */
  bed idle, waiting;                    /* members without a job; members that wait for others */
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

/* Wakes all who sleep; costs one load when nobody does. After the store that they wait for, which a sleeper looks at last. */
static void ring(bed *b) {
  if (!atomic_load(&b->asleep)) return;
  atomic_fetch_add(&b->bell, 1);
  syscall(SYS_futex, &b->bell, FUTEX_WAKE_PRIVATE, RP_MOST_THREADS, NULL, NULL, 0);
}

static bool reached(_Atomic uint64_t *number, uint64_t wanted) {
  return atomic_load_explicit(number, memory_order_acquire) >= wanted;
}

/* Sleeps until the bell rings, or about limit_ns (0: no limit), unless the number is reached, or it is time to quit. */
static void doze(bed *b, _Atomic uint64_t *number, uint64_t wanted, int64_t limit_ns) {
  uint32_t bell = atomic_load(&b->bell);
  atomic_fetch_add(&b->asleep, 1);
  if (atomic_load(number) < wanted && !atomic_load(&team.quit)) sleep_on(&b->bell, bell, limit_ns);
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

/* Takes a member's share of a task, which is the next of which it can be taken; false: it was taken already. */
static bool take(member *m, uint64_t number) {
  uint64_t before = number - 1;
  return !reached(&m->taken, number) && atomic_compare_exchange_strong(&m->taken, &before, number);
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

/* Runs a share that `m` has taken, its own or another's: every members-th block, the only one is the caller's. */
static void run_share(member *m, member *owner, uint64_t number) {
  const rp_task *task = team.job->tasks + (number - team.first);
  for (uint32_t block = (uint32_t)(owner - team.list); block < task->blocks; block += (uint32_t)team.members)
    run_block(m, task, block);
  atomic_store(&owner->ended, number);
  ring(&team.waiting);
}

/* Was somebody late? What the caller waits for should not take longer than all that the job has taken so far. A clock a
 * task would cost a fortieth of a small decoder's step. */
static void note_late(member *m, int64_t start) {
  int64_t waited = now() - start;
  if (m->caller && waited > SPIN_NS && waited > start - m->began) m->late = true;
}

/* Sleeps until another's share has ended. */
static void wait_long(member *m, member *other, uint64_t number, int64_t start) {
  while (!reached(&other->ended, number)) {
    doze(&team.waiting, &other->ended, number, LOOK_NS);
    if (m->caller && rp_team_expired(&m->noticed)) atomic_store(&team.stop, true);
  }
  note_late(m, start);
}

/* Waits until another's share of a task has ended; one that nobody has taken is run here. */
static void wait_for(member *m, member *other, uint64_t number) {
  int64_t start = 0;
  while (!reached(&other->ended, number)) {
    for (int i = 0; i < PATIENCE; i++, relax())
      if (reached(&other->ended, number)) return;
    if (take(other, number)) run_share(m, other, number);
    else if (!start) start = now();
    else if (now() - start > SPIN_NS) return wait_long(m, other, number, start);
  }
}

/* Works on a task until all shares have ended: its own too, which another may have taken. */
static void work(member *m, uint64_t number) {
  if (take(m, number)) run_share(m, m, number);
  for (int i = 0; i < team.members; i++) wait_for(m, team.list + i, number);
}

/* Spins until there is a task of this number; false after SPIN_NS. */
static bool spin(uint64_t number) {
  int64_t start = 0;
  do {
    for (int i = 0; i < PATIENCE; i++, relax())
      if (reached(&team.last, number)) return true;
    if (!start) start = now();
  } while (now() - start < SPIN_NS && !atomic_load(&team.quit));
  return false;
}

static void *serve(void *own) {
  member *m = own;
  uint64_t next = m->next; /* not what was taken last: that may be by others, and not have ended */
  while (!atomic_load(&team.quit)) {
    if (reached(&team.last, next)) work(m, next++);
    else if (!spin(next)) doze(&team.idle, &team.last, next, 0);
  }
  return NULL;
}

/* ---- the caller's side */

/* Runs the job with the team; false: it was given up. *late: some thread kept it waiting. */
static bool run_together(const rp_job *job, bool *late) {
  member *m = team.list;
  m->caller = true;
  m->scratch = job->scratch;
  m->noticed = 0;
  m->late = false;
  m->began = now();
  team.job = job;
  team.first = atomic_load_explicit(&team.last, memory_order_relaxed) + 1;
  atomic_store_explicit(&team.stop, false, memory_order_relaxed);
  atomic_store_explicit(&team.fault.taken, false, memory_order_relaxed);
  uint64_t last = team.first + job->count - 1;
  atomic_store(&team.last, last);
  ring(&team.idle);
  for (uint64_t number = team.first; number <= last; number++) work(m, number);
  *late = m->late;
  return !atomic_load(&team.stop);
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
  uint64_t last = atomic_load(&team.last);
  for (int i = 0; i < size; i++) {
    atomic_store(&team.list[i].taken, last);
    atomic_store(&team.list[i].ended, last);
    team.list[i].next = last + 1;
  }
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
  ring(&team.idle);
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
