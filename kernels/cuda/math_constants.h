/* math_constants.h - CUDA's names for numbers that kernels use. */
#ifndef RP_MATH_CONSTANTS
#define RP_MATH_CONSTANTS

#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_MIN_DENORM_F 0x1p-149f
#define CUDART_MAX_NORMAL_F 0x1.fffffep127f
#define CUDART_NEG_ZERO_F (-0.0f)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_TWO_F 1.41421356f
#define CUDART_SQRT_HALF_F 0.70710678f
#define CUDART_L2E_F 1.44269504f
#define CUDART_LN2_F 0.69314718f
#define CUDART_PI_F 3.14159265f
#define CUDART_PIO2_F 1.57079633f
#define CUDART_2_OVER_PI_F 0.63661977f
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_ZERO 0.0
#define CUDART_ONE 1.0
#define CUDART_SQRT_TWO 1.4142135623730951
#define CUDART_L2E 1.4426950408889634
#define CUDART_LN2 0.6931471805599453
#define CUDART_PI 3.1415926535897931
#define CUDART_PIO2 1.5707963267948966

#endif
