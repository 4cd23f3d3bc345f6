/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: `bp list`: the plugins that are found. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

static void print_table(const struct bp_probe *probes, uint32_t n)
{
    static const char *const headings[] = {"NAME", "KIND", "VERSION", "STATE", "DEVICES"};
    struct bp_table table;

    bp_table_init(&table, 5, headings);
    for (uint32_t i = 0; i < n; i++) {
        char devices[16] = "-";
        if (probes[i].state == BP_PLUGIN_READY)
            snprintf(devices, sizeof devices, "%u", probes[i].devices);
        const char *cells[] = {probes[i].name, probes[i].kind, probes[i].version,
                               bp_state_name(probes[i].state), devices};
        for (size_t j = 0; j < 3; j++)
            if (!*cells[j]) cells[j] = "?";
        bp_table_row(&table, cells, probes[i].reason);
    }
    bp_table_print(&table, 0);
    bp_table_finish(&table);
}

static int print_json(const struct bp_probe *probes, uint32_t n)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(json, "plugins");

    for (uint32_t i = 0; i < n; i++) cJSON_AddItemToArray(list, bp_probe_json(&probes[i]));
    return bp_json_print(json);
}

int bp_cmd_list(int argc, char **argv)
{
    bool ask = false, json = false;
    double timeout = BP_PROBE_SECONDS;
    const struct bp_option options[] = {
        {"probe", 0, BP_OPTION_FLAG, NULL, "load each plugin, in a process of its own, and ask it",
         &ask},
        {"timeout", 0, BP_OPTION_NUMBER, "SECONDS", "that each may take for that (default 10)",
         &timeout},
        {"json", 0, BP_OPTION_FLAG, NULL, "for programs", &json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "list",
        .about =
            "Lists the plugins that are found, by their manifests. A plugin is ready (has "
            "devices), absent (its hardware or driver is not on this machine) or broken; it is "
            "unprobed until it is asked. Exits with 0 also where some are broken (`bp doctor` does "
            "not), with 2 if none is found, and with 4 if one could not be asked.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, NULL);
    if (status != BP_OPTIONS_GOOD) return status;
    if (!bp_probe_timeout_fits("list", timeout)) return BP_EXIT_USAGE;

    struct bp_core *core = bp_tool_core("list", NULL);
    if (!core) return BP_EXIT_BROKEN;
    uint32_t n = bp_core_plugins(core);
    struct bp_probe *probes = calloc(n + 1u, sizeof *probes);
    for (uint32_t i = 0; probes && i < n; i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        bp_core_plugin(core, i, &info);
        bp_probe_init(&probes[i], &info);
    }
    bool lost = !probes || (ask && bp_probe_run("list", probes, n, timeout, false, NULL, NULL));
    status = probes && json ? print_json(probes, n) : BP_EXIT_GOOD;
    if (probes && !json && n) print_table(probes, n);
    if (lost) status = BP_EXIT_BROKEN;
    if (!n) {
        bp_complain("list",
                    "no plugin was found; set BP_PLUGIN_PATH to the directory of their manifests"
                    "%s",
                    getenv("BP_PLUGINS") ? ", or unset BP_PLUGINS, which selects by name" : "");
        status = BP_EXIT_USAGE;
    }
    for (uint32_t i = 0; probes && i < n; i++) bp_probe_finish(&probes[i]);
    free(probes);
    bp_core_destroy(core);
    return status;
}
