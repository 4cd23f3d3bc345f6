/* SPDX-License-Identifier: Apache-2.0 */
/* probe_child.c: `bp probe-plugin PATH`, the child of probe.c: loads one plugin and reports. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "child.h"

/* Begins a line of its own, whatever the plugin may have left on the one before. */
static void report(cJSON *json)
{
    char *line = cJSON_PrintUnformatted(json);

    if (line) dprintf(BP_CHILD_REPORT, "\n%s\n", line);
    cJSON_free(line);
    cJSON_Delete(json);
}

/* The core logs "LIBRARY: step WORD" before each step. */
static void report_step(void *ctx, uint32_t level, const char *text)
{
    static const char mark[] = ": step ";
    const char *word = NULL;

    (void)ctx;
    (void)level;
    for (const char *at = text; (at = strstr(at, mark)); at++) word = at + strlen(mark);
    if (!word) return;
    cJSON *json = cJSON_CreateObject();
    bp_json_text(json, "step", word);
    report(json);
}

/* What the core says of plugin index; if it has none, reason is all there is to say of path. */
static void report_plugin(struct bp_core *core, uint32_t index, const char *path,
                          const char *reason)
{
    struct bp_plugin_info info = {.size = sizeof info};
    struct bp_probe probe;

    if (index < bp_core_plugins(core) && bp_core_plugin(core, index, &info) == BP_OK) {
        bp_probe_init(&probe, &info);
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
    report(json);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat file_a, file_b;

    if (!strcmp(a, b)) return true;
    return !stat(a, &file_a) && !stat(b, &file_b) && file_a.st_dev == file_b.st_dev &&
           file_a.st_ino == file_b.st_ino;
}

/* The plugin of that manifest; UINT32_MAX if the core did not find it. */
static uint32_t manifest_find(struct bp_core *core, const char *path)
{
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_plugin(core, i, &info) == BP_OK && is_same_file(info.manifest, path)) return i;
    }
    return UINT32_MAX;
}

/* A core that knows the manifest: where it is found anyway, or else with its directory added. */
static struct bp_core *core_with_manifest(const char *path, uint32_t *out_index)
{
    struct bp_core_options options = {.size = sizeof options, .log = report_step};
    struct bp_core *core = bp_tool_core("", &options);

    if (!core) return NULL;
    *out_index = manifest_find(core, path);
    if (*out_index != UINT32_MAX) return core;
    bp_core_destroy(core);

    char *directory = bp_text_format("%s", path);
    char *slash = strrchr(directory, '/');
    if (slash) *slash = 0;
    options.plugin_path = directory;
    options.plugins = "*";
    core = bp_tool_core("", &options);
    if (core) *out_index = manifest_find(core, path);
    free(directory);
    return core;
}

/* Loads a library by its path, for its index: that of a library that cannot be loaded, too. */
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
    const char *path = argv[1];
    if (bp_probe_is_manifest(path)) {
        core = core_with_manifest(path, &index);
        if (!core) return BP_EXIT_BROKEN;
        char *reason = bp_text_format(
            "%s: not found as a manifest: expected a readable file bp_NAME.json; correct the path",
            path);
        if (index != UINT32_MAX) bp_core_load(core, index);
        report_plugin(core, index, path, reason);
        free(reason);
    } else {
        core = bp_tool_core("", &options);
        if (!core) return BP_EXIT_BROKEN;
        index = load_library(core, path);
        report_plugin(core, index, path, bp_error_message());
    }
    bp_core_destroy(core);
    return BP_EXIT_GOOD;
}
