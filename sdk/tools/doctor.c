/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c: `bp doctor`: loads plugins step by step and reports the step that fails, the reason,
 * and a remedy. Each plugin is loaded in a child process with a deadline. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

static const char *doctor_outcome(const struct bp_probe *probe, uint32_t step)
{
    if (step < probe->step || probe->state == BP_PLUGIN_READY) return "ok";
    if (step > probe->step) return "not reached";
    return probe->state == BP_PLUGIN_ABSENT ? "absent" : "failed";
}

/* Prints the end of a plugin's output, if there is any. */
static void print_output(const struct bp_probe *probe)
{
    enum { SHOWN = 600 };
    size_t n = strlen(probe->output);

    if (!n) return;
    char *text = bp_text_format("It printed%s: %s", n > SHOWN ? ", at the end" : "",
                                probe->output + (n > SHOWN ? n - SHOWN : 0));
    bp_text_print(stdout, 2, text);
    free(text);
}

static void print_steps(const struct bp_probe *probe)
{
    struct bp_table table;
    bool failed = probe->state != BP_PLUGIN_READY;
    uint32_t last = failed ? probe->step : BP_STEP_COUNT - 1;

    bp_table_init(&table, 3, NULL);
    for (uint32_t step = 0; step <= last; step++) {
        bool is_bare = step == BP_STEP_MANIFEST && !*probe->manifest;
        const char *cells[] = {bp_step_name(step), is_bare ? "-" : doctor_outcome(probe, step),
                               is_bare ? "a library without a manifest" : ""};
        if (failed && step == last) {
            cells[1] = probe->state == BP_PLUGIN_ABSENT ? "absent" : "FAILED";
            cells[2] = probe->reason;
        }
        bp_table_row(&table, cells, NULL);
    }
    bp_table_print(&table, 2);
    bp_table_finish(&table);
}

static void print_devices(const struct bp_probe *probe)
{
    if (probe->state != BP_PLUGIN_READY) return;
    if (*probe->adds_to) {
        char *note = bp_text_format("an add-on to %s, known after %.2f s", probe->adds_to,
                                    probe->seconds);
        bp_text_print(stdout, 2, note);
        free(note);
        return;
    }
    char *last = probe->devices > 1 ? bp_text_format(" to %s:%u", probe->kind, probe->devices - 1)
                                    : bp_text_format("%s", "");
    char *text = bp_text_format("%s:0%s, known after %.2f s", probe->kind, last, probe->seconds);
    bp_text_print(stdout, 2, text);
    free(last);
    free(text);
}

static void print_plugin(const struct bp_probe *probe)
{
    printf("\n");
    char *head = bp_text_format("%s%s%s: %s", probe->name, *probe->version ? " " : "",
                                probe->version, bp_state_name(probe->state));
    char *path = bp_text_format("%s%s%s", probe->manifest,
                                *probe->manifest && *probe->library ? ", " : "", probe->library);

    bp_text_print(stdout, 0, head);
    bp_text_print(stdout, 2, path);
    print_steps(probe);
    print_devices(probe);
    print_output(probe);
    free(head);
    free(path);
}

static cJSON *plugin_json(const struct bp_probe *probe)
{
    cJSON *json = bp_probe_json(probe);
    cJSON *steps;

    bp_json_text(json, "manifest", probe->manifest);
    bp_json_text(json, "library", probe->library);
    bp_json_text(json, "output", probe->output);
    cJSON_AddNumberToObject(json, "seconds", probe->seconds);
    steps = cJSON_AddArrayToObject(json, "steps");
    for (uint32_t step = 0; step < BP_STEP_COUNT; step++) {
        cJSON *one = cJSON_CreateObject();
        bp_json_text(one, "step", bp_step_name(step));
        bp_json_text(one, "outcome", doctor_outcome(probe, step));
        cJSON_AddItemToArray(steps, one);
    }
    return json;
}

/* Makes the path absolute and its directory free of links and "..": a user who names a file trusts
 * its directory. */
static char *doctor_absolute(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash ? bp_text_format("%.*s", (int)(slash - path) + 1, path)
                            : bp_text_format(".");
    char *real = realpath(directory, NULL);
    char *whole = bp_text_format("%s%s%s", real ? real : directory, real && !real[1] ? "" : "/",
                                 slash ? slash + 1 : path);

    free(directory);
    free(real);
    return whole;
}

struct patients {
    struct bp_probe *probe;
    uint32_t n;
};

static bool doctor_add(struct patients *patients, const struct bp_probe *probe)
{
    struct bp_probe *more = realloc(patients->probe, (patients->n + 1u) * sizeof *more);

    if (!more) return false;
    patients->probe = more;
    more[patients->n++] = *probe;
    return true;
}

/* Adds the plugins whose name or kind is word; all plugins if word is NULL. */
static int doctor_find(struct patients *patients, const char *word)
{
    struct bp_core *core = bp_tool_core("doctor", NULL);
    const char *near = NULL;

    if (!core) return BP_EXIT_BROKEN;
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        struct bp_probe probe;
        bp_core_plugin(core, i, &info);
        if (word && !near) near = bp_nearest(word, &info.name, 1);
        const char *kind = *info.adds_to ? info.adds_to : info.kind;
        if (word && strcmp(word, info.name) && strcmp(word, kind)) continue;
        bp_probe_init(&probe, &info);
        if (!doctor_add(patients, &probe)) bp_probe_finish(&probe);
    }
    if (!patients->n && !word)
        bp_complain("doctor", "no plugin was found; set BP_PLUGIN_PATH to the directory of their "
                              "manifests, or name a file: bp doctor /path/bp_x.so");
    else if (!patients->n && near)
        bp_complain("doctor", "there is no plugin '%s'; did you mean %s?", word, near);
    else if (!patients->n)
        bp_complain("doctor", "there is no plugin '%s'; `bp list` shows those found, and a file is "
                              "named with a '/': bp doctor ./%s", word, word);
    bp_core_destroy(core);
    return patients->n ? BP_OPTIONS_GOOD : BP_EXIT_USAGE;
}

/* The results of all plugins so far. */
struct findings {
    uint32_t count[4]; /* by state */
    cJSON *list;       /* NULL: results are printed */
};

static void take_probe(void *ctx, const struct bp_probe *probe)
{
    struct findings *f = ctx;

    f->count[probe->state & 3]++;
    if (f->list) {
        cJSON_AddItemToArray(f->list, plugin_json(probe));
        return;
    }
    print_plugin(probe);
    fflush(stdout);
}

static int doctor_examine(struct patients *patients, double timeout, bool json)
{
    cJSON *report = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(report, "plugins");
    struct findings f = {.list = json ? list : NULL};
    const uint32_t *count = f.count;
    bool lost;

    if (!json) printf("The steps of loading, plugin by plugin:\n");
    lost = bp_probe_run("doctor", patients->probe, patients->n, timeout, true, take_probe, &f);
    if (json) {
        int status = bp_json_print(report);
        if (status) return status;
    } else {
        cJSON_Delete(report);
        printf("\n%u ready, %u absent, %u broken", count[BP_PLUGIN_READY],
               count[BP_PLUGIN_ABSENT], count[BP_PLUGIN_BROKEN]);
        if (lost) printf(", %u unprobed", count[BP_PLUGIN_UNPROBED]);
        printf("\n");
    }
    return lost ? BP_EXIT_BROKEN : count[BP_PLUGIN_BROKEN] ? BP_EXIT_FAILED : BP_EXIT_GOOD;
}

int bp_cmd_doctor(int argc, char **argv)
{
    bool json = false;
    double timeout = BP_PROBE_SECONDS;
    const char *word;
    const struct bp_option options[] = {
        {"timeout", 0, BP_OPTION_NUMBER, "SECONDS", "that each plugin may take (default 10)",
         &timeout},
        {"json", 0, BP_OPTION_FLAG, NULL, "for programs", &json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "doctor",
        .words = "[NAME|PATH]",
        .min_words = 0, .max_words = 1,
        .about =
            "Loads all plugins, those of a name or kind, or the library or manifest at a path, "
            "each in a process of its own, and shows how far it comes, why no further, and what to "
            "do. Exits with 1 if one is broken; an absent one is fine. Exits with "
            "2 if there is no such plugin or file, with 4 if one could not be asked. The steps: "
#define X(NAME, word, text) #word " (" text "), "
            BP_PLUGIN_STEPS(X)
#undef X
            "exit (the process ends in peace).",
        .options = options,
    };
    struct patients patients = {0};
    int status = bp_options_parse(&usage, argc, argv, &word);
    if (status != BP_OPTIONS_GOOD) return status;
    if (!bp_probe_timeout_fits("doctor", timeout)) return BP_EXIT_USAGE;

    if (word && bp_path_is_missing("doctor", word)) return BP_EXIT_USAGE;
    if (word && bp_word_is_path(word)) {
        struct bp_probe probe;
        char *path = doctor_absolute(word);
        bp_probe_init_path(&probe, path);
        free(path);
        if (!doctor_add(&patients, &probe)) bp_probe_finish(&probe);
    } else {
        status = doctor_find(&patients, word);
    }
    if (status == BP_OPTIONS_GOOD) status = doctor_examine(&patients, timeout, json);
    for (uint32_t i = 0; i < patients.n; i++) bp_probe_finish(&patients.probe[i]);
    free(patients.probe);
    return status;
}
