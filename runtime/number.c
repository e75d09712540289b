/* number.c - see number.h. Layouts: IEEE 754 binary16; bfloat16 is the upper half of binary32. */
#include "number.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Drops `drop` low bits of u, rounding to nearest even. */
static uint32_t round_off(uint32_t u, unsigned drop) {
  uint32_t half = 1u << (drop - 1), odd = u >> drop & 1;
  return (u + half - 1 + odd) >> drop;
}

uint16_t rp_f32_to_f16(float x) {
  uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, m = u & 0x7fffffff;
  if (m > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (m >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and more */
  if (m >= 0x38800000)
    return (uint16_t)(sign | round_off(m - 0x38000000, 13)); /* normal; may round up to infinity */
  unsigned shift = 126 - (m >> 23);                          /* subnormal: the fraction in units of 2^-24 */
  return shift > 24 ? (uint16_t)sign : (uint16_t)(sign | round_off((m & 0x7fffff) | 0x800000, shift));
}

uint16_t rp_f32_to_bf16(float x) {
  uint32_t u = bits_of(x);
  if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)round_off(u, 16);
}

float rp_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = h & 0x7fff;
  if (m >= 0x7c00) return float_of(sign | 0x7f800000 | (m & 0x3ff) << 13);
  if (m >= 0x400) return float_of(sign | ((m << 13) + 0x38000000));
  return float_of(sign | bits_of((float)m * 0x1p-24f));
}

float rp_bf16_to_f32(uint16_t bits) { return float_of((uint32_t)bits << 16); }

rp_type rp_dtype_type(rp_dtype dtype) {
  static const rp_type types[] = {[RP_F32] = RP_T_F32, [RP_F16] = RP_T_F16, [RP_BF16] = RP_T_BF16,
                                  [RP_I32] = RP_T_I32, [RP_I64] = RP_T_I64, [RP_U8] = RP_T_U8};
  return types[dtype];
}

/* ---- integers */

static rp_status as_integer(rp_number number, int64_t *out) {
  if (number.is_integer) return *out = number.integer, RP_OK;
  if (!(number.real >= -0x1p63 && number.real < 0x1p63) || floor(number.real) != number.real)
    return rp_fail(RP_ARGUMENT, "%.14g is not an integer", number.real);
  return *out = (int64_t)number.real, RP_OK;
}

/* From 2^63 on only a float of the host can say it; every one below 2^64 is an integer. */
static bool is_upper_half(rp_type type, rp_number number) {
  return type == RP_T_U64 && !number.is_integer && number.real >= 0x1p63 && number.real < 0x1p64;
}

static rp_status check_range(int64_t value, size_t bytes, bool is_signed) {
  int64_t most = bytes == 8 ? INT64_MAX : (INT64_C(1) << (8 * bytes - is_signed)) - 1,
          least = is_signed ? -most - 1 : 0;
  if (!is_signed && value < 0) return rp_fail(RP_ARGUMENT, "%lld is negative", (long long)value);
  if (value < least || value > most)
    return rp_fail(RP_ARGUMENT, "%lld does not fit into %zu bits", (long long)value, 8 * bytes);
  return RP_OK;
}

static rp_status store_integer(rp_type type, rp_number number, void *out) {
  int64_t value = 0;
  size_t bytes = rp_type_bytes(type);
  if (is_upper_half(type, number)) return memcpy(out, &(uint64_t){(uint64_t)number.real}, bytes), RP_OK;
  RP_TRY(as_integer(number, &value));
  if (type == RP_T_BOOL && value & ~INT64_C(1))
    return rp_fail(RP_ARGUMENT, "%lld is not 0 or 1", (long long)value);
  RP_TRY(check_range(value, bytes, rp_type_kind(type) == 'i'));
  memcpy(out, &value, bytes); /* little-endian */
  return RP_OK;
}

/* ---- floats */

static rp_status too_large(double value) { return rp_fail(RP_ARGUMENT, "%.14g is too large", value); }

static rp_status store_half(double value, uint16_t bits, float back, void *out) {
  if (isfinite(value) && isinf(back)) return too_large(value);
  memcpy(out, &bits, sizeof bits);
  return RP_OK;
}

static rp_status store_float(rp_type type, rp_number number, void *out) {
  double value = number.is_integer ? (double)number.integer : number.real;
  float narrow = (float)value;
  if (type == RP_T_F64) return memcpy(out, &value, sizeof value), RP_OK;
  if (isfinite(value) && isinf(narrow)) return too_large(value);
  if (type == RP_T_F16)
    return store_half(value, rp_f32_to_f16(narrow), rp_f16_to_f32(rp_f32_to_f16(narrow)), out);
  if (type == RP_T_BF16)
    return store_half(value, rp_f32_to_bf16(narrow), rp_bf16_to_f32(rp_f32_to_bf16(narrow)), out);
  return memcpy(out, &narrow, sizeof narrow), RP_OK;
}

rp_status rp_number_store(rp_type type, rp_number number, void *out) {
  return rp_type_kind(type) == 'f' ? store_float(type, number, out) : store_integer(type, number, out);
}

static rp_number real(double value) { return (rp_number){.real = value}; }

static rp_number load_float(rp_type type, const void *bytes) {
  uint16_t half;
  float single;
  double full;
  memcpy(&half, bytes, sizeof half);
  if (type == RP_T_F16) return real(rp_f16_to_f32(half));
  if (type == RP_T_BF16) return real(rp_bf16_to_f32(half));
  if (type == RP_T_F32) return memcpy(&single, bytes, sizeof single), real(single);
  return memcpy(&full, bytes, sizeof full), real(full);
}

rp_number rp_number_load(rp_type type, const void *bytes) {
  if (rp_type_kind(type) == 'f') return load_float(type, bytes);
  uint64_t raw = 0;
  size_t size = rp_type_bytes(type);
  memcpy(&raw, bytes, size);
  if (type == RP_T_U64 && raw > INT64_MAX) return real((double)raw);
  unsigned unused = (unsigned)(64 - 8 * size);
  int64_t value = rp_type_kind(type) == 'i' ? (int64_t)(raw << unused) >> unused : (int64_t)raw;
  return (rp_number){.is_integer = true, .integer = value};
}
