/* SPDX-License-Identifier: Apache-2.0 */
/* device_times.c: compares the device's times of large kernels in a profile with CLOCK_MONOTONIC.
 *
 *     device_times DEVICE BP
 *
 * One stream is busy. From the begin of the first kernel to the end of the last one, BP states how
 * long the device computed, and how long it did not; the sum has to be the time that the test has
 * measured, within 2 %. The first and the last kernel are small, and the test reads its clock on
 * both sides of each: the sum lies between the two intervals, however slow the machine is.
 * Prints the numbers as comments. */
#include <backplane/backplane.h>
#include <backplane/profile.h>
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SIDE = 384, /* of the matrices */
    CALLS = 12
};

static struct bp_stream *stream;
static struct bp_tensor *x, *few;

static void times_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("Bail out! ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    exit(1);
}

static void times_need(enum bp_status status)
{
    if (status) times_fail("%s", bp_error_message());
}

static double times_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void times_compute(int calls)
{
    for (int i = 0; i < calls; i++) {
        struct bp_tensor *y = NULL;
        times_need(bp_op_matmul(bp_stream_scope(stream), x, x, NULL, &y));
        bp_tensor_destroy(y);
    }
    times_need(bp_stream_synchronize(stream));
}

static void times_compute_few(void)
{
    struct bp_tensor *y = NULL;

    times_need(bp_op_add(bp_stream_scope(stream), few, few, &y));
    bp_tensor_destroy(y);
    times_need(bp_stream_synchronize(stream));
}

/* The time from the begin of the first kernel to the end of the last one is longer than `inside`
 * and shorter than `outside`. */
struct interval {
    double inside, outside;
};

static struct interval times_record(const char *path)
{
    struct bp_profiler_options options = {.size = sizeof options, .path = path};
    struct bp_profiler *profiler;
    double at[4];

    times_need(bp_profiler_start(&options, &profiler));
    at[0] = times_now();
    times_compute_few();
    at[1] = times_now();
    times_compute(CALLS);
    at[2] = times_now();
    times_compute_few();
    at[3] = times_now();
    times_need(bp_profiler_stop(profiler));
    bp_profiler_destroy(profiler);
    return (struct interval){at[2] - at[1], at[3] - at[0]};
}

/* The sums of the profile, in nanoseconds. */
struct stated {
    double busy, idle;
};

static struct stated times_read(const char *path, const char *bp, const char *name)
{
    char out[64], command[1200], *text = calloc(1, 1 << 20);
    struct stated stated = {0};
    cJSON *root, *device;
    FILE *f;

    snprintf(out, sizeof out, "%s.json", path);
    snprintf(command, sizeof command, "'%s' trace '%s' --json '%s'", bp, path, out);
    if (!text || system(command) || !(f = fopen(out, "r"))) times_fail("%s", command);
    if (!fread(text, 1, (1 << 20) - 1, f)) times_fail("%s is empty", out);
    fclose(f);
    unlink(out);
    root = cJSON_Parse(text);
    cJSON_ArrayForEach(device, cJSON_GetObjectItem(root, "devices"))
    {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(device, "name")), name)) continue;
        stated.busy = cJSON_GetNumberValue(cJSON_GetObjectItem(device, "computing_ns"));
        stated.idle = cJSON_GetNumberValue(cJSON_GetObjectItem(device, "idle_ns"));
    }
    cJSON_Delete(root);
    free(text);
    return stated;
}

/* The sum of the kernels' times, which do not overlap on one stream. */
static double times_sum(const char *path)
{
    struct bp_profile *p;
    double sum = 0;
    int n = 0;

    times_need(bp_profile_open(path, &p));
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = {.size = sizeof e};
        times_need(bp_profile_get_event(p, i, &e));
        if (!e.on_device || e.kind != BP_RECORD_KERNEL) continue;
        sum += (double)(e.end_ns - e.begin_ns);
        n++;
    }
    bp_profile_destroy(p);
    if (n < CALLS + 2) times_fail("%d kernels of %d", n, CALLS + 2);
    return sum;
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/bp-times-XXXXXX";
    const int64_t shape[2] = {SIDE, SIDE}, n = 16;
    float *zeros = calloc(SIDE * SIDE, sizeof *zeros);
    struct interval interval;
    struct bp_device *device;
    struct bp_core *core;
    struct stated stated;
    double sum, all;

    if (argc != 3 || !zeros) return 2;
    close(mkstemp(path));
    times_need(bp_core_create(NULL, &core));
    times_need(bp_device_create(core, argv[1], &device));
    times_need(bp_stream_create(device, &stream));
    times_need(bp_tensor_create(device, BP_F32, 2, shape, &x));
    times_need(bp_tensor_write(stream, x, zeros, SIDE * SIDE * sizeof *zeros));
    times_need(bp_tensor_create(device, BP_F32, 1, &n, &few));
    times_need(bp_tensor_write(stream, few, zeros, (uint64_t)n * sizeof *zeros));
    times_compute(1); /* the calls are prepared */
    times_compute_few();
    interval = times_record(path);
    stated = times_read(path, argv[2], argv[1]);
    sum = times_sum(path);
    unlink(path);
    all = stated.busy + stated.idle;
    printf("# %s: kernels %.3f ms, busy %.3f, idle %.3f, together %.3f; measured %.3f to %.3f\n",
           argv[1], sum / 1e6, stated.busy / 1e6, stated.idle / 1e6, all / 1e6,
           interval.inside / 1e6, interval.outside / 1e6);
    if (all < 0.98 * interval.inside || all > 1.02 * interval.outside)
        times_fail("the profile states other times");
    if (sum < 0.98 * stated.busy || sum > 1.02 * stated.busy)
        times_fail("the kernels' times are not those of the busy device");
    printf("ok 1 - device times of %s are those of the clock\n1..1\n", argv[1]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(few);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    free(zeros);
    return 0;
}
