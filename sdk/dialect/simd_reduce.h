/* SPDX-License-Identifier: Apache-2.0 */
/* simd_reduce.h: computes the sum and the maximum of the ACROSS lanes of a vector, on a host, by
 * halves: the tree has the same shape at every instruction set level. The shuffles are written out,
 * because compilers translate a loop either to a chain of scalar operations, or to stores and loads
 * that wait for each other; for short rows this would be most of the time. */
#ifndef BP_DIALECT_ACROSS_H
#define BP_DIALECT_ACROSS_H

#include "elem.h"

enum { ACROSS = VECTOR / (int)sizeof(acc) };

#if defined(__SSE2__) && defined(ELEM_FLOAT)
#include <emmintrin.h>

/* immintrin.h takes a fifth of a second to compile, and is not included: of its functions two are
 * used here, by the names that compilers give their builtins. */
#ifdef __AVX2__
typedef acc across_wide __attribute__((vector_size(32)));
typedef acc across_there __attribute__((vector_size(32), aligned(sizeof(acc)), may_alias));
#ifdef ELEM_f64
#define ACROSS_LARGER __builtin_ia32_maxpd256
#define ACROSS_HALF __builtin_ia32_vextractf128_pd256
#else
#define ACROSS_LARGER __builtin_ia32_maxps256
#define ACROSS_HALF __builtin_ia32_vextractf128_ps256
#endif

static inline across_wide across_load(const acc *lane)
{
    return *(const across_there *)lane;
}
#endif

#ifdef ELEM_f64
static inline acc across_16_bytes(__m128d v, int largest)
{
    __m128d w = _mm_unpackhi_pd(v, v);

    return _mm_cvtsd_f64(largest ? _mm_max_sd(v, w) : _mm_add_sd(v, w));
}

#ifdef __AVX2__
static inline acc across_32_bytes(across_wide v, int largest)
{
    __m128d a = ACROSS_HALF(v, 0), b = ACROSS_HALF(v, 1);

    return across_16_bytes(largest ? _mm_max_pd(a, b) : _mm_add_pd(a, b), largest);
}
#endif
#else
static inline acc across_16_bytes(__m128 v, int largest)
{
    __m128 w = _mm_movehl_ps(v, v);

    v = largest ? _mm_max_ps(v, w) : _mm_add_ps(v, w);
    w = _mm_shuffle_ps(v, v, 1);
    v = largest ? _mm_max_ps(v, w) : _mm_add_ps(v, w);
    return _mm_cvtss_f32(v);
}

#ifdef __AVX2__
static inline acc across_32_bytes(across_wide v, int largest)
{
    __m128 a = ACROSS_HALF(v, 0), b = ACROSS_HALF(v, 1);

    return across_16_bytes(largest ? _mm_max_ps(a, b) : _mm_add_ps(a, b), largest);
}
#endif
#endif

static inline acc across(const acc *lane, int largest)
{
#if defined(__AVX512F__)
    across_wide a = across_load(lane), b = across_load(lane + ACROSS / 2);

    return across_32_bytes(largest ? ACROSS_LARGER(a, b) : a + b, largest);
#elif defined(__AVX2__)
    return across_32_bytes(across_load(lane), largest);
#elif defined(ELEM_f64)
    return across_16_bytes(_mm_loadu_pd(lane), largest);
#else
    return across_16_bytes(_mm_loadu_ps(lane), largest);
#endif
}
#undef ACROSS_LARGER
#undef ACROSS_HALF
#else
static inline acc across(const acc *lane, int largest)
{
    acc v[ACROSS];

    for (int j = 0; j < ACROSS; j++) v[j] = lane[j];
    for (int half = ACROSS / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            v[j] = !largest ? v[j] + v[j + half] : v[j] > v[j + half] ? v[j] : v[j + half];
    return v[0];
}
#endif

/* If a lane is NaN, the sum is NaN; the maximum may be any of the lanes. */
static inline acc across_sum(const acc *lane)
{
    return across(lane, 0);
}

static inline acc across_max(const acc *lane)
{
    return across(lane, 1);
}

#endif
