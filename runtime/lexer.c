/* lexer.c - see lexer.h. The phases of translation that matter here, in one pass: a backslash before the
 * end of a line joins lines (not in raw strings), comments are blanks, `'` inside a number separates
 * digits.
 */
#include "lexer.h"

#include <string.h>

/* Bytes of a line continuation at p, or 0. */
static size_t splice(const char *p, const char *end) {
  if (p >= end || *p != '\\') return 0;
  if (p + 1 < end && p[1] == '\n') return 2;
  return p + 2 < end && p[1] == '\r' && p[2] == '\n' ? 3 : 0;
}

static bool starts(const rp_lexer *lexer, const char *text) {
  size_t length = strlen(text);
  return (size_t)(lexer->end - lexer->at) >= length && memcmp(lexer->at, text, length) == 0;
}

static bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

static void step(rp_lexer *lexer) {
  if (*lexer->at == '\n') lexer->line++;
  lexer->at++;
}

static void step_over(rp_lexer *lexer, size_t bytes) {
  while (bytes--) step(lexer);
}

/* To the end of the line, which is not taken; continuations are. */
static void skip_line(rp_lexer *lexer) {
  while (lexer->at < lexer->end && *lexer->at != '\n') {
    size_t joined = splice(lexer->at, lexer->end);
    step_over(lexer, joined ? joined : 1);
  }
}

static void skip_comment(rp_lexer *lexer) {
  step_over(lexer, 2);
  while (lexer->at < lexer->end && !starts(lexer, "*/")) step(lexer);
  if (lexer->at < lexer->end) step_over(lexer, 2);
}

/* Blanks, comments and continuations; ends of lines too unless `inside` a line. */
static void skip_blank(rp_lexer *lexer, bool inside) {
  for (;;) {
    size_t joined = splice(lexer->at, lexer->end);
    if (joined) step_over(lexer, joined);
    else if (lexer->at == lexer->end || (inside && *lexer->at == '\n')) return;
    else if (*lexer->at == '\n') {
      step(lexer);
      lexer->fresh = true;
    } else if (memchr(" \t\r\v\f", *lexer->at, 5)) lexer->at++;
    else if (starts(lexer, "//")) skip_line(lexer);
    else if (starts(lexer, "/*")) skip_comment(lexer);
    else return;
  }
}

/* A string or character from its opening quote; one that is not closed ends with its line. */
static void take_string(rp_lexer *lexer) {
  char quote = *lexer->at++;
  while (lexer->at < lexer->end && *lexer->at != '\n') {
    size_t joined = splice(lexer->at, lexer->end);
    bool last = *lexer->at == quote;
    if (joined) step_over(lexer, joined);
    else if (*lexer->at == '\\' && lexer->at + 1 < lexer->end && lexer->at[1] != '\n') lexer->at += 2;
    else lexer->at++;
    if (last) return;
  }
}

/* R"mark( ... )mark" from its opening quote. */
static void take_raw(rp_lexer *lexer) {
  const char *mark = lexer->at + 1, *open = mark;
  while (open < lexer->end && open - mark <= 16 && !memchr("()\\ \t\n\"", *open, 7)) open++;
  if (open == lexer->end || *open != '(') {
    take_string(lexer);
    return;
  }
  size_t length = (size_t)(open - mark);
  while (lexer->at < lexer->end) {
    bool closes = lexer->at > open && *lexer->at == ')' && (size_t)(lexer->end - lexer->at) > length + 1 &&
                  memcmp(lexer->at + 1, mark, length) == 0 && lexer->at[1 + length] == '"';
    if (closes) {
      step_over(lexer, length + 2);
      return;
    }
    step(lexer);
  }
}

static bool one_of(const char *at, size_t length, const char *const *list) {
  for (; *list; list++)
    if (strlen(*list) == length && memcmp(at, *list, length) == 0) return true;
  return false;
}

/* A word, or the string that it turns out to be the prefix of. */
static rp_token_kind take_word(rp_lexer *lexer) {
  static const char *const raw[] = {"R", "LR", "uR", "UR", "u8R", NULL}, *const plain[] = {"L", "u", "U",
                                                                                           "u8", NULL};
  const char *from = lexer->at;
  while (lexer->at < lexer->end && (letter(*lexer->at) || digit(*lexer->at))) lexer->at++;
  size_t length = (size_t)(lexer->at - from);
  if (starts(lexer, "\"") && one_of(from, length, raw)) {
    take_raw(lexer);
    return RP_TOKEN_STRING;
  }
  if ((starts(lexer, "\"") || starts(lexer, "'")) && one_of(from, length, plain)) {
    take_string(lexer);
    return RP_TOKEN_STRING;
  }
  return RP_TOKEN_WORD;
}

static void take_number(rp_lexer *lexer) {
  for (lexer->at++; lexer->at < lexer->end; lexer->at++) {
    char c = *lexer->at, before = lexer->at[-1];
    bool sign = (c == '+' || c == '-') && memchr("eEpP", before, 4);
    bool separator = c == '\'' && lexer->at + 1 < lexer->end && (letter(lexer->at[1]) || digit(lexer->at[1]));
    if (!letter(c) && !digit(c) && c != '.' && !sign && !separator) return;
  }
}

static rp_token_kind take(rp_lexer *lexer) {
  char c = *lexer->at;
  if (letter(c)) return take_word(lexer);
  if (c == '"' || c == '\'') {
    take_string(lexer);
    return RP_TOKEN_STRING;
  }
  if (digit(c) || (c == '.' && lexer->at + 1 < lexer->end && digit(lexer->at[1]))) {
    take_number(lexer);
    return RP_TOKEN_NUMBER;
  }
  lexer->at++;
  return RP_TOKEN_MARK;
}

static void take_directive(rp_lexer *lexer) {
  for (lexer->at++;; take(lexer)) {
    skip_blank(lexer, true);
    if (lexer->at == lexer->end || *lexer->at == '\n') return;
  }
}

static rp_token next(rp_lexer *lexer) {
  skip_blank(lexer, false);
  rp_token token = {RP_TOKEN_END, lexer->at, 0, lexer->line};
  if (lexer->at == lexer->end) return token;
  if (lexer->fresh && *lexer->at == '#') {
    take_directive(lexer);
    token.kind = RP_TOKEN_DIRECTIVE;
  } else {
    lexer->fresh = false;
    token.kind = take(lexer);
  }
  token.length = (size_t)(lexer->at - token.at);
  return token;
}

/* Past the group of an `#if 0`, up to the directive that ends it, which is not taken. */
static void skip_group(rp_lexer *lexer) {
  for (int depth = 0;;) {
    rp_lexer before = *lexer, rest;
    rp_token token = next(lexer);
    if (token.kind == RP_TOKEN_END) return;
    if (token.kind != RP_TOKEN_DIRECTIVE) continue;
    rp_directive what = rp_token_directive(token, &rest);
    bool ends = what == RP_DIRECTIVE_ELSE || what == RP_DIRECTIVE_ENDIF;
    if (depth == 0 && ends) {
      *lexer = before;
      return;
    }
    depth += (what == RP_DIRECTIVE_IF) - (what == RP_DIRECTIVE_ENDIF);
  }
}

static bool never(rp_token token) {
  rp_lexer rest;
  if (rp_token_directive(token, &rest) != RP_DIRECTIVE_IF || !rp_token_is(next(&rest), "0")) return false;
  return next(&rest).kind == RP_TOKEN_END;
}

rp_lexer rp_lexer_of(const char *text) {
  if (strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* a byte order mark */
  return (rp_lexer){.at = text, .end = text + strlen(text), .line = 1, .fresh = true};
}

rp_token rp_lexer_next(rp_lexer *lexer) {
  rp_token token = next(lexer);
  if (token.kind == RP_TOKEN_DIRECTIVE && never(token)) skip_group(lexer);
  return token;
}

rp_token rp_lexer_peek(const rp_lexer *lexer) {
  rp_lexer ahead = *lexer;
  return rp_lexer_next(&ahead);
}

rp_directive rp_token_directive(rp_token token, rp_lexer *rest) {
  static const char *const ifs[] = {"if", "ifdef", "ifndef", NULL};
  static const char *const elses[] = {"else", "elif", "elifdef", "elifndef", NULL};
  *rest = (rp_lexer){.at = token.at + 1, .end = token.at + token.length, .line = token.line, .fresh = false};
  rp_token name = next(rest);
  if (one_of(name.at, name.length, ifs)) return RP_DIRECTIVE_IF;
  if (one_of(name.at, name.length, elses)) return RP_DIRECTIVE_ELSE;
  if (rp_token_is(name, "endif")) return RP_DIRECTIVE_ENDIF;
  if (rp_token_is(name, "define")) return RP_DIRECTIVE_DEFINE;
  return rp_token_is(name, "include") ? RP_DIRECTIVE_INCLUDE : RP_DIRECTIVE_OTHER;
}

bool rp_token_is(rp_token token, const char *text) {
  return strlen(text) == token.length && memcmp(token.at, text, token.length) == 0;
}

bool rp_token_mark(rp_token token, char mark) { return token.kind == RP_TOKEN_MARK && *token.at == mark; }
