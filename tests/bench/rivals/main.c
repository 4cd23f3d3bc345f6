/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: compares the cpu device with other libraries called directly: with the same number of
 * threads, in one process, alternately.
 *
 *   rivals [--threads N] [--only PART] */
#include "rival.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11 };
static const double round_seconds = 0.03;

void ring_must(enum bp_status status, const char *call)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s: %s\n", call, bp_status_name(status), bp_error_message());
    exit(1);
}

void ring_dnnl(dnnl_status_t status, const char *call)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "%s: status %d\n", call, (int)status);
    exit(1);
}

static double rivals_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int rivals_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns seconds per call, for n calls. */
static double rivals_batch(work_fn *work, void *ctx, int n)
{
    double begin = rivals_now();

    for (int i = 0; i < n; i++) work(ctx);
    return (rivals_now() - begin) / n;
}

/* Returns the number of calls that make a round. */
static int count_for(work_fn *work, void *ctx)
{
    double once;

    work(ctx);
    once = rivals_batch(work, ctx, 3);
    return once > round_seconds ? 1 : (int)(round_seconds / once) + 1;
}

double ring_time(work_fn *work, void *ctx)
{
    double t[ROUNDS];
    int n = count_for(work, ctx);

    for (int i = 0; i < ROUNDS; i++) t[i] = rivals_batch(work, ctx, n);
    qsort(t, ROUNDS, sizeof *t, rivals_by_size);
    return t[ROUNDS / 2];
}

bool ring_wants(const struct ring *ring, const char *name)
{
    return !ring->only || strstr(name, ring->only);
}

double duel(const struct ring *ring, const struct duel *d)
{
    double ratio[ROUNDS], ours[ROUNDS], theirs[ROUNDS], scale = d->scale > 0 ? d->scale : 1;
    int n_ours, n_theirs;

    if (!ring_wants(ring, d->name)) return 0;
    n_ours = count_for(d->ours, d->ours_ctx);
    n_theirs = count_for(d->theirs, d->theirs_ctx);
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = rivals_batch(d->ours, d->ours_ctx, n_ours);
        theirs[i] = rivals_batch(d->theirs, d->theirs_ctx, n_theirs) / scale;
        ratio[i] = d->less ? ours[i] / theirs[i] : theirs[i] / ours[i];
    }
    qsort(ratio, ROUNDS, sizeof *ratio, rivals_by_size);
    qsort(ours, ROUNDS, sizeof *ours, rivals_by_size);
    qsort(theirs, ROUNDS, sizeof *theirs, rivals_by_size);
    double middle = ratio[ROUNDS / 2];
    bool good = d->less ? middle <= d->target : middle >= d->target;
    printf("| %s | %d | %.1f | %.1f | %s | %.3f (%.3f - %.3f) | %s %.2f | %s |\n", d->name,
           ring->threads, 1e6 * ours[ROUNDS / 2], 1e6 * theirs[ROUNDS / 2], d->rival, middle,
           ratio[ROUNDS / 4], ratio[ROUNDS - 1 - ROUNDS / 4], d->less ? "<=" : ">=", d->target,
           good ? "met" : "**missed**");
    fflush(stdout);
    return middle;
}

static void rivals_fill(struct bp_tensor *t, struct bp_stream *stream)
{
    struct bp_tensor_info info = {.size = sizeof info};
    float *numbers;
    uint32_t state = 1;

    MUST(bp_tensor_get_info(t, &info));
    if (info.dtype != BP_F32) return;
    numbers = malloc(info.bytes + 4);
    if (!numbers) abort();
    for (int64_t i = 0; i < info.count; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    MUST(bp_tensor_write(stream, t, numbers, info.bytes));
    free(numbers);
}

static struct bp_tensor *rivals_create(const struct ring *ring, uint32_t dtype, uint32_t rank,
                                       const int64_t *shape, const int64_t *stride)
{
    struct bp_tensor_options options = {.size = sizeof options, .dtype = dtype, .rank = rank,
                                        .shape = shape, .stride = stride};
    struct bp_tensor *t;

    MUST(bp_tensor_create_with(ring->device, &options, &t));
    if (dtype == BP_F32) rivals_fill(t, ring->stream);
    return t;
}

struct bp_tensor *ring_tensor(const struct ring *ring, uint32_t dtype, uint32_t rank,
                              const int64_t *shape)
{
    return rivals_create(ring, dtype, rank, shape, NULL);
}

struct bp_tensor *ring_channels_last(const struct ring *ring, uint32_t dtype, const int64_t *shape)
{
    int64_t stride[4] = {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]};

    return rivals_create(ring, dtype, 4, shape, stride);
}

void *ring_data(struct bp_tensor *tensor)
{
    void *data;

    MUST(bp_tensor_map(tensor, &data));
    return data;
}

bool ready_init(const struct ring *ring, struct ready *r, const char *op, const void *attrs,
                struct bp_tensor *const *in, size_t n_in)
{
    const struct bp_opinfo *row = bp_opinfo_find(op);
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_arg arg[READY_PORTS];
    struct bp_call call = {.size = sizeof call, .op = op, .in = arg, .n_in = n_in, .attrs = attrs};
    const uint8_t first[] = {1};
    bool ok = row && row->n_in <= READY_PORTS && row->n_out <= READY_PORTS;

    *r = (struct ready){.ring = ring};
    for (size_t i = 0; i < n_in; i++) {
        r->in[i] = in[i];
        arg[i] = (struct bp_arg){&r->in[i], 1};
    }
    ok = ok && bp_prepared_create(ring->device, &call, first, 1, &r->call) == BP_OK;
    if (!ok) {
        printf("| %s | not there: %s |\n", op, bp_error_message());
        ready_finish(r);
        return false;
    }
    r->n_in = row->n_in;
    r->n_out = row->n_out;
    MUST(bp_prepared_output(r->call, 0, &info));
    r->out[0] = rivals_create(ring, info.dtype, info.rank, info.shape, info.stride);
    return true;
}

void ready_finish(struct ready *r)
{
    bp_prepared_destroy(r->call);
    for (size_t i = 0; i < READY_PORTS; i++) bp_tensor_destroy(r->in[i]);
    bp_tensor_destroy(r->out[0]);
}

void ready_run(void *ctx)
{
    struct ready *r = ctx;

    MUST(bp_prepared_run(r->call, r->ring->stream, r->in, r->n_in, r->out, r->n_out, NULL));
}

static void rivals_options(struct ring *ring, int argc, char **argv)
{
    static const char usage[] =
        "usage: rivals [--threads N] [--only PART]\n\n"
        "  Measures the cpu device against the libraries called directly, in turns.\n\n"
        "  --threads N  of both (default 1)\n"
        "  --only PART  only rows with PART in their names\n";

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool help = !strcmp(argv[i], "-h") || !strcmp(argv[i], "--help");
        if (help) {
            fputs(usage, stdout);
            exit(0);
        }
        if (value && !strcmp(argv[i], "--threads")) ring->threads = atoi(value);
        else if (value && !strcmp(argv[i], "--only")) ring->only = value;
        else ring->threads = 0;
        if (ring->threads > 0) continue;
        fprintf(stderr, "rivals: not understood: %s %s\n%s", argv[i], value ? value : "", usage);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct ring ring = {.threads = 1};
    char threads[16];

    rivals_options(&ring, argc, argv);
    snprintf(threads, sizeof threads, "%d", ring.threads);
    setenv("BP_THREADS", threads, 1);
    omp_set_num_threads(ring.threads);
    MUST(bp_core_create(NULL, &ring.core));
    MUST(bp_device_create(ring.core, "cpu:0", &ring.device));
    MUST(bp_stream_create(ring.device, &ring.stream));
    ring.scope = bp_stream_scope(ring.stream);
    DNNL(dnnl_engine_create(&ring.engine, dnnl_cpu, 0));
    DNNL(dnnl_stream_create(&ring.dnnl, ring.engine, dnnl_stream_default_flags));
    printf("| what | threads | ours, us | theirs, us | theirs | ratio (middle half) | target | |\n"
           "|---|---|---|---|---|---|---|---|\n");
    rival_matmul(&ring);
    rival_conv(&ring);
    rival_memory(&ring);
    rival_rows(&ring);
    rival_planes(&ring);
    rival_mixed(&ring);
    rival_attention(&ring);
    rival_fused(&ring);
    dnnl_stream_destroy(ring.dnnl);
    dnnl_engine_destroy(ring.engine);
    bp_stream_destroy(ring.stream);
    bp_device_destroy(ring.device);
    bp_core_destroy(ring.core);
    return 0;
}
