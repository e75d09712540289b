/*
 * bench.cu - what scripts/bench.lua holds against a step: the same bytes only read, as many kernels that do nothing, and
 * the time at which a node of a graph has ended.
 *
 *   read_all   sums[b] = the sum of block b's share of `bytes`: what reading takes where nothing is computed
 *   nothing    begins, waits, ends
 *   stamp      times[index] = the device's clock, ns
 *
 * Shapes: from [count] f32, sums [at least as many as blocks]. Launch: any grid and block, no shared memory.
 */
#include "prelude.cuh"

#ifndef REPRISE_GPU
#include <time.h>
#endif

/* Eight packs are on their way at a time: memory wants many questions at once. */
WAITS KERNEL void read_all (float *sums, EARLY const float *from, i32 count) {
  span mine = share(count / 8);
  i32 step = (i32)THREADS, i = mine.first + (i32)THREAD;
  float8 sum[8];
  UNROLL for (int k = 0; k < 8; k++) sum[k] = splat8(0);
  for (; i + 7 * step < mine.last; i += 8 * step) {
    asked8<float> a[8];
    UNROLL for (int k = 0; k < 8; k++) a[k] = ask8(from + (size_t)(i + k * step) * 8);
    UNROLL for (int k = 0; k < 8; k++) sum[k] = add8(sum[k], widen8(a[k]));
  }
  for (; i < mine.last; i += step) sum[0] = add8(sum[0], weight8(from + (size_t)i * 8));
  UNROLL for (int k = 1; k < 8; k++) sum[0] = add8(sum[0], sum[k]);
  float all = block_sum(sum8(sum[0]));
  release_next();
  wait_previous();
  if (THREAD == 0) sums[BLOCK] = all;
}

WAITS KERNEL void nothing (float *sums) {
  release_next();
  wait_previous();
  if (BLOCK == BLOCKS) sums[0] = 0; /* never */
}

INLINE i64 clock_ns () {
#ifdef REPRISE_GPU
  i64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory");
  return t;
#else
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
#endif
}

WAITS KERNEL void stamp (i64 *times, i32 index) {
  wait_previous();
  if (BLOCK == 0 && THREAD == 0) times[index] = clock_ns();
  release_next();
}
