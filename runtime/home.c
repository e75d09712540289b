/* home.c - finds lua/, kernels/ and prebuilt/ from the place of the running code. */
#include "home.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "cache.h"

enum { LEVELS = 5 }; /* lib/x86_64-linux-gnu/lua/5.4/reprise is the deepest place of core.so below a prefix */

/* The path the program was started by, without /proc, which a bare chroot may lack. */
static const char *program_file(void) {
  const char *name = (const char *)getauxval(AT_EXECFN);
  return name ? name : "?";
}

/* The name the loader knows this code by; the program's own is empty there. */
static const char *loaded_from(void) {
  static const char here;
  Dl_info info;
  struct link_map *map = NULL;
  if (!dladdr1(&here, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return "?";
  return map->l_name[0] ? map->l_name : program_file();
}

const char *rp_home_file(void) {
  static char path[PATH_MAX];
  if (path[0]) return path;
  const char *name = loaded_from();
  if (!realpath(name, path)) snprintf(path, sizeof path, "%s", name);
  return path;
}

static bool holds_lua(const char *folder) {
  char probe[PATH_MAX];
  int length = snprintf(probe, sizeof probe, "%s/lua/reprise/init.lua", folder);
  return length < PATH_MAX && access(probe, R_OK) == 0;
}

/* Cuts the last name off; false at the root. */
static bool go_up(char *path) {
  char *slash = strrchr(path, '/');
  if (!slash || !slash[1]) return false;
  slash[slash == path] = '\0';
  return true;
}

static rp_status find_from_file(void) {
  char folder[PATH_MAX], shared[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", rp_home_file());
  for (int level = 0; level < LEVELS && go_up(folder); level++) {
    if (holds_lua(folder)) return rp_home_set(folder);
    int length = snprintf(shared, sizeof shared, "%s/share/reprise", folder);
    if (length < PATH_MAX && holds_lua(shared)) return rp_home_set(shared);
  }
  return holds_lua(RP_INSTALLED) ? rp_home_set(RP_INSTALLED)
                                 : RP_OK; /* LuaRocks parts core.so from the rest */
}

rp_status rp_home_find(void) {
  static bool done;
  if (done) return RP_OK;
  const char *named = getenv("REPRISE_HOME");
  bool given = named && *named;
  if (given && !holds_lua(named))
    return rp_fail(RP_MISSING, "REPRISE_HOME: %s: holds no lua/reprise/init.lua", named);
  RP_TRY(given ? rp_home_set(named) : find_from_file());
  done = true;
  return RP_OK;
}
