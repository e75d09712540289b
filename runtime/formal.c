/* formal.c - kernel parameters: `const T *name`, `T *name`, `T name`.
 *
 *   [EARLY] [const] type words [const] [* [const] [__restrict__]] [name]
 *
 * A word that stands in `defines` is replaced by its value, as the preprocessor will do, wherever it
 * stands. What a kernel cannot be given from Lua (references, arrays, structures, pointers to pointers) is
 * refused here.
 */
#include "formal.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"

enum { WORDS = 8, NESTING = 8 }; /* words a parameter has; defines that may name each other */

typedef struct param {       /* one parameter as it is read */
  rp_token words[WORDS];     /* type words, then the name where one stands */
  size_t count, before_star; /* before_star: how many were read when the first * came */
  int stars, line;
  bool constant, early, empty; /* constant: of what the pointer points to */
} param;

rp_status rp_place_fail(const rp_place *place, int line, rp_status status) {
  if (status == RP_NOMEM) return status;
  if (!place->kernel) return rp_fail_in(status, "%s:%d", place->file, line);
  return rp_fail_in(status, "%s:%d: kernel %s", place->file, line, place->kernel);
}

const char *rp_place_define(const rp_place *place, rp_token word) {
  for (size_t i = 0; i < place->define_count; i++)
    if (rp_token_is(word, place->defines[i].name))
      return place->defines[i].value ? place->defines[i].value : "";
  return NULL;
}

/* ---- Types */

static const struct {
  const char *spellings;
  size_t bytes;
  char kind;
} types[] = {
#define TYPE_ROW(id, spellings, bytes, kind) [id] = {spellings, bytes, kind},
    RP_TYPES(TYPE_ROW)
#undef TYPE_ROW
};

size_t rp_type_bytes(rp_type type) { return types[type].bytes; }

char rp_type_kind(rp_type type) { return types[type].kind; }

const char *rp_type_name(rp_type type) {
  static _Thread_local char names[RP_TYPE_COUNT][16]; /* spellings end with a comma, names with NUL */
  snprintf(names[type], sizeof names[type], "%.*s", (int)strcspn(types[type].spellings, ","),
           types[type].spellings);
  return names[type];
}

size_t rp_formal_bytes(const rp_formal *formal) { return formal->pointer ? 8 : rp_type_bytes(formal->type); }

bool rp_type_takes(rp_type type, rp_dtype dtype) {
  switch (type) {
    case RP_T_VOID: return true;
    case RP_T_F32: return dtype == RP_F32;
    case RP_T_F16: return dtype == RP_F16;
    case RP_T_BF16: return dtype == RP_BF16;
    case RP_T_I32:
    case RP_T_U32: return dtype == RP_I32;
    case RP_T_I64:
    case RP_T_U64: return dtype == RP_I64;
    case RP_T_I8:
    case RP_T_U8:
    case RP_T_BOOL: return dtype == RP_U8;
    default: return false;
  }
}

static bool spelled(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; *at;) {
    size_t item = strcspn(at, ",");
    if (item == length && memcmp(at, name, length) == 0) return true;
    at += item + (at[item] == ',');
  }
  return false;
}

static bool find_type(const char *name, rp_type *out) {
  for (int i = 0; i < RP_TYPE_COUNT; i++)
    if (spelled(types[i].spellings, name)) return *out = (rp_type)i, true;
  return false;
}

/* `long unsigned int` and its kin, whose words come in any order, become one spelling of RP_TYPES. false:
 * other words. */
static bool usual_spelling(const rp_token *words, size_t count, char *out, size_t room) {
  int is_unsigned = 0, is_signed = 0, chars = 0, shorts = 0, longs = 0, ints = 0;
  for (size_t i = 0; i < count; i++) {
    if (rp_token_is(words[i], "unsigned")) is_unsigned++;
    else if (rp_token_is(words[i], "signed")) is_signed++;
    else if (rp_token_is(words[i], "char")) chars++;
    else if (rp_token_is(words[i], "short")) shorts++;
    else if (rp_token_is(words[i], "long")) longs++;
    else if (rp_token_is(words[i], "int")) ints++;
    else return false;
  }
  if (is_unsigned + is_signed > 1 || chars + shorts + (longs > 0) > 1 || (chars && ints) || longs > 2 ||
      ints > 1)
    return false;
  const char *base = chars ? "char" : shorts ? "short" : longs == 2 ? "long long" : longs ? "long" : "int";
  snprintf(out, room, "%s%s", is_unsigned ? "unsigned " : is_signed && chars ? "signed " : "", base);
  return count > 0;
}

/* The type that words spell; its text, for a message, goes to `name` either way. */
static bool parse_type(const rp_token *words, size_t count, char *name, size_t room, rp_type *out) {
  if (usual_spelling(words, count, name, room)) return find_type(name, out);
  size_t used = 0;
  name[0] = 0;
  for (size_t i = 0; i < count && used < room; i++)
    used +=
        (size_t)snprintf(name + used, room - used, "%s%.*s", i ? " " : "", (int)words[i].length, words[i].at);
  return find_type(name, out);
}

/* ---- One parameter */

static bool qualifier(rp_token word) {
  static const char *const list[] = {
      "volatile", "__volatile__", "__restrict__", "__restrict", "restrict", "__grid_constant__", NULL};
  for (const char *const *p = list; *p; p++)
    if (rp_token_is(word, *p)) return true;
  return false;
}

static rp_status refuse_mark(rp_token token) {
  switch (*token.at) {
    case '&': return rp_fail(RP_FORMAT, "a reference cannot be passed: write `const T *` or a value");
    case '[': return rp_fail(RP_FORMAT, "an array cannot be passed: write `T *` or `const T *`");
    case '=': return rp_fail(RP_FORMAT, "a default argument is not used: a launch gives every argument");
    case '<': return rp_fail(RP_FORMAT, "a template type cannot be passed: write one of the plain types");
    case '.': return rp_fail(RP_FORMAT, "a variable number of arguments cannot be passed");
    case '(':
      return rp_fail(RP_FORMAT, "function pointers, macros and attributes are not understood in a parameter");
    default:
      return rp_fail(RP_FORMAT, "`%.*s` is not understood here: expected `type name`", (int)token.length,
                     token.at);
  }
}

static rp_status take_word(param *p, rp_token word) {
  if (rp_token_is(word, "const")) {
    if (p->stars == 0) p->constant = true;
  } else if (rp_token_is(word, "EARLY")) {
    p->early = true;
  } else if (!qualifier(word)) {
    if (p->count == WORDS)
      return rp_fail(RP_FORMAT, "`%.*s` is one word too many", (int)word.length, word.at);
    p->words[p->count++] = word;
  }
  return RP_OK;
}

static rp_status take_token(const rp_place *place, param *p, rp_token token, int nesting);

static rp_status take_define(const rp_place *place, param *p, rp_token word, const char *value, int nesting) {
  if (nesting == NESTING) return rp_fail(RP_FORMAT, "define %.*s names itself", (int)word.length, word.at);
  rp_lexer lexer = rp_lexer_of(value);
  for (rp_token token = rp_lexer_next(&lexer); token.kind != RP_TOKEN_END; token = rp_lexer_next(&lexer))
    RP_TRY(take_token(place, p, token, nesting + 1));
  return RP_OK;
}

static rp_status take_token(const rp_place *place, param *p, rp_token token, int nesting) {
  p->empty = false;
  if (token.kind == RP_TOKEN_WORD) {
    const char *value = rp_place_define(place, token);
    bool itself = value && rp_token_is(token, value); /* `#define float float` is legal and means nothing */
    return value && !itself ? take_define(place, p, token, value, nesting) : take_word(p, token);
  }
  if (token.kind == RP_TOKEN_DIRECTIVE)
    return rp_fail(RP_FORMAT,
                   "a preprocessor directive inside the parameter list: signatures cannot depend on it");
  bool of_std = rp_token_mark(token, ':') && p->count && rp_token_is(p->words[p->count - 1], "std");
  if (of_std) p->count--; /* std::size_t is size_t */
  else if (rp_token_mark(token, '*')) {
    if (p->stars++ == 0) p->before_star = p->count;
  } else if (!rp_token_mark(token, ':') || p->count) {
    return refuse_mark(token);
  }
  return RP_OK;
}

static rp_status refuse_type(const char *name, bool pointer) {
  char known[256];
  size_t used = 0;
  for (int i = 0; i < RP_T_VOID; i++)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s, ", rp_type_name((rp_type)i));
  return rp_fail(RP_FORMAT, "unknown type `%s`%s: known are %s%stheir C names, and names given in define",
                 name, pointer ? "" : " (a structure cannot be passed by value)", known,
                 pointer ? "void, " : "");
}

/* Splits words into type and name; a scalar's last word is its name unless all of them spell a type. */
static rp_status find_parts(param *p, size_t index, rp_formal *out) {
  char text[128];
  size_t in_type = p->stars ? p->before_star : p->count;
  bool known = parse_type(p->words, in_type, text, sizeof text, &out->type);
  if (!p->stars && !known && p->count > 1)
    known = parse_type(p->words, --in_type, text, sizeof text, &out->type);
  if (in_type == 0) return rp_fail(RP_FORMAT, "no type: expected `type name`");
  if (!known) return refuse_type(text, p->stars > 0);
  if (p->count > in_type + 1)
    return rp_fail(RP_FORMAT, "`%.*s` is one word too many", (int)p->words[in_type + 1].length,
                   p->words[in_type + 1].at);
  if (out->type == RP_T_VOID && !p->stars) return rp_fail(RP_FORMAT, "void is no value: write `void *`");
  if (p->count == in_type) snprintf(text, sizeof text, "p%zu", index + 1);
  else snprintf(text, sizeof text, "%.*s", (int)p->words[in_type].length, p->words[in_type].at);
  out->name = rp_copy_text(text);
  return out->name ? RP_OK : RP_NOMEM;
}

static rp_status finish(param *p, size_t index, rp_formal *out) {
  if (p->stars > 1)
    return rp_fail(RP_FORMAT, "a pointer to a pointer cannot be passed: pass the tensors one by one");
  if (p->early && !p->stars)
    return rp_fail(RP_FORMAT,
                   "EARLY stands only before a pointer: it says what may be read before wait_previous()");
  *out = (rp_formal){.pointer = p->stars > 0, .constant = p->stars && p->constant, .early = p->early};
  return find_parts(p, index, out);
}

static rp_status fail_at(const rp_place *place, const param *p, size_t index, rp_status status) {
  if (status == RP_FORMAT) rp_fail_in(status, "parameter %zu", index + 1);
  return rp_place_fail(place, p->line, status);
}

/* ---- The list */

/* Reads one parameter and the comma or parenthesis after it. *last: it was the parenthesis. */
static rp_status read_param(const rp_place *place, rp_lexer *lexer, param *p, bool *last) {
  *p = (param){.line = rp_lexer_peek(lexer).line, .empty = true};
  for (;;) {
    rp_token token = rp_lexer_next(lexer);
    *last = rp_token_mark(token, ')');
    if (*last || rp_token_mark(token, ',')) return RP_OK;
    if (token.kind == RP_TOKEN_END || rp_token_mark(token, '{') || rp_token_mark(token, ';'))
      return rp_fail(RP_FORMAT, "the parameter list does not end");
    RP_TRY(take_token(place, p, token, 0));
  }
}

static bool only_void(const param *p) {
  return p->count == 1 && !p->stars && rp_token_is(p->words[0], "void");
}

/* Takes the next parameter into *list. *last: the list ended. */
static rp_status append(const rp_place *place, rp_lexer *lexer, rp_formal **list, size_t *count, size_t *room,
                        bool *last) {
  param p;
  rp_status status = read_param(place, lexer, &p, last);
  bool none = status == RP_OK && *last && *count == 0 && (p.empty || only_void(&p));
  if (none) return RP_OK;
  if (status == RP_OK && !rp_grow(list, room, *count + 1, sizeof **list)) return RP_NOMEM;
  if (status == RP_OK) status = finish(&p, *count, *list + *count);
  if (status != RP_OK) return fail_at(place, &p, *count, status);
  ++*count;
  return RP_OK;
}

rp_status rp_formals_read(const rp_place *place, rp_lexer *lexer, rp_formal **out, size_t *count) {
  rp_formal *list = NULL;
  size_t n = 0, room = 0;
  rp_status status = RP_OK;
  for (bool last = false; status == RP_OK && !last;) status = append(place, lexer, &list, &n, &room, &last);
  if (status != RP_OK) {
    rp_formals_free(list, n);
    return status;
  }
  *out = list;
  *count = n;
  return RP_OK;
}

void rp_formals_free(rp_formal *list, size_t count) {
  for (size_t i = 0; i < count; i++) rp_free(list[i].name);
  rp_free(list);
}
