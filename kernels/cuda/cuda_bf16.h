/* cuda_bf16.h - __nv_bfloat16 and __nv_bfloat162 on the CPU device: the upper half of a float, rounded to nearest even. */
#ifndef RP_CUDA_BF16
#define RP_CUDA_BF16

#include "small_float.cuh"

struct rp_upper_half {
  static unsigned short narrow(float x) {
    unsigned u = __float_as_uint(x);
    return x != x ? 0x7fffu : (unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
  static float widen(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
};

typedef rp_small<rp_upper_half> __nv_bfloat16;
typedef rp_pair16<rp_upper_half> __nv_bfloat162;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
RP_SMALL_FLOAT_NAMES(__nv_bfloat16, __nv_bfloat162, bfloat16)
RP_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
RP_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }

#endif
