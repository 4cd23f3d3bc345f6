/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: `bp list`: lists the plugins that the core finds. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

/* Text such as "xpu:0 is the same hardware as cuda:0", for each device for which this is known. The
 * caller frees it. */
static char *same_hardware(const struct bp_probe *probes, uint32_t i)
{
    char *text = bp_text_format("%s", probes[i].reason);

    for (uint32_t k = 0; k < probes[i].n_hardware; k++) {
        const struct bp_probe_device *device = &probes[i].hardware[k], *as;
        const struct bp_probe *other = bp_probe_same(probes, i, device, &as);
        char *more;
        if (!other) continue;
        more = bp_text_format("%s%s%s:%u is the same hardware as %s:%u", text, *text ? "; " : "",
                              probes[i].kind, device->index, other->kind, as->index);
        free(text);
        text = more;
    }
    return text;
}

static void list_print_table(const struct bp_probe *probes, uint32_t n)
{
    static const char *const headings[] = {"NAME", "KIND", "VERSION", "STATE", "DEVICES"};
    struct bp_table table;

    bp_table_init(&table, 5, headings);
    for (uint32_t i = 0; i < n; i++) {
        char devices[16] = "-";
        bool is_addon = *probes[i].adds_to;
        if (is_addon) snprintf(devices, sizeof devices, "add-on");
        else if (probes[i].state == BP_PLUGIN_READY)
            snprintf(devices, sizeof devices, "%u", probes[i].devices);
        const char *cells[] = {probes[i].name, is_addon ? probes[i].adds_to : probes[i].kind,
                               probes[i].version, bp_state_name(probes[i].state), devices};
        for (size_t j = 0; j < 3; j++)
            if (!*cells[j]) cells[j] = "?";
        char *note = same_hardware(probes, i);
        bp_table_row(&table, cells, note);
        free(note);
    }
    bp_table_print(&table, 0);
    bp_table_finish(&table);
}

static cJSON *hardware_json(const struct bp_probe *probes, uint32_t i)
{
    cJSON *list = cJSON_CreateArray();

    for (uint32_t k = 0; k < probes[i].n_hardware; k++) {
        const struct bp_probe_device *device = &probes[i].hardware[k], *as;
        const struct bp_probe *other = bp_probe_same(probes, i, device, &as);
        char *same = other ? bp_text_format("%s:%u", other->kind, as->index) : NULL;
        cJSON *json = cJSON_CreateObject();
        cJSON_AddNumberToObject(json, "device", device->index);
        bp_json_text(json, "uuid", device->uuid);
        bp_json_text(json, "pci", device->pci);
        bp_json_text(json, "same_as", same);
        cJSON_AddItemToArray(list, json);
        free(same);
    }
    return list;
}

static int print_json(const struct bp_probe *probes, uint32_t n)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(json, "plugins");

    for (uint32_t i = 0; i < n; i++) {
        cJSON *plugin = bp_probe_json(&probes[i]);
        if (probes[i].n_hardware)
            cJSON_AddItemToObject(plugin, "hardware", hardware_json(probes, i));
        cJSON_AddItemToArray(list, plugin);
    }
    return bp_json_print(json);
}

int bp_cmd_list(int argc, char **argv)
{
    bool probe = false, json = false;
    double timeout = BP_PROBE_SECONDS;
    const struct bp_option options[] = {
        {"probe", 0, BP_OPTION_FLAG, NULL, "load each plugin, in a process of its own, and ask it",
         &probe},
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
    bool lost = !probes || (probe && bp_probe_run("list", probes, n, timeout, false, NULL, NULL));
    status = probes && json ? print_json(probes, n) : BP_EXIT_GOOD;
    if (probes && !json && n) list_print_table(probes, n);
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
