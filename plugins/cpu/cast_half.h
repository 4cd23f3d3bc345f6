/* SPDX-License-Identifier: Apache-2.0 */
/* cast_half.h: converts runs of f16 to f32 and back by the processor's conversion instructions.
 * They round like half.h, whose twenty instructions for each element take longer than loading the
 * element. A signalling NaN that is widened becomes a quiet NaN. */
#ifndef CPU_CAST_HALF_H
#define CPU_CAST_HALF_H

#include <dialect/half.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

/* past: use streaming stores. It is a constant wherever these functions are inlined. */
#if defined(__AVX512F__)
enum { HALVES = 16 };
static inline void vector_widen(const uint16_t *x, float *y, int nt)
{
    __m512 v = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x));

    if (nt) _mm512_stream_ps(y, v);
    else _mm512_storeu_ps(y, v);
}

static inline void vector_narrow(const float *x, uint16_t *y, int nt)
{
    __m256i v = _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);

    if (nt) _mm256_stream_si256((void *)y, v);
    else _mm256_storeu_si256((void *)y, v);
}
#elif defined(__F16C__)
enum { HALVES = 8 };
static inline void vector_widen(const uint16_t *x, float *y, int nt)
{
    __m256 v = _mm256_cvtph_ps(_mm_loadu_si128((const void *)x));

    if (nt) _mm256_stream_ps(y, v);
    else _mm256_storeu_ps(y, v);
}

static inline void vector_narrow(const float *x, uint16_t *y, int nt)
{
    __m128i v = _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT);

    if (nt) _mm_stream_si128((void *)y, v);
    else _mm_storeu_si128((void *)y, v);
}
#else
enum { HALVES = 1 };
static inline void vector_widen(const uint16_t *x, float *y, int nt)
{
    (void)nt;
    *y = f16_to_f32(*x);
}

static inline void vector_narrow(const float *x, uint16_t *y, int nt)
{
    (void)nt;
    *y = f16_from_f32(*x);
}
#endif

static inline void halves_widen(const uint16_t *x, int64_t n, float *y, int nt)
{
    int64_t i = 0;

    if (nt)
        for (; i + HALVES <= n; i += HALVES) vector_widen(x + i, y + i, 1);
    for (; i + HALVES <= n; i += HALVES) vector_widen(x + i, y + i, 0);
    for (; i < n; i++) y[i] = f16_to_f32(x[i]);
}

static inline void halves_narrow(const float *x, int64_t n, uint16_t *y, int nt)
{
    int64_t i = 0;

    if (nt)
        for (; i + HALVES <= n; i += HALVES) vector_narrow(x + i, y + i, 1);
    for (; i + HALVES <= n; i += HALVES) vector_narrow(x + i, y + i, 0);
    for (; i < n; i++) y[i] = f16_from_f32(x[i]);
}

#endif
