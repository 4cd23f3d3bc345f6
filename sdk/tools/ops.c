/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: `bp ops`: lists the operators, and the kernels that a device has for them. */
#include "opfacts.h"

#include <stdlib.h>
#include <string.h>

#include "tools.h"

/* The kernel rows of a device for an operator: usable rows, and their dtypes by type variable. */
struct support {
    uint32_t rows;
    uint32_t of_addon;  /* rows that add-ons brought */
    const char *addon;  /* the first such add-on, or NULL */
    const char *reason; /* of the first row that cannot run here or is left out, or NULL */
    uint32_t refused;   /* rows with that reason */
    uint32_t others;    /* rows with other reasons */
    uint64_t types[BP_VAR_COUNT];
};

/* The ways in which a device can run an operator. */
enum way {
    WAY_KERNEL,
    WAY_VIEW,
    WAY_COPY,
    WAY_OTHERS,
    WAY_NONE,
    WAYS
};
static const char *const way_word[WAYS] = {"kernel", "view", "copy", "others", "no"};

static enum way way_of(const struct bp_opinfo *op, const struct support *support)
{
    if (support->rows) return WAY_KERNEL;
    if (op->flags & BP_OP_VIEW) return WAY_VIEW;
    if (!strcmp(op->name, "assign")) return WAY_COPY;
    return op->flags & BP_OP_EXPAND ? WAY_OTHERS : WAY_NONE;
}

/* The operator of a device's row, if the plugin defines that operator and no earlier row has it;
 * else NULL. */
static const struct bp_opinfo *own_of_row(struct bp_device *device, uint32_t row)
{
    struct bp_kernel_info info = {.size = sizeof info}, before = {.size = sizeof before};

    if (bp_device_kernel(device, row, &info) || !strchr(info.op, '.')) return NULL;
    for (uint32_t i = 0; i < row; i++)
        if (!bp_device_kernel(device, i, &before) && !strcmp(before.op, info.op)) return NULL;
    return bp_opinfo_find(info.op);
}

/* Returns operator number *at or a later one, and advances *at: first those of the table, then
 * those that the plugin defines. NULL: there are no more. device NULL: those of the table only. */
static const struct bp_opinfo *next_op(struct bp_device *device, uint32_t *at)
{
    uint32_t n = bp_opinfo_count(), rows = device ? bp_device_kernels(device) : 0;
    const struct bp_opinfo *op = NULL;

    if (*at < n) return bp_opinfo_at((*at)++);
    while (!op && *at - n < rows) op = own_of_row(device, (*at)++ - n);
    return op;
}

/* The name of the device's plugin: its own rows come first. */
static const char *support_owner(struct bp_device *device)
{
    struct bp_kernel_info row = {.size = sizeof row};

    return bp_device_kernel(device, 0, &row) ? "" : row.plugin;
}

static struct support support_find(struct bp_device *device, const struct bp_opinfo *op)
{
    struct support support = {0};
    const char *owner = support_owner(device);

    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info row = {.size = sizeof row};
        if (bp_device_kernel(device, i, &row) || strcmp(row.op, op->name)) continue;
        if (*row.reason) {
            if (!support.reason) support.reason = row.reason;
            if (!strcmp(support.reason, row.reason)) support.refused++;
            else support.others++;
            continue;
        }
        support.rows++;
        if (strcmp(row.plugin, owner)) {
            support.of_addon++;
            if (!support.addon) support.addon = row.plugin;
        }
        for (int var = 0; var < BP_VAR_COUNT; var++) support.types[var] |= row.types[var];
    }
    return support;
}

/* Text such as "T: f32 f64, U: i8"; without letters if there is only one type variable. The caller
 * frees it. */
static char *types_text(const struct bp_opinfo *op, const uint64_t *types)
{
    char *text = bp_text_format("%s", "");

    for (int var = 0; var < BP_VAR_COUNT; var++) {
        if (!op->types[var]) continue;
        char *dtypes = bp_dtypes_text(types[var]);
        char letter[8] = "";
        if (bp_opinfo_vars(op) > 1) snprintf(letter, sizeof letter, "%c: ", bp_var_name(var));
        char *more = bp_text_format("%s%s%s%s", text, *text ? ", " : "", letter, dtypes);
        free(dtypes);
        free(text);
        text = more;
    }
    return text;
}

/* Text such as "x y [bias]". The caller frees it. */
static char *ports_text(const struct bp_port *port, unsigned n)
{
    char *text = bp_text_format("%s", "");

    for (unsigned i = 0; i < n; i++) {
        char *name = bp_port_text(&port[i]);
        char *more = bp_text_format("%s%s%s", text, i ? " " : "", name);
        free(name);
        free(text);
        text = more;
    }
    return text;
}

/* Text such as "axes keep". The caller frees it. */
static char *attrs_text(const struct bp_opinfo *op)
{
    char *text = bp_text_format("%s", op->n_attr ? "" : "-");

    for (unsigned i = 0; i < op->n_attr; i++) {
        char *more = bp_text_format("%s%s%s", text, i ? " " : "", op->attr[i].name);
        free(text);
        text = more;
    }
    return text;
}

/* The note below an operator of a device: rows of add-ons, rows that cannot run; "" if there are
 * none. The caller frees it. */
static char *note_text(const struct support *support)
{
    char *addon = support->addon ? bp_text_format("%u of the rows: add-on %s", support->of_addon,
                                                  support->addon)
                                 : bp_text_format("%s", "");
    char *text, others[40] = "";

    if (!support->reason) return addon;
    if (support->others) snprintf(others, sizeof others, "; %u for other reasons", support->others);
    text = bp_text_format("%s%s%u more row%s: %s%s", addon, *addon ? "; " : "", support->refused,
                          support->refused > 1 ? "s" : "", support->reason, others);
    free(addon);
    return text;
}

/* All rows of the device for an operator, with the reason of those that cannot run. */
static void rows_json(cJSON *json, struct bp_device *device, const struct bp_opinfo *op)
{
    cJSON *list = cJSON_AddArrayToObject(json, "names");

    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info row = {.size = sizeof row};
        cJSON *one;
        if (bp_device_kernel(device, i, &row) || strcmp(row.op, op->name)) continue;
        one = cJSON_CreateObject();
        bp_json_text(one, "name", row.name);
        bp_json_text(one, "reason", row.reason);
        cJSON_AddItemToArray(list, one);
    }
}

/* Adds one row: the description of the operator, or the kernels that the device has for it. */
static void add_row(struct bp_table *table, const struct bp_opinfo *op, struct bp_device *device)
{
    char *cell[4] = {NULL};

    if (device) {
        static const char *const without[WAYS] = {"", "view", "copied by the library", "in others",
                                                  "no kernel"};
        struct support support = support_find(device, op);
        cell[0] = bp_text_format("%u", support.rows);
        cell[1] = support.rows ? types_text(op, support.types)
                               : bp_text_format("%s", without[way_of(op, &support)]);
        cell[2] = note_text(&support);
        bp_table_row(table, (const char *[]){op->name, cell[0], cell[1]},
                     *cell[2] ? cell[2] : NULL);
    } else {
        struct bp_opfacts facts = bp_opfacts_find(op->name);
        cell[0] = ports_text(op->in, op->n_in);
        cell[1] = ports_text(op->out, op->n_out);
        cell[2] = attrs_text(op);
        const char *gradient = facts.no_gradient ? "no" : "yes";
        bp_table_row(table, (const char *[]){op->name, cell[0], cell[1], gradient, cell[2]},
                     op->doc);
    }
    for (int i = 0; i < 4; i++) free(cell[i]);
}

static void print_sum(struct bp_device *device)
{
    uint32_t n[WAYS] = {0}, all = 0, own = 0, at = 0;
    const struct bp_opinfo *op;
    char of_these[40] = "";

    for (; (op = next_op(device, &at)); all++) {
        struct support support = support_find(device, op);
        n[way_of(op, &support)]++;
        own += all >= bp_opinfo_count();
    }
    if (own) snprintf(of_these, sizeof of_these, ", %u of them its own", own);
    printf("\n%s has kernels for %u of %u operators%s; %u more are views, which need none, and %u "
           "are defined in others: they run where it has kernels for those\n",
           bp_device_name(device), n[WAY_KERNEL], all, of_these, n[WAY_VIEW], n[WAY_OTHERS]);
}

static void ops_print_table(struct bp_device *device)
{
    static const char *const plain[] = {"OPERATOR", "INPUTS", "OUTPUTS", "GRADIENT", "ATTRIBUTES"};
    static const char *const of_device[] = {"OPERATOR", "ROWS", "DTYPES"};
    const struct bp_opinfo *op;
    struct bp_table table;
    uint32_t at = 0;

    bp_table_init(&table, device ? 3 : 5, device ? of_device : plain);
    while ((op = next_op(device, &at))) add_row(&table, op, device);
    bp_table_print(&table, 0);
    bp_table_finish(&table);
    if (device) print_sum(device);
}

static void types_json(cJSON *json, const struct bp_opinfo *op, const uint64_t *types)
{
    cJSON *object = cJSON_AddObjectToObject(json, "types");

    for (int var = 0; var < BP_VAR_COUNT; var++) {
        char letter[2] = {bp_var_name(var), 0};
        if (op->types[var]) bp_json_dtypes(object, letter, types[var]);
    }
}

static void ports_json(cJSON *json, const char *key, const struct bp_port *port, unsigned n)
{
    static const char *const kinds[16] = {
        [BP_PORT_IN] = "one",      [BP_PORT_OPT] = "optional",    [BP_PORT_VAR] = "any",
        [BP_PORT_OUT] = "one",     [BP_PORT_OPTOUT] = "optional", [BP_PORT_HOST] = "host",
        [BP_PORT_VIEW] = "view",   [BP_PORT_UPDATE] = "update",   [BP_PORT_VAROUT] = "any",
        [BP_PORT_VIEWS] = "views",
    };
    cJSON *list = cJSON_AddArrayToObject(json, key);

    for (unsigned i = 0; i < n; i++) {
        char letter[2] = {bp_var_name(port[i].var), 0};
        cJSON *one = cJSON_CreateObject();
        bp_json_text(one, "name", port[i].name);
        bp_json_text(one, "kind", kinds[port[i].kind & 15]);
        bp_json_text(one, "type", letter);
        bp_json_text(one, "doc", port[i].doc);
        cJSON_AddItemToArray(list, one);
    }
}

static void attrs_json(cJSON *json, const struct bp_opinfo *op)
{
    cJSON *list = cJSON_AddArrayToObject(json, "attributes");

    for (unsigned i = 0; i < op->n_attr; i++) {
        const struct bp_attr *attr = &op->attr[i];
        char *text = bp_attr_default_text(attr);
        cJSON *one = cJSON_CreateObject();
        bp_json_text(one, "name", attr->name);
        bp_json_text(one, "kind", bp_attr_kind_name(attr->kind));
        bp_json_text(one, "when", attr->when == BP_ATTR_RUN ? "run" : "key");
        cJSON_AddNumberToObject(one, "count", attr->count);
        cJSON_AddNumberToObject(one, "default", attr->value);
        bp_json_text(one, "default_text", text); /* JSON has no infinity */
        free(text);
        bp_json_text(one, "doc", attr->doc);
        cJSON_AddItemToArray(list, one);
    }
}

static void aliases_json(cJSON *json, const char *alias)
{
    cJSON *list = cJSON_AddArrayToObject(json, "aliases");

    while (alias && *alias) {
        char *name = bp_text_format("%.*s", (int)strcspn(alias, " "), alias);
        cJSON_AddItemToArray(list, cJSON_CreateString(name));
        alias += strlen(name);
        alias += strspn(alias, " ");
        free(name);
    }
}

static cJSON *op_json(const struct bp_opinfo *op, struct bp_device *device)
{
    struct bp_opfacts facts = bp_opfacts_find(op->name);
    cJSON *json = cJSON_CreateObject();

    bp_json_text(json, "name", op->name);
    bp_json_text(json, "family", facts.family);
    bp_json_text(json, "doc", op->doc);
    aliases_json(json, op->alias);
    bool gradient = strchr(op->name, '.') ? op->flags & BP_OP_GRADIENT : !facts.no_gradient;
    cJSON_AddBoolToObject(json, "gradient", gradient);
    ports_json(json, "inputs", op->in, op->n_in);
    ports_json(json, "outputs", op->out, op->n_out);
    attrs_json(json, op);
    types_json(json, op, op->types);
    if (device) {
        struct support support = support_find(device, op);
        cJSON *kernels = cJSON_AddObjectToObject(json, "kernels");
        cJSON_AddNumberToObject(kernels, "rows", support.rows);
        bp_json_text(kernels, "runs", way_word[way_of(op, &support)]);
        types_json(kernels, op, support.types);
        if (support.addon) bp_json_text(kernels, "addon", support.addon);
        rows_json(kernels, device, op);
    }
    return json;
}

static int print_json(struct bp_device *device)
{
    cJSON *json = cJSON_CreateObject();
    const struct bp_opinfo *op;
    uint32_t at = 0;
    cJSON *list;

    if (device) bp_json_text(json, "device", bp_device_name(device));
    list = cJSON_AddArrayToObject(json, "ops");
    while ((op = next_op(device, &at))) cJSON_AddItemToArray(list, op_json(op, device));
    return bp_json_print(json);
}

static int show_device(const char *name, bool json)
{
    bp_watch_begin("ops");
    struct bp_core *core = bp_tool_core("ops", NULL);
    struct bp_device *device;
    enum bp_status opened;
    int status = BP_EXIT_GOOD;

    if (!core) return BP_EXIT_BROKEN;
    opened = bp_device_create(core, name, &device);
    if (opened) {
        bp_complain("ops", "%s", bp_error_message());
        status = bp_exit_of_device(opened);
    } else {
        if (json) status = print_json(device);
        else ops_print_table(device);
        bp_device_destroy(device);
    }
    bp_core_destroy(core);
    return status;
}

int bp_cmd_ops(int argc, char **argv)
{
    const char *device = NULL;
    bool json = false, markdown = false, onnx = false;
    const struct bp_option options[] = {
        {"device", 0, BP_OPTION_TEXT, "DEV",
         "the dtypes that this device has kernels for, its plugin's own operators too", &device},
        {"markdown", 0, BP_OPTION_FLAG, NULL, "print docs/ops.md", &markdown},
#ifdef BP_ONNX
        {"onnx", 0, BP_OPTION_FLAG, NULL, "print the table of docs/onnx.md", &onnx},
#endif
        {"json", 0, BP_OPTION_FLAG, NULL, "for programs", &json},
        {0},
    };
    const struct bp_usage usage = {
        .command = "ops",
        .about =
            "Lists the operators: what they mean, their tensors ([x] may be left out, x... is any "
            "number) and attributes, and whether they have a gradient.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, NULL);
    if (status != BP_OPTIONS_GOOD) return status;
    if ((markdown || onnx) && (json || device || markdown == onnx)) {
        bp_complain("ops", "--%s goes with no other option: it prints docs/%s.md",
                    markdown ? "markdown" : "onnx", markdown ? "ops" : "onnx");
        return BP_EXIT_USAGE;
    }
#ifdef BP_ONNX
    if (onnx) return bp_ops_onnx();
#endif
    if (markdown) return bp_ops_markdown();
    if (device) return show_device(device, json);
    if (json) return print_json(NULL);
    ops_print_table(NULL);
    return BP_EXIT_GOOD;
}
