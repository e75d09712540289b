/* err.c - the last sentence of each thread.
 *
 * Short sentences live in a fixed buffer, so that running out of memory can be reported; a longer one (a compile log)
 * gets a buffer of its own that is replaced by the next. Plain malloc: failure injection must not fail its own report.
 */
#include "err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 1024 };

static _Thread_local char short_text[SHORT];
static _Thread_local char *long_text; /* owned; NULL while the sentence fits short_text */

const char *rp_status_text(rp_status status) {
  static const char *const texts[] = {
#define STATUS_TEXT(id, text) [id] = text,
      RP_STATUSES(STATUS_TEXT)
#undef STATUS_TEXT
  };
  return texts[status];
}

const char *rp_message(void) { return long_text ? long_text : short_text; }

/* Takes `text` as the sentence; NULL leaves what short_text holds. */
static void keep(char *text) {
  free(long_text);
  long_text = text;
}

static rp_status store(rp_status status, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  char first[SHORT]; /* the arguments may point into the sentence that is being replaced */
  int need = vsnprintf(first, sizeof first, format, args);
  char *text = need >= SHORT ? malloc((size_t)need + 1) : NULL;
  if (text) vsnprintf(text, (size_t)need + 1, format, again);
  va_end(again);
  memcpy(short_text, first, sizeof first);
  keep(text);
  return status;
}

#undef rp_fail /* see err.h */
#undef rp_fail_in

rp_status rp_fail(rp_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  store(status, format, args);
  va_end(args);
  return status;
}

rp_status rp_fail_in(rp_status status, const char *format, ...) {
  char context[SHORT];
  va_list args;
  va_start(args, format);
  vsnprintf(context, sizeof context, format, args);
  va_end(args);
  return rp_fail(status, "%s: %s", context, rp_message());
}
