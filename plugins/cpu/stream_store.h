/* SPDX-License-Identifier: Apache-2.0 */
/* stream_store.h: stores past the caches, for results that are too large to be found there by
 * whoever reads them next: the lines that they fill are not read first, and what the caches hold
 * stays. A loop writes a part at a time to memory that stays in the nearest cache, and past_put
 * stores it. */
#ifndef CPU_PAST_H
#define CPU_PAST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PAST_LINE = 64, PAST_PART = 1024 }; /* bytes; a part: one call of past_put, about */

/* Results of so many bytes are stored so: as much as a last-level cache that others use too. */
static inline int past_pays(int64_t bytes)
{
    return bytes >= (int64_t)16 << 20;
}

/* Elements of size bytes from y to the first that begins a line, at most n; n where none does. */
static inline int64_t past_head(const void *y, int64_t n, size_t size)
{
    size_t off = -(uintptr_t)y % PAST_LINE;
    int64_t head = off % size ? n : (int64_t)(off / size);

    return head < n ? head : n;
}

/* What a loop will read: for each line that it stores, so many bytes from where at is. A processor
 * that fetches ahead by itself stops at the end of each page; fetched from here, PAST_AHEAD bytes
 * before they are needed, they do not wait for the next page's first lines. */
enum { PAST_READS = 3, PAST_AHEAD = 8192 };
struct past_reads {
    uintptr_t at[PAST_READS];
    size_t bytes[PAST_READS];
    int n;
};

/* The reads of one stored line. What lies outside of all memory is not fetched: no harm done. */
static inline void past_fetch(struct past_reads *reads)
{
    for (int k = 0; k < reads->n; k++) {
        for (size_t i = 0; i < reads->bytes[k]; i += PAST_LINE)
            __builtin_prefetch((const void *)(reads->at[k] + PAST_AHEAD + i));
        reads->at[k] += reads->bytes[k];
    }
}

/* Copies size bytes to dst. What shares a line with something else is stored the common way. reads
 * goes on by what belongs to the lines. past_end comes after the last one. */
static inline void past_put(void *dst, const void *from, size_t size, struct past_reads *reads);

/* 16 bytes, to where 16 bytes begin. Those of a line come one after the other. */
static inline void past_put_16(void *dst, const void *from);

/* Before other threads are told that it is done. walk_run does it. */
static inline void past_end(void);

#ifdef __SSE2__
#include <emmintrin.h>

static inline void past_put(void *dst, const void *from, size_t size, struct past_reads *reads)
{
    char *to = dst;
    const char *source = from;

    if ((uintptr_t)to % PAST_LINE) {
        memcpy(to, from, size);
        return;
    }
    for (; size >= PAST_LINE; size -= PAST_LINE, to += PAST_LINE, source += PAST_LINE) {
        for (int i = 0; i < PAST_LINE; i += 16)
            _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(source + i)));
        past_fetch(reads);
    }
    memcpy(to, source, size);
}

static inline void past_put_16(void *dst, const void *from)
{
    _mm_stream_si128(dst, _mm_loadu_si128(from));
}

static inline void past_end(void)
{
    _mm_sfence();
}

#ifdef __AVX2__
/* PAST_WIDE bytes, to where as many begin. immintrin.h, which takes a fifth of a second to read, is
 * not: of what it has one function is used, by the name that compilers give it. */
#ifdef __AVX512F__
enum { PAST_WIDE = 64 };
#else
enum { PAST_WIDE = 32 };
#endif
static inline void past_put_wide(void *dst, const void *from)
{
    typedef long long wide __attribute__((vector_size(PAST_WIDE)));
    wide v;

    memcpy(&v, from, sizeof v);
#if defined(__clang__)
    __builtin_nontemporal_store(v, (wide *)dst);
#elif defined(__AVX512F__)
    __builtin_ia32_movntdq512((wide *)dst, v);
#else
    __builtin_ia32_movntdq256((wide *)dst, v);
#endif
}
#endif
#else
static inline void past_put(void *dst, const void *from, size_t size, struct past_reads *reads)
{
    (void)reads;
    memcpy(dst, from, size);
}

static inline void past_put_16(void *dst, const void *from)
{
    memcpy(dst, from, 16);
}

static inline void past_end(void)
{
}
#endif

#endif
