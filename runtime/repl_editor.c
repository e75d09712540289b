/* repl_editor.c - the line editor of the prompt: libedit, with history, Tab and Ctrl-C.
 *
 * libedit gets its characters from us, so that a signal is never lost: SIGINT, SIGWINCH and SIGCONT are blocked while a
 * line is edited, and open only inside ppoll. SIGINT raises rp_interrupts (bind_interrupt.c) and ends the line; after
 * the other two the line is drawn again. Keys are emacs'; ~/.editrc can change them.
 */
#include "repl_lines.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "interrupt.h"
#include "repl_history.h"

enum { MARK = 1, COLUMNS = 80 }; /* around escape codes in a prompt; of a terminal that does not say */

static struct {
  EditLine *edit;
  History *history;
  lua_State *L;
  rp_completer *complete;
  char prompt[64];
  sigset_t open; /* the signals' mask outside */
} editor;

static volatile sig_atomic_t resized, resumed;

/* ---- signals */

static void on_resize(int unused) { (void)unused, resized = 1; }
static void on_resume(int unused) { (void)unused, resumed = 1; }

static void listen_to(int number, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, NULL);
}

static void block_signals(void) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGINT), sigaddset(&ours, SIGWINCH), sigaddset(&ours, SIGCONT);
  sigprocmask(SIG_BLOCK, &ours, &editor.open);
}

static void open_signals(void) { sigprocmask(SIG_SETMASK, &editor.open, NULL); }

static void answer_signals(EditLine *edit) {
  if (resized) el_resize(edit);
  if (resumed) el_set(edit, EL_PREP_TERM, 1);
  if (resized || resumed) el_set(edit, EL_REFRESH);
  resized = resumed = 0;
}

/* ---- characters */

/* One more byte; 0 at the end of the input, -1 on Ctrl-C. */
static int read_byte(EditLine *edit, char *out) {
  for (;;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = ppoll(&input, 1, NULL, &editor.open);
    if (rp_interrupts) return errno = EINTR, -1;
    answer_signals(edit);
    if (ready < 0 && errno != EINTR) return -1;
    if (ready <= 0) continue;
    ssize_t got = read(STDIN_FILENO, out, 1);
    if (got >= 0) return (int)got;
    if (errno != EINTR && errno != EAGAIN) return -1;
  }
}

/* For EL_GETCFN: 1 and a character, 0 at the end, -1. Bytes that are no text in this locale are left out. */
static int read_character(EditLine *edit, wchar_t *out) {
  char bytes[MB_LEN_MAX];
  for (size_t count = 0;;) {
    mbstate_t fresh;
    memset(&fresh, 0, sizeof fresh);
    int got = read_byte(edit, bytes + count);
    if (got <= 0) return got;
    size_t used = mbrtowc(out, bytes, ++count, &fresh);
    if (used <= count) return 1;
    if (used == (size_t)-1 || count == sizeof bytes) count = 0;
  }
}

/* ---- Tab */

static int columns(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS;
}

/* The text before the cursor, pushed. */
static const char *push_before(lua_State *L, EditLine *edit) {
  const LineInfo *line = el_line(edit);
  return lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
}

static unsigned char on_tab(EditLine *edit, int unused) {
  (void)unused;
  lua_State *L = editor.L;
  int top = lua_gettop(L);
  open_signals(); /* what is looked up may be a function of the user's, and take long */
  editor.complete(L, push_before(L, edit), columns());
  block_signals();
  const char *inserted = lua_tostring(L, top + 2), *listed = lua_tostring(L, top + 3);
  unsigned char then = CC_ERROR;
  if (inserted && *inserted) then = el_insertstr(edit, inserted) == 0 ? CC_REFRESH : CC_ERROR;
  if (listed && *listed) fprintf(stdout, "\n%s\n", listed), then = CC_REDISPLAY;
  fflush(stdout);
  lua_settop(L, top);
  return then;
}

/* ---- history */

static void remember(const char *line) {
  HistEvent event;
  history(editor.history, &event, H_ENTER, line);
}

static void open_history(void) {
  HistEvent event;
  editor.history = history_init();
  if (!editor.history) return;
  history(editor.history, &event, H_SETSIZE, RP_HISTORY_LINES);
  history(editor.history, &event, H_SETUNIQUE, 1);
  el_set(editor.edit, EL_HIST, history, editor.history);
  const char *why = rp_history_open(remember);
  if (why) fprintf(stderr, "reprise: the history of this prompt is not kept: %s\n", why);
}

/* Blank lines and the newest one once more are not worth keeping. */
static void note(const char *line) {
  HistEvent event;
  if (!editor.history || !line[strspn(line, " \t")]) return;
  bool same = history(editor.history, &event, H_FIRST) >= 0 && strcmp(event.str, line) == 0;
  if (same) return;
  remember(line);
  rp_history_append(line);
}

/* ---- opening */

static char *prompt_of(EditLine *unused) {
  (void)unused;
  return editor.prompt;
}

/* Letters beyond ASCII need a locale that knows them; numbers, dates and messages stay as they are. */
static void choose_locale(void) {
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0 && !setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "C");
}

static void bind_keys(EditLine *edit) {
  el_set(edit, EL_ADDFN, "complete", "complete the word before the cursor", on_tab);
  el_set(edit, EL_BIND, "^I", "complete", NULL);
  el_set(edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_set(edit, EL_BIND, "\033[1;5C", "em-next-word", NULL);
  el_set(edit, EL_BIND, "\033[1;5D", "ed-prev-word", NULL);
  el_set(edit, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
}

bool rp_editor_open(lua_State *L, rp_completer *complete) {
  choose_locale();
  EditLine *edit = el_init("reprise", stdin, stdout, stderr);
  if (!edit) return false;
  editor.edit = edit;
  editor.L = L;
  editor.complete = complete;
  el_set(edit, EL_PROMPT_ESC, prompt_of, MARK);
  el_set(edit, EL_EDITOR, "emacs");
  el_wset(edit, EL_GETCFN, read_character);
  bind_keys(edit);
  el_source(edit, NULL);
  open_history();
  return true;
}

void rp_editor_close(void) {
  rp_history_close();
  if (editor.history) history_end(editor.history);
  el_end(editor.edit);
  memset(&editor, 0, sizeof editor);
}

/* ---- reading */

static void set_prompt(const char *prompt, const char *colour) {
  if (*colour)
    snprintf(editor.prompt, sizeof editor.prompt, "%c%s%c%s%c\033[0m%c", MARK, colour, MARK, prompt, MARK,
             MARK);
  else snprintf(editor.prompt, sizeof editor.prompt, "%s", prompt);
}

static const char *edit_line(int *length) {
  block_signals();
  listen_to(SIGWINCH, on_resize);
  listen_to(SIGCONT, on_resume);
  const char *line = el_gets(editor.edit, length);
  listen_to(SIGWINCH, SIG_DFL);
  listen_to(SIGCONT, SIG_DFL);
  open_signals();
  return line;
}

rp_got rp_editor_read(lua_State *L, const char *prompt, const char *colour) {
  int length = 0;
  set_prompt(prompt, colour);
  const char *line = edit_line(&length);
  if (rp_interrupts) {
    const LineInfo *typed = el_line(editor.edit);
    bool bare = typed->lastchar == typed->buffer;
    el_reset(editor.edit);
    return bare ? RP_GOT_BARE_STOP : RP_GOT_STOP;
  }
  if (!line || length <= 0) return RP_GOT_END;
  if (line[length - 1] == '\n') length--;
  note(lua_pushlstring(L, line, (size_t)length));
  return RP_GOT_LINE;
}
