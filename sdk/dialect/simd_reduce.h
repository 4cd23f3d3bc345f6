/* SPDX-License-Identifier: Apache-2.0 */
/* simd_reduce.h: the sum and the largest of the ACROSS lanes of a vector, on a host, by halves: the
 * shape of the tree is the same at any level of instructions. The shuffles are written out, since
 * compilers make of a loop either a chain of scalars, or stores and loads that wait for each other;
 * of short rows that is most of the time. */
#ifndef BP_DIALECT_ACROSS_H
#define BP_DIALECT_ACROSS_H

#include "elem.h"

enum { ACROSS = VECTOR / (int)sizeof(acc) };

#if defined(__SSE2__) && defined(ELEM_FLOAT) && !defined(ELEM_f64)
#include <immintrin.h>

static inline acc across_4(__m128 v, int largest)
{
    __m128 w = _mm_movehl_ps(v, v);

    v = largest ? _mm_max_ps(v, w) : _mm_add_ps(v, w);
    w = _mm_shuffle_ps(v, v, 1);
    v = largest ? _mm_max_ps(v, w) : _mm_add_ps(v, w);
    return _mm_cvtss_f32(v);
}

#ifdef __AVX2__
static inline acc across_8(__m256 v, int largest)
{
    __m128 a = _mm256_castps256_ps128(v), b = _mm256_extractf128_ps(v, 1);

    return across_4(largest ? _mm_max_ps(a, b) : _mm_add_ps(a, b), largest);
}
#endif

static inline acc across(const acc *lane, int largest)
{
#if defined(__AVX512F__)
    __m256 a = _mm256_loadu_ps(lane), b = _mm256_loadu_ps(lane + 8);

    return across_8(largest ? _mm256_max_ps(a, b) : _mm256_add_ps(a, b), largest);
#elif defined(__AVX2__)
    return across_8(_mm256_loadu_ps(lane), largest);
#else
    return across_4(_mm_loadu_ps(lane), largest);
#endif
}
#elif defined(__SSE2__) && defined(ELEM_f64)
#include <immintrin.h>

static inline acc across_2(__m128d v, int largest)
{
    __m128d w = _mm_unpackhi_pd(v, v);

    return _mm_cvtsd_f64(largest ? _mm_max_sd(v, w) : _mm_add_sd(v, w));
}

#ifdef __AVX2__
static inline acc across_4(__m256d v, int largest)
{
    __m128d a = _mm256_castpd256_pd128(v), b = _mm256_extractf128_pd(v, 1);

    return across_2(largest ? _mm_max_pd(a, b) : _mm_add_pd(a, b), largest);
}
#endif

static inline acc across(const acc *lane, int largest)
{
#if defined(__AVX512F__)
    __m256d a = _mm256_loadu_pd(lane), b = _mm256_loadu_pd(lane + 4);

    return across_4(largest ? _mm256_max_pd(a, b) : _mm256_add_pd(a, b), largest);
#elif defined(__AVX2__)
    return across_4(_mm256_loadu_pd(lane), largest);
#else
    return across_2(_mm_loadu_pd(lane), largest);
#endif
}
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

/* NaN among them: the sum is NaN; the largest may be any of them. */
static inline acc across_sum(const acc *lane)
{
    return across(lane, 0);
}

static inline acc across_max(const acc *lane)
{
    return across(lane, 1);
}

#endif
