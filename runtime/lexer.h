/* lexer.h - C++ source text as tokens: just enough to find includes and kernel signatures.
 *
 * Comments vanish, a continued line is one line, a string (raw ones too) is one token, a preprocessor
 * directive is one token. The group under `#if 0` is skipped like a comment. Tokens point into the text,
 * nothing is allocated. A word that is broken by a line continuation is seen as two words.
 */
#ifndef RP_LEXER_H
#define RP_LEXER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum rp_token_kind {
  RP_TOKEN_END,
  RP_TOKEN_WORD,
  RP_TOKEN_NUMBER,
  RP_TOKEN_STRING,    /* with its quotes and prefix; characters too */
  RP_TOKEN_MARK,      /* one character of punctuation */
  RP_TOKEN_DIRECTIVE, /* from # to the end of the line */
} rp_token_kind;

typedef struct rp_token {
  rp_token_kind kind;
  const char *at;
  size_t length;
  int line; /* of its first character, from 1 */
} rp_token;

typedef struct rp_lexer { /* a value: a copy looks ahead */
  const char *at, *end;
  int line;
  bool fresh; /* nothing but blanks since the line began: # is a directive */
} rp_lexer;

typedef enum rp_directive {
  RP_DIRECTIVE_IF,
  RP_DIRECTIVE_ELSE,
  RP_DIRECTIVE_ENDIF,
  RP_DIRECTIVE_DEFINE,
  RP_DIRECTIVE_INCLUDE,
  RP_DIRECTIVE_OTHER
} rp_directive;

rp_lexer rp_lexer_of(const char *text);
rp_token rp_lexer_next(rp_lexer *lexer);
rp_token rp_lexer_peek(const rp_lexer *lexer);
/* What a directive is (every #if... is IF, #elif is ELSE); *rest reads what follows its name. */
rp_directive rp_token_directive(rp_token token, rp_lexer *rest);

bool rp_token_is(rp_token token, const char *text);
bool rp_token_mark(rp_token token, char mark);

#endif
