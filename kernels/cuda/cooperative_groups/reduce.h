/* cooperative_groups/reduce.h - a value of all threads of a tile, or of lanes that are active together, combined. */
#ifndef RP_COOPERATIVE_GROUPS_REDUCE
#define RP_COOPERATIVE_GROUPS_REDUCE

#include <cooperative_groups.h>

namespace cooperative_groups {

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <unsigned rp_n, class rp_parent, class T, class rp_op>
RP_INLINE T reduce(const thread_block_tile<rp_n, rp_parent> &g, T v, rp_op op) {
  for (unsigned with = rp_n / 2; with; with /= 2) v = op(v, g.shfl_xor(v, with));
  return v;
}
template <class T, class rp_op> RP_INLINE T reduce(const coalesced_group &g, T v, rp_op op) {
  T all = g.shfl(v, 0);
  for (unsigned rank = 1; rank < g.size(); rank++) all = op(all, g.shfl(v, rank));
  return all;
}

}
#endif
