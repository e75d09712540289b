/* pool_cost.c - what it costs to take a block of the CPU device's pool and to give it back, in C.
 *
 *   ninja -C build pool_cost && build/pool_cost        prints nanoseconds a pair, the best of nine runs
 *
 *   plain   an empty heap, one size
 *   holes   500 chunks (1 GiB of 2 MiB blocks), every other block given back, so that each give joins its neighbours;
 *           sizes from 256 bytes to 1.5 MiB in turn
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pool.h"

enum { RUNS = 9, PAIRS = 200000, BLOCKS = 512, SIZES = 64 };

static void must(rp_status status) {
  if (status == RP_OK) return;
  fprintf(stderr, "%s\n", rp_message());
  exit(1);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double pair_ns(rp_pool *pool, const size_t *sizes) {
  double best = 1e30;
  for (int run = 0; run < RUNS; run++) {
    double begun = now_ns();
    for (int i = 0; i < PAIRS; i++) {
      rp_block *block;
      must(rp_pool_take(pool, sizes[i % SIZES], &block));
      rp_block_release(block);
    }
    double each = (now_ns() - begun) / PAIRS;
    best = each < best ? each : best;
  }
  return best;
}

int main(void) {
  rp_device *dev;
  rp_pool *pool;
  static rp_block *blocks[BLOCKS];
  size_t same[SIZES], mixed[SIZES];
  for (size_t i = 0; i < SIZES; i++)
    same[i] = 4096, mixed[i] = (size_t)256 << (i * 7 % 13), mixed[i] += mixed[i] / 2;
  must(rp_device_open("cpu", &dev));
  must(rp_pool_default(dev, &pool));
  printf("plain %6.1f ns\n", pair_ns(pool, same));
  for (int i = 0; i < BLOCKS; i++) must(rp_pool_take(pool, 2 << 20, &blocks[i]));
  for (int i = 0; i < BLOCKS; i += 2) rp_block_release(blocks[i]);
  printf("holes %6.1f ns\n", pair_ns(pool, mixed));
  for (int i = 1; i < BLOCKS; i += 2) rp_block_release(blocks[i]);
  rp_pool_release(pool);
  rp_device_release(dev);
  return 0;
}
