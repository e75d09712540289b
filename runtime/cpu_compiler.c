/* cpu_compiler.c - the host's C++ compiler as a child process: found, started without a shell, listened to,
 * ended.
 *
 * The child leads a process group of its own with SIGINT and the signal mask as new, so that an interrupt
 * ends the compiler proper and not just its driver. It works in the folder that it is given and has its
 * temporary files there.
 */
#define _GNU_SOURCE
#include "cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interrupt.h"
#include "mem.h"

extern char **environ;

/* Of the design. -as-needed leaves libstdc++ out of objects that do not use it, so that they load without
 * it. */
#define LANGUAGE "-x", "c++", "-std=gnu++17", "-fno-exceptions", "-fno-rtti"
#define CODE                                                                                    \
  "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", \
      "-fvisibility=hidden"
#define OBJECT "-fPIC", "-shared", "-fstack-clash-protection", "-Wl,--as-needed"

/* Under a sanitizer kernels are built with it too, if gcc built the program: clang's is inside the program, out of
 * their reach. */
#if defined RP_SANITIZE && !defined __clang__
#define CHECKS RP_SANITIZE, "-fno-omit-frame-pointer", "-g"
static const char *const flags[] = {LANGUAGE, CODE, OBJECT, CHECKS};
#else
static const char *const flags[] = {LANGUAGE, CODE, OBJECT};
#endif
enum { FLAGS = sizeof flags / sizeof *flags, PATIENCE_MS = 50 };

/* -march for a target; "" where the compiler's default is the target. */
static void march(const char *arch, char *out, size_t room) {
  bool usual = strcmp(arch, "aarch64") == 0;
  snprintf(out, room, "%s%s", usual ? "" : "-march=", usual ? "" : arch);
}

const char *rp_compiler_options(const char *arch) {
  static _Thread_local char text[512];
  char target[64];
  march(arch, target, sizeof target);
  size_t used = 0;
  for (int i = 0; i < FLAGS; i++) used += (size_t)snprintf(text + used, sizeof text - used, "%s ", flags[i]);
  snprintf(text + used, sizeof text - used, "%s", target);
  return text;
}

/* ---- finding */

static bool is_program(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

/* Makes a path absolute; symbolic links stay, since compiler caches go by the name they are called by. */
static bool absolute(const char *path, char *out, size_t room) {
  char here[RP_PATH] = "";
  if (*path != '/' && !getcwd(here, sizeof here)) return false;
  int size = snprintf(out, room, "%s%s%s", here, *here ? "/" : "", path);
  return size > 0 && (size_t)size < room;
}

/* Puts the absolute path of `name` into out: looked for on PATH unless it holds a slash. */
static bool locate(const char *name, char *out, size_t room) {
  if (strchr(name, '/')) return is_program(name) && absolute(name, out, room);
  const char *at = getenv("PATH");
  while (at && *at) {
    int length = (int)strcspn(at, ":");
    int size = snprintf(out, room, "%.*s/%s", length, at, name);
    if (*at == '/' && size > 0 && (size_t)size < room && is_program(out)) return true;
    at += length + (at[length] == ':');
  }
  return false;
}

rp_status rp_compiler_find(char *out, size_t room) {
  const char *chosen = getenv("REPRISE_CXX"), *usual = getenv("CXX");
  if (chosen && *chosen) {
    if (locate(chosen, out, room)) return RP_OK;
    return rp_fail(RP_MISSING, "looking for a C++ compiler: REPRISE_CXX is \"%s\", which is no program",
                   chosen);
  }
  if (usual && *usual && locate(usual, out, room)) return RP_OK;
  if (locate("c++", out, room) || locate("g++", out, room)) return RP_OK;
  return rp_fail(RP_MISSING, "looking for a C++ compiler: neither c++ nor g++ is on PATH: install g++, or "
                             "name one in REPRISE_CXX");
}

rp_status rp_compiler_key(char *out, size_t room) {
  char path[RP_PATH];
  struct stat s;
  RP_TRY(rp_compiler_find(path, sizeof path));
  if (stat(path, &s)) return rp_fail(RP_IO, "looking at the C++ compiler: %s: %s", path, strerror(errno));
  int size = snprintf(out, room, "%s %lld %lld.%09ld", path, (long long)s.st_size,
                      (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
  if (size > 0 && (size_t)size < room) return RP_OK;
  return rp_fail(RP_IO, "looking at the C++ compiler: %s: path too long", path);
}

/* ---- starting */

typedef struct child {
  pid_t pid;
  int errors; /* read end of its standard error */
  char *log;  /* what came from there, ended by NUL; owned */
  size_t size, room;
} child;

/* environ with TMPDIR as the folder; rp_alloc'ed, its strings are not. */
static char **environment(char *tmpdir) {
  size_t count = 0, kept = 0;
  while (environ[count]) count++;
  char **out = rp_alloc((count + 2) * sizeof *out);
  if (!out) return NULL;
  for (size_t i = 0; i < count; i++)
    if (strncmp(environ[i], "TMPDIR=", 7) != 0) out[kept++] = environ[i];
  out[kept++] = tmpdir;
  out[kept] = NULL;
  return out;
}

static int actions_fill(posix_spawn_file_actions_t *actions, const char *folder, int errors) {
  int e = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (!e) e = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
  if (!e) e = posix_spawn_file_actions_adddup2(actions, errors, 2);
  if (!e) e = posix_spawn_file_actions_addchdir_np(actions, folder);
  return e;
}

static void attributes_fill(posix_spawnattr_t *attributes) {
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  sigaddset(&usual, SIGINT);
  sigaddset(&usual, SIGTERM);
  sigaddset(&usual, SIGPIPE);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &usual);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setflags(attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

/* posix_spawn in `folder`, standard error to `errors`; an errno. */
static int spawn(pid_t *pid, char *const *argv, char *const *envp, const char *folder, int errors) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int e = posix_spawn_file_actions_init(&actions);
  if (e) return e;
  e = posix_spawnattr_init(&attributes);
  if (!e) {
    attributes_fill(&attributes);
    e = actions_fill(&actions, folder, errors);
    if (!e) e = posix_spawn(pid, argv[0], &actions, &attributes, argv, envp);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return e;
}

static rp_status start(child *c, char *const *argv, const char *folder, const char *name) {
  char tmpdir[RP_PATH];
  int ends[2], room = snprintf(tmpdir, sizeof tmpdir, "TMPDIR=%s", folder);
  if (room < 0 || (size_t)room >= sizeof tmpdir)
    return rp_fail(RP_IO, "compiling %s: %s: path too long", name, folder);
  char **envp = environment(tmpdir);
  if (!envp) return RP_NOMEM;
  int e = pipe2(ends, O_CLOEXEC) ? errno : 0;
  if (!e) {
    e = spawn(&c->pid, argv, envp, folder, ends[1]);
    close(ends[1]);
    c->errors = ends[0];
    if (e) close(ends[0]);
  }
  rp_free(envp);
  return e ? rp_fail(RP_IO, "compiling %s: starting %s: %s", name, argv[0], strerror(e)) : RP_OK;
}

/* ---- waiting */

/* Takes what is there now. 1: more may come, 0: the end, -1: no memory. */
static int listen(child *c) {
  char bytes[4096];
  ssize_t got = read(c->errors, bytes, sizeof bytes);
  if (got < 0) return errno == EINTR;
  if (!rp_grow(&c->log, &c->room, c->size + (size_t)got + 1, 1)) return -1;
  memcpy(c->log + c->size, bytes, (size_t)got);
  c->size += (size_t)got;
  c->log[c->size] = 0;
  return got > 0;
}

/* Has the child ended? A helper of its own (a compiler cache's server) may still hold the pipe then. */
static bool ended(child *c) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Collects the log until the child has ended. */
static rp_status follow(child *c, const char *name) {
  for (;;) {
    struct pollfd p = {.fd = c->errors, .events = POLLIN};
    int ready = poll(&p, 1, PATIENCE_MS);
    if (rp_interrupts) return rp_fail(RP_INTERRUPTED, "interrupted while compiling %s", name);
    int more = ready > 0 ? listen(c) : 1;
    if (more < 0) return RP_NOMEM;
    if (!more || (ready == 0 && ended(c))) return RP_OK;
  }
}

/* Reaps the child, whose whole group is killed first if `kept` says that its result is not wanted. */
static int reap(child *c, bool kill_first) {
  int status = 0;
  if (kill_first) kill(-c->pid, SIGKILL);
  while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) continue;
  close(c->errors);
  return status;
}

static rp_status judge(const child *c, int status, const char *compiler, const char *name) {
  const char *log = c->log ? c->log : "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return RP_OK;
  if (WIFSIGNALED(status))
    return rp_fail(RP_COMPILE, "compiling %s: %s was ended by signal %d\n%s", name, compiler,
                   WTERMSIG(status), log);
  return rp_fail(RP_COMPILE, "compiling %s: %s found errors\n%s", name, compiler, log);
}

rp_status rp_compiler_run(const char *compiler, const char *arch, const char *folder, const char *unit,
                          const char *object, const char *name) {
  char target[64];
  march(arch, target, sizeof target);
  const char *argv[FLAGS + 8] = {compiler};
  size_t n = 1;
  for (int i = 0; i < FLAGS; i++) argv[n++] = flags[i];
  if (*target) argv[n++] = target;
  const char *const files[] = {"-I", ".", "-o", object, unit};
  memcpy(argv + n, files, sizeof files);
  child c = {0};
  RP_TRY(start(&c, (char *const *)argv, folder, name)); /* posix_spawn leaves them as they are */
  rp_status status = follow(&c, name);
  int result = reap(&c, status != RP_OK);
  if (status == RP_OK) status = judge(&c, result, compiler, name);
  rp_free(c.log);
  return status;
}
