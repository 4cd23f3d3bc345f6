/* SPDX-License-Identifier: Apache-2.0 */
/* conform.c: one run of the suite: lists the cases, selects and runs them, writes the reports. */
#include "conform.h"
#include "earlier.h"
#include "expect.h"
#include "runner.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Writes a message to standard error, behind "bp conform: ". */
static void conform_complain(const struct conform_options *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void conform_complain(const struct conform_options *o, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "bp %s: ", o->command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

static bool conform_check_options(const struct conform_options *o)
{
    if (o->require && level_find(o->require) == LEVEL_COUNT) {
        conform_complain(o, "there is no level '%s'; levels: runtime core inference training ccl\n",
                         o->require);
        return false;
    }
    if (o->shards && (o->shard < 1 || o->shard > o->shards)) {
        conform_complain(o, "shard %u of %u: expected 1 to %u\n", o->shard, o->shards, o->shards);
        return false;
    }
    if (o->times && !o->shards) {
        conform_complain(o, "--times divides the cases of --shard I/N, which is not given\n");
        return false;
    }
    for (const char *at = o->suites; at && *at; at += strcspn(at, ","), at += *at == ',') {
        int suite = 0;
        size_t n = strcspn(at, ",");
        while (suite < SUITE_COUNT && (strlen(suite_name((enum suite)suite)) != n ||
                                       strncmp(at, suite_name((enum suite)suite), n)))
            suite++;
        if (suite < SUITE_COUNT) continue;
        conform_complain(o,
                         "there is no suite '%.*s'; suites: plugin runtime memory kernel "
                         "gradient ccl stress\n",
                         (int)n, at);
        return false;
    }
    return true;
}

static bool conform_fits(const struct selection *s, const struct report_case *c)
{
    return selection_has(s, c->suite) && (!s->quick || c->quick || c->fixed) &&
           selection_fits(s, c->id);
}

/* The reports of earlier runs that the options name. */
struct reports {
    struct earlier baseline, times;
};

/* Marks the cases that are to run; returns their number. */
static size_t select_cases(struct report *r, const struct earlier *times)
{
    const struct conform_options *o = r->options;
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < r->n; i++) {
        r->at[i].selected = conform_fits(&r->wanted, &r->at[i]);
        if (!r->at[i].selected) continue;
        /* Shard i gets every shards-th case, so that each shard has cases of all kernel rows. */
        if (o->shards && !o->times && n++ % o->shards != o->shard - 1) r->at[i].selected = false;
        kept += r->at[i].selected;
    }
    if (o->shards && o->times) kept = earlier_shard(times, r, o->shard, o->shards);
    return kept;
}

static void expect_before(struct report *r, struct expectations *e)
{
    for (size_t i = 0; i < r->n; i++) {
        struct expectation *found = expectation_of(e, r->at[i].id);
        if (!r->at[i].selected || r->at[i].fixed || !found || found->outcome != OUTCOME_SKIP)
            continue;
        r->at[i].outcome = OUTCOME_SKIP;
        r->at[i].expected = true;
        found->applied = true;
        report_case_message(&r->at[i], "%s", found->reason);
    }
}

static void expect_after(struct report *r, struct expectations *e)
{
    for (size_t i = 0; i < r->n; i++) {
        struct expectation *found = expectation_of(e, r->at[i].id);
        if (r->at[i].selected && !r->at[i].fixed && found && found->outcome != OUTCOME_SKIP)
            expectation_apply(found, &r->at[i]);
    }
}

/* Text such as "Linux 6.1 x86_64, 2 processors, AMD EPYC". */
static char *machine_text(void)
{
    struct utsname name;
    char line[256], model[160] = "", *text = NULL;
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %159[^\n]", model) == 1) break;
    if (file) fclose(file);
    uname(&name);
    if (asprintf(&text, "%s %s %s, %ld processors%s%s", name.sysname, name.release, name.machine,
                 sysconf(_SC_NPROCESSORS_ONLN), *model ? ", " : "", model) < 0)
        abort();
    return text;
}

static bool write_report(const struct report *r, const char *path,
                         void (*write)(const struct report *, FILE *))
{
    FILE *file;
    bool bad;

    if (!path) return true;
    file = strcmp(path, "-") ? fopen(path, "w") : fdopen(dup(1), "w");
    if (file) {
        write(r, file);
        bad = ferror(file) != 0;
        if (!fclose(file) && !bad) return true;
    }
    conform_complain(r->options, "%s: %s\n", path, strerror(errno));
    return false;
}

static void report_finish(struct report *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->at[i].id);
        free(r->at[i].message);
        free(r->at[i].missing);
        free(r->at[i].step);
    }
    for (size_t i = 0; i < r->n_row; i++) free(r->row[i].name);
    for (size_t i = 0; i < r->n_expired; i++) free(r->expired[i]);
    free(r->expired);
    free(r->at);
    free(r->row);
    free(r->within);
    free(r->missing);
    free(r->device);
    free(r->description);
    free(r->driver);
    free(r->library);
    free(r->manifest);
    free(r->machine);
}

static double conform_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs the selected cases and writes the reports. */
static int run_selected(struct report *r, struct expectations *e, const struct earlier *baseline)
{
    const struct conform_options *o = r->options;
    double begin = conform_now();
    bool written;

    if (o->dump && mkdir(o->dump, 0777) && errno != EEXIST) {
        conform_complain(o, "%s: %s\n", o->dump, strerror(errno));
        return 2;
    }
    expect_before(r, e);
    runner_run(r);
    expect_after(r, e);
    if (o->expect) expectations_judge(e, r, o->expect);
    if (o->baseline) earlier_apply(baseline, r);
    r->seconds = conform_now() - begin;
    report_judge(r);
    if (!o->json || strcmp(o->json, "-")) report_text(r, stdout);
    fflush(stdout);
    written = write_report(r, o->json, report_json);
    written = write_report(r, o->junit, report_junit) && written;
    written = write_report(r, o->html, report_html) && written;
    if (r->broken || !written) return 4;
    if (o->require && r->level < level_find(o->require)) {
        conform_complain(o, "level %s is required, %s is reached: %s\n", o->require,
                         level_name(r->level), r->level_reason);
        return 1;
    }
    return report_is_good(r) ? 0 : 1;
}

/* Continues a run after its cases were listed; returns the exit status. */
static int run_listed(struct report *r, struct expectations *e, const struct reports *reports)
{
    const struct conform_options *o = r->options;
    struct expectations none = {0};

    if (!r->lost && !select_cases(r, &reports->times)) {
        conform_complain(o, "no case of %s fits; `--list` prints all\n", r->device);
        return 2;
    }
    if (o->list) {
        for (size_t i = 0; i < r->n; i++)
            if (r->at[i].selected) printf("%s\n", r->at[i].id);
        return 0;
    }
    if (r->lost) return run_selected(r, &none, &reports->baseline);
    if (o->expect && !expectations_check(e, r, o->expect)) return 2;
    return run_selected(r, e, &reports->baseline);
}

/* Reads the reports of earlier runs. */
static bool conform_read_reports(const struct conform_options *o, struct reports *reports)
{
    char why[1000];

    if (o->baseline && !earlier_read(&reports->baseline, o->baseline, why, sizeof why)) {
        conform_complain(o, "--baseline %s\n", why);
        return false;
    }
    if (o->times && !earlier_read(&reports->times, o->times, why, sizeof why)) {
        conform_complain(o, "--times %s\n", why);
        return false;
    }
    if (o->baseline && strcmp(reports->baseline.device, o->device) &&
        strncmp(reports->baseline.device, o->device, strlen(o->device)))
        conform_complain(o, "warning: the baseline is of %s, this run is of %s\n",
                         reports->baseline.device, o->device);
    return true;
}

int conform_run(const struct conform_options *options)
{
    struct conform_options o = *options;
    struct report report = {.options = &o,
                            .wanted = {o.suites, o.filters, o.n_filters, o.quick},
                            .device = strdup(o.device),
                            .description = strdup(""),
                            .driver = strdup(""),
                            .library = strdup(""),
                            .manifest = strdup(""),
                            .machine = machine_text()};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct expectations e = {0};
    struct reports reports = {{0}, {0}};
    char text[1000];
    int status;

    if (o.timeout_s <= 0) o.timeout_s = 60;
    if (!o.jobs) o.jobs = processors < 1 ? 1 : processors > 4 ? 4 : (uint32_t)processors;
    /* The file is read first, because listing the cases of a device takes time. */
    if (!conform_check_options(&o) || !conform_read_reports(&o, &reports) ||
        (o.expect && !o.list && !expectations_init(&e, o.expect, o.command))) {
        status = 2;
        goto finish;
    }
    status = runner_list(&report, text, sizeof text);
    if (status) conform_complain(&o, "%s\n", text);
    else status = run_listed(&report, &e, &reports);
finish:
    expectations_finish(&e);
    earlier_finish(&reports.baseline);
    earlier_finish(&reports.times);
    report_finish(&report);
    return status;
}
