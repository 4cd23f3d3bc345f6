/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_bench.c: `bp ccl-bench`: how long collective calls take, by size. It starts itself as the
 * ranks of a job, unless a launcher has. */
#include "tools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 21 };

struct bench {
    const char *device_name;
    double ranks, most;
    const char *json;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_comm *comm;
    uint32_t rank, size;
    cJSON *results;
};

/* Of one size. x, y: of the part of one rank; all: one for each rank. */
struct buffers {
    struct bp_tensor *x, *y, *x_all, *y_all;
};

static const uint32_t calls[] = {BP_COMM_BARRIER,        BP_COMM_ALL_REDUCE, BP_COMM_BROADCAST,
                                 BP_COMM_ALL_GATHER, BP_COMM_REDUCE_SCATTER, BP_COMM_ALL_TO_ALL};
static const char *const names[] = {"barrier", "all_reduce", "broadcast", "all_gather",
                                    "reduce_scatter", "all_to_all"};
enum { CALLS = sizeof calls / sizeof *calls };

static bool has_parts(uint32_t call)
{
    return call == BP_COMM_ALL_GATHER || call == BP_COMM_REDUCE_SCATTER ||
           call == BP_COMM_ALL_TO_ALL;
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static enum bp_status do_call(const struct bench *b, uint32_t call, const struct buffers *m)
{
    switch (call) {
    case BP_COMM_ALL_REDUCE:
        return bp_comm_all_reduce(b->comm, b->stream, m->x, m->y, BP_REDUCE_SUM);
    case BP_COMM_BROADCAST: return bp_comm_broadcast(b->comm, b->stream, m->x, m->x, 0);
    case BP_COMM_ALL_GATHER: return bp_comm_all_gather(b->comm, b->stream, m->x, m->y_all);
    case BP_COMM_REDUCE_SCATTER:
        return bp_comm_reduce_scatter(b->comm, b->stream, m->x_all, m->y, BP_REDUCE_SUM);
    case BP_COMM_ALL_TO_ALL: return bp_comm_all_to_all(b->comm, b->stream, m->x_all, m->y_all);
    default: return bp_comm_barrier(b->comm, b->stream);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median time of a call, in microseconds; NaN: one failed, and it was printed why. */
static double time_call(const struct bench *b, uint32_t call, const struct buffers *m, int times)
{
    double runs[RUNS];

    for (int i = -1; i < RUNS; i++) {
        enum bp_status status = bp_comm_barrier(b->comm, b->stream);
        double begin = now_us();
        for (int j = 0; j < times && !status; j++) status = do_call(b, call, m);
        if (!status) status = bp_stream_synchronize(b->stream);
        if (status) {
            bp_complain("ccl-bench", "%s", bp_error_message());
            return NAN;
        }
        if (i >= 0) runs[i] = (now_us() - begin) / times;
    }
    qsort(runs, RUNS, sizeof *runs, compare);
    return runs[RUNS / 2];
}

static bool make(const struct bench *b, int64_t n, struct bp_tensor **out)
{
    void *zeros = calloc((size_t)n, sizeof(float));
    bool made = zeros && !bp_tensor_create(b->device, BP_F32, 1, &n, out) &&
                !bp_tensor_write(b->stream, *out, zeros, (uint64_t)n * sizeof(float));

    free(zeros);
    if (!made) bp_complain("ccl-bench", "%s", bp_error_message());
    return made;
}

static void print_result(struct bench *b, int c, uint64_t bytes, double us)
{
    uint64_t part = has_parts(calls[c]) ? bytes / b->size : bytes;
    const char *algorithm = bp_comm_algorithm(b->comm, calls[c], part);
    cJSON *row;

    if (b->rank) return;
    if (!b->json || strcmp(b->json, "-"))
        printf("%-15s %10llu B %12.2f us %9.3f GB/s  %s\n", names[c], (unsigned long long)bytes,
               us, (double)bytes / us / 1e3, algorithm);
    fflush(stdout);
    row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", names[c]);
    cJSON_AddNumberToObject(row, "bytes", (double)bytes);
    cJSON_AddNumberToObject(row, "value", us);
    cJSON_AddStringToObject(row, "unit", "us");
    cJSON_AddStringToObject(row, "algorithm", algorithm);
    cJSON_AddItemToArray(b->results, row);
}

static bool measure_size(struct bench *b, uint64_t bytes)
{
    struct buffers m = {NULL};
    int64_t n = (int64_t)(bytes / sizeof(float)), part;
    int times = bytes <= 4096 ? 20 : bytes <= 65536 ? 5 : 1;
    bool good = true;

    for (int c = bytes > 4; c < CALLS && good; c++) { /* a barrier has no size */
        double us;
        part = has_parts(calls[c]) ? (n + b->size - 1) / b->size : n;
        good = make(b, part, &m.x) && make(b, part, &m.y) && make(b, part * b->size, &m.x_all) &&
               make(b, part * b->size, &m.y_all);
        us = good ? time_call(b, calls[c], &m, times) : NAN;
        good = !isnan(us);
        if (good) print_result(b, c, bytes, us);
        bp_tensor_destroy(m.x);
        bp_tensor_destroy(m.y);
        bp_tensor_destroy(m.x_all);
        bp_tensor_destroy(m.y_all);
        m = (struct buffers){NULL};
    }
    return good;
}

static bool write_json(const struct bench *b)
{
    cJSON *all = cJSON_CreateObject();
    bool to_output = !strcmp(b->json, "-");
    FILE *file = to_output ? stdout : fopen(b->json, "w");
    char *text;

    cJSON_AddStringToObject(all, "device", b->device_name);
    cJSON_AddNumberToObject(all, "ranks", b->size);
    cJSON_AddItemToObject(all, "results", cJSON_Duplicate(b->results, true));
    text = cJSON_Print(all);
    if (file) fprintf(file, "%s\n", text);
    if (file && !to_output) fclose(file);
    if (!file) bp_complain("ccl-bench", "%s cannot be written", b->json);
    cJSON_free(text);
    cJSON_Delete(all);
    return file;
}

static int be_rank(struct bench *b)
{
    struct bp_comm_id id;
    bool good;

    b->core = bp_tool_core("ccl-bench", NULL);
    if (!b->core) return BP_EXIT_BROKEN;
    if (bp_device_create(b->core, b->device_name, &b->device)) {
        bp_complain("ccl-bench", "%s", bp_error_message());
        bp_core_destroy(b->core);
        return BP_EXIT_NO_DEVICE;
    }
    b->results = cJSON_CreateArray();
    good = !bp_stream_create(b->device, &b->stream) &&
           !bp_comm_id_of_job(&id, &b->rank, &b->size) &&
           !bp_comm_create(b->device, &id, b->rank, b->size, &b->comm);
    if (!good) bp_complain("ccl-bench", "%s", bp_error_message());
    for (uint64_t bytes = 4; good && (double)bytes <= b->most; bytes *= 4)
        good = measure_size(b, bytes);
    if (good && !b->rank && b->json) good = write_json(b);
    cJSON_Delete(b->results);
    bp_comm_destroy(b->comm);
    bp_stream_destroy(b->stream);
    bp_device_destroy(b->device);
    bp_core_destroy(b->core);
    return good ? BP_EXIT_GOOD : BP_EXIT_FAILED;
}

/* As bp launch does: the ranks find in their environment that they are some. */
static int start_ranks(double ranks, int argc, char **argv)
{
    char **words = calloc((size_t)argc + 6, sizeof *words), count[16];
    int n = 0, status;

    if (!words) return BP_EXIT_BROKEN;
    snprintf(count, sizeof count, "%d", (int)ranks);
    words[n++] = (char[]){"launch"};
    words[n++] = (char[]){"-n"};
    words[n++] = count;
    words[n++] = (char[]){"--plain"};
    words[n++] = (char[]){"/proc/self/exe"};
    words[n++] = (char[]){"ccl-bench"};
    for (int i = 1; i < argc; i++) words[n++] = argv[i];
    status = bp_cmd_launch(n, words);
    free(words);
    return status;
}

int bp_cmd_ccl_bench(int argc, char **argv)
{
    struct bench b = {.device_name = "cpu", .ranks = 2, .most = 16 << 20};
    struct bp_job job = {.size = sizeof job};
    const struct bp_option options[] = {
        {"device", 0, BP_OPTION_TEXT, "DEV", "of each rank (default: cpu)", &b.device_name},
        {"ranks", 'n', BP_OPTION_NUMBER, "N", "how many to start (default: 2)", &b.ranks},
        {"most", 0, BP_OPTION_NUMBER, "BYTES", "the largest size (default: 16777216)", &b.most},
        {"json", 0, BP_OPTION_TEXT, "FILE", "write results as JSON; - is standard output", &b.json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "ccl-bench",
        .about = "Measures collective calls between ranks that it starts, or that a launcher has: "
                 "medians of 21 turns on f32, by bytes of the larger buffer. GB/s are those bytes "
                 "by that time.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, NULL);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!(b.ranks >= 1 && b.ranks <= 256 && b.ranks == (double)(int)b.ranks) ||
        !(b.most >= 4 && b.most <= 1e12)) {
        bp_complain("ccl-bench", "expected --ranks from 1 to 256 and --most from 4");
        return BP_EXIT_USAGE;
    }
    if (bp_job_find(&job) == BP_ERR_NOT_FOUND) return start_ranks(b.ranks, argc, argv);
    return be_rank(&b);
}
