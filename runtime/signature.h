/* signature.h - what a kernel source promises: the typed parameter lists of its kernels, read from the text.
 *
 * The scanner reads `KERNEL void name(...)` (optionally after WAITS) and `__global__ void name(...)` (optionally
 * after extern "C", or in a template-free namespace-free position), outside comments, strings and #if.
 * `const T *` is read; `T *` is read and written; EARLY before a pointer marks one read above wait_previous().
 */
#ifndef RP_SIGNATURE_H
#define RP_SIGNATURE_H

#include "err.h"
#include "types.h"

/* Value types a parameter may have: enumerator, spellings (comma-separated, as kernels write them), bytes,
 * kind: 'i' signed, 'u' unsigned, 'f' float, 'v' void (only behind a pointer). */
#define RP_TYPES(X)                                                           \
  X(RP_T_F32, "float", 4, 'f')                                                \
  X(RP_T_F64, "double", 8, 'f')                                               \
  X(RP_T_F16, "f16,__half,half", 2, 'f')                                      \
  X(RP_T_BF16, "bf16,__nv_bfloat16,nv_bfloat16", 2, 'f')                      \
  X(RP_T_I8, "i8,int8_t,signed char,char", 1, 'i')                            \
  X(RP_T_U8, "u8,uint8_t,unsigned char", 1, 'u')                              \
  X(RP_T_BOOL, "bool", 1, 'u')                                                \
  X(RP_T_I16, "i16,int16_t,short", 2, 'i')                                    \
  X(RP_T_U16, "u16,uint16_t,unsigned short", 2, 'u')                          \
  X(RP_T_I32, "i32,int32_t,int", 4, 'i')                                      \
  X(RP_T_U32, "u32,uint32_t,unsigned,unsigned int", 4, 'u')                   \
  X(RP_T_I64, "i64,int64_t,long long,long,ptrdiff_t", 8, 'i')                 \
  X(RP_T_U64, "u64,uint64_t,unsigned long long,unsigned long,size_t", 8, 'u') \
  X(RP_T_VOID, "void", 0, 'v')

typedef enum rp_type {
#define RP_TYPE_ENUM(id, spellings, bytes, kind) id,
  RP_TYPES(RP_TYPE_ENUM)
#undef RP_TYPE_ENUM
      RP_TYPE_COUNT
} rp_type;

typedef struct rp_formal { /* one parameter of a kernel */
  char *name;
  rp_type type; /* of the value, or of what the pointer points to */
  bool pointer, constant, early;
} rp_formal;

typedef struct rp_signature {
  char *name;
  bool kernel;   /* written with KERNEL: any 1-D grid and block of whole warps will do; else __global__ */
  bool global;   /* runs by CUDA's own rules: __global__, or KERNEL on a CPU that plays a GPU */
  bool extern_c; /* its symbol is its name; KERNEL always is */
  bool waits;    /* WAITS: may be entered by a programmatic edge */
  int line;      /* of its name, from 1 */
  size_t count;
  rp_formal *formals;
} rp_signature;

typedef struct rp_define {
  const char *name, *value;
} rp_define; /* becomes `#define name value` */

/* Reads all kernels of `text`. Type names given in `defines` are substituted. `file` is for messages.
 * Errors: RP_FORMAT "FILE:LINE: kernel NAME: ...". The list is freed with rp_signatures_free. */
rp_status rp_signatures_scan(const char *file, const char *text, const rp_define *defines,
                             size_t define_count, rp_signature **out, size_t *count);
void rp_signatures_free(rp_signature *list, size_t count);

size_t rp_type_bytes(rp_type type);              /* 0 for void */
char rp_type_kind(rp_type type);                 /* 'i' 'u' 'f' 'v' */
const char *rp_type_name(rp_type type);          /* the first spelling: "float", "i32" */
size_t rp_formal_bytes(const rp_formal *formal); /* 8 for a pointer */
/* May a tensor of this dtype stand for the pointer? void takes all; u32 takes i32, u64 takes i64, bool and i8 u8. */
bool rp_type_takes(rp_type type, rp_dtype dtype);

#endif
