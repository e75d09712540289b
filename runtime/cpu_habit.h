/* cpu_habit.h - whether a graph's replays, or launches of a kind, are quicker with the thread team or without, found out by
 * trying.
 *
 * The team loses where the machine is crowded (a thread that the system has put aside with a block in hand
 * keeps all others waiting for milliseconds) and where nodes are so small that handing data from core to core
 * costs more than the work, or waking a thread does, which sleeps between launches. Results are the same bits either way, so the habit is free to change at any
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

/* Habits of launches, which come one by one: of each kind, as far as there is room. */
enum { RP_HABITS = 128 };
typedef struct rp_habits { /* zeroed: none yet */
  struct {
    uint64_t kind;
    rp_habit habit;
  } list[RP_HABITS];
} rp_habits;

/* The habit of a kind (a hash); a kind that takes another's place starts anew. */
rp_habit *rp_habit_of(rp_habits *habits, uint64_t kind);

#endif
