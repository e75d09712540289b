/* cuda_fp16.h - __half and __half2 on the CPU device: IEEE binary16, rounded to nearest even, infinite above 65504. */
#ifndef RP_CUDA_FP16
#define RP_CUDA_FP16

#include "small_float.cuh"

struct rp_binary16 {
#if defined __F16C__
  typedef float four __attribute__((vector_size(16)));
  typedef short eight __attribute__((vector_size(16)));
  static unsigned short narrow(float x) {
    return (unsigned short)((eight)__builtin_ia32_vcvtps2ph((four){x, 0, 0, 0}, 0))[0];
  }
  static float widen(unsigned short h) {
    return ((four)__builtin_ia32_vcvtph2ps((eight){(short)h, 0, 0, 0, 0, 0, 0, 0}))[0];
  }
#elif defined __aarch64__
  static unsigned short narrow(float x) { return rp_bits_as<unsigned short>((__fp16)x); }
  static float widen(unsigned short h) { return rp_bits_as<__fp16>(h); }
#else
  /* Above 2^-14 the mantissa is rounded by hand; below, adding 0.5 lets the addition round to the last place. */
  static unsigned short narrow(float x) {
    unsigned u = __float_as_uint(x), m = u & 0x7fffffffu, sign = u >> 16 & 0x8000u;
    if (m > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | (m >> 13 & 0x1ffu));
    if (m >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (m < 0x38800000u) return (unsigned short)(sign | (__float_as_uint(__uint_as_float(m) + 0.5f) - 0x3f000000u));
    return (unsigned short)(sign | (m + 0xfffu + (m >> 13 & 1u) - 0x38000000u) >> 13);
  }
  static float widen(unsigned short h) { /* a product with a power of two moves the exponent */
    unsigned m = h & 0x7fffu, top = m >= 0x7c00u ? 0x7f800000u : 0;
    return __uint_as_float(__float_as_uint(__uint_as_float(m << 13) * 0x1p112f) | top | (h & 0x8000u) << 16);
  }
#endif
};

typedef rp_small<rp_binary16> __half;
typedef rp_pair16<rp_binary16> __half2;
typedef __half half;
typedef __half2 half2;
RP_SMALL_FLOAT_NAMES(__half, __half2, half)
RP_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
RP_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }

#endif
