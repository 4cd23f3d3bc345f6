/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c: `bp bench DEV`: measures the costs of a device and of this library, each beside a
 * reference that shows the best possible cost.
 *
 * A figure and its reference are measured alternately, in pairs, in one run: the machine's speed
 * drifts, but the ratio drifts less. The table shows the median of all pairs and the bounds of the
 * middle half (low, high), also for the ratio. */
#include "bench.h"

#include <fnmatch.h>
#include <pthread.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int bench_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The element at fraction q of a sorted list. */
static double bench_quantile(const double *sorted, int n, double q)
{
    return sorted[(int)(q * (n - 1) + 0.5)];
}

/* Seconds of one call; less than 0 after a failure. */
static double bench_measure(const struct bench_side *side, int calls)
{
    double begin;

    if (side->block) return side->block(side->ctx, calls);
    begin = bench_now();
    for (int i = 0; i < calls; i++)
        if (!side->body(side->ctx)) return -1;
    return (bench_now() - begin) / calls;
}

/* The fastest of a few measurements, because the machine may have been busy with other work. */
static double bench_fastest(const struct bench_side *side, int calls)
{
    double best = bench_measure(side, calls);

    for (int i = 1; i < 3 && best >= 0; i++) {
        double again = bench_measure(side, calls);
        if (again < best) best = again;
    }
    return best;
}

/* The number of calls that take about `seconds`. Running them also warms up the measured code. 0: a
 * call failed. */
static int bench_calibrate(const struct bench_side *side, int calls, double seconds)
{
    double one;

    if (calls) return bench_measure(side, calls) < 0 ? 0 : calls;
    calls = 1;
    if (bench_measure(side, calls) < 0) return 0;
    while ((one = bench_fastest(side, calls)) >= 0 && one * calls < seconds && calls < 1 << 24)
        calls *= 2;
    return one < 0 ? 0 : calls;
}

static bool has_reference(const struct bench_case *c)
{
    return c->reference.body || c->reference.block;
}

/* Pairs are many and short, so that other work of the machine affects only few of them, and the
 * median is not affected. */
enum {
    RUNS_MAX = 512,
    REPEATS = 5 /* the pairs in order of time, in so many groups: their medians show the drift */
};
static const double usual_slice = 2e-4; /* seconds of one side of a pair */

struct pairs {
    int runs;
    double value[RUNS_MAX], other[RUNS_MAX];       /* in the figure's unit */
    double ratio[RUNS_MAX];                        /* of the two times */
    double repeat[REPEATS], ratio_repeat[REPEATS]; /* medians of groups of pairs */
};

/* Converts seconds to the unit of the figure. reference 0: no reference. */
static double in_unit(const struct bench_case *c, double seconds, double reference)
{
    switch (c->figure) {
    case BENCH_RATE: return c->work / seconds;
    case BENCH_OVER: return (seconds - reference) * 1e9;
    case BENCH_TIMES: return c->work * reference / seconds;
    default: return seconds * 1e9;
    }
}

/* Finds the medians of groups of pairs, which are still in order of time. */
static void find_repeats(const double *value, int n, double *out_repeat)
{
    double sorted[RUNS_MAX];

    for (int g = 0; g < REPEATS; g++) {
        int first = n * g / REPEATS, last = n * (g + 1) / REPEATS;
        if (last == first) last++; /* fewer pairs than groups */
        if (last > n) first = n - 1, last = n;
        memcpy(sorted, value + first, (size_t)(last - first) * sizeof *sorted);
        qsort(sorted, (size_t)(last - first), sizeof *sorted, bench_by_size);
        out_repeat[g] = bench_quantile(sorted, last - first, 0.5);
    }
}

/* Measures at least runs_min pairs, and more until `seconds` have passed. */
static bool run_pairs(const struct bench_case *c, struct pairs *pairs, int runs_min, double seconds)
{
    double slice = c->slice > 0 ? c->slice : usual_slice, until;
    bool two = has_reference(c);
    int runs_max = c->runs ? c->runs : RUNS_MAX, i;
    int calls = bench_calibrate(&c->side, c->calls, slice);
    int reference_calls = two ? bench_calibrate(&c->reference, c->calls, slice) : 0;

    if (!calls || (two && !reference_calls)) return false;
    until = bench_now() + seconds;
    for (i = 0; i < runs_min || (i < runs_max && bench_now() < until); i++) {
        double one = bench_measure(&c->side, calls);
        double other = two ? bench_measure(&c->reference, reference_calls) : 0;
        if (one < 0 || other < 0) return false;
        pairs->value[i] = in_unit(c, one, other);
        pairs->other[i] = c->figure == BENCH_RATE ? c->work / other : other * 1e9;
        pairs->ratio[i] = one / other;
    }
    pairs->runs = i;
    find_repeats(pairs->value, i, pairs->repeat);
    find_repeats(pairs->ratio, i, pairs->ratio_repeat);
    qsort(pairs->value, (size_t)pairs->runs, sizeof *pairs->value, bench_by_size);
    qsort(pairs->other, (size_t)pairs->runs, sizeof *pairs->other, bench_by_size);
    qsort(pairs->ratio, (size_t)pairs->runs, sizeof *pairs->ratio, bench_by_size);
    return true;
}

static void add_number(cJSON *result, const char *key, bool given, double number)
{
    if (given) cJSON_AddNumberToObject(result, key, number);
    else cJSON_AddNullToObject(result, key);
}

static cJSON *result_json(const struct bench *bench, const struct bench_case *c,
                          const struct pairs *pairs)
{
    cJSON *result = cJSON_CreateObject();
    bool two = has_reference(c);
    int n = pairs->runs;

    cJSON_AddStringToObject(result, "name", c->name);
    cJSON_AddNumberToObject(result, "threads", bench->threads);
    cJSON_AddNumberToObject(result, "value", bench_quantile(pairs->value, n, 0.5));
    cJSON_AddStringToObject(result, "unit", c->unit);
    if (two) cJSON_AddStringToObject(result, "reference", c->reference_name);
    else cJSON_AddNullToObject(result, "reference");
    add_number(result, "ratio", two, bench_quantile(pairs->ratio, n, 0.5));
    cJSON_AddNumberToObject(result, "low", bench_quantile(pairs->value, n, 0.25));
    cJSON_AddNumberToObject(result, "high", bench_quantile(pairs->value, n, 0.75));
    cJSON_AddNumberToObject(result, "runs", n);
    add_number(result, "ratio_low", two, bench_quantile(pairs->ratio, n, 0.25));
    add_number(result, "ratio_high", two, bench_quantile(pairs->ratio, n, 0.75));
    cJSON_AddItemToObject(result, "repeats", cJSON_CreateDoubleArray(pairs->repeat, REPEATS));
    cJSON_AddItemToObject(result, "ratio_repeats",
                          two ? cJSON_CreateDoubleArray(pairs->ratio_repeat, REPEATS)
                              : cJSON_CreateNull());
    add_number(result, "reference_value", two && c->figure != BENCH_TIMES,
               bench_quantile(pairs->other, n, 0.5));
    if (c->bytes > 0) {
        cJSON_AddNumberToObject(result, "operations", c->operations);
        cJSON_AddNumberToObject(result, "bytes", c->bytes);
        cJSON_AddNumberToObject(result, "seconds", c->work / bench_quantile(pairs->value, n, 0.5));
    }
    return result;
}

static void bench_report(struct bench *bench, const struct bench_case *c, const struct pairs *pairs)
{
    char cell[4][64] = {"", "", "", ""};
    char to[128] = "";
    int n = pairs->runs;

    cJSON_AddItemToArray(bench->results, result_json(bench, c, pairs));
    snprintf(cell[0], sizeof cell[0], "%.4g", bench_quantile(pairs->value, n, 0.5));
    snprintf(cell[1], sizeof cell[1], "%.4g - %.4g", bench_quantile(pairs->value, n, 0.25),
             bench_quantile(pairs->value, n, 0.75));
    if (has_reference(c)) {
        snprintf(cell[2], sizeof cell[2], "%.3f", bench_quantile(pairs->ratio, n, 0.5));
        snprintf(cell[3], sizeof cell[3], "%.3f - %.3f", bench_quantile(pairs->ratio, n, 0.25),
                 bench_quantile(pairs->ratio, n, 0.75));
        if (c->figure == BENCH_TIMES) snprintf(to, sizeof to, "%s", c->reference_name);
        else
            snprintf(to, sizeof to, "%s: %.4g", c->reference_name,
                     bench_quantile(pairs->other, n, 0.5));
    }
    bp_table_row(&bench->table,
                 (const char *const[]){c->name, cell[0], c->unit, cell[1], cell[2], cell[3], to},
                 NULL);
}

enum {
    NAME_MAX_LENGTH = 80
};

static void full_name(const struct bench *bench, const char *name, char *out)
{
    snprintf(out, NAME_MAX_LENGTH, "%s%s", name, bench->beside ? " beside a thread" : "");
}

bool bench_wants(const struct bench *bench, const char *name)
{
    char full[NAME_MAX_LENGTH];

    full_name(bench, name, full);
    for (size_t i = 0; i < bench->filters.n; i++)
        if (!fnmatch(bench->filters.at[i], full, 0)) return true;
    return !bench->filters.n;
}

void bench_failed(struct bench *bench, const char *name)
{
    bp_progress("%s", "");
    bp_complain("bench", "%s: %s", name, bp_error_message());
    bench->failed = true;
}

void bench_run(struct bench *bench, const struct bench_case *wanted)
{
    struct bench_case named = *wanted, *c = &named;
    char full[NAME_MAX_LENGTH];
    struct pairs pairs;

    if (!bench_wants(bench, c->name)) return;
    full_name(bench, c->name, full);
    c->name = full;
    bench->rows++;
    bp_progress("%s", c->name);
    if (run_pairs(c, &pairs, bench->quick ? 7 : 31, bench->quick ? 0.05 : 1))
        bench_report(bench, c, &pairs);
    else bench_failed(bench, c->name);
}

uint32_t bench_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static void bench_print_table(const struct bench *bench, const char *device)
{
    printf("%s, %d thread%s; median and middle half of interleaved pairs\n", device, bench->threads,
           bench->threads > 1 ? "s" : "");
    printf("ratio: time over the reference's time, 1 is as fast, more is slower\n\n");
    bp_table_print(&bench->table, 2);
}

static int write_json(struct bench *bench, const char *device, const char *path)
{
    cJSON *root = cJSON_CreateObject();
    char *text;
    FILE *file;

    cJSON_AddStringToObject(root, "report", "bench");
    cJSON_AddNumberToObject(root, "format", 1);
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

static int bench_finish(struct bench *bench, const char *device, const char *json)
{
    if (!bench->rows && !bench->failed) {
        bp_complain("bench", "no row fits --filter; `bp bench %s --quick` shows them all", device);
        cJSON_Delete(bench->results);
        return BP_EXIT_USAGE;
    }
    if (!json || strcmp(json, "-")) bench_print_table(bench, device);
    if (json) return write_json(bench, device, json);
    cJSON_Delete(bench->results);
    return bench->failed ? BP_EXIT_FAILED : BP_EXIT_GOOD;
}

static void *bench_sleeper(void *closed)
{
    pthread_mutex_lock(closed);
    pthread_mutex_unlock(closed);
    return NULL;
}

/* Measures calls and memory in a process with one thread, and again beside another thread that
 * sleeps: locks and reference counts cost more as soon as there are two threads, in the C library
 * too. */
static void run_both(struct bench *bench)
{
    pthread_mutex_t closed = PTHREAD_MUTEX_INITIALIZER;
    pthread_t other;

    for (int i = 0; i < 2; i++) {
        if (i) {
            pthread_mutex_lock(&closed);
            if (pthread_create(&other, NULL, bench_sleeper, &closed)) break;
            bench->beside = true;
        }
        bench_calls(bench);
        bench_bridge(bench);
        bench_many(bench);
        bench_program(bench);
        bench_memory(bench);
    }
    pthread_mutex_unlock(&closed);
    if (bench->beside) pthread_join(other, NULL);
    bench->beside = false;
}

static int bench_run_row(struct bench *bench, struct bp_device *device, const char *json)
{
    static const char *const headings[] = {"what",  "median",      "unit", "middle half",
                                           "ratio", "middle half", "to"};
    struct bp_device_properties p = {.size = sizeof p};
    int status;

    bp_device_get_properties(device, &p);
    bench->machine = p.name;
    bench->results = cJSON_CreateArray();
    bp_table_init(&bench->table, 7, headings);
    run_both(bench);
    bench_compile(bench);
    bench_streams(bench);
    bench_copies(bench);
    bench_compute(bench);
    bp_progress("%s", "");
    status = bench_finish(bench, bp_device_name(device), json);
    bp_table_finish(&bench->table);
    return status;
}

enum {
    BENCH_THREADS = 4096
}; /* the most threads */

/* --threads, else BP_THREADS, else 1. Returns 0 after printing an error if the value is invalid. */
static int choose_threads(double option)
{
    const char *env = getenv("BP_THREADS");
    char *end;

    if (isnan(option) && env && *env) {
        option = strtod(env, &end);
        if (*end) option = 0;
    } else if (isnan(option)) {
        option = 1;
    }
    if (option >= 1 && option <= BENCH_THREADS && option == (double)(int)option) return (int)option;
    bp_complain("bench", "BP_THREADS=%s: expected a whole number from 1 to %d", env, BENCH_THREADS);
    return 0;
}

static int run_on(struct bench *bench, const char *name, const char *json)
{
    enum bp_status opened;
    char width[16];
    int status;

    snprintf(width, sizeof width, "%d", bench->threads);
    setenv("BP_THREADS", width, 1); /* before the core reads it and any library starts threads */
    bp_watch_begin("bench");
    bench->core = bp_tool_core("bench", NULL);
    if (!bench->core) return BP_EXIT_BROKEN;
    opened = bp_tool_device(bench->core, name, &bench->device);
    if (opened || bp_stream_create(bench->device, &bench->stream)) {
        bp_complain("bench", "%s", bp_error_message());
        status = opened ? bp_exit_of_device(opened) : BP_EXIT_FAILED;
    } else {
        bench->scope = bp_stream_scope(bench->stream);
        status = bench_run_row(bench, bench->device, json);
    }
    bp_stream_destroy(bench->stream);
    bp_device_destroy(bench->device);
    bp_core_destroy(bench->core);
    return status;
}

int bp_cmd_bench(int argc, char **argv)
{
    struct bench bench = {0};
    const char *word, *json = NULL;
    double threads = NAN;
    const struct bp_option options[] = {
        {"filter", 0, BP_OPTION_TEXTS, "GLOB", "only rows whose name fits; may be given again",
         &bench.filters},
        {"json", 0, BP_OPTION_OUTPUT, "FILE",
         "also write the results as JSON; - writes only that, to standard output", &json},
        {"quick", 0, BP_OPTION_FLAG, NULL, "fewer and shorter runs", &bench.quick},
        {"threads", 0, BP_OPTION_WHOLE, "N",
         "threads that a launch may use; default BP_THREADS, or 1", &threads, 1, BENCH_THREADS},
        {0},
    };
    const struct bp_usage usage = {
        "bench",
        "DEV",
        1,
        1,
        "Measures the cost of calls, memory and copies, and of matrix products and convolutions "
        "on a device, beside what they could cost at best. DEV is a name such as cpu:0, or the "
        "path of a plugin's .so. docs/bench.md says what each row is.",
        options};
    int status = bp_options_parse(&usage, argc, argv, &word);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!bp_word_fits_device("bench", word)) return BP_EXIT_NO_DEVICE;
    bench.threads = choose_threads(threads);
    return bench.threads ? run_on(&bench, word, json) : BP_EXIT_USAGE;
}
