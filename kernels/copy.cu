/*
 * copy.cu - y = x and y = constant for tensors of any dtype and strides; what rp_tensor_copy and rp_tensor_fill launch.
 *
 * Shapes: up to four dimensions n0..n3, last fastest, with strides in elements (0 repeats). Types are numbered as
 * RP_DTYPES lists them: 0 f32, 1 f16, 2 bf16, 3 i32, 4 i64, 5 u8.
 * Conversions round to nearest even; to integers they truncate and saturate, nan gives 0; f16 saturates at 65504.
 * Launch: any grid, any block. y and x must not overlap. copy_bytes, copy_many: 16 bytes a turn where both are aligned.
 */
#include "prelude.cuh"

INLINE void copy_as (float *y, float x) { *y = x; }
INLINE void copy_as (f16 *y, float x) { *y = to_f16(x); }
INLINE void copy_as (bf16 *y, float x) { *y = to_bf16(x); }
INLINE void copy_as (i32 *y, float x) { *y = x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : (i32)x; }
INLINE void copy_as (i64 *y, float x) {
  *y = x != x ? 0 : x >= 9223372036854775808.0f ? 9223372036854775807ll : x < -9223372036854775808.0f ? -9223372036854775807ll - 1 : (i64)x;
}
INLINE void copy_as (u8 *y, float x) { *y = !(x > 0) ? 0 : x >= 255 ? 255 : (u8)x; }
INLINE void copy_as (i32 *y, i64 x) { *y = x > 2147483647 ? 2147483647 : x < -2147483647 - 1 ? -2147483647 - 1 : (i32)x; }
INLINE void copy_as (i64 *y, i64 x) { *y = x; }
INLINE void copy_as (u8 *y, i64 x) { *y = x < 0 ? 0 : x > 255 ? 255 : (u8)x; }
INLINE void copy_as (float *y, i64 x) { *y = (float)x; }
INLINE void copy_as (f16 *y, i64 x) { *y = to_f16((float)x); }
INLINE void copy_as (bf16 *y, i64 x) { *y = to_bf16((float)x); }

INLINE float copy_of (float x) { return x; }
INLINE float copy_of (f16 x) { return to_f32(x); }
INLINE float copy_of (bf16 x) { return to_f32(x); }
INLINE i64 copy_of (i32 x) { return x; }
INLINE i64 copy_of (i64 x) { return x; }
INLINE i64 copy_of (u8 x) { return x; }

template <class Y, class X> INLINE void copy_value (Y *y, X x) { copy_as(y, copy_of(x)); }
INLINE void copy_value (f16 *y, f16 x) { *y = x; } /* the bits as they are: infinities stay */
INLINE void copy_value (bf16 *y, bf16 x) { *y = x; }

struct copy_shape { i64 n1, n2, n3, y0, y1, y2, y3, x0, x1, x2, x3; };

template <class Y, class X> INLINE void copy_run (Y *y, const X *x, i64 n, copy_shape s) {
  for (i64 i = (i64)BLOCK * THREADS + THREAD; i < n; i += (i64)BLOCKS * THREADS) {
    i64 d = i % s.n3, r = i / s.n3, c = r % s.n2, b = r / s.n2 % s.n1, a = r / s.n2 / s.n1;
    copy_value(y + a * s.y0 + b * s.y1 + c * s.y2 + d * s.y3, x[a * s.x0 + b * s.x1 + c * s.x2 + d * s.x3]);
  }
}

template <class Y> INLINE void copy_from (Y *y, const void *x, i32 xtype, i64 n, copy_shape s) {
  if (xtype == 0) copy_run(y, (const float *)x, n, s);
  if (xtype == 1) copy_run(y, (const f16 *)x, n, s);
  if (xtype == 2) copy_run(y, (const bf16 *)x, n, s);
  if (xtype == 3) copy_run(y, (const i32 *)x, n, s);
  if (xtype == 4) copy_run(y, (const i64 *)x, n, s);
  if (xtype == 5) copy_run(y, (const u8 *)x, n, s);
}

WAITS KERNEL void copy (void *y, const void *x, i32 ytype, i32 xtype, i64 n, i64 n1, i64 n2, i64 n3,
                        i64 y0, i64 y1, i64 y2, i64 y3, i64 x0, i64 x1, i64 x2, i64 x3) {
  wait_previous();
  copy_shape s = {n1, n2, n3, y0, y1, y2, y3, x0, x1, x2, x3};
  if (ytype == 0) copy_from((float *)y, x, xtype, n, s);
  if (ytype == 1) copy_from((f16 *)y, x, xtype, n, s);
  if (ytype == 2) copy_from((bf16 *)y, x, xtype, n, s);
  if (ytype == 3) copy_from((i32 *)y, x, xtype, n, s);
  if (ytype == 4) copy_from((i64 *)y, x, xtype, n, s);
  if (ytype == 5) copy_from((u8 *)y, x, xtype, n, s);
}

struct copy_pack { u64 lo, hi; };

INLINE void copy_row (u8 *y, const u8 *x, i64 n) {
  i64 first = (i64)BLOCK * THREADS + THREAD, step = (i64)BLOCKS * THREADS;
  i64 packs = ((u64)y | (u64)x) & 15 ? 0 : n / 16;
  for (i64 i = first; i < packs; i += step) ((copy_pack *)y)[i] = ((const copy_pack *)x)[i];
  for (i64 i = packs * 16 + first; i < n; i += step) y[i] = x[i];
}

WAITS KERNEL void copy_bytes (u8 *y, const u8 *x, i64 n) {
  wait_previous();
  copy_row(y, x, n);
}

/* The inputs of a graph in one launch; n = 0 where there is none. */
WAITS KERNEL void copy_many (u8 *y0, const u8 *x0, i64 n0, u8 *y1, const u8 *x1, i64 n1,
                             u8 *y2, const u8 *x2, i64 n2, u8 *y3, const u8 *x3, i64 n3,
                             u8 *y4, const u8 *x4, i64 n4, u8 *y5, const u8 *x5, i64 n5,
                             u8 *y6, const u8 *x6, i64 n6, u8 *y7, const u8 *x7, i64 n7,
                             u8 *y8, const u8 *x8, i64 n8, u8 *y9, const u8 *x9, i64 n9,
                             u8 *y10, const u8 *x10, i64 n10, u8 *y11, const u8 *x11, i64 n11,
                             u8 *y12, const u8 *x12, i64 n12, u8 *y13, const u8 *x13, i64 n13,
                             u8 *y14, const u8 *x14, i64 n14, u8 *y15, const u8 *x15, i64 n15) {
  wait_previous();
  copy_row(y0, x0, n0); copy_row(y1, x1, n1); copy_row(y2, x2, n2); copy_row(y3, x3, n3);
  copy_row(y4, x4, n4); copy_row(y5, x5, n5); copy_row(y6, x6, n6); copy_row(y7, x7, n7);
  copy_row(y8, x8, n8); copy_row(y9, x9, n9); copy_row(y10, x10, n10); copy_row(y11, x11, n11);
  copy_row(y12, x12, n12); copy_row(y13, x13, n13); copy_row(y14, x14, n14); copy_row(y15, x15, n15);
}

template <class T> INLINE void fill_run (T *y, T value, i64 n, i64 n1, i64 n2, i64 n3, i64 y0, i64 y1, i64 y2, i64 y3) {
  for (i64 i = (i64)BLOCK * THREADS + THREAD; i < n; i += (i64)BLOCKS * THREADS) {
    i64 d = i % n3, r = i / n3, c = r % n2, b = r / n2 % n1, a = r / n2 / n1;
    y[a * y0 + b * y1 + c * y2 + d * y3] = value;
  }
}

/* width: bytes an element (1, 2, 4, 8); value: its bits */
WAITS KERNEL void fill (void *y, i32 width, u64 value, i64 n, i64 n1, i64 n2, i64 n3, i64 y0, i64 y1, i64 y2, i64 y3) {
  wait_previous();
  if (width == 1) fill_run((u8 *)y, (u8)value, n, n1, n2, n3, y0, y1, y2, y3);
  if (width == 2) fill_run((unsigned short *)y, (unsigned short)value, n, n1, n2, n3, y0, y1, y2, y3);
  if (width == 4) fill_run((u32 *)y, (u32)value, n, n1, n2, n3, y0, y1, y2, y3);
  if (width == 8) fill_run((u64 *)y, value, n, n1, n2, n3, y0, y1, y2, y3);
}
