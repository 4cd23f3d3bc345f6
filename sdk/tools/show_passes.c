/* SPDX-License-Identifier: Apache-2.0 */
/* show_passes.c: `bp passes [DEV]`: lists the passes of the compiler of programs, and the patterns
 * of a device's plugin. */
#include "tools.h"

#include <stdlib.h>

static void pass_add(cJSON *list, struct bp_table *table, const struct bp_pass_info *info)
{
    cJSON *pass = cJSON_CreateObject();
    char *priority = bp_text_format("%d", info->priority);
    char *unused = bp_text_format("not used: %s", info->reason);

    bp_json_text(pass, "name", info->name);
    bp_json_text(pass, "doc", info->doc);
    cJSON_AddNumberToObject(pass, "priority", info->priority);
    bp_json_text(pass, "reason", info->reason);
    cJSON_AddItemToArray(list, pass);
    bp_table_row(table,
                 (const char *const[]){info->name, priority, *info->reason ? unused : info->doc},
                 NULL);
    free(priority);
    free(unused);
}

/* Adds the passes for programs of a device. Returns an exit status. */
static int passes_of(const char *name, cJSON *list, struct bp_table *table)
{
    struct bp_pass_info info = {.size = sizeof info};
    int status = BP_EXIT_GOOD;
    struct bp_device *device;
    struct bp_core *core;
    enum bp_status opened;

    if (bp_path_is_missing("passes", name)) return BP_EXIT_NO_DEVICE;
    bp_watch_begin("passes");
    core = bp_tool_core("passes", NULL);
    if (!core) return BP_EXIT_BROKEN;
    opened = bp_device_create(core, name, &device);
    if (opened) {
        bp_complain("passes", "%s", bp_error_message());
        status = bp_exit_of_device(opened);
    } else {
        for (uint32_t i = 0; !bp_device_pass(device, i, &info); i++) pass_add(list, table, &info);
        bp_device_destroy(device);
    }
    bp_core_destroy(core);
    return status;
}

int bp_cmd_passes(int argc, char **argv)
{
    static const char *const headings[] = {"PASS", "PRIORITY", "WHAT IT DOES"};
    struct bp_pass_info info = {.size = sizeof info};
    const char *name = NULL;
    bool as_json = false;
    const struct bp_option options[] = {
        {"json", 0, BP_OPTION_FLAG, NULL, "print JSON", &as_json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "passes",
        .words = "[DEV]",
        .max_words = 1,
        .about = "Lists the passes of the compiler of programs, in the order in which they run, "
                 "and, of a device (\"cpu:0\"), also the patterns of its plugin. "
                 "BP_PASSES=-NAME,-NAME leaves passes out, BP_PASSES=none all of them; "
                 "`bp program` shows what each does with a model.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &name);
    struct bp_table table;
    cJSON *list;

    if (status != BP_OPTIONS_GOOD) return status;
    status = BP_EXIT_GOOD;
    list = cJSON_CreateArray();
    bp_table_init(&table, 3, headings);
    if (name) status = passes_of(name, list, &table);
    for (uint32_t i = 0; !name && !bp_pass_get(i, &info); i++) pass_add(list, &table, &info);
    if (!as_json && status == BP_EXIT_GOOD) bp_table_print(&table, 0);
    bp_table_finish(&table);
    if (as_json && status == BP_EXIT_GOOD) return bp_json_print(list);
    cJSON_Delete(list);
    return status;
}
