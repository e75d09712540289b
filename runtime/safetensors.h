/* safetensors.h - a read-only view of one .safetensors file, checked whole before anything is read from it.
 *
 *   u64 little-endian N | N bytes of JSON: name -> { dtype, shape, data_offsets } | data
 *
 * The file is mapped; tensors point into the mapping, which lives as long as the handle. Knows nothing of models.
 * Format: https://huggingface.co/docs/safetensors
 */
#ifndef RP_SAFETENSORS_H
#define RP_SAFETENSORS_H

#include "err.h"
#include "types.h"

typedef struct rp_stored {
  const char *name;
  const char *dtype; /* as the file spells it: "F16"; may be one that tensors cannot have ("F64") */
  int rank;
  int64_t shape[RP_RANK];
  size_t from, to; /* bytes from the start of the file */
  const void *data;
} rp_stored;

typedef struct rp_safetensors rp_safetensors;

/* Errors name the file, the tensor and the offset: missing, too short, header longer than the file, not JSON, duplicate
 * name, unknown dtype, negative or too large shape, size unlike shape x dtype, offsets outside, holes, overlaps. */
rp_status rp_safetensors_open(const char *path, rp_safetensors **out);
size_t rp_safetensors_count(const rp_safetensors *file);
const rp_stored *rp_safetensors_at(const rp_safetensors *file, size_t index); /* by position in the file */
const rp_stored *rp_safetensors_find(const rp_safetensors *file, const char *name); /* NULL: none */
void rp_safetensors_close(rp_safetensors *file);                                    /* takes NULL */

#endif
