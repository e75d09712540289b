/*
 * cores.cuh - a product of tensor cores in f32's accuracy: weights of f16 or bf16, activations of f32.
 *
 * Both fit into tf32, which has f32's range and 11 bits of a mantissa: a weight exactly, an activation as the sum of two,
 * x = high + low, to 2^-22 of it. So two products, each exact, summed by the hardware:
 *
 *   c[16][8] += a[16][8] b[8][8]^T     a: 16 rows of weights, b: 8 rows of x; 8 of k
 *
 *   lane 4 g + t:  a  rows g and g + 8, k = first and second of a pair      b  row g, the same k's
 *                  c  rows g and g + 8 of weights, rows 2 t and 2 t + 1 of x
 *
 * Which of the eight k's are a lane's pair is free, as long as a and b agree: here lane t's are neighbours in memory.
 */
#ifndef RP_CORES
#define RP_CORES

#include "prelude.cuh"

#ifdef REPRISE_GPU

struct tile_sum { float c[4]; };
struct pair { float first, second; };

#if __CUDA_ARCH__ >= 800
INLINE void cores_add (tile_sum &s, pair a, pair a8, pair b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(s.c[0]), "+f"(s.c[1]), "+f"(s.c[2]), "+f"(s.c[3])
      : "r"(__float_as_uint(a.first)), "r"(__float_as_uint(a8.first)), "r"(__float_as_uint(a.second)),
        "r"(__float_as_uint(a8.second)), "r"(__float_as_uint(b.first)), "r"(__float_as_uint(b.second)));
}
/* 16 bytes from memory to shared memory, on their way until copies_wait; zeros where there is nothing. */
INLINE void copy16 (void *to, const void *from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
}
INLINE void copies_end () { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Until all but the last N groups of this thread are there. */
template <int N> INLINE void copies_wait () { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }

#else /* older GPUs, which are not asked, and the CPU device, which plays one */
INLINE void copy16 (void *to, const void *from, bool there) {
  *(uint4 *)to = there ? rp_words(from) : make_uint4(0, 0, 0, 0);
}
INLINE void copies_end () {}
template <int N> INLINE void copies_wait () {}
INLINE float rp_tf32 (float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
INLINE void cores_add (tile_sum &s, pair a, pair a8, pair b) {
  u32 t = LANE % 4, own = LANE - t;
  for (u32 k = 0; k < 4; k++) {
    float w[4] = {__shfl_sync(~0u, a.first, own + k), __shfl_sync(~0u, a.second, own + k),
                  __shfl_sync(~0u, a8.first, own + k), __shfl_sync(~0u, a8.second, own + k)};
    for (u32 i = 0; i < 2; i++) {
      float x = rp_tf32(__shfl_sync(~0u, b.first, (2 * t + i) * 4 + k));
      float y = rp_tf32(__shfl_sync(~0u, b.second, (2 * t + i) * 4 + k));
      s.c[i] = fmaf(w[1], y, fmaf(w[0], x, s.c[i]));
      s.c[2 + i] = fmaf(w[3], y, fmaf(w[2], x, s.c[2 + i]));
    }
  }
}
#endif

/* The hardware reads the upper bits of what it gets: this and x - this are x to 22 bits. */
INLINE float cores_high (float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

#endif
#endif
