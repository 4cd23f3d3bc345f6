/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: `bp report DEV`: one page about a device: what it supports, how accurate and how fast
 * it is, and what it lacks. The numbers are those of the JSON reports of `bp conform` and `bp
 * bench`, which run as processes of their own, because a plugin may crash. */
#include "device_report.h"

#include <earlier.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reporting {
    struct device_report d;
    const char *out, *json, *conform, *bench, *cpu, *last; /* paths */
    bool full;
    struct bp_texts filters; /* of cases */
    char folder[64];         /* of the reports of children; "" if there is none */
};

/* ---- reading reports ---- */

/* Whether a report of the kind of `run` can be compared with itself: then it has the right form. */
static bool report_check(compare_reports *run, const cJSON *json, const char *path)
{
    struct compare c = {.least = 1};
    char why[400] = "";
    bool good = json && !run(&c, json, json, why, sizeof why);

    if (!good) bp_complain("report", "%s: %s", path, *why ? why : "it holds no report");
    compare_finish(&c);
    return good;
}

static cJSON *report_read(compare_reports *run, const char *path)
{
    char why[1000];
    cJSON *json = earlier_parse(path, why, sizeof why);

    if (!json) bp_complain("report", "%s", why);
    else if (!report_check(run, json, path)) {
        cJSON_Delete(json);
        json = NULL;
    }
    return json;
}

/* Whether the report is one of the device: "cpu" is "cpu:0". A path says nothing of the name. */
static bool report_is_of(const cJSON *json, const char *device, const char *path)
{
    const char *name = bp_json_get(json, "device");
    size_t n = strlen(device);

    if (bp_word_is_path(device)) return true;
    if (!strncmp(name, device, n) && (!name[n] || !strcmp(name + n, ":0"))) return true;
    bp_complain("report", "%s: expected a report of %s, got one of %s", path, device, name);
    return false;
}

/* Reads the files that the command line names, before anything runs. */
static bool report_read_files(struct reporting *r)
{
    struct device_report *d = &r->d;

    if (r->conform && !(d->conform = report_read(compare_conform, r->conform))) return false;
    if (r->bench && !(d->bench = report_read(compare_bench, r->bench))) return false;
    if (r->cpu && !(d->cpu = report_read(compare_bench, r->cpu))) return false;
    if (r->last && !(d->last = report_read(compare_report, r->last))) return false;
    return (!d->conform || report_is_of(d->conform, d->device, r->conform)) &&
           (!d->bench || report_is_of(d->bench, d->device, r->bench)) &&
           (!d->cpu || report_is_of(d->cpu, "cpu", r->cpu));
}

/* ---- running the other commands ---- */

static char *report_path(struct reporting *r, const char *name)
{
    const char *tmp = getenv("TMPDIR");

    if (!*r->folder) {
        snprintf(r->folder, sizeof r->folder, "%.40s/bp-report-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(r->folder)) {
            bp_complain("report", "%s: %s", r->folder, strerror(errno));
            *r->folder = 0;
            return NULL;
        }
    }
    return bp_text_format("%s/%s", r->folder, name);
}

static int report_conform(struct reporting *r)
{
    char why[200], *path = report_path(r, "conform.json");
    const char *words[5 + 2 * sizeof r->filters.at / sizeof *r->filters.at] = {
        "conform", r->d.device, "--json", path};
    int status, n = 4;

    if (!path) return BP_EXIT_BROKEN;
    for (size_t i = 0; i < r->filters.n; i++) {
        words[n++] = "--filter";
        words[n++] = r->filters.at[i];
    }
    if (!r->full) words[n++] = "--quick";
    bp_progress("bp conform %s", r->d.device);
    status = device_report_child(words, why, sizeof why);
    bp_progress("%s", "");
    if (status <= BP_EXIT_FAILED) r->d.conform = report_read(compare_conform, path);
    else if (*why) bp_complain("report", "%s", why);
    free(path);
    if (r->d.conform) return BP_EXIT_GOOD;
    return status > BP_EXIT_FAILED ? status : BP_EXIT_BROKEN;
}

/* Measures a device. NULL: *out_missing says why. */
static cJSON *report_bench(struct reporting *r, const char *device, char **out_missing)
{
    char why[200] = "", *path = report_path(r, "bench.json");
    const char *words[] = {"bench", device, "--json", path, r->full ? NULL : "--quick", NULL};
    cJSON *json = NULL;
    int status;

    if (!path) return NULL;
    unlink(path);
    bp_progress("bp bench %s", device);
    status = device_report_child(words, why, sizeof why);
    bp_progress("%s", "");
    if (!access(path, R_OK)) json = report_read(compare_bench, path);
    if (!json)
        *out_missing = bp_text_format("bp bench %s measured nothing: %s", device,
                                      *why ? why : "it ended early");
    else if (status)
        *out_missing = bp_text_format("bp bench %s could not measure all rows: %s", device,
                                      *why ? why : "the device lacks kernels for them");
    free(path);
    return json;
}

static int report_collect(struct reporting *r)
{
    struct device_report *d = &r->d;
    int status = d->conform ? BP_EXIT_GOOD : report_conform(r);
    char why[400];

    if (status) return status;
    if (!device_cases_init(d, why, sizeof why)) {
        bp_complain("report", "%s: %s", r->conform ? r->conform : "bp conform", why);
        return BP_EXIT_USAGE;
    }
    if (!d->bench) d->bench = report_bench(r, d->device, &d->bench_missing);
    if (!d->cpu && strncmp(bp_json_get(d->conform, "device"), "cpu:", 4))
        d->cpu = report_bench(r, "cpu", &d->cpu_missing);
    return BP_EXIT_GOOD;
}

/* ---- output ---- */

/* This run as JSON: the reports as they are. The object refers to them. */
static cJSON *report_json_of(const struct device_report *d)
{
    cJSON *json = cJSON_CreateObject();

    cJSON_AddStringToObject(json, "report", "report");
    cJSON_AddNumberToObject(json, "format", 1);
    cJSON_AddStringToObject(json, "device", bp_json_get(d->conform, "device"));
    cJSON_AddItemReferenceToObject(json, "conform", d->conform);
    if (d->bench) cJSON_AddItemReferenceToObject(json, "bench", d->bench);
    if (d->cpu) cJSON_AddItemReferenceToObject(json, "cpu", d->cpu);
    return json;
}

static bool report_write(const char *path, const char *text, const struct device_report *d)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "w") : stdout;
    bool bad = !file;

    if (file) {
        if (text) fprintf(file, "%s\n", text);
        else device_report_html(d, file);
        bad = ferror(file) != 0;
        if (file != stdout) bad = fclose(file) || bad;
    }
    if (bad) bp_complain("report", "%s: %s", path, strerror(errno));
    return !bad;
}

static int report_finish(struct reporting *r)
{
    struct device_report *d = &r->d;
    cJSON *json = report_json_of(d);
    char *text = cJSON_PrintUnformatted(json), why[400];
    bool good = text != NULL;

    if (d->last) {
        d->since.device[0] = bp_text_clean(bp_json_get(d->last, "device"));
        d->since.device[1] = bp_text_clean(bp_json_get(json, "device"));
        compare_report(&d->since, d->last, json, why, sizeof why);
    }
    if (good && r->json) good = report_write(r->json, text, NULL);
    if (good && r->out) good = report_write(r->out, NULL, d);
    cJSON_free(text);
    cJSON_Delete(json);
    return good ? BP_EXIT_GOOD : BP_EXIT_BROKEN;
}

static void report_clean(struct reporting *r)
{
    static const char *const names[] = {"conform.json", "bench.json"};
    struct device_report *d = &r->d;

    for (int i = 0; *r->folder && i < 2; i++) {
        char *path = bp_text_format("%s/%s", r->folder, names[i]);
        unlink(path);
        free(path);
    }
    if (*r->folder) rmdir(r->folder);
    compare_finish(&d->since);
    device_cases_finish(d);
    cJSON_Delete(d->conform);
    cJSON_Delete(d->bench);
    cJSON_Delete(d->cpu);
    cJSON_Delete(d->last);
    free(d->bench_missing);
    free(d->cpu_missing);
}

int bp_cmd_report(int argc, char **argv)
{
    struct reporting r = {.d = {.since = {.least = 0.05}}};
    const struct bp_option options[] = {
        {"output", 'o', BP_OPTION_OUTPUT, "OUT.html", "write the page", &r.out},
        {"json", 0, BP_OPTION_OUTPUT, "FILE",
         "write the reports behind the page, for --last; - is standard output", &r.json},
        {"last", 0, BP_OPTION_TEXT, "FILE", "the --json of an earlier run, to compare with",
         &r.last},
        {"full", 0, BP_OPTION_FLAG, NULL,
         "run all of the suite and the whole benchmark, in place of --quick", &r.full},
        {"filter", 0, BP_OPTION_TEXTS, "GLOB", "run only cases whose id fits; may be given again",
         &r.filters},
        {"conform", 0, BP_OPTION_TEXT, "FILE", "a report of `bp conform DEV --json`; no run of it",
         &r.conform},
        {"bench", 0, BP_OPTION_TEXT, "FILE", "a report of `bp bench DEV --json`; no run of it",
         &r.bench},
        {"cpu-bench", 0, BP_OPTION_TEXT, "FILE", "a report of `bp bench cpu --json`; no run of it",
         &r.cpu},
        {0},
    };
    const struct bp_usage usage = {
        .command = "report",
        .words = "DEV",
        .min_words = 1,
        .max_words = 1,
        .about =
            "Writes one page about a device, which needs no network: support by operator and "
            "dtype, accuracy, speed beside the cpu and an earlier run, a roofline, and what "
            "the next level and most ONNX models need. docs/report.md explains it. Exit "
            "status: 0 the page is written, whatever it says; 2 wrong files, 3 no such device.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &r.d.device);

    if (status != BP_OPTIONS_GOOD) return status;
    if (!(r.conform && r.bench) && !bp_word_fits_device("report", r.d.device))
        return BP_EXIT_NO_DEVICE;
    if (!r.out && !r.json) {
        bp_complain("report", "there is nothing to write: add -o OUT.html, or --json FILE");
        return BP_EXIT_USAGE;
    }
    status = report_read_files(&r) ? report_collect(&r) : BP_EXIT_USAGE;
    if (!status) status = report_finish(&r);
    report_clean(&r);
    return status;
}
