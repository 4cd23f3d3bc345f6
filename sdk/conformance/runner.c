/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c: runs groups of cases in child processes, several at the same time. If a child ends
 * before the end of its group, the case that had begun gets the failure, and the cases after it run
 * in another child. */
#include "runner.h"
#include "child.h"
#include "case_fixture.h"
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    GROUP_LEAST = 160, /* cases in a group, if there are as many */
    GROUP_MOST = 4096, /* some devices need half a second before the first compilation */
    GROUPS = 8,        /* at least, for each job, because groups end at different times */
    JOBS = 64          /* at most */
};

void report_case_message(struct report_case *c, const char *format, ...)
{
    char *message = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&message, format, args) < 0) abort();
    va_end(args);
    free(c->message);
    c->message = message;
}

/* A group: entries first to last - 1 of run->order. All its cases are of one suite. */
struct group {
    size_t first, last;
};

/* The groups next to end - 1, which belong to one job. Jobs that have finished their own groups
 * take groups from the end. */
struct part {
    struct run *run;
    size_t next, end;
};

struct run {
    struct report *report;
    size_t *order; /* the cases that child processes run, as indices into report->at */
    struct group *group;
    size_t n_group;
    pthread_mutex_t lock; /* protects all members below, and outcomes while children run */
    struct part part[JOBS];
    uint32_t jobs;
    size_t done;
    size_t bad;
};

/* The state of one running child process. */
struct shift {
    struct run *run;
    size_t started; /* the case that has begun and not ended; SIZE_MAX: none */
    bool timed_out;
    char error[600];
};

static void show_progress(struct run *run, const char *id)
{
    const struct conform_options *o = run->report->options;
    char text[300];

    if (!o->progress) return;
    snprintf(text, sizeof text, "%zu of %zu, %zu wrong  %s", run->done, run->report->selected,
             run->bad, id);
    o->progress(text);
}

static void finish_case(struct run *run, struct report_case *c, enum outcome outcome)
{
    c->outcome = outcome;
    run->done++;
    run->bad += outcome_is_bad(outcome);
}

double runner_number_of(const cJSON *json, const char *key, double absent)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);

    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

/* Sets the missing features of a model; NULL: none. If a case runs again, the last result replaces
 * the earlier one. */
static void set_missing(struct report_case *c, const char *missing)
{
    free(c->missing);
    c->missing = missing ? strdup(missing) : NULL;
    if (missing && !c->missing) abort();
}

static void take_result(struct shift *s, size_t number, const cJSON *json)
{
    struct report_case *c = &s->run->report->at[number];
    const char *message = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "message"));
    const char *steps = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "steps"));
    const char *missing = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "missing"));
    double outcome = runner_number_of(json, "outcome", OUTCOME_COUNT);

    c->seconds = runner_number_of(json, "seconds", 0);
    c->worst = runner_number_of(json, "worst", -1);
    c->executed = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "executed"));
    c->refused = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, "refused"));
    report_case_message(c, "%s", message ? message : "");
    if (steps) report_case_steps(s->run->report, c, steps);
    set_missing(c, missing);
    finish_case(s->run, c,
                outcome >= 0 && outcome < OUTCOME_COUNT ? (enum outcome)outcome : OUTCOME_COUNT);
    s->started = SIZE_MAX;
}

static void runner_take_line(void *ctx, const char *line)
{
    struct shift *s = ctx;
    cJSON *json = cJSON_Parse(line);
    double start = runner_number_of(json, "start", -1), done = runner_number_of(json, "done", -1);
    const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "error"));

    pthread_mutex_lock(&s->run->lock);
    if (start >= 0 && start < (double)s->run->report->n) {
        s->started = (size_t)start;
        show_progress(s->run, s->run->report->at[s->started].id);
    } else if (done >= 0 && (size_t)done == s->started) {
        take_result(s, s->started, json);
    } else if (cJSON_HasObjectItem(json, "timeout")) {
        s->timed_out = true;
    } else if (error) {
        snprintf(s->error, sizeof s->error, "%s", error);
    }
    pthread_mutex_unlock(&s->run->lock);
    cJSON_Delete(json);
}

/* The end of a child's output, where messages of assertions and sanitizers are. */
static const char *last_output(const struct bp_child_result *result)
{
    const char *text = result->output && *result->output ? result->output : "(no output)";
    size_t size = strlen(text);

    return size > 500 ? text + size - 500 : text;
}

static void runner_attribute(struct shift *s, size_t number, const struct bp_child_result *result)
{
    struct report_case *c = &s->run->report->at[number];
    const char *row = strchr(c->id, '@');
    bool timed_out = s->timed_out || result->end == BP_CHILD_TIMEOUT;
    char how[200];

    bp_child_describe(result, how, sizeof how);
    c->seconds = result->seconds;
    c->executed = c->row >= 0;
    if (s->timed_out)
        report_case_message(c, "not done after %.3g s%s%s", s->run->report->options->timeout_s,
                            row ? " in kernel " : "", row ? row + 1 : "");
    else
        report_case_message(c, "%s%s%s; last output: %s", how, row ? " in kernel " : "",
                            row ? row + 1 : "", last_output(result));
    finish_case(s->run, c, timed_out ? OUTCOME_TIMEOUT : OUTCOME_CRASH);
}

/* Whether a case directly follows another one, both by its index and by its position in the
 * unit. */
static bool is_next(const struct run *run, size_t case_, size_t after)
{
    const struct report_case *c = &run->report->at[case_], *a = &run->report->at[after];

    return case_ == after + 1 && c->unit == a->unit && c->at == a->at + 1;
}

/* Formats entries of the order as the argument CASES of child_mode.c. The caller frees the text. */
static char *cases_text(const struct run *run, size_t first, size_t last)
{
    char *text = malloc((last - first) * 80 + 1);
    size_t used = 0;

    if (!text) abort();
    *text = 0;
    for (size_t i = first; i < last; i++) {
        size_t from = i;
        const struct report_case *c = &run->report->at[run->order[i]];
        while (i + 1 < last && is_next(run, run->order[i + 1], run->order[i])) i++;
        used += (size_t)sprintf(text + used, "%s%d:%d:%zu:%zu", used ? "," : "", c->unit, c->at,
                                run->order[from], i + 1 - from);
    }
    return text;
}

/* Called after a child has ended without results for entry `at` and the following ones. Returns the
 * first entry that must still run. */
static size_t runner_settle(struct shift *s, size_t first, size_t at, size_t last,
                            const struct bp_child_result *result)
{
    struct run *run = s->run;
    struct report_case *c = at < last ? &run->report->at[run->order[at]]
                                      : &run->report->at[run->order[last - 1]];

    if (result->end == BP_CHILD_NOT_RUN)
        return last; /* no results: the report shows that the suite is broken */
    if (at == last) {
        if ((result->end == BP_CHILD_EXITED && result->code == 0) || outcome_is_bad(c->outcome))
            return last;
        char how[200];
        bp_child_describe(result, how, sizeof how);
        c->outcome = result->end == BP_CHILD_TIMEOUT ? OUTCOME_TIMEOUT : OUTCOME_CRASH;
        report_case_message(
            c, "after the last case of its group, as the device was closed: %s; last output: %s",
            how, last_output(result));
        return last;
    }
    /* A child that ended before its only case had begun ended because of this case or of the setup
     * that the case needs. */
    if (s->started != run->order[at] && last - first > 1) return at;
    if (!*s->error) {
        runner_attribute(s, run->order[at], result);
    } else {
        report_case_message(c, "the device could not be opened again: %s", s->error);
        finish_case(run, c, OUTCOME_FAIL);
    }
    return at + 1;
}

/* Builds "NAME=...", which makes a sanitizer return NULL for an allocation that is too large, as
 * the system does, instead of ending the process. */
static void add_sanitizer_option(const char *name, char *text, size_t size)
{
    const char *before = getenv(name);

    snprintf(text, size, "%s=%s:allocator_may_return_null=1", name, before ? before : "");
}

/* Runs a group, or the rest of one, in one child process. Returns the first entry that the child
 * did not reach, or group.last. */
static size_t run_child(struct run *run, struct group group)
{
    size_t first = group.first, last = group.last;
    const struct conform_options *o = run->report->options;
    char seed[32], timeout[32], asan[400], tsan[400];
    char *cases = cases_text(run, first, last);
    const char *argv[] = {o->self,
                          o->command,
                          CONFORM_CHILD,
                          o->data ? o->data : "",
                          "run",
                          o->device,
                          run->report->library,
                          run->report->manifest,
                          seed,
                          timeout,
                          o->dump ? o->dump : "",
                          cases,
                          NULL};
    /* Children share the processors. OpenMP threads that spin while they wait for each other would
     * take processor time from other children. */
    const char *wait = getenv("OMP_WAIT_POLICY") ? NULL : "OMP_WAIT_POLICY=passive";
    const char *env[] = {asan, tsan, wait, NULL};
    struct shift shift = {run, SIZE_MAX, false, ""};
    struct bp_child child = {.argv = argv, .env = env, .report = runner_take_line, .ctx = &shift};
    struct bp_child_result result;
    size_t at = first;

    snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->seed);
    add_sanitizer_option("ASAN_OPTIONS", asan, sizeof asan);
    add_sanitizer_option("TSAN_OPTIONS", tsan, sizeof tsan);
    snprintf(timeout, sizeof timeout, "%.0f", o->timeout_s * 1000);
    child.timeout_ns = (uint64_t)((o->timeout_s * (double)(last - first) + 30) * 1e9);
    bp_child_run(&child, &result);
    pthread_mutex_lock(&run->lock);
    while (at < last && run->report->at[run->order[at]].outcome != OUTCOME_COUNT) at++;
    at = runner_settle(&shift, first, at, last, &result);
    pthread_mutex_unlock(&run->lock);
    bp_child_finish(&result);
    free(cases);
    return at;
}

static bool runner_waits(const struct report_case *c)
{
    return c->selected && c->outcome == OUTCOME_COUNT;
}

static void run_group(struct run *run, struct group group)
{
    size_t at = group.first;

    while (at < group.last) {
        size_t first = at;
        if (runner_waits(&run->report->at[run->order[at]]))
            at = run_child(run, (struct group){at, group.last});
        else at++;
        if (at == first) at = run_child(run, (struct group){at, at + 1});
    }
}

/* Takes the next group of the job's own part, or else the last group of the part with the most
 * remaining groups. Returns false if none is left. */
static bool take_group(struct part *own, size_t *out)
{
    struct run *run = own->run;
    struct part *most = own;

    pthread_mutex_lock(&run->lock);
    for (uint32_t j = 0; j < run->jobs && own->next == own->end; j++)
        if (run->part[j].end - run->part[j].next > most->end - most->next) most = &run->part[j];
    bool any = most->next < most->end;
    if (any) *out = most == own ? most->next++ : --most->end;
    pthread_mutex_unlock(&run->lock);
    return any;
}

static void *runner_work(void *ctx)
{
    struct part *part = ctx;
    size_t mine;

    while (take_group(part, &mine)) run_group(part->run, part->run->group[mine]);
    return NULL;
}

static void make_groups(struct run *run, size_t max)
{
    struct report *r = run->report;
    size_t n = 0;

    run->group = calloc(r->n + 1, sizeof *run->group);
    run->order = calloc(r->n + 1, sizeof *run->order);
    if (!run->group || !run->order) abort();
    for (size_t i = 0; i < r->n; i++) {
        struct group *g = run->n_group ? &run->group[run->n_group - 1] : NULL;
        const struct report_case *before = n ? &r->at[run->order[n - 1]] : NULL;
        if (!runner_waits(&r->at[i])) continue;
        /* Each case of the suite plugin needs a process that has not loaded the plugin. */
        if (g && n - g->first < max && r->at[i].suite != SUITE_PLUGIN &&
            before->suite == r->at[i].suite)
            g->last = n + 1;
        else run->group[run->n_group++] = (struct group){n, n + 1};
        run->order[n++] = i;
    }
}

/* Jobs begin at distant groups of the list, because a device compiles the same programs for
 * neighbouring cases. */
static void run_groups(struct run *run)
{
    uint32_t jobs = run->report->options->jobs, started = 0;
    pthread_t thread[JOBS];

    run->jobs = jobs < 1 ? 1 : jobs > JOBS ? JOBS : jobs;
    for (uint32_t j = 0; j < run->jobs; j++)
        run->part[j] = (struct part){run, run->n_group * j / run->jobs,
                                     run->n_group * (j + 1) / run->jobs};
    while (started + 1 < run->jobs &&
           !pthread_create(&thread[started], NULL, runner_work, &run->part[started + 1]))
        started++;
    runner_work(&run->part[0]);
    while (started) pthread_join(thread[--started], NULL);
}

static bool comes_before(const struct report_case *c, const struct listed *l)
{
    return c->unit < l->unit || (c->unit == l->unit && c->at < l->at);
}

/* Runs all cases but those of the suite `plugin` in this process, for debuggers. A crash of a case
 * ends the whole run. */
static int run_here(struct run *run)
{
    struct report *r = run->report;
    struct fixture fixture = {.seed = r->options->seed, .dump = r->options->dump};
    struct list list;
    int status = fixture_init(&fixture, r->options->device, r->library, r->manifest, true);

    if (status) return status;
    list_init(&list, &fixture, LIST_ALL, &r->wanted);
    for (size_t i = 0, n = 0; i < list.n; i++) {
        const struct listed *l = &list.at[i];
        struct report_case *c;
        struct result result;
        while (n < r->n && comes_before(&r->at[n], l)) n++;
        c = n < r->n ? &r->at[n] : NULL;
        if (!c || c->unit != l->unit || c->at != l->at) continue;
        if (!runner_waits(c) || c->suite == SUITE_PLUGIN) continue;
        show_progress(run, c->id);
        listed_run(&fixture, l, &result);
        c->seconds = result.seconds;
        c->worst = result.worst;
        c->executed = result.executed;
        c->refused = result.refused;
        report_case_message(c, "%s", result.message);
        report_case_steps(r, c, result.steps);
        finish_case(run, c, result.outcome);
    }
    list_finish(&list);
    fixture_finish(&fixture);
    return 0;
}

static size_t group_size(const struct report *r)
{
    uint32_t jobs = r->options->jobs;
    size_t share = r->selected / (GROUPS * (jobs ? jobs : 1));

    if (r->options->isolate != CONFORM_GROUP) return 1;
    return share < GROUP_LEAST ? GROUP_LEAST : share > GROUP_MOST ? GROUP_MOST : share;
}

void runner_run(struct report *report)
{
    struct run run = {.report = report};

    pthread_mutex_init(&run.lock, NULL);
    report->selected = 0;
    for (size_t i = 0; i < report->n; i++) report->selected += report->at[i].selected;
    if (report->options->isolate == CONFORM_NONE) run_here(&run);
    make_groups(&run, group_size(report));
    run_groups(&run);
    if (report->options->progress) report->options->progress("");
    free(run.group);
    free(run.order);
    pthread_mutex_destroy(&run.lock);
}
