/* SPDX-License-Identifier: Apache-2.0 */
/* run_profile.c: measures the time of each operator call of a model. Each call is waited for, so
 * the sum is more than a run takes. */
#include "run_model.h"
#include <stdlib.h>
#include <string.h>

/* The total of all calls of an operator. */
struct share {
    const char *op;
    uint64_t calls, bytes;
    double seconds;
};

struct shares {
    struct share *at;
    size_t n;
};

static void profile_count(struct shares *s, const char *op, uint64_t bytes, double seconds)
{
    size_t i = 0;

    while (i < s->n && strcmp(s->at[i].op, op)) i++;
    if (i == s->n) {
        s->at = realloc(s->at, ++s->n * sizeof *s->at);
        if (!s->at) abort();
        s->at[i] = (struct share){.op = op};
    }
    s->at[i].calls++;
    s->at[i].bytes += bytes;
    s->at[i].seconds += seconds;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct share *)a)->seconds, y = ((const struct share *)b)->seconds;

    return (x < y) - (x > y);
}

static void print_shares(struct shares *s, FILE *file)
{
    static const char *const headings[] = {"operator", "calls", "ms", "share", "bytes"};
    struct bp_table table;
    double all = 0;

    for (size_t i = 0; i < s->n; i++) all += s->at[i].seconds;
    if (s->n) qsort(s->at, s->n, sizeof *s->at, by_time);
    bp_table_init(&table, 5, headings);
    for (size_t i = 0; i < s->n; i++) {
        const struct share *a = &s->at[i];
        char *calls = bp_text_format("%llu", (unsigned long long)a->calls);
        char *ms = bp_text_format("%.3f", 1e3 * a->seconds);
        char *share = bp_text_format("%.1f %%", 100 * a->seconds / (all > 0 ? all : 1));
        char *bytes = bp_bytes_text(a->bytes);
        bp_table_row(&table, (const char *const[]){a->op, calls, ms, share, bytes}, NULL);
        free(calls);
        free(ms);
        free(share);
        free(bytes);
    }
    bp_table_write(&table, file, 0);
    bp_table_finish(&table);
}

static void add_event(cJSON *events, const struct run_walk *walk, const char *op, double ts,
                      uint64_t bytes)
{
    cJSON *event = cJSON_CreateObject(), *args = cJSON_CreateObject();

    bp_json_text(event, "name", walk->name);
    bp_json_text(event, "cat", op);
    bp_json_text(event, "ph", "X");
    cJSON_AddNumberToObject(event, "ts", 1e6 * ts);
    cJSON_AddNumberToObject(event, "dur", 1e6 * walk->seconds);
    cJSON_AddNumberToObject(event, "pid", 1);
    cJSON_AddNumberToObject(event, "tid", 1);
    cJSON_AddNumberToObject(args, "bytes", (double)bytes);
    cJSON_AddItemToObject(event, "args", args);
    cJSON_AddItemToArray(events, event);
}

static bool write_trace(cJSON *events, const char *path)
{
    cJSON *trace = cJSON_CreateObject();
    char *text;
    FILE *file;
    bool ok;

    cJSON_AddItemToObject(trace, "traceEvents", events);
    bp_json_text(trace, "displayTimeUnit", "ms");
    text = cJSON_PrintUnformatted(trace);
    file = fopen(path, "w");
    ok = file && text && fputs(text, file) >= 0;
    ok = (!file || !fclose(file)) && ok;
    cJSON_free(text);
    cJSON_Delete(trace);
    if (!ok) bp_complain("run", "%s can't be written", path);
    return ok;
}

static uint64_t profile_bytes_of(struct bp_tensor *const *t, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        if (t[i] && !bp_tensor_get_info(t[i], &info)) bytes += info.bytes;
    }
    return bytes;
}

/* One run through the model. */
struct profile {
    struct shares shares;
    cJSON *events;
    double begin;
};

static void add_call(struct run_walk *walk, const struct bp_watched *call)
{
    struct profile *p = walk->ctx;
    uint64_t bytes = profile_bytes_of(call->in, call->n_in) +
                     profile_bytes_of(call->out, call->n_out);

    profile_count(&p->shares, call->op->name, bytes, walk->seconds);
    add_event(p->events, walk, call->op->name, walk->begin - p->begin, bytes);
}

int run_profile(struct run_model *r, const char *path)
{
    struct profile p = {.events = NULL};
    struct run_walk walk = {.r = r, .after = add_call, .ctx = &p};
    bool ok = true;

    for (int round = 0; ok && round < 2; round++) { /* the first one also makes plans */
        cJSON_Delete(p.events);
        free(p.shares.at);
        p = (struct profile){.events = cJSON_CreateArray(), .begin = bench_now()};
        ok = run_walk(&walk);
    }
    if (ok) print_shares(&p.shares, r->output);
    free(p.shares.at);
    if (ok) return write_trace(p.events, path) ? BP_EXIT_GOOD : BP_EXIT_BROKEN;
    cJSON_Delete(p.events);
    return BP_EXIT_FAILED;
}
