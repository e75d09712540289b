/* repl_history.c - see repl_history.h. */
#include "repl_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

static int file = -1;
static char path[4096]; /* of its folder, later of the file */

/* $XDG_STATE_HOME counts if it is absolute, says the specification; false: there is no home. */
static int find_folder(void) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  if (state && *state == '/') return snprintf(path, sizeof path, "%s/reprise", state) < (int)sizeof path;
  return home && *home && snprintf(path, sizeof path, "%s/.local/state/reprise", home) < (int)sizeof path;
}

static int open_file(void) {
  if (!find_folder()) return errno = ENOENT, -1;
  int folder = rp_folder_open(path, 0700);
  if (folder < 0) return -1;
  int fd = openat(folder, "history", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0 && fchmod(fd, 0600)) close(fd), fd = -1;
  int why = errno;
  close(folder);
  errno = why;
  return fd;
}

/* ---- the newest lines */

typedef struct newest { /* a ring: lines[count % RP_HISTORY_LINES] is the next to be replaced */
  char *lines[RP_HISTORY_LINES];
  size_t count;
} newest;

static void read_lines(newest *ring) {
  FILE *in = fdopen(dup(file), "r");
  if (!in) return;
  char *line = NULL;
  size_t room = 0;
  for (ssize_t length; (length = getline(&line, &room, in)) > 0; ring->count++) {
    char **place = &ring->lines[ring->count % RP_HISTORY_LINES];
    if (line[length - 1] == '\n') line[length - 1] = 0;
    free(*place);
    *place = line;
    line = NULL;
  }
  free(line);
  fclose(in);
}

/* In order; lines that no memory was found for are left out. */
static void each(newest *ring, void (*act)(const char *line)) {
  size_t kept = ring->count < RP_HISTORY_LINES ? ring->count : RP_HISTORY_LINES;
  for (size_t i = ring->count - kept; i < ring->count; i++) {
    if (ring->lines[i % RP_HISTORY_LINES]) act(ring->lines[i % RP_HISTORY_LINES]);
  }
}

const char *rp_history_open(void (*add)(const char *line)) {
  static newest ring;
  file = open_file();
  if (file < 0) return strerror(errno);
  read_lines(&ring);
  each(&ring, add);
  if (ring.count > (size_t)2 * RP_HISTORY_LINES && ftruncate(file, 0) == 0) each(&ring, rp_history_append);
  for (size_t i = 0; i < RP_HISTORY_LINES; i++) free(ring.lines[i]);
  memset(&ring, 0, sizeof ring);
  return NULL;
}

/* One write a line, so that those of two prompts do not mix. What cannot be written is lost with the session. */
void rp_history_append(const char *line) {
  size_t length = strlen(line);
  char *text = file < 0 ? NULL : malloc(length + 1);
  if (!text) return;
  memcpy(text, line, length);
  text[length] = '\n';
  if (write(file, text, length + 1) < 0) close(file), file = -1;
  free(text);
}

void rp_history_close(void) {
  if (file >= 0) close(file);
  file = -1;
}
