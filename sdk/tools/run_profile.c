/* SPDX-License-Identifier: Apache-2.0 */
/* run_profile.c: measures the time of each launch of a model's compiled program, or, if runs do not
 * launch from one, of each operator call, which is waited for. The sum is more than a run takes. */
#include "run_model.h"
#include <stdlib.h>
#include <string.h>

enum {
    NODES_SHOWN = 20,
    ROUNDS_MAX = 20
};
static const double rounds_s = 0.5; /* no further round begins after this time */

/* The total of all calls of an operator, or of a node. */
struct share {
    const char *name, *op; /* op: of a node's first call */
    uint64_t calls;
    double bytes, flops, seconds;
    double roof; /* seconds that the peak of the device allows */
};

struct shares {
    struct share *at;
    size_t n;
};

/* One run through the model. */
struct profile {
    struct shares ops, nodes;
    struct run_roof peak;
    cJSON *events;
    double begin, seconds; /* seconds: the sum of all calls */
};

/* A call that has run. */
struct profiled {
    const char *node, *op;
    double begin, seconds, bytes, flops;
};

/* The seconds that a call takes at least, if the device moves its bytes and does its operations at
 * its peak, at the same time. */
static double roof_seconds(const struct run_roof *peak, const struct profiled *call)
{
    double moves = peak->bytes > 0 ? call->bytes / peak->bytes : 0;
    double works = peak->flops > 0 ? call->flops / peak->flops : 0;

    return moves > works ? moves : works;
}

static void profile_count(struct shares *s, const char *name, const struct profiled *call,
                          double roof)
{
    struct share *a;
    size_t i = 0;

    while (i < s->n && strcmp(s->at[i].name, name)) i++;
    if (i == s->n) {
        s->at = realloc(s->at, ++s->n * sizeof *s->at);
        if (!s->at) abort();
        s->at[i] = (struct share){.name = name, .op = call->op};
    }
    a = &s->at[i];
    a->calls++;
    a->bytes += call->bytes;
    a->flops += call->flops;
    a->seconds += call->seconds;
    a->roof += roof;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const struct share *)a)->seconds, y = ((const struct share *)b)->seconds;

    return (x < y) - (x > y);
}

/* A rate, or "-" if it is not known. The caller frees it. */
static char *rate_text(double amount, double seconds, double unit, const char *after)
{
    if (!(amount > 0) || !(seconds > 0)) return bp_text_format("-");
    return bp_text_format("%.1f%s", amount / seconds / unit, after);
}

/* The cells behind the name, and the operator of a node. */
static void print_share(struct bp_table *table, const struct share *a, double all, bool is_node)
{
    char *cell[9] = {bp_text_format("%.60s", a->name)};
    int n = 1;

    cell[n++] = is_node ? bp_text_format("%s", a->op)
                        : bp_text_format("%llu", (unsigned long long)a->calls);
    cell[n++] = bp_text_format("%.3f", 1e3 * a->seconds);
    cell[n++] = bp_text_format("%.1f %%", 100 * a->seconds / (all > 0 ? all : 1));
    cell[n++] = bp_bytes_text((uint64_t)a->bytes);
    cell[n++] = rate_text(a->bytes, a->seconds, 1e9, "");
    cell[n++] = rate_text(a->flops, a->seconds, 1e9, "");
    cell[n++] = rate_text(a->roof, a->seconds, 0.01, " %");
    bp_table_row(table, (const char *const *)cell, NULL);
    while (n) free(cell[--n]);
}

static void print_shares(struct shares *s, bool is_node, FILE *file)
{
    const char *const headings[] = {is_node ? "node" : "operator", is_node ? "operator" : "calls",
                                    "ms", "share", "bytes", "GB/s", "GFLOP/s", "roof"};
    struct bp_table table;
    double all = 0;

    for (size_t i = 0; i < s->n; i++) all += s->at[i].seconds;
    if (s->n) qsort(s->at, s->n, sizeof *s->at, by_time);
    bp_table_init(&table, sizeof headings / sizeof *headings, headings);
    for (size_t i = 0; i < s->n && (!is_node || i < NODES_SHOWN); i++)
        print_share(&table, &s->at[i], all, is_node);
    bp_table_write(&table, file, 0);
    bp_table_finish(&table);
}

static void print_profile(struct profile *p, FILE *file)
{
    print_shares(&p->ops, false, file);
    fprintf(file, "\n");
    print_shares(&p->nodes, true, file);
    if (p->nodes.n > NODES_SHOWN)
        fprintf(file, "and %zu nodes that take less\n", p->nodes.n - NODES_SHOWN);
    fprintf(file, "\nroof: the share of the peak that the bytes or operations allow: %.1f GB/s, "
            "%.1f GFLOP/s\n", 1e-9 * p->peak.bytes, 1e-9 * p->peak.flops);
}

static void add_event(cJSON *events, const struct profiled *call, double ts)
{
    cJSON *event = cJSON_CreateObject(), *args = cJSON_CreateObject();

    bp_json_text(event, "name", call->node);
    bp_json_text(event, "cat", call->op);
    bp_json_text(event, "ph", "X");
    cJSON_AddNumberToObject(event, "ts", 1e6 * ts);
    cJSON_AddNumberToObject(event, "dur", 1e6 * call->seconds);
    cJSON_AddNumberToObject(event, "pid", 1);
    cJSON_AddNumberToObject(event, "tid", 1);
    cJSON_AddNumberToObject(args, "bytes", call->bytes);
    if (call->flops > 0) cJSON_AddNumberToObject(args, "flops", call->flops);
    cJSON_AddItemToObject(event, "args", args);
    cJSON_AddItemToArray(events, event);
}

static void profile_add(struct profile *p, const struct profiled *call)
{
    double roof = roof_seconds(&p->peak, call);

    p->seconds += call->seconds;
    profile_count(&p->ops, call->op, call, roof);
    profile_count(&p->nodes, call->node, call, roof);
    add_event(p->events, call, call->begin - p->begin);
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

/* A call that ran node by node. */
static void add_call(struct run_walk *walk, const struct bp_watched *call)
{
    struct profiled seen = {walk->name, call->op->name, walk->begin, walk->seconds, 0, 0};

    seen.bytes = (double)(profile_bytes_of(call->in, call->n_in) +
                          profile_bytes_of(call->out, call->n_out));
    profile_add(walk->ctx, &seen);
}

/* A launch of the program. */
static void add_launch(void *ctx, const struct bp_watched_launch *launch)
{
    const struct bp_launch_info *info = launch->info;
    double seconds = 1e-9 * (double)launch->ns;
    struct profiled seen = {info->node, info->op, bench_now() - seconds, seconds,
                            (double)(info->read + info->written), (double)info->flops};

    profile_add(ctx, &seen);
}

/* Finds the program whose launches runs of this stream and these inputs make; NULL: they go node by
 * node, or the device records them. */
static struct bp_program *find_program(struct run_model *r)
{
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *program = run_find_program(r);

    if (program && (bp_program_compile(program) || bp_program_get_info(program, &info) ||
                    info.records))
        program = NULL;
    return program;
}

/* Runs the model once, from its program if there is one. */
static bool profile_run(struct run_model *r, struct profile *p, struct bp_program *program)
{
    struct run_walk walk = {.r = r, .after = add_call, .ctx = p};
    double seconds;
    bool ok;

    if (!program) return run_walk(&walk);
    if (bp_program_watch(program, add_launch, p)) return run_failed("watch");
    ok = run_model_once(r, &seconds);
    (void)bp_program_watch(program, NULL, NULL); /* cannot fail for a valid program */
    if (!ok || cJSON_GetArraySize(p->events)) return ok;
    return run_walk(&walk); /* the run went node by node, for example since inputs overlap */
}

static void profile_clear(struct profile *p)
{
    cJSON_Delete(p->events);
    free(p->ops.at);
    free(p->nodes.at);
    *p = (struct profile){.peak = p->peak};
}

/* Runs the model several times, and keeps the round whose calls took the least time in all. The
 * first round also makes plans, and does not count. */
static bool profile_rounds(struct run_model *r, struct profile *best)
{
    struct bp_program *program = find_program(r);
    double begin = bench_now();
    bool ok = true;

    for (int round = 0; ok && round < ROUNDS_MAX; round++) {
        struct profile p = {.peak = best->peak, .begin = bench_now()};
        if (round > 1 && p.begin - begin > rounds_s) break;
        p.events = cJSON_CreateArray();
        ok = profile_run(r, &p, program);
        if (ok && round && (round == 1 || p.seconds < best->seconds)) {
            struct profile old = *best;
            *best = p;
            p = old;
        }
        profile_clear(&p);
    }
    return ok;
}

int run_profile(struct run_model *r, const struct run_words *w)
{
    struct profile p = {.peak = w->peak};
    int status = BP_EXIT_FAILED;

    if (!w->roof) run_measure_roof(r, &p.peak);
    if (profile_rounds(r, &p)) {
        print_profile(&p, r->output);
        status = write_trace(p.events, w->profile) ? BP_EXIT_GOOD : BP_EXIT_BROKEN;
        p.events = NULL;
    }
    profile_clear(&p);
    return status;
}
