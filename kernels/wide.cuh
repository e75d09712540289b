/*
 * wide.cuh - packs of eight as two vectors of four, for processors without registers of 32 bytes: x86-64 before AVX, and
 * aarch64. Included by prelude.cuh, which computes with packs by the operators here.
 *
 * A compiler's own vector of eight would do, but g++ keeps it in memory there and compares it number by number.
 */
#ifndef RP_WIDE
#define RP_WIDE

template <class rp_v> struct rp_two {
  rp_v lo, hi; /* numbers 0 to 3, 4 to 7 */
  rp_two () = default;
  rp_two (rp_v low, rp_v high) : lo(low), hi(high) {}
  template <class rp_w> explicit rp_two (rp_two<rp_w> a) : lo((rp_v)a.lo), hi((rp_v)a.hi) {} /* the same bits */
};

typedef i32 rp_i32x4 __attribute__((vector_size(16)));
typedef u32 rp_u32x4 __attribute__((vector_size(16)));
typedef rp_two<rp_f32x4> float8;
typedef rp_two<rp_i32x4> rp_i32x8;
typedef rp_two<rp_u32x4> rp_u32x8;
#define at8(a, i) ((i) < 4 ? (a).lo[(i) & 3] : (a).hi[(i) & 3])

#define RP_BOTH(op) \
  template <class rp_v> INLINE rp_two<rp_v> operator op (rp_two<rp_v> a, rp_two<rp_v> b) { \
    return {a.lo op b.lo, a.hi op b.hi}; \
  } \
  template <class rp_v, class rp_s> INLINE rp_two<rp_v> operator op (rp_two<rp_v> a, rp_s s) { \
    return {a.lo op s, a.hi op s}; \
  } \
  template <class rp_v, class rp_s> INLINE rp_two<rp_v> operator op (rp_s s, rp_two<rp_v> a) { \
    return {s op a.lo, s op a.hi}; \
  }
RP_BOTH(+) RP_BOTH(-) RP_BOTH(*) RP_BOTH(/) RP_BOTH(&) RP_BOTH(|) RP_BOTH(<<) RP_BOTH(>>)
#undef RP_BOTH

#define RP_COMPARE(op) \
  template <class rp_v> INLINE rp_i32x8 operator op (rp_two<rp_v> a, rp_two<rp_v> b) { \
    return {(rp_i32x4)(a.lo op b.lo), (rp_i32x4)(a.hi op b.hi)}; \
  }
RP_COMPARE(<) RP_COMPARE(>) RP_COMPARE(!=)
#undef RP_COMPARE

template <class rp_v> INLINE rp_two<rp_v> operator ~ (rp_two<rp_v> a) { return {~a.lo, ~a.hi}; }
template <class rp_v> INLINE rp_two<rp_v> operator - (rp_two<rp_v> a) { return {-a.lo, -a.hi}; }

INLINE rp_f32x4 rp_load4 (const float *p) { rp_f32x4 v; __builtin_memcpy(&v, p, 16); return v; }
INLINE float8 load8 (const float *p) { return {rp_load4(p), rp_load4(p + 4)}; }
INLINE void store8 (float *p, float8 a) { __builtin_memcpy(p, &a.lo, 16); __builtin_memcpy(p + 4, &a.hi, 16); }
INLINE float8 splat8 (float x) { rp_f32x4 v = {x, x, x, x}; return {v, v}; }
INLINE float8 rp_of8 (float a, float b, float c, float d, float e, float f, float g, float h) {
  rp_f32x4 low = {a, b, c, d}, high = {e, f, g, h};
  return {low, high};
}
INLINE rp_u32x8 rp_all (u32 x) { rp_u32x4 v = {x, x, x, x}; return {v, v}; }
INLINE rp_i32x8 rp_whole (float8 a) { /* to integers, towards zero */
  return {__builtin_convertvector(a.lo, rp_i32x4), __builtin_convertvector(a.hi, rp_i32x4)};
}

/* Picks numbers of two vectors, counted through both: of eight and of four. */
#ifdef __clang__
#define RP_SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define RP_SHUFFLE4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define RP_SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (rp_u16x8){__VA_ARGS__})
#define RP_SHUFFLE4(a, b, ...) __builtin_shuffle(a, b, (rp_u32x4){__VA_ARGS__})
#endif

/* From 16 bits each, and back; both processors are little-endian. */
INLINE rp_u32x8 rp_tops (rp_u16x8 h) { /* the upper halves of words */
  rp_u16x8 zero = {};
  return {(rp_u32x4)RP_SHUFFLE8(zero, h, 0, 8, 1, 9, 2, 10, 3, 11), (rp_u32x4)RP_SHUFFLE8(zero, h, 4, 12, 5, 13, 6, 14, 7, 15)};
}
INLINE rp_u16x8 rp_shorts (rp_u32x8 a) {
  return RP_SHUFFLE8((rp_u16x8)a.lo, (rp_u16x8)a.hi, 0, 2, 4, 6, 8, 10, 12, 14);
}

#endif
