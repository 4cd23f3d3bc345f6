/* SPDX-License-Identifier: Apache-2.0 */
/* bench_copies.c: measures copies between host and device, and within the device, beside copies by
 * one thread on the host. The reference of copies between host and device is memcpy. That of copies
 * within the device is the fastest copy on the same memory: memcpy, or a loop with streaming
 * (non-temporal) stores. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Copies four pages together, one cache line of each in turn: the fastest order of those tried. */
enum { PAGE = 4096, PAGES = 4 };

__attribute__((target("avx2"))) static void nt_avx2(char *dst, const char *src)
{
    for (int i = 0; i < PAGE; i += 32)
        for (int p = 0; p < PAGES * PAGE; p += PAGE)
            _mm256_stream_si256((__m256i *)(void *)(dst + p + i),
                                _mm256_loadu_si256((const __m256i *)(const void *)(src + p + i)));
}

__attribute__((target("avx512f"))) static void nt_avx512(char *dst, const char *src)
{
    for (int i = 0; i < PAGE; i += 64)
        for (int p = 0; p < PAGES * PAGE; p += PAGE)
            _mm512_stream_si512((void *)(dst + p + i), _mm512_loadu_si512(src + p + i));
}

static bool can_copy_nt(void)
{
    return __builtin_cpu_supports("avx2") > 0;
}

static void copy_all_nt(void *dst, const void *src, size_t size)
{
    bool wide = __builtin_cpu_supports("avx512f") > 0;
    char *to = dst;
    const char *from = src;

    for (; can_copy_nt() && !((uintptr_t)to % 64) && size >= PAGES * PAGE; size -= PAGES * PAGE) {
        if (wide) nt_avx512(to, from);
        else nt_avx2(to, from);
        to += PAGES * PAGE;
        from += PAGES * PAGE;
    }
    _mm_sfence();
    memcpy(to, from, size);
}
#else
static bool can_copy_nt(void)
{
    return false;
}

static void copy_all_nt(void *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
}
#endif

enum { SIZE = 16 << 20, SIZE_WITHIN = 64 << 20, TRIES = 9 };

struct copies {
    struct bench *bench;
    uint64_t size;
    struct bp_tensor *a, *b;
    char *host_a, *host_b; /* allocated by the bench; NULL where the reference uses the memory of
                              the tensors */
    char *from, *to;       /* source and destination of the reference */
};

static bool copies_copy_in(void *ctx)
{
    struct copies *c = ctx;

    return !bp_tensor_write(c->bench->stream, c->a, c->host_a, c->size) &&
           !bp_stream_synchronize(c->bench->stream);
}

static bool copy_out(void *ctx)
{
    struct copies *c = ctx;

    return !bp_tensor_read(c->bench->stream, c->a, c->host_b, c->size);
}

static bool copies_copy_within(void *ctx)
{
    struct copies *c = ctx;

    return !bp_tensor_copy(c->bench->stream, c->b, c->a) &&
           !bp_stream_synchronize(c->bench->stream);
}

static bool copy_host(void *ctx)
{
    struct copies *c = ctx;

    memcpy(c->to, c->from, c->size);
    __asm__ volatile("" : : "r"(c->to) : "memory"); /* the compiler must not drop the copy */
    return true;
}

static bool copy_nt(void *ctx)
{
    struct copies *c = ctx;

    copy_all_nt(c->to, c->from, c->size);
    __asm__ volatile("" : : "r"(c->to) : "memory");
    return true;
}

static double time_of(bench_body *body, struct copies *c)
{
    double begin = bench_now();

    body(c);
    return bench_now() - begin;
}

/* Whether streaming stores are faster than memcpy here. Both run alternately; the fastest run of
 * each counts. */
static bool nt_is_best(struct copies *c)
{
    double host = 1e9, nt = 1e9;

    for (int i = 0; i < TRIES; i++) {
        double h = time_of(copy_host, c), p = time_of(copy_nt, c);
        if (h < host) host = h;
        if (p < nt) nt = p;
    }
    return can_copy_nt() && nt < host;
}

static bool take_host(struct copies *c)
{
    c->from = c->host_a = aligned_alloc(4096, c->size);
    c->to = c->host_b = aligned_alloc(4096, c->size);
    if (!c->host_a || !c->host_b) return false;
    memset(c->host_a, 1, c->size);
    memset(c->host_b, 2, c->size);
    return true;
}

static bool copies_setup(struct copies *c, bool own)
{
    const int64_t size = (int64_t)c->size;
    void *a = NULL, *b = NULL;

    if (bp_tensor_create(c->bench->device, BP_U8, 1, &size, &c->a) ||
        bp_tensor_create(c->bench->device, BP_U8, 1, &size, &c->b))
        return false;
    if (own || bp_tensor_map(c->a, &a) || bp_tensor_map(c->b, &b)) return take_host(c);
    c->from = a;
    c->to = b;
    memset(a, 1, c->size);
    memset(b, 2, c->size);
    return true;
}

static void copies_finish(struct copies *c)
{
    bp_stream_synchronize(c->bench->stream);
    bp_tensor_destroy(c->a);
    bp_tensor_destroy(c->b);
    free(c->host_a);
    free(c->host_b);
}

static void run_host(struct bench *bench)
{
    struct copies c = {.bench = bench, .size = SIZE};
    const struct bench_side host = {.body = copy_host, .ctx = &c};
    const struct bench_case cases[] = {
        {"copy/in 16 MiB", "GB/s", BENCH_RATE, SIZE * 1e-9, {.body = copies_copy_in, .ctx = &c},
         "memcpy", host, 0, 0},
        {"copy/out 16 MiB", "GB/s", BENCH_RATE, SIZE * 1e-9, {.body = copy_out, .ctx = &c},
         "memcpy", host, 0, 0},
    };

    if (!bench_wants(bench, cases[0].name) && !bench_wants(bench, cases[1].name)) return;
    if (copies_setup(&c, true)) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(bench, &cases[i]);
    } else {
        bench_failed(bench, "copy");
    }
    copies_finish(&c);
}

static void run_within(struct bench *bench)
{
    struct copies c = {.bench = bench, .size = SIZE_WITHIN};
    struct bench_case row = {
        "memory/copy-within 64 MiB", "GB/s", BENCH_RATE, SIZE_WITHIN * 1e-9,
        {.body = copies_copy_within, .ctx = &c}, "memcpy", {.body = copy_host, .ctx = &c},
        .bytes = 2.0 * SIZE_WITHIN};

    if (!bench_wants(bench, row.name)) return;
    if (copies_setup(&c, false)) {
        if (nt_is_best(&c)) {
            row.reference_name = "stores past the caches";
            row.reference.body = copy_nt;
        }
        bench_run(bench, &row);
    } else {
        bench_failed(bench, row.name);
    }
    copies_finish(&c);
}

void bench_copies(struct bench *bench)
{
    run_host(bench);
    run_within(bench);
}
