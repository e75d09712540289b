/* cpu_habit.c - see cpu_habit.h.
 *
 * Runs come in windows. The first does not count: memory is touched for the first time, threads are started.
 * Now and then a window goes the other way; it ends early once it has cost as much as a usual one, so a trial
 * that fails costs one window at most, however bad that way is.
 */
#include "cpu_habit.h"

enum {
  WINDOW = 32, /* runs */
  LEAST = 8,   /* windows between trials: 256 runs */
  MOST = 256   /* the same, when trial after trial has changed nothing */
};

static void begin(rp_habit *habit) {
  habit->runs = 0;
  habit->spent = 0;
  habit->late = false;
}

static void end_window(rp_habit *habit) {
  int64_t mean = habit->spent / WINDOW;
  habit->usual = habit->usual ? (3 * habit->usual + mean) / 4 : mean;
  if (habit->late && habit->windows > LEAST) habit->windows = LEAST; /* the machine has changed */
  if (habit->windows) habit->windows--;
  if (habit->windows) return;
  habit->alone = !habit->alone;
  habit->trial = true;
}

static void end_trial(rp_habit *habit, bool better) {
  if (better) habit->usual = habit->spent / WINDOW;
  else habit->alone = !habit->alone;
  uint32_t longer = habit->patience < MOST / 2 ? habit->patience * 2 : MOST;
  habit->patience = better || !habit->patience ? LEAST : longer;
  habit->windows = habit->patience;
  habit->trial = false;
}

void rp_habit_note(rp_habit *habit, int64_t ns, bool late) {
  habit->runs++;
  habit->spent += ns;
  habit->late |= late;
  bool full = habit->runs == WINDOW, worse = habit->trial && habit->spent >= habit->usual * WINDOW;
  if (!full && !worse) return;
  if (!habit->warm) habit->warm = true;
  else if (habit->trial) end_trial(habit, !worse);
  else end_window(habit);
  begin(habit);
}
