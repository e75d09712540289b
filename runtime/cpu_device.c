/* cpu_device.c - the host processor as a device: memory, launches and graphs.
 *
 * Nothing is enqueued: every operation is done when it returns, so there is nothing to synchronize. A launch
 * of a KERNEL becomes a task of the thread team (cpu_team.h), a graph a list of tasks in record order. The
 * caller's grid is an upper bound: a GPU's grid would repeat the start of a kernel far too often here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "cpu.h"
#include "cpu_crew.h"
#include "cpu_guard.h"
#include "cpu_team.h"
#include "mem.h"

enum {
  GRANULARITY = 2 << 20,   /* bytes; a large page */
  ALIGNMENT = 256,         /* bytes; of every block */
  WARP = 32,               /* threads; a KERNEL takes whole warps here too */
  MOST_THREADS = 1024,     /* of a block, as on a GPU */
  MOST_SHARED = 16 << 20,  /* bytes of dynamic shared memory */
  PARTS_A_THREAD = 8,      /* the same of __global__ launches */
  PART_THREADS = 1024,     /* least threads (CUDA's) that another part of those is worth */
  BLOCK_BYTES = 16 << 10,  /* below two of these another thread costs more than it saves (measured) */
  LONG_BYTES = 8 << 20,    /* above this one thread stops now and then to look for Ctrl-C */
  WATCHED_BYTES = 64 << 20 /* larger commits are checked by us: the system grants more than it has */
};

typedef struct cpu {
  rp_device base;
  rp_scratch scratch; /* the calling thread's; owned */
  rp_habits habits;   /* of launches outside of graphs */
} cpu;

struct rp_exec {
  rp_job job;
  rp_habit habit;
  rp_task *tasks; /* owned, as are the next three */
  size_t *first;  /* of each task: its first value; one more at the end */
  void **args;    /* args[i] points to values[i] */
  uint64_t *values;
};

/* ---- opening */

static int count(void) { return 1; }

/* REPRISE_SIMT=1: the library's kernels run in the form that a GPU gets, so that it can be tested without one. */
static bool plays_gpu(void) {
  const char *word = getenv("REPRISE_SIMT");
  return word && strcmp(word, "1") == 0;
}

static rp_status open_one(int ordinal, rp_device **out) {
  (void)ordinal;
  cpu *own = rp_alloc_zero(1, sizeof *own);
  if (!own) return RP_NOMEM;
  rp_device *dev = &own->base;
  dev->ops = &rp_cpu_ops;
  dev->granularity = GRANULARITY;
  dev->simt = plays_gpu();
  snprintf(dev->name, sizeof dev->name, "cpu");
  rp_cpu_model(dev->model, sizeof dev->model);
  rp_status status = rp_cpu_arch(dev->arch, sizeof dev->arch);
  if (status == RP_OK) status = rp_guard_open();
  if (status == RP_OK && (status = rp_team_open(&dev->units)) != RP_OK) rp_guard_close();
  if (status != RP_OK) return rp_free(own), rp_fail_in(status, "opening cpu");
  dev->guards = rp_guarding();
  *out = dev;
  return RP_OK;
}

static void free_one(rp_device *dev) {
  cpu *own = (cpu *)dev;
  rp_team_close();
  rp_guard_close();
  rp_scratch_free(&own->scratch);
  rp_free(own);
}

static rp_status synchronize(rp_device *dev) {
  dev->waits++;
  return RP_OK;
}

static rp_status memory(rp_device *dev, size_t *free_bytes, size_t *total_bytes) {
  (void)dev;
  rp_cpu_memory(free_bytes, total_bytes);
  return RP_OK;
}

/* ---- memory */

static rp_status refused(const char *what, size_t bytes) {
  rp_status status = errno == ENOMEM ? RP_NOMEM : RP_DEVICE;
  return rp_fail(status, "%s %zu bytes on cpu: %s", what, bytes, strerror(errno));
}

/* Are addresses limited (ulimit -v)? */
static bool limited(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* Reserves a granule more than asked for, and gives back what lies before and behind the aligned range. Where addresses
 * are limited four times as much must be there: other pools, threads and libraries want some too. */
static rp_status reserve(rp_device *dev, size_t bytes, uintptr_t *out) {
  (void)dev;
  size_t times = limited() ? 4 : 1, padded = times * bytes + GRANULARITY;
  if (bytes > (SIZE_MAX - GRANULARITY) / times)
    return rp_fail(RP_NOMEM, "reserving %zu bytes on cpu: too many", bytes);
  char *at = mmap(NULL, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return refused("reserving", bytes);
  size_t before = -(uintptr_t)at & (GRANULARITY - 1);
  if (before) munmap(at, before);
  munmap(at + before + bytes, padded - before - bytes);
  *out = (uintptr_t)(at + before);
  return RP_OK;
}

static rp_status commit(rp_device *dev, uintptr_t at, size_t bytes) {
  (void)dev;
  size_t left = bytes, total;
  if (bytes > WATCHED_BYTES) rp_cpu_memory(&left, &total);
  if (bytes > left)
    return rp_fail(RP_NOMEM, "committing %zu bytes on cpu: out of memory (%zu of %zu bytes can be had)",
                   bytes, left, total);
  if (mprotect((void *)at, bytes, PROT_READ | PROT_WRITE)) return refused("committing", bytes);
  madvise((void *)at, bytes, MADV_HUGEPAGE); /* a wish; kernels without large pages refuse it */
  return RP_OK;
}

/* A fresh mapping in place of the old one: the pages go back, and so does their share of what the system has
 * promised. */
static rp_status decommit(rp_device *dev, uintptr_t at, size_t bytes) {
  (void)dev;
  void *now = mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return now == MAP_FAILED ? refused("decommitting", bytes) : RP_OK;
}

static void release(rp_device *dev, uintptr_t at, size_t bytes) {
  (void)dev;
  munmap((void *)at, bytes);
}

static rp_status take(rp_device *dev, size_t bytes, uintptr_t *out) {
  void *at;
  if (dev->guards) return rp_guard_take(bytes, out);
  int e = posix_memalign(&at, ALIGNMENT, bytes);
  if (e) return rp_fail(RP_NOMEM, "taking %zu bytes on cpu: %s", bytes, strerror(e));
  *out = (uintptr_t)at;
  return RP_OK;
}

static void give(rp_device *dev, uintptr_t at) {
  if (dev->guards) rp_guard_give(at);
  else free((void *)at);
}

static rp_status upload(rp_device *dev, uintptr_t to, const void *from, size_t bytes) {
  (void)dev;
  if (bytes) memcpy((void *)to, from, bytes);
  return RP_OK;
}

static rp_status download(rp_device *dev, void *to, uintptr_t from, size_t bytes) {
  dev->waits++;
  if (bytes) memcpy(to, (const void *)from, bytes);
  return RP_OK;
}

static rp_status map(rp_device *dev, size_t bytes, void **host, uintptr_t *address) {
  (void)dev;
  *host = rp_alloc(bytes);
  *address = (uintptr_t)*host;
  return *host ? RP_OK : RP_NOMEM;
}

static void unmap(rp_device *dev, void *host) {
  (void)dev;
  rp_free(host);
}

/* Every operation has ended when it returns. */
static rp_status poll(rp_device *dev, bool *idle) {
  (void)dev;
  *idle = true;
  return RP_OK;
}

/* ---- launches */

static rp_status refuse(const rp_launch *launch, const char *what, const char *expected) {
  return rp_fail(RP_ARGUMENT, "launching %s on cpu: %s: expected %s", launch->signature->name, what,
                 expected);
}

/* Within the limits that a GPU has. */
static rp_status check_grid(const rp_launch *launch, const char *what, rp_dims d, rp_dims most) {
  char text[64], expected[64];
  if (d.x && d.y && d.z && d.x <= most.x && d.y <= most.y && d.z <= most.z) return RP_OK;
  snprintf(text, sizeof text, "%s of %u x %u x %u", what, d.x, d.y, d.z);
  snprintf(expected, sizeof expected, "1 to %u x %u x %u", most.x, most.y, most.z);
  return refuse(launch, text, expected);
}

/* Blocks run one after the other in a thread of the team, so none can wait for another. A cluster is only a
 * way of placing blocks here. */
static rp_status check_together(const rp_launch *launch) {
  rp_dims g = launch->grid, c = launch->cluster;
  if (launch->cooperative && (uint64_t)g.x * g.y * g.z > 1)
    return refuse(
        launch, "cooperative, with several blocks",
        "one block: on a processor blocks run one after the other, so a grid cannot wait for itself");
  if (c.x && (!c.y || !c.z || g.x % c.x || g.y % c.y || g.z % c.z))
    return refuse(launch, "the grid and its clusters", "a grid that is a multiple of the cluster");
  return RP_OK;
}

/* A __global__ kernel is launched as on a GPU. */
static rp_status check_global(const rp_launch *launch) {
  char text[64], expected[64];
  rp_dims b = launch->block;
  RP_TRY(check_grid(launch, "grid", launch->grid, (rp_dims){INT32_MAX, UINT16_MAX, UINT16_MAX}));
  RP_TRY(check_grid(launch, "block", b, (rp_dims){RP_CREW_THREADS, RP_CREW_THREADS, 64}));
  if (b.x * b.y * b.z > RP_CREW_THREADS) {
    snprintf(text, sizeof text, "block of %u x %u x %u = %u threads", b.x, b.y, b.z, b.x * b.y * b.z);
    snprintf(expected, sizeof expected, "at most %d", RP_CREW_THREADS);
    return refuse(launch, text, expected);
  }
  if (launch->shared > RP_CREW_SHARED) {
    snprintf(text, sizeof text, "%u bytes of shared memory", launch->shared);
    snprintf(expected, sizeof expected, "at most %d", RP_CREW_SHARED);
    return refuse(launch, text, expected);
  }
  return check_together(launch);
}

static rp_status check(rp_device *dev, const rp_launch *launch) {
  (void)dev;
  if (launch->signature->global) return check_global(launch);
  const char *name = launch->signature->name;
  rp_dims grid = launch->grid, block = launch->block;
  if (grid.y > 1 || grid.z > 1 || block.y > 1 || block.z > 1)
    return rp_fail(RP_ARGUMENT,
                   "launching %s on cpu: a KERNEL has one dimension: grid %ux%ux%u, block %ux%ux%u", name,
                   grid.x, grid.y, grid.z, block.x, block.y, block.z);
  if (!grid.x || grid.x > INT32_MAX)
    return rp_fail(RP_ARGUMENT, "launching %s on cpu: grid of %u blocks: expected 1 to %d", name, grid.x,
                   INT32_MAX);
  if (!block.x || block.x % WARP || block.x > MOST_THREADS)
    return rp_fail(RP_ARGUMENT,
                   "launching %s on cpu: block of %u threads: expected a multiple of %d up to %d", name,
                   block.x, WARP, MOST_THREADS);
  if (launch->shared > MOST_SHARED)
    return rp_fail(RP_ARGUMENT, "launching %s on cpu: %u bytes of shared memory: expected at most %d", name,
                   launch->shared, MOST_SHARED);
  return RP_OK;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* How many blocks `threads` threads should make of `bytes` bytes of work: one each, if that is not too little. Each costs
 * the kernel's start. */
static size_t blocks_for(size_t bytes, size_t threads) {
  size_t shared_out = threads > 1 ? least(threads, bytes / BLOCK_BYTES) : 1;
  return most(1, most(shared_out, bytes / LONG_BYTES));
}

/* The same of a launch, within what the caller's warps allow. */
static uint32_t split(const rp_launch *launch, int threads) {
  size_t units = (size_t)launch->grid.x * (launch->block.x / WARP);
  return (uint32_t)least(least(blocks_for(launch->bytes, (size_t)threads), units), RP_MOST_BLOCKS);
}

/* How many parts the team makes of a __global__ launch: none that is too small to be worth the trouble. */
static uint32_t parts(const rp_launch *launch, int threads) {
  rp_dims g = launch->grid, b = launch->block;
  uint64_t blocks = (uint64_t)g.x * g.y * g.z, work = blocks * b.x * b.y * b.z;
  uint64_t most = threads > 1 ? (uint64_t)threads * PARTS_A_THREAD : 1;
  uint64_t worth = work / PART_THREADS < most ? work / PART_THREADS : most;
  return (uint32_t)(worth < 1 ? 1 : worth < blocks ? worth : blocks);
}

static rp_task task_of(const rp_device *dev, const rp_launch *launch, void *const *args) {
  rp_task task = {.args = args, .grid = launch->grid, .block = launch->block, .kernel = launch->signature};
  bool global = launch->signature->global;
  task.blocks = global ? parts(launch, dev->units) : split(launch, dev->units);
  task.alone = global ? 1 : split(launch, 1);
  task.crewed = global || rp_guarding();
  memcpy(&task.call, &launch->function, sizeof task.call); /* dlsym's pointer is one to a function */
  return task;
}

/* Launches of one kernel, size and grid take about the same time. */
static rp_habit *habit_of(cpu *own, const rp_launch *launch) {
  const struct {
    uint64_t function, bytes;
    rp_dims grid, block;
  } kind = {(uintptr_t)launch->function, launch->bytes, launch->grid, launch->block};
  return rp_habit_of(&own->habits, XXH3_64bits(&kind, sizeof kind));
}

static rp_status launch_one(rp_device *dev, const rp_launch *launch) {
  cpu *own = (cpu *)dev;
  RP_TRY(check(dev, launch));
  rp_task task = task_of(dev, launch, launch->args);
  rp_job job = {.tasks = &task, .count = 1, .shared = launch->shared, .scratch = &own->scratch};
  if (task.blocks > 1) job.habit = habit_of(own, launch);
  return rp_team_run(&job);
}

/* ---- graphs */

static void exec_free(rp_device *dev, rp_exec *exec) {
  (void)dev;
  rp_free(exec->tasks);
  rp_free(exec->first);
  rp_free(exec->args);
  rp_free(exec->values);
  rp_free(exec);
}

/* Fills in node `i`, whose arguments lie at first[i]. */
static void exec_put(const rp_device *dev, rp_exec *exec, size_t i, const rp_launch *launch) {
  size_t first = exec->first[i];
  exec->tasks[i] = task_of(dev, launch, exec->args + first);
  exec->job.shared = most(exec->job.shared, launch->shared);
  for (size_t k = 0; k < launch->signature->count; k++)
    memcpy(exec->values + first + k, launch->args[k], rp_formal_bytes(launch->signature->formals + k));
}

static rp_exec *exec_make(size_t tasks, size_t values) {
  rp_exec *exec = rp_alloc_zero(1, sizeof *exec);
  if (!exec) return NULL;
  exec->tasks = rp_alloc_zero(tasks, sizeof *exec->tasks);
  exec->first = rp_alloc_zero(tasks + 1, sizeof *exec->first);
  exec->args = rp_alloc_zero(values, sizeof *exec->args);
  exec->values = rp_alloc_zero(values, sizeof *exec->values);
  if (exec->tasks && exec->first && exec->args && exec->values) return exec;
  exec_free(NULL, exec);
  return NULL;
}

/* Tasks run in the order of the record, which keeps every edge. */
static rp_status exec_build(rp_device *dev, const rp_launch *nodes, size_t node_count, const rp_edge *edges,
                            size_t edge_count, rp_exec **out) {
  (void)edges, (void)edge_count;
  size_t values = 0;
  for (size_t i = 0; i < node_count; i++) {
    RP_TRY(check(dev, nodes + i));
    values += nodes[i].signature->count;
  }
  rp_exec *exec = exec_make(node_count, values);
  if (!exec) return RP_NOMEM;
  for (size_t k = 0; k < values; k++) exec->args[k] = exec->values + k;
  exec->job = (rp_job){
      .tasks = exec->tasks, .count = node_count, .scratch = &((cpu *)dev)->scratch, .habit = &exec->habit};
  for (size_t i = 0; i < node_count; i++) {
    exec->first[i + 1] = exec->first[i] + nodes[i].signature->count;
    exec_put(dev, exec, i, nodes + i);
  }
  *out = exec;
  return RP_OK;
}

static rp_status exec_set(rp_device *dev, rp_exec *exec, size_t node, const rp_launch *launch) {
  const char *name = launch->signature->name;
  if (node >= exec->job.count)
    return rp_fail(RP_ARGUMENT, "patching a graph on cpu: node %zu (%s): it has %zu nodes", node, name,
                   exec->job.count);
  if (exec->first[node + 1] - exec->first[node] != launch->signature->count)
    return rp_fail(RP_ARGUMENT, "patching a graph on cpu: node %zu (%s): another kernel stands there", node,
                   name);
  RP_TRY(check(dev, launch));
  exec_put(dev, exec, node, launch);
  return RP_OK;
}

static rp_status exec_launch(rp_device *dev, rp_exec *exec) {
  (void)dev;
  return rp_team_run(&exec->job);
}

const rp_device_ops rp_cpu_ops = {
    .kind = "cpu",
    .count = count,
    .open = open_one,
    .free = free_one,
    .synchronize = synchronize,
    .memory = memory,
    .examine = rp_cpu_examine,
    .reserve = reserve,
    .commit = commit,
    .decommit = decommit,
    .release = release,
    .take = take,
    .give = give,
    .upload = upload,
    .download = download,
    .map = map,
    .unmap = unmap,
    .poll = poll,
    .compiler_key = rp_compiler_key,
    .options = rp_compiler_options,
    .cuda_folder = "cuda",
    .compile = rp_cpu_compile,
    .load = rp_cpu_load,
    .unload = rp_cpu_unload,
    .function = rp_cpu_function,
    .check = check,
    .launch = launch_one,
    .exec_build = exec_build,
    .exec_set = exec_set,
    .exec_launch = exec_launch,
    .exec_free = exec_free,
};
