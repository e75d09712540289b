/* formal.h - the parameter list of one kernel, and the sentences that refuse it. Between signature.c and
 * formal.c. */
#ifndef RP_FORMAL_H
#define RP_FORMAL_H

#include "lexer.h"
#include "signature.h"

typedef struct rp_place { /* what a message needs, and what words mean */
  const char *file;
  const char *kernel; /* NULL until its name is known */
  const rp_define *defines;
  size_t define_count;
} rp_place;

/* Puts "FILE:LINE: kernel NAME: " before the stored sentence. */
rp_status rp_place_fail(const rp_place *place, int line, rp_status status);
/* The value given for a word in `defines`; NULL: none. */
const char *rp_place_define(const rp_place *place, rp_token word);

/* Reads the list behind an opening parenthesis and takes the closing one. Of a failure nothing stays in
 * *out. */
rp_status rp_formals_read(const rp_place *place, rp_lexer *lexer, rp_formal **out, size_t *count);
void rp_formals_free(rp_formal *list, size_t count);

/* Is a word in the body of a kernel from the other kind's vocabulary? RP_FORMAT with the remedy, or RP_OK.
 * before, after: its neighbours; text: the whole source, which may give the name a meaning of its own. */
rp_status rp_vocabulary_check(const rp_place *place, bool global, rp_token before, rp_token word,
                              rp_token after, const char *text);

#endif
