/* SPDX-License-Identifier: Apache-2.0 */
/* test_addon.c: tests add-ons, which bring operators and kernel rows for the devices of another
 * plugin: their selection, rules and order of destruction, and that a faulty one harms only
 * itself. */
#include "fixture.h"
#include "plugin_kit.h"

#include <backplane/ops.h>
#include <math.h>

static struct kit_log addon_log;

/* Creates a core that finds the add-ons of these names, beside the plugins of the installation. */
static struct bp_core *addon_core(const char *names)
{
    char path[4096] = "", *at = path, *copy = strdup(names);

    for (char *name = strtok(copy, " "); name; name = strtok(NULL, " "))
        at += snprintf(at, (size_t)(path + sizeof path - at), "%s%s/bp_%s.json",
                       at == path ? "" : ":", name[0] == 'h' ? HOSTILE_DIR : ADDON_DIR, name);
    free(copy);
    return kit_core(&addon_log, path, NULL);
}

static struct fixture addon_open(const char *names, const char *device)
{
    struct fixture f = {.core = addon_core(names)};

    setenv("BP_FALLBACK", "deny", 1);
    OK(bp_device_create(f.core, device, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

static struct bp_tensor *addon_floats(struct fixture *f, int64_t n, const float *data)
{
    return tensor_of(f, BP_F32, 1, &n, data);
}

static void addon_expect(struct fixture *f, struct bp_tensor *y, int64_t n, const float *expected)
{
    float got[16];

    OK(bp_tensor_read(f->stream, y, got, (uint64_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        cr_expect_float_eq(got[i], expected[i], 1e-6, "element %d: %g", (int)i, (double)got[i]);
    bp_tensor_destroy(y);
}

/* Calls an operator by name. */
static enum bp_status addon_call(struct bp_scope *scope, const char *op, struct bp_tensor *x,
                                 const void *attrs, struct bp_tensor **out, size_t n_out)
{
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = op, .in = &in, .n_in = 1,
                                 .attrs = attrs};

    memset(out, 0, n_out * sizeof *out);
    return bp_call_run(scope, &call, out, n_out, NULL);
}

/* Returns relu(1) of the device minus 1: the mark of the add-on whose row ran. */
static float addon_mark(struct fixture *f)
{
    struct bp_tensor *x = addon_floats(f, 1, (float[]){1}), *y = NULL;
    float got;

    OK(bp_op_relu(f->scope, x, &y));
    OK(bp_tensor_read(f->stream, y, &got, sizeof got));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    return got - 1;
}

static struct bp_kernel_info addon_row(struct fixture *f, const char *name)
{
    for (uint32_t i = 0; i < bp_device_kernels(f->device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        OK(bp_device_kernel(f->device, i, &info));
        if (!strcmp(info.name, name)) return info;
    }
    return (struct bp_kernel_info){.plugin = ""};
}

/* ---- correct add-ons ---- */

Test(addon, rows_join_the_selection_by_priority)
{
    struct fixture f = fixture_init();
    uint32_t plain = bp_device_kernels(f.device);

    cr_expect_eq(addon_mark(&f), 0);
    fixture_finish(&f);
    f = addon_open("a_good", "cpu");
    cr_expect_eq(addon_mark(&f), 100);
    cr_expect_eq(bp_device_kernels(f.device), plain + 4);
    cr_expect_str_eq(addon_row(&f, "a_good_relu").plugin, "a_good");
    cr_expect_str_eq(addon_row(&f, "a_good_relu").reason, "");
    cr_expect_str_eq(addon_row(&f, "a_good_never").reason, "needs a coprocessor");
    cr_expect_eq(addon_log.count[BP_LOG_ERROR], 0, "%s", addon_log.text[BP_LOG_ERROR]);
    fixture_finish(&f);
    f = addon_open("a_better a_good", "cpu");
    cr_expect_eq(addon_mark(&f), 200);
    cr_expect_eq(bp_device_kernels(f.device), plain + 8);
    fixture_finish(&f);
}

Test(addon, is_listed_with_what_it_adds_to)
{
    struct fixture f = addon_open("a_good", "cpu");
    struct bp_plugin_info info = kit_info(f.core, "a_good"), cpu = kit_info(f.core, "cpu");

    cr_expect_str_eq(info.kind, "");
    cr_expect_str_eq(info.adds_to, "cpu");
    cr_expect_str_eq(cpu.adds_to, "");
    cr_expect_eq(info.state, BP_PLUGIN_READY);
    cr_expect_eq(info.devices, 0);
    cr_expect_eq(info.step, BP_STEP_COUNT);
    fixture_finish(&f);
}

struct cut_attrs {
    size_t size;
    int64_t parts;
};

Test(addon, an_operator_has_any_number_of_outputs)
{
    struct fixture f = addon_open("a_good", "cpu");
    struct bp_tensor *x = addon_floats(&f, 6, (float[]){1, 2, 3, 4, 5, 6}), *y[4];
    struct cut_attrs a = {sizeof a, 3};

    OK(addon_call(f.scope, "acme.Cut", x, &a, y, 3));
    for (int i = 0; i < 3; i++) {
        float expected[] = {(float)(2 * i + 1), (float)(2 * i + 2)};
        addon_expect(&f, y[i], 2, expected);
    }
    FAILS(BP_ERR_INVALID, "4 outputs asked for, 3 made",
          addon_call(f.scope, "acme.Cut", x, &a, y, 4));
    a.parts = 0;
    FAILS(BP_ERR_INVALID, "do not go together", addon_call(f.scope, "acme.Cut", x, &a, y, 1));
    a.parts = 5;
    FAILS(BP_ERR_INVALID, "do not go together", addon_call(f.scope, "acme.Cut", x, &a, y, 4));
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* The gradient of the middle part is not given: zero. */
Test(addon, a_gradient_rule_calls_operators)
{
    struct fixture f = addon_open("a_good", "cpu");
    struct bp_tensor *x = addon_floats(&f, 6, (float[]){1, 2, 3, 4, 5, 6}), *y[3], *dx = NULL;
    struct bp_tensor *dy[] = {addon_floats(&f, 2, (float[]){7, 8}), NULL,
                              addon_floats(&f, 2, (float[]){9, 10})};
    struct cut_attrs a = {sizeof a, 3};
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = "acme.Cut", .in = &in, .n_in = 1,
                                 .attrs = &a};

    OK(addon_call(f.scope, "acme.Cut", x, &a, y, 3));
    OK(bp_call_gradient(f.scope, &call, y, dy, 3, (uint8_t[]){1}, &dx, 1));
    addon_expect(&f, dx, 6, (float[]){7, 8, 0, 0, 9, 10});
    for (int i = 0; i < 3; i++) bp_tensor_destroy(y[i]), bp_tensor_destroy(dy[i]);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Without a gradient rule the decomposition is differentiated. */
Test(addon, a_decomposition_runs_without_a_row_and_has_a_gradient)
{
    struct fixture f = addon_open("a_good", "cpu");
    struct bp_tensor *x = addon_floats(&f, 2, (float[]){1, 2}), *y, *dx = NULL;
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = "acme.Twice", .in = &in, .n_in = 1};
    const struct bp_opinfo *op = bp_opinfo_find("acme.Twice");

    cr_expect(op && op->flags == (BP_OP_EXPAND | BP_OP_GRADIENT));
    OK(addon_call(f.scope, "acme.Twice", x, NULL, &y, 1));
    OK(bp_call_gradient(f.scope, &call, &y, &x, 1, (uint8_t[]){1}, &dx, 1));
    addon_expect(&f, y, 2, (float[]){2, 4});
    addon_expect(&f, dx, 2, (float[]){2, 4});
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* y = Cut(relu(Twice(x))) in a graph, as it is run node by node, and compiled. */
Test(addon, operators_and_rows_are_used_in_graphs_and_programs)
{
    struct fixture f = addon_open("a_good", "cpu");
    struct bp_tensor *x = addon_floats(&f, 4, (float[]){1, 2, -3, 4}), *in, *t, *r = NULL, *y[2];
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, (int64_t[]){4}, &in));
    OK(addon_call(bp_graph_scope(graph), "acme.Twice", in, NULL, &t, 1));
    OK(bp_op_relu(bp_graph_scope(graph), t, &r));
    OK(addon_call(bp_graph_scope(graph), "acme.Cut", r, NULL, y, 2));
    for (int i = 0; i < 2; i++) OK(bp_graph_output(graph, y[i], NULL));
    for (int i = 0; i < 2; i++) bp_tensor_destroy(y[i]);
    bp_tensor_destroy(in);
    bp_tensor_destroy(t);
    bp_tensor_destroy(r);
    OK(bp_program_create(graph, f.device, &program));
    for (int run = 0; run < 3; run++) {
        struct bp_tensor *out[2] = {NULL};
        if (run) OK(bp_program_run(program, f.stream, &x, 1, out, 2));
        else OK(bp_graph_run(graph, f.stream, &x, 1, out, 2));
        addon_expect(&f, out[0], 2, (float[]){102, 104});
        addon_expect(&f, out[1], 2, (float[]){100, 108});
    }
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* The template: f32 by its row, f64 by the decomposition, and its gradient against differences. */
Test(addon, the_template_computes_its_operator_and_gradient)
{
    struct fixture f = {0};
    double in[] = {-3, -0.5, 0, 2}, got[4], slope[4];
    struct bp_tensor *x, *y, *dx = NULL;
    float narrow[4];

    f.core = kit_core(&addon_log, TEMPLATE_ADDON, NULL);
    OK(bp_device_create(f.core, "cpu", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    for (int wide = 0; wide < 2; wide++) {
        for (int i = 0; i < 4; i++) narrow[i] = (float)in[i];
        x = tensor_of(&f, wide ? BP_F64 : BP_F32, 1, (int64_t[]){4}, wide ? (void *)in : narrow);
        OK(addon_call(f.scope, "addon.SquarePlus", x, NULL, &y, 1));
        if (wide) OK(bp_tensor_read(f.stream, y, got, sizeof got));
        else OK(bp_tensor_read(f.stream, y, narrow, sizeof narrow));
        for (int i = 0; i < 4; i++)
            cr_expect_float_eq(wide ? got[i] : (double)narrow[i],
                               (in[i] + sqrt(in[i] * in[i] + 4)) / 2, wide ? 1e-14 : 1e-6);
        if (!wide) bp_tensor_destroy(x), bp_tensor_destroy(y);
    }
    {
        const struct bp_arg arg = {&x, 1};
        const struct bp_call call = {.size = sizeof call, .op = "addon.SquarePlus", .in = &arg,
                                     .n_in = 1};
        double ones[] = {1, 1, 1, 1};
        struct bp_tensor *dy = tensor_of(&f, BP_F64, 1, (int64_t[]){4}, ones);
        OK(bp_call_gradient(f.scope, &call, &y, &dy, 1, (uint8_t[]){1}, &dx, 1));
        OK(bp_tensor_read(f.stream, dx, slope, sizeof slope));
        bp_tensor_destroy(dy);
    }
    for (int i = 0; i < 4; i++) {
        double a = in[i] + 1e-6, b = in[i] - 1e-6;
        double expected = (a + sqrt(a * a + 4) - b - sqrt(b * b + 4)) / 4e-6;
        cr_expect_float_eq(slope[i], expected, 1e-8, "%g, expected %g", slope[i], expected);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(dx);
    fixture_finish(&f);
}

/* Records x + sqrt(x x + 9), halved, in a graph of one output. */
static struct bp_graph *addon_spelled(struct fixture *f)
{
    struct bp_scale_attrs nine = {.size = sizeof nine, .factor = 1, .bias = 9},
                          half = {.size = sizeof half, .factor = 0.5};
    struct bp_tensor *x, *t[5] = {NULL};
    struct bp_scope *scope;
    struct bp_graph *graph;

    OK(bp_graph_create(f->core, &graph));
    scope = bp_graph_scope(graph);
    OK(bp_graph_input(graph, "x", BP_F32, 1, (int64_t[]){2}, &x));
    OK(bp_op_mul(scope, x, x, &t[0]));
    OK(addon_call(scope, "scale", t[0], &nine, &t[1], 1));
    OK(bp_op_sqrt(scope, t[1], &t[2]));
    OK(bp_op_add(scope, x, t[2], &t[3]));
    OK(addon_call(scope, "scale", t[3], &half, &t[4], 1));
    OK(bp_graph_output(graph, t[4], "y"));
    for (int i = 0; i < 5; i++) bp_tensor_destroy(t[i]);
    bp_tensor_destroy(x);
    return graph;
}

/* How many nodes the pass replaced in a program; -1: there is no such pass. */
static int addon_changes(struct bp_program *program, const char *name)
{
    struct bp_pass_result r = {.size = sizeof r};

    for (uint32_t i = 0; bp_program_pass(program, i, &r) == BP_OK; i++)
        if (!strcmp(r.name, name)) return (int)r.changes;
    return -1;
}

Test(addon, a_pattern_replaces_nodes_of_programs_for_the_owner)
{
    struct fixture f = {.core = kit_core(&addon_log, TEMPLATE_ADDON, NULL)};
    struct bp_tensor *x, *y = NULL;
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_device_create(f.core, "cpu", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    graph = addon_spelled(&f);
    OK(bp_program_create(graph, f.device, &program));
    x = addon_floats(&f, 2, (float[]){0, 4});
    OK(bp_program_run(program, f.stream, &x, 1, &y, 1));
    addon_expect(&f, y, 2, (float[]){1.5f, 4.5f});
    cr_expect_gt(addon_changes(program, "addon.square_plus"), 0);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    fixture_finish(&f);
    f = fixture_init();
    graph = addon_spelled(&f);
    OK(bp_program_create(graph, f.device, &program));
    OK(bp_program_compile(program));
    cr_expect_eq(addon_changes(program, "addon.square_plus"), -1);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}

/* ---- the order of creation and destruction ---- */

static char order[1024];

static void addon_note(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    if (!strstr(text, "created") && !strstr(text, "destroyed")) return;
    strncat(order, text, sizeof order - strlen(order) - 1);
    strcat(order, ";");
}

Test(addon, its_instance_lives_within_that_of_its_owner)
{
    struct bp_core_options options = {.size = sizeof options, .log = addon_note};
    struct fixture f = {0};
    struct bp_tensor *x, *y[2];

    setenv("BP_LOG", "info", 1);
    options.plugin_path = ADDON_DIR "/bp_a_owned.json:" ADDON_DIR "/bp_owner.json";
    OK(bp_core_create(&options, &f.core));
    OK(bp_device_create(f.core, "owner", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    x = addon_floats(&f, 2, (float[]){1, 2});
    OK(addon_call(bp_stream_scope(f.stream), "acme.Cut", x, NULL, y, 2));
    for (int i = 0; i < 2; i++) bp_tensor_destroy(y[i]);
    bp_tensor_destroy(x);
    fixture_finish(&f);
    cr_expect_str_eq(order, "owner: created;a_owned: created;a_owned: plan destroyed;"
                            "a_owned: destroyed;owner: destroyed;");
}

/* ---- add-ons that cannot be used ---- */

static const struct {
    const char *name;
    uint32_t state;
    const char *words[3]; /* of its reason */
} refused[] = {
    {"a_missing", BP_PLUGIN_BROKEN, {"there is no such library"}},
    {"a_abi", BP_PLUGIN_BROKEN, {"of another plugin ABI"}},
    {"a_kind", BP_PLUGIN_BROKEN, {"expected kind to be NULL beside adds_to"}},
    {"a_runtime", BP_PLUGIN_BROKEN, {"expected runtime to be NULL beside adds_to"}},
    {"a_empty", BP_PLUGIN_BROKEN, {"an add-on without kernels, passes and engines brings nothing"}},
    {"a_stream", BP_PLUGIN_BROKEN, {"expected stream_type, got NULL"}},
    {"a_bad_stream", BP_PLUGIN_BROKEN, {"its stream_type cannot be used", "got \"cpu\""}},
    {"a_other_stream", BP_PLUGIN_BROKEN, {"plugin cpu ", "expected \"cpu/1\", got \"cpu/0\""}},
    {"a_create", BP_PLUGIN_BROKEN, {"create failed", "the licence has run out"}},
    {"a_twin", BP_PLUGIN_BROKEN, {"has the name of a row of plugin cpu", "begin with a_twin_"}},
    {"a_row", BP_PLUGIN_BROKEN, {"kernel row 0", "expected launch"}},
    {"a_operator", BP_PLUGIN_BROKEN, {"(\"acme.Twice\") cannot be taken: another plugin brings"}},
    {"a_count", BP_PLUGIN_BROKEN, {"any number of tensors, and no rule count"}},
    {"a_counted", BP_PLUGIN_BROKEN, {"it has a rule count, and no output"}},
    {"a_rule", BP_PLUGIN_BROKEN, {"rules 1 are of no operator", "got \"acme.Thrice\""}},
    {"a_again", BP_PLUGIN_BROKEN, {"rules 2 are of no operator", "each name once"}},
    {"a_stride", BP_PLUGIN_BROKEN, {"the rules of its operators cannot be walked", "12;"}},
};

/* Each of them is loaded beside a correct one and the owner, which both work. */
Test(addon, a_faulty_one_harms_only_itself)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct fixture f = addon_open(kit_format("a_good %s", refused[i].name), "cpu");
        struct bp_plugin_info info = kit_info(f.core, refused[i].name);

        cr_expect_eq(info.state, refused[i].state, "%s: state %u", refused[i].name, info.state);
        for (int k = 0; k < 3 && refused[i].words[k]; k++)
            cr_expect(strstr(info.reason, refused[i].words[k]), "%s: '%s' lacks '%s'",
                      refused[i].name, info.reason, refused[i].words[k]);
        cr_expect_eq(addon_log.count[BP_LOG_ERROR], 1, "%s: %d messages", refused[i].name,
                     addon_log.count[BP_LOG_ERROR]);
        cr_expect_str_eq(addon_log.text[BP_LOG_ERROR], info.reason);
        cr_expect_eq(addon_mark(&f), 100, "%s", refused[i].name);
        FAILS(BP_ERR_PLUGIN, info.reason,
              bp_core_load(f.core, kit_find(f.core, refused[i].name)));
        fixture_finish(&f);
    }
}

Test(addon, an_owner_may_be_missing)
{
    struct bp_core *core = addon_core("a_nobody h_create_absent h_create_fails h_good a_of_absent "
                                      "a_of_broken a_of_closed a_elsewhere owner");
    static const struct {
        const char *name, *word;
        enum bp_status status;
        uint32_t state;
    } cases[] = {
        {"a_nobody", "no plugin serves the kind nobody", BP_ERR_NOT_FOUND, BP_PLUGIN_UNPROBED},
        {"a_of_absent", "plugin h_create_absent to be ready", BP_ERR_ABSENT, BP_PLUGIN_ABSENT},
        {"a_of_broken", "plugin h_create_fails to be ready", BP_ERR_ABSENT, BP_PLUGIN_ABSENT},
        {"a_of_closed", "plugin h_good 0.1.0 takes no add-ons", BP_ERR_PLUGIN, BP_PLUGIN_BROKEN},
        {"a_elsewhere", "its adds_to is not what the manifest", BP_ERR_PLUGIN, BP_PLUGIN_BROKEN},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FAILS(cases[i].status, cases[i].word, bp_core_load(core, kit_find(core, cases[i].name)));
        cr_expect_eq(kit_info(core, cases[i].name).state, cases[i].state, "%s", cases[i].name);
    }
    bp_core_destroy(core);
}

/* By their paths: an add-on waits for its owner, and comes too late once the owner is loaded. */
Test(addon, is_loaded_by_its_path_before_its_owner)
{
    struct fixture f = {.core = addon_core("")};
    uint32_t index;

    FAILS(BP_ERR_NOT_FOUND, "no plugin serves the kind owner",
          bp_core_load_path(f.core, ADDON_DIR "/bp_a_owned.so", NULL));
    OK(bp_core_load_path(f.core, ADDON_DIR "/bp_owner.so", &index));
    cr_expect_eq(kit_info(f.core, "a_owned").state, BP_PLUGIN_READY);
    OK(bp_device_create(f.core, "owner", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    cr_expect_eq(addon_mark(&f), 100);
    FAILS(BP_ERR_PLUGIN, "expected kind to be NULL",
          bp_core_load_path(f.core, ADDON_DIR "/bp_a_kind.so", NULL));
    OK(bp_core_load_path(f.core, ADDON_DIR "/bp_a_good.so", NULL));
    FAILS(BP_ERR_PLUGIN, "too late to add to plugin cpu",
          bp_core_load_path(f.core, ADDON_DIR "/bp_a_better.so", NULL));
    cr_expect_str_eq(kit_info(f.core, "a_good").adds_to, "cpu");
    fixture_finish(&f);
}

/* ---- faults of rules and kernels, which a call finds ---- */

/* Calls acme.Twice of one add-on. Operators belong to the process, where the first of two equal
 * ones counts: each test is a process. */
static void addon_fails(const char *name, enum bp_status status, const char *word)
{
    struct fixture f = addon_open(name, "cpu");
    struct bp_tensor *x = addon_floats(&f, 2, (float[]){1, 2}), *y;

    FAILS(status, word, addon_call(f.scope, "acme.Twice", x, NULL, &y, 1));
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(addon, a_result_of_another_type_fails_the_call)
{
    addon_fails("a_result", BP_ERR_PLUGIN,
                "result 0 of decompose of its plugin is f64 [2], expected f32 [2]");
}
Test(addon, a_result_that_is_no_tensor_fails_the_call)
{
    addon_fails("a_tensor", BP_ERR_PLUGIN, "is no tensor that the rule was given");
}
Test(addon, a_call_of_an_unknown_operator_fails_the_call)
{
    addon_fails("a_call", BP_ERR_NOT_FOUND, "no_such_operator");
}
Test(addon, a_decomposition_into_itself_fails_the_call)
{
    addon_fails("a_cycle", BP_ERR_INTERNAL, "leads back to itself");
}

Test(addon, messages_name_the_add_on)
{
    struct fixture f = addon_open("a_launch", "cpu");
    struct bp_tensor *x = addon_floats(&f, 2, (float[]){1, 2}), *y = NULL;

    FAILS(BP_ERR_DEVICE, "plugin a_launch: a_launch_relu failed and gave no reason",
          bp_op_relu(f.scope, x, &y));
    bp_tensor_destroy(x);
    fixture_finish(&f);
}
