/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c: `bp bench DEV`: what a device and this library cost, each figure beside what it could
 * cost at best.
 *
 * A figure and its reference are measured in turn, pair by pair, in one run: the machine's speed
 * drifts, their ratio does less. Of the pairs the median is printed, and the middle half's ends
 * (low, high). */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Element at fraction q of a sorted list. */
static double quantile(const double *sorted, int n, double q)
{
    return sorted[(int)(q * (n - 1) + 0.5)];
}

/* Seconds of one call of a body, from enough calls in a row to be measured. */
static double measure(bench_body *body, void *ctx, int calls)
{
    double begin = bench_now();

    for (int i = 0; i < calls; i++)
        if (!body(ctx)) return -1;
    return (bench_now() - begin) / calls;
}

/* Calls in a row that take about `seconds`. */
static int calibrate(bench_body *body, void *ctx, double seconds)
{
    double one;
    int calls = 1;

    if (!body(ctx)) return 0;
    while ((one = measure(body, ctx, calls)) >= 0 && one * calls < seconds && calls < 1 << 24)
        calls *= 2;
    return one < 0 ? 0 : calls;
}

static bool run_pairs(const struct bench_case *c, int runs, double seconds, double *value,
                      double *ratio)
{
    int calls = calibrate(c->body, c->ctx, seconds);
    int reference_calls = c->reference ? calibrate(c->reference, c->reference_ctx, seconds) : 0;

    if (!calls || (c->reference && !reference_calls)) return false;
    for (int i = 0; i < runs; i++) {
        double other = 1;
        value[i] = measure(c->body, c->ctx, calls);
        if (c->reference) other = measure(c->reference, c->reference_ctx, reference_calls);
        if (value[i] < 0 || other < 0) return false;
        ratio[i] = value[i] / other;
    }
    return true;
}

/* The figure in its unit: seconds become nanoseconds, or work a second. */
static double in_unit(const struct bench_case *c, double seconds)
{
    return c->work > 0 ? c->work / seconds : seconds * 1e9;
}

static void report(struct bench *bench, const struct bench_case *c, int runs, double *value,
                   double *ratio)
{
    cJSON *result = cJSON_CreateObject();
    char cell[5][32] = {"", "", "", "", ""};
    double low, middle, high;

    qsort(value, (size_t)runs, sizeof *value, by_size);
    qsort(ratio, (size_t)runs, sizeof *ratio, by_size);
    middle = in_unit(c, quantile(value, runs, 0.5));
    low = in_unit(c, quantile(value, runs, c->work > 0 ? 0.75 : 0.25));
    high = in_unit(c, quantile(value, runs, c->work > 0 ? 0.25 : 0.75));
    cJSON_AddStringToObject(result, "name", c->name);
    cJSON_AddNumberToObject(result, "threads", bench->threads);
    cJSON_AddNumberToObject(result, "value", middle);
    cJSON_AddStringToObject(result, "unit", c->unit);
    if (c->reference) cJSON_AddStringToObject(result, "reference", c->reference_name);
    else cJSON_AddNullToObject(result, "reference");
    if (c->reference) cJSON_AddNumberToObject(result, "ratio", quantile(ratio, runs, 0.5));
    else cJSON_AddNullToObject(result, "ratio");
    cJSON_AddNumberToObject(result, "low", low);
    cJSON_AddNumberToObject(result, "high", high);
    cJSON_AddNumberToObject(result, "runs", runs);
    cJSON_AddItemToArray(bench->results, result);

    snprintf(cell[0], sizeof cell[0], "%.4g", middle);
    snprintf(cell[1], sizeof cell[1], "%.4g - %.4g", low, high);
    if (c->reference) snprintf(cell[2], sizeof cell[2], "%.3f", quantile(ratio, runs, 0.5));
    bp_table_row(&bench->table, (const char *const[]){c->name, cell[0], c->unit, cell[1], cell[2],
                                                      c->reference ? c->reference_name : ""}, NULL);
}

void bench_run(struct bench *bench, const struct bench_case *c)
{
    enum { MAX = 64 };
    double value[MAX], ratio[MAX];
    int runs = bench->quick ? 7 : 31;

    bp_progress("%s", c->name);
    if (run_pairs(c, runs, bench->quick ? 0.002 : 0.02, value, ratio)) {
        report(bench, c, runs, value, ratio);
    } else {
        bp_progress("%s", "");
        bp_complain("bench", "%s: %s", c->name, bp_error_message());
        bench->failed = true;
    }
}

static void print_table(const struct bench *bench, const char *device)
{
    printf("%s, %d thread%s; median and middle half of interleaved pairs\n", device,
           bench->threads, bench->threads > 1 ? "s" : "");
    printf("ratio: time over the reference's time, 1 is as fast, more is slower\n\n");
    bp_table_print(&bench->table, 2);
}

static int write_json(struct bench *bench, const char *device, const char *path)
{
    cJSON *root = cJSON_CreateObject();
    char *text;
    FILE *file;

    cJSON_AddStringToObject(root, "device", device);
    cJSON_AddStringToObject(root, "machine", bench->machine);
    cJSON_AddItemToObject(root, "results", bench->results);
    text = cJSON_Print(root);
    file = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (!file || fprintf(file, "%s\n", text) < 0) {
        bp_complain("bench", "%s: cannot be written", path);
        bench->failed = true;
    }
    if (file && file != stdout) fclose(file);
    cJSON_free(text);
    cJSON_Delete(root);
    return bench->failed ? BP_EXIT_FAILED : BP_EXIT_GOOD;
}

static int run(struct bench *bench, struct bp_device *device, const char *json)
{
    static const char *const headings[] = {"what", "median", "unit", "middle half", "ratio", "to"};
    struct bp_device_properties p = {.size = sizeof p};
    int status;

    bp_device_properties(device, &p);
    bench->machine = p.name;
    bench->results = cJSON_CreateArray();
    bp_table_init(&bench->table, 6, headings);
    bench_calls(bench);
    bench_memory(bench);
    bench_compute(bench);
    bp_progress("%s", "");
    if (!json || strcmp(json, "-")) print_table(bench, bp_device_name(device));
    if (json) status = write_json(bench, bp_device_name(device), json);
    else {
        cJSON_Delete(bench->results);
        status = bench->failed ? BP_EXIT_FAILED : BP_EXIT_GOOD;
    }
    bp_table_finish(&bench->table);
    return status;
}

int bp_cmd_bench(int argc, char **argv)
{
    struct bench bench = {.threads = 1};
    const char *word, *json = NULL;
    double threads = 1;
    const struct bp_option options[] = {
        {"json", 0, BP_OPTION_TEXT, "FILE",
         "also write the results as JSON; - writes only that, to standard output", &json},
        {"quick", 0, BP_OPTION_FLAG, NULL, "fewer and shorter runs", &bench.quick},
        {"threads", 0, BP_OPTION_NUMBER, "N", "threads that a launch may use; default 1", &threads},
        {0},
    };
    const struct bp_usage usage = {
        "bench",
        "DEV",
        1,
        1,
        "Measures the cost of calls, memory, and of matrix products and convolutions "
        "on a device.",
        options};
    struct bp_core *core;
    int status = bp_options_parse(&usage, argc, argv, &word);
    char width[16];

    if (status != BP_OPTIONS_GOOD) return status;
    if (!(threads >= 1 && threads <= 4096)) {
        bp_complain("bench", "--threads wants 1 to 4096");
        return BP_EXIT_USAGE;
    }
    bench.threads = (int)threads;
    snprintf(width, sizeof width, "%d", bench.threads);
    setenv("BP_THREADS", width, 1); /* before the core reads it and any library starts threads */
    core = bp_tool_core("bench", NULL);
    if (!core) return BP_EXIT_BROKEN;
    if (bp_device_create(core, word, &bench.device) ||
        bp_stream_create(bench.device, &bench.stream)) {
        bp_complain("bench", "%s", bp_error_message());
        status = BP_EXIT_NO_DEVICE;
    } else {
        bench.scope = bp_stream_scope(bench.stream);
        status = run(&bench, bench.device, json);
    }
    bp_stream_destroy(bench.stream);
    bp_device_destroy(bench.device);
    bp_core_destroy(core);
    return status;
}
