/* repl_history.h - what was typed at the prompt, a line of text each, in $XDG_STATE_HOME/reprise/history, for the
 * owner's eyes alone (0600). Every line is appended at once: prompts that run side by side keep each other's.
 */
#ifndef RP_REPL_HISTORY_H
#define RP_REPL_HISTORY_H

enum { RP_HISTORY_LINES = 2000 }; /* as many are remembered; the file is cut when it holds twice as many */

/* Opens the file and hands its newest lines to `add`, oldest first. NULL, or why nothing will be kept. */
const char *rp_history_open(void (*add)(const char *line));
void rp_history_append(const char *line);
void rp_history_close(void);

#endif
