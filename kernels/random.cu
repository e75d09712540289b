/*
 * random.cu - y[i] = scale * u(key, i), u evenly spread over (-1, 1): weights for models that need none of their own.
 *
 * Counter-based: element i depends on key and i alone, so any grid gives the same bits, on both devices. u is an odd
 * multiple of 2^-23 from the upper bits of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014); one rounding by scale, one to W.
 *
 * Shapes: y [n] of W (float, f16, bf16). Launch: any grid and block, no shared memory.
 */
#include "prelude.cuh"

INLINE float random_unit (u64 key, u64 i) {
  u64 z = key + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return (float)((i32)(z >> 41) * 2 + 1 - (1 << 23)) * (1.0f / (1 << 23));
}

INLINE void random_store (float *y, float x) { *y = x; }
INLINE void random_store (f16 *y, float x) { *y = to_f16(x); }
INLINE void random_store (bf16 *y, float x) { *y = to_bf16(x); }

WAITS KERNEL void uniform (W *y, i64 key, float scale, i64 n) {
  release_next();
  wait_previous();
  for (i64 i = (i64)BLOCK * THREADS + THREAD; i < n; i += (i64)BLOCKS * THREADS)
    random_store(y + i, scale * random_unit((u64)key, (u64)i));
}
