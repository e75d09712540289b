/*
 * embed.cu - y[r] = table[ids[r]]: rows of a table of W (f32, f16 or bf16), widened to f32.
 *
 * Shapes: y [rows][n], table [count][n], ids [rows] i32. An id outside 0 .. count-1 gives a row of nan: a mistake that
 * nobody can overlook. Serves token embeddings and, with bucket numbers as ids, tables of relative biases.
 * Launch: any grid and block, no shared memory. A row a warp.
 */
#include "prelude.cuh"

WAITS KERNEL void embed (float *y, const i32 *ids, EARLY const W *table, i32 rows, i32 n, i32 count) {
  span mine = share(rows);
  i32 packed = packable(table, n) & packable(y, n);
  release_next();
  wait_previous();
  for (i32 r = mine.first + (i32)WARP; r < mine.last; r += (i32)WARPS) {
    i32 id = ids[r];
    bool known = 0 <= id && id < count;
    const W *from = table + (size_t)(known ? id : 0) * (size_t)n;
    float *to = y + (size_t)r * (size_t)n;
    i32 k = (i32)LANE * 8;
    for (; k < packed; k += LANES * 8) store8(to + k, known ? weight8(from + k) : splat8(NOT_A_NUMBER));
    for (k = packed + (i32)LANE; k < n; k += LANES) to[k] = known ? to_f32(from[k]) : NOT_A_NUMBER;
  }
}
