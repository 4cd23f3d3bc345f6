/* SPDX-License-Identifier: Apache-2.0 */
/* resize_window.h: takes 16 elements of 4 bytes from a window of 32 or 64 neighbours, by AVX-512's
 * permutations, which are faster than loading each element. */
#ifndef CPU_RESIZE_WINDOW_H
#define CPU_RESIZE_WINDOW_H

#ifdef __AVX512F__
#include <immintrin.h>
#include <stdint.h>

enum { WINDOW_PART = 16 };

struct resize_window {
    __m512 part[4];
    int parts; /* 2 or 4; a constant wherever these functions are inlined */
};

/* The first n lanes, of 16 at most. */
static inline __mmask16 window_mask(int64_t n)
{
    return n >= WINDOW_PART ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* Reads the neighbours from x on, of which `left` exist. */
static inline struct resize_window window_read(const void *x, int64_t left, int parts)
{
    struct resize_window w = {.parts = parts};

    for (int i = 0; i < parts; i++)
        w.part[i] = _mm512_maskz_loadu_ps(window_mask(left - WINDOW_PART * i),
                                          (const float *)x + WINDOW_PART * i);
    return w;
}

/* Lane i of the result is neighbour number at[i]. */
static inline __m512 window_take(const struct resize_window *w, __m512i at)
{
    __m512 low = _mm512_permutex2var_ps(w->part[0], at, w->part[1]);

    if (w->parts == 2) return low;
    return _mm512_mask_blend_ps(_mm512_test_epi32_mask(at, _mm512_set1_epi32(2 * WINDOW_PART)),
                                low, _mm512_permutex2var_ps(w->part[2], at, w->part[3]));
}
#endif

#endif
