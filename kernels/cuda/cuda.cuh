/*
 * cuda.cuh - CUDA's own vocabulary for the host's compiler: what stands before every source with __global__ kernels on
 * the CPU device. A GPU's compiler knows all of this by itself.
 *
 *   where am I      threadIdx, blockIdx, blockDim, gridDim, warpSize
 *   memory          __shared__ (extern too: up to 227 KiB that the launch asks for), __constant__, __device__ data
 *   waiting         __syncthreads, _count, _and, _or; __syncwarp, __shfl_*_sync, votes, __match_*, __reduce_*_sync
 *   atomics         real ones: blocks run in several threads of the processor
 *   numbers         C's functions, CUDA's intrinsics, vector types; __half and __nv_bfloat16 in cuda_fp16.h, cuda_bf16.h
 *
 * The threads of a block take turns in one thread of the processor (runtime/cpu_crew.h), at the calls that wait. A
 * thread that reads a volatile variable again and again, waiting for another of its block, therefore waits for ever; one
 * that waits by an atomic operation, or calls __nanosleep, lets the others go on.
 */
#ifndef RP_CUDA
#define RP_CUDA

#include "host_math.cuh"

#define REPRISE_CPU 1
#define __global__ __attribute__((noinline, unused))
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(n)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
/* One block runs in a thread of the processor at a time. */
#ifdef __clang__
#define __shared__ thread_local __attribute__((require_constant_initialization))
#else
#define __shared__ thread_local __constinit
#define __builtin_assume(x) ((x) ? (void)0 : __builtin_unreachable())
#endif

#define RP_INLINE static inline __attribute__((always_inline, unused))

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INTPTR_TYPE__ intptr_t;

/* ---- vector types: aligned like their elements, so that any place will do */

#define RP_VECTOR(name, T)                                                                                        \
  struct name##1 { T x; };                                                                                        \
  struct name##2 { T x, y; };                                                                                     \
  struct name##3 { T x, y, z; };                                                                                  \
  struct name##4 { T x, y, z, w; };                                                                               \
  RP_INLINE name##1 make_##name##1(T x) { return {x}; }                                                           \
  RP_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }                                                   \
  RP_INLINE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                           \
  RP_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
RP_VECTOR(char, signed char)
RP_VECTOR(uchar, unsigned char)
RP_VECTOR(short, short)
RP_VECTOR(ushort, unsigned short)
RP_VECTOR(int, int)
RP_VECTOR(uint, unsigned)
RP_VECTOR(long, long)
RP_VECTOR(ulong, unsigned long)
RP_VECTOR(longlong, long long)
RP_VECTOR(ulonglong, unsigned long long)
RP_VECTOR(float, float)
RP_VECTOR(double, double)
#undef RP_VECTOR

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

/* ---- the block and its crew */

struct rp_crew;
struct rp_env { /* as in runtime/cpu_crew.h */
  uint3 thread, block, threads, blocks;
  rp_crew *crew;
  unsigned (*barrier)(rp_crew *, unsigned ask, unsigned value);
  unsigned long long (*lanes)(rp_crew *, unsigned what, unsigned mask, unsigned long long value, unsigned source);
  unsigned (*active)(rp_crew *, const void *site);
  void (*yield)(rp_crew *);
  void (*trap)(rp_crew *, const char *why);
};
static thread_local rp_env rp_now;

struct rp_door {
  void (*run_blocks)(rp_crew *, rp_env *, void (*thread)(void *const *), void *const *args, unsigned, unsigned);
  rp_crew *crew;
};
RP_INLINE void rp_enter(void *door, void (*thread)(void *const *), void *const *args, unsigned part, unsigned parts) {
  ((rp_door *)door)->run_blocks(((rp_door *)door)->crew, &rp_now, thread, args, part, parts);
}

#define threadIdx rp_now.thread
#define blockIdx rp_now.block
#define blockDim rp_now.threads
#define gridDim rp_now.blocks
static const int warpSize = 32;

/* Dynamic shared memory: one place, by as many names as the source declares. init is the function that g++ calls before it
 * uses such a name in a template: there it forgets that nothing is left to be made. */
#define RP_DYNAMIC(name, init)                                     \
  __asm__(".ifndef rp_dynamic_shared\n"                             \
          ".pushsection .tbss.rp_dynamic_shared,\"awT\",@nobits\n"  \
          ".balign 128\nrp_dynamic_shared:\n.zero 227 * 1024\n"    \
          ".popsection\n.pushsection .text\n"                      \
          "rp_dynamic_ready:\nret\n.popsection\n.endif\n"          \
          ".set " name ", rp_dynamic_shared\n"                      \
          ".set " init ", rp_dynamic_ready\n");

/* ---- waiting for the block */

enum { RP_COUNT, RP_ALL, RP_ANY };
RP_INLINE void __syncthreads() { rp_now.barrier(rp_now.crew, RP_COUNT, 0); }
RP_INLINE int __syncthreads_count(int yes) { return (int)rp_now.barrier(rp_now.crew, RP_COUNT, yes != 0); }
RP_INLINE int __syncthreads_and(int yes) { return (int)rp_now.barrier(rp_now.crew, RP_ALL, yes != 0); }
RP_INLINE int __syncthreads_or(int yes) { return (int)rp_now.barrier(rp_now.crew, RP_ANY, yes != 0); }

RP_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
RP_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
RP_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
RP_INLINE void __nanosleep(unsigned) { rp_now.yield(rp_now.crew); }
RP_INLINE void __trap() { rp_now.trap(rp_now.crew, "__trap()"); }
RP_INLINE void __brkpt() {}
#ifndef assert
#define assert(x) ((x) ? (void)0 : rp_now.trap(rp_now.crew, "assertion failed: " #x))
#endif

/* ---- waiting for lanes: purposes as in runtime/cpu_lanes.h */

enum { RP_SYNC, RP_SHUFFLE, RP_VOTE, RP_MATCH, RP_ADD, RP_LEAST, RP_MOST, RP_AND, RP_OR, RP_XOR };
RP_INLINE unsigned rp_lane_number() {
  return (rp_now.thread.x + rp_now.threads.x * (rp_now.thread.y + rp_now.threads.y * rp_now.thread.z)) % 32;
}
RP_INLINE unsigned long long rp_meet(unsigned what, unsigned mask, unsigned long long value, unsigned source = 0) {
  return rp_now.lanes(rp_now.crew, what, mask, value, source);
}
template <class T> RP_INLINE T rp_from_lane(unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8, "a shuffle takes values of at most 8 bytes");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = rp_meet(RP_SHUFFLE, mask, bits, source);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
RP_INLINE void __syncwarp(unsigned mask = ~0u) { rp_meet(RP_SYNC, mask, 0); }
template <class T> RP_INLINE T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  unsigned first = rp_lane_number() & ~(unsigned)(width - 1);
  return rp_from_lane(mask, v, first | ((unsigned)source & (unsigned)(width - 1)));
}
template <class T> RP_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  unsigned lane = rp_lane_number(), inside = lane & (unsigned)(width - 1);
  return rp_from_lane(mask, v, inside < delta ? lane : lane - delta);
}
template <class T> RP_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32) {
  unsigned lane = rp_lane_number(), inside = lane & (unsigned)(width - 1);
  return rp_from_lane(mask, v, inside + delta >= (unsigned)width ? lane : lane + delta);
}
template <class T> RP_INLINE T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
  unsigned lane = rp_lane_number(), other = lane ^ (unsigned)with, last = lane | (unsigned)(width - 1);
  return rp_from_lane(mask, v, other > last ? lane : other);
}
RP_INLINE unsigned __ballot_sync(unsigned mask, int yes) { return (unsigned)rp_meet(RP_VOTE, mask, yes != 0); }
RP_INLINE int __any_sync(unsigned mask, int yes) { return (unsigned)rp_meet(RP_VOTE, mask, yes != 0) != 0; }
RP_INLINE int __all_sync(unsigned mask, int yes) {
  unsigned long long both = rp_meet(RP_VOTE, mask, yes != 0);
  return (unsigned)both == (unsigned)(both >> 32);
}
/* The lanes of the warp that get here while nobody else can go on. */
__attribute__((noinline, unused)) static unsigned __activemask() {
  return rp_now.active(rp_now.crew, __builtin_return_address(0));
}
template <class T> RP_INLINE unsigned __match_any_sync(unsigned mask, T v) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &v, sizeof(T));
  return (unsigned)rp_meet(RP_MATCH, mask, bits);
}
template <class T> RP_INLINE unsigned __match_all_sync(unsigned mask, T v, int *all) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &v, sizeof(T));
  bits = rp_meet(RP_MATCH, mask, bits);
  *all = (unsigned)bits == (unsigned)(bits >> 32);
  return *all ? (unsigned)bits : 0;
}
RP_INLINE unsigned __reduce_add_sync(unsigned mask, unsigned v) { return (unsigned)rp_meet(RP_ADD, mask, v); }
RP_INLINE unsigned __reduce_min_sync(unsigned mask, unsigned v) { return (unsigned)rp_meet(RP_LEAST, mask, v); }
RP_INLINE unsigned __reduce_max_sync(unsigned mask, unsigned v) { return (unsigned)rp_meet(RP_MOST, mask, v); }
RP_INLINE int __reduce_add_sync(unsigned mask, int v) { return (int)rp_meet(RP_ADD, mask, (unsigned long long)v); }
RP_INLINE int __reduce_min_sync(unsigned mask, int v) { return (int)rp_meet(RP_LEAST, mask, (unsigned long long)v); }
RP_INLINE int __reduce_max_sync(unsigned mask, int v) { return (int)rp_meet(RP_MOST, mask, (unsigned long long)v); }
RP_INLINE unsigned __reduce_and_sync(unsigned mask, unsigned v) { return (unsigned)rp_meet(RP_AND, mask, v); }
RP_INLINE unsigned __reduce_or_sync(unsigned mask, unsigned v) { return (unsigned)rp_meet(RP_OR, mask, v); }
RP_INLINE unsigned __reduce_xor_sync(unsigned mask, unsigned v) { return (unsigned)rp_meet(RP_XOR, mask, v); }

/* ---- atomics: an operation that changes nothing may be somebody's way of waiting, so others go on. They order what
 * is round them, which CUDA leaves to __threadfence: it costs nothing on x86-64, and a thread sanitizer that does not
 * understand fences sees the order. */

template <class T> struct rp_same { typedef T type; }; /* a parameter that takes no part in deduction */
RP_INLINE void rp_patience(bool changed) { if (!changed) rp_now.yield(rp_now.crew); }

#define RP_ATOMIC(name, call, idle)                                                       \
  template <class T> RP_INLINE T name(T *p, typename rp_same<T>::type v) {                \
    static_assert((T)1 / 2 == 0, #name ": integers only");                                \
    rp_patience(!(idle));                                                                 \
    return call(p, v, __ATOMIC_ACQ_REL);                                                  \
  }
RP_ATOMIC(rp_atomic_add, __atomic_fetch_add, v == 0)
RP_ATOMIC(atomicSub, __atomic_fetch_sub, v == 0)
RP_ATOMIC(atomicAnd, __atomic_fetch_and, v == (T)~(T)0)
RP_ATOMIC(atomicOr, __atomic_fetch_or, v == 0)
RP_ATOMIC(atomicXor, __atomic_fetch_xor, v == 0)
#undef RP_ATOMIC

/* *p = change(*p) for a T of 1, 2, 4 or 8 bytes; what was there. */
template <class T, class F> RP_INLINE T rp_atomic(T *p, F change) {
  T old, now;
  __atomic_load(p, &old, __ATOMIC_ACQUIRE);
  do now = change(old);
  while (!__atomic_compare_exchange(p, &old, &now, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  return old;
}
template <class T> RP_INLINE T atomicAdd(T *p, typename rp_same<T>::type v) { return rp_atomic_add(p, v); }
RP_INLINE float atomicAdd(float *p, float v) { return rp_atomic(p, [v](float x) { return x + v; }); }
RP_INLINE double atomicAdd(double *p, double v) { return rp_atomic(p, [v](double x) { return x + v; }); }
template <class T> RP_INLINE T atomicMin(T *p, typename rp_same<T>::type v) {
  return rp_atomic(p, [v](T x) { return v < x ? v : x; });
}
template <class T> RP_INLINE T atomicMax(T *p, typename rp_same<T>::type v) {
  return rp_atomic(p, [v](T x) { return x < v ? v : x; });
}
RP_INLINE unsigned atomicInc(unsigned *p, unsigned most) {
  return rp_atomic(p, [most](unsigned x) { return x >= most ? 0 : x + 1; });
}
RP_INLINE unsigned atomicDec(unsigned *p, unsigned most) {
  return rp_atomic(p, [most](unsigned x) { return x == 0 || x > most ? most : x - 1; });
}
template <class T> RP_INLINE T atomicExch(T *p, typename rp_same<T>::type v) {
  T old;
  __atomic_exchange(p, &v, &old, __ATOMIC_SEQ_CST);
  rp_patience(__builtin_memcmp(&old, &v, sizeof(T)) != 0);
  return old;
}
template <class T> RP_INLINE T atomicCAS(T *p, typename rp_same<T>::type old, typename rp_same<T>::type now) {
  rp_patience(__atomic_compare_exchange(p, &old, &now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
#define RP_SCOPES(name)                                                                                            \
  template <class T, class... A> RP_INLINE auto name##_block(T *p, A... a) { return name(p, a...); }              \
  template <class T, class... A> RP_INLINE auto name##_system(T *p, A... a) { return name(p, a...); }
RP_SCOPES(atomicAdd) RP_SCOPES(atomicSub) RP_SCOPES(atomicMin) RP_SCOPES(atomicMax) RP_SCOPES(atomicInc)
RP_SCOPES(atomicDec) RP_SCOPES(atomicAnd) RP_SCOPES(atomicOr) RP_SCOPES(atomicXor) RP_SCOPES(atomicExch)
RP_SCOPES(atomicCAS)
#undef RP_SCOPES

/* ---- loads and stores with hints */

template <class T> RP_INLINE T __ldg(const T *p) { return *p; }
template <class T> RP_INLINE T __ldca(const T *p) { return *p; }
template <class T> RP_INLINE T __ldcg(const T *p) { return *p; }
template <class T> RP_INLINE T __ldcs(const T *p) { return *p; }
template <class T> RP_INLINE T __ldlu(const T *p) { return *p; }
template <class T> RP_INLINE T __ldcv(const T *p) { return *(const volatile T *)p; }
template <class T> RP_INLINE void __stcg(T *p, T v) { *p = v; }
template <class T> RP_INLINE void __stcs(T *p, T v) { *p = v; }
template <class T> RP_INLINE void __stwb(T *p, T v) { *p = v; }
template <class T> RP_INLINE void __stwt(T *p, T v) { *p = v; }

#include "numbers.cuh"

/* ---- time */

RP_INLINE long long clock64() {
#if defined __x86_64__
  return (long long)__builtin_ia32_rdtsc();
#elif defined __aarch64__
  long long t;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
#else
  return 0;
#endif
}

#endif
