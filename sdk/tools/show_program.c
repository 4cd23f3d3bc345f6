/* SPDX-License-Identifier: Apache-2.0 */
/* show_program.c: `bp program`: shows the compiled program of an ONNX model, without running it. */
#include "show_program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const memory_names[] = {"arena", "input", "constant", "result", "shape only"};

char *show_type(const struct bp_view *type)
{
    char *text = bp_text_format("%s ", bp_dtype_name(type->dtype));

    for (uint32_t a = 0; a < type->rank; a++) {
        char *before = text;
        text = bp_text_format("%s%s%lld", before, a ? "x" : "", (long long)type->shape[a]);
        free(before);
    }
    return text;
}

/* Whether the elements lie in the order of the axes 0, 2, 3, ..., 1. */
static bool is_channels_last(const struct bp_view *type)
{
    int64_t step = 1;

    if (type->rank < 3) return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t axis = i == 0 ? 1 : i + 1 == type->rank ? 0 : type->rank - i;
        if (type->shape[axis] != 1 && type->stride[axis] != step) return false;
        step *= type->shape[axis];
    }
    return true;
}

const char *show_layout(const struct bp_operand_info *o)
{
    const struct bp_view *type = o->type;

    if (*o->layout) return o->layout;
    if (!(type->flags & BP_VIEW_STRIDED)) return "row-major";
    return is_channels_last(type) ? "channels-last" : "strided";
}

static char *show_place(const struct bp_operand_info *o)
{
    const char *before = o->in_place ? "in place, " : "";

    if (o->memory == BP_MEMORY_ARENA)
        return bp_text_format("%sarena + %llu", before, (unsigned long long)o->offset);
    if (o->memory == BP_MEMORY_NONE) return bp_text_format("%s", memory_names[o->memory]);
    return bp_text_format("%s%s %u", before, memory_names[o->memory], o->index);
}

bool show_launch(struct bp_program *program, uint32_t n, struct bp_launch_info *out)
{
    *out = (struct bp_launch_info){.size = sizeof *out};
    return !bp_program_launch(program, n, out);
}

bool show_operand(struct bp_program *program, uint32_t n, uint32_t k, struct bp_operand_info *out)
{
    *out = (struct bp_operand_info){.size = sizeof *out};
    return !bp_program_operand(program, n, k, out) && out->type;
}

/* ---- for people ---- */

static void print_launch(struct bp_table *table, struct bp_program *program, uint32_t n)
{
    struct bp_launch_info l;
    struct bp_operand_info o;
    char *cell[8] = {0};
    const char *layout = "";

    if (!show_launch(program, n, &l)) return;
    cell[0] = bp_text_format("%u", n);
    cell[1] = bp_text_format("%.48s", l.node);
    cell[2] = bp_text_format("%s", l.op);
    cell[3] = bp_text_format("%s%s", l.kernel, l.tuned ? " (tuned)" : "");
    if (l.n_out && show_operand(program, n, l.n_in, &o)) {
        cell[4] = show_type(o.type);
        cell[5] = show_place(&o);
        layout = show_layout(&o);
    } else {
        cell[4] = bp_text_format("-");
        cell[5] = bp_text_format("-");
    }
    cell[6] = bp_bytes_text(l.read + l.written);
    cell[7] = bp_text_format("%u", l.sources);
    bp_table_row(table,
                 (const char *const[]){cell[0], cell[1], cell[7], cell[2], cell[3], cell[4], layout,
                                       cell[5], cell[6]},
                 NULL);
    for (size_t i = 0; i < sizeof cell / sizeof *cell; i++) free(cell[i]);
}

static void print_launches(struct bp_program *program, uint32_t n)
{
    static const char *const headings[] = {"", "NODE", "MERGES", "OPERATOR", "KERNEL", "OUTPUT",
                                           "LAYOUT", "MEMORY", "BYTES"};
    struct bp_table table;

    bp_table_init(&table, sizeof headings / sizeof *headings, headings);
    for (uint32_t i = 0; i < n; i++) print_launch(&table, program, i);
    bp_table_print(&table, 0);
    bp_table_finish(&table);
}

static void print_passes(struct bp_program *program)
{
    static const char *const headings[] = {"PASS", "CHANGES", "NODES AFTER"};
    struct bp_pass_result pass = {.size = sizeof pass};
    struct bp_table table;

    bp_table_init(&table, 3, headings);
    for (uint32_t i = 0; !bp_program_pass(program, i, &pass); i++) {
        char *changes = bp_text_format("%u", pass.changes);
        char *nodes = bp_text_format("%u", pass.nodes);
        bp_table_row(&table,
                     (const char *const[]){pass.name, pass.ran ? changes : "left out",
                                           pass.ran ? nodes : ""},
                     NULL);
        free(changes);
        free(nodes);
    }
    bp_table_print(&table, 0);
    bp_table_finish(&table);
}

/* Prints the groups of the device's engines, and the nodes in no group. */
static void print_engines(struct bp_program *program, const struct bp_program_info *info)
{
    static const char *const headings[] = {"NODES", "UP TO", "ENGINE", ""};
    static const char *const left_headings[] = {"LEFT OUT", "OPERATOR", "WHY"};
    struct bp_group_info group = {.size = sizeof group};
    struct bp_left_info left = {.size = sizeof left};
    struct bp_table table;

    if (*info->engines) printf("no node is given to an engine: %s\n\n", info->engines);
    bp_table_init(&table, 4, headings);
    for (uint32_t i = 0; !bp_program_group(program, i, &group) && group.node; i++) {
        char *nodes = bp_text_format("%u", group.nodes);
        char *text = bp_text_format("%s%s%s", group.compiled ? "compiled" : "run by kernels",
                                    *group.text ? ": " : "", group.text);
        bp_table_row(&table, (const char *const[]){nodes, group.node, group.engine, text}, NULL);
        free(nodes);
        free(text);
    }
    if (!bp_program_group(program, 0, &group) && group.node) {
        bp_table_print(&table, 0);
        printf("\n");
    }
    bp_table_finish(&table);
    bp_table_init(&table, 3, left_headings);
    for (uint32_t i = 0; !bp_program_left(program, i, &left) && left.node; i++)
        bp_table_row(&table, (const char *const[]){left.node, left.op, left.why}, NULL);
    if (!bp_program_left(program, 0, &left) && left.node) {
        bp_table_print(&table, 0);
        printf("\n");
    }
    bp_table_finish(&table);
}

static void print_memory(const struct bp_program_info *info)
{
    char *before = bp_bytes_text(info->unplanned), *arena = bp_bytes_text(info->arena);
    char *constants = bp_bytes_text(info->constants), *folded = bp_bytes_text(info->folded);

    printf("intermediate results and workspaces: %s in an arena of %s (%.0f %%)\n"
           "constants: %s, of which the compiler computed %s\n",
           before, arena,
           info->unplanned ? 100 * (double)info->arena / (double)info->unplanned : 100.0, constants,
           folded);
    free(before);
    free(arena);
    free(constants);
    free(folded);
}

static void print_program(const struct run_model *r, struct bp_program *program, const char *why)
{
    struct bp_program_info info = {.size = sizeof info};

    if (!program) {
        printf("%s on %s: no program: runs go node by node: %s\n", r->path, r->device_name, why);
        return;
    }
    if (bp_program_get_info(program, &info)) return;
    printf("%s on %s: %u nodes recorded", r->path, r->device_name, info.recorded_nodes);
    if (why) {
        printf(", not compiled: runs go node by node: %s\n", why);
        return;
    }
    printf(", %u after the passes, %u launches\n", info.nodes, info.launches);
    if (*info.cache) printf("the program's file: %s\n", info.cache);
    printf("\n");
    print_passes(program);
    printf("\n");
    print_engines(program, &info);
    print_memory(&info);
    printf("\n");
    print_launches(program, info.launches);
}

/* ---- JSON ---- */

static cJSON *json_operand(const struct bp_operand_info *o)
{
    cJSON *json = cJSON_CreateObject(), *shape = cJSON_AddArrayToObject(json, "shape");

    bp_json_text(json, "dtype", bp_dtype_name(o->type->dtype));
    for (uint32_t a = 0; a < o->type->rank; a++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)o->type->shape[a]));
    bp_json_text(json, "layout", show_layout(o));
    bp_json_text(json, "memory", memory_names[o->memory]);
    cJSON_AddNumberToObject(json, "index", o->index);
    cJSON_AddNumberToObject(json, "offset", (double)o->offset);
    cJSON_AddNumberToObject(json, "bytes", (double)o->bytes);
    cJSON_AddBoolToObject(json, "in_place", o->in_place);
    cJSON_AddBoolToObject(json, "folded", o->folded);
    return json;
}

static cJSON *json_launch(struct bp_program *program, uint32_t n)
{
    cJSON *json = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(json, "merges");
    struct bp_launch_info l;
    struct bp_operand_info o;

    if (!show_launch(program, n, &l)) return json;
    bp_json_text(json, "node", l.node);
    for (uint32_t i = 0; i < l.sources; i++) {
        char *clean = bp_text_clean(l.source[i]);
        cJSON_AddItemToArray(list, cJSON_CreateString(clean));
        free(clean);
    }
    bp_json_text(json, "node_operator", l.node_op);
    bp_json_text(json, "operator", l.op);
    bp_json_text(json, "kernel", l.kernel);
    cJSON_AddBoolToObject(json, "tuned", l.tuned);
    cJSON_AddNumberToObject(json, "read", (double)l.read);
    cJSON_AddNumberToObject(json, "written", (double)l.written);
    cJSON_AddNumberToObject(json, "workspace", (double)l.workspace);
    cJSON_AddNumberToObject(json, "flops", (double)l.flops);
    list = cJSON_AddArrayToObject(json, "inputs");
    for (uint32_t k = 0; k < l.n_in + l.n_out; k++) {
        if (k == l.n_in) list = cJSON_AddArrayToObject(json, "outputs");
        cJSON_AddItemToArray(list, show_operand(program, n, k, &o) ? json_operand(&o)
                                                                  : cJSON_CreateNull());
    }
    return json;
}

static void json_engines(cJSON *json, struct bp_program *program,
                         const struct bp_program_info *info)
{
    cJSON *list = cJSON_AddArrayToObject(json, "groups");
    struct bp_group_info group = {.size = sizeof group};
    struct bp_left_info left = {.size = sizeof left};

    bp_json_text(json, "engines", info->engines);
    for (uint32_t i = 0; !bp_program_group(program, i, &group) && group.node; i++) {
        cJSON *one = cJSON_CreateObject();
        bp_json_text(one, "engine", group.engine);
        bp_json_text(one, "node", group.node);
        cJSON_AddNumberToObject(one, "nodes", group.nodes);
        cJSON_AddBoolToObject(one, "compiled", group.compiled);
        bp_json_text(one, "text", group.text);
        cJSON_AddItemToArray(list, one);
    }
    list = cJSON_AddArrayToObject(json, "left_out");
    for (uint32_t i = 0; !bp_program_left(program, i, &left) && left.node; i++) {
        cJSON *one = cJSON_CreateObject();
        bp_json_text(one, "node", left.node);
        bp_json_text(one, "op", left.op);
        bp_json_text(one, "why", left.why);
        cJSON_AddItemToArray(list, one);
    }
}

static void json_compiled(cJSON *json, struct bp_program *program)
{
    struct bp_program_info info = {.size = sizeof info};
    struct bp_pass_result pass = {.size = sizeof pass};
    cJSON *passes = cJSON_AddArrayToObject(json, "passes"), *list;

    if (bp_program_get_info(program, &info)) return;
    for (uint32_t i = 0; !bp_program_pass(program, i, &pass); i++) {
        cJSON *one = cJSON_CreateObject();
        bp_json_text(one, "name", pass.name);
        cJSON_AddBoolToObject(one, "ran", pass.ran);
        cJSON_AddNumberToObject(one, "changes", pass.changes);
        cJSON_AddNumberToObject(one, "nodes", pass.nodes);
        cJSON_AddItemToArray(passes, one);
    }
    cJSON_AddBoolToObject(json, "loaded", info.loaded);
    bp_json_text(json, "cache", info.cache);
    cJSON_AddNumberToObject(json, "recorded_nodes", info.recorded_nodes);
    cJSON_AddNumberToObject(json, "nodes", info.nodes);
    cJSON_AddNumberToObject(json, "unplanned_bytes", (double)info.unplanned);
    cJSON_AddNumberToObject(json, "arena_bytes", (double)info.arena);
    cJSON_AddNumberToObject(json, "constant_bytes", (double)info.constants);
    cJSON_AddNumberToObject(json, "folded_bytes", (double)info.folded);
    json_engines(json, program, &info);
    list = cJSON_AddArrayToObject(json, "launches");
    for (uint32_t i = 0; i < info.launches; i++)
        cJSON_AddItemToArray(list, json_launch(program, i));
}

static int json_program(const struct run_model *r, struct bp_program *program, const char *why)
{
    cJSON *json = cJSON_CreateObject();

    bp_json_text(json, "model", r->path);
    bp_json_text(json, "device", r->device_name);
    cJSON_AddBoolToObject(json, "compiled", program && !why);
    bp_json_text(json, "not_compiled", why);
    if (program && !why) json_compiled(json, program);
    return bp_json_print(json);
}

/* ---- the command ---- */

/* Finds and compiles the program. *out_why: why runs go node by node, or NULL; the caller frees
 * it. */
static bool find_program_of(struct run_model *r, struct bp_program **out_program, char **out_why)
{
    struct bp_tensor **in = calloc(r->n_in + 1, sizeof *in);
    enum bp_status status = BP_OK;

    if (!in) abort();
    for (uint32_t i = 0; i < r->n_in; i++) {
        if (r->in[i].kind == BP_MODEL_TENSOR) in[i] = r->in[i].at[0];
        else if (!*out_why) *out_why = bp_text_format("input %u is no tensor", i);
    }
    if (!*out_why) status = bp_model_program(r->model, in, r->n_in, out_program);
    free(in);
    if (*out_why) return true;
    if (status == BP_OK) status = bp_program_compile(*out_program);
    if (status == BP_ERR_UNSUPPORTED) *out_why = bp_text_format("%s", bp_error_message());
    return status == BP_OK || status == BP_ERR_UNSUPPORTED || run_failed(r->path);
}

static int program_show(struct run_model *r, const struct run_words *w, const char *dot)
{
    struct bp_program *program = NULL;
    char *why = NULL;
    int status = BP_EXIT_GOOD;

    if (!run_check_shapes(r, w)) return BP_EXIT_USAGE;
    if (!run_take_inputs(r, w) || !find_program_of(r, &program, &why)) return BP_EXIT_FAILED;
    if (w->json) status = json_program(r, program, why);
    else print_program(r, program, why);
    if (dot && program && !why && !show_dot(program, dot)) {
        bp_complain("program", "%s can't be written", dot);
        status = BP_EXIT_BROKEN;
    }
    free(why);
    return status;
}

/* `bp tune` is `bp program --tune` that requires a folder for the choices. */
static int program_command(int argc, char **argv, bool tunes)
{
    struct run_model r = {.device_name = "cpu:0", .output = stdout};
    struct run_words w = {.repeat = NAN, .fold_mib = NAN, .run_mib = NAN, .rounds = NAN,
                          .seconds = NAN};
    const char *dot = NULL;
    const struct bp_option options[] = {
        {"device", 0, BP_OPTION_TEXT, "DEV", "where (default cpu:0)", &r.device_name},
        {"data", 0, BP_OPTION_TEXT, "DIR", "inputs with the types of DIR/input_N.pb", &w.data},
        {"shape", 0, BP_OPTION_TEXTS, "NAME=1x3x8",
         "extents of an input; what a model leaves open is 1 otherwise", &w.shapes},
        {"cache", 0, BP_OPTION_TEXT, "DIR",
         "keep what the compiler finds in files there (default: BP_PROGRAM_CACHE)",
         &w.cache},
        {"dot", 0, BP_OPTION_OUTPUT, "FILE", "write the launches as a graph for Graphviz", &dot},
        {"json", 0, BP_OPTION_FLAG, NULL, "print JSON", &w.json},
        {tunes ? NULL : "tune", 0, BP_OPTION_FLAG, NULL,
         "time the kernel rows that take each call, and keep the choices in the cache", &w.tune},
        {0},
    };
    const struct bp_usage usage = {
        .command = tunes ? "tune" : "program",
        .words = "MODEL.onnx",
        .min_words = 1,
        .max_words = 1,
        .about = tunes ?
                 "Times the kernel rows that take each call of an ONNX model on a device, and "
                 "keeps the faster ones in a folder, for later programs with that folder "
                 "(`bp run --cache`, BP_PROGRAM_CACHE). Shows the program, where a chosen row is "
                 "marked." :
                 "Shows the compiled program of an ONNX model, without running it: what each pass "
                 "of the compiler changed, the memory before and after, and each launch with the "
                 "nodes that it merges, its kernel, and the type, layout and place of its output; "
                 "or why runs go node by node.",
        .options = options,
    };
    int status = bp_options_parse(&usage, argc, argv, &r.path);

    if (status != BP_OPTIONS_GOOD) return status;
    run_command = usage.command;
    if (!run_has_data(usage.command, &w) || !run_can_read(r.path)) return BP_EXIT_USAGE;
    if (tunes && !w.cache && !getenv("BP_PROGRAM_CACHE")) {
        bp_complain("tune", "there is no folder for the choices: set --cache or BP_PROGRAM_CACHE");
        return BP_EXIT_USAGE;
    }
    w.tune |= tunes;
    status = run_open(&r, &w);
    if (!status) status = program_show(&r, &w, dot);
    run_close(&r);
    return status;
}

int bp_cmd_program(int argc, char **argv)
{
    return program_command(argc, argv, false);
}

int bp_cmd_tune(int argc, char **argv)
{
    return program_command(argc, argv, true);
}
