/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: copies, on the calling thread. Large ones are written past the caches: the lines that
 * they fill are then not read first, and what the caches hold stays there. */
#include "cpu.h"
#include <string.h>

#ifdef CPU_LEVELS
#include <immintrin.h>

/* Where this begins to pay: source and destination no longer fit a core's own cache. */
static const size_t past_min = (size_t)4 << 20;

/* Four pages at once, a line of each in turn: fetching ahead works within pages, so more of them
 * are under way. */
enum { LINE = 64, PAGE = 4096, PAGES = 4, PIECE = PAGES * PAGE };

__attribute__((target("avx2"))) static void copy_avx2(char *dst, const char *src, size_t pieces)
{
    for (; pieces; pieces--, dst += PIECE, src += PIECE)
        for (int i = 0; i < PAGE; i += LINE)
            for (int at = i; at < PIECE; at += PAGE) {
                __m256i a = _mm256_loadu_si256((const void *)(src + at));
                __m256i b = _mm256_loadu_si256((const void *)(src + at + LINE / 2));
                _mm256_stream_si256((void *)(dst + at), a);
                _mm256_stream_si256((void *)(dst + at + LINE / 2), b);
            }
    _mm_sfence(); /* other threads that are told of the end see all of it */
}

__attribute__((target("avx512f"))) static void copy_avx512(char *dst, const char *src,
                                                           size_t pieces)
{
    for (; pieces; pieces--, dst += PIECE, src += PIECE)
        for (int i = 0; i < PAGE; i += LINE)
            for (int at = i; at < PIECE; at += PAGE)
                _mm512_stream_si512((void *)(dst + at), _mm512_loadu_si512(src + at));
    _mm_sfence();
}

static void copy_past(const struct cpu *self, char *dst, const char *src, size_t size)
{
    size_t head = -(uintptr_t)dst % LINE, pieces = (size - head) / PIECE, done;

    memcpy(dst, src, head);
    if (self->isa >= CPU_ISA_AVX512) copy_avx512(dst + head, src + head, pieces);
    else copy_avx2(dst + head, src + head, pieces);
    done = head + pieces * PIECE;
    memcpy(dst + done, src + done, size - done);
}
#endif

enum bp_status cpu_copy(void *p, uint32_t device, void *stream, const struct bp_copy *copy)
{
    const struct cpu *self = p;

    (void)device;
    (void)stream;
#ifdef CPU_LEVELS
    if (copy->size >= past_min && self->isa >= CPU_ISA_AVX2) {
        copy_past(self, copy->dst, copy->src, (size_t)copy->size);
        return BP_OK;
    }
#endif
    (void)self;
    memcpy(copy->dst, copy->src, (size_t)copy->size);
    return BP_OK;
}
