/*
 * host_math.cuh - the C library's functions that kernels call on the CPU, declared one by one: the compiler's own
 * <math.h> takes longer to read than most kernels take to compile. Sources may still include it, or <cmath>: these
 * are the same functions.
 */
#ifndef RP_HOST_MATH
#define RP_HOST_MATH

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#ifndef NULL
#define NULL __null
#endif
#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#endif

/* of one number, of two: each for double and, with an f behind, for float */
#define RP_MATH_1(X)                                                                                          \
  X(sqrt) X(cbrt) X(exp) X(exp2) X(exp10) X(expm1) X(log) X(log2) X(log10) X(log1p) X(logb) X(sin) X(cos) X(tan) \
  X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(tgamma) X(lgamma) \
  X(floor) X(ceil) X(trunc) X(round) X(rint) X(nearbyint) X(fabs)
#define RP_MATH_2(X) \
  X(pow) X(atan2) X(fmod) X(fmin) X(fmax) X(copysign) X(hypot) X(fdim) X(remainder) X(nextafter)

extern "C" {
#define RP_DECLARE(name) double name(double) noexcept; float name##f(float) noexcept;
RP_MATH_1(RP_DECLARE)
#undef RP_DECLARE
#define RP_DECLARE(name) double name(double, double) noexcept; float name##f(float, float) noexcept;
RP_MATH_2(RP_DECLARE)
#undef RP_DECLARE
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double scalbn(double, int) noexcept;
float scalbnf(float, int) noexcept;
double frexp(double, int *) noexcept;
float frexpf(float, int *) noexcept;
double modf(double, double *) noexcept;
float modff(float, float *) noexcept;
int ilogb(double) noexcept;
int ilogbf(float) noexcept;
long lround(double) noexcept;
long lroundf(float) noexcept;
long long llround(double) noexcept;
long long llroundf(float) noexcept;
long lrint(double) noexcept;
long lrintf(float) noexcept;
long long llrint(double) noexcept;
long long llrintf(float) noexcept;
void sincos(double, double *, double *) noexcept;
void sincosf(float, float *, float *) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
void *memcpy(void *__restrict, const void *__restrict, size_t) noexcept;
void *memset(void *, int, size_t) noexcept;
int printf(const char *__restrict, ...);
}

#endif
