/*
 * small_float.cuh - numbers of 16 bits and pairs of them, for cuda_fp16.h and cuda_bf16.h. rp_c says how bits become a
 * float and a float the nearest bits; everything is computed in float and rounded once (fma: in double).
 *
 * The functions are friends, found by their arguments, so one text serves both types.
 */
#ifndef RP_SMALL_FLOAT
#define RP_SMALL_FLOAT

#include "cuda.cuh"

#define RP_FRIEND friend inline __attribute__((always_inline))

/* A double as a float whose last bit says whether anything is lost: rounding once more is then as good as at once. */
RP_INLINE float rp_odd(double x) {
  float f = (float)x;
  unsigned u = __float_as_uint(f);
  if ((double)f == x || x != x || u << 1 >= 0xff000000u) return f;
  if (f != 0 && ((double)f > x) == (f > 0)) u -= 1; /* towards zero */
  return __uint_as_float(u | 1);
}

template <class rp_c> struct rp_pair16;
template <class rp_c> struct __align__(2) rp_small {
  typedef rp_small rp_s;
  typedef rp_pair16<rp_c> rp_p;
  unsigned short __x;

  rp_small() = default;
  rp_small(float x) : __x(rp_c::narrow(x)) {}
  rp_small(double x) : __x(rp_c::narrow(rp_odd(x))) {}
  rp_small(int x) : rp_small((double)x) {}
  rp_small(unsigned x) : rp_small((double)x) {}
  rp_small(long long x) : rp_small((double)x) {}
  rp_small(unsigned long long x) : rp_small((double)x) {}
  operator float() const { return rp_c::widen(__x); }
  rp_s &operator=(float x) { return *this = rp_s(x); }
  static rp_s of_bits(unsigned bits) { rp_s s; s.__x = (unsigned short)bits; return s; }
  float wide() const { return rp_c::widen(__x); }

#define RP_TWO(name, symbol)                                                          \
  RP_FRIEND rp_s operator symbol(rp_s a, rp_s b) { return rp_s(a.wide() symbol b.wide()); }       \
  RP_FRIEND rp_s &operator symbol##=(rp_s &a, rp_s b) { return a = a symbol b; }               \
  RP_FRIEND rp_s name(rp_s a, rp_s b) { return a symbol b; }                                   \
  RP_FRIEND rp_s name##_rn(rp_s a, rp_s b) { return a symbol b; }                              \
  RP_FRIEND rp_s name##_sat(rp_s a, rp_s b) { return rp_s(__saturatef((a symbol b).wide())); }
  RP_TWO(__hadd, +) RP_TWO(__hsub, -) RP_TWO(__hmul, *) RP_TWO(__hdiv, /)
#undef RP_TWO
#define RP_TWO(name, symbol)                                                          \
  RP_FRIEND bool operator symbol(rp_s a, rp_s b) { return a.wide() symbol b.wide(); }       \
  RP_FRIEND bool name(rp_s a, rp_s b) { return a.wide() symbol b.wide(); }
  RP_TWO(__heq, ==) RP_TWO(__hne, !=) RP_TWO(__hlt, <) RP_TWO(__hle, <=) RP_TWO(__hgt, >) RP_TWO(__hge, >=)
#undef RP_TWO
  RP_FRIEND rp_s operator-(rp_s a) { return of_bits(a.__x ^ 0x8000u); }
  RP_FRIEND rp_s operator+(rp_s a) { return a; }
  RP_FRIEND rp_s __hneg(rp_s a) { return -a; }
  RP_FRIEND rp_s __habs(rp_s a) { return of_bits(a.__x & 0x7fffu); }
  RP_FRIEND rp_s __hfma(rp_s a, rp_s b, rp_s c) { return rp_s((double)a.wide() * b.wide() + c.wide()); }
  RP_FRIEND rp_s __hfma_relu(rp_s a, rp_s b, rp_s c) { rp_s r = __hfma(a, b, c); return r < rp_s(0.0f) ? rp_s(0.0f) : r; }
  RP_FRIEND rp_s __hmin(rp_s a, rp_s b) { return rp_s(fminf(a.wide(), b.wide())); }
  RP_FRIEND rp_s __hmax(rp_s a, rp_s b) { return rp_s(fmaxf(a.wide(), b.wide())); }
  RP_FRIEND bool __hisnan(rp_s a) { return a.wide() != a.wide(); }
  RP_FRIEND int __hisinf(rp_s a) { return __builtin_isinf_sign(a.wide()); }

#define RP_ONE(name, call) RP_FRIEND rp_s name(rp_s a) { return rp_s(call(a.wide())); }
  RP_ONE(hsqrt, sqrtf) RP_ONE(hrsqrt, rsqrtf) RP_ONE(hrcp, 1.0f / ) RP_ONE(hexp, expf) RP_ONE(hexp2, exp2f)
  RP_ONE(hexp10, exp10f) RP_ONE(hlog, logf) RP_ONE(hlog2, log2f) RP_ONE(hlog10, log10f) RP_ONE(hsin, sinf)
  RP_ONE(hcos, cosf) RP_ONE(htanh, tanhf) RP_ONE(htanh_approx, tanhf) RP_ONE(hfloor, floorf) RP_ONE(hceil, ceilf)
  RP_ONE(htrunc, truncf) RP_ONE(hrint, rintf)
#undef RP_ONE

  RP_FRIEND rp_s atomicAdd(rp_s *p, rp_s v) { return rp_atomic(p, [v](rp_s x) { return x + v; }); }
};

template <class rp_c> struct __align__(4) rp_pair16 {
  typedef rp_small<rp_c> rp_s;
  typedef rp_pair16 rp_p;
  rp_s x, y;

#define RP_TWO(name, symbol)                                                          \
  RP_FRIEND rp_p operator symbol(rp_p a, rp_p b) { return {a.x symbol b.x, a.y symbol b.y}; }  \
  RP_FRIEND rp_p &operator symbol##=(rp_p &a, rp_p b) { return a = a symbol b; }               \
  RP_FRIEND rp_p name(rp_p a, rp_p b) { return a symbol b; }                                   \
  RP_FRIEND rp_p name##_rn(rp_p a, rp_p b) { return a symbol b; }
  RP_TWO(__hadd2, +) RP_TWO(__hsub2, -) RP_TWO(__hmul2, *) RP_TWO(__h2div, /)
#undef RP_TWO
#define RP_TWO(name, symbol)                                                                                       \
  RP_FRIEND rp_p name(rp_p a, rp_p b) { return {rp_s(a.x symbol b.x ? 1.0f : 0.0f), rp_s(a.y symbol b.y ? 1.0f : 0.0f)}; }        \
  RP_FRIEND unsigned name##_mask(rp_p a, rp_p b) { return (a.x symbol b.x ? 0xffffu : 0) | (a.y symbol b.y ? 0xffff0000u : 0); }
  RP_TWO(__heq2, ==) RP_TWO(__hne2, !=) RP_TWO(__hlt2, <) RP_TWO(__hle2, <=) RP_TWO(__hgt2, >) RP_TWO(__hge2, >=)
#undef RP_TWO
#define RP_TWO(name, symbol) RP_FRIEND bool name(rp_p a, rp_p b) { return a.x symbol b.x && a.y symbol b.y; }
  RP_TWO(__hbeq2, ==) RP_TWO(__hbne2, !=) RP_TWO(__hblt2, <) RP_TWO(__hble2, <=) RP_TWO(__hbgt2, >) RP_TWO(__hbge2, >=)
#undef RP_TWO
  RP_FRIEND bool operator==(rp_p a, rp_p b) { return __hbeq2(a, b); }
  RP_FRIEND bool operator!=(rp_p a, rp_p b) { return !__hbeq2(a, b); }
  RP_FRIEND rp_p operator-(rp_p a) { return {-a.x, -a.y}; }
  RP_FRIEND rp_p __hneg2(rp_p a) { return -a; }
  RP_FRIEND rp_p __habs2(rp_p a) { return {__habs(a.x), __habs(a.y)}; }
  RP_FRIEND rp_p __hfma2(rp_p a, rp_p b, rp_p c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
  RP_FRIEND rp_p __hmin2(rp_p a, rp_p b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
  RP_FRIEND rp_p __hmax2(rp_p a, rp_p b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }

#define RP_ONE(name) RP_FRIEND rp_p h2##name(rp_p a) { return {h##name(a.x), h##name(a.y)}; }
  RP_ONE(sqrt) RP_ONE(rsqrt) RP_ONE(rcp) RP_ONE(exp) RP_ONE(exp2) RP_ONE(exp10) RP_ONE(log) RP_ONE(log2) RP_ONE(log10)
  RP_ONE(sin) RP_ONE(cos) RP_ONE(tanh) RP_ONE(floor) RP_ONE(ceil) RP_ONE(trunc) RP_ONE(rint)
#undef RP_ONE

  RP_FRIEND rp_s __low2half(rp_p a) { return a.x; }
  RP_FRIEND rp_s __high2half(rp_p a) { return a.y; }
  RP_FRIEND rp_s __low2bfloat16(rp_p a) { return a.x; }
  RP_FRIEND rp_s __high2bfloat16(rp_p a) { return a.y; }
  RP_FRIEND float __low2float(rp_p a) { return a.x; }
  RP_FRIEND float __high2float(rp_p a) { return a.y; }
  RP_FRIEND rp_p __low2half2(rp_p a) { return {a.x, a.x}; }
  RP_FRIEND rp_p __high2half2(rp_p a) { return {a.y, a.y}; }
  RP_FRIEND rp_p __lowhigh2highlow(rp_p a) { return {a.y, a.x}; }
  RP_FRIEND rp_p __lows2half2(rp_p a, rp_p b) { return {a.x, b.x}; }
  RP_FRIEND rp_p __highs2half2(rp_p a, rp_p b) { return {a.y, b.y}; }
  RP_FRIEND rp_p atomicAdd(rp_p *p, rp_p v) { return rp_atomic(p, [v](rp_p x) { return x + v; }); }
};

/* What bears the type's name: S, P are the types, name stands for "half" or "bfloat16" in CUDA's names. */
#define RP_SMALL_FLOAT_NAMES(rp_s, rp_p, name)                                                                          \
  RP_INLINE rp_s __float2##name(float x) { return rp_s(x); }                                                            \
  RP_INLINE rp_s __float2##name##_rn(float x) { return rp_s(x); }                                                       \
  RP_INLINE rp_s __double2##name(double x) { return rp_s(x); }                                                          \
  RP_INLINE float __##name##2float(rp_s x) { return x.wide(); }                                                      \
  RP_INLINE rp_s __int2##name##_rn(int x) { return rp_s(x); }                                                           \
  RP_INLINE rp_s __uint2##name##_rn(unsigned x) { return rp_s(x); }                                                     \
  RP_INLINE rp_s __ll2##name##_rn(long long x) { return rp_s(x); }                                                      \
  RP_INLINE rp_s __short2##name##_rn(short x) { return rp_s((int)x); }                                                  \
  RP_INLINE rp_s __ushort2##name##_rn(unsigned short x) { return rp_s((int)x); }                                        \
  RP_INLINE int __##name##2int_rn(rp_s x) { return __float2int_rn(x.wide()); }                                       \
  RP_INLINE int __##name##2int_rz(rp_s x) { return __float2int_rz(x.wide()); }                                       \
  RP_INLINE int __##name##2int_ru(rp_s x) { return __float2int_ru(x.wide()); }                                       \
  RP_INLINE int __##name##2int_rd(rp_s x) { return __float2int_rd(x.wide()); }                                       \
  RP_INLINE unsigned __##name##2uint_rn(rp_s x) { return __float2uint_rn(x.wide()); }                                \
  RP_INLINE unsigned __##name##2uint_rz(rp_s x) { return __float2uint_rz(x.wide()); }                                \
  RP_INLINE rp_p __float2##name##2_rn(float x) { return {rp_s(x), rp_s(x)}; }                                              \
  RP_INLINE rp_p __floats2##name##2_rn(float x, float y) { return {rp_s(x), rp_s(y)}; }                                    \
  RP_INLINE rp_p __float22##name##2_rn(float2 v) { return {rp_s(v.x), rp_s(v.y)}; }                                        \
  RP_INLINE float2 __##name##22float2(rp_p v) { return {v.x.wide(), v.y.wide()}; }                                   \
  RP_INLINE rp_p __##name##2##name##2(rp_s x) { return {x, x}; }                                                        \
  RP_INLINE short __##name##_as_short(rp_s x) { return (short)x.__x; }                                               \
  RP_INLINE unsigned short __##name##_as_ushort(rp_s x) { return x.__x; }                                            \
  RP_INLINE rp_s __short_as_##name(short x) { return rp_s::of_bits((unsigned short)x); }                                \
  RP_INLINE rp_s __ushort_as_##name(unsigned short x) { return rp_s::of_bits(x); }

#endif
