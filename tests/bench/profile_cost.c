/* SPDX-License-Identifier: Apache-2.0 */
/* profile_cost.c: measures what an eager addition costs more while a profiler records. Run by hand:
 *
 *     profile_cost [FILE [BLOCKS]]
 *
 * Blocks of calls without and with a profiler alternate, so that a machine whose speed changes
 * changes both. Prints the median, the mean and the middle half of the blocks and of the
 * differences between neighbours, in nanoseconds a call: of the time that passed, and of the time
 * that the thread ran, which other processes change less. */
#include <backplane/backplane.h>
#include <backplane/profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    CALLS = 8190, /* two chunks of the file */
    MOST = 5000,
};

static void cost_need(enum bp_status status)
{
    if (status == BP_OK) return;
    fprintf(stderr, "profile_cost: %s\n", bp_error_message());
    exit(1);
}

enum {
    PASSED,
    RAN,
    TIMES
};

static const clockid_t cost_clock[TIMES] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID};
static double off[TIMES][MOST], on[TIMES][MOST], more[TIMES][MOST];

static double cost_now(int time)
{
    struct timespec t;

    clock_gettime(cost_clock[time], &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void cost_add(struct bp_scope *scope, struct bp_tensor *x)
{
    struct bp_tensor *y = NULL;

    cost_need(bp_op_add(scope, x, x, &y));
    bp_tensor_destroy(y);
}

/* Measures block i. The first call is not measured: it takes the first chunk. */
static void cost_block(struct bp_scope *scope, struct bp_tensor *x, const char *path,
                       double out[TIMES][MOST], int i)
{
    struct bp_profiler_options options = {.size = sizeof options, .path = path};
    struct bp_profiler *profiler = NULL;
    double began[TIMES];

    if (path) cost_need(bp_profiler_start(&options, &profiler));
    cost_add(scope, x);
    for (int time = 0; time < TIMES; time++) began[time] = cost_now(time);
    for (int call = 0; call < CALLS; call++) cost_add(scope, x);
    for (int time = 0; time < TIMES; time++) out[time][i] = (cost_now(time) - began[time]) / CALLS;
    if (path) cost_need(bp_profiler_stop(profiler));
    bp_profiler_destroy(profiler);
}

static int cost_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void cost_print(const char *of, double *ns, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) sum += ns[i];
    qsort(ns, (size_t)n, sizeof *ns, cost_compare);
    printf("%-10s median %7.1f  mean %7.1f  middle half %7.1f to %7.1f  least %7.1f\n", of,
           ns[n / 2], sum / n, ns[n / 4], ns[3 * n / 4], ns[0]);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/tmp/bp-profile-cost";
    int blocks = argc > 2 ? atoi(argv[2]) : 100;
    const float zeros[4] = {0};
    const int64_t shape[1] = {4};
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_tensor *x;
    struct bp_core *core;

    if (blocks < 1 || blocks > MOST) return 2;
    cost_need(bp_core_create(NULL, &core));
    cost_need(bp_device_create(core, "cpu", &device));
    cost_need(bp_stream_create(device, &stream));
    cost_need(bp_tensor_create(device, BP_F32, 1, shape, &x));
    cost_need(bp_tensor_write(stream, x, zeros, sizeof zeros));
    for (int i = 0; i < blocks; i++) {
        cost_block(bp_stream_scope(stream), x, NULL, off, i);
        cost_block(bp_stream_scope(stream), x, path, on, i);
        for (int time = 0; time < TIMES; time++) more[time][i] = on[time][i] - off[time][i];
    }
    for (int time = 0; time < TIMES; time++) {
        printf("%s\n", time == PASSED ? "time that passed" : "time that the thread ran");
        cost_print("off", off[time], blocks);
        cost_print("on", on[time], blocks);
        cost_print("more", more[time], blocks);
    }
    unlink(path);
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
