/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: copies, on the calling thread. Large ones are written past the caches: the lines that
 * they fill are then not read first, and what the caches hold stays there. */
#include "cpu.h"
#include "past.h"
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/* Four pages at once, a line of each in turn: where fetching ahead works within pages only, more of
 * them are under way. Elsewhere lines in their order are faster. */
enum { LINE = 64, PAGE = 4096, PAGES = 4, PIECE = PAGES * PAGE };

static inline void line_copy(char *dst, const char *src)
{
    for (int i = 0; i < LINE; i += 16)
        _mm_stream_si128((void *)(dst + i), _mm_loadu_si128((const void *)(src + i)));
}

static size_t copy_by_pages(char *dst, const char *src, size_t size)
{
    size_t pieces = size / PIECE;

    for (; pieces; pieces--, dst += PIECE, src += PIECE)
        for (int i = 0; i < PAGE; i += LINE)
            for (int at = i; at < PIECE; at += PAGE) line_copy(dst + at, src + at);
    return size / PIECE * PIECE;
}

void cpu_copy_past(void *to, const void *from, size_t size)
{
    char *dst = to;
    const char *src = from;
    size_t done = -(uintptr_t)dst % LINE;

    if (size < 2 * LINE) {
        memcpy(dst, src, size);
        return;
    }
    memcpy(dst, src, done);
    if (__builtin_cpu_is("intel")) done += copy_by_pages(dst + done, src + done, size - done);
    for (; done + LINE <= size; done += LINE) line_copy(dst + done, src + done);
    memcpy(dst + done, src + done, size - done);
}
#else
void cpu_copy_past(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}
#endif

/* Where this begins to pay: source and destination no longer fit a core's own cache. */
static const size_t past_min = (size_t)4 << 20;

enum bp_status cpu_copy(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    (void)self;
    (void)device;
    (void)stream;
    if (copy->size >= past_min) {
        cpu_copy_past(copy->dst, copy->src, (size_t)copy->size);
        past_end();
    } else {
        memcpy(copy->dst, copy->src, (size_t)copy->size);
    }
    return BP_OK;
}
