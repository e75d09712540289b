/*
 * small_float.cuh - numbers of 16 bits and pairs of them, for cuda_fp16.h and cuda_bf16.h. C says how bits become a
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
  if ((double)f > x == f > 0 && f != 0) u -= 1; /* towards zero */
  return __uint_as_float(u | 1);
}

template <class C> struct rp_pair16;
template <class C> struct __align__(2) rp_small {
  typedef rp_small S;
  typedef rp_pair16<C> P;
  unsigned short __x;

  rp_small() = default;
  rp_small(float x) : __x(C::narrow(x)) {}
  rp_small(double x) : __x(C::narrow(rp_odd(x))) {}
  rp_small(int x) : rp_small((double)x) {}
  rp_small(unsigned x) : rp_small((double)x) {}
  rp_small(long long x) : rp_small((double)x) {}
  rp_small(unsigned long long x) : rp_small((double)x) {}
  operator float() const { return C::widen(__x); }
  S &operator=(float x) { return *this = S(x); }
  static S of_bits(unsigned bits) { S s; s.__x = (unsigned short)bits; return s; }
  float wide() const { return C::widen(__x); }

#define RP_TWO(name, symbol)                                                          \
  RP_FRIEND S operator symbol(S a, S b) { return S(a.wide() symbol b.wide()); }       \
  RP_FRIEND S &operator symbol##=(S &a, S b) { return a = a symbol b; }               \
  RP_FRIEND S name(S a, S b) { return a symbol b; }                                   \
  RP_FRIEND S name##_rn(S a, S b) { return a symbol b; }                              \
  RP_FRIEND S name##_sat(S a, S b) { return S(__saturatef((a symbol b).wide())); }
  RP_TWO(__hadd, +) RP_TWO(__hsub, -) RP_TWO(__hmul, *) RP_TWO(__hdiv, /)
#undef RP_TWO
#define RP_TWO(name, symbol)                                                          \
  RP_FRIEND bool operator symbol(S a, S b) { return a.wide() symbol b.wide(); }       \
  RP_FRIEND bool name(S a, S b) { return a.wide() symbol b.wide(); }
  RP_TWO(__heq, ==) RP_TWO(__hne, !=) RP_TWO(__hlt, <) RP_TWO(__hle, <=) RP_TWO(__hgt, >) RP_TWO(__hge, >=)
#undef RP_TWO
  RP_FRIEND S operator-(S a) { return of_bits(a.__x ^ 0x8000u); }
  RP_FRIEND S operator+(S a) { return a; }
  RP_FRIEND S __hneg(S a) { return -a; }
  RP_FRIEND S __habs(S a) { return of_bits(a.__x & 0x7fffu); }
  RP_FRIEND S __hfma(S a, S b, S c) { return S((double)a.wide() * b.wide() + c.wide()); }
  RP_FRIEND S __hfma_relu(S a, S b, S c) { S r = __hfma(a, b, c); return r < S(0.0f) ? S(0.0f) : r; }
  RP_FRIEND S __hmin(S a, S b) { return S(fminf(a.wide(), b.wide())); }
  RP_FRIEND S __hmax(S a, S b) { return S(fmaxf(a.wide(), b.wide())); }
  RP_FRIEND bool __hisnan(S a) { return a.wide() != a.wide(); }
  RP_FRIEND int __hisinf(S a) { return __builtin_isinf_sign(a.wide()); }

#define RP_ONE(name, call) RP_FRIEND S name(S a) { return S(call(a.wide())); }
  RP_ONE(hsqrt, sqrtf) RP_ONE(hrsqrt, rsqrtf) RP_ONE(hrcp, 1.0f / ) RP_ONE(hexp, expf) RP_ONE(hexp2, exp2f)
  RP_ONE(hexp10, exp10f) RP_ONE(hlog, logf) RP_ONE(hlog2, log2f) RP_ONE(hlog10, log10f) RP_ONE(hsin, sinf)
  RP_ONE(hcos, cosf) RP_ONE(htanh, tanhf) RP_ONE(htanh_approx, tanhf) RP_ONE(hfloor, floorf) RP_ONE(hceil, ceilf)
  RP_ONE(htrunc, truncf) RP_ONE(hrint, rintf)
#undef RP_ONE

  RP_FRIEND S atomicAdd(S *p, S v) { return rp_atomic(p, [v](S x) { return x + v; }); }
};

template <class C> struct __align__(4) rp_pair16 {
  typedef rp_small<C> S;
  typedef rp_pair16 P;
  S x, y;

#define RP_TWO(name, symbol)                                                          \
  RP_FRIEND P operator symbol(P a, P b) { return {a.x symbol b.x, a.y symbol b.y}; }  \
  RP_FRIEND P &operator symbol##=(P &a, P b) { return a = a symbol b; }               \
  RP_FRIEND P name(P a, P b) { return a symbol b; }                                   \
  RP_FRIEND P name##_rn(P a, P b) { return a symbol b; }
  RP_TWO(__hadd2, +) RP_TWO(__hsub2, -) RP_TWO(__hmul2, *) RP_TWO(__h2div, /)
#undef RP_TWO
#define RP_TWO(name, symbol)                                                                                       \
  RP_FRIEND P name(P a, P b) { return {S(a.x symbol b.x ? 1.0f : 0.0f), S(a.y symbol b.y ? 1.0f : 0.0f)}; }        \
  RP_FRIEND unsigned name##_mask(P a, P b) { return (a.x symbol b.x ? 0xffffu : 0) | (a.y symbol b.y ? 0xffff0000u : 0); }
  RP_TWO(__heq2, ==) RP_TWO(__hne2, !=) RP_TWO(__hlt2, <) RP_TWO(__hle2, <=) RP_TWO(__hgt2, >) RP_TWO(__hge2, >=)
#undef RP_TWO
#define RP_TWO(name, symbol) RP_FRIEND bool name(P a, P b) { return a.x symbol b.x && a.y symbol b.y; }
  RP_TWO(__hbeq2, ==) RP_TWO(__hbne2, !=) RP_TWO(__hblt2, <) RP_TWO(__hble2, <=) RP_TWO(__hbgt2, >) RP_TWO(__hbge2, >=)
#undef RP_TWO
  RP_FRIEND bool operator==(P a, P b) { return __hbeq2(a, b); }
  RP_FRIEND bool operator!=(P a, P b) { return !__hbeq2(a, b); }
  RP_FRIEND P operator-(P a) { return {-a.x, -a.y}; }
  RP_FRIEND P __hneg2(P a) { return -a; }
  RP_FRIEND P __habs2(P a) { return {__habs(a.x), __habs(a.y)}; }
  RP_FRIEND P __hfma2(P a, P b, P c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
  RP_FRIEND P __hmin2(P a, P b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
  RP_FRIEND P __hmax2(P a, P b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }

#define RP_ONE(name) RP_FRIEND P h2##name(P a) { return {h##name(a.x), h##name(a.y)}; }
  RP_ONE(sqrt) RP_ONE(rsqrt) RP_ONE(rcp) RP_ONE(exp) RP_ONE(exp2) RP_ONE(exp10) RP_ONE(log) RP_ONE(log2) RP_ONE(log10)
  RP_ONE(sin) RP_ONE(cos) RP_ONE(tanh) RP_ONE(floor) RP_ONE(ceil) RP_ONE(trunc) RP_ONE(rint)
#undef RP_ONE

  RP_FRIEND S __low2half(P a) { return a.x; }
  RP_FRIEND S __high2half(P a) { return a.y; }
  RP_FRIEND S __low2bfloat16(P a) { return a.x; }
  RP_FRIEND S __high2bfloat16(P a) { return a.y; }
  RP_FRIEND float __low2float(P a) { return a.x; }
  RP_FRIEND float __high2float(P a) { return a.y; }
  RP_FRIEND P __low2half2(P a) { return {a.x, a.x}; }
  RP_FRIEND P __high2half2(P a) { return {a.y, a.y}; }
  RP_FRIEND P __lowhigh2highlow(P a) { return {a.y, a.x}; }
  RP_FRIEND P __lows2half2(P a, P b) { return {a.x, b.x}; }
  RP_FRIEND P __highs2half2(P a, P b) { return {a.y, b.y}; }
  RP_FRIEND P atomicAdd(P *p, P v) { return rp_atomic(p, [v](P x) { return x + v; }); }
};

/* What bears the type's name: S, P are the types, name stands for "half" or "bfloat16" in CUDA's names. */
#define RP_SMALL_FLOAT_NAMES(S, P, name)                                                                          \
  RP_INLINE S __float2##name(float x) { return S(x); }                                                            \
  RP_INLINE S __float2##name##_rn(float x) { return S(x); }                                                       \
  RP_INLINE S __double2##name(double x) { return S(x); }                                                          \
  RP_INLINE float __##name##2float(S x) { return x.wide(); }                                                      \
  RP_INLINE S __int2##name##_rn(int x) { return S(x); }                                                           \
  RP_INLINE S __uint2##name##_rn(unsigned x) { return S(x); }                                                     \
  RP_INLINE S __ll2##name##_rn(long long x) { return S(x); }                                                      \
  RP_INLINE S __short2##name##_rn(short x) { return S((int)x); }                                                  \
  RP_INLINE S __ushort2##name##_rn(unsigned short x) { return S((int)x); }                                        \
  RP_INLINE int __##name##2int_rn(S x) { return __float2int_rn(x.wide()); }                                       \
  RP_INLINE int __##name##2int_rz(S x) { return __float2int_rz(x.wide()); }                                       \
  RP_INLINE int __##name##2int_ru(S x) { return __float2int_ru(x.wide()); }                                       \
  RP_INLINE int __##name##2int_rd(S x) { return __float2int_rd(x.wide()); }                                       \
  RP_INLINE unsigned __##name##2uint_rn(S x) { return __float2uint_rn(x.wide()); }                                \
  RP_INLINE unsigned __##name##2uint_rz(S x) { return __float2uint_rz(x.wide()); }                                \
  RP_INLINE P __float2##name##2_rn(float x) { return {S(x), S(x)}; }                                              \
  RP_INLINE P __floats2##name##2_rn(float x, float y) { return {S(x), S(y)}; }                                    \
  RP_INLINE P __float22##name##2_rn(float2 v) { return {S(v.x), S(v.y)}; }                                        \
  RP_INLINE float2 __##name##22float2(P v) { return {v.x.wide(), v.y.wide()}; }                                   \
  RP_INLINE P __##name##2##name##2(S x) { return {x, x}; }                                                        \
  RP_INLINE short __##name##_as_short(S x) { return (short)x.__x; }                                               \
  RP_INLINE unsigned short __##name##_as_ushort(S x) { return x.__x; }                                            \
  RP_INLINE S __short_as_##name(short x) { return S::of_bits((unsigned short)x); }                                \
  RP_INLINE S __ushort_as_##name(unsigned short x) { return S::of_bits(x); }

#endif
