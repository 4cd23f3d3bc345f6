/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_bench.c: `bp ccl-bench`: measures collective calls by size, beside Open MPI on the same ranks
 * if that is installed. It starts itself as the ranks of a job, unless a launcher already has. */
#include "ccl_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 10001 };

struct command {
    struct ccl_bench bench;
    const char *device_name;
    double ranks, least, most, turns;
    struct bp_texts calls;
    const char *json;
    bool alone, table;
    const char *why_alone; /* why Open MPI is not measured; NULL: it is */
    struct bp_core *core;
    cJSON *results;
};

/* Whether standard output is for people, and this rank prints to it. */
static bool ccl_bench_prints(const struct command *c)
{
    return !c->bench.rank && !(c->json && !strcmp(c->json, "-"));
}

static void print_head(const struct command *c)
{
    const struct ccl_bench *b = &c->bench;

    if (!ccl_bench_prints(c)) return;
    printf("%u ranks of %s, f32, medians of %d turns; %s%s\n", b->size, c->device_name, b->turns,
           c->why_alone ? "not beside Open MPI: " : "beside ",
           c->why_alone ? c->why_alone : ccl_mpi_version(b->mpi));
    printf("%-14s %10s %11s %8s %8s", "call", "bytes", "us", "GB/s", "of limit");
    if (b->beside) printf(" %11s %6s", "Open MPI us", "ratio");
    printf("  algorithm\n");
}

static const char *ccl_bench_number(char text[16], const char *format, double value)
{
    if (isnan(value)) snprintf(text, 16, "-");
    else snprintf(text, 16, format, value);
    return text;
}

static void ccl_bench_add(cJSON *row, const char *key, double value)
{
    if (!isnan(value)) cJSON_AddNumberToObject(row, key, value);
}

static void ccl_bench_report(struct command *c, const struct ccl_call *call, uint64_t bytes,
                             const struct ccl_times *times)
{
    const struct ccl_bench *b = &c->bench;
    uint64_t part = ccl_has_parts(call) ? bytes / b->size : bytes;
    const char *algorithm = bp_comm_algorithm(b->comm, call->id, part);
    char t[4][16];
    cJSON *row;

    if (b->rank) return;
    if (ccl_bench_prints(c)) {
        printf("%-14s %10llu %11.2f %8s %8s", call->name, (unsigned long long)bytes, times->ours,
               ccl_bench_number(t[0], "%.3f", bytes ? (double)bytes / times->ours / 1e3 : NAN),
               ccl_bench_number(t[1], "%.2f", times->limit / times->ours));
        if (b->beside)
            printf(" %11s %6s", ccl_bench_number(t[2], "%.2f", times->mpi),
                   ccl_bench_number(t[3], "%.2f", times->ours / times->mpi));
        printf("  %s\n", algorithm);
        fflush(stdout);
    }
    row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", call->name);
    cJSON_AddNumberToObject(row, "bytes", (double)bytes);
    cJSON_AddNumberToObject(row, "value", times->ours);
    cJSON_AddStringToObject(row, "unit", "us");
    ccl_bench_add(row, "limit", times->limit);
    ccl_bench_add(row, "open_mpi", times->mpi);
    cJSON_AddStringToObject(row, "algorithm", algorithm);
    cJSON_AddItemToArray(c->results, row);
}

static bool ccl_bench_wanted(const struct command *c, const struct ccl_call *call)
{
    for (size_t i = 0; i < c->calls.n; i++)
        if (!strcmp(c->calls.at[i], call->name)) return true;
    return !c->calls.n;
}

/* A barrier has no size, and a single rank has no other rank to send to. */
static bool measure_all(struct command *c)
{
    for (size_t i = 0; i < n_ccl_calls; i++) {
        const struct ccl_call *call = &ccl_calls[i];
        bool sized = call->src;
        uint64_t bytes = sized ? (uint64_t)c->least : 0;
        struct ccl_times times;

        if (!ccl_bench_wanted(c, call) || (call->id == BP_COMM_SEND && c->bench.size < 2)) continue;
        do {
            if (!ccl_measure(&c->bench, call, bytes, &times)) return false;
            ccl_bench_report(c, call, bytes, &times);
            bytes *= 4;
        } while (sized && (double)bytes <= c->most);
    }
    return true;
}

/* The last size from `first` on, up to limit, for which a call uses the same algorithm as for
 * `first`. */
static uint64_t last_alike(const struct ccl_bench *b, const struct ccl_call *call, uint64_t first,
                           uint64_t limit)
{
    const char *algorithm = bp_comm_algorithm(b->comm, call->id, first);
    uint64_t low = first, high = first;

    while (high < limit && !strcmp(bp_comm_algorithm(b->comm, call->id, high), algorithm)) {
        low = high;
        high = 2 * high < limit ? 2 * high + 1 : limit;
    }
    if (!strcmp(bp_comm_algorithm(b->comm, call->id, high), algorithm)) return high;
    while (low + 1 < high) {
        uint64_t middle = low + (high - low) / 2;
        if (strcmp(bp_comm_algorithm(b->comm, call->id, middle), algorithm)) high = middle;
        else low = middle;
    }
    return low;
}

/* Prints the algorithm of each call, by bytes of one rank's part. */
static void ccl_bench_print_table(const struct command *c)
{
    const uint64_t limit = UINT64_C(1) << 40;
    const struct ccl_bench *b = &c->bench;

    if (b->rank) return;
    printf("%-14s %13s  algorithm\n", "call", "bytes up to");
    for (size_t i = 0; i < n_ccl_calls; i++) {
        const struct ccl_call *call = &ccl_calls[i];
        uint64_t first = 0, last;
        if (!ccl_bench_wanted(c, call)) continue;
        do {
            last = call->src ? last_alike(b, call, first, limit) : limit;
            if (last == limit) printf("%-14s %13s", call->name, "any");
            else printf("%-14s %13llu", call->name, (unsigned long long)last);
            printf("  %s\n", bp_comm_algorithm(b->comm, call->id, first));
            first = last + 1;
        } while (last < limit);
    }
}

static bool write_json(const struct command *c)
{
    cJSON *all = cJSON_CreateObject();
    bool to_output = !strcmp(c->json, "-");
    FILE *file = to_output ? stdout : fopen(c->json, "w");
    char *text;

    cJSON_AddStringToObject(all, "device", c->device_name);
    cJSON_AddNumberToObject(all, "ranks", c->bench.size);
    cJSON_AddNumberToObject(all, "turns", c->bench.turns);
    cJSON_AddStringToObject(all, "beside", c->why_alone ? "" : ccl_mpi_version(c->bench.mpi));
    if (c->why_alone) cJSON_AddStringToObject(all, "why_alone", c->why_alone);
    cJSON_AddItemToObject(all, "results", cJSON_Duplicate(c->results, true));
    text = cJSON_Print(all);
    if (file) fprintf(file, "%s\n", text);
    if (file && !to_output) fclose(file);
    if (!file) bp_complain("ccl-bench", "%s cannot be written", c->json);
    cJSON_free(text);
    cJSON_Delete(all);
    return file;
}

/* Creates the communicator, with an id from the launcher, or sent by Open MPI, which also joins
 * ranks of several machines. */
static bool ccl_bench_join(struct ccl_bench *b)
{
    struct bp_comm_id id = {""};
    enum bp_status status = BP_OK;

    if (b->mpi) {
        ccl_mpi_rank(b->mpi, &b->rank, &b->size);
        if (!b->rank) status = bp_comm_id_create(&id);
        if (!status) ccl_mpi_share_id(b->mpi, &id);
    } else {
        status = bp_comm_id_of_job(&id, &b->rank, &b->size);
    }
    return !status && !bp_comm_create(b->device, &id, b->rank, b->size, &b->comm);
}

/* Open MPI's calls use host memory only, so the host must be able to access the device's memory. */
static void see_memory(struct command *c)
{
    struct ccl_bench *b = &c->bench;
    const int64_t n = 1;
    struct bp_tensor *t = NULL;
    void *data;

    b->beside = b->mpi && !bp_tensor_create(b->device, BP_F32, 1, &n, &t) &&
                !bp_tensor_map(t, &data);
    bp_tensor_destroy(t);
    if (b->mpi && !b->beside) c->why_alone = "the host does not reach the device's memory";
}

static int measure_here(struct command *c)
{
    struct ccl_bench *b = &c->bench;
    enum bp_status opened;
    bool good;

    c->core = bp_tool_core("ccl-bench", NULL);
    if (!c->core) return BP_EXIT_BROKEN;
    opened = bp_device_create(c->core, c->device_name, &b->device);
    if (opened) {
        bp_complain("ccl-bench", "%s", bp_error_message());
        return bp_exit_of_device(opened);
    }
    see_memory(c);
    good = !bp_stream_create(b->device, &b->stream) && ccl_bench_join(b);
    if (!good) {
        bp_complain("ccl-bench", "%s", bp_error_message());
        return BP_EXIT_FAILED;
    }
    if (c->table) {
        ccl_bench_print_table(c);
        return bp_comm_barrier(b->comm, b->stream) ? BP_EXIT_FAILED : BP_EXIT_GOOD;
    }
    print_head(c);
    good = measure_all(c);
    if (good && !b->rank && c->json) good = write_json(c);
    return good ? BP_EXIT_GOOD : BP_EXIT_FAILED;
}

static int be_rank(struct command *c)
{
    struct ccl_bench *b = &c->bench;
    int status;

    if (!c->alone) b->mpi = ccl_mpi_create(&c->why_alone);
    c->results = cJSON_CreateArray();
    status = measure_here(c);
    cJSON_Delete(c->results);
    bp_comm_destroy(b->comm);
    bp_stream_destroy(b->stream);
    bp_device_destroy(b->device);
    bp_core_destroy(c->core);
    ccl_mpi_destroy(b->mpi, !status);
    return status;
}

/* Starts the ranks as `bp launch` does; they recognize from their environment that they are
 * ranks. */
static int start_ranks(const struct command *c, int argc, char **argv)
{
    char **words, count[16];
    const char *reason;
    int n = 0, status;

    if (!c->alone && !c->table && ccl_mpi_is_there(&reason))
        return ccl_mpi_launch((int)c->ranks, argc, argv);
    words = calloc((size_t)argc + 6, sizeof *words);
    if (!words) return BP_EXIT_BROKEN;
    snprintf(count, sizeof count, "%d", (int)c->ranks);
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

/* Checks the options; prints the accepted values if one is invalid. */
static bool ccl_bench_check(const struct command *c)
{
    if (c->least > c->most) {
        bp_complain("ccl-bench", "--least is %.15g, more than --most, %.15g", c->least, c->most);
        return false;
    }
    for (size_t i = 0; i < c->calls.n; i++) {
        size_t j = 0;
        while (j < n_ccl_calls && strcmp(ccl_calls[j].name, c->calls.at[i])) j++;
        if (j < n_ccl_calls) continue;
        bp_complain("ccl-bench", "no such call: '%s'; there are barrier, all_reduce, all_gather, "
                                 "reduce_scatter, broadcast, all_to_all, reduce, gather, scatter, "
                                 "send", c->calls.at[i]);
        return false;
    }
    return true;
}

int bp_cmd_ccl_bench(int argc, char **argv)
{
    struct command c = {.device_name = "cpu", .ranks = 2, .least = 4, .most = 256 << 20,
                        .turns = 21, .why_alone = "--alone was given"};
    struct bp_job job = {.size = sizeof job};
    const struct bp_option options[] = {
        {"device", 0, BP_OPTION_TEXT, "DEV", "of each rank (default: cpu)", &c.device_name},
        {"ranks", 'n', BP_OPTION_WHOLE, "N", "how many to start (default: 2)", &c.ranks, 1, 256},
        {"call", 0, BP_OPTION_TEXTS, "NAME", "only this call; may be given again", &c.calls},
        {"least", 0, BP_OPTION_WHOLE, "BYTES", "the smallest size (default: 4)", &c.least, 4, 1e12},
        {"most", 0, BP_OPTION_WHOLE, "BYTES", "the largest size (default: 268435456)", &c.most, 4,
         1e12},
        {"turns", 0, BP_OPTION_WHOLE, "N", "how often each is measured (default: 21)", &c.turns, 1,
         TURNS_MAX},
        {"table", 0, BP_OPTION_FLAG, NULL, "print how each call is done, and measure nothing",
         &c.table},
        {"alone", 0, BP_OPTION_FLAG, NULL, "not beside Open MPI", &c.alone},
        {"json", 0, BP_OPTION_OUTPUT, "FILE", "write results as JSON; - is standard output",
         &c.json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "ccl-bench",
        .about = "Measures collective calls between ranks that it starts, or that a launcher has: "
                 "the time of the slowest rank, medians of turns on f32, by bytes of the larger "
                 "buffer. GB/s are those bytes by that time. Of limit: how much of it the bytes "
                 "take that each rank has to read and write whatever the algorithm, when all copy "
                 "as many at once. Open MPI's calls are made in turns with ours by the same ranks "
                 "on the same buffers, where mpirun is installed and the host reaches the "
                 "device's memory.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, NULL);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!ccl_bench_check(&c)) return BP_EXIT_USAGE;
    c.bench.turns = (int)c.turns;
    if (bp_job_find(&job) == BP_ERR_NOT_FOUND) return start_ranks(&c, argc, argv);
    return be_rank(&c);
}
