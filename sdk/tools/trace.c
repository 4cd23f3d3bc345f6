/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c: `bp trace`: turns the file of a profiler into a trace for Perfetto and Chromium, a
 * table, JSON or a page. */
#include "trace.h"

#include <errno.h>
#include <string.h>

int bp_trace_write(struct bp_profile *profile, const char *command, const char *path,
                   int (*write)(struct bp_profile *profile, FILE *file))
{
    FILE *file = strcmp(path, "-") ? fopen(path, "w") : stdout;
    int status;

    if (!file) {
        bp_complain(command, "%s cannot be written: %s", path, strerror(errno));
        return BP_EXIT_BROKEN;
    }
    status = write(profile, file);
    if (file != stdout && fclose(file) && !status) {
        bp_complain(command, "%s cannot be written: %s", path, strerror(errno));
        status = BP_EXIT_BROKEN;
    }
    return status;
}

void bp_trace_warn(struct bp_profile *profile, const char *command)
{
    struct bp_profile_info info = {.size = sizeof info};

    bp_profile_get_info(profile, &info);
    if (!info.is_finished)
        bp_complain(command, "the process ended before its profiler, or still runs: the profile "
                             "has the events until then");
    if (info.lost)
        bp_complain(command, "%llu events are missing, because they found no room",
                    (unsigned long long)info.lost);
    if (info.late || info.misdated)
        bp_complain(command,
                    "%llu records of plugins are missing: %llu came after the end, %llu "
                    "had impossible times",
                    (unsigned long long)(info.late + info.misdated), (unsigned long long)info.late,
                    (unsigned long long)info.misdated);
}

int bp_cmd_trace(int argc, char **argv)
{
    const char *out = NULL, *html = NULL, *json = NULL, *by = NULL, *perfetto = NULL, *words[1];
    bool table = false;
    double rows = 30;
    const struct bp_option options[] = {
        {"output", 'o', BP_OPTION_OUTPUT, "FILE",
         "write a trace for Perfetto and chrome://tracing; - is standard output", &out},
        {"perfetto", 0, BP_OPTION_OUTPUT, "FILE",
         "write a protobuf trace for Perfetto, which is smaller", &perfetto},
        {"html", 0, BP_OPTION_OUTPUT, "FILE", "write a page that needs no network", &html},
        {"table", 0, BP_OPTION_FLAG, NULL, "print tables, as without options", &table},
        {"by", 0, BP_OPTION_TEXT, "WORD",
         "what a row of the table is: op, kernel, node, thread or range (default: op)", &by},
        {"rows", 0, BP_OPTION_WHOLE, "N", "how many rows to print (default: 30)", &rows, 1, 1e6},
        {"json", 0, BP_OPTION_OUTPUT, "FILE", "write all tables as JSON, for bp compare", &json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "trace",
        .words = "FILE",
        .min_words = 1,
        .max_words = 1,
        .about = "Shows a profile, which `bp profile` or BP_PROFILE=FILE has recorded: where the "
                 "time went, how busy the devices were, and why they were idle. docs/profiling.md "
                 "says more.",
        .options = options,
    };
    struct bp_profile *profile;
    int status = bp_options_parse(&usage, argc, argv, words);

    if (status != BP_OPTIONS_GOOD) return status;
    if (by && !bp_trace_is_by(by)) {
        bp_complain("trace", "--by wants op, kernel, node, thread or range, got '%s'", by);
        return BP_EXIT_USAGE;
    }
    enum bp_status opened = bp_profile_open(*words, &profile);
    if (opened) {
        bp_complain("trace", "%s", bp_error_message());
        return opened == BP_ERR_MEMORY ? BP_EXIT_BROKEN : BP_EXIT_USAGE;
    }
    bp_trace_warn(profile, "trace");
    status = BP_EXIT_GOOD;
    if (out) status = bp_trace_write(profile, "trace", out, bp_trace_chrome);
    if (perfetto && !status) status = bp_trace_write(profile, "trace", perfetto, bp_trace_perfetto);
    if (html && !status) status = bp_trace_write(profile, "trace", html, bp_trace_html);
    if (json && !status) status = bp_trace_write(profile, "trace", json, bp_trace_json);
    if (!status && (table || by || (!out && !perfetto && !html && !json)))
        status = bp_trace_table(profile, by ? by : "op", (uint32_t)rows);
    bp_profile_destroy(profile);
    return status;
}
