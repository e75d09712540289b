/* types.h - the small facts that every part of the runtime shares: element types, ranks, grids, edges.
 *
 * RP_DTYPES is the one list of element types. Its columns: enumerator, the name a Lua user writes,
 * the C type kernels spell it with, bytes an element, the name safetensors files use.
 */
#ifndef RP_TYPES_H
#define RP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RP_DTYPES(X)                  \
  X(RP_F32, "f32", float, 4, "F32")   \
  X(RP_F16, "f16", f16, 2, "F16")     \
  X(RP_BF16, "bf16", bf16, 2, "BF16") \
  X(RP_I32, "i32", i32, 4, "I32")     \
  X(RP_I64, "i64", i64, 8, "I64")     \
  X(RP_U8, "u8", u8, 1, "U8")

typedef enum rp_dtype {
#define RP_DTYPE_ENUM(id, name, ctype, bytes, stored) id,
  RP_DTYPES(RP_DTYPE_ENUM)
#undef RP_DTYPE_ENUM
      RP_DTYPE_COUNT
} rp_dtype;

enum { RP_RANK = 8 }; /* most dimensions a tensor has */

typedef struct rp_dims {
  uint32_t x, y, z;
} rp_dims; /* CUDA's grid or block */
typedef struct rp_edge {
  uint32_t from, to;
} rp_edge; /* node `to` waits for node `from` */

const char *rp_dtype_name(rp_dtype dtype); /* "f32" */
size_t rp_dtype_bytes(rp_dtype dtype);
bool rp_dtype_parse(const char *name, rp_dtype *out);  /* "f32" */
bool rp_dtype_stored(const char *name, rp_dtype *out); /* safetensors' "F32" */

#endif
