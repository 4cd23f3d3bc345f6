/* SPDX-License-Identifier: Apache-2.0 */
/* bench_memory.c: making tensors, and copies beside memcpy of the same size. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 4096, LARGE = 16 << 20 };

struct memory {
    struct bench *bench;
    struct bp_tensor *a, *b;
    char *from, *to;
};

static bool make(struct memory *m, int64_t size)
{
    struct bp_tensor *t;

    if (bp_tensor_create(m->bench->device, BP_U8, 1, &size, &t)) return false;
    bp_tensor_destroy(t);
    return true;
}

static bool make_small(void *ctx)
{
    return make(ctx, SMALL);
}

static bool malloc_small(void *ctx)
{
    void *volatile p = malloc(SMALL);

    (void)ctx;
    free(p);
    return p != NULL;
}

static bool copy_in(void *ctx)
{
    struct memory *m = ctx;
    return !bp_tensor_write(m->bench->stream, m->a, m->from, LARGE) &&
           !bp_stream_synchronize(m->bench->stream);
}

static bool copy_out(void *ctx)
{
    struct memory *m = ctx;
    return !bp_tensor_read(m->bench->stream, m->a, m->to, LARGE);
}

static bool copy_within(void *ctx)
{
    struct memory *m = ctx;
    return !bp_tensor_copy(m->bench->stream, m->b, m->a) &&
           !bp_stream_synchronize(m->bench->stream);
}

static bool copy_host(void *ctx)
{
    struct memory *m = ctx;

    memcpy(m->to, m->from, LARGE);
    __asm__ volatile("" : : "r"(m->to) : "memory"); /* the copy is wanted */
    return true;
}

static bool setup(struct memory *m)
{
    const int64_t size = LARGE;

    m->from = malloc(LARGE);
    m->to = malloc(LARGE);
    if (!m->from || !m->to) return false;
    memset(m->from, 1, LARGE);
    memset(m->to, 2, LARGE);
    return !bp_tensor_create(m->bench->device, BP_U8, 1, &size, &m->a) &&
           !bp_tensor_create(m->bench->device, BP_U8, 1, &size, &m->b);
}

void bench_memory(struct bench *bench)
{
    struct memory m = {.bench = bench};
    const double work = LARGE * 1e-9;
    const struct bench_case cases[] = {
        {"tensor/create 4 KiB", "ns", 0, make_small, &m, "malloc", malloc_small, NULL},
        {"copy/in 16 MiB", "GB/s", work, copy_in, &m, "memcpy", copy_host, &m},
        {"copy/out 16 MiB", "GB/s", work, copy_out, &m, "memcpy", copy_host, &m},
        {"copy/within 16 MiB", "GB/s", work, copy_within, &m, "memcpy", copy_host, &m},
    };

    if (setup(&m)) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(bench, &cases[i]);
    } else {
        bp_complain("bench", "memory: %s", bp_error_message());
        bench->failed = true;
    }
    bp_tensor_destroy(m.a);
    bp_tensor_destroy(m.b);
    free(m.from);
    free(m.to);
}
