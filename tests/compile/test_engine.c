/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine.c: tests engines of plugins in programs, by a device whose engine does what
 * BP_ENGINED says (../plugins/engined/engined.h): groups, failures, contexts, layouts, reports. */
#include "engine_kit.h"

#include "../../core/compile/engine.h"
#include "../../core/compile/saved.h"

#include <backplane/ops.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns why the node of this operator is in no group; NULL: it is in one. */
static const char *why_left(const struct compiled *c, const char *op)
{
    struct bp_left_info left = {.size = sizeof left};

    for (uint32_t i = 0;; i++) {
        OK(bp_program_left(c->program, i, &left));
        if (!left.node) return NULL;
        if (!strcmp(left.op, op)) return left.why;
    }
}

/* Asserts that nothing was compiled, that the report says why, and that values are right. */
static void expect_kernels(const char *words, const char *text, const char *why)
{
    struct compiled c = compiled_of(words, text);
    struct bp_group_info group = group_of(&c, 0);

    cr_assert_null(strstr(c.launches, "engine"), "%s: %s", words, c.launches);
    cr_assert_not_null(group.node, "%s", words);
    cr_assert_eq(group.compiled, 0);
    cr_assert_not_null(strstr(group.text, why), "%s: '%s' does not say '%s'", words, group.text,
                       why);
    pass_check_values(&c.g, 0);
    compiled_finish(&c);
}

Test(engine, a_claimed_graph_is_one_launch)
{
    struct compiled c = compiled_of("", CHAIN);
    struct bp_launch_info launch = {.size = sizeof launch};
    struct bp_group_info group = group_of(&c, 0);

    cr_assert_str_eq(c.launches, "engine");
    OK(bp_program_launch(c.program, 0, &launch));
    cr_assert_str_eq(launch.kernel, "engined_engine");
    cr_assert_eq(launch.sources, 4);
    cr_assert(group.compiled && group.nodes == 4);
    cr_assert_str_eq(group.engine, "engined");
    cr_assert_str_eq(group.text, "interpreted");
    cr_assert_null(group_of(&c, 1).node);
    cr_assert(launch.workspace > 0 && c.info.arena >= launch.workspace, "its workspace is planned");
    pass_check_values(&c.g, 0);
    cr_assert_eq(atomic_load(&c.did->runs), 1);
    compiled_finish(&c);
}

Test(engine, nothing_is_claimed)
{
    struct compiled c = compiled_of("claim=none", CHAIN);

    cr_assert_eq(atomic_load(&c.did->claims), 1);
    cr_assert_null(strstr(c.launches, "engine"));
    cr_assert_null(group_of(&c, 0).node);
    cr_assert_str_eq(why_left(&c, "mul"), "the engine does not claim it");
    pass_check_values(&c.g, 0);
    compiled_finish(&c);
}

/* An engine that claims all nodes gets those that it may run. */
Test(engine, nodes_that_cannot_be_claimed)
{
    struct compiled c = compiled_of("claim=greedy", "a = relu(x)\nb = transpose(a)\n"
                                                    "c = tanh(p~[4,4,4])\n"
                                                    "sgd(p~, g[4,4,4], 0.5)\n"
                                                    "d = dropout(a; p=0.5)\n"
                                                    "return b, c, d");

    cr_assert_str_eq(why_left(&c, "transpose"), "the engine does not know the operator");
    cr_assert_str_eq(why_left(&c, "tanh"), "it uses memory that the graph updates");
    cr_assert_str_eq(why_left(&c, "sgd"), "it updates an input");
    cr_assert_str_eq(why_left(&c, "dropout"), "it draws random numbers");
    cr_assert_null(why_left(&c, "relu"));
    cr_assert_eq(group_of(&c, 0).nodes, 1);
    compiled_finish(&c);
}

/* Asserts the flags and the permissions of a claim, which are those of the compilation too. */
static void expect_flags(const char *variable, uint32_t options, const char *text, uint32_t flags,
                         uint32_t allow)
{
    struct compiled c;

    setenv("BP_ALLOW", variable, 1);
    c = compiled_with("", text, options);
    unsetenv("BP_ALLOW");
    cr_assert_eq(atomic_load(&c.did->flags), flags, "%s %u: flags %u", variable, options,
                 atomic_load(&c.did->flags));
    cr_assert_eq(atomic_load(&c.did->allow), allow, "%s %u: allow %u", variable, options,
                 atomic_load(&c.did->allow));
    cr_assert_eq(atomic_load(&c.did->differ), 0);
    cr_assert_geq(atomic_load(&c.did->compiles), 1);
    compiled_finish(&c);
}

Test(engine, a_claim_gets_what_the_app_allows)
{
    expect_flags("", 0, CHAIN, BP_ENGINE_DETERMINISTIC, 0);
    expect_flags("none", 0, CHAIN, BP_ENGINE_DETERMINISTIC, 0);
    expect_flags("fast-maths", 0, CHAIN, BP_ENGINE_DETERMINISTIC, 0);
    expect_flags("winograd", 0, CHAIN, BP_ENGINE_DETERMINISTIC, BP_ALLOW_WINOGRAD);
    expect_flags("fast-math", 0, CHAIN, BP_ENGINE_FAST_MATH, BP_ALLOW_FAST_MATH);
    expect_flags("winograd,fast-math", 0, CHAIN, BP_ENGINE_FAST_MATH,
                 BP_ALLOW_WINOGRAD | BP_ALLOW_FAST_MATH);
    expect_flags("none", BP_PROGRAM_FAST_MATH, CHAIN, BP_ENGINE_FAST_MATH, BP_ALLOW_FAST_MATH);
    expect_flags("none", BP_PROGRAM_WINOGRAD, CHAIN, BP_ENGINE_DETERMINISTIC, BP_ALLOW_WINOGRAD);
    expect_flags("none", 0, "a = relu(x)\nsgd(p~[4,4,4], g[4,4,4], 0.5)\nreturn a",
                 BP_ENGINE_DETERMINISTIC | BP_ENGINE_TRAIN, 0);
}

/* Two groups of two nodes each would depend on each other. */
Test(engine, groups_that_depend_on_each_other_are_split)
{
    static const char *const words[] = {"claim=2", "claim=3", "claim=7"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct compiled c = compiled_of(words[i], "a = relu(x)\nb = tanh(a)\nc = sigmoid(b)\n"
                                                  "d = mul(c, a)\ne = add(d, b)\nf = sub(e, c)\n"
                                                  "g = mul(f, a)\nreturn g, d");
        cr_assert_not_null(group_of(&c, 1).node, "%s", words[i]);
        cr_assert_null(strstr(c.launches, "relu"), "%s", c.launches);
        pass_check_values(&c.g, 0);
        compiled_finish(&c);
    }
}

/* A reshape of an input that the app gets stays a view. */
Test(engine, views_of_outer_memory_stay_outside)
{
    struct compiled c = compiled_of("", "a = reshape(x[4,4]; shape=2_8)\nb = relu(a)\nreturn a, b");

    cr_assert_str_eq(why_left(&c, "reshape"), "it is a view of memory outside the group");
    cr_assert_str_eq(c.launches, "engine");
    pass_check_values(&c.g, 0);
    compiled_finish(&c);
    c = compiled_of("", "a = reshape(x[4,4]; shape=2_8)\nreturn a");
    cr_assert_str_eq(c.launches, "");
    compiled_finish(&c);
}

Test(engine, claims_that_make_no_sense)
{
    static const char *const claim[][2] = {{"claim=fails", "the compiler is not installed"},
                                           {"claim=range", "expected 0 to"},
                                           {"claim=score", "is -1: expected 0 to 1e9"}};

    for (size_t i = 0; i < sizeof claim / sizeof *claim; i++) {
        struct compiled c = compiled_of(claim[i][0], CHAIN);
        cr_assert_null(strstr(c.launches, "engine"));
        cr_assert_not_null(strstr(c.info.engines, claim[i][1]), "%s", c.info.engines);
        pass_check_values(&c.g, 0);
        compiled_finish(&c);
    }
}

Test(engine, a_compilation_that_fails_returns_to_kernels)
{
    expect_kernels("compile=fails", CHAIN, "out of registers");
    expect_kernels("compile=empty", CHAIN, "no engine");
    expect_kernels("compile=types", CHAIN, "another type than the inferred one for output 0");
    expect_kernels("compile=layouts", CHAIN, "layout that is unknown");
    expect_kernels("compile=shares", CHAIN, "may_share to no input");
    expect_kernels("compile=aligned", CHAIN, "aligned to 48");
}

/* At the deadline progress requests an end, for which alone this engine waits. */
Test(engine, a_compilation_ends_at_its_deadline)
{
    struct engined *did = engined_of();

    setenv("BP_ENGINE_TIMEOUT", "0.2", 1);
    expect_kernels("compile=waits", CHAIN, "");
    for (int i = 0; i < 20000 && !atomic_load(&did->cancelled); i++) usleep(1000);
    cr_assert_geq(atomic_load(&did->cancelled), 1);
}

/* An engine that does not listen goes on. Its result is destroyed when it returns, here after the
 * program, the graph and the device. */
Test(engine, a_compilation_that_hangs_is_left)
{
    struct engined *did = engined_of();
    struct compiled c;

    setenv("BP_ENGINE_TIMEOUT", "0.1", 1);
    c = compiled_of("compile=deaf", CHAIN);
    cr_assert_not_null(strstr(group_of(&c, 0).text, "compile was not over after 0.1 s "
                                                    "(BP_ENGINE_TIMEOUT)"),
                       "%s", group_of(&c, 0).text);
    cr_assert_eq(group_of(&c, 0).compiled, 0);
    bp_program_destroy(c.program);
    text_finish(&c.g);
    cr_assert_eq(atomic_load(&did->engines), 0);
    setenv("BP_ENGINED", "", 1);
    atomic_store(&did->release, 1);
    for (int i = 0; i < 20000 && atomic_load(&did->compiles) && !atomic_load(&did->destroyed); i++)
        usleep(1000);
    cr_assert_eq(atomic_load(&did->destroyed), 1);
    cr_assert_eq(atomic_load(&did->engines), 0);
}

Test(engine, a_run_that_fails)
{
    struct compiled c = compiled_of("run=fails", CHAIN);
    struct bp_tensor *out = NULL;

    FAILS(BP_ERR_DEVICE, "node mul_3: the chip is too hot",
          bp_program_run(c.program, c.g.f.stream, c.g.in, c.g.n_in, &out, 1));
    cr_assert_null(out);
    compiled_finish(&c);
}

/* ---- layouts ---- */

#define IMAGES \
    "y = conv(x[1,4,8,8], w![8,4,3,3], _)\nz = conv(relu(y), v![4,8,3,3], _)\nreturn z"

Test(engine, images_in_the_layout_that_the_engine_wants)
{
    struct compiled c = compiled_of("last", IMAGES);
    struct bp_operand_info x = {.size = sizeof x};
    struct bp_launch_info launch = {.size = sizeof launch};
    uint32_t at = 0;

    cr_assert_str_eq(c.launches, "assign engine assign", "copies around the engine");
    OK(bp_program_launch(c.program, at, &launch));
    while (strcmp(launch.op, "engine")) OK(bp_program_launch(c.program, ++at, &launch));
    OK(bp_program_operand(c.program, at, 0, &x));
    cr_assert(x.type->stride[1] == 1 && x.type->stride[3] == 4, "the input is channels-last");
    pass_expect_dense(&c.g, "outputs of the graph stay row-major");
    pass_check_values(&c.g, 64);
    compiled_finish(&c);
}

/* The groups are a and b, c, and d. Only c reads b, and only d reads c. */
Test(engine, outputs_over_inputs_that_are_not_read_later)
{
    struct compiled c = compiled_of("claim=7 shares", CHAIN);
    struct bp_operand_info out = {.size = sizeof out};
    struct bp_launch_info launch = {.size = sizeof launch};

    cr_assert_str_eq(c.launches, "engine engine engine");
    for (uint32_t i = 0; i < 3; i++) {
        OK(bp_program_launch(c.program, i, &launch));
        OK(bp_program_operand(c.program, i, launch.n_in, &out));
        cr_assert_eq(out.in_place, launch.sources == 1, "%s", launch.source[0]);
    }
    pass_check_values(&c.g, 0);
    compiled_finish(&c);
}

/* ---- other extents ---- */

/* A group is for one set of extents, so that there is no template of programs with groups. */
Test(engine, a_template_needs_programs_without_groups)
{
    struct text_graph g = text_begin();
    struct bp_program *sample[3];
    struct bp_graph *graph[3];
    struct bp_template *made = NULL;

    setenv("BP_ENGINED", "", 1);
    for (int64_t i = 0; i < 3; i++) {
        struct bp_tensor *x = NULL, *y = NULL;
        OK(bp_graph_create(g.f.core, &graph[i]));
        OK(bp_graph_input(graph[i], "x", BP_F32, 2, SHAPE(i + 2, 4), &x));
        OK(bp_op_tanh(bp_graph_scope(graph[i]), x, &y));
        OK(bp_graph_output(graph[i], y, NULL));
        OK(bp_program_create(graph[i], g.f.device, &sample[i]));
        bp_tensor_destroy(x);
        bp_tensor_destroy(y);
    }
    FAILS(BP_ERR_UNSUPPORTED, "an engine has compiled it",
          bp_template_create(sample, SHAPE(2, 3, 4), 3, &made));
    for (int i = 0; i < 3; i++) bp_program_destroy(sample[i]);
    for (int i = 0; i < 3; i++) bp_graph_destroy(graph[i]);
    cr_assert_eq(atomic_load(&engined_of()->engines), 0);
    text_finish(&g);
}

/* ---- runs at the same time ---- */

struct runner {
    struct compiled *c;
    const float *expected;
    int wrong;
};

static void *runner_main(void *arg)
{
    struct runner *r = arg;
    struct bp_stream *stream;
    float got[64];

    OK(bp_stream_create(r->c->g.f.device, &stream));
    for (int i = 0; i < 200; i++) {
        struct bp_tensor *out = NULL;
        OK(bp_program_run(r->c->program, stream, r->c->g.in, r->c->g.n_in, &out, 1));
        OK(bp_tensor_read(stream, out, got, sizeof got));
        r->wrong += memcmp(got, r->expected, sizeof got) != 0;
        bp_tensor_destroy(out);
    }
    bp_stream_destroy(stream);
    return NULL;
}

/* Eight threads run one program; each has its own context of the engine. */
static void run_on_threads(const char *words)
{
    struct compiled c = compiled_of(words, CHAIN);
    struct bp_tensor *out = NULL;
    struct runner runner[8];
    pthread_t thread[8];
    float expected[64];

    OK(bp_graph_run(c.g.graph, c.g.f.stream, c.g.in, c.g.n_in, &out, 1));
    OK(bp_tensor_read(c.g.f.stream, out, expected, sizeof expected));
    bp_tensor_destroy(out);
    for (int i = 0; i < 8; i++) {
        runner[i] = (struct runner){&c, expected, 0};
        cr_assert_eq(pthread_create(&thread[i], NULL, runner_main, &runner[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
        cr_assert_eq(runner[i].wrong, 0);
    }
    cr_assert_eq(atomic_load(&c.did->runs), 8 * 200);
    cr_assert_eq(atomic_load(&c.did->busy), 0, "two runs used one context at once");
    if (*words) cr_assert_leq(atomic_load(&c.did->contexts), 8);
    if (*words) cr_assert_geq(atomic_load(&c.did->contexts), 1);
    compiled_finish(&c);
}

Test(engine, eight_threads_with_contexts)
{
    run_on_threads("contexts");
}

Test(engine, eight_threads_without_contexts)
{
    run_on_threads("");
}

/* The work of a stream runs in order, so that a stream of a device that is not inline has one
 * context, however often a program runs. The cpu stands for the device: its streams exist
 * before. */
Test(engine, each_stream_has_a_context)
{
    struct compiled c = compiled_of("contexts", CHAIN);
    bool is_inline = c.g.f.device->is_inline;
    struct bp_stream *stream[3];

    for (int i = 0; i < 3; i++) OK(bp_stream_create(c.g.f.device, &stream[i]));
    c.g.f.device->is_inline = false;
    for (int i = 0; i < 12; i++) {
        struct bp_tensor *out = NULL;
        OK(bp_program_run(c.program, stream[i % 3], c.g.in, c.g.n_in, &out, 1));
        bp_tensor_destroy(out);
        cr_assert_eq(atomic_load(&c.did->contexts), i < 3 ? i + 1 : 3, "run %d", i);
    }
    c.g.f.device->is_inline = is_inline;
    for (int i = 0; i < 3; i++) bp_stream_destroy(stream[i]);
    cr_assert_eq(atomic_load(&c.did->runs), 12);
    cr_assert_eq(atomic_load(&c.did->busy), 0);
    compiled_finish(&c);
}

/* ---- engines of add-ons ---- */

static const char *folder_of_test(void)
{
    static char folder[] = "/tmp/bp-engine-XXXXXX";

    cr_assert_not_null(mkdtemp(folder));
    return folder;
}

/* Removes the files of the folder, and the folder. */
static void folder_remove(const char *folder)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r '%s'", folder);
    cr_assert_eq(system(command), 0);
}

#ifdef ENGINED_ADDON
/* Writes a manifest of the add-on, and lets the device's core find it. */
static void addon_begin(const char *words, int priority)
{
    static char folder[] = "/tmp/bp-engine-addon-XXXXXX", path[512], file[64];
    static bool made;
    FILE *to;

    if (!made) cr_assert_not_null(mkdtemp(folder));
    made = true;
    snprintf(file, sizeof file, "%s/bp_engined_addon.json", folder);
    to = fopen(file, "w");
    cr_assert_not_null(to);
    fprintf(to, "{\"manifest\": 1, \"name\": \"engined_addon\", \"adds_to\": \"cpu\", "
            "\"library\": \"%s\", \"abi\": {\"major\": %d, \"minor\": %d}, "
            "\"version\": \"%s\", \"priority\": %d}", ENGINED_ADDON, BP_ABI_MAJOR, BP_ABI_MINOR,
            bp_version(), priority);
    fclose(to);
    if (!strstr(getenv("BP_PLUGIN_PATH"), folder)) {
        snprintf(path, sizeof path, "%s:%s", getenv("BP_PLUGIN_PATH"), folder);
        setenv("BP_PLUGIN_PATH", path, 1);
    }
    setenv("BP_ENGINED_ADDON", words, 1);
}

static void addon_end(void)
{
    folder_remove(strrchr(getenv("BP_PLUGIN_PATH"), ':') + 1);
}

/* Asserts which engine runs all nodes of the chain. */
static void expect_engine(const char *own, const char *addon, int priority, const char *engine)
{
    struct compiled c;

    addon_begin(addon, priority);
    c = compiled_of(own, CHAIN);
    cr_assert_str_eq(c.launches, "engine", "%s, %s: %s", own, addon, c.launches);
    cr_assert_str_eq(group_of(&c, 0).engine, engine, "%s, %s, %d", own, addon, priority);
    pass_check_values(&c.g, 0);
    compiled_finish(&c);
}

Test(engine, nodes_that_several_engines_claim)
{
    expect_engine("score=2", "score=3", 0, "engined_addon");
    expect_engine("score=3", "score=2", 0, "engined");
    expect_engine("score=3", "score=2", 1000000, "engined");
    expect_engine("score=2", "score=2", -1000000, "engined");
    expect_engine("score=2", "score=2", 1000000, "engined_addon");
    expect_engine("claim=none", "score=2", 0, "engined_addon");
    addon_end();
}

/* Both have nodes of one graph; a file has the groups of both. */
Test(engine, engines_of_two_plugins_share_a_graph)
{
    struct compiled c;

    addon_begin("only=tanh score=9 saves contexts", 0);
    c = compiled_of("saves", CHAIN);
    cr_assert_str_eq(c.launches, "engine engine engine");
    cr_assert_str_eq(group_of(&c, 0).engine, "engined_addon");
    cr_assert_str_eq(group_of(&c, 1).engine, "engined");
    pass_check_values(&c.g, 0);
    OK(bp_program_save(c.program, "/tmp/bp-engine-two.program"));
    bp_program_destroy(c.program);
    OK(bp_program_create(c.g.graph, c.g.f.device, &c.program));
    OK(bp_program_load(c.program, "/tmp/bp-engine-two.program"));
    cr_assert_eq(unlink("/tmp/bp-engine-two.program"), 0);
    cr_assert_eq(atomic_load(&c.did->loads), 2);
    cr_assert_str_eq(group_of(&c, 1).engine, "engined_addon", "in the order of execution");
    compiled_finish(&c);
    addon_end();
}

/* One that fails does not harm the other. */
Test(engine, an_engine_that_fails_beside_another)
{
    struct compiled c;

    addon_begin("claim=fails", 1000000);
    c = compiled_of("", CHAIN);
    cr_assert_str_eq(c.launches, "engine");
    cr_assert_str_eq(group_of(&c, 0).engine, "engined");
    cr_assert_not_null(strstr(c.info.engines, "the compiler is not installed"));
    pass_check_values(&c.g, 0);
    compiled_finish(&c);
    addon_begin("run=fails score=9", 0);
    c = compiled_of("", CHAIN);
    FAILS(BP_ERR_DEVICE, "the chip is too hot",
          bp_program_run(c.program, c.g.f.stream, c.g.in, c.g.n_in,
                         (struct bp_tensor *[]){NULL}, 1));
    compiled_finish(&c);
    addon_end();
}
#endif

/* ---- saved programs ---- */

#define WEIGHTS \
    "a = matmul(x[3,4], w![4,4])\nb = tanh(add(a, mul(v![4], 2)))\nreturn b, sub(b, x)"

/* Compiles the text with the cache folder. */
static struct compiled cached_of(const char *words, const char *text, const char *folder)
{
    struct compiled c;

    setenv("BP_PROGRAM_CACHE", folder, 1);
    c = compiled_of(words, text);
    unsetenv("BP_PROGRAM_CACHE");
    return c;
}

/* Asserts that a program comes from the folder, has one group, is right, and how often the engine
 * compiles and loads. The engine claims nothing again. */
static void expect_loaded(const char *words, const char *folder, int compiles, int loads)
{
    struct engined *did = engined_of();
    int claims = atomic_load(&did->claims), compiled = atomic_load(&did->compiles);
    int loaded = atomic_load(&did->loads);
    struct compiled c = cached_of(words, WEIGHTS, folder);

    cr_assert(c.info.loaded, "%s: %s", words, c.info.cache);
    cr_assert_str_eq(c.launches, "engine", "%s", words);
    cr_assert_eq(atomic_load(&did->claims), claims, "%s: the engine claims again", words);
    cr_assert_eq(atomic_load(&did->compiles) - compiled, compiles, "%s", words);
    cr_assert_eq(atomic_load(&did->loads) - loaded, loads, "%s", words);
    cr_assert_eq(group_of(&c, 0).compiled, 1);
    cr_assert_str_eq(group_of(&c, 0).text, "interpreted");
    cr_assert_null(group_of(&c, 1).node);
    pass_check_values(&c.g, 64);
    compiled_finish(&c);
}

Test(engine, a_program_is_loaded_with_what_its_engine_saved)
{
    const char *folder = folder_of_test();
    struct compiled c = cached_of("saves", WEIGHTS, folder);

    cr_assert_str_eq(c.info.cache, "saved");
    cr_assert_eq(atomic_load(&c.did->saves), 1);
    compiled_finish(&c);
    expect_loaded("saves", folder, 1, 1);
    folder_remove(folder);
}

/* The engine compiles the group again, without what it cannot use. */
Test(engine, what_an_engine_cannot_use_is_compiled_again)
{
    const char *folder = folder_of_test();
    struct compiled c = cached_of("saves", WEIGHTS, folder);

    compiled_finish(&c);
    expect_loaded("saves blob=stale", folder, 2, 0);
    expect_loaded("saves blob=fails", folder, 2, 0);
    expect_loaded("saves blob=types", folder, 2, 1);
    folder_remove(folder);
}

/* Without save the file has the nodes of the group only. */
Test(engine, an_engine_that_saves_nothing_compiles_in_each_process)
{
    const char *folder = folder_of_test();
    struct compiled c = cached_of("", WEIGHTS, folder);

    cr_assert_str_eq(c.info.cache, "saved");
    compiled_finish(&c);
    expect_loaded("", folder, 1, 0);
    folder_remove(folder);
}

/* The engine saved results computed from the constants, so that a file serves no others. The names
 * of constants decide their contents, and nothing else. No pass reads the contents. */
Test(engine, other_weights_are_compiled_anew)
{
    static const char *const text[] = {"tanh(add(matmul(x[3,4], w![4,4]), mul(v![4], b![4])))",
                                       "tanh(add(matmul(x[3,4], u![4,4]), mul(v![4], b![4])))",
                                       "tanh(add(matmul(x[3,4], w![4,4]), mul(v![4], d![4])))"};
    const char *folder = folder_of_test();
    struct compiled c;

    for (size_t i = 1; i < sizeof text / sizeof *text; i++) {
        c = cached_of("saves", text[0], folder);
        compiled_finish(&c);
        c = cached_of("saves", text[i], folder);
        cr_assert_eq(c.info.loaded, 0);
        cr_assert_not_null(strstr(c.info.cache, "has other contents"), "%s", c.info.cache);
        cr_assert_eq(atomic_load(&c.did->loads), 0);
        pass_check_values(&c.g, 64);
        compiled_finish(&c);
        folder_remove(folder);
    }
}

/* A file's representation of the text, and the schedule that it is of. */
struct contents {
    struct compiled c;
    struct bp_schedule *schedule;
    struct bp_kept_writer w;
};

static struct contents contents_of(const char *text)
{
    struct contents made = {.c = compiled_of("saves", text)};

    OK(bp_compile(made.c.g.graph, made.c.g.f.device, &made.schedule));
    OK(bp_saved_write(made.schedule, made.c.g.graph, &made.w));
    return made;
}

static void contents_finish(struct contents *made)
{
    bp_schedule_destroy(made->schedule);
    free(made->w.bytes);
    compiled_finish(&made->c);
}

/* Reads the contents, and makes a schedule of them. Returns whether both are possible. */
static bool contents_read(const struct contents *from, size_t n)
{
    const struct bp_compile_options options = {0};
    struct bp_schedule *again;
    struct bp_ir *ir;

    if (bp_saved_read(from->c.g.graph, from->c.g.f.device, &options, from->w.bytes, n, &ir))
        return false;
    if (bp_schedule_create(ir, NULL, &again)) return false;
    bp_schedule_destroy(again);
    return true;
}

/* The engine gets its bytes for the graph of which they are, and for no other. */
Test(engine, bytes_of_another_group_are_not_given_to_the_engine)
{
    struct contents made = contents_of(WEIGHTS);
    const struct bp_ir *ir = made.schedule->ir;
    const struct bp_engine_code *code = NULL;
    unsigned char *at;

    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        if (ir->node[n].prepared) code = bp_engine_code_of(ir->node[n].prepared);
    cr_assert_not_null(code);
    at = memmem(made.w.bytes, made.w.n, code->hash, sizeof code->hash);
    cr_assert_not_null(at);
    cr_assert(contents_read(&made, made.w.n));
    cr_assert_eq(atomic_load(&made.c.did->loads), 1);
    at[31] ^= 1;
    cr_assert(contents_read(&made, made.w.n));
    cr_assert_eq(atomic_load(&made.c.did->loads), 1);
    contents_finish(&made);
}

Test(engine, hostile_contents_do_no_harm, .timeout = 120)
{
    struct contents made = contents_of(WEIGHTS);
    size_t refused = 0, tried = 0, each = made.c.g.f.device->is_inline ? 1 : 9;

    for (size_t i = 0; i < made.w.n; i += each, tried++) {
        unsigned char before = made.w.bytes[i];
        made.w.bytes[i] ^= i % 2 ? 4 : 0xff;
        refused += !contents_read(&made, made.w.n);
        made.w.bytes[i] = before;
        if (tried % 8 == 0) cr_assert(!contents_read(&made, i), "%zu bytes", i);
    }
    cr_assert_gt(refused, tried / 8);
    cr_assert(contents_read(&made, made.w.n));
    contents_finish(&made);
}

/* Nodes in the place of those of a group that no engine may have. */
Test(engine, groups_of_a_file_are_checked)
{
    static const char *const text[] = {"a = relu(x)\nb = dropout(a; p=0.5)\nreturn b",
                                       "a = relu(x)\nb = transpose(a)\nreturn b"};

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct contents made = contents_of(text[i]);
        struct bp_saved_group group = {.engine = "engined", .n = 2, .hash = (const uint8_t *)"",
                                       .bytes = ""};
        struct bp_ir *ir;
        setenv("BP_ENGINED", "claim=greedy", 1);
        OK(bp_ir_create(made.c.g.graph, made.c.g.f.device, &ir));
        FAILS(BP_ERR_INVALID, "a node that no engine may run",
              bp_saved_restore(ir, 0, ir->n_node, &group, 1));
        bp_ir_destroy(ir);
        OK(bp_ir_create(made.c.g.graph, made.c.g.f.device, &ir));
        group.n = 3;
        FAILS(BP_ERR_INVALID, "nodes that do not exist",
              bp_saved_restore(ir, 0, ir->n_node, &group, 1));
        bp_ir_destroy(ir);
        OK(bp_ir_create(made.c.g.graph, made.c.g.f.device, &ir));
        group.engine = "other";
        group.n = 1;
        FAILS(BP_ERR_INVALID, "an engine that the device does not have",
              bp_saved_restore(ir, 0, ir->n_node, &group, 1));
        bp_ir_destroy(ir);
        contents_finish(&made);
    }
}

/* A program whose group failed would never be given to the engine again. */
Test(engine, a_program_of_a_failed_engine_is_not_saved)
{
    static const char *const words[][2] = {
        {"compile=fails", "could not compile the group of mul_3"},
        {"claim=fails", "the compiler is not installed"},
        {"save=fails", "the compiler has no export"}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct compiled c = compiled_of(words[i][0], CHAIN);
        FAILS(i < 2 ? BP_ERR_UNSUPPORTED : BP_ERR_DEVICE, words[i][1],
              bp_program_save(c.program, "/tmp/bp-engine.program"));
        compiled_finish(&c);
    }
}
