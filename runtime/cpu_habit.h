/* cpu_habit.h - whether a graph's replays are quicker with the thread team or without, found out by trying.
 *
 * The team loses where the machine is crowded (a thread that the system has put aside with a block in hand
 * keeps all others waiting for milliseconds) and where nodes are so small that handing data from core to core
 * costs more than the work. Results are the same bits either way, so the habit is free to change at any
 * replay.
 */
#ifndef RP_CPU_HABIT_H
#define RP_CPU_HABIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rp_habit { /* zeroed: new */
  bool alone;             /* how the next run goes */
  bool trial;             /* of the way that is not usual */
  bool warm;              /* the first window is over */
  bool late;              /* some thread kept a run of this window waiting */
  uint32_t runs;          /* of this window */
  int64_t spent;          /* ns, by them */
  int64_t mean[2];        /* ns a run: with the team, alone; 0: not known yet */
  uint32_t windows;       /* to come before the next trial */
  uint32_t patience;      /* windows between trials; grows with each that changes nothing */
} rp_habit;

/* Notes that a run took `ns`; late: a thread of the team kept it waiting. */
void rp_habit_note(rp_habit *habit, int64_t ns, bool late);

#endif
