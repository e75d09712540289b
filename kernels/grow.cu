/*
 * grow.cu - caches that grow by concatenation: keys and values one position longer, with what their rows have seen.
 *
 *   out[r][p] = in[parents[r][count]][p] for p < count; position `count` is left to attend_self, which writes it
 *
 * The copy that makes room is the copy that reorders: beams that changed places cost nothing more.
 *
 * Shapes: keys, values [rows][count][inner]; keys_out, values_out [rows][count + 1][inner] of KV (float, f16);
 * parents [rows][room] u8, as in beam.cuh, or null: each row goes on from itself. Nothing overlaps.
 * Launch: any grid and block, no shared memory. A block takes positions of rows.
 */
#include "prelude.cuh"

INLINE void grow_row (KV *to, const KV *from, i32 inner, i32 packed) {
  for (i32 k = (i32)THREAD * 8; k < inner; k += (i32)THREADS * 8)
    if (k < packed) store8(to + k, load8(from + k));
    else store_part8(to + k, part8(from + k, inner - k), inner - k);
}

WAITS KERNEL void grow (KV *keys_out, KV *values_out, const KV *keys, const KV *values, const u8 *parents, i32 rows,
                        i32 count, i32 inner, i32 room) {
  span mine = share(rows * count);
  release_next();
  wait_previous();
  i32 packed = packable(keys, inner) & packable(values, inner) & packable(keys_out, inner) & packable(values_out, inner);
  for (i32 item = mine.first; item < mine.last; item++) {
    i32 row = item / count, at = item % count, parent = parents ? parents[(size_t)row * (size_t)room + (size_t)count] : row;
    if (parent >= rows) parent = row;
    size_t to = ((size_t)row * (size_t)(count + 1) + (size_t)at) * (size_t)inner;
    size_t from = ((size_t)parent * (size_t)count + (size_t)at) * (size_t)inner;
    grow_row(keys_out + to, keys + from, inner, packed);
    grow_row(values_out + to, values + from, inner, packed);
  }
}
