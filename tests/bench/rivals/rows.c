/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: compares softmax and layer_norm with oneDNN, and sums with the speed of reading
 * memory. */
#include "rival.h"
#include <immintrin.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

struct direct {
    dnnl_primitive_t op;
    dnnl_memory_t x, y, scale_shift;
    dnnl_stream_t stream;
};

static void rows_run(void *ctx)
{
    struct direct *d = ctx;
    dnnl_exec_arg_t arg[] = {{DNNL_ARG_SRC, d->x}, {DNNL_ARG_DST, d->y},
                             {DNNL_ARG_SCALE_SHIFT, d->scale_shift}};

    DNNL(dnnl_primitive_execute(d->op, d->stream, d->scale_shift ? 3 : 2, arg));
    DNNL(dnnl_stream_wait(d->stream));
}

static void direct_init(const struct ring *ring, struct direct *d, int rows, int n, bool norm,
                        struct ready *ours)
{
    dnnl_memory_desc_t x, both;
    dnnl_softmax_desc_t softmax;
    dnnl_layer_normalization_desc_t layer;
    dnnl_primitive_desc_t desc;

    *d = (struct direct){.stream = ring->dnnl};
    DNNL(dnnl_memory_desc_init_by_tag(&x, 2, (dnnl_dims_t){rows, n}, dnnl_f32, dnnl_ab));
    DNNL(dnnl_memory_desc_init_by_tag(&both, 2, (dnnl_dims_t){2, n}, dnnl_f32, dnnl_ab));
    DNNL(dnnl_softmax_forward_desc_init(&softmax, dnnl_forward_inference, &x, 1));
    DNNL(dnnl_layer_normalization_forward_desc_init(&layer, dnnl_forward_inference, &x, NULL, 1e-5f,
                                                    dnnl_use_scaleshift));
    DNNL(dnnl_primitive_desc_create(&desc, norm ? (const void *)&layer : &softmax, NULL,
                                    ring->engine, NULL));
    DNNL(dnnl_primitive_create(&d->op, desc));
    DNNL(dnnl_primitive_desc_destroy(desc));
    DNNL(dnnl_memory_create(&d->x, &x, ring->engine, ring_data(ours->in[0])));
    DNNL(dnnl_memory_create(&d->y, &x, ring->engine, ring_data(ours->out[0])));
    if (norm)
        DNNL(dnnl_memory_create(&d->scale_shift, &both, ring->engine, DNNL_MEMORY_ALLOCATE));
}

static void rows_measure(const struct ring *ring, const char *op, int rows, int n)
{
    bool norm = op[0] == 'l';
    int64_t shape[] = {rows, n}, last = n;
    struct bp_tensor *in[3];
    struct direct d;
    struct ready ours;
    char name[64];

    snprintf(name, sizeof name, "%s %dx%d", op, rows, n);
    if (!ring_wants(ring, name)) return;
    in[0] = ring_tensor(ring, BP_F32, 2, shape);
    for (int i = 1; norm && i < 3; i++) in[i] = ring_tensor(ring, BP_F32, 1, &last);
    if (!ready_init(ring, &ours, op, NULL, in, norm ? 3 : 1)) return;
    direct_init(ring, &d, rows, n, norm, &ours);
    duel(ring, &(struct duel){.name = name,
                              .ours = ready_run, .ours_ctx = &ours, .theirs = rows_run,
                              .theirs_ctx = &d, .target = 0.9, .less = true, .rival = "oneDNN"});
    dnnl_primitive_destroy(d.op);
    dnnl_memory_destroy(d.x);
    dnnl_memory_destroy(d.y);
    if (norm) dnnl_memory_destroy(d.scale_shift);
    ready_finish(&ours);
}

struct reading {
    const float *x;
    int64_t n;
    float (*part)(const float *x, int64_t n); /* reads the part of one thread */
    volatile float total;
};

/* Reads all elements once, with eight sums: at the speed of memory. */
static float read_part(const float *x, int64_t n)
{
    __m128 lane[8];

    for (int k = 0; k < 8; k++) lane[k] = _mm_setzero_ps();
    for (int64_t i = 0; i + 32 <= n; i += 32)
        for (int k = 0; k < 8; k++) lane[k] = _mm_add_ps(lane[k], _mm_load_ps(x + i + 4 * k));
    for (int k = 1; k < 8; k++) lane[0] = _mm_add_ps(lane[0], lane[k]);
    return _mm_cvtss_f32(lane[0]);
}

/* Reads lines at four positions, with prefetching. */
__attribute__((target("avx512f"))) static float read_lines(const float *x, int64_t n)
{
    __m512 lane[4];
    int64_t part = n / 4;

    for (int k = 0; k < 4; k++) lane[k] = _mm512_setzero_ps();
    for (int64_t i = 0; i + 16 <= part; i += 16)
        for (int k = 0; k < 4; k++) {
            _mm_prefetch((const char *)(x + k * part + i + 256), _MM_HINT_T0);
            lane[k] = _mm512_add_ps(lane[k], _mm512_load_ps(x + k * part + i));
        }
    for (int k = 1; k < 4; k++) lane[0] = _mm512_add_ps(lane[0], lane[k]);
    return _mm512_cvtss_f32(lane[0]);
}

static void rows_read_all(void *ctx)
{
    struct reading *r = ctx;
    float total = 0;

#pragma omp parallel reduction(+ : total)
    {
        int64_t part = r->n / omp_get_num_threads();
        total += r->part(r->x + omp_get_thread_num() * part, part);
    }
    r->total = total;
}

/* Selects the faster of the two functions. */
static void find_reading(struct reading *r)
{
    double time;

    r->part = read_part;
    if (!__builtin_cpu_supports("avx512f")) return;
    time = ring_time(rows_read_all, r);
    r->part = read_lines;
    if (ring_time(rows_read_all, r) > time) r->part = read_part;
}

static void rows_sums(const struct ring *ring)
{
    static const int64_t shape[] = {4096, 4096};

    for (int64_t axis = 0; axis < 2; axis++) {
        struct bp_sum_attrs attrs = bp_sum_defaults();
        struct bp_tensor *x;
        struct reading r = {.n = 4096 * 4096};
        struct ready ours;
        char name[40];
        snprintf(name, sizeof name, "sum 4096x4096 axis %d", (int)axis);
        if (!ring_wants(ring, name)) continue;
        attrs.axes = (struct bp_dims){&axis, 1};
        x = ring_tensor(ring, BP_F32, 2, shape);
        r.x = ring_data(x);
        find_reading(&r);
        if (!ready_init(ring, &ours, "sum", &attrs, &x, 1)) continue;
        duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = &ours,
                                  .theirs = rows_read_all, .theirs_ctx = &r, .target = 0.9,
                                  .rival = "reading"});
        ready_finish(&ours);
    }
}

void rival_rows(const struct ring *ring)
{
    static const int size[][2] = {{1024, 1024}, {8, 50000}, {65536, 64}};

    for (int i = 0; i < 3; i++) rows_measure(ring, "softmax", size[i][0], size[i][1]);
    for (int i = 0; i < 3; i++) rows_measure(ring, "layer_norm", size[i][0], size[i][1]);
    rows_sums(ring);
}
