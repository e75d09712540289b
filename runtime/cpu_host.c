/* cpu_host.c - what machine this is: the processor, the threads and the memory that this process may use.
 *
 * Control groups are read in both versions: /proc/self/cgroup names our group, and each of its parents may be
 * tighter.
 */
#define _GNU_SOURCE
#include "cpu.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#if defined __x86_64__
/* Everything x86-64-v3 adds: AVX2 (the builtin asks the system too), BMI1, BMI2, F16C, FMA, LZCNT, MOVBE. */
static bool has_v3(void) {
  unsigned a, b, c, d;
  if (!__builtin_cpu_supports("avx2")) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_MOVBE) || !(c & bit_F16C)) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_BMI) || !(b & bit_BMI2)) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LZCNT;
}

static const char *own_arch(void) { return has_v3() ? "x86-64-v3" : "x86-64"; }
#elif defined __aarch64__
static const char *own_arch(void) { return "aarch64"; }
#else
#error "the CPU device knows x86-64 and aarch64"
#endif

/* A processor's name goes into a command line and into cache keys: letters, digits and a little
 * punctuation. */
static bool is_arch(const char *name, size_t room) {
  size_t length = strlen(name);
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)name[i]) && !strchr("-_.+", name[i])) return false;
  return length > 0 && length < room;
}

rp_status rp_cpu_arch(char *out, size_t room) {
  const char *chosen = getenv("REPRISE_CPU_ARCH");
  if (chosen && !*chosen) chosen = NULL;
  if (chosen && !is_arch(chosen, room))
    return rp_fail(RP_ARGUMENT, "reading REPRISE_CPU_ARCH: \"%s\" is no processor's name, such as x86-64-v3",
                   chosen);
  snprintf(out, room, "%s", chosen ? chosen : own_arch());
  return RP_OK;
}

/* The value behind "key : value", without the line's end, into out. */
static bool take_value(const char *line, const char *key, char *out, size_t room) {
  if (strncmp(line, key, strlen(key)) != 0) return false;
  const char *value = strchr(line, ':');
  if (!value) return false;
  value += 1 + strspn(value + 1, " \t");
  snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
  return true;
}

void rp_cpu_model(char *out, size_t room) {
  snprintf(out, room, "%s processor", own_arch());
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return;
  char line[512];
  while (fgets(line, sizeof line, file))
    if (take_value(line, "model name", out, room)) break;
  fclose(file);
}

/* ---- control groups */

/* Is `controller` one of the comma-separated `list`? */
static bool lists(const char *list, const char *controller) {
  size_t length = strlen(controller);
  for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
    if (strncmp(at, controller, length) == 0 && (at[length] == ',' || at[length] == 0)) return true;
  return false;
}

typedef void look_fn(const char *folder, void *out);

/* Shows `look` the folder root/path and those above it, up to root. */
static void climb(const char *root, const char *path, look_fn *look, void *out) {
  char folder[RP_PATH];
  int length = snprintf(folder, sizeof folder, "%s%s", root, path);
  if (length < 0 || (size_t)length >= sizeof folder) return;
  for (char *end = folder + length; end && end >= folder + strlen(root); end = strrchr(folder, '/')) {
    *end = 0;
    look(folder, out);
  }
}

/* Shows `look` our group of `controller` and its parents; nothing where control groups are not mounted as
 * usual. */
static void each_group(const char *controller, look_fn *look, void *out) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return;
  char line[RP_PATH];
  while (fgets(line, sizeof line, file)) { /* number:controllers:path; version 2 has no controllers */
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path) continue;
    *list++ = *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    char root[64];
    snprintf(root, sizeof root, "/sys/fs/cgroup%s%s", *list ? "/" : "", *list ? controller : "");
    if (!*list || lists(list, controller)) climb(root, path, look, out);
  }
  fclose(file);
}

/* Reads up to `want` numbers from folder/name; the count of those found ("max" is none). */
static int numbers(const char *folder, const char *name, long long *out, int want) {
  char path[RP_PATH + 64], line[128] = "";
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  char *at = fgets(line, sizeof line, file);
  fclose(file);
  int found = 0;
  for (char *end; at && found < want; at = end, found++) {
    out[found] = strtoll(at, &end, 10);
    if (end == at) break;
  }
  return found;
}

/* ---- threads */

static void look_quota(const char *folder, void *out) {
  int *threads = out;
  long long quota[2]; /* microseconds of processor time, and in how many */
  bool known =
      numbers(folder, "cpu.max", quota, 2) == 2 || (numbers(folder, "cpu.cfs_quota_us", quota, 1) == 1 &&
                                                    numbers(folder, "cpu.cfs_period_us", quota + 1, 1) == 1);
  if (!known || quota[0] <= 0 || quota[1] <= 0) return;
  long long whole = (quota[0] + quota[1] - 1) / quota[1];
  if (whole < *threads) *threads = (int)whole;
}

static int allowed(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t holds */
  return online > 0 ? (int)online : 1;
}

rp_status rp_cpu_threads(int *out) {
  const char *chosen = getenv("REPRISE_THREADS");
  if (chosen && *chosen) {
    char *end;
    long threads = strtol(chosen, &end, 10);
    if (*end || threads < 1 || threads > RP_MOST_THREADS)
      return rp_fail(RP_ARGUMENT, "reading REPRISE_THREADS: \"%s\" is not a number from 1 to %d", chosen,
                     RP_MOST_THREADS);
    *out = (int)threads;
    return RP_OK;
  }
  *out = allowed();
  each_group("cpu", look_quota, out);
  if (*out > RP_MOST_THREADS) *out = RP_MOST_THREADS;
  return RP_OK;
}

/* ---- memory */

typedef struct memory {
  size_t free, total;
} memory;

/* File pages that nobody has used lately count as used but are given up on demand. */
static size_t reclaimable(const char *folder) {
  char path[RP_PATH + 64], line[128];
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  unsigned long long bytes = 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "inactive_file %llu", &bytes) == 1 ||
        sscanf(line, "total_inactive_file %llu", &bytes) == 1)
      break;
  fclose(file);
  return (size_t)bytes;
}

static void look_memory(const char *folder, void *out) {
  memory *m = out;
  long long limit, used;
  bool known = (numbers(folder, "memory.max", &limit, 1) && numbers(folder, "memory.current", &used, 1)) ||
               (numbers(folder, "memory.limit_in_bytes", &limit, 1) &&
                numbers(folder, "memory.usage_in_bytes", &used, 1));
  if (!known || limit < 0 || used < 0) return;
  size_t cache = reclaimable(folder), most = (size_t)limit, taken = (size_t)used;
  taken = taken > cache ? taken - cache : 0;
  size_t left = most > taken ? most - taken : 0;
  if (most < m->total) m->total = most;
  if (left < m->free) m->free = left;
}

/* /proc/meminfo; where it cannot be read, sysconf's pages, which leave out what caches would give up. */
static memory of_machine(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  memory m = {(size_t)sysconf(_SC_AVPHYS_PAGES) * page, (size_t)sysconf(_SC_PHYS_PAGES) * page};
  FILE *file = fopen("/proc/meminfo", "re");
  if (!file) return m;
  char line[128];
  unsigned long long kib, available = 0, swap = 0;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "MemAvailable: %llu", &kib) == 1) available = kib;
    if (sscanf(line, "SwapFree: %llu", &kib) == 1) swap = kib;
  }
  fclose(file);
  if (available) m.free = (size_t)(available + swap) * 1024;
  return m;
}

void rp_cpu_memory(size_t *free_bytes, size_t *total_bytes) {
  memory m = of_machine();
  each_group("memory", look_memory, &m);
  *free_bytes = m.free;
  *total_bytes = m.total;
}
