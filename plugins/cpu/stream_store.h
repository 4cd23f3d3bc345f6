/* SPDX-License-Identifier: Apache-2.0 */
/* stream_store.h: writes results with streaming (non-temporal) stores, for results so large that
 * their next reader would not find them in the caches. The stores do not read the cache lines
 * before they fill them, and leave the caches' contents unchanged. A loop writes one block at a
 * time to memory that stays in the L1 cache, and nt_store stores the block. */
#ifndef CPU_STREAM_STORE_H
#define CPU_STREAM_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { NT_LINE = 64, NT_PART = 1024 }; /* bytes; a block: about one call of nt_store */

/* Whether results of this size use streaming stores: from the size of a last-level cache that other
 * threads use too. */
static inline int nt_pays(int64_t bytes)
{
    return bytes >= (int64_t)16 << 20;
}

/* The number of elements of `size` bytes from y to the first that begins a cache line, at most n; n
 * if none does. */
static inline int64_t nt_head(const void *y, int64_t n, size_t size)
{
    size_t off = -(uintptr_t)y % NT_LINE;
    int64_t head = off % size ? n : (int64_t)(off / size);

    return head < n ? head : n;
}

/* The addresses that a loop will read: for each stored cache line, `bytes` bytes from `at`. A
 * hardware prefetcher stops at the end of each page. Lines that are prefetched here, NT_AHEAD
 * bytes before they are needed, avoid the wait for the first lines of the next page. */
enum { NT_READS = 3, NT_AHEAD = 8192 };
struct nt_reads {
    uintptr_t at[NT_READS];
    size_t bytes[NT_READS];
    int n;
};

/* Prefetches the reads of one stored line. Prefetching an address outside of all memory is
 * harmless. */
static inline void nt_prefetch(struct nt_reads *reads)
{
    for (int k = 0; k < reads->n; k++) {
        for (size_t i = 0; i < reads->bytes[k]; i += NT_LINE)
            __builtin_prefetch((const void *)(reads->at[k] + NT_AHEAD + i));
        reads->at[k] += reads->bytes[k];
    }
}

/* Copies size bytes to dst. Cache lines that dst does not fill completely are written with normal
 * stores. Advances `reads` by the lines that were stored. The caller calls nt_fence after the last
 * copy. */
static inline void nt_store(void *dst, const void *from, size_t size, struct nt_reads *reads);

/* Stores 16 bytes to an address aligned to 16. The stores of one cache line must follow each other
 * directly. */
static inline void nt_store_16(void *dst, const void *from);

/* The fence that must come before other threads are notified that the result is complete. walk_run
 * calls it. */
static inline void nt_fence(void);

#ifdef __SSE2__
#include <emmintrin.h>

static inline void nt_store(void *dst, const void *from, size_t size, struct nt_reads *reads)
{
    char *to = dst;
    const char *source = from;

    if ((uintptr_t)to % NT_LINE) {
        memcpy(to, from, size);
        return;
    }
    for (; size >= NT_LINE; size -= NT_LINE, to += NT_LINE, source += NT_LINE) {
        for (int i = 0; i < NT_LINE; i += 16)
            _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(source + i)));
        nt_prefetch(reads);
    }
    memcpy(to, source, size);
}

static inline void nt_store_16(void *dst, const void *from)
{
    _mm_stream_si128(dst, _mm_loadu_si128(from));
}

static inline void nt_fence(void)
{
    _mm_sfence();
}

#ifdef __AVX2__
/* Stores NT_WIDE bytes to an address with this alignment. The file does not include immintrin.h,
 * which takes a fifth of a second to compile: only one of its functions is needed, and is called by
 * its builtin name. */
#ifdef __AVX512F__
enum { NT_WIDE = 64 };
#else
enum { NT_WIDE = 32 };
#endif
static inline void nt_store_wide(void *dst, const void *from)
{
    typedef long long wide __attribute__((vector_size(NT_WIDE)));
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
static inline void nt_store(void *dst, const void *from, size_t size, struct nt_reads *reads)
{
    (void)reads;
    memcpy(dst, from, size);
}

static inline void nt_store_16(void *dst, const void *from)
{
    memcpy(dst, from, 16);
}

static inline void nt_fence(void)
{
}
#endif

#endif
