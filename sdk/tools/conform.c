/* SPDX-License-Identifier: Apache-2.0 */
/* conform.c: `bp conform`: parses the command line and runs the conformance suite on a device. */
#include "tools.h"

#include <conform.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The options of the command line that need further parsing. */
struct words {
    const char *device, *shard, *isolate, *seed;
    struct bp_texts filters;
    double jobs, timeout;
};

static void conform_show(const char *text)
{
    bp_progress("%s", text);
}

static bool read_shard(const char *text, struct conform_options *o)
{
    char *end;
    unsigned long i = strtoul(text, &end, 10), n = *end == '/' ? strtoul(end + 1, &end, 10) : 0;

    if (*end || i < 1 || i > n || n > 1000000) {
        bp_complain("conform", "--shard %s: expected I/N with I from 1 to N, such as 2/4", text);
        return false;
    }
    o->shard = (uint32_t)i;
    o->shards = (uint32_t)n;
    return true;
}

static bool read_isolate(const char *text, struct conform_options *o)
{
    static const char *const name[] = {
        [CONFORM_GROUP] = "group", [CONFORM_CASE] = "case", [CONFORM_NONE] = "none"};

    for (int i = 0; i < 3; i++)
        if (!strcmp(text, name[i])) {
            o->isolate = (enum conform_isolate)i;
            return true;
        }
    bp_complain("conform", "--isolate %s: expected case, group or none", text);
    return false;
}

static bool read_seed(const char *text, struct conform_options *o)
{
    char *end;

    o->seed = strtoull(text, &end, 10);
    /* Reports contain the seed as a number, and every JSON parser can hold integers up to 2^53. */
    if (*text >= '0' && *text <= '9' && !*end && o->seed <= (UINT64_C(1) << 53)) return true;
    bp_complain("conform", "--seed %s: expected a number from 0 to 2^53", text);
    return false;
}

static bool read_words(const struct words *w, struct conform_options *o)
{
    if (w->shard && !read_shard(w->shard, o)) return false;
    if (w->isolate && !read_isolate(w->isolate, o)) return false;
    if (w->seed && !read_seed(w->seed, o)) return false;
    o->device = w->device;
    o->jobs = isnan(w->jobs) ? 0 : (uint32_t)w->jobs;
    o->timeout_s = w->timeout;
    o->filters = w->filters.at;
    o->n_filters = w->filters.n;
    return true;
}

int bp_cmd_conform(int argc, char **argv)
{
    struct conform_options o = {.command = "conform", .progress = conform_show};
    struct words w = {.jobs = NAN}; /* NaN: the option was not given */
    char self[PATH_MAX] = "", *here = NULL;
    const struct bp_option options[] = {
        {"suite", 0, BP_OPTION_TEXT, "S,..",
         "of plugin, runtime, memory, kernel, gradient, ccl, pass, graph, stress",
         &o.suites},
        {"filter", 0, BP_OPTION_TEXTS, "GLOB",
         "only cases whose id fits; !GLOB: only others; may be given again", &w.filters},
        {"shard", 0, BP_OPTION_TEXT, "I/N", "only part I of N", &w.shard},
        {"quick", 0, BP_OPTION_FLAG, NULL, "only some cases of each kind", &o.quick},
        {"list", 0, BP_OPTION_FLAG, NULL, "print the ids of the cases and run none", &o.list},
        {"require", 0, BP_OPTION_TEXT, "LEVEL", "fail unless this level is reached", &o.require},
        {"expect", 0, BP_OPTION_TEXT, "FILE", "what is known to fail, with reasons", &o.expect},
        {"baseline", 0, BP_OPTION_TEXT, "FILE",
         "an earlier JSON report: only failures that it does not have fail the run", &o.baseline},
        {"times", 0, BP_OPTION_TEXT, "FILE",
         "an earlier JSON report: parts of --shard take about the same time", &o.times},
        {"junit", 0, BP_OPTION_OUTPUT, "FILE", "write a JUnit report", &o.junit},
        {"json", 0, BP_OPTION_OUTPUT, "FILE",
         "write a JSON report; - is standard output, and all it gets", &o.json},
        {"html", 0, BP_OPTION_OUTPUT, "FILE", "write a report as one page", &o.html},
        {"note", 0, BP_OPTION_TEXT, "TEXT",
         "text that the reports show beside the device, such as the place of the run", &o.note},
        {"dump", 0, BP_OPTION_FOLDER, "DIR", "write arrays of failing kernel cases as .npy",
         &o.dump},
        {"isolate", 0, BP_OPTION_TEXT, "HOW",
         "a process for each group (default), each case, or none", &w.isolate},
        {"jobs", 'j', BP_OPTION_WHOLE, "N",
         "processes at once (default: one for each processor, at most 4)", &w.jobs, 1, 64},
        {"seed", 0, BP_OPTION_TEXT, "N", "of the inputs (default 0)", &w.seed},
        {"timeout", 0, BP_OPTION_NUMBER, "SECONDS", "that one case may take (default 60)",
         &w.timeout, 0, 86400},
        {0},
    };
    const struct bp_usage usage = {
        .command = "conform",
        .words = "DEV",
        .min_words = 1,
        .max_words = 1,
        .about = "Tests a device: a name such as cpu:0, or the path of a plugin's .so. Every "
                 "kernel row runs against a reference. docs/conformance.md says what is tested "
                 "and what the levels mean.",
        .options = options,
    };

    if (argc > 1 && !strcmp(argv[1], CONFORM_CHILD)) return conform_child(argc - 3, argv + 3);
    int status = bp_options_parse(&usage, argc, argv, &w.device);
    if (status != BP_OPTIONS_GOOD) return status;
    if (!read_words(&w, &o)) return BP_EXIT_USAGE;
    if (!bp_word_fits_device("conform", w.device)) return BP_EXIT_NO_DEVICE;
    if (bp_word_is_path(w.device) && !strchr(w.device, '/')) /* a file in this directory, as for
                                                                doctor */
        o.device = here = bp_text_format("./%s", w.device);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        bp_complain("conform", "/proc is not mounted: the suite cannot start itself");
        return BP_EXIT_BROKEN;
    }
    o.self = self;
    status = conform_run(&o);
    free(here);
    return status;
}
