/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: compares operators that only move memory, with 16M elements, with the fastest of
 * memcpy, a copy and a triad with streaming stores: bytes read and written per second. */
#include "rival.h"
#include <immintrin.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 16 << 20 };

/* Processes one thread's part of n elements; n is a multiple of 64, except for the last thread. */
typedef void part_fn(float *a, const float *b, const float *c, int64_t n);

struct streams {
    float *a, *b, *c;
    part_fn *fn;
};

static void by_parts(void *ctx)
{
    struct streams *s = ctx;

#pragma omp parallel
    {
        int64_t part = (N / omp_get_num_threads() + 63) / 64 * 64;
        int64_t begin = omp_get_thread_num() * part, left = N - begin;
        s->fn(s->a + begin, s->b + begin, s->c + begin, left < part ? left : part);
        _mm_sfence();
    }
}

static void by_memcpy(float *a, const float *b, const float *c, int64_t n)
{
    (void)c;
    memcpy(a, b, (size_t)n * sizeof *a);
}

static void by_stores(float *a, const float *b, const float *c, int64_t n)
{
    (void)c;
    for (int64_t i = 0; i < n; i += 4) _mm_stream_ps(a + i, _mm_load_ps(b + i));
}

static void by_triad(float *a, const float *b, const float *c, int64_t n)
{
    const __m128 factor = _mm_set1_ps(3);

    for (int64_t i = 0; i < n; i += 4)
        _mm_stream_ps(a + i,
                      _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(factor, _mm_load_ps(c + i))));
}

/* As by_stores, with whole cache lines. */
__attribute__((target("avx512f"))) static void by_lines(float *a, const float *b, const float *c,
                                                        int64_t n)
{
    (void)c;
    for (int64_t i = 0; i < n; i += 16) _mm512_stream_ps(a + i, _mm512_load_ps(b + i));
}

__attribute__((target("avx512f"))) static void by_line_triad(float *a, const float *b,
                                                             const float *c, int64_t n)
{
    const __m512 factor = _mm512_set1_ps(3);

    for (int64_t i = 0; i < n; i += 16)
        _mm512_stream_ps(a + i,
                         _mm512_fmadd_ps(factor, _mm512_load_ps(c + i), _mm512_load_ps(b + i)));
}

/* The fastest function, and the number of bytes that it moves. */
struct best {
    part_fn *fn;
    const char *name;
    double bytes;
};

static struct best find_best(struct streams *s)
{
    static const struct best ways[] = {{by_memcpy, "memcpy", 8.0 * N},
                                       {by_stores, "copy past the caches", 8.0 * N},
                                       {by_triad, "triad past the caches", 12.0 * N},
                                       {by_lines, "copy of lines past the caches", 8.0 * N},
                                       {by_line_triad, "triad of lines past the caches", 12.0 * N}};
    int n = __builtin_cpu_supports("avx512f") ? 5 : 3;
    struct best best = ways[0];
    double rate = 0;

    for (int i = 0; i < n; i++) {
        double r;
        s->fn = ways[i].fn;
        r = ways[i].bytes / ring_time(by_parts, s);
        if (r > rate) best = ways[i];
        if (r > rate) rate = r;
    }
    s->fn = best.fn;
    return best;
}

static void memory_measure(const struct ring *ring, struct streams *s, const struct best *best,
                           const char *name, const char *op, const void *attrs,
                           struct bp_tensor **in, size_t n_in, double bytes)
{
    struct ready ours;

    if (!ready_init(ring, &ours, op, attrs, in, n_in)) return;
    duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = &ours,
                              .theirs = by_parts, .theirs_ctx = s, .scale = best->bytes / bytes,
                              .target = 0.95, .rival = best->name});
    ready_finish(&ours);
}

/* Transposing makes a view; the benchmark measures its copy. */
static struct bp_tensor *memory_transposed(const struct ring *ring, uint32_t rank,
                                           const int64_t *shape, const int64_t *perm)
{
    struct bp_tensor *x = ring_tensor(ring, BP_F32, rank, shape), *y;

    MUST(bp_tensor_transpose(x, perm, &y));
    bp_tensor_destroy(x);
    return y;
}

static void memory_transposes(const struct ring *ring, struct streams *s, const struct best *best)
{
    static const struct {
        const char *name;
        uint32_t rank;
        int64_t shape[4], perm[4];
    } list[] = {{"transpose 4096x4096", 2, {4096, 4096}, {1, 0}},
                {"transpose nchw to nhwc", 4, {16, 64, 128, 128}, {0, 2, 3, 1}},
                {"transpose nhwc to nchw", 4, {16, 128, 128, 64}, {0, 3, 1, 2}},
                {"transpose heads", 4, {32, 512, 16, 64}, {0, 2, 1, 3}}};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!ring_wants(ring, list[i].name)) continue;
        struct bp_tensor *x = memory_transposed(ring, list[i].rank, list[i].shape, list[i].perm);
        memory_measure(ring, s, best, list[i].name, "assign", NULL, &x, 1, 8.0 * N);
    }
}

/* A variadic input is one argument with two tensors, which ready_init does not support. */
struct joined {
    const struct ring *ring;
    struct bp_tensor *in[2], *out;
    struct bp_prepared *call;
};

static void memory_join(void *ctx)
{
    struct joined *j = ctx;

    MUST(bp_prepared_run(j->call, j->ring->stream, j->in, 2, &j->out, 1, NULL));
}

static void memory_concat(const struct ring *ring, struct streams *s, const struct best *best,
                          const char *name)
{
    int64_t part = N / 2, all = N;
    struct joined j = {ring, {NULL}, NULL, NULL};
    struct bp_arg arg = {j.in, 2};
    struct bp_call call = {.size = sizeof call, .op = "concat", .in = &arg, .n_in = 1};

    if (!ring_wants(ring, name)) return;
    for (int i = 0; i < 2; i++) j.in[i] = ring_tensor(ring, BP_F32, 1, &part);
    j.out = ring_tensor(ring, BP_F32, 1, &all);
    MUST(bp_prepared_create(ring->device, &call, NULL, 0, &j.call));
    duel(ring, &(struct duel){.name = name, .ours = memory_join, .ours_ctx = &j, .theirs = by_parts,
                              .theirs_ctx = s, .scale = best->bytes / (8.0 * N), .target = 0.95,
                              .rival = best->name});
    bp_prepared_destroy(j.call);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(j.in[i]);
    bp_tensor_destroy(j.out);
}

void rival_memory(const struct ring *ring)
{
    static const char *const names[] = {"add 16M", "copy 16M", "relu 16M", "cast f32 to f16 16M",
                                        "cast f16 to f32 16M", "concat 2 of 8M", "transpose"};
    struct bp_cast_attrs to_f16 = bp_cast_defaults(), to_f32 = bp_cast_defaults();
    int64_t all = N;
    struct streams s;
    struct best best;
    bool any = false;

    for (int i = 0; i < 7; i++) any |= ring_wants(ring, names[i]);
    if (!any) return;
    s.a = aligned_alloc(64, 4 * N);
    s.b = aligned_alloc(64, 4 * N);
    s.c = aligned_alloc(64, 4 * N);
    if (!s.a || !s.b || !s.c) abort();
    for (int64_t i = 0; i < N; i++) s.a[i] = s.b[i] = s.c[i] = (float)i;
    best = find_best(&s);
    to_f16.to = BP_F16;
    to_f32.to = BP_F32;
#define ONE(dtype) (struct bp_tensor *[]){ring_tensor(ring, dtype, 1, &all)}, 1
#define TWO(n) \
    (struct bp_tensor *[]){ring_tensor(ring, BP_F32, 1, n), ring_tensor(ring, BP_F32, 1, n)}, 2
    memory_measure(ring, &s, &best, names[0], "add", NULL, TWO(&all), 12.0 * N);
    memory_measure(ring, &s, &best, names[1], "assign", NULL, ONE(BP_F32), 8.0 * N);
    memory_measure(ring, &s, &best, names[2], "relu", NULL, ONE(BP_F32), 8.0 * N);
    memory_measure(ring, &s, &best, names[3], "cast", &to_f16, ONE(BP_F32), 6.0 * N);
    memory_measure(ring, &s, &best, names[4], "cast", &to_f32, ONE(BP_F16), 6.0 * N);
    memory_concat(ring, &s, &best, names[5]);
    memory_transposes(ring, &s, &best);
    free(s.a);
    free(s.b);
    free(s.c);
}
