/* safetensors_write.c - see safetensors_write.h. A tensor at a time passes through host memory. */
#include "safetensors_write.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

static const char *stored_name(rp_dtype dtype) {
  static const char *const names[] = {
#define STORED_NAME(id, name, ctype, bytes, stored) [id] = stored,
      RP_DTYPES(STORED_NAME)
#undef STORED_NAME
  };
  return names[dtype];
}

/* ---- the header */

/* { "dtype": "F16", "shape": [2, 3], "data_offsets": [from, to] } */
static json_t *entry_of(const rp_tensor *x, size_t from) {
  json_t *shape = json_array();
  for (int d = 0; d < x->rank; d++) json_array_append_new(shape, json_integer(x->shape[d]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", stored_name(x->dtype), "shape", shape, "data_offsets",
                   (json_int_t)from, (json_int_t)(from + rp_tensor_bytes(x)));
}

static rp_status add_entry(const char *path, json_t *header, const rp_to_store *item, size_t from) {
  if (json_object_get(header, item->name))
    return rp_fail(RP_ARGUMENT, "write %s: tensor \"%s\": the name is there already", path, item->name);
  if (json_object_set_new(header, item->name, entry_of(item->tensor, from)) == 0) return RP_OK;
  return rp_fail(RP_ARGUMENT, "write %s: a name is not UTF-8", path);
}

/* Compact JSON with spaces at its end, so that the data begin on 8 bytes. Free with free(). */
static rp_status header_text(const char *path, const rp_to_store *list, size_t count, char **out) {
  json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
  rp_status status = header ? RP_OK : rp_fail(RP_NOMEM, "write %s: out of memory", path);
  size_t at = 0;
  for (size_t i = 0; status == RP_OK && i < count; i++) {
    status = add_entry(path, header, list + i, at);
    at += rp_tensor_bytes(list[i].tensor);
  }
  char *text = status == RP_OK ? json_dumps(header, JSON_COMPACT) : NULL;
  json_decref(header);
  if (status == RP_OK && !text) status = rp_fail(RP_NOMEM, "write %s: out of memory", path);
  *out = text;
  return status;
}

static bool put_header(FILE *f, const char *text) {
  size_t length = strlen(text), padding = -length % 8;
  unsigned char size[8];
  for (int i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)(length + padding) >> 8 * i);
  return fwrite(size, 1, 8, f) == 8 && fwrite(text, 1, length, f) == length &&
         fprintf(f, "%*s", (int)padding, "") >= 0;
}

/* ---- the file */

static rp_status refused(const char *path) { return rp_fail(RP_IO, "write %s: %s", path, strerror(errno)); }

static rp_status put_tensor(FILE *f, const char *path, const rp_tensor *x) {
  size_t bytes = rp_tensor_bytes(x);
  void *data = rp_alloc(bytes ? bytes : 1);
  if (!data) return RP_NOMEM;
  rp_status status = rp_tensor_read(x, data);
  if (status == RP_OK && fwrite(data, 1, bytes, f) != bytes) status = refused(path);
  rp_free(data);
  return status;
}

static rp_status put_all(FILE *f, const char *path, const rp_to_store *list, size_t count) {
  char *header;
  RP_TRY(header_text(path, list, count, &header));
  bool put = put_header(f, header);
  free(header);
  if (!put) return refused(path);
  for (size_t i = 0; i < count; i++) RP_TRY(put_tensor(f, path, list[i].tensor));
  return RP_OK;
}

static rp_status write_to(const char *path, const char *beside, const rp_to_store *list, size_t count) {
  FILE *f = fopen(beside, "wb");
  if (!f) return refused(path);
  rp_status status = put_all(f, path, list, count);
  if (fclose(f) != 0 && status == RP_OK) status = refused(path);
  if (status == RP_OK && rename(beside, path) != 0) status = refused(path);
  if (status != RP_OK) remove(beside);
  return status;
}

rp_status rp_safetensors_write(const char *path, const rp_to_store *list, size_t count) {
  size_t room = strlen(path) + sizeof ".part";
  char *beside = rp_alloc(room);
  if (!beside) return RP_NOMEM;
  snprintf(beside, room, "%s.part", path);
  rp_status status = write_to(path, beside, list, count);
  rp_free(beside);
  return status;
}
