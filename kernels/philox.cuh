/*
 * philox.cuh - random numbers by counter: four words that depend on a key and a counter alone, the same on every device.
 *
 * Philox 4x32 with ten rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
#ifndef RP_PHILOX
#define RP_PHILOX

#include "prelude.cuh"

struct words4 { u32 v[4]; };

INLINE words4 philox (words4 counter, u32 key0, u32 key1) {
  words4 c = counter;
  UNROLL for (int round = 0; round < 10; round++) {
    u64 a = 0xd2511f53ull * c.v[0], b = 0xcd9e8d57ull * c.v[2];
    words4 next = {{(u32)(b >> 32) ^ c.v[1] ^ key0, (u32)b, (u32)(a >> 32) ^ c.v[3] ^ key1, (u32)a}};
    c = next;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return c;
}

/* In (0, 1]: fine near 0, where it matters to gumbel(). */
INLINE float uniform (u32 word) { return ((float)word + 0.5f) * 0x1p-32f; }

/* -log(-log(1 - uniform)): the largest of logits plus such numbers is a draw from their softmax. -INF in one of 2^25. */
INLINE float gumbel (u32 word) { return -logf(-log1pf(-uniform(word))); }

#endif
