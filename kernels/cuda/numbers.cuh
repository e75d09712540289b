/*
 * numbers.cuh - CUDA's functions of bits and numbers for the host's compiler; cuda.cuh includes it.
 */
#ifndef RP_CUDA_NUMBERS
#define RP_CUDA_NUMBERS

/* ---- bits */

template <class To, class From> RP_INLINE To rp_bits_as(From x) {
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}
RP_INLINE int __float_as_int(float x) { return rp_bits_as<int>(x); }
RP_INLINE unsigned __float_as_uint(float x) { return rp_bits_as<unsigned>(x); }
RP_INLINE float __int_as_float(int x) { return rp_bits_as<float>(x); }
RP_INLINE float __uint_as_float(unsigned x) { return rp_bits_as<float>(x); }
RP_INLINE long long __double_as_longlong(double x) { return rp_bits_as<long long>(x); }
RP_INLINE double __longlong_as_double(long long x) { return rp_bits_as<double>(x); }
RP_INLINE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
RP_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
RP_INLINE double __hiloint2double(int hi, int lo) {
  return __longlong_as_double((long long)((unsigned long long)(unsigned)hi << 32 | (unsigned)lo));
}
RP_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
RP_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
RP_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
RP_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
RP_INLINE int __ffs(int x) { return __builtin_ffs(x); }
RP_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
RP_INLINE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
RP_INLINE unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
RP_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned pick) {
  unsigned long long both = (unsigned long long)b << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; i++) r |= (unsigned)(both >> (pick >> 4 * i & 7) * 8 & 255) << 8 * i;
  return r;
}
RP_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) << (n & 31) >> 32);
}
RP_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) {
  return (unsigned)(((unsigned long long)hi << 32 | lo) >> (n & 31));
}
RP_INLINE unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) { return n < 32 ? __funnelshift_l(lo, hi, n) : lo; }
RP_INLINE unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) { return n < 32 ? __funnelshift_r(lo, hi, n) : hi; }
RP_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
RP_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
RP_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
RP_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
RP_INLINE int rp_low24(int a) { return (int)((unsigned)a << 8) >> 8; }
RP_INLINE int __mul24(int a, int b) { return (int)((unsigned)rp_low24(a) * (unsigned)rp_low24(b)); }
RP_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
RP_INLINE unsigned __sad(int a, int b, unsigned c) { return (a < b ? (unsigned)b - (unsigned)a : (unsigned)a - (unsigned)b) + c; }
RP_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }
RP_INLINE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
RP_INLINE int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
RP_INLINE unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
RP_INLINE unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
RP_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += (signed char)(a >> i) * (signed char)(b >> i);
  return c;
}
RP_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}

/* ---- conversions: what does not fit becomes the nearest that does, nan becomes 0 */

template <class I, class F> RP_INLINE I rp_to_integer(F x) {
  const I most = (I)~(I)0 > 0 ? (I)~(I)0 : (I)(~0ull >> (65 - 8 * sizeof(I))), least = (I)~(I)0 > 0 ? 0 : -most - 1;
  return x != x ? 0 : x >= (F)most ? most : x <= (F)least ? least : (I)x;
}
#define RP_CONVERT(from, F, to, I, f)                                                       \
  RP_INLINE I __##from##2##to##_rn(F x) { return rp_to_integer<I>(__builtin_rint##f(x)); }  \
  RP_INLINE I __##from##2##to##_rz(F x) { return rp_to_integer<I>(x); }                     \
  RP_INLINE I __##from##2##to##_ru(F x) { return rp_to_integer<I>(__builtin_ceil##f(x)); }  \
  RP_INLINE I __##from##2##to##_rd(F x) { return rp_to_integer<I>(__builtin_floor##f(x)); }
RP_CONVERT(float, float, int, int, f)
RP_CONVERT(float, float, uint, unsigned, f)
RP_CONVERT(float, float, ll, long long, f)
RP_CONVERT(float, float, ull, unsigned long long, f)
RP_CONVERT(double, double, int, int, )
RP_CONVERT(double, double, uint, unsigned, )
RP_CONVERT(double, double, ll, long long, )
RP_CONVERT(double, double, ull, unsigned long long, )
#undef RP_CONVERT
RP_INLINE float __int2float_rn(int x) { return (float)x; }
RP_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
RP_INLINE float __ll2float_rn(long long x) { return (float)x; }
RP_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
RP_INLINE float __double2float_rn(double x) { return (float)x; }
RP_INLINE double __int2double_rn(int x) { return x; }
RP_INLINE double __uint2double_rn(unsigned x) { return x; }
RP_INLINE double __ll2double_rn(long long x) { return (double)x; }
RP_INLINE double __ull2double_rn(unsigned long long x) { return (double)x; }

/* ---- functions of numbers: C's take double, so these are for float; as templates they live beside <cmath>'s */

template <class T> struct rp_single {};
template <> struct rp_single<float> { typedef float type; };
#define RP_F typename rp_single<T>::type
#define RP_FLOAT(name) template <class T> RP_INLINE RP_F name(T x) { return name##f(x); }
RP_MATH_1(RP_FLOAT)
#undef RP_FLOAT
#define RP_FLOAT(name) template <class T> RP_INLINE RP_F name(T x, T y) { return name##f(x, y); }
RP_MATH_2(RP_FLOAT)
#undef RP_FLOAT
template <class T> RP_INLINE RP_F fma(T a, T b, T c) { return fmaf(a, b, c); }
template <class T> RP_INLINE RP_F ldexp(T x, int n) { return ldexpf(x, n); }
#undef RP_F
template <class T> struct rp_positive {}; /* int is C's own */
#define RP_POSITIVE(T, call) template <> struct rp_positive<T> { typedef T type; static T of(T x) { return call(x); } };
RP_POSITIVE(float, fabsf) RP_POSITIVE(double, fabs) RP_POSITIVE(long, labs) RP_POSITIVE(long long, llabs)
template <class T> RP_INLINE typename rp_positive<T>::type abs(T x) { return rp_positive<T>::of(x); }
#ifndef isnan /* of <math.h> in C */
template <class T> RP_INLINE bool isnan(T x) { return x != x; }
template <class T> RP_INLINE bool isinf(T x) { return __builtin_isinf(x); }
template <class T> RP_INLINE bool isfinite(T x) { return __builtin_isfinite(x); }
template <class T> RP_INLINE bool signbit(T x) { return __builtin_signbit(x); }
#endif

#define RP_LEAST_MOST(A, B, R)                                                          \
  RP_INLINE R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }                       \
  RP_INLINE R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
RP_LEAST_MOST(int, int, int)
RP_LEAST_MOST(unsigned, unsigned, unsigned)
RP_LEAST_MOST(int, unsigned, unsigned)
RP_LEAST_MOST(unsigned, int, unsigned)
RP_LEAST_MOST(long, long, long)
RP_LEAST_MOST(unsigned long, unsigned long, unsigned long)
RP_LEAST_MOST(long, unsigned long, unsigned long)
RP_LEAST_MOST(unsigned long, long, unsigned long)
RP_LEAST_MOST(long long, long long, long long)
RP_LEAST_MOST(unsigned long long, unsigned long long, unsigned long long)
RP_LEAST_MOST(long long, unsigned long long, unsigned long long)
RP_LEAST_MOST(unsigned long long, long long, unsigned long long)
#undef RP_LEAST_MOST
#define RP_LEAST_MOST(A, B, R, f)                                                       \
  RP_INLINE R min(A a, B b) { return fmin##f((R)a, (R)b); }                             \
  RP_INLINE R max(A a, B b) { return fmax##f((R)a, (R)b); }
RP_LEAST_MOST(float, float, float, f)
RP_LEAST_MOST(double, double, double, )
RP_LEAST_MOST(float, double, double, )
RP_LEAST_MOST(double, float, double, )
#undef RP_LEAST_MOST
RP_INLINE unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
RP_INLINE unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
RP_INLINE long long llmin(long long a, long long b) { return a < b ? a : b; }
RP_INLINE long long llmax(long long a, long long b) { return a > b ? a : b; }

RP_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
RP_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
RP_INLINE float rsqrt(float x) { return rsqrtf(x); }
RP_INLINE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
RP_INLINE double rcbrt(double x) { return 1.0 / cbrt(x); }
RP_INLINE double sinpi(double x) { return sin(M_PI * remainder(x, 2)); }
RP_INLINE double cospi(double x) { return cos(M_PI * remainder(x, 2)); }
RP_INLINE float sinpif(float x) { return (float)sinpi(x); }
RP_INLINE float cospif(float x) { return (float)cospi(x); }
RP_INLINE void sincospi(double x, double *s, double *c) { *s = sinpi(x), *c = cospi(x); }
RP_INLINE void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
RP_INLINE double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
RP_INLINE float normcdff(float x) { return (float)normcdf(x); }
RP_INLINE float fdividef(float a, float b) { return a / b; }
RP_INLINE float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
RP_INLINE float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
RP_INLINE float norm4df(float a, float b, float c, float d) { return sqrtf(a * a + b * b + c * c + d * d); }

/* The fast ones are the exact ones here. As macros: <math.h> has functions of its own by these names. */
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
#define __powf powf
RP_INLINE float __fdividef(float a, float b) { return a / b; }
RP_INLINE float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }

/* rounded where it is written: never fused with what follows */
#if defined __x86_64__
#define RP_ROUNDED(T, x) T r = (x); __asm__("" : "+x"(r)); return r
#elif defined __aarch64__
#define RP_ROUNDED(T, x) T r = (x); __asm__("" : "+w"(r)); return r
#else
#define RP_ROUNDED(T, x) volatile T r = (x); return r
#endif
RP_INLINE float __fadd_rn(float a, float b) { RP_ROUNDED(float, a + b); }
RP_INLINE float __fsub_rn(float a, float b) { RP_ROUNDED(float, a - b); }
RP_INLINE float __fmul_rn(float a, float b) { RP_ROUNDED(float, a * b); }
RP_INLINE float __fdiv_rn(float a, float b) { return a / b; }
RP_INLINE float __frcp_rn(float a) { return 1.0f / a; }
RP_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
RP_INLINE float __frsqrt_rn(float a) { return (float)(1.0 / sqrt((double)a)); }
RP_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
RP_INLINE double __dadd_rn(double a, double b) { RP_ROUNDED(double, a + b); }
RP_INLINE double __dsub_rn(double a, double b) { RP_ROUNDED(double, a - b); }
RP_INLINE double __dmul_rn(double a, double b) { RP_ROUNDED(double, a * b); }
RP_INLINE double __ddiv_rn(double a, double b) { return a / b; }
RP_INLINE double __drcp_rn(double a) { return 1.0 / a; }
RP_INLINE double __dsqrt_rn(double a) { return sqrt(a); }
RP_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

#endif
