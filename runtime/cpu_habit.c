/* cpu_habit.c - see cpu_habit.h.
 *
 * Runs come in windows. The first does not count: memory is touched for the first time, threads are started.
 * Now and then a short window goes the other way: a trial. It ends early once it has cost as much as it
 * usually would, so one that fails costs little, however bad that way is. One long stall spoils a window,
 * whichever way it goes: what was chosen by luck is left again as soon as its mean says so, and what was
 * missed by bad luck is tried again before long.
 */
#include "cpu_habit.h"

enum {
  WINDOW = 32, /* runs */
  TRIAL = 8,   /* runs of a trial */
  LEAST = 8,   /* windows between trials: 256 runs */
  MOST = 64    /* the same, when trial after trial has changed nothing */
};

static void begin(rp_habit *habit) {
  habit->runs = 0;
  habit->spent = 0;
  habit->late = false;
}

static void wait_longer(rp_habit *habit) {
  uint32_t longer = habit->patience < MOST / 2 ? habit->patience * 2 : MOST;
  habit->patience = habit->patience ? longer : LEAST;
  habit->windows = habit->patience;
}

static void end_window(rp_habit *habit) {
  int64_t *usual = habit->mean + habit->alone, other = habit->mean[!habit->alone],
          mean = habit->spent / WINDOW;
  *usual = *usual ? (*usual + mean) / 2 : mean;
  if (other && *usual > other) { /* it is not what the trial promised, or the machine has changed */
    habit->alone = !habit->alone;
    wait_longer(habit);
    return;
  }
  if (habit->late && habit->windows > LEAST) habit->windows = LEAST; /* the machine has changed */
  if (habit->windows) habit->windows--;
  if (habit->windows) return;
  habit->alone = !habit->alone;
  habit->trial = true;
}

static void end_trial(rp_habit *habit, bool better) {
  habit->mean[habit->alone] = habit->spent / habit->runs;
  habit->trial = false;
  if (better) {
    habit->windows = habit->patience = LEAST;
    return;
  }
  habit->alone = !habit->alone;
  wait_longer(habit);
}

void rp_habit_note(rp_habit *habit, int64_t ns, bool late) {
  habit->runs++;
  habit->spent += ns;
  habit->late |= late;
  bool full = habit->runs == (habit->trial ? TRIAL : WINDOW);
  bool worse = habit->trial && habit->spent >= habit->mean[!habit->alone] * TRIAL;
  if (!full && !worse) return;
  if (!habit->warm) habit->warm = true;
  else if (habit->trial) end_trial(habit, !worse);
  else end_window(habit);
  begin(habit);
}

rp_habit *rp_habit_of(rp_habits *habits, uint64_t kind) {
  uint64_t i = kind % RP_HABITS;
  if (habits->list[i].kind != kind) {
    habits->list[i].kind = kind;
    habits->list[i].habit = (rp_habit){0};
  }
  return &habits->list[i].habit;
}
