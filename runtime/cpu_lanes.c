/* cpu_lanes.c - see cpu_lanes.h. */
#include "cpu_lanes.h"

#include <stdio.h>

const char *rp_lanes_name(uint32_t what) {
  static const char *const names[] = {
#define RP_LANES_NAME(id, name) name,
      RP_LANES(RP_LANES_NAME)
#undef RP_LANES_NAME
  };
  return names[what];
}

size_t rp_crowd_print(const rp_crowd *crowd, uint32_t what, char *out, size_t room) {
  bool barrier = what == RP_LANES_KINDS;
  char mask[32] = "";
  rp_dims t = crowd->first;
  if (!barrier) snprintf(mask, sizeof mask, " with mask 0x%08x", crowd->mask);
  int n = snprintf(out, room, " %u thread%s at %s%s (first (%u, %u, %u));", crowd->count,
                   crowd->count == 1 ? " waits" : "s wait", barrier ? "__syncthreads" : rp_lanes_name(what),
                   mask, t.x, t.y, t.z);
  return n > 0 && (size_t)n < room ? (size_t)n : room - 1;
}

#define EACH(lane, group)                                                                      \
  for (uint32_t lane, left_ = (group); left_ && (lane = (uint32_t)__builtin_ctz(left_), true); \
       left_ &= left_ - 1)

bool rp_lanes_agree(const rp_lane *lanes, uint32_t group, uint32_t lane) {
  const rp_lane *one = lanes + lane;
  EACH(i, group)
  if (lanes[i].mask != one->mask || lanes[i].what != one->what) return false;
  return true;
}

static void shuffle(rp_lane *lanes, uint32_t group) {
  uint64_t was[32] = {0};
  EACH(i, group) was[i] = lanes[i].value;
  EACH(i, group) {
    uint32_t source = lanes[i].source % 32;
    if (group >> source & 1) lanes[i].value = was[source];
  }
}

static void vote(rp_lane *lanes, uint32_t group) {
  uint64_t yes = 0;
  EACH(i, group) yes |= (uint64_t)(lanes[i].value != 0) << i;
  EACH(i, group) lanes[i].value = yes | (uint64_t)group << 32;
}

static void match(rp_lane *lanes, uint32_t group) {
  uint32_t same[32] = {0};
  EACH(i, group) {
    for (uint32_t k = 0; k < 32; k++)
      if (group >> k & 1 && lanes[k].value == lanes[i].value) same[i] |= 1u << k;
  }
  EACH(i, group) lanes[i].value = same[i] | (uint64_t)group << 32;
}

static uint64_t combine(uint32_t what, uint64_t a, uint64_t b) {
  switch (what) {
    case RP_LANES_ADD: return a + b;
    case RP_LANES_LEAST: return (int64_t)a < (int64_t)b ? a : b;
    case RP_LANES_MOST: return (int64_t)a > (int64_t)b ? a : b;
    case RP_LANES_AND: return a & b;
    case RP_LANES_OR: return a | b;
    default: return a ^ b;
  }
}

static void reduce(rp_lane *lanes, uint32_t group, uint32_t what) {
  uint64_t all = lanes[__builtin_ctz(group)].value;
  EACH(i, group & (group - 1)) all = combine(what, all, lanes[i].value);
  EACH(i, group) lanes[i].value = all;
}

void rp_lanes_exchange(rp_lane *lanes, uint32_t group, uint32_t what) {
  switch (what) {
    case RP_LANES_SYNC: return;
    case RP_LANES_SHUFFLE: return shuffle(lanes, group);
    case RP_LANES_VOTE: return vote(lanes, group);
    case RP_LANES_MATCH: return match(lanes, group);
    default: return reduce(lanes, group, what);
  }
}

uint32_t rp_lanes_active(rp_lane *lanes, uint32_t waits) {
  uint32_t all = 0, same;
  EACH(i, waits) {
    if (lanes[i].what != RP_LANES_ACTIVE || all >> i & 1) continue;
    uint64_t site = lanes[i].value;
    same = 0;
    for (uint32_t k = 0; k < 32; k++)
      if (waits >> k & 1 && lanes[k].what == RP_LANES_ACTIVE && !(all >> k & 1) && lanes[k].value == site)
        same |= 1u << k;
    all |= same;
    for (uint32_t k = 0; k < 32; k++)
      if (same >> k & 1) lanes[k].value = same;
  }
  return all;
}
