/* signature.c - finds the kernels of a source and reads what they promise.
 *
 * One pass over the tokens follows braces and #if. Where KERNEL or __global__ begins a definition, its
 * head is read by formal.c; then the words of its body are held against vocabulary.c until its braces
 * close.
 */
#include "signature.h"

#include <stdio.h>
#include <string.h>

#include "formal.h"
#include "mem.h"

enum { NESTED = 64 }; /* braces whose kind is known; #if inside #if */

typedef struct scanner {
  rp_place place;
  const char *text;
  rp_lexer lexer;
  rp_token before;                                     /* the token before the one at hand */
  int depth;                                           /* open braces */
  char opened_by[NESTED];                              /* 'C' extern "C", 'N' namespace, 'o' anything else */
  int opened_at[NESTED];                               /* lines */
  int ifs, if_line[NESTED], if_depth[NESTED];          /* open #ifs: line, and braces open at the #if */
  bool template_seen, extern_c, waits, namespace_seen; /* in the declaration at hand */
  bool in_body, body_global;
  int body_depth, body_line; /* depth around the body */
  rp_signature *list;
  size_t count, room;
} scanner;

static void begin_declaration(scanner *s) {
  s->template_seen = s->extern_c = s->waits = s->namespace_seen = false;
}

static rp_status fail_at(const scanner *s, int line, rp_status status) {
  return rp_place_fail(&s->place, line, status);
}

/* The outermost open brace of a kind; -1: none. */
static int open_brace(const scanner *s, char kind) {
  for (int i = 0; i < s->depth && i < NESTED; i++)
    if (s->opened_by[i] == kind) return i;
  return -1;
}

static void open_one(scanner *s, rp_token token, char kind) {
  if (s->depth < NESTED) {
    s->opened_by[s->depth] = kind;
    s->opened_at[s->depth] = token.line;
  }
  s->depth++;
}

/* ---- Directives */

/* A kernel made by a macro cannot be seen. */
static rp_status check_macro(const scanner *s, rp_lexer rest) {
  rp_token name = rp_lexer_next(&rest), token;
  while ((token = rp_lexer_next(&rest)).kind != RP_TOKEN_END) {
    if (!rp_token_is(token, "KERNEL") && !rp_token_is(token, "__global__")) continue;
    if (!rp_token_is(rp_lexer_peek(&rest), "void")) continue;
    return fail_at(s, name.line,
                   rp_fail(RP_FORMAT,
                           "macro %.*s makes a kernel: signatures are read before macros are expanded: write "
                           "the kernel out, "
                           "and give what varies in define",
                           (int)name.length, name.at));
  }
  return RP_OK;
}

static rp_status take_if(scanner *s, int line) {
  if (s->ifs == NESTED)
    return fail_at(s, line, rp_fail(RP_FORMAT, "#if is nested more than %d deep", NESTED));
  s->if_line[s->ifs] = line;
  s->if_depth[s->ifs++] = s->depth;
  return RP_OK;
}

/* The branches of an #if open the same braces, so each begins where the first did. */
static rp_status take_directive(scanner *s, rp_token token) {
  rp_lexer rest;
  switch (rp_token_directive(token, &rest)) {
    case RP_DIRECTIVE_IF: return take_if(s, token.line);
    case RP_DIRECTIVE_ELSE:
      if (s->ifs) s->depth = s->if_depth[s->ifs - 1];
      return RP_OK;
    case RP_DIRECTIVE_ENDIF:
      if (s->ifs) s->ifs--;
      return RP_OK;
    case RP_DIRECTIVE_DEFINE: return check_macro(s, rest);
    default: return RP_OK;
  }
}

/* ---- Heads */

/* Past a group in parentheses, brackets or braces whose opening mark is next. */
static void skip_group(rp_lexer *lexer) {
  int depth = 0;
  do {
    rp_token token = rp_lexer_next(lexer);
    if (token.kind == RP_TOKEN_END) return;
    bool opens = rp_token_mark(token, '(') || rp_token_mark(token, '[') || rp_token_mark(token, '{');
    bool closes = rp_token_mark(token, ')') || rp_token_mark(token, ']') || rp_token_mark(token, '}');
    depth += opens - closes;
  } while (depth > 0);
}

typedef struct head {    /* what stands between KERNEL or __global__ and the parameter list */
  rp_token name, result; /* result: a word or mark of a type that is not void */
  bool found, extern_c, waits, special;
} head;

static bool attribute(rp_token word) {
  static const char *const list[] = {"__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__",
                                     "__attribute__",     "__align__",        "alignas",        NULL};
  for (const char *const *p = list; *p; p++)
    if (rp_token_is(word, *p)) return true;
  return false;
}

static bool plain(rp_token word) {
  static const char *const list[] = {
      "void",       "static", "inline", "extern", "__noinline__", "__forceinline__",
      "__global__", "KERNEL", "const",  NULL};
  for (const char *const *p = list; *p; p++)
    if (rp_token_is(word, *p)) return true;
  return false;
}

/* Reads up to the opening parenthesis of the parameters, taken too. Not found: this is no kernel, the
 * lexer is lost. */
static head read_head(rp_lexer *lexer) {
  head h = {.found = false};
  rp_token first = rp_lexer_peek(lexer);
  if (first.kind != RP_TOKEN_WORD && !rp_token_mark(first, '[')) return h;
  for (;;) {
    rp_token token = rp_lexer_next(lexer), after = rp_lexer_peek(lexer);
    bool word = token.kind == RP_TOKEN_WORD;
    if (word && attribute(token)) {
      if (rp_token_mark(after, '(')) skip_group(lexer);
    } else if (word && rp_token_is(token, "WAITS")) {
      h.waits = true;
    } else if (word && !plain(token) && (rp_token_mark(after, '(') || rp_token_mark(after, '<'))) {
      h.name = token;
      h.special = rp_token_mark(after, '<');
      h.found = true;
      if (!h.special) rp_lexer_next(lexer);
      return h;
    } else if (rp_token_mark(token, '[') && rp_token_mark(after, '[')) {
      skip_group(lexer), rp_lexer_next(lexer);
    } else if (token.kind == RP_TOKEN_STRING) {
      h.extern_c = true;
    } else if ((word && !plain(token)) || rp_token_mark(token, '*') || rp_token_mark(token, '&')) {
      if (!h.result.length) h.result = token;
    } else if (!word) {
      return h;
    }
  }
}

/* Where the kernel stands: not in a template, namespace, function or #if, and only once. */
static rp_status check_position(const scanner *s, const head *h) {
  int around = open_brace(s, 'o'), space = open_brace(s, 'N');
  if (s->template_seen || h->special)
    return rp_fail(
        RP_FORMAT,
        "a template cannot be launched: write the kernel for one type, and give the type in define");
  if (h->result.length)
    return rp_fail(RP_FORMAT, "returns `%.*s`: a kernel returns void", (int)h->result.length, h->result.at);
  if (s->ifs)
    return rp_fail(RP_FORMAT,
                   "stands under the #if of line %d: signatures are read before the preprocessor runs: "
                   "move the #if into the body, or into another file",
                   s->if_line[s->ifs - 1]);
  if (around >= 0)
    return rp_fail(RP_FORMAT, "does not stand at the top level: the brace of line %d is still open",
                   s->opened_at[around]);
  if (space >= 0)
    return rp_fail(RP_FORMAT, "stands in the namespace of line %d: move it to the top level",
                   s->opened_at[space]);
  return RP_OK;
}

static rp_status check_twice(const scanner *s, const char *name) {
  for (size_t i = 0; i + 1 < s->count; i++)
    if (strcmp(s->list[i].name, name) == 0)
      return rp_fail(RP_FORMAT,
                     "is defined twice, first in line %d: kernels are found by name, so names are unique",
                     s->list[i].line);
  return RP_OK;
}

/* The name as the preprocessor leaves it. */
static char *copy_name(const rp_place *place, rp_token name) {
  const char *value = rp_place_define(place, name);
  rp_lexer lexer = rp_lexer_of(value ? value : "");
  rp_token given = rp_lexer_next(&lexer);
  if (given.kind == RP_TOKEN_WORD && rp_lexer_next(&lexer).kind == RP_TOKEN_END) name = given;
  char *copy = rp_alloc(name.length + 1);
  if (copy) snprintf(copy, name.length + 1, "%.*s", (int)name.length, name.at);
  return copy;
}

/* Is the list whose opening parenthesis was taken that of a mere declaration? */
static bool declaration(rp_lexer lexer) {
  rp_token token;
  for (int depth = 1; depth > 0;) {
    token = rp_lexer_next(&lexer);
    if (token.kind == RP_TOKEN_END) return false;
    depth += rp_token_mark(token, '(') - rp_token_mark(token, ')');
  }
  do token = rp_lexer_next(&lexer);
  while (token.kind == RP_TOKEN_WORD);
  return rp_token_mark(token, ';');
}

/* Past the list: to the brace that opens the body. */
static rp_status open_body(scanner *s, const rp_signature *kernel) {
  rp_token token;
  do token = rp_lexer_next(&s->lexer);
  while (token.kind == RP_TOKEN_WORD);
  if (!rp_token_mark(token, '{')) return rp_fail(RP_FORMAT, "expected `{` behind the parameters");
  s->in_body = true;
  s->body_global = kernel->global;
  s->body_depth = s->depth;
  s->body_line = kernel->line;
  open_one(s, token, 'o');
  return RP_OK;
}

static rp_status read_kernel(scanner *s, const head *h, rp_signature *kernel) {
  rp_status status = check_position(s, h);
  if (status == RP_OK) status = check_twice(s, kernel->name);
  if (status != RP_OK) return fail_at(s, kernel->line, status);
  RP_TRY(rp_formals_read(&s->place, &s->lexer, &kernel->formals, &kernel->count));
  status = open_body(s, kernel);
  return status == RP_OK ? RP_OK : fail_at(s, kernel->line, status);
}

/* Behind KERNEL or __global__: a kernel, a declaration, or some other use of the word. */
static rp_status take_head(scanner *s, bool global) {
  rp_lexer lexer = s->lexer;
  head h = read_head(&lexer);
  if (!h.found || (!h.special && declaration(lexer))) return RP_OK;
  if (!rp_grow(&s->list, &s->room, s->count + 1, sizeof *s->list)) return RP_NOMEM;
  rp_signature *kernel = &s->list[s->count];
  *kernel =
      (rp_signature){.kernel = !global, .global = global, .waits = s->waits || h.waits, .line = h.name.line};
  kernel->extern_c = !global || s->extern_c || h.extern_c || open_brace(s, 'C') >= 0;
  kernel->name = copy_name(&s->place, h.name);
  if (!kernel->name) return RP_NOMEM;
  s->count++;
  s->lexer = lexer;
  s->place.kernel = kernel->name;
  RP_TRY(read_kernel(s, &h, kernel));
  begin_declaration(s);
  return RP_OK;
}

/* ---- The pass */

static rp_status take_word(scanner *s, rp_token word) {
  bool global = rp_token_is(word, "__global__");
  if (global || rp_token_is(word, "KERNEL")) return take_head(s, global);
  if (s->in_body)
    return rp_vocabulary_check(&s->place, s->body_global, s->before, word, rp_lexer_peek(&s->lexer), s->text);
  s->template_seen |= rp_token_is(word, "template");
  s->waits |= rp_token_is(word, "WAITS");
  s->namespace_seen |= rp_token_is(word, "namespace");
  return RP_OK;
}

static void take_mark(scanner *s, rp_token mark) {
  if (rp_token_mark(mark, '{')) {
    bool c = s->extern_c && s->before.kind == RP_TOKEN_STRING;
    open_one(s, mark, c ? 'C' : s->namespace_seen ? 'N' : 'o');
    begin_declaration(s);
  } else if (rp_token_mark(mark, '}')) {
    if (s->depth > 0) s->depth--;
    if (s->in_body && s->depth <= s->body_depth) s->in_body = false;
    if (!s->in_body) s->place.kernel = NULL;
    begin_declaration(s);
  } else if (rp_token_mark(mark, ';')) {
    begin_declaration(s);
  }
}

static rp_status take_token(scanner *s, rp_token token) {
  switch (token.kind) {
    case RP_TOKEN_DIRECTIVE: return take_directive(s, token);
    case RP_TOKEN_WORD: return take_word(s, token);
    case RP_TOKEN_STRING:
      s->extern_c |= rp_token_is(s->before, "extern") && rp_token_is(token, "\"C\"");
      return RP_OK;
    case RP_TOKEN_MARK: take_mark(s, token); return RP_OK;
    default: return RP_OK;
  }
}

static rp_status scan(scanner *s) {
  for (;;) {
    rp_token token = rp_lexer_next(&s->lexer);
    if (token.kind == RP_TOKEN_END) break;
    RP_TRY(take_token(s, token));
    s->before = token;
  }
  if (!s->in_body) return RP_OK;
  return fail_at(s, s->body_line, rp_fail(RP_FORMAT, "the text ends inside it: a brace is not closed"));
}

rp_status rp_signatures_scan(const char *file, const char *text, const rp_define *defines,
                             size_t define_count, rp_signature **out, size_t *count) {
  scanner s = {.place = {file, NULL, defines, define_count}, .text = text, .lexer = rp_lexer_of(text)};
  rp_status status = scan(&s);
  if (status != RP_OK) {
    rp_signatures_free(s.list, s.count);
    return status;
  }
  *out = s.list;
  *count = s.count;
  return RP_OK;
}

void rp_signatures_free(rp_signature *list, size_t count) {
  for (size_t i = 0; i < count; i++) {
    rp_formals_free(list[i].formals, list[i].count);
    rp_free(list[i].name);
  }
  rp_free(list);
}
