/* safetensors.c - maps a .safetensors file and checks all of its header before a tensor is handed out.
 *
 * A header is a stranger's: each number is checked before it is used, no product or sum is formed that could
 * overflow, text of the file is shown without control characters. Spans must cover the data without holes or
 * overlaps, as the reference reader demands. A file cut short after it was opened is outside what is checked.
 * Owner: the handle owns the mapping and the parsed header; names live as long as it does. The JSON
 * lives in jansson's own memory: its allocator is a global of a library that others in the process may use.
 */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem.h"

enum { LENGTH_BYTES = 8, HEADER_MOST = 100000000 }; /* bytes; the second is the format's own limit */

/* Element types of the format: name, bits an element. (The formatter would indent each line more than the last.) */
/* clang-format off */
#define STORED_TYPES(X) \
  X("F32", 32) X("F16", 16) X("BF16", 16) X("F64", 64) X("C64", 64) X("I8", 8) X("I16", 16) \
  X("I32", 32) X("I64", 64) X("BOOL", 8) X("U8", 8) X("U16", 16) X("U32", 32) X("U64", 64) \
  X("F8_E4M3", 8) X("F8_E5M2", 8) X("F8_E8M0", 8) X("F6_E2M3", 6) X("F6_E3M2", 6) X("F4", 4)
/* clang-format on */

static const struct stored_type {
  const char *name;
  uint64_t bits;
} stored_types[] = {
#define STORED_ROW(name, bits) {name, bits},
    STORED_TYPES(STORED_ROW)
#undef STORED_ROW
};

struct rp_safetensors {
  char *path;
  unsigned char *map;
  size_t size;    /* of the file */
  size_t start;   /* where the data begins */
  json_t *header; /* owns the names */
  size_t count;
  rp_stored *tensors;        /* by position in the file */
  const rp_stored **by_name; /* the same, sorted by name */
};

static void without_controls(char *text) {
  for (char *c = text; *c; c++)
    if ((unsigned char)*c < 32 || *c == 127) *c = '?';
}

/* Stores "read PATH: text" or "read PATH: tensor NAME: text"; no text of the file moves the cursor. */
__attribute__((format(printf, 3, 4))) static rp_status refuse(const rp_safetensors *file, const char *tensor,
                                                              const char *format, ...) {
  char text[512], name[128] = "";
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (tensor) snprintf(name, sizeof name, "tensor \"%.100s\": ", tensor);
  without_controls(text);
  without_controls(name);
  return rp_fail(RP_FORMAT, "read %s: %s%s", file->path, name, text);
}

static rp_status no_memory(const rp_safetensors *file) { return rp_fail_in(RP_NOMEM, "read %s", file->path); }

static rp_status system_failed(const rp_safetensors *file, const char *attempt) {
  return rp_fail(errno == ENOENT ? RP_MISSING : RP_IO, "%s %s: %s", attempt, file->path, strerror(errno));
}

/* ---- mapping */

static rp_status map_open(rp_safetensors *file, int fd) {
  struct stat about;
  if (fstat(fd, &about) != 0) return system_failed(file, "open");
  if (!S_ISREG(about.st_mode)) return rp_fail(RP_IO, "open %s: not a regular file", file->path);
  if (about.st_size < LENGTH_BYTES)
    return refuse(file, NULL, "offset 0: the file has %" PRId64 " bytes, a header's length alone takes 8",
                  (int64_t)about.st_size);
  file->size = (size_t)about.st_size;
  void *map = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) return system_failed(file, "map");
  file->map = map;
  /* the kernel reads ahead, all of it, while the caller goes on */
  posix_madvise(map, file->size, POSIX_MADV_WILLNEED);
  return RP_OK;
}

static rp_status map_file(rp_safetensors *file) {
  int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* non-blocking: a pipe must not hang us */
  if (fd < 0) return system_failed(file, "open");
  rp_status status = map_open(file, fd);
  close(fd);
  return status;
}

/* ---- the header as text */

static uint64_t length_of(const unsigned char *bytes) {
  uint64_t n = 0;
  for (int i = LENGTH_BYTES; i-- > 0;) n = n << 8 | bytes[i];
  return n;
}

static rp_status parse_header(rp_safetensors *file) {
  uint64_t length = length_of(file->map), room = file->size - LENGTH_BYTES;
  if (length > HEADER_MOST)
    return refuse(file, NULL,
                  "offset 0: a header of %" PRIu64 " bytes, at most %d are allowed: "
                  "not a safetensors file?",
                  length, HEADER_MOST);
  if (length > room)
    return refuse(file, NULL,
                  "offset 8: the header is %" PRIu64 " bytes long, but the file ends after %" PRIu64
                  " of them: cut short?",
                  length, room);
  json_error_t error;
  const char *text = (const char *)file->map + LENGTH_BYTES;
  file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
  if (!file->header)
    return refuse(file, NULL, "offset %d: the header is not JSON: %s", LENGTH_BYTES + error.position,
                  error.text);
  if (!json_is_object(file->header)) return refuse(file, NULL, "offset 8: the header is not a JSON object");
  file->start = LENGTH_BYTES + (size_t)length;
  return RP_OK;
}

static rp_status check_metadata(const rp_safetensors *file, json_t *metadata) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) return refuse(file, NULL, "__metadata__ is not a JSON object");
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value)) return refuse(file, NULL, "__metadata__: \"%.60s\" is not a string", key);
  }
  return RP_OK;
}

/* ---- one tensor */

static const struct stored_type *type_named(const char *name) {
  for (size_t i = 0; i < sizeof stored_types / sizeof *stored_types; i++)
    if (strcmp(stored_types[i].name, name) == 0) return &stored_types[i];
  return NULL;
}

static rp_status read_shape(const rp_safetensors *file, json_t *shape, rp_stored *out, uint64_t *elements) {
  if (!json_is_array(shape)) return refuse(file, out->name, "shape is not a list");
  if (json_array_size(shape) > RP_RANK)
    return refuse(file, out->name, "shape: %zu dimensions, at most %d are supported", json_array_size(shape),
                  RP_RANK);
  out->rank = (int)json_array_size(shape);
  *elements = 1;
  for (int i = 0; i < out->rank; i++) {
    json_t *item = json_array_get(shape, (size_t)i);
    if (!json_is_integer(item) || json_integer_value(item) < 0)
      return refuse(file, out->name, "shape: dimension %d is not a whole number from 0", i + 1);
    out->shape[i] = json_integer_value(item);
    if (__builtin_mul_overflow(*elements, (uint64_t)out->shape[i], elements))
      return refuse(file, out->name, "shape: the product of its dimensions is too large");
  }
  return RP_OK;
}

/* *out: from the start of the file. */
static rp_status read_offset(const rp_safetensors *file, const char *name, json_t *item, size_t *out) {
  json_int_t offset = json_integer_value(item);
  if (!json_is_integer(item) || offset < 0)
    return refuse(file, name, "data_offsets are not whole numbers from 0");
  if ((uint64_t)offset > file->size - file->start)
    return refuse(file, name,
                  "data_offsets: offset %zu + %" JSON_INTEGER_FORMAT " lies behind the end of "
                  "the file, which has %zu bytes: cut short?",
                  file->start, offset, file->size);
  *out = file->start + (size_t)offset;
  return RP_OK;
}

static rp_status read_span(const rp_safetensors *file, json_t *offsets, rp_stored *out) {
  if (!json_is_array(offsets) || json_array_size(offsets) != 2)
    return refuse(file, out->name, "data_offsets is not a list of two numbers");
  RP_TRY(read_offset(file, out->name, json_array_get(offsets, 0), &out->from));
  RP_TRY(read_offset(file, out->name, json_array_get(offsets, 1), &out->to));
  if (out->to < out->from)
    return refuse(file, out->name, "data_offsets end at %zu, before their begin %zu", out->to, out->from);
  out->data = file->map + out->from;
  return RP_OK;
}

static rp_status check_size(const rp_safetensors *file, const rp_stored *t, uint64_t bits,
                            uint64_t elements) {
  uint64_t total, have = t->to - t->from;
  if (__builtin_mul_overflow(elements, bits, &total))
    return refuse(file, t->name, "shape: the product of its dimensions is too large");
  if (total % 8 != 0) return refuse(file, t->name, "its %s elements do not fill whole bytes", t->dtype);
  if (total / 8 != have)
    return refuse(file, t->name,
                  "offset %zu: its shape of %s needs %" PRIu64 " bytes, its data_offsets span "
                  "%" PRIu64,
                  t->from, t->dtype, total / 8, have);
  return RP_OK;
}

static rp_status read_tensor(const rp_safetensors *file, const char *name, json_t *entry, rp_stored *out) {
  uint64_t elements = 0;
  out->name = name;
  if (!json_is_object(entry)) return refuse(file, name, "its entry is not a JSON object");
  out->dtype = json_string_value(json_object_get(entry, "dtype"));
  if (!out->dtype) return refuse(file, name, "dtype is missing or not a string");
  const struct stored_type *type = type_named(out->dtype);
  if (!type) return refuse(file, name, "unknown dtype \"%.40s\"", out->dtype);
  RP_TRY(read_shape(file, json_object_get(entry, "shape"), out, &elements));
  RP_TRY(read_span(file, json_object_get(entry, "data_offsets"), out));
  return check_size(file, out, type->bits, elements);
}

/* ---- all tensors */

static int earlier(const void *a, const void *b) {
  const rp_stored *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

static int name_before(const void *a, const void *b) {
  return strcmp((*(const rp_stored *const *)a)->name, (*(const rp_stored *const *)b)->name);
}

static rp_status check_cover(const rp_safetensors *file) {
  size_t end = file->start;
  for (size_t i = 0; i < file->count; i++) {
    const rp_stored *t = &file->tensors[i];
    if (t->from < end) /* not the first: none begins before the data */
      return refuse(file, t->name, "begins at offset %zu and overlaps \"%.100s\", which ends at %zu", t->from,
                    file->tensors[i - 1].name, end);
    if (t->from > end)
      return refuse(file, t->name, "begins at offset %zu, after a hole of %zu bytes", t->from, t->from - end);
    end = t->to;
  }
  if (end != file->size)
    return refuse(file, NULL, "offset %zu: %zu bytes behind the last tensor", end, file->size - end);
  return RP_OK;
}

static rp_status read_tensors(rp_safetensors *file) {
  const char *name;
  json_t *entry;
  size_t room = json_object_size(file->header);
  file->tensors = rp_alloc_zero(room + 1, sizeof *file->tensors); /* + 1: never of no bytes */
  file->by_name = rp_alloc_zero(room + 1, sizeof *file->by_name);
  if (!file->tensors || !file->by_name) return no_memory(file);
  json_object_foreach(file->header, name, entry) {
    if (strcmp(name, "__metadata__") == 0) RP_TRY(check_metadata(file, entry));
    else RP_TRY(read_tensor(file, name, entry, &file->tensors[file->count++]));
  }
  qsort(file->tensors, file->count, sizeof *file->tensors, earlier);
  for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
  qsort(file->by_name, file->count, sizeof *file->by_name, name_before);
  return check_cover(file);
}

static rp_status open_all(rp_safetensors *file, const char *path) {
  file->path = rp_copy_text(path);
  if (!file->path) return rp_fail_in(RP_NOMEM, "open %s", path);
  RP_TRY(map_file(file));
  RP_TRY(parse_header(file));
  return read_tensors(file);
}

rp_status rp_safetensors_open(const char *path, rp_safetensors **out) {
  rp_safetensors *file = rp_alloc_zero(1, sizeof *file);
  *out = NULL;
  if (!file) return rp_fail_in(RP_NOMEM, "open %s", path);
  rp_status status = open_all(file, path);
  if (status == RP_OK) *out = file;
  else rp_safetensors_close(file);
  return status;
}

size_t rp_safetensors_count(const rp_safetensors *file) { return file->count; }

const rp_stored *rp_safetensors_at(const rp_safetensors *file, size_t index) { return &file->tensors[index]; }

const rp_stored *rp_safetensors_find(const rp_safetensors *file, const char *name) {
  const rp_stored key = {.name = name}, *wanted = &key;
  const rp_stored **found = bsearch(&wanted, file->by_name, file->count, sizeof *file->by_name, name_before);
  return found ? *found : NULL;
}

void rp_safetensors_close(rp_safetensors *file) {
  if (!file) return;
  if (file->map) munmap(file->map, file->size);
  json_decref(file->header);
  rp_free(file->by_name);
  rp_free(file->tensors);
  rp_free(file->path);
  rp_free(file);
}
