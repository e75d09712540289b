/* safetensors_write.h - tensors into one .safetensors file, in the order they are given.
 *
 * The file appears whole or not at all: it is written beside its place under another name, and renamed at the end.
 * Its metadata say { "format": "pt" }, which transformers wants to see. Format: see safetensors.h.
 */
#ifndef RP_SAFETENSORS_WRITE_H
#define RP_SAFETENSORS_WRITE_H

#include "tensor.h"

typedef struct rp_to_store {
  const char *name;        /* UTF-8; not owned */
  const rp_tensor *tensor; /* any strides; not owned */
} rp_to_store;

/* Errors name the file: no folder, no space, a name given twice; or they are those of reading a tensor. */
rp_status rp_safetensors_write(const char *path, const rp_to_store *list, size_t count);

#endif
