/* cpu_crew.c - see cpu_crew.h.
 *
 * A thread is not yet started (numbers from `next` on), running (`me`), ready to go on (a bit in `ready`), waiting, or
 * ended. Who waits for the block stands in `waiting`; who waits for lanes of its warp, in `waits` of the warp, with
 * what it waits for in its rp_lane. Threads that have ended are waited for by nobody: a barrier opens when all that
 * live have arrived, lanes meet when all lanes of their mask that live are there with the same mask and purpose.
 */
#define _GNU_SOURCE
#include "cpu_crew.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cpu_coroutine.h"
#include "cpu_guard.h"
#include "cpu_lanes.h"
#include "interrupt.h"
#include "mem.h"

enum { WORDS = RP_CREW_THREADS / 64, WARPS = RP_CREW_THREADS / 32 };
enum { COUNT, ALL, ANY }; /* what a barrier answers; as in cuda.cuh */
enum over { GOING, FAILED, INTERRUPTED, FAULTED };

struct rp_crew {
  rp_coroutines *set;    /* owned; NULL until needed, and after a failure */
  rp_coroutine *current; /* runs */
  const rp_task *task;
  rp_env *env;
  rp_thread *thread; /* the kernel as one thread; NULL: a KERNEL under guard */
  uint32_t part, parts;
  void *dynamic; /* of a KERNEL */

  uint32_t count, next, me;      /* threads of the block; the first not started; the one that runs */
  uint32_t live, arrived, tally; /* not ended; at the barrier; of those, how many said yes */
  uint32_t agreed, met;          /* tally and arrived of the last barrier that opened */
  uint64_t ready[WORDS], waiting[WORDS];
  uint32_t alive[WARPS], waits[WARPS]; /* lanes not ended; lanes that wait for lanes */
  rp_lane lanes[RP_CREW_THREADS];
  rp_coroutine *on[RP_CREW_THREADS]; /* where a thread runs */
  rp_dims place[RP_CREW_THREADS];    /* its threadIdx */
  rp_dims shape;                     /* of the block that `place` is of */

  enum over over;
  bool inside; /* a coroutine runs: a fault is the kernel's */
  int64_t noticed;
  rp_fault_facts facts; /* FAULTED */
  char text[800];       /* why it failed */
};

static _Thread_local rp_crew *running; /* of this system thread */

/* ---- failing */

static size_t name_block(const rp_crew *c, char *out, size_t room) {
  const rp_signature *kernel = c->task->kernel;
  int n = c->thread
              ? snprintf(out, room, "running %.200s on cpu: block (%u, %u, %u)", kernel->name,
                         c->env->block.x, c->env->block.y, c->env->block.z)
              : snprintf(out, room, "running %.200s on cpu: block %u of %u", kernel->name, c->part, c->parts);
  return n > 0 && (size_t)n < room ? (size_t)n : room - 1;
}

static size_t name_thread(const rp_crew *c, char *out, size_t room) {
  size_t n = name_block(c, out, room);
  rp_dims t = c->thread ? c->place[c->me] : (rp_dims){0};
  int more = snprintf(out + n, room - n, ", thread (%u, %u, %u)", t.x, t.y, t.z);
  return more > 0 && (size_t)more < room - n ? n + (size_t)more : room - 1;
}

/* Goes home for good. */
static _Noreturn void leave(rp_crew *c) {
  rp_coroutine_switch(c->set, c->current, NULL);
  __builtin_unreachable();
}

/* Fails on behalf of the thread that runs. */
static _Noreturn void fail(rp_crew *c, const char *format, ...) {
  va_list list;
  size_t n = name_thread(c, c->text, sizeof c->text);
  va_start(list, format);
  vsnprintf(c->text + n, sizeof c->text - n, format, list);
  va_end(list);
  c->over = FAILED;
  leave(c);
}

static void note_waiting(rp_crew *c, uint32_t n, rp_crowd list[RP_LANES_KINDS + 1]) {
  bool barrier = c->waiting[n / 64] >> (n % 64) & 1, lanes = c->waits[n / 32] >> (n % 32) & 1;
  if (!barrier && !lanes) return;
  rp_crowd *at = list + (barrier ? RP_LANES_KINDS : c->lanes[n].what);
  if (!at->count++) *at = (rp_crowd){1, c->lanes[n].mask, c->place[n]};
}

/* Nobody can go on. */
static void report_deadlock(rp_crew *c) {
  rp_crowd list[RP_LANES_KINDS + 1] = {{0}};
  size_t n = name_block(c, c->text, sizeof c->text), room = sizeof c->text;
  n += (size_t)snprintf(c->text + n, room - n, ": nobody is ready:");
  for (uint32_t i = 0; i < c->count; i++) note_waiting(c, i, list);
  for (uint32_t k = 0; k <= RP_LANES_KINDS; k++)
    if (list[k].count) n += rp_crowd_print(list + k, k, c->text + n, room - n);
  if (c->live < c->count) snprintf(c->text + n, room - n, " %u ended", c->count - c->live);
  else c->text[n - 1] = 0; /* the last semicolon */
  c->over = FAILED;
}

static void look_for_interrupt(rp_crew *c) {
  if (rp_interrupts && c->over == GOING && rp_team_expired(&c->noticed)) c->over = INTERRUPTED;
}

/* ---- turns */

static void set_bit(uint64_t *words, uint32_t n) { words[n / 64] |= (uint64_t)1 << (n % 64); }
static void clear_bit(uint64_t *words, uint32_t n) { words[n / 64] &= ~((uint64_t)1 << (n % 64)); }

static void become(rp_crew *c, uint32_t n) {
  c->me = n;
  c->env->thread = c->place[n];
}

/* The next thread after `me` that is ready; -1: none. */
static int find_ready(const rp_crew *c) {
  uint32_t words = (c->count + 63) / 64, w = c->me / 64;
  uint64_t bits = c->ready[w] & ~(uint64_t)0 << (c->me % 64) << 1;
  for (uint32_t k = 0; k <= words; k++) {
    if (bits) return (int)(w * 64) + __builtin_ctzll(bits);
    w = w + 1 == words ? 0 : w + 1;
    bits = c->ready[w];
  }
  return -1;
}

/* Lets lanes go on that wait for __activemask, in groups of those that called it in the same place. */
static bool release_active(rp_crew *c) {
  bool any = false;
  for (uint32_t w = 0; w * 32 < c->count; w++) {
    uint32_t group = rp_lanes_active(c->lanes + (size_t)w * 32, c->waits[w]);
    c->waits[w] &= ~group;
    c->ready[w / 2] |= (uint64_t)group << (w % 2 * 32);
    any |= group != 0;
  }
  return any;
}

static int next_ready(rp_crew *c) {
  look_for_interrupt(c);
  if (c->over) return -1;
  int n = find_ready(c);
  return n < 0 && c->next == c->count && release_active(c) ? find_ready(c) : n;
}

/* Where to go on: with a thread that is ready, else on a coroutine that starts the next one, else (NULL) at home. */
static rp_coroutine *choose(rp_crew *c) {
  rp_coroutine *out = NULL;
  int n = next_ready(c);
  if (n >= 0) {
    clear_bit(c->ready, (uint32_t)n);
    become(c, (uint32_t)n);
    return c->on[n];
  }
  if (c->over || c->next == c->count) return NULL;
  if (rp_coroutine_take(c->set, &out) != RP_OK) {
    snprintf(c->text, sizeof c->text, "%s", rp_message());
    c->over = FAILED;
  }
  return out;
}

/* The thread that runs waits: others go on until it is ready. */
static void wait_turn(rp_crew *c) {
  rp_coroutine *mine = c->current, *to = choose(c);
  if (to == mine) return;
  if (!to && !c->over) report_deadlock(c);
  c->current = to;
  rp_coroutine_switch(c->set, mine, to);
}

/* ---- barriers */

static void open_barrier(rp_crew *c) {
  for (uint32_t w = 0; w * 64 < c->count; w++) c->ready[w] |= c->waiting[w], c->waiting[w] = 0;
  c->agreed = c->tally;
  c->met = c->arrived;
  c->arrived = c->tally = 0;
}

/* agreed and met stay until all have read them: the next barrier opens only when all are there. */
static uint32_t barrier(rp_crew *c, uint32_t ask, uint32_t value) {
  c->tally += value != 0;
  if (++c->arrived == c->live) {
    open_barrier(c);
    look_for_interrupt(c);
    if (c->over) leave(c);
  } else {
    set_bit(c->waiting, c->me);
    wait_turn(c);
  }
  return ask == COUNT ? c->agreed : ask == ALL ? c->agreed == c->met : c->agreed > 0;
}

/* ---- lanes */

/* If the lanes of a group are all there, they exchange what they came for and are ready, but for the one that runs. */
static bool meet(rp_crew *c, uint32_t w, uint32_t lane) {
  rp_lane *lanes = c->lanes + (size_t)w * 32;
  uint32_t group = lanes[lane].mask & c->alive[w];
  if ((c->waits[w] & group) != group || !rp_lanes_agree(lanes, group, lane)) return false;
  rp_lanes_exchange(lanes, group, lanes[lane].what);
  c->waits[w] &= ~group;
  c->ready[w / 2] |= (uint64_t)group << (w % 2 * 32);
  return true;
}

static uint64_t meet_lanes(rp_crew *c, uint32_t what, uint32_t mask, uint64_t value, uint32_t source) {
  uint32_t me = c->me, bit = 1u << (me % 32);
  if (!(mask & bit))
    fail(c, " calls %s with mask 0x%08x, which leaves out its own lane %u", rp_lanes_name(what), mask,
         me % 32);
  c->lanes[me] = (rp_lane){value, what, mask, source};
  c->waits[me / 32] |= bit;
  if (meet(c, me / 32, me % 32)) clear_bit(c->ready, me);
  else wait_turn(c);
  return c->lanes[me].value;
}

static uint32_t active(rp_crew *c, const void *site) {
  c->lanes[c->me] = (rp_lane){.value = (uintptr_t)site, .what = RP_LANES_ACTIVE};
  c->waits[c->me / 32] |= 1u << (c->me % 32);
  uint32_t me = c->me;
  wait_turn(c);
  return (uint32_t)c->lanes[me].value;
}

/* A thread that looks again and again at what another should write: all others go first. */
static void yield(rp_crew *c) {
  uint32_t me = c->me;
  rp_coroutine *mine = c->current, *to = choose(c);
  if (c->over) leave(c);
  if (!to) { /* the other one may be of another block */
    sched_yield();
    return;
  }
  set_bit(c->ready, me);
  c->current = to;
  rp_coroutine_switch(c->set, mine, to);
}

static void trap(rp_crew *c, const char *why) { fail(c, ": %s", why); }

/* ---- a block */

/* A thread has ended: those that waited for it may be complete. */
static void end_thread(rp_crew *c) {
  uint32_t w = c->me / 32, bit = 1u << (c->me % 32);
  c->alive[w] &= ~bit;
  c->live--;
  if (c->live && c->arrived == c->live) open_barrier(c);
  for (uint32_t left = c->waits[w]; left; left &= left - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(left);
    if (c->waits[w] >> lane & 1 && c->lanes[w * 32 + lane].mask & bit) meet(c, w, lane);
  }
}

static void run_threads(rp_crew *c) {
  while (c->next < c->count && !c->over) {
    uint32_t n = c->next++;
    c->on[n] = c->current;
    become(c, n);
    c->thread(c->task->args);
    end_thread(c);
  }
}

/* What every coroutine does: threads, until none is left to be started; then it is idle until another block. */
static void work(void *own) {
  rp_crew *c = own;
  for (;;) {
    if (c->thread) run_threads(c);
    else c->task->call(c->task->args, c->part, c->part + 1, c->parts, c->dynamic);
    rp_coroutine *mine = c->current, *to = c->thread ? choose(c) : NULL;
    if (c->thread && !to && c->live && !c->over) report_deadlock(c);
    rp_coroutine_park(c->set, mine);
    c->current = to;
    rp_coroutine_switch(c->set, mine, to);
  }
}

static void reset(rp_crew *c) {
  c->live = c->count;
  c->next = c->me = c->arrived = c->tally = 0;
  memset(c->ready, 0, sizeof c->ready);
  memset(c->waiting, 0, sizeof c->waiting);
  memset(c->waits, 0, sizeof c->waits);
  for (uint32_t w = 0; w * 32 < c->count; w++)
    c->alive[w] = c->count - w * 32 >= 32 ? ~0u : (1u << (c->count - w * 32)) - 1;
}

static void describe_fault(rp_crew *c) {
  size_t n = name_thread(c, c->text, sizeof c->text);
  if (rp_coroutines_overflowed(c->set, c->facts.address))
    snprintf(c->text + n, sizeof c->text - n, " needs more than its %d KiB of stack", RP_STACK_BYTES >> 10);
  else rp_guard_describe(c->task, &c->facts, c->text + n, sizeof c->text - n);
}

/* Runs one block, or one of a KERNEL, to its end; false: it is over before. */
static bool enter(rp_crew *c) {
  if (!c->set && rp_coroutines_open(work, c, &c->set) != RP_OK) c->over = FAILED;
  if (c->over || rp_coroutine_take(c->set, &c->current) != RP_OK) {
    snprintf(c->text, sizeof c->text, "%s", rp_message());
    c->over = FAILED;
    return false;
  }
  c->inside = true;
  rp_coroutines_enter(c->set, c->current);
  c->inside = false;
  if (c->over == FAULTED) describe_fault(c);
  return !c->over;
}

static void lay_out(rp_crew *c, rp_dims shape) {
  c->count = shape.x * shape.y * shape.z;
  if (memcmp(&c->shape, &shape, sizeof shape) == 0) return;
  c->shape = shape;
  for (uint32_t i = 0; i < c->count; i++)
    c->place[i] = (rp_dims){i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
}

static uint64_t first_block(uint64_t blocks, uint32_t part, uint32_t parts) {
  uint64_t rest = blocks % parts;
  return blocks / parts * part + (part < rest ? part : rest);
}

/* Called from the program. */
static void run_blocks(rp_crew *c, rp_env *env, rp_thread *thread, void *const *args, uint32_t part,
                       uint32_t parts) {
  rp_dims grid = c->task->grid;
  uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, end = first_block(blocks, part + 1, parts);
  (void)args; /* the task's */
  *env = (rp_env){.threads = c->task->block,
                  .blocks = grid,
                  .crew = c,
                  .barrier = barrier,
                  .lanes = meet_lanes,
                  .active = active,
                  .yield = yield,
                  .trap = trap};
  c->env = env;
  c->thread = thread;
  for (uint64_t b = first_block(blocks, part, parts); b < end && !c->over; b++) {
    uint64_t row = b / grid.x;
    env->block = (rp_dims){(uint32_t)(b % grid.x), (uint32_t)(row % grid.y), (uint32_t)(row / grid.y)};
    reset(c);
    enter(c);
    look_for_interrupt(c);
  }
}

/* ---- a task */

static bool settle(rp_crew *c, rp_fault *fault) {
  if (c->over == GOING) return true;
  rp_coroutines_close(c->set);
  c->set = NULL;
  if (c->over != INTERRUPTED) rp_fault_put(fault, c->text);
  return false;
}

static void start(rp_crew *c, rp_scratch *scratch) {
  rp_crew_door door = {run_blocks, c};
  if (c->task->kernel->global) {
    lay_out(c, c->task->block);
    c->task->call(c->task->args, c->part, c->part + 1, c->parts, &door);
  } else {
    c->thread = NULL;
    c->dynamic = scratch->at;
    enter(c);
  }
}

bool rp_crew_run(const rp_task *task, uint32_t part, uint32_t parts, rp_scratch *scratch, rp_fault *fault) {
  if (!scratch->crew && !(scratch->crew = rp_alloc_zero(1, sizeof *scratch->crew)))
    return rp_fault_put(fault, rp_message()), false;
  rp_crew *c = scratch->crew, *outer = running;
  rp_guard_seat seat;
  c->task = task;
  c->part = part;
  c->parts = parts;
  c->over = GOING;
  c->noticed = 0;
  running = c;
  rp_guard_sit(&seat);
  start(c, scratch);
  rp_guard_rise(&seat);
  running = outer;
  return settle(c, fault);
}

void rp_crew_free(rp_crew *crew) {
  if (!crew) return;
  rp_coroutines_close(crew->set);
  rp_free(crew);
}

bool rp_crew_fault(const rp_fault_facts *facts, void *at) {
  rp_crew *c = running;
  if (!c || !c->inside) return false;
  c->inside = false;
  c->over = FAULTED;
  c->facts = *facts;
  rp_coroutines_abandon(c->set, at);
  return true;
}
