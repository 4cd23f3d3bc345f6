/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c: asks a plugin what it is in a child process. The child is bp itself (bp probe-plugin
 * PATH, probe_child.c), which reports lines of JSON: {"step":"open"} before each step, so that it
 * is known where a plugin was when it took the process with it, then {"plugin":{...}} once. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#include "child.h"

enum { OUTPUT_KEPT = 4096 }; /* bytes of what a plugin printed, the last ones */

const char *bp_step_name(uint32_t step)
{
    static const char *const names[] = {
#define X(NAME, word, text) #word,
        BP_PLUGIN_STEPS(X)
#undef X
    };
    return step < BP_STEP_COUNT ? names[step] : "exit";
}

static uint32_t step_find(const char *name)
{
    uint32_t step = 0;

    while (step < BP_STEP_COUNT && strcmp(bp_step_name(step), name)) step++;
    return step;
}

bool bp_probe_timeout_fits(const char *command, double seconds)
{
    if (seconds > 0 && seconds <= 1e6) return true;
    bp_complain(command, "--timeout wants seconds, more than 0 and at most 1000000, got %g",
                seconds);
    return false;
}

static void set(char **text, const char *value)
{
    char *copy = bp_text_format("%s", value);

    free(*text);
    *text = copy;
}

void bp_probe_init(struct bp_probe *probe, const struct bp_plugin_info *info)
{
    *probe = (struct bp_probe){.state = info->state, .devices = info->devices, .step = info->step};
    set(&probe->name, info->name);
    set(&probe->kind, info->kind);
    set(&probe->version, info->version);
    set(&probe->manifest, info->manifest);
    set(&probe->library, info->library);
    set(&probe->reason, info->reason);
    set(&probe->output, "");
}

bool bp_probe_is_manifest(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && !strcmp(path + length - 5, ".json");
}

void bp_probe_init_path(struct bp_probe *probe, const char *path)
{
    bool is_manifest = bp_probe_is_manifest(path);
    struct bp_plugin_info info = {
        .size = sizeof info, .name = "", .kind = "", .version = "", .reason = "",
        .manifest = is_manifest ? path : "", .library = is_manifest ? "" : path,
    };
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    bp_probe_init(probe, &info);
    if (!strncmp(name, "bp_", 3)) name += 3;
    set(&probe->name, name);
    char *dot = strrchr(probe->name, '.');
    if (dot) *dot = 0;
}

void bp_probe_finish(struct bp_probe *probe)
{
    free(probe->name);
    free(probe->kind);
    free(probe->version);
    free(probe->manifest);
    free(probe->library);
    free(probe->reason);
    free(probe->output);
    *probe = (struct bp_probe){0};
}

/* What the child has said so far. */
struct answer {
    struct bp_probe *probe;
    bool complete;
};

static void take_plugin(struct bp_probe *probe, const cJSON *plugin)
{
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(plugin, "devices");
    const char *state = bp_json_get(plugin, "state");

    probe->state = !strcmp(state, "ready") ? BP_PLUGIN_READY
                   : !strcmp(state, "absent") ? BP_PLUGIN_ABSENT : BP_PLUGIN_BROKEN;
    bool counted = cJSON_IsNumber(devices) && devices->valueint > 0;
    probe->devices = counted ? (uint32_t)devices->valueint : 0;
    probe->step = step_find(bp_json_get(plugin, "step"));
    set(&probe->name, bp_json_get(plugin, "name"));
    set(&probe->kind, bp_json_get(plugin, "kind"));
    set(&probe->version, bp_json_get(plugin, "version"));
    set(&probe->manifest, bp_json_get(plugin, "manifest"));
    set(&probe->library, bp_json_get(plugin, "library"));
    set(&probe->reason, bp_json_get(plugin, "reason"));
}

/* One line of the report. The plugin shares the child's descriptors: a line that is none of ours is
 * passed over. */
static void take_line(void *ctx, const char *line)
{
    struct answer *answer = ctx;
    cJSON *json = cJSON_Parse(line);
    const cJSON *plugin = cJSON_GetObjectItemCaseSensitive(json, "plugin");
    uint32_t step = step_find(bp_json_get(json, "step"));

    if (cJSON_IsObject(plugin)) {
        take_plugin(answer->probe, plugin);
        answer->complete = true;
    } else if (step < BP_STEP_COUNT) {
        answer->probe->step = step;
    }
    cJSON_Delete(json);
}

/* The child did not come to its end, or not in peace: that is the plugin's answer. */
static void take_loss(struct bp_probe *probe, const struct answer *answer,
                      const struct bp_child_result *result)
{
    const char *file = *probe->library ? probe->library : probe->manifest;
    const char *debug = *probe->manifest ? probe->manifest : probe->library;
    char end[200];
    char *what, *reason;

    bp_child_describe(result, end, sizeof end);
    if (answer->complete)
        what = bp_text_format("its process did not end well: expected exit status 0");
    else
        what = bp_text_format("no answer from the process that loads it, lost in step %s: expected "
                              "one", bp_step_name(probe->step));
    reason = bp_text_format(
        "%s: %s, got \"%s\"; %sto see where: gdb --args bp probe-plugin %s", file, what, end,
        result->end == BP_CHILD_TIMEOUT ? "give it longer with --timeout, or " : "", debug);
    if (answer->complete) probe->step = BP_STEP_COUNT;
    probe->state = BP_PLUGIN_BROKEN;
    probe->devices = 0;
    set(&probe->reason, reason);
    free(what);
    free(reason);
}

/* There was no child: nothing is known of the plugin. */
static void take_refusal(struct bp_probe *probe, const struct bp_child_result *result)
{
    const char *file = *probe->manifest ? probe->manifest : probe->library;
    char end[200];

    bp_child_describe(result, end, sizeof end);
    char *reason = bp_text_format("%s: not asked: expected to run bp again as /proc/self/exe, got "
                                  "\"%s\"; see that /proc is mounted", file, end);
    set(&probe->reason, reason);
    free(reason);
    probe->state = BP_PLUGIN_BROKEN;
}

void bp_probe_run(struct bp_probe *probe, double timeout_s)
{
    const char *argv[] = {"/proc/self/exe", "probe-plugin",
                          *probe->manifest ? probe->manifest : probe->library, NULL};
    static const char *const env[] = {"BP_LOG=debug", NULL}; /* so the steps are logged */
    struct answer answer = {.probe = probe};
    struct bp_child child = {
        .argv = argv,
        .env = env,
        .timeout_ns = (uint64_t)(timeout_s * 1e9),
        .report = take_line,
        .ctx = &answer,
    };
    struct bp_child_result result;

    bp_progress("asking %s ...", probe->name);
    probe->step = BP_STEP_FILE;
    char *path = bp_text_format("%s", argv[2]); /* the answer replaces those of probe */
    argv[2] = path;
    bp_child_run(&child, &result);
    free(path);
    if (result.end == BP_CHILD_NOT_RUN)
        take_refusal(probe, &result);
    else if (!answer.complete || result.end != BP_CHILD_EXITED || result.code)
        take_loss(probe, &answer, &result);
    size_t cut = result.output_size > OUTPUT_KEPT ? result.output_size - OUTPUT_KEPT : 0;
    set(&probe->output, result.output + cut);
    probe->seconds = result.seconds;
    bp_child_finish(&result);
    bp_progress("%s", "");
}

cJSON *bp_probe_json(const struct bp_probe *probe)
{
    cJSON *json = cJSON_CreateObject();

    bp_json_text(json, "name", probe->name);
    bp_json_text(json, "kind", probe->kind);
    bp_json_text(json, "version", probe->version);
    bp_json_text(json, "state", bp_state_name(probe->state));
    bp_json_text(json, "reason", probe->reason);
    cJSON_AddNumberToObject(json, "devices", probe->devices);
    return json;
}
