/* include.h - reads source texts and finds what they include.
 *
 * `#include "x.cuh"` is looked for beside the including file, then in <home>/kernels; <x> is the
 * compiler's business, but for CUDA's own headers where the compiler has none (rp_includes_cuda). All files found, at any depth, make one list by the names that the includes spell:
 * compilers look them up by name.
 */
#ifndef RP_INCLUDE_H
#define RP_INCLUDE_H

#include "device.h"

typedef struct rp_includes {
  rp_header *headers; /* in the order in which they were met */
  char **paths;       /* of header i: where it was found */
  size_t count, room, path_room;
} rp_includes;

/* The text of a file, whole; free with rp_free. At most 64 MiB; NUL bytes are refused. RP_IO, RP_FORMAT. */
rp_status rp_text_read(const char *path, char **out);

/* All quoted includes of `text`. file: its path, NULL for a text without one (its includes are looked for
 * in the working directory, then <home>/kernels); name: for messages. Errors, as "FILE:LINE: ...": a file
 * that is nowhere (unless it is asked for under an #if: then the compiler decides), one name for two
 * different files. */
rp_status rp_includes_find(const char *file, const char *name, const char *text, rp_includes *out);
/* Adds to a list what a __global__ source needs on a device whose compiler is not CUDA's: cuda.cuh from
 * <home>/kernels/FOLDER, and every header in <> there that text, or a header of the list, includes. */
rp_status rp_includes_cuda(const char *folder, const char *text, rp_includes *list);
void rp_includes_free(rp_includes *includes);

#endif
