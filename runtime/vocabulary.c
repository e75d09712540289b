/* vocabulary.c - the two languages a kernel may be written in, and the remedy when one speaks both.
 *
 * KERNEL knows the names of prelude.cuh, which mean one thread a block on the CPU; __global__ knows
 * CUDA's. A prelude name that the source gives a meaning of its own (#define THREADS 256, template <int
 * BLOCK>) is the user's.
 */
#include <string.h>

#include "formal.h"

typedef struct entry {
  const char *name, *remedy;
} entry;

static const entry cuda_names[] = {
    /* those with underscores are only beginnings; what KERNEL has instead */
    {"threadIdx", "write THREAD (or WARP and LANE)"},
    {"blockIdx", "write BLOCK"},
    {"blockDim", "write THREADS (or WARPS)"},
    {"gridDim", "write BLOCKS"},
    {"warpSize", "write LANES"},
    {"__shared__", "write SHARED(T, name, n) or DYNAMIC(T, name)"},
    {"__syncthreads", "write barrier()"},
    {"__syncwarp", "write barrier()"},
    {"__shfl", "write warp_sum() or another function of prelude.cuh"},
    {"__reduce_", "write warp_sum() or another function of prelude.cuh"},
    {"__ballot", "use the functions of prelude.cuh"},
    {"__any_sync", "use the functions of prelude.cuh"},
    {"__all_sync", "use the functions of prelude.cuh"},
    {"__match_", "use the functions of prelude.cuh"},
    {"__activemask", "use the functions of prelude.cuh"},
};

static const entry prelude_names[] = {
    /* what __global__ has instead */
    {"BLOCK", "write blockIdx.x"},
    {"BLOCKS", "write gridDim.x"},
    {"THREAD", "write threadIdx.x"},
    {"THREADS", "write blockDim.x"},
    {"WARP", "write threadIdx.x / 32"},
    {"WARPS", "write blockDim.x / 32"},
    {"LANE", "write threadIdx.x % 32"},
    {"LANES", "write warpSize"},
    {"SHARED", "write __shared__"},
    {"DYNAMIC", "write extern __shared__"},
    {"barrier", "write __syncthreads()"},
    {"warp_sum", "write __shfl_down_sync in a loop"},
    {"block_sum", "write the sum with __shared__ and __syncthreads()"},
};

static const char *cuda_remedy(rp_token word) {
  for (size_t i = 0; i < sizeof cuda_names / sizeof *cuda_names; i++) {
    const char *name = cuda_names[i].name;
    size_t length = strlen(name);
    bool fits = *name == '_' ? word.length >= length : word.length == length;
    if (fits && memcmp(word.at, name, length) == 0) return cuda_names[i].remedy;
  }
  return NULL;
}

/* A name that is called in the prelude is only that where it is called. */
static const char *prelude_remedy(rp_token word, rp_token after) {
  bool lower = *word.at >= 'a' && *word.at <= 'z', called = rp_token_mark(after, '(');
  if (lower && !called) return NULL;
  for (size_t i = 0; i < sizeof prelude_names / sizeof *prelude_names; i++)
    if (rp_token_is(word, prelude_names[i].name)) return prelude_names[i].remedy;
  return NULL;
}

/* `int BLOCK`, `float warp_sum(`, `BLOCK =`: a declaration, given the neighbours. */
static bool declares(rp_token before, rp_token after, const rp_lexer *rest) {
  static const char *const statements[] = {"return", "else",   "do",  "case", "goto",
                                           "throw",  "sizeof", "and", "or",   "not"};
  rp_lexer ahead = *rest; /* stands behind `after` */
  if (rp_token_mark(after, '=')) return !rp_token_mark(rp_lexer_next(&ahead), '=');
  if (before.kind != RP_TOKEN_WORD) return false;
  for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
    if (rp_token_is(before, statements[i])) return false;
  return true;
}

static bool defines(rp_token directive, rp_token name) {
  rp_lexer rest;
  if (rp_token_directive(directive, &rest) != RP_DIRECTIVE_DEFINE) return false;
  rp_token defined = rp_lexer_next(&rest);
  return defined.length == name.length && memcmp(defined.at, name.at, name.length) == 0;
}

/* Does the source itself give the name a meaning? */
static bool users(const char *text, rp_token name) {
  rp_lexer lexer = rp_lexer_of(text);
  rp_token before = {.kind = RP_TOKEN_END}, word = rp_lexer_next(&lexer);
  while (word.kind != RP_TOKEN_END) {
    rp_token after = rp_lexer_next(&lexer);
    bool same = word.length == name.length && memcmp(word.at, name.at, name.length) == 0;
    if (word.kind == RP_TOKEN_DIRECTIVE && defines(word, name)) return true;
    if (word.kind == RP_TOKEN_WORD && same && declares(before, after, &lexer)) return true;
    before = word;
    word = after;
  }
  return false;
}

rp_status rp_vocabulary_check(const rp_place *place, bool global, rp_token before, rp_token word,
                              rp_token after, const char *text) {
  bool member = rp_token_mark(before, '.') || rp_token_mark(before, '>') || rp_token_mark(before, ':');
  const char *remedy = member ? NULL : global ? prelude_remedy(word, after) : cuda_remedy(word);
  if (!remedy || (global && (rp_place_define(place, word) || users(text, word)))) return RP_OK;
  rp_status status = rp_fail(RP_FORMAT, "uses %.*s, %s name, but is declared %s: %s, or declare it %s",
                             (int)word.length, word.at, global ? "prelude.cuh's" : "CUDA's",
                             global ? "__global__" : "KERNEL", remedy, global ? "KERNEL" : "__global__");
  return rp_place_fail(place, word.line, status);
}
