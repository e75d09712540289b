/*
 * cooperative_groups.h - CUDA's groups of threads on the CPU device: the block, tiles of a warp, the lanes that are
 * active together. A grid is a group only if it is one block: blocks do not wait for each other here.
 */
#ifndef RP_COOPERATIVE_GROUPS
#define RP_COOPERATIVE_GROUPS

#include "cuda.cuh"

namespace cooperative_groups {

RP_INLINE unsigned rp_volume(uint3 d) { return d.x * d.y * d.z; }
RP_INLINE unsigned rp_rank(uint3 i, uint3 d) { return i.x + d.x * (i.y + d.y * i.z); }

struct thread_block {
  static void sync() { __syncthreads(); }
  static unsigned thread_rank() { return rp_rank(threadIdx, blockDim); }
  static unsigned num_threads() { return rp_volume(blockDim); }
  static unsigned size() { return num_threads(); }
  static dim3 group_index() { return blockIdx; }
  static dim3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
RP_INLINE thread_block this_thread_block() { return {}; }

struct grid_group {
  static bool is_valid() { return rp_volume(gridDim) == 1; }
  static void sync() {
    if (!is_valid()) rp_now.trap(rp_now.crew, "a grid of several blocks cannot wait for itself on a processor");
    __syncthreads();
  }
  static unsigned long long block_rank() { return rp_rank(blockIdx, gridDim); }
  static unsigned long long num_blocks() { return rp_volume(gridDim); }
  static unsigned long long num_threads() { return num_blocks() * rp_volume(blockDim); }
  static unsigned long long size() { return num_threads(); }
  static unsigned long long thread_rank() { return block_rank() * rp_volume(blockDim) + thread_block::thread_rank(); }
  static dim3 group_dim() { return gridDim; }
};
RP_INLINE grid_group this_grid() { return {}; }

/* N neighbouring lanes of a warp, N a power of two up to 32. */
template <unsigned rp_n, class rp_parent = void> struct thread_block_tile {
  static_assert(rp_n && rp_n <= 32 && !(rp_n & (rp_n - 1)), "a tile has 1, 2, 4, 8, 16 or 32 threads");
  thread_block_tile() = default;
  template <class rp_other> thread_block_tile(const thread_block_tile<rp_n, rp_other> &) {}
  static unsigned mask() { return (rp_n == 32 ? ~0u : (1u << rp_n % 32) - 1) << (rp_lane_number() & ~(rp_n - 1)); }
  static void sync() { __syncwarp(mask()); }
  static unsigned thread_rank() { return rp_lane_number() % rp_n; }
  static unsigned num_threads() { return rp_n; }
  static unsigned size() { return rp_n; }
  static unsigned meta_group_rank() { return thread_block::thread_rank() / rp_n; }
  static unsigned meta_group_size() { return (thread_block::num_threads() + rp_n - 1) / rp_n; }
  template <class T> static T shfl(T v, int rank) { return __shfl_sync(mask(), v, rank, rp_n); }
  template <class T> static T shfl_up(T v, unsigned by) { return __shfl_up_sync(mask(), v, by, rp_n); }
  template <class T> static T shfl_down(T v, unsigned by) { return __shfl_down_sync(mask(), v, by, rp_n); }
  template <class T> static T shfl_xor(T v, unsigned with) { return __shfl_xor_sync(mask(), v, (int)with, rp_n); }
  static int any(int yes) { return __any_sync(mask(), yes); }
  static int all(int yes) { return __all_sync(mask(), yes); }
  static unsigned ballot(int yes) { return __ballot_sync(mask(), yes) >> (rp_lane_number() & ~(rp_n - 1)); }
  template <class T> static unsigned match_any(T v) {
    return __match_any_sync(mask(), v) >> (rp_lane_number() & ~(rp_n - 1));
  }
};
template <unsigned rp_n, class rp_group> RP_INLINE thread_block_tile<rp_n, rp_group> tiled_partition(const rp_group &) {
  return {};
}

/* The lanes that got to coalesced_threads() together, numbered from 0. */
struct coalesced_group {
  unsigned lanes;
  void sync() const { __syncwarp(lanes); }
  unsigned thread_rank() const { return (unsigned)__popc(lanes & ((1u << rp_lane_number()) - 1)); }
  unsigned num_threads() const { return (unsigned)__popc(lanes); }
  unsigned size() const { return num_threads(); }
  unsigned lane_of(unsigned rank) const { /* its own where there is none */
    unsigned left = lanes;
    while (rank-- && left) left &= left - 1;
    return left ? (unsigned)__builtin_ctz(left) : rp_lane_number();
  }
  template <class T> T shfl(T v, unsigned rank) const { return rp_from_lane(lanes, v, lane_of(rank)); }
  template <class T> T shfl_up(T v, unsigned by) const {
    return rp_from_lane(lanes, v, thread_rank() < by ? rp_lane_number() : lane_of(thread_rank() - by));
  }
  template <class T> T shfl_down(T v, unsigned by) const { return rp_from_lane(lanes, v, lane_of(thread_rank() + by)); }
  int any(int yes) const { return __any_sync(lanes, yes); }
  int all(int yes) const { return __all_sync(lanes, yes); }
  unsigned ballot(int yes) const {
    unsigned by_lane = __ballot_sync(lanes, yes), by_rank = 0, rank = 0;
    for (unsigned left = lanes; left; left &= left - 1, rank++) by_rank |= (by_lane >> __builtin_ctz(left) & 1) << rank;
    return by_rank;
  }
};
RP_INLINE coalesced_group coalesced_threads() { return {__activemask()}; }

template <class rp_group> RP_INLINE void sync(const rp_group &g) { g.sync(); }
template <class rp_group> RP_INLINE auto thread_rank(const rp_group &g) { return g.thread_rank(); }

}
#endif
