/* SPDX-License-Identifier: Apache-2.0 */
/* copy.c: copies memory on the calling thread. Large copies use streaming stores, which do not read
 * the cache lines before they fill them and leave the caches' contents unchanged. */
#include "cpu.h"
#include "stream_store.h"
#include <string.h>

#ifdef CPU_AVX512
#include <immintrin.h>
#endif

enum { PAGE = 4096, PAGES = 4, PIECE = PAGES * PAGE };

/* Copies four pages in parallel, one cache line of each page in turn. More lines are then in flight
 * on processors that prefetch only within a page, like Intel's. On other processors copying lines
 * in order is faster. dst begins a cache line. */
static size_t copy_by_pages(char *dst, const char *src, size_t size)
{
    size_t pieces = size / PIECE;
    struct nt_reads none = {.n = 0};

    for (; pieces; pieces--, dst += PIECE, src += PIECE)
        for (int i = 0; i < PAGE; i += NT_LINE)
            for (int at = i; at < PIECE; at += PAGE)
                nt_store(dst + at, src + at, NT_LINE, &none);
    return size / PIECE * PIECE;
}

#ifdef CPU_AVX512
/* Copies complete cache lines in order. With stores of 64 bytes each store fills one line; with
 * stores of 16 bytes copies were slower by a tenth. dst begins a cache line. */
__attribute__((target("avx512f"))) static size_t copy_lines(char *dst, const char *src, size_t size)
{
    size_t done = 0;

    for (; done + NT_LINE <= size; done += NT_LINE)
        _mm512_stream_si512((void *)(dst + done), _mm512_loadu_si512(src + done));
    return done;
}
#else
static size_t copy_lines(char *dst, const char *src, size_t size)
{
    (void)dst, (void)src, (void)size;
    return 0;
}
#endif

void cpu_copy_nt(const struct cpu *self, void *to, const void *from, size_t size)
{
    char *dst = to;
    const char *src = from;
    size_t done = (size_t)nt_head(dst, (int64_t)size, 1);
    struct nt_reads none = {.n = 0}; /* for lines in order the hardware prefetches better */

    memcpy(dst, src, done);
    if (self->intel) done += copy_by_pages(dst + done, src + done, size - done);
    if (self->isa == CPU_ISA_AVX512) done += copy_lines(dst + done, src + done, size - done);
    nt_store(dst + done, src + done, size - done, &none);
}

/* Streaming stores are faster from this size on: source and destination no longer fit into a core's
 * own cache. */
static const size_t nt_min = (size_t)4 << 20;

enum bp_status cpu_copy(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    (void)device;
    (void)stream;
    if (copy->size >= nt_min) {
        cpu_copy_nt(self, copy->dst, copy->src, (size_t)copy->size);
        nt_fence();
    } else {
        memcpy(copy->dst, copy->src, (size_t)copy->size);
    }
    return BP_OK;
}
