/* number.h - one element of a tensor, or one scalar argument, as a number of the host.
 *
 * Conversions to f16 and bf16 round to nearest even. Ranges are checked by the callers' wish: a store that would lose the
 * value (an integer outside its type, a finite number that becomes infinite) fails with a sentence.
 */
#ifndef RP_NUMBER_H
#define RP_NUMBER_H

#include "signature.h"

typedef struct rp_number { /* as Lua has them: an integer or a float */
  bool is_integer;
  int64_t integer;
  double real;
} rp_number;

/* The bytes of `number` as a value of `type`: an integer type takes an integer, or a float with an exact integer value
 * in range (u64 from 2^63 on is a float both ways); a float type takes either. "-1 is negative", "300 does not fit", "2.5 is not an integer", "1e300 is too large". */
rp_status rp_number_store(rp_type type, rp_number number, void *out);
rp_number rp_number_load(rp_type type, const void *bytes);
rp_type rp_dtype_type(rp_dtype dtype); /* RP_F32 -> RP_T_F32 */

uint16_t rp_f32_to_f16(float x);
uint16_t rp_f32_to_bf16(float x);
float rp_f16_to_f32(uint16_t bits);
float rp_bf16_to_f32(uint16_t bits);

#endif
