/* SPDX-License-Identifier: Apache-2.0 */
/* run_roof.c: finds the peak of a device for the roofline: the bytes that it moves and the
 * floating-point operations that it does in a second. A copy of 64 MiB and a product of f32
 * matrices are repeated for 0.1 s each, and the fastest of them counts. */
#include "run_model.h"

#include <stdlib.h>
#include <string.h>

enum { COPY_ELEMENTS = 16 << 20, MATRIX = 768 };
static const double measure_s = 0.1;

/* Creates a tensor of zeros; a product of zeros takes as long as any other. */
static enum bp_status roof_tensor(struct run_model *r, uint32_t rank, const int64_t *shape,
                                  struct bp_tensor **out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_create(r->device, BP_F32, rank, shape, out);
    void *zeros;

    if (!status) status = bp_tensor_get_info(*out, &info);
    if (status) return status;
    zeros = calloc(info.bytes, 1);
    if (!zeros) abort();
    status = bp_tensor_write(r->stream, *out, zeros, info.bytes);
    free(zeros);
    return status;
}

/* Returns the least seconds of a call with n_in inputs x, or 0 if it fails. */
static double least_time(struct run_model *r, const char *op, struct bp_tensor *x, size_t n_in)
{
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = n_in};
    struct bp_tensor *out = NULL;
    double begin = bench_now(), least = 0;

    for (int i = 0; i < 2 || bench_now() - begin < measure_s; i++) {
        double start = bench_now(), seconds;
        if (bp_call_run(bp_stream_scope(r->stream), &call, &out, 1, NULL) ||
            bp_stream_synchronize(r->stream)) {
            least = 0;
            break;
        }
        seconds = bench_now() - start;
        if (i && (i == 1 || seconds < least)) least = seconds; /* the first one allocates */
    }
    bp_tensor_destroy(out);
    return least;
}

/* Whether the device itself runs the operator on f32. */
static bool roof_has_kernel(struct run_model *r, const char *op)
{
    struct bp_kernel_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_kernels(r->device); i++)
        if (!bp_device_kernel(r->device, i, &info) && !strcmp(info.op, op) &&
            info.types[0] & BP_M(F32) && !*info.reason)
            return true;
    return false;
}

/* The work of a call for each second that it takes; 0: the device cannot run it. */
static double roof_rate(struct run_model *r, const char *op, uint32_t rank, const int64_t *shape,
                        size_t n_in, double work)
{
    struct bp_tensor *x = NULL;
    double seconds = 0;

    if (roof_has_kernel(r, op) && !roof_tensor(r, rank, shape, &x))
        seconds = least_time(r, op, x, n_in);
    bp_tensor_destroy(x);
    return seconds > 0 ? work / seconds : 0;
}

void run_measure_roof(struct run_model *r, struct run_roof *out)
{
    static const int64_t copy[] = {COPY_ELEMENTS}, matrix[] = {MATRIX, MATRIX};
    const double flops = 2.0 * MATRIX * MATRIX * MATRIX;

    out->bytes = roof_rate(r, "assign", 1, copy, 1, 2.0 * COPY_ELEMENTS * sizeof(float));
    out->flops = roof_rate(r, "matmul", 2, matrix, 2, flops);
}
