/* cpu_lanes.h - what lanes of a warp tell each other when they meet: the results of shuffles, votes and the like. */
#ifndef RP_CPU_LANES_H
#define RP_CPU_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types.h"

/* Purposes: enumerator, name in messages. kernels/cuda/cuda.cuh has them in the same order. */
#define RP_LANES(X)                \
  X(SYNC, "__syncwarp")            \
  X(SHUFFLE, "a shuffle (__shfl)") \
  X(VOTE, "a vote (__ballot)")     \
  X(MATCH, "__match")              \
  X(ADD, "__reduce_add_sync")      \
  X(LEAST, "__reduce_min_sync")    \
  X(MOST, "__reduce_max_sync")     \
  X(AND, "__reduce_and_sync")      \
  X(OR, "__reduce_or_sync")        \
  X(XOR, "__reduce_xor_sync")      \
  X(ACTIVE, "__activemask")

enum {
#define RP_LANES_ENUM(id, name) RP_LANES_##id,
  RP_LANES(RP_LANES_ENUM)
#undef RP_LANES_ENUM
      RP_LANES_KINDS
};

typedef struct rp_lane { /* of a thread that waits for lanes of its warp */
  uint64_t value;        /* what it gives; then what it gets. ACTIVE: the place of the call */
  uint32_t what, mask;
  uint32_t source; /* SHUFFLE: whose value it wants */
} rp_lane;

const char *rp_lanes_name(uint32_t what);

typedef struct rp_crowd { /* threads that wait for the same thing for ever */
  uint32_t count, mask;   /* of the first of them */
  rp_dims first;          /* its threadIdx */
} rp_crowd;

/* Prints " 3 threads wait at ... (first (0, 0, 0));". what: RP_LANES_KINDS stands for the barrier. The characters
 * printed. */
size_t rp_crowd_print(const rp_crowd *crowd, uint32_t what, char *out, size_t room);
/* Have all lanes of a group come for the same as `lane`? lanes: the 32 of a warp. */
bool rp_lanes_agree(const rp_lane *lanes, uint32_t group, uint32_t lane);
/* Puts into the value of each lane what it gets. SHUFFLE: the value of its source, its own if that is not of the group.
 * VOTE: who said yes; the group in the upper half. MATCH: who has the same value. Else: all values, combined; LEAST
 * and MOST by signed 64-bit order. */
void rp_lanes_exchange(rp_lane *lanes, uint32_t group, uint32_t what);
/* Of the lanes that wait, answers those that wait for __activemask; which they are. */
uint32_t rp_lanes_active(rp_lane *lanes, uint32_t waits);

#endif
