/*
 * norm.cu - T5's norm by itself: y[r][k] = x[r][k] * gamma[k] / sqrt(mean(x[r]^2) + eps); no mean taken off, no bias.
 *
 * Shapes: x and y [rows][n], gamma [n], all f32. y may be x. A norm before a product is part of linear.cu.
 * Launch: any grid and block, no shared memory. A row a warp.
 */
#include "prelude.cuh"

INLINE float8 piece (const float *p, i32 k, i32 packed, i32 n) { return k < packed ? load8(p + k) : part8(p + k, n - k); }

WAITS KERNEL void rms_norm (float *y, const float *x, EARLY const float *gamma, i32 rows, i32 n, float eps) {
  span mine = share(rows);
  i32 packed = packable(x, n) & packable(y, n) & packable(gamma, n);
  release_next();
  wait_previous();
  for (i32 r = mine.first + (i32)WARP; r < mine.last; r += (i32)WARPS) {
    const float *from = x + (size_t)r * (size_t)n;
    float *to = y + (size_t)r * (size_t)n;
    partial squares = none();
    for (i32 k = (i32)LANE * 8; k < n; k += LANES * 8) {
      float8 v = piece(from, k, packed, n);
      squares = dot8(v, v, squares);
    }
    float8 scale = splat8(rsqrtf(total(squares) / (float)n + eps));
    for (i32 k = (i32)LANE * 8; k < n; k += LANES * 8) {
      float8 v = mul8(mul8(piece(from, k, packed, n), scale), piece(gamma, k, packed, n));
      if (k < packed) store8(to + k, v);
      else store_part8(to + k, v, n - k);
    }
  }
}
