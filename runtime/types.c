/* types.c - what RP_DTYPES says, as functions. */
#include "types.h"

#include <string.h>

static const struct {
  const char *name, *stored;
  size_t bytes;
} dtypes[] = {
#define DTYPE_ROW(id, label, ctype, size, file) [id] = {label, file, size},
    RP_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *rp_dtype_name(rp_dtype dtype) { return dtypes[dtype].name; }
size_t rp_dtype_bytes(rp_dtype dtype) { return dtypes[dtype].bytes; }

bool rp_dtype_parse(const char *name, rp_dtype *out) {
  for (int i = 0; i < RP_DTYPE_COUNT; i++)
    if (strcmp(dtypes[i].name, name) == 0) return *out = (rp_dtype)i, true;
  return false;
}

bool rp_dtype_stored(const char *name, rp_dtype *out) {
  for (int i = 0; i < RP_DTYPE_COUNT; i++)
    if (strcmp(dtypes[i].stored, name) == 0) return *out = (rp_dtype)i, true;
  return false;
}
