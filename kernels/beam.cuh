/*
 * beam.cuh - the state of a beam search on the device, shared by beam.cu and candidates.cu. Rows are source-major.
 *
 *   control [12] i32           where the search is and what was asked for: the enumeration below
 *   scores  [sources][2][beams] f32   of the running beams, of the finished hypotheses, best first
 *   lists   [sources][5][beams] i32   a list each, as enumerated below
 *   open    [sources] i32      may the source still improve?
 *   token   [rows] i32         what the next step reads
 *   tokens  [rows][room] i32   what was read from a row at each position; never moved
 *   parents [rows][room] u8    the beam that came before, in the same source; never moved
 *   origin  [rows][room] u8    the beam in whose row position p of a row lies; rows change places when beams do
 *   factor  [room + 2] f32     the repetition penalty, then n^length_penalty for n from 1
 *   ends    [any] i32          end ids, control[END_COUNT] of them
 */
#ifndef RP_BEAM
#define RP_BEAM

#include "top.cuh"

enum {
  POSITION,  /* of the token that is read next; caches hold as many */
  DONE,      /* no source is open: nothing changes any more */
  EPOCH,     /* of the signal's run */
  PROMPT,    /* tokens before the first that is searched, start token included; from 1 */
  LONGEST,   /* most tokens, prompt included */
  SHORTEST,  /* no end id before so many, prompt included */
  NGRAM,     /* length of n-grams that may not repeat; 0: any may */
  STOP_EARLY, /* early_stopping: 1 true, else 0 */
  HORIZON,   /* early_stopping "never" with length_penalty > 0: LONGEST - PROMPT, else 0 */
  END_COUNT,
  ARRIVED    /* 0 between launches */
};

enum { REAL, FINISHED, AT, BEAM, TOKEN, LISTS }; /* running: real; finished: bits 1 finished 2 real, then its last step */

/* tokens that were read before a row's present one: position p lies with beam origin[p] of the source */
struct row_of { const i32 *tokens; const u8 *origin; i32 room; };

INLINE row_of row_at (const i32 *tokens, const u8 *origin, i32 source, i32 row, i32 beams, i32 room) {
  row_of r = {tokens + (size_t)(source * beams) * (size_t)room, origin + (size_t)row * (size_t)room, room};
  return r;
}
INLINE i32 token_at (const row_of &r, i32 at) { return r.tokens[(size_t)r.origin[at] * (size_t)r.room + (size_t)at]; }

INLINE i32 running_score (i32 row, i32 beams) { return row / beams * 2 * beams + row % beams; }

INLINE float penalized (float s, float penalty) { return s < 0 ? s * penalty : s / penalty; }

#endif
