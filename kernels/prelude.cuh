/*
 * prelude.cuh - the whole vocabulary of a kernel file: one C++17 text for NVRTC and for the host's compiler.
 *
 * KERNEL is a promise: right for any 1-D grid and any block of whole warps, where on the CPU a block is one thread and
 * all counts inside it are 1. So loops step by BLOCKS, WARPS, THREADS or LANES, sums go through warp_sum and block_sum,
 * and barrier, block_sum, last_block and wait_previous are reached by all threads of a block or by none.
 *
 *   where am I       BLOCK of BLOCKS, WARP of WARPS in the block, THREAD of THREADS in the block, LANE of LANES
 *   my part          span s = share(n): s.first to s.last - 1 of 0 .. n-1 are this block's, neighbours together
 *   memory           SHARED(type, name, count), DYNAMIC(type, name) for the bytes that the launch asks for, barrier()
 *   signatures       const T * is only read, T * is read and written; WAITS: every thread calls wait_previous() before
 *                    it touches memory; what EARLY parameters point to may be read above it: weights, and what was
 *                    there before the graph. release_next() comes after it
 *   storage          f16 and bf16 hold numbers, float computes: to_f32(x), to_f16(x), to_bf16(x); to_f16 rounds to
 *                    nearest even and saturates at 65504
 *   packs of eight   load8, weight8 (EARLY parameters only), store8; part8 and store_part8 move up to eight, and read
 *                    zeros for the rest; splat8, add8, sub8, mul8, div8, fma8, max8, exp8, tanh8, erf8, sum8, most8;
 *                    at8(v, i) is one of them, i a constant after unrolling; hold8(v) is v, in a register: what is used
 *                    more than once is not loaded again each time
 *                    asked8<T> a = ask8(p) (EARLY parameters only) asks for a pack, widen8(a) waits for it and unpacks;
 *                    ask_state8(p) likewise, for EARLY parameters that the kernel writes elsewhere;
 *                    wait_asked() is wait_previous() with packs on their way: they are asked for before it, not after;
 *                    prefetch(p) asks for the memory at p, which need not be ours, prefetch_far(p) not for the nearest
 *                    cache; only for EARLY parameters
 *   dot products     partial p = none(); p = dot8(x, w, p); total(p) is the sum over the warp
 *   sums, maxima     warp_sum, warp_max, block_sum, block_max, block_any; the same bits in all threads
 *   whole grid       last_block(count): true in the block that arrives last, with all that the others wrote visible
 *   the host         publish(ring, number, value)
 *
 * A pointer is read in packs where it lies on 16 bytes: `packable(p, n)` says how much of every row of n may be.
 * Never __restrict__ on what a graph writes: the compiler then moves or merges loads across wait_previous().
 */
#ifndef RP_PRELUDE
#define RP_PRELUDE

#define WAITS /* before KERNEL */
#define EARLY /* before a pointer */

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef struct { u16 bits; } f16;
typedef struct { u16 bits; } bf16;

#if defined(__CUDACC__) || defined(RP_SIMT) /* a GPU's compiler, or a CPU that plays one (REPRISE_SIMT): cuda.cuh */
#include "prelude_gpu.cuh"
#else
#include "prelude_cpu.cuh"
#endif

/* ---- on both ---- */

struct span { i32 first, last; };
INLINE span share (i32 n) {
  u32 b = BLOCK, all = BLOCKS;
  if ((u32)n < 1 << 15 && all < 1 << 15) { /* a GPU divides 64 bits by a long function */
    span s = {(i32)((u32)n * b / all), (i32)((u32)n * (b + 1) / all)};
    return s;
  }
  span s = {(i32)((i64)n * b / all), (i32)((i64)n * (b + 1) / all)};
  return s;
}

#endif
