/* cache.c - what an image is called, and the order in which places are asked for it: the prebuilt folder,
 * the user's folder, the compiler. folder.c does the rest.
 *
 * A key covers all that the bytes of an image depend on, each item with its length before it, so that no
 * two lists of items make the same bytes.
 */
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "mem.h"

enum { LAYOUT = 1 }; /* of the items in a key; raise it when they change */

static struct { atomic_uint_fast64_t prebuilt, hits, compiled, rebuilt; } counts;
static char *home; /* owned; never freed */

rp_status rp_home_set(const char *path) {
  char *copy = rp_copy_text(path);
  if (!copy) return RP_NOMEM;
  rp_free(home);
  home = copy;
  return RP_OK;
}

const char *rp_home(void) { return home ? home : "."; }

rp_cache_counts rp_cache_counted(void) {
  return (rp_cache_counts){counts.prebuilt, counts.hits, counts.compiled, counts.rebuilt};
}

void rp_image_free(rp_image *image) {
  for (size_t i = 0; i < image->symbol_count; i++) rp_free(image->symbols[i]);
  rp_free(image->symbols);
  rp_free(image->bytes);
  *image = (rp_image){0};
}

/* ---- Keys */

typedef struct items {
  char *bytes;
  size_t size, room;
  bool failed;
} items;

static void add_bytes(items *list, const void *bytes, size_t size) {
  uint64_t length = size;
  if (list->failed || !rp_grow(&list->bytes, &list->room, list->size + sizeof length + size, 1)) {
    list->failed = true;
    return;
  }
  memcpy(list->bytes + list->size, &length, sizeof length);
  memcpy(list->bytes + list->size + sizeof length, bytes, size);
  list->size += sizeof length + size;
}

static void add_text(items *list, const char *text) {
  add_bytes(list, text ? text : "", text ? strlen(text) : 0);
}

static void add_number(items *list, uint64_t number) { add_bytes(list, &number, sizeof number); }

static void add_source(items *list, const rp_source *source) {
  add_text(list, source->text);
  add_number(list, source->define_count);
  for (size_t i = 0; i < source->define_count; i++) {
    add_text(list, source->defines[i].name);
    add_text(list, source->defines[i].value);
  }
  add_number(list, source->header_count);
  for (size_t i = 0; i < source->header_count; i++) {
    add_text(list, source->headers[i].name);
    add_text(list, source->headers[i].text);
  }
  add_number(list, source->kernel_count);
  for (size_t i = 0; i < source->kernel_count; i++) {
    add_text(list, source->kernels[i].name);
    add_number(list, (uint64_t)source->kernels[i].global << 1 | source->kernels[i].extern_c);
  }
}

/* compiler: NULL for a prebuilt entry. */
static rp_status make_key(const rp_device_ops *ops, const char *arch, const rp_source *source,
                          const char *compiler, rp_key *out) {
  items list = {0};
  add_number(&list, LAYOUT);
  add_text(&list, RP_VERSION);
  add_text(&list, ops->kind);
  add_text(&list, arch);
  add_text(&list, ops->options(arch));
  add_source(&list, source);
  if (compiler) add_text(&list, compiler);
  if (!list.failed) *out = rp_key_of(list.bytes, list.size);
  rp_free(list.bytes);
  return list.failed ? RP_NOMEM : RP_OK;
}

/* ---- Places */

/* Where the user's entries lie; false: nowhere, as with a home that depends on where one stands. */
static bool user_path(char *out, size_t room) {
  const char *own = getenv("REPRISE_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *user = getenv("HOME");
  int length = -1;
  if (own && *own) length = snprintf(out, room, "%s", own);
  else if (xdg && *xdg == '/')
    length = snprintf(out, room, "%s/reprise", xdg); /* the standard wants absolute ones */
  else if (user && *user == '/') length = snprintf(out, room, "%s/.cache/reprise", user);
  return length > 0 && (size_t)length < room;
}

static int open_user(void) {
  char path[4096];
  return user_path(path, sizeof path) ? rp_folder_open(path, 0700) : -1;
}

bool rp_cache_keeps(void) {
  int folder = open_user();
  if (folder >= 0) close(folder);
  return folder >= 0;
}

static rp_status get_prebuilt(const rp_device_ops *ops, const char *arch, const rp_source *source,
                              rp_image *out, rp_found *found) {
  char path[4096];
  int length = snprintf(path, sizeof path, "%s/prebuilt", rp_home());
  int folder = (size_t)length < sizeof path ? rp_folder_open(path, 0) : -1;
  if (folder < 0) return RP_OK;
  rp_key key;
  rp_status status = make_key(ops, arch, source, NULL, &key);
  if (status == RP_OK) status = rp_folder_read(folder, &key, source->kernel_count, out, found);
  close(folder);
  return status;
}

static rp_status compile(const rp_device_ops *ops, const char *arch, const rp_source *source, rp_image *out) {
  *out = (rp_image){0};
  counts.compiled++;
  RP_TRY(ops->compile(arch, source, out));
  if (out->symbol_count == source->kernel_count) return RP_OK;
  size_t symbols = out->symbol_count;
  rp_image_free(out);
  return rp_fail(RP_COMPILE, "compiling %s for %s: %zu kernels came of %zu", source->name, arch, symbols,
                 source->kernel_count);
}

/* Compiles an entry that is not in the folder, or is bad there, unless another process has made it
 * meanwhile. */
static rp_status fill(int folder, const rp_key *key, const rp_device_ops *ops, const char *arch,
                      const rp_source *source, rp_image *out) {
  int lock;
  rp_found found = RP_FOUND_NONE;
  RP_TRY(rp_folder_lock(folder, key, &lock));
  rp_status status = rp_folder_read(folder, key, source->kernel_count, out, &found);
  if (status == RP_OK && found == RP_FOUND_GOOD) {
    counts.hits++;
  } else if (status == RP_OK) {
    status = compile(ops, arch, source, out);
    if (status == RP_OK && found == RP_FOUND_BAD) counts.rebuilt++;
    if (status == RP_OK)
      (void)rp_folder_write(folder, key, out, 0600); /* a full disk costs the next start time only */
  }
  if (lock >= 0) close(lock);
  return status;
}

static rp_status get_user(int folder, const rp_key *key, const rp_device_ops *ops, const char *arch,
                          const rp_source *source, rp_image *out) {
  rp_found found;
  RP_TRY(rp_folder_read(folder, key, source->kernel_count, out, &found));
  if (found != RP_FOUND_GOOD) return fill(folder, key, ops, arch, source, out);
  counts.hits++;
  return RP_OK;
}

rp_status rp_cache_get(const rp_device_ops *ops, const char *arch, const rp_source *source, rp_image *out) {
  rp_found found = RP_FOUND_NONE;
  RP_TRY(get_prebuilt(ops, arch, source, out, &found));
  if (found == RP_FOUND_GOOD) {
    counts.prebuilt++;
    return RP_OK;
  }
  char compiler[1024];
  if (ops->compiler_key(compiler, sizeof compiler) != RP_OK)
    return compile(ops, arch, source, out); /* says why */
  rp_key key;
  RP_TRY(make_key(ops, arch, source, compiler, &key));
  int folder = open_user();
  if (folder < 0) return compile(ops, arch, source, out);
  rp_status status = get_user(folder, &key, ops, arch, source, out);
  close(folder);
  return status;
}

static rp_status find_user(const rp_device_ops *ops, const char *arch, const rp_source *source, rp_image *out,
                           rp_found *found) {
  char compiler[1024];
  rp_key key;
  RP_TRY(ops->compiler_key(compiler, sizeof compiler));
  RP_TRY(make_key(ops, arch, source, compiler, &key));
  int folder = open_user();
  if (folder < 0) return RP_OK;
  rp_status status = rp_folder_read(folder, &key, source->kernel_count, out, found);
  close(folder);
  return status;
}

bool rp_cache_has(const rp_device_ops *ops, const char *arch, const rp_source *source) {
  rp_image image = {0};
  rp_found found = RP_FOUND_NONE;
  rp_status status = get_prebuilt(ops, arch, source, &image, &found);
  if (status == RP_OK && found != RP_FOUND_GOOD) status = find_user(ops, arch, source, &image, &found);
  if (status != RP_OK || found != RP_FOUND_GOOD) return false;
  rp_image_free(&image);
  return true;
}

/* ---- Facts */

static void tell_folder(rp_fact_fn *tell, void *to, const char *fact, const char *path, unsigned create) {
  char text[4200];
  int folder = rp_folder_open(path, create);
  bool refused = folder < 0 && errno == EACCES;
  snprintf(text, sizeof text, "opening %s: %s", path,
           refused ? "it belongs to another user, or others may write there" : strerror(errno));
  if (folder < 0) return tell(to, fact, NULL, text);
  bool usable = !create || faccessat(folder, ".", W_OK, AT_EACCESS) == 0;
  if (usable) snprintf(text, sizeof text, "%s: %zu entries", path, rp_folder_count(folder));
  else snprintf(text, sizeof text, "writing to %s: %s", path, strerror(errno));
  close(folder);
  tell(to, fact, usable ? text : NULL, usable ? NULL : text);
}

void rp_cache_examine(rp_fact_fn *tell, void *to) {
  char path[4096];
  snprintf(path, sizeof path, "%s/prebuilt", rp_home());
  tell_folder(tell, to, "prebuilt", path, 0);
  if (user_path(path, sizeof path)) tell_folder(tell, to, "cache", path, 0700);
  else
    tell(to, "cache", NULL,
         "looking for a cache: none of REPRISE_CACHE, XDG_CACHE_HOME and HOME names a folder");
}

rp_status rp_cache_build(const char *folder, const rp_device_ops *ops, const char *arch,
                         const rp_source *source) {
  rp_key key;
  rp_image image;
  RP_TRY(make_key(ops, arch, source, NULL, &key));
  int fd = rp_folder_open(folder, 0755);
  if (fd < 0) return rp_fail(RP_IO, "writing prebuilt kernels to %s: %s", folder, strerror(errno));
  rp_status status = compile(ops, arch, source, &image);
  if (status == RP_OK) {
    status = rp_folder_write(fd, &key, &image, 0644);
    if (status != RP_OK) rp_fail_in(status, "building %s into %s", source->name, folder);
    rp_image_free(&image);
  }
  close(fd);
  return status;
}
