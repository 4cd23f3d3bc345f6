/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_test.c: `bp onnx-test`: runs a folder of ONNX's test models on a device. */
#include "onnx_cases.h"
#include "tools.h"

#include <backplane/model.h>
#include <fnmatch.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_show(const char *text)
{
    bp_progress("%s", text);
}

/* One line of the file of expectations. The text behind the outcome is the reason. */
struct entry {
    const char *path, *pattern, *reason;
    int line;
};

static bool test_refuse(const struct entry *e, const char *id, const char *what, const char *detail)
{
    bp_complain("onnx-test", "%s:%d: %s: %s%s", e->path, e->line, id, what, detail);
    return false;
}

/* Checks an entry for a model with wrong data. The entry must name one model, with the sum of its
 * files, so that it does not excuse another model that fails. */
static bool check_data(const struct onnx_cases *cases, size_t i, const struct entry *e,
                       const char *id)
{
    char sum[24];

    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)onnx_cases_sum(cases, i));
    if (strcmp(e->pattern, id))
        return test_refuse(e, id, "an entry with \"data:\" names one model, without wildcards", "");
    if (!strncmp(e->reason + strlen("data:"), sum, strlen(sum))) return true;
    return test_refuse(e, id, "the entry was written for other files; the sum of these is ", sum);
}

/* Whether one of the lines begins with the reason, and the reason contains the full name of the
 * missing feature. */
static bool names_missing(const char *reason, const char *lines)
{
    size_t length = strlen(reason), begin;

    for (const char *line = lines; *line; line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        if (length >= onnx_missing_name(line, &begin) && length <= n &&
            !strncmp(line, reason, length))
            return true;
        line += n;
    }
    return false;
}

/* Checks that an entry states a missing operator or type as a line of bp_model_missing begins. An
 * entry for a model that misses no feature would hide a defect, unless it states an error in the
 * model's data: "data:SUM ...". */
static bool check_entry(const struct onnx_cases *cases, const struct entry *e)
{
    bool ok = true;

    for (size_t i = 0; i < cases->n; i++) {
        char *id = bp_text_format("onnx/%s", cases->id[i]), *model, missing[1024] = "";
        if (!fnmatch(e->pattern, id, FNM_NOESCAPE)) {
            model = onnx_cases_model(cases, i);
            if (bp_model_missing(model, missing, sizeof missing))
                ok = test_refuse(e, id, bp_error_message(), "") && ok;
            else if (*missing)
                ok = (names_missing(e->reason, missing) ||
                      test_refuse(e, id, "the reason names nothing that is missing: ", missing)) &&
                     ok;
            else if (!strncmp(e->reason, "data:", 5)) ok = check_data(cases, i, e, id) && ok;
            else ok = test_refuse(e, id, "all its operators and types are there", "") && ok;
            free(model);
        }
        free(id);
    }
    return ok;
}

static bool check_expectations(const struct onnx_cases *cases, const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char *line = NULL, pattern[256];
    size_t size = 0;
    bool ok = true;

    for (int n = 1; file && getline(&line, &size, file) >= 0; n++) {
        struct entry e = {.path = path, .pattern = pattern, .line = n};
        int reason = 0;
        line[strcspn(line, "\r\n")] = 0;
        if (sscanf(line, " %255s %*s %n", pattern, &reason) < 1 || *pattern == '#') continue;
        e.reason = line + reason; /* a line without a reason is reported when it is used */
        ok = (!reason || check_entry(cases, &e)) && ok;
    }
    free(line);
    if (file) fclose(file); /* an unreadable file is reported when it is used */
    return ok;
}

static int test_child(int argc, char **argv)
{
    struct onnx_cases cases;
    int status;

    if (argc < 1 || !onnx_cases_init(&cases, argv[0])) return BP_EXIT_BROKEN;
    conform_bring(&cases.cases);
    status = conform_child(argc - 1, argv + 1);
    onnx_cases_finish(&cases);
    return status;
}

static int test_folder(struct conform_options *o)
{
    struct onnx_cases cases;
    char self[PATH_MAX] = "";
    int status = BP_EXIT_USAGE;

    if (!onnx_cases_init(&cases, o->data)) return BP_EXIT_USAGE;
    conform_bring(&cases.cases);
    o->self = self;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        bp_complain("onnx-test", "/proc is not mounted: the suite cannot start itself");
        status = BP_EXIT_BROKEN;
    } else if (check_expectations(&cases, o->expect)) status = conform_run(o);
    onnx_cases_finish(&cases);
    return status;
}

int bp_cmd_onnx_test(int argc, char **argv)
{
    struct conform_options o = {.command = "onnx-test", .device = "cpu:0", .progress = test_show};
    struct bp_texts filters = {0};
    double jobs = NAN;
    const struct bp_option options[] = {
        {"device", 0, BP_OPTION_TEXT, "DEV", "where (default cpu:0)", &o.device},
        {"filter", 0, BP_OPTION_TEXTS, "GLOB",
         "only models whose id fits, as onnx/node/test_abs; may be given again", &filters},
        {"list", 0, BP_OPTION_FLAG, NULL, "print the ids and run none", &o.list},
        {"expect", 0, BP_OPTION_TEXT, "FILE", "which need what is not there, with reasons",
         &o.expect},
        {"junit", 0, BP_OPTION_OUTPUT, "FILE", "write a JUnit report", &o.junit},
        {"json", 0, BP_OPTION_OUTPUT, "FILE",
         "write a JSON report; - is standard output, and all it gets", &o.json},
        {"jobs", 'j', BP_OPTION_WHOLE, "N",
         "processes at once (default: one for each processor, at most 4)", &jobs, 1, 64},
        {0},
    };
    const struct bp_usage usage = {
        .command = "onnx-test",
        .words = "DIR",
        .min_words = 1,
        .max_words = 1,
        .about = "Runs the ONNX models below DIR, each with its inputs, and compares their "
                 "outputs: KIND/NAME/model.onnx, test_data_set_N/input_I.pb and output_I.pb. "
                 "Nothing falls back to another device or dtype.",
        .options = options,
    };

    if (argc > 1 && !strcmp(argv[1], CONFORM_CHILD)) return test_child(argc - 2, argv + 2);
    int status = bp_options_parse(&usage, argc, argv, &o.data);
    if (status != BP_OPTIONS_GOOD) return status;
    o.jobs = isnan(jobs) ? 0 : (uint32_t)jobs;
    o.filters = filters.at;
    o.n_filters = filters.n;
    return test_folder(&o);
}
