/*
 * copy.cu - y = x and y = constant for tensors of any dtype and strides; what rp_tensor_copy and rp_tensor_fill launch.
 *
 * Shapes: up to four dimensions n0..n3, last fastest, with strides in elements (0 repeats). Types are numbered as
 * RP_DTYPES lists them: 0 f32, 1 f16, 2 bf16, 3 i32, 4 i64, 5 u8.
 * Conversions round to nearest even; to integers they truncate and saturate, nan gives 0; f16 saturates at 65504.
 * Launch: any grid, any block. y and x must not overlap. copy_bytes, copy_many: 16 bytes a turn where both are aligned.
 */
#include "prelude.cuh"

/* A number on its way between two types: floats and integers keep all they have. */
struct copy_number { float real; i64 whole; };

INLINE copy_number copy_load (const void *x, i32 type, i64 i) {
  copy_number v = {0, 0};
  if (type == 0) v.real = ((const float *)x)[i];
  if (type == 1) v.real = to_f32(((const f16 *)x)[i]);
  if (type == 2) v.real = to_f32(((const bf16 *)x)[i]);
  if (type == 3) v.whole = ((const i32 *)x)[i];
  if (type == 4) v.whole = ((const i64 *)x)[i];
  if (type == 5) v.whole = ((const u8 *)x)[i];
  return v;
}

/* Towards zero; nan gives 0; beyond 64 bits the nearest end. */
INLINE i64 copy_truncate (float x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0f) return 9223372036854775807ll;
  return x < -9223372036854775808.0f ? -9223372036854775807ll - 1 : (i64)x;
}

INLINE i64 copy_clamp (i64 x, i64 least, i64 most) { return x < least ? least : x > most ? most : x; }

INLINE void copy_store (void *y, i32 type, i64 i, const copy_number &v) {
  if (type == 0) ((float *)y)[i] = v.real;
  if (type == 1) ((f16 *)y)[i] = to_f16(v.real);
  if (type == 2) ((bf16 *)y)[i] = to_bf16(v.real);
  if (type == 3) ((i32 *)y)[i] = (i32)copy_clamp(v.whole, -2147483647ll - 1, 2147483647ll);
  if (type == 4) ((i64 *)y)[i] = v.whole;
  if (type == 5) ((u8 *)y)[i] = (u8)copy_clamp(v.whole, 0, 255);
}

struct copy_shape { i64 n1, n2, n3, y0, y1, y2, y3, x0, x1, x2, x3; };
struct copy_place { i64 y, x; };

/* Where element i of the shape lies on both sides. */
INLINE copy_place copy_at (const copy_shape &s, i64 i) {
  i64 d = i % s.n3, r = i / s.n3, c = r % s.n2, b = r / s.n2 % s.n1, a = r / s.n2 / s.n1;
  copy_place at = {a * s.y0 + b * s.y1 + c * s.y2 + d * s.y3, a * s.x0 + b * s.x1 + c * s.x2 + d * s.x3};
  return at;
}

template <class T> INLINE void copy_run (T *y, const T *x, i64 n, const copy_shape &s) {
  for (i64 i = (i64)BLOCK * THREADS + THREAD; i < n; i += (i64)BLOCKS * THREADS) {
    copy_place at = copy_at(s, i);
    y[at.y] = x[at.x];
  }
}

/* Elements of one type move as bits; width: bytes an element. */
WAITS KERNEL void copy (void *y, const void *x, i32 width, i64 n, i64 n1, i64 n2, i64 n3,
                        i64 y0, i64 y1, i64 y2, i64 y3, i64 x0, i64 x1, i64 x2, i64 x3) {
  wait_previous();
  copy_shape s = {n1, n2, n3, y0, y1, y2, y3, x0, x1, x2, x3};
  if (width == 1) copy_run((u8 *)y, (const u8 *)x, n, s);
  if (width == 2) copy_run((unsigned short *)y, (const unsigned short *)x, n, s);
  if (width == 4) copy_run((u32 *)y, (const u32 *)x, n, s);
  if (width == 8) copy_run((u64 *)y, (const u64 *)x, n, s);
}

WAITS KERNEL void convert (void *y, const void *x, i32 ytype, i32 xtype, i64 n, i64 n1, i64 n2, i64 n3,
                           i64 y0, i64 y1, i64 y2, i64 y3, i64 x0, i64 x1, i64 x2, i64 x3) {
  wait_previous();
  copy_shape s = {n1, n2, n3, y0, y1, y2, y3, x0, x1, x2, x3};
  bool integer = xtype >= 3, to_integer = ytype >= 3;
  for (i64 i = (i64)BLOCK * THREADS + THREAD; i < n; i += (i64)BLOCKS * THREADS) {
    copy_place at = copy_at(s, i);
    copy_number v = copy_load(x, xtype, at.x);
    if (integer != to_integer) {
      if (integer) v.real = (float)v.whole;
      else v.whole = copy_truncate(v.real);
    }
    copy_store(y, ytype, at.y, v);
  }
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
  ROLLED for (i32 s = 0; s < 16; s++) {
    u8 *y = y0;
    const u8 *x = x0;
    i64 n = n0;
    if (s == 1) y = y1, x = x1, n = n1;
    if (s == 2) y = y2, x = x2, n = n2;
    if (s == 3) y = y3, x = x3, n = n3;
    if (s == 4) y = y4, x = x4, n = n4;
    if (s == 5) y = y5, x = x5, n = n5;
    if (s == 6) y = y6, x = x6, n = n6;
    if (s == 7) y = y7, x = x7, n = n7;
    if (s == 8) y = y8, x = x8, n = n8;
    if (s == 9) y = y9, x = x9, n = n9;
    if (s == 10) y = y10, x = x10, n = n10;
    if (s == 11) y = y11, x = x11, n = n11;
    if (s == 12) y = y12, x = x12, n = n12;
    if (s == 13) y = y13, x = x13, n = n13;
    if (s == 14) y = y14, x = x14, n = n14;
    if (s == 15) y = y15, x = x15, n = n15;
    copy_row(y, x, n);
  }
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
