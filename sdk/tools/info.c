/* SPDX-License-Identifier: Apache-2.0 */
/* info.c: `bp info DEV`: prints the properties of a device, the features that the core supplies for
 * it, its memory, and its kernel rows. */
#include "tools.h"

#include <stdlib.h>
#include <string.h>

/* The kernel rows of one operator. */
struct op_rows {
    const char *op;
    uint32_t rows, usable;
    uint64_t types; /* dtypes of all type variables of usable rows */
};

struct facts {
    struct bp_device *device;
    struct bp_device_properties properties;
    struct bp_memory_stats memory;
    struct bp_plugin_info plugin;
    uint32_t emulated;
    uint32_t n_kernel, n_usable;
    struct bp_kernel_info *kernel; /* n_kernel */
    struct op_rows *op;            /* n_op entries, in the order of the rows */
    uint32_t n_op;
};

static const struct {
    uint32_t bit;
    const char *word, *text;
} emulated_words[] = {
    {BP_EMULATED_STREAMS, "streams", "streams: all share the device's one order"},
    {BP_EMULATED_EVENTS, "events", "events: waiting for one waits for its stream"},
    {BP_EMULATED_STREAM_WAIT, "stream_wait", "waits between streams: the host waits"},
    {BP_EMULATED_MEMORY_INFO, "memory_info", "free memory: counted by the core"},
    {BP_EMULATED_RECORDING, "recording", "recorded work: programs run node by node"},
    {BP_EMULATED_COLLECTIVES, "collectives", "collectives: by way of host memory"},
}, flag_words[] = {
    {BP_DEVICE_INLINE, "inline", "inline: work is done when its call returns"},
    {BP_DEVICE_HOST_VISIBLE, "host_visible", "host-visible: the host may touch its memory"},
    {BP_DEVICE_HANDLES, "handles", "handles: memory has no addresses"},
    {BP_DEVICE_GRAPH_ONLY, "graph_only", "graph-only: an engine compiles calls without a kernel"},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void add_row(struct facts *facts, const struct bp_kernel_info *row)
{
    struct op_rows *op = facts->op;

    while (op < facts->op + facts->n_op && strcmp(op->op, row->op)) op++;
    if (op == facts->op + facts->n_op) {
        *op = (struct op_rows){.op = row->op};
        facts->n_op++;
    }
    op->rows++;
    if (*row->reason) return;
    op->usable++;
    facts->n_usable++;
    for (int i = 0; i < BP_VAR_COUNT; i++) op->types |= row->types[i];
}

/* Finds the plugin that serves the kind: the ready plugin with the highest priority, the first one
 * among equals. */
static void find_plugin(struct bp_core *core, struct facts *facts)
{
    const char *name = bp_device_name(facts->device);
    size_t kind = strcspn(name, ":");

    facts->plugin = (struct bp_plugin_info){.name = "", .version = "", .library = ""};
    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_plugin(core, i, &info) || info.state != BP_PLUGIN_READY) continue;
        if (strlen(info.kind) != kind || strncmp(info.kind, name, kind)) continue;
        if (!*facts->plugin.name || info.priority > facts->plugin.priority) facts->plugin = info;
    }
}

static enum bp_status info_gather(struct bp_core *core, struct bp_device *device,
                                  struct facts *facts)
{
    enum bp_status status;

    *facts = (struct facts){.device = device};
    facts->properties.size = sizeof facts->properties;
    facts->memory.size = sizeof facts->memory;
    if ((status = bp_device_get_properties(device, &facts->properties))) return status;
    if ((status = bp_device_memory(device, &facts->memory))) return status;
    facts->emulated = bp_device_emulated(device);
    facts->n_kernel = bp_device_kernels(device);
    facts->kernel = calloc(facts->n_kernel + 1u, sizeof *facts->kernel);
    facts->op = calloc(facts->n_kernel + 1u, sizeof *facts->op);
    if (!facts->kernel || !facts->op) return BP_ERR_MEMORY;
    for (uint32_t i = 0; i < facts->n_kernel; i++) {
        facts->kernel[i].size = sizeof facts->kernel[i];
        if ((status = bp_device_kernel(device, i, &facts->kernel[i]))) return status;
        add_row(facts, &facts->kernel[i]);
    }
    find_plugin(core, facts);
    return BP_OK;
}

static void print_fact(const char *name, const char *text)
{
    struct bp_table table;
    char padded[24];

    snprintf(padded, sizeof padded, "%-12s", name);
    bp_table_init(&table, 2, NULL);
    bp_table_row(&table, (const char *[]){padded, text}, NULL);
    bp_table_print(&table, 2);
    bp_table_finish(&table);
}

static void print_bytes(const char *name, uint64_t bytes, const char *zero)
{
    char *text = bytes ? bp_bytes_text(bytes) : bp_text_format("%s", zero);

    print_fact(name, text);
    free(text);
}

static const char *const image_words[] = {[BP_IMAGES_UNKNOWN] = "",
                                          [BP_IMAGES_ROW_MAJOR] = "row-major",
                                          [BP_IMAGES_CHANNELS_LAST] = "channels-last"};

/* Prints only known values; most devices do not report these. */
static void print_hardware(const struct bp_device_properties *p)
{
    char *uuid = bp_uuid_text(p->uuid);

    if (*p->arch) print_fact("architecture", p->arch);
    if (*uuid) print_fact("uuid", uuid);
    if (*p->pci) print_fact("PCI", p->pci);
    if (*image_words[p->images]) print_fact("images", image_words[p->images]);
    free(uuid);
}

static void print_device(const struct facts *facts)
{
    const struct bp_device_properties *p = &facts->properties;
    char *dtypes = bp_dtypes_text(p->dtypes);
    char *units = p->units ? bp_text_format("%u", p->units) : bp_text_format("unknown");
    char *plugin = bp_text_format("%s %s, %s", facts->plugin.name, facts->plugin.version,
                                  facts->plugin.library);
    uint32_t n = 0;

    printf("%s\n", bp_device_name(facts->device));
    print_fact("name", p->name);
    print_fact("driver", p->driver);
    print_fact("plugin", plugin);
    print_bytes("memory", p->memory, "unknown");
    print_bytes("in one piece", p->max_alloc, "as much as there is");
    print_bytes("alignment", p->alignment, "unknown");
    print_fact("units", units);
    print_hardware(p);
    print_fact("dtypes", dtypes);
    for (size_t i = 0; i < COUNT(flag_words); i++)
        if (p->flags & flag_words[i].bit) print_fact(n++ ? "" : "kind", flag_words[i].text);
    n = 0;
    for (size_t i = 0; i < COUNT(emulated_words); i++)
        if (facts->emulated & emulated_words[i].bit)
            print_fact(n++ ? "" : "emulated", emulated_words[i].text);
    if (!n) print_fact("emulated", "nothing");
    free(dtypes);
    free(units);
    free(plugin);
}

static void print_memory(const struct facts *facts)
{
    char *free_now = facts->memory.device_free ? bp_bytes_text(facts->memory.device_free)
                                        : bp_text_format("unknown");
    char *total = facts->memory.device_total ? bp_bytes_text(facts->memory.device_total)
                                      : bp_text_format("unknown");
    char *text = bp_text_format("%s of %s", free_now, total);

    print_fact("free now", text);
    free(free_now);
    free(total);
    free(text);
}

/* Prints the rows that work in layouts of the plugin, and returns how many there are. */
static uint32_t print_layouts(const struct facts *facts)
{
    struct bp_table table;
    uint32_t n = 0;

    bp_table_init(&table, 2, (const char *[]){"FOR PROGRAMS ONLY", "LAYOUTS"});
    for (uint32_t i = 0; i < facts->n_kernel; i++) {
        const struct bp_kernel_info *k = &facts->kernel[i];
        if (!*k->layouts) continue;
        bp_table_row(&table, (const char *[]){k->name, k->layouts}, NULL);
        n++;
    }
    if (n) printf("\n");
    if (n) bp_table_print(&table, 2);
    bp_table_finish(&table);
    return n;
}

/* Finds an add-on to the device's plugin behind index `at` of the core's plugins, and counts its
 * rows. Returns its index; UINT32_MAX: there are no more. */
static uint32_t next_addon(const struct facts *facts, uint32_t at, struct bp_plugin_info *out,
                           struct op_rows *out_rows)
{
    struct bp_core *core = bp_device_core(facts->device);

    for (uint32_t i = at; i < bp_core_plugins(core); i++) {
        out->size = sizeof *out;
        if (bp_core_plugin(core, i, out) || !*out->adds_to) continue;
        if (strcmp(out->adds_to, facts->plugin.kind)) continue;
        *out_rows = (struct op_rows){.op = out->name};
        for (uint32_t k = 0; k < facts->n_kernel; k++) {
            if (strcmp(facts->kernel[k].plugin, out->name)) continue;
            out_rows->rows++;
            out_rows->usable += !*facts->kernel[k].reason;
        }
        return i;
    }
    return UINT32_MAX;
}

static void print_addons(const struct facts *facts)
{
    struct bp_plugin_info info;
    struct op_rows rows;
    struct bp_table table;
    uint32_t n = 0;

    bp_table_init(&table, 4, (const char *[]){"ADD-ON", "STATE", "ROWS", "RUN"});
    for (uint32_t i = 0; (i = next_addon(facts, i, &info, &rows)) != UINT32_MAX; i++, n++) {
        char *count = bp_text_format("%u", rows.rows), *run = bp_text_format("%u", rows.usable);
        bp_table_row(&table, (const char *[]){info.name, bp_state_name(info.state), count, run},
                     info.reason);
        free(count);
        free(run);
    }
    if (n) printf("\n");
    if (n) bp_table_print(&table, 2);
    bp_table_finish(&table);
}

static cJSON *addons_json(const struct facts *facts)
{
    cJSON *list = cJSON_CreateArray();
    struct bp_plugin_info info;
    struct op_rows rows;

    for (uint32_t i = 0; (i = next_addon(facts, i, &info, &rows)) != UINT32_MAX; i++) {
        cJSON *addon = cJSON_CreateObject();
        bp_json_text(addon, "name", info.name);
        bp_json_text(addon, "version", info.version);
        bp_json_text(addon, "state", bp_state_name(info.state));
        bp_json_text(addon, "reason", info.reason);
        cJSON_AddNumberToObject(addon, "rows", rows.rows);
        cJSON_AddNumberToObject(addon, "usable", rows.usable);
        cJSON_AddItemToArray(list, addon);
    }
    return list;
}

static void print_kernels(const struct facts *facts)
{
    struct bp_table table;
    uint32_t n_layout;

    printf("\nkernel rows: %u, of which %u can run here; operators: %u\n", facts->n_kernel,
           facts->n_usable, facts->n_op);
    if (!facts->n_op) return;
    bp_table_init(&table, 4, (const char *[]){"OPERATOR", "ROWS", "RUN", "DTYPES"});
    for (uint32_t i = 0; i < facts->n_op; i++) {
        char *rows = bp_text_format("%u", facts->op[i].rows);
        char *usable = bp_text_format("%u", facts->op[i].usable);
        char *dtypes = bp_dtypes_text(facts->op[i].types);
        bp_table_row(&table, (const char *[]){facts->op[i].op, rows, usable, dtypes}, NULL);
        free(rows);
        free(usable);
        free(dtypes);
    }
    bp_table_print(&table, 2);
    bp_table_finish(&table);
    print_addons(facts);
    n_layout = print_layouts(facts);
    if (facts->n_usable + n_layout == facts->n_kernel) return;
    printf("\n");
    bp_table_init(&table, 1, (const char *[]){"CANNOT RUN HERE"});
    for (uint32_t i = 0; i < facts->n_kernel; i++)
        if (*facts->kernel[i].reason && !*facts->kernel[i].layouts)
            bp_table_row(&table, (const char *[]){facts->kernel[i].name}, facts->kernel[i].reason);
    bp_table_print(&table, 2);
    bp_table_finish(&table);
}

static cJSON *kernels_json(const struct facts *facts)
{
    cJSON *kernels = cJSON_CreateObject();
    cJSON *list;

    cJSON_AddNumberToObject(kernels, "rows", facts->n_kernel);
    cJSON_AddNumberToObject(kernels, "usable", facts->n_usable);
    list = cJSON_AddArrayToObject(kernels, "operators");
    for (uint32_t i = 0; i < facts->n_op; i++) {
        cJSON *op = cJSON_CreateObject();
        bp_json_text(op, "op", facts->op[i].op);
        cJSON_AddNumberToObject(op, "rows", facts->op[i].rows);
        cJSON_AddNumberToObject(op, "usable", facts->op[i].usable);
        bp_json_dtypes(op, "dtypes", facts->op[i].types);
        cJSON_AddItemToArray(list, op);
    }
    list = cJSON_AddArrayToObject(kernels, "for_programs");
    for (uint32_t i = 0; i < facts->n_kernel; i++) {
        if (!*facts->kernel[i].layouts) continue;
        cJSON *row = cJSON_CreateObject();
        bp_json_text(row, "name", facts->kernel[i].name);
        bp_json_text(row, "layouts", facts->kernel[i].layouts);
        cJSON_AddItemToArray(list, row);
    }
    list = cJSON_AddArrayToObject(kernels, "unusable");
    for (uint32_t i = 0; i < facts->n_kernel; i++) {
        if (!*facts->kernel[i].reason || *facts->kernel[i].layouts) continue;
        cJSON *row = cJSON_CreateObject();
        bp_json_text(row, "name", facts->kernel[i].name);
        bp_json_text(row, "reason", facts->kernel[i].reason);
        cJSON_AddItemToArray(list, row);
    }
    return kernels;
}

static int print_json(const struct facts *facts)
{
    const struct bp_device_properties *p = &facts->properties;
    char *uuid = bp_uuid_text(p->uuid);
    cJSON *json = cJSON_CreateObject();
    cJSON *part;

    bp_json_text(json, "device", bp_device_name(facts->device));
    bp_json_text(json, "name", p->name);
    bp_json_text(json, "driver", p->driver);
    part = cJSON_AddObjectToObject(json, "plugin");
    bp_json_text(part, "name", facts->plugin.name);
    bp_json_text(part, "version", facts->plugin.version);
    bp_json_text(part, "library", facts->plugin.library);
    cJSON_AddNumberToObject(json, "memory", (double)p->memory);
    cJSON_AddNumberToObject(json, "max_alloc", (double)p->max_alloc);
    cJSON_AddNumberToObject(json, "alignment", (double)p->alignment);
    cJSON_AddNumberToObject(json, "units", p->units);
    bp_json_text(json, "arch", p->arch);
    bp_json_text(json, "uuid", uuid);
    bp_json_text(json, "pci", p->pci);
    bp_json_text(json, "images", image_words[p->images]);
    bp_json_dtypes(json, "dtypes", p->dtypes);
    part = cJSON_AddArrayToObject(json, "flags");
    for (size_t i = 0; i < COUNT(flag_words); i++)
        if (p->flags & flag_words[i].bit)
            cJSON_AddItemToArray(part, cJSON_CreateString(flag_words[i].word));
    part = cJSON_AddArrayToObject(json, "emulated");
    for (size_t i = 0; i < COUNT(emulated_words); i++)
        if (facts->emulated & emulated_words[i].bit)
            cJSON_AddItemToArray(part, cJSON_CreateString(emulated_words[i].word));
    part = cJSON_AddObjectToObject(json, "memory_now");
    cJSON_AddNumberToObject(part, "total", (double)facts->memory.device_total);
    cJSON_AddNumberToObject(part, "free", (double)facts->memory.device_free);
    cJSON_AddItemToObject(json, "kernels", kernels_json(facts));
    cJSON_AddItemToObject(json, "addons", addons_json(facts));
    free(uuid);
    return bp_json_print(json);
}

static int info_show(struct bp_core *core, struct bp_device *device, bool json)
{
    struct facts facts;
    enum bp_status status = info_gather(core, device, &facts);
    int exit_status = BP_EXIT_GOOD;

    if (status) {
        bp_complain("info", "%s", bp_error_message());
        exit_status = BP_EXIT_FAILED;
    } else if (json) {
        exit_status = print_json(&facts);
    } else {
        print_device(&facts);
        print_memory(&facts);
        print_kernels(&facts);
    }
    free(facts.kernel);
    free(facts.op);
    return exit_status;
}

int bp_cmd_info(int argc, char **argv)
{
    bool json = false;
    const char *name;
    const struct bp_option options[] = {
        {"json", 0, BP_OPTION_FLAG, NULL, "for programs", &json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "info",
        .words = "DEV",
        .min_words = 1, .max_words = 1,
        .about =
            "Shows a device (\"cpu\", \"cpu:0\"): its properties, what its plugin leaves out and "
            "the core supplies, its memory, and the kernel rows of its plugin.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &name);
    if (status != BP_OPTIONS_GOOD) return status;
    if (bp_path_is_missing("info", name)) return BP_EXIT_NO_DEVICE;

    bp_watch_begin("info");
    struct bp_core *core = bp_tool_core("info", NULL);
    struct bp_device *device;
    if (!core) return BP_EXIT_BROKEN;
    enum bp_status opened = bp_device_create(core, name, &device);
    if (opened) {
        bp_complain("info", "%s", bp_error_message());
        status = bp_exit_of_device(opened);
    } else {
        status = info_show(core, device, json);
        bp_device_destroy(device);
    }
    bp_core_destroy(core);
    return status;
}
