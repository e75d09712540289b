/* cuda_nvrtc.c - finds and opens NVRTC, NVIDIA's run-time compiler, and the folder of headers that fits it.
 *
 * Finding must not open: the file's size and time are the compiler's identity in cache keys, and reading
 * 100 MB of library costs more than a cache hit. So the usual places are looked through by name, the user's
 * own first; only an installation that none of them covers is found by the dynamic linker, and opened for it.
 *
 * A cubin of a newer major version than the driver's does not load: a driver of 12.x prefers libnvrtc.so.12.
 */
#include "cuda_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rp_nvrtc_table rp_nvrtc;

/* Where a folder may be: every entry of a path variable, if one is named, then `below`; * as in a shell. */
typedef struct place {
  const char *variable, *below;
} place;

static const place libraries[] = {
    {"CUDA_HOME", "/lib64"},
    {"CUDA_HOME", "/lib"},
    {"CUDA_PATH", "/lib64"},
    {"CUDA_PATH", "/lib"},
    {"LD_LIBRARY_PATH", ""},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/cu13/lib"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
    {"CONDA_PREFIX", "/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/cu13/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
    {NULL, "/usr/local/cuda/lib64"},
    {NULL, "/usr/local/cuda-*/lib64"},
    {NULL, "/opt/cuda/lib64"},
    {NULL, "/usr/lib/x86_64-linux-gnu"},
    {NULL, "/usr/lib/aarch64-linux-gnu"},
    {NULL, "/usr/lib64"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/cu13/lib"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib"},
};

static const place chosen_headers[] = {{"CUDA_HOME", "/include"}, {"CUDA_PATH", "/include"}};

/* Folders of headers, seen from the library's folder. */
static const char *const beside[] = {
    "/../include",                      /* a toolkit, nvidia/cu13 of the wheels */
    "/../../cuda_runtime/include",      /* nvidia/cuda_nvrtc of the wheels */
    "/../targets/x86_64-linux/include", /* conda */
    "/../targets/sbsa-linux/include",
    "/../../include", /* /usr/lib/ARCH of a distribution */
};

static const place usual_headers[] = {{NULL, "/usr/local/cuda/include"}, {NULL, "/opt/cuda/include"}};

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* The last of the existing files that a pattern names (cuda-13.0 after cuda-12.9). */
static bool last_match(const char *pattern, char out[PATH_MAX]) {
  glob_t found;
  if (glob(pattern, 0, NULL, &found) != 0) return false;
  int length = snprintf(out, PATH_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
  globfree(&found);
  return length < PATH_MAX;
}

/* A file in one place. Relative entries of a variable are passed over. */
static bool look(const place *where, const char *file, char out[PATH_MAX]) {
  char pattern[PATH_MAX];
  const char *roots = where->variable ? getenv(where->variable) : "";
  while (roots) {
    int length = (int)strcspn(roots, ":");
    int whole = snprintf(pattern, sizeof pattern, "%.*s%s/%s", length, roots, where->below, file);
    if (pattern[0] == '/' && (length > 0 || !where->variable) && whole < PATH_MAX && last_match(pattern, out))
      return true;
    roots = roots[length] ? roots + length + 1 : NULL;
  }
  return false;
}

static bool look_through(const place *list, size_t count, const char *const *files, size_t file_count,
                         char out[PATH_MAX]) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < file_count; k++)
      if (look(&list[i], files[k], out)) return true;
  return false;
}

/* Appends the places to a text, as a reader of a message wants them: "$CUDA_HOME/lib64, ...". */
static void describe(char *text, size_t room, const place *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%s%s%s", used ? ", " : "", list[i].variable ? "$" : "",
             list[i].variable ? list[i].variable : "", list[i].below);
  }
}

static pthread_once_t found = PTHREAD_ONCE_INIT, opened = PTHREAD_ONCE_INIT, searched = PTHREAD_ONCE_INIT;
static void *library;          /* never closed */
static char path[PATH_MAX];    /* of the library; "" when there is none */
static char headers[PATH_MAX]; /* "" when there are none */
static char header_places[PATH_MAX + 512];
static rp_status open_status;
static char open_why[PATH_MAX + 400];

/* The dynamic linker's own search, for installations that only /etc/ld.so.conf knows. */
static void find_by_linker(const char *const *files, size_t count) {
  for (size_t i = 0; i < count && !library; i++) library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
  struct link_map *map;
  if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) snprintf(path, sizeof path, "%s", map->l_name);
}

static void find_library(void) {
  static const char *const newest[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  static const char *const twelve[] = {"libnvrtc.so.12"};
  int driver = rp_cuda_driver_version();
  if (driver && driver < 13000 && look_through(libraries, COUNT(libraries), twelve, COUNT(twelve), path))
    return;
  if (look_through(libraries, COUNT(libraries), newest, COUNT(newest), path)) return;
  if (driver && driver < 13000) find_by_linker(twelve, COUNT(twelve));
  find_by_linker(newest, COUNT(newest));
}

rp_status rp_nvrtc_file(const char **out) {
  pthread_once(&found, find_library);
  *out = path;
  if (path[0]) return RP_OK;
  return rp_fail(
      RP_MISSING,
      "looking for NVRTC: libnvrtc.so.13 or libnvrtc.so.12: not in the toolkit's folder ($CUDA_HOME, "
      "$CUDA_PATH, /usr/local/cuda*, /opt/cuda), $LD_LIBRARY_PATH, the system's libraries or the nvidia "
      "packages of Python ($VIRTUAL_ENV, $CONDA_PREFIX, /usr/local, ~/.local)");
}

static rp_status fill(const char *file) {
  static const struct {
    const char *name;
    size_t at;
  } entries[] = {
#define ENTRY(entry) {#entry, offsetof(rp_nvrtc_table, entry)},
      RP_NVRTC_ENTRIES(ENTRY)
#undef ENTRY
  };
  for (size_t i = 0; i < COUNT(entries); i++) {
    void *symbol = dlsym(library, entries[i].name);
    if (!symbol) return rp_fail(RP_MISSING, "opening NVRTC: %s: it has no %s", file, entries[i].name);
    memcpy((char *)&rp_nvrtc + entries[i].at, &symbol, sizeof symbol);
  }
  return RP_OK;
}

/* When it compiles, NVRTC opens a second library by its bare name, which the linker finds in its own places
 * only, or when it is loaded already. Where this fails, NVRTC's own attempt may still succeed. */
static void open_builtins(const char *file) {
  char name[PATH_MAX + 64];
  const char *slash = strrchr(file, '/');
  if (!slash) return;
  snprintf(name, sizeof name, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - file), file, rp_nvrtc.major,
           rp_nvrtc.minor);
  dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static rp_status open_library(void) {
  const char *file;
  RP_TRY(rp_nvrtc_file(&file));
  if (!library) library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror(); /* begins with the file's name */
    return rp_fail(RP_MISSING, "opening NVRTC: %s", why ? why : file);
  }
  RP_TRY(fill(file));
  nvrtcResult result = rp_nvrtc.nvrtcVersion(&rp_nvrtc.major, &rp_nvrtc.minor);
  if (result != NVRTC_SUCCESS)
    return rp_fail(RP_MISSING, "nvrtcVersion: %s: %s", file, rp_nvrtc.nvrtcGetErrorString(result));
  open_builtins(file);
  return RP_OK;
}

static void open_once(void) {
  open_status = open_library();
  if (open_status != RP_OK) snprintf(open_why, sizeof open_why, "%s", rp_message());
}

rp_status rp_nvrtc_load(void) {
  pthread_once(&opened, open_once);
  return open_status == RP_OK ? RP_OK : rp_fail(open_status, "%s", open_why);
}

/* Looks beside the library by both its names: lib64 is often a link into the folder that has the headers. */
static bool look_beside(const char *file, char out[PATH_MAX]) {
  char folder[PATH_MAX];
  for (int pass = 0; pass < 2; pass++) {
    if (!(pass ? realpath(path, folder) : strcpy(folder, path))) return false;
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < COUNT(beside); i++) {
      char name[PATH_MAX];
      int length = snprintf(name, sizeof name, "%s%s/%s", folder, beside[i], file);
      if (length < PATH_MAX && realpath(name, out)) return true;
    }
  }
  return false;
}

static void find_headers(void) {
  static const char *const files[] = {"cuda_fp16.h"};
  describe(header_places, sizeof header_places, chosen_headers, COUNT(chosen_headers));
  size_t used = strlen(header_places);
  snprintf(header_places + used, sizeof header_places - used, ", beside %s", path[0] ? path : "libnvrtc");
  describe(header_places, sizeof header_places, usual_headers, COUNT(usual_headers));
  if (look_through(chosen_headers, COUNT(chosen_headers), files, 1, headers) ||
      (path[0] && look_beside(files[0], headers)) ||
      look_through(usual_headers, COUNT(usual_headers), files, 1, headers))
    *strrchr(headers, '/') = 0;
  else headers[0] = 0;
}

const char *rp_nvrtc_headers(const char **looked_in) {
  pthread_once(&found, find_library);
  pthread_once(&searched, find_headers);
  if (looked_in) *looked_in = header_places;
  return headers[0] ? headers : NULL;
}
