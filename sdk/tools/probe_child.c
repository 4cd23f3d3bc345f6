/* SPDX-License-Identifier: Apache-2.0 */
/* probe_child.c: `bp probe-plugin PATH`, the child process of probe.c: loads one plugin and
 * reports. */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"

/* The step in which the plugin last forked; copies of the process inherit it. */
static char fork_step[16];
static pid_t first_process;

static void note_fork(void)
{
    struct bp_activity activity = {.size = sizeof activity};
    bool found = bp_activity_find((uint32_t)gettid(), &activity);

    if (getpid() != first_process) return; /* a copy of a copy */
    snprintf(fork_step, sizeof fork_step, "%s", found ? activity.word : BP_STEP_EXIT);
}

/* Writes one line with one write, and begins with a newline because the plugin may have left an
 * incomplete line. A copy of this process reports too; its pid distinguishes it. */
static void probe_child_report(cJSON *json)
{
    cJSON_AddNumberToObject(json, "pid", getpid());
    bp_json_text(json, "forked", fork_step);
    char *line = cJSON_PrintUnformatted(json);
    char *whole = bp_text_format("\n%s\n", line ? line : "");

    for (size_t at = 0, n = strlen(whole); at < n;) {
        ssize_t written = write(BP_CHILD_REPORT, whole + at, n - at);
        if (written <= 0 && errno != EINTR) break;
        if (written > 0) at += (size_t)written;
    }
    free(whole);
    cJSON_free(line);
    cJSON_Delete(json);
}

static void report_step_name(const char *word)
{
    cJSON *json = cJSON_CreateObject();

    bp_json_text(json, "step", word);
    probe_child_report(json);
}

/* The core logs "LIBRARY: step WORD" before each step. */
static void report_step(void *ctx, uint32_t level, const char *text)
{
    static const char mark[] = ": step ";
    const char *word = NULL;

    (void)ctx;
    (void)level;
    for (const char *at = text; (at = strstr(at, mark)); at++) word = at + strlen(mark);
    if (word) report_step_name(word);
}

/* Reports the core's information about plugin `index`. If the core has none, reports path and
 * reason. */
static void report_plugin(struct bp_core *core, uint32_t index, const char *path,
                          const char *reason)
{
    struct bp_plugin_info info = {.size = sizeof info};
    struct bp_probe probe;

    if (index < bp_core_plugins(core) && bp_core_plugin(core, index, &info) == BP_OK) {
        bp_probe_init(&probe, &info);
        if (info.state == BP_PLUGIN_UNPROBED) { /* memory was exhausted */
            probe.state = BP_PLUGIN_BROKEN;
            free(probe.reason);
            probe.reason = bp_text_format("%s", reason);
        }
    } else {
        bp_probe_init_path(&probe, path);
        probe.state = BP_PLUGIN_BROKEN;
        free(probe.reason);
        probe.reason = bp_text_format("%s", reason);
    }
    cJSON *plugin = bp_probe_json(&probe);
    bp_json_text(plugin, "manifest", probe.manifest);
    bp_json_text(plugin, "library", probe.library);
    bp_json_text(plugin, "step", bp_step_name(probe.step));
    bp_probe_finish(&probe);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "plugin", plugin);
    probe_child_report(json);
}

enum { DEVICES_QUERIED = 64 };

/* Reports the hardware of those devices that can be opened. */
static void report_devices(struct bp_core *core, uint32_t index)
{
    struct bp_plugin_info info = {.size = sizeof info};

    if (bp_core_plugin(core, index, &info) || info.state != BP_PLUGIN_READY) return;
    for (uint32_t i = 0; i < info.devices && i < DEVICES_QUERIED; i++) {
        struct bp_device_properties p = {.size = sizeof p};
        struct bp_device *device = NULL;
        cJSON *json, *part;
        char *uuid;
        if (bp_device_create_at(core, index, i, &device)) continue;
        bp_device_get_properties(device, &p);
        bp_device_destroy(device);
        uuid = bp_uuid_text(p.uuid);
        if (*uuid || *p.pci) {
            json = cJSON_CreateObject();
            part = cJSON_AddObjectToObject(json, "device");
            cJSON_AddNumberToObject(part, "index", i);
            bp_json_text(part, "uuid", uuid);
            bp_json_text(part, "pci", p.pci);
            probe_child_report(json);
        }
        free(uuid);
    }
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat file_a, file_b;

    if (!strcmp(a, b)) return true;
    return !stat(a, &file_a) && !stat(b, &file_b) && file_a.st_dev == file_b.st_dev &&
           file_a.st_ino == file_b.st_ino;
}

/* The index of the plugin with that manifest; UINT32_MAX if the core did not find it. */
static uint32_t manifest_find(struct bp_core *core, const char *path)
{
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_plugin(core, i, &info) == BP_OK && is_same_file(info.manifest, path)) return i;
    }
    return UINT32_MAX;
}

/* The names that BP_PLUGINS selects for a probe: the plugin itself, and of an add-on also the
 * plugins that it may add to. Other add-ons are left out: their failures are not the plugin's. */
static char *names_for(struct bp_core *core, uint32_t index)
{
    struct bp_plugin_info own = {.size = sizeof own}, other = {.size = sizeof other};
    char *names;

    bp_core_plugin(core, index, &own);
    names = bp_text_format("%s", own.name);
    for (uint32_t i = 0; *own.adds_to && i < bp_core_plugins(core); i++) {
        char *more;
        if (bp_core_plugin(core, i, &other) || strcmp(other.kind, own.adds_to)) continue;
        more = bp_text_format("%s,%s", names, other.name);
        free(names);
        names = more;
    }
    return names;
}

static struct bp_core *core_find(const struct bp_core_options *options, const char *path,
                                 uint32_t *out_index)
{
    struct bp_core *core = bp_tool_core("", options);

    if (core) *out_index = manifest_find(core, path);
    return core;
}

/* Creates a core that knows the manifest and reads few others, of which there may be thousands. The
 * owner of an add-on may be anywhere. */
static struct bp_core *core_with_manifest(const char *path, uint32_t *out_index)
{
    struct bp_core_options options = {
        .size = sizeof options, .log = report_step, .plugin_path = path, .plugins = "*"};
    struct bp_plugin_info info = {.size = sizeof info, .state = BP_PLUGIN_BROKEN};
    char *around = getenv("BP_PLUGIN_PATH"), *names;
    struct bp_core *core;
    bool is_addon;

    around = around ? bp_text_format("%s", around) : NULL;
    unsetenv("BP_PLUGIN_PATH");
    core = core_find(&options, path, out_index);
    if (core && *out_index != UINT32_MAX) bp_core_plugin(core, *out_index, &info);
    is_addon = info.state == BP_PLUGIN_UNPROBED && *info.adds_to;
    if (is_addon && around) {
        setenv("BP_PLUGIN_PATH", around, 1);
        bp_core_destroy(core);
        core = core_find(&options, path, out_index);
    }
    free(around);
    if (!core || *out_index == UINT32_MAX || info.state != BP_PLUGIN_UNPROBED) return core;
    options.plugins = names = names_for(core, *out_index);
    bp_core_destroy(core);
    core = core_find(&options, path, out_index);
    free(names);
    return core;
}

/* Loads a library by its path and returns its index, also if the library cannot be loaded. */
static uint32_t load_library(struct bp_core *core, const char *path)
{
    uint32_t before = bp_core_plugins(core);

    bp_core_load_path(core, path, NULL);
    return bp_core_plugins(core) > before ? before : UINT32_MAX;
}

int bp_cmd_probe_plugin(int argc, char **argv)
{
    struct bp_core_options options = {.size = sizeof options, .log = report_step};
    uint32_t index = UINT32_MAX;
    struct bp_core *core;

    if (argc != 2) return BP_EXIT_USAGE;
    first_process = getpid();
    pthread_atfork(note_fork, NULL, NULL);
    const char *path = argv[1];
    if (bp_probe_is_manifest(path)) {
        core = core_with_manifest(path, &index);
        if (!core) return BP_EXIT_BROKEN;
        char *reason = NULL;
        if (index == UINT32_MAX)
            reason = bp_text_format("%s: not found as a manifest: expected a readable file "
                                    "bp_NAME.json; correct the path", path);
        else if (bp_core_load(core, index))
            reason = bp_text_format("%s", bp_error_message());
        report_plugin(core, index, path, reason ? reason : "");
        free(reason);
    } else {
        core = bp_tool_core("", &options);
        if (!core) return BP_EXIT_BROKEN;
        index = load_library(core, path);
        report_plugin(core, index, path, bp_error_message());
    }
    report_devices(core, index);
    /* A plugin that ends the process with a good status is detected by the missing line. */
    report_step_name(BP_STEP_DESTROY);
    bp_core_destroy(core);
    report_step_name(BP_STEP_EXIT);
    return BP_EXIT_GOOD;
}
