/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: reduces elements of several ranks, for each dtype. The loops in reduce_type.h are
 * compiled for each dtype, once for any processor and once for AVX2. Small float types are computed
 * as f32 in blocks that stay in the cache. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif
#include "reduce.h"

enum { BLOCK = 512 };

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX2
#endif

union word {
    float f;
    uint32_t u;
};

INLINE float f16_load(uint16_t h)
{
    union word w = {.u = (uint32_t)(h & 0x7fff) << 13};
    uint32_t special = (h & 0x7c00) == 0x7c00 ? UINT32_C(0x7f800000) : 0;

    w.f *= 0x1p112f;
    w.u |= special | (uint32_t)(h & 0x8000) << 16;
    return w.f;
}

/* Rounds to nearest, ties to even: below the smallest normal number by a float addition, above it
 * by integer arithmetic. */
INLINE uint16_t f16_store(float f)
{
    union word w = {.f = f}, tiny;
    uint32_t sign = w.u & UINT32_C(0x80000000), normal, special;

    w.u ^= sign;
    tiny.f = w.f + 0.5f;
    tiny.u -= UINT32_C(0x3f000000);
    normal = (w.u + UINT32_C(0xc8000fff) + (w.u >> 13 & 1)) >> 13;
    special = w.u > UINT32_C(0x7f800000) ? 0x7e00 : 0x7c00;
    normal = w.u < UINT32_C(113) << 23 ? tiny.u : normal;
    return (uint16_t)((w.u >= UINT32_C(143) << 23 ? special : normal) | sign >> 16);
}

INLINE float bf16_load(uint16_t h)
{
    union word w = {.u = (uint32_t)h << 16};

    return w.f;
}

INLINE uint16_t bf16_store(float f)
{
    union word w = {.f = f};
    uint32_t rounded = (w.u + 0x7fff + (w.u >> 16 & 1)) >> 16;
    uint32_t nan = w.u >> 16 | 0x40;

    return (uint16_t)((w.u & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? nan : rounded);
}

/* The OCP formats: e5m2 is the upper half of an f16. */
INLINE float e5m2_load(uint8_t b)
{
    return f16_load((uint16_t)(b << 8));
}

/* Rounds once: a tie between two e5m2 numbers is decided by all bits of the f32. */
INLINE uint8_t e5m2_store(float f)
{
    union word w = {.f = f}, tiny;
    uint32_t sign = w.u & UINT32_C(0x80000000), normal;

    w.u ^= sign;
    if (w.u > UINT32_C(0x7f800000)) return (uint8_t)(0x7e | sign >> 24);
    if (w.u < UINT32_C(113) << 23) {
        tiny.f = w.f + 128.0f; /* its last bit is worth the smallest e5m2 number, 2^-16 */
        return (uint8_t)((tiny.u - UINT32_C(0x43000000)) | sign >> 24);
    }
    normal = (w.u + UINT32_C(0xc80fffff) + (w.u >> 21 & 1)) >> 21;
    return (uint8_t)((normal > 0x7c ? 0x7c : normal) | sign >> 24);
}

INLINE float e4m3_load(uint8_t b)
{
    union word w = {.u = (uint32_t)(b & 0x7f) << 20};
    uint32_t nan = (b & 0x7f) == 0x7f ? UINT32_C(0x7fc00000) : 0;

    w.f *= 0x1p120f;
    w.u |= nan | (uint32_t)(b & 0x80) << 24;
    return w.f;
}

/* The format has no infinity: values that are too large become NaN. */
INLINE uint8_t e4m3_store(float f)
{
    union word w = {.f = f}, tiny;
    uint32_t sign = w.u & UINT32_C(0x80000000), normal;

    w.u ^= sign;
    if (w.u < UINT32_C(121) << 23) {
        tiny.f = w.f + 16384.0f; /* its last bit is worth the smallest e4m3 number, 2^-9 */
        return (uint8_t)((tiny.u - UINT32_C(0x46800000)) | sign >> 24);
    }
    if (w.u > UINT32_C(0x43e80000)) return (uint8_t)(0x7f | sign >> 24); /* above 464, NaN */
    normal = (w.u + UINT32_C(0xc407ffff) + (w.u >> 20 & 1)) >> 20;
    return (uint8_t)(normal | sign >> 24);
}

/* The fnuz formats have one NaN, 0x80, no infinity and no negative zero. scale: 2 to the power of
 * 127 - bias. */
INLINE float fnuz_load(uint8_t b, int fraction_bits, float scale)
{
    union word w = {.u = (uint32_t)(b & 0x7f) << (23 - fraction_bits)};

    w.f *= scale;
    w.u |= (uint32_t)(b & 0x80) << 24;
    if (b == 0x80) w.u = UINT32_C(0x7fc00000);
    return w.f;
}

/* Values that are too large become NaN. Below the smallest normal number, the last bit of the sum
 * with `one` is worth the smallest number of the format. */
INLINE uint8_t fnuz_store(float f, uint32_t fraction_bits, uint32_t bias)
{
    const uint32_t shift = 23 - fraction_bits, least = (128 - bias) << 23;
    const union word one = {.u = (151 - bias - fraction_bits) << 23};
    union word w = {.f = f}, tiny;
    uint32_t sign = w.u & UINT32_C(0x80000000), b;

    w.u ^= sign;
    tiny.f = w.f + one.f;
    b = w.u - ((127 - bias) << 23) + (UINT32_C(1) << (shift - 1)) - 1 + (w.u >> shift & 1);
    b = w.u < least ? tiny.u - one.u : b >> shift;
    if (w.u >= UINT32_C(0x7f800000) || b > 0x7f) return 0x80;
    return (uint8_t)(b ? b | sign >> 24 : 0);
}

INLINE float e4m3fnuz_load(uint8_t b)
{
    return fnuz_load(b, 3, 0x1p119f);
}

INLINE uint8_t e4m3fnuz_store(float f)
{
    return fnuz_store(f, 3, 8);
}

INLINE float e5m2fnuz_load(uint8_t b)
{
    return fnuz_load(b, 2, 0x1p111f);
}

INLINE uint8_t e5m2fnuz_store(float f)
{
    return fnuz_store(f, 2, 16);
}

/* e8m0 is the exponent of an f32; the smallest number is a subnormal f32. */
INLINE float e8m0_load(uint8_t b)
{
    union word w = {.u = b ? (uint32_t)b << 23 : UINT32_C(0x400000)};

    if (b == 0xff) w.u = UINT32_C(0x7fc00000);
    return w.f;
}

/* To the nearest power of two, the middle of two to the larger one. No number is negative; one that
 * is too large becomes NaN. */
INLINE uint8_t e8m0_store(float f)
{
    union word w = {.f = f};

    if (w.u > UINT32_C(0x7f800000)) return 0xff;
    if (w.u < UINT32_C(0x800000)) return w.u >= UINT32_C(0x600000);
    return (uint8_t)((w.u >> 23) + (w.u >> 22 & 1));
}

INLINE uint8_t truth_load(uint8_t b)
{
    return b != 0;
}

#define SAME(x) (x)

#define TYPE f32
#define ELEMENT float
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE f64
#define ELEMENT double
#define NUMBER double
#define WIDE double
#define DIVISOR double
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE i8
#define ELEMENT int8_t
#define NUMBER int8_t
#define WIDE uint32_t
#define DIVISOR int64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE i16
#define ELEMENT int16_t
#define NUMBER int16_t
#define WIDE uint32_t
#define DIVISOR int64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE i32
#define ELEMENT int32_t
#define NUMBER int32_t
#define WIDE uint32_t
#define DIVISOR int64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE i64
#define ELEMENT int64_t
#define NUMBER int64_t
#define WIDE uint64_t
#define DIVISOR int64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE u8
#define ELEMENT uint8_t
#define NUMBER uint8_t
#define WIDE uint32_t
#define DIVISOR uint64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE u16
#define ELEMENT uint16_t
#define NUMBER uint16_t
#define WIDE uint32_t
#define DIVISOR uint64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE u32
#define ELEMENT uint32_t
#define NUMBER uint32_t
#define WIDE uint32_t
#define DIVISOR uint64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE u64
#define ELEMENT uint64_t
#define NUMBER uint64_t
#define WIDE uint64_t
#define DIVISOR uint64_t
#define LOAD SAME
#define STORE SAME
#define IN_PLACE
#define IS_NAN(x) false
#include "reduce_type.h"

#define TYPE f16
#define ELEMENT uint16_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD f16_load
#define STORE f16_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE bf16
#define ELEMENT uint16_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD bf16_load
#define STORE bf16_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE f8e4m3
#define ELEMENT uint8_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD e4m3_load
#define STORE e4m3_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE f8e5m2
#define ELEMENT uint8_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD e5m2_load
#define STORE e5m2_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE f8e8m0
#define ELEMENT uint8_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD e8m0_load
#define STORE e8m0_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE f8e4m3fnuz
#define ELEMENT uint8_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD e4m3fnuz_load
#define STORE e4m3fnuz_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE f8e5m2fnuz
#define ELEMENT uint8_t
#define NUMBER float
#define WIDE float
#define DIVISOR float
#define LOAD e5m2fnuz_load
#define STORE e5m2fnuz_store
#define IS_NAN(x) ((x) != (x))
#include "reduce_type.h"

#define TYPE truth
#define ELEMENT uint8_t
#define NUMBER uint8_t
#define WIDE uint32_t
#define DIVISOR uint32_t
#define LOAD truth_load
#define STORE SAME
#define IS_NAN(x) false
#include "reduce_type.h"

typedef void reduce_function(uint32_t reduction, void *dst, const void *const *src, uint32_t n_src,
                             uint64_t count, uint32_t ranks);

static const struct {
    reduce_function *any, *avx2;
} table[] = {
    [BP_BOOL] = {truth_any, truth_avx2},       [BP_I8] = {i8_any, i8_avx2},
    [BP_I16] = {i16_any, i16_avx2},            [BP_I32] = {i32_any, i32_avx2},
    [BP_I64] = {i64_any, i64_avx2},            [BP_U8] = {u8_any, u8_avx2},
    [BP_U16] = {u16_any, u16_avx2},            [BP_U32] = {u32_any, u32_avx2},
    [BP_U64] = {u64_any, u64_avx2},            [BP_F16] = {f16_any, f16_avx2},
    [BP_BF16] = {bf16_any, bf16_avx2},         [BP_F32] = {f32_any, f32_avx2},
    [BP_F64] = {f64_any, f64_avx2},            [BP_C64] = {f32_any, f32_avx2},
    [BP_C128] = {f64_any, f64_avx2},           [BP_F8E4M3] = {f8e4m3_any, f8e4m3_avx2},
    [BP_F8E5M2] = {f8e5m2_any, f8e5m2_avx2},   [BP_F8E8M0] = {f8e8m0_any, f8e8m0_avx2},
    [BP_F8E4M3FNUZ] = {f8e4m3fnuz_any, f8e4m3fnuz_avx2},
    [BP_F8E5M2FNUZ] = {f8e5m2fnuz_any, f8e5m2fnuz_avx2},
};

/* Products of complex numbers. Sums need no complex code: they are sums of twice as many reals. */
static void product_c64(float *dst, const void *const *src, uint32_t n_src, uint64_t count)
{
    for (uint64_t i = 0; i < 2 * count; i += 2) {
        float re = ((const float *)src[0])[i], im = ((const float *)src[0])[i + 1];
        for (uint32_t j = 1; j < n_src; j++) {
            const float *b = (const float *)src[j] + i;
            float next = re * b[0] - im * b[1];
            im = re * b[1] + im * b[0];
            re = next;
        }
        dst[i] = re;
        dst[i + 1] = im;
    }
}

static void product_c128(double *dst, const void *const *src, uint32_t n_src, uint64_t count)
{
    for (uint64_t i = 0; i < 2 * count; i += 2) {
        double re = ((const double *)src[0])[i], im = ((const double *)src[0])[i + 1];
        for (uint32_t j = 1; j < n_src; j++) {
            const double *b = (const double *)src[j] + i;
            double next = re * b[0] - im * b[1];
            im = re * b[1] + im * b[0];
            re = next;
        }
        dst[i] = re;
        dst[i + 1] = im;
    }
}

static bool has_avx2(void)
{
#ifdef WITH_AVX2
    return __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

bool bp_ccl_reduces(uint32_t dtype, uint32_t reduction)
{
    bool complex = dtype == BP_C64 || dtype == BP_C128;

    if (dtype >= sizeof table / sizeof *table || reduction >= BP_REDUCTION_COUNT ||
        !table[dtype].any)
        return false;
    if (dtype == BP_BOOL) return reduction != BP_REDUCE_AVERAGE;
    return !complex || (reduction != BP_REDUCE_MIN && reduction != BP_REDUCE_MAX);
}

void bp_ccl_reduce_of(uint32_t dtype, uint32_t reduction, void *dst, const void *const *src,
                      uint32_t n_src, uint64_t count, uint32_t ranks)
{
    bool complex = dtype == BP_C64 || dtype == BP_C128;

    if (complex && reduction == BP_REDUCE_PRODUCT) {
        if (dtype == BP_C64) product_c64(dst, src, n_src, count);
        else product_c128(dst, src, n_src, count);
        return;
    }
    if (complex) count *= 2;
    if (dtype == BP_BOOL && reduction == BP_REDUCE_SUM) reduction = BP_REDUCE_MAX;
    if (dtype == BP_BOOL && reduction == BP_REDUCE_PRODUCT) reduction = BP_REDUCE_MIN;
    (has_avx2() ? table[dtype].avx2 : table[dtype].any)(reduction, dst, src, n_src, count,
                                                            ranks);
}
