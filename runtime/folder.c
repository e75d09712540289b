/* folder.c - see folder.h. Entries are opened relative to the folder that was checked, never through its
 * path again. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache.h"
#include "interrupt.h"
#include "mem.h"

static const char magic[] = "RPRISE01";
enum { MAGIC = 8, HASH = 16, HEAD = MAGIC + HASH, ENTRY_MIB = 1024 };

rp_key rp_key_of(const void *bytes, size_t size) {
  XXH128_hash_t hash = XXH3_128bits(bytes, size);
  rp_key key = {.low = hash.low64, .high = hash.high64};
  snprintf(key.text, sizeof key.text, "%016llx%016llx", (unsigned long long)key.high,
           (unsigned long long)key.low);
  return key;
}

static void hash_rest(const rp_key *key, const char *entry, size_t size, unsigned char out[HASH]) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(entry + HEAD, size - HEAD, key->low));
  memcpy(out, canonical.digest, HASH);
}

/* ---- Folders */

static void make_folders(const char *path, unsigned mode) {
  char part[4096];
  size_t length = strlen(path);
  if (length >= sizeof part) return;
  for (size_t i = 1; i <= length; i++) {
    if (i < length && path[i] != '/') continue;
    memcpy(part, path, i);
    part[i] = 0;
    mkdir(part, mode); /* it may be there: opening it tells */
  }
}

int rp_folder_open(const char *path, unsigned create) {
  if (create) make_folders(path, create);
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  struct stat st;
  bool ours = fstat(folder, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0);
  if (ours && !(st.st_mode & (S_IWGRP | S_IWOTH))) return folder;
  close(folder);
  errno = EACCES;
  return -1;
}

size_t rp_folder_count(int folder) {
  int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = own < 0 ? NULL : fdopendir(own);
  size_t count = 0;
  if (!list && own >= 0) close(own);
  if (!list) return 0;
  for (struct dirent *entry; (entry = readdir(list));)
    count += strspn(entry->d_name, "0123456789abcdef") == 32 && !entry->d_name[32];
  closedir(list);
  return count;
}

/* ---- Reading */

static uint64_t get_number(const char *at) {
  uint64_t number = 0;
  for (int i = 7; i >= 0; i--) number = number << 8 | (unsigned char)at[i];
  return number;
}

static bool read_exactly(int fd, char *to, size_t size) {
  while (size) {
    ssize_t got = read(fd, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= (size_t)got;
  }
  return true;
}

/* The bytes of an entry. *found stays NONE where there is none. */
static rp_status read_entry(int folder, const rp_key *key, char **out, size_t *size, rp_found *found) {
  int fd = openat(folder, key->text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return RP_OK;
  struct stat st;
  bool sane = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= (off_t)ENTRY_MIB << 20;
  *found = RP_FOUND_BAD;
  *size = sane ? (size_t)st.st_size : 0;
  *out = rp_alloc(*size);
  bool whole = *out && read_exactly(fd, *out, *size);
  close(fd);
  if (!*out) return RP_NOMEM;
  if (whole && sane) *found = RP_FOUND_GOOD;
  return RP_OK;
}

static bool intact(const rp_key *key, const char *entry, size_t size) {
  unsigned char hash[HASH];
  if (size < HEAD + 16 || memcmp(entry, magic, MAGIC) != 0) return false;
  hash_rest(key, entry, size, hash);
  return memcmp(entry + MAGIC, hash, HASH) == 0;
}

/* Where the image begins, past `count` symbols and its size; NULL: the entry is not laid out so. */
static const char *find_image(const char *entry, size_t size, size_t count) {
  const char *at = entry + HEAD, *end = entry + size;
  if (get_number(at) != count) return NULL;
  at += 8;
  for (size_t i = 0; i < count; i++) {
    const char *nul = memchr(at, 0, (size_t)(end - at));
    if (!nul) return NULL;
    at = nul + 1;
  }
  if (end - at < 8 || get_number(at) != (uint64_t)(end - at - 8)) return NULL;
  return at + 8;
}

static rp_status copy_symbols(const char *at, size_t count, rp_image *out) {
  out->symbols = rp_alloc_zero(count, sizeof *out->symbols);
  if (!out->symbols) return RP_NOMEM;
  for (; out->symbol_count < count; at += strlen(at) + 1) {
    out->symbols[out->symbol_count] = rp_copy_text(at);
    if (!out->symbols[out->symbol_count]) return RP_NOMEM;
    out->symbol_count++;
  }
  return RP_OK;
}

/* Makes the image of a whole entry, whose memory it takes over. */
static rp_status take_image(char *entry, size_t size, size_t count, const char *from, rp_image *out) {
  *out = (rp_image){.bytes = entry, .size = (size_t)(entry + size - from)};
  rp_status status = copy_symbols(entry + HEAD + 8, count, out);
  if (status != RP_OK) rp_image_free(out);
  else memmove(entry, from, out->size);
  return status;
}

rp_status rp_folder_read(int folder, const rp_key *key, size_t symbols, rp_image *out, rp_found *found) {
  char *entry = NULL;
  size_t size = 0;
  *found = RP_FOUND_NONE;
  RP_TRY(read_entry(folder, key, &entry, &size, found));
  const char *image = NULL;
  if (*found == RP_FOUND_GOOD && intact(key, entry, size)) image = find_image(entry, size, symbols);
  if (image) return take_image(entry, size, symbols, image, out);
  if (*found == RP_FOUND_GOOD) *found = RP_FOUND_BAD;
  rp_free(entry);
  return RP_OK;
}

/* ---- Writing */

static char *put(char *at, const void *from, size_t size) { return (char *)memcpy(at, from, size) + size; }

static char *put_number(char *at, uint64_t number) {
  for (int i = 0; i < 8; i++) *at++ = (char)(number >> 8 * i & 255);
  return at;
}

static size_t entry_size(const rp_image *image) {
  size_t size = HEAD + 16 + image->size;
  for (size_t i = 0; i < image->symbol_count; i++) size += strlen(image->symbols[i]) + 1;
  return size;
}

static void make_entry(const rp_key *key, const rp_image *image, char *entry, size_t size) {
  char *at = put(entry, magic, MAGIC) + HASH;
  at = put_number(at, image->symbol_count);
  for (size_t i = 0; i < image->symbol_count; i++)
    at = put(at, image->symbols[i], strlen(image->symbols[i]) + 1);
  at = put_number(at, image->size);
  put(at, image->bytes, image->size);
  unsigned char hash[HASH];
  hash_rest(key, entry, size, hash);
  put(entry + MAGIC, hash, HASH);
}

/* A new file whose name no other writer has; "" and -1 if there is none. */
static int open_temporary(int folder, const rp_key *key, unsigned mode, char name[96]) {
  static atomic_uint serial;
  for (int i = 0; i < 64; i++) {
    unsigned number = atomic_fetch_add(&serial, 1);
    snprintf(name, 96, ".%s.%ld.%u", key->text, (long)getpid(), number);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

static bool write_exactly(int fd, const char *from, size_t size) {
  while (size) {
    ssize_t done = write(fd, from, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    from += done;
    size -= (size_t)done;
  }
  return true;
}

static bool store(int folder, const rp_key *key, const char *entry, size_t size, unsigned mode) {
  char name[96];
  int fd = open_temporary(folder, key, mode, name);
  if (fd < 0) return false;
  bool written = write_exactly(fd, entry, size);
  int why = errno;
  if (close(fd) != 0 && written) {
    written = false;
    why = errno;
  }
  if (written && renameat(folder, name, folder, key->text) == 0) return true;
  if (written) why = errno;
  unlinkat(folder, name, 0);
  errno = why;
  return false;
}

rp_status rp_folder_write(int folder, const rp_key *key, const rp_image *image, unsigned mode) {
  size_t size = entry_size(image);
  char *entry = rp_alloc(size);
  if (!entry) return RP_NOMEM;
  make_entry(key, image, entry, size);
  bool stored = store(folder, key, entry, size, mode);
  int why = errno;
  rp_free(entry);
  return stored ? RP_OK : rp_fail(RP_IO, "writing entry %s: %s", key->text, strerror(why));
}

/* ---- Locking */

enum { LOCK_TURNS = 12000, LOCK_TURN_MS = 5 };

/* One file for all keys; a key locks one byte of it. Such locks belong to the open file: threads exclude
 * each other, and a process that dies leaves none behind. */
rp_status rp_folder_lock(int folder, const rp_key *key, int *lock) {
  int fd = openat(folder, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  struct flock byte = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(key->low & 0x3fffffff), .l_len = 1};
  *lock = fd;
  for (int i = 0; fd >= 0 && i < LOCK_TURNS; i++) {
    if (fcntl(fd, F_OFD_SETLK, &byte) == 0) return RP_OK;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) break;
    rp_status status = rp_interrupt_check("waiting for another process that compiles this kernel");
    if (status != RP_OK) return close(fd), *lock = -1, status;
    nanosleep(&(struct timespec){.tv_nsec = LOCK_TURN_MS * 1000000L}, NULL);
  }
  if (fd >= 0) close(fd);
  *lock = -1;
  return RP_OK;
}
