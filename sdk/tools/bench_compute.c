/* SPDX-License-Identifier: Apache-2.0 */
/* bench_compute.c: measures prepared matrix products and convolutions in operations per second. A
 * device without a kernel for one has no row for it. */
#include "bench.h"

#include <string.h>

struct compute {
    struct bench *bench;
    struct bp_tensor *in[3], *out; /* absent inputs NULL */
    uint32_t n_in;                 /* number of declared inputs */
    struct bp_prepared *prepared;
};

static bool compute_run(void *ctx)
{
    struct compute *c = ctx;

    return !bp_prepared_run(c->prepared, c->bench->stream, c->in, c->n_in, &c->out, 1, NULL) &&
           !bp_stream_synchronize(c->bench->stream);
}

/* Zeros take as much time as other numbers, and results are never denormal. */
static bool compute_zeros(struct bench *bench, uint32_t rank, const int64_t *shape,
                          struct bp_tensor **out)
{
    static const char zero[4 << 20];
    struct bp_tensor_info info = {.size = sizeof info};

    if (bp_tensor_create(bench->device, BP_F32, rank, shape, out) ||
        bp_tensor_get_info(*out, &info))
        return false;
    return info.bytes <= sizeof zero && !bp_tensor_write(bench->stream, *out, zero, info.bytes);
}

static bool compute_setup(struct compute *c, const struct bp_call *like, uint32_t rank,
                          const int64_t *a, const int64_t *b)
{
    struct bp_arg in[2] = {{&c->in[0], 1}, {&c->in[1], 1}};
    struct bp_call call = *like;
    struct bp_tensor_info info = {.size = sizeof info};

    c->n_in = bp_opinfo_find(call.op)->n_in;
    call.in = in;
    call.n_in = 2;
    return compute_zeros(c->bench, rank, a, &c->in[0]) &&
           compute_zeros(c->bench, rank, b, &c->in[1]) &&
           !bp_prepared_create(c->bench->device, &call, NULL, 0, &c->prepared) &&
           !bp_prepared_output(c->prepared, 0, &info) &&
           !bp_tensor_create(c->bench->device, BP_F32, info.rank, info.shape, &c->out);
}

/* Each operand once: what a kernel with a perfect cache reads and writes. */
static double compute_bytes(const struct compute *c)
{
    struct bp_tensor *const all[] = {c->in[0], c->in[1], c->out};
    struct bp_tensor_info info = {.size = sizeof info};
    double bytes = 0;

    for (int i = 0; i < 3; i++)
        if (!bp_tensor_get_info(all[i], &info)) bytes += (double)info.bytes;
    return bytes;
}

static bool has_kernel(struct bench *bench, const char *op)
{
    struct bp_kernel_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_kernels(bench->device); i++)
        if (!bp_device_kernel(bench->device, i, &info) && !strcmp(info.op, op) &&
            info.types[0] & BP_M(F32))
            return true;
    return false;
}

static void compute_one(struct bench *bench, const char *name, double operations,
                        const struct bp_call *call, uint32_t rank, const int64_t *a,
                        const int64_t *b)
{
    struct compute c = {.bench = bench};
    struct bench_case row = {name, "GFLOP/s", BENCH_RATE, operations * 1e-9,
                             .side = {.body = compute_run, .ctx = &c}, .operations = operations};

    if (!bench_wants(bench, name) || !has_kernel(bench, call->op)) return;
    if (compute_setup(&c, call, rank, a, b)) {
        row.bytes = compute_bytes(&c);
        bench_run(bench, &row);
    } else {
        bench_failed(bench, name);
    }
    bp_stream_synchronize(bench->stream);
    bp_prepared_destroy(c.prepared);
    bp_tensor_destroy(c.in[0]);
    bp_tensor_destroy(c.in[1]);
    bp_tensor_destroy(c.out);
}

void bench_compute(struct bench *bench)
{
    struct bp_conv_attrs pad = bp_conv_defaults();
    struct bp_call matmul = {.size = sizeof matmul, .op = "matmul"};
    struct bp_call conv = {.size = sizeof conv, .op = "conv", .attrs = &pad};

    pad.pad[0] = pad.pad[1] = pad.pad[3] = pad.pad[4] = 1;
    compute_one(bench, "matmul/256", 2.0 * 256 * 256 * 256, &matmul, 2, (const int64_t[]){256, 256},
                (const int64_t[]){256, 256});
    compute_one(bench, "matmul/1024", 2.0 * 1024 * 1024 * 1024, &matmul, 2,
                (const int64_t[]){1024, 1024}, (const int64_t[]){1024, 1024});
    compute_one(bench, "conv/3x3 64 channels 56x56", 2.0 * 64 * 64 * 9 * 56 * 56, &conv, 4,
                (const int64_t[]){1, 64, 56, 56}, (const int64_t[]){64, 64, 3, 3});
}
