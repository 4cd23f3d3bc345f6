/* SPDX-License-Identifier: Apache-2.0 */
/* test_openvino_engine.c: tests how the engine of the openvino plugin claims, compiles, runs and
 * saves groups, with the stand-in for the library or, by ./dev peers, with OpenVINO itself. */
#include "engine_kit.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* A graph of text with the plugin, whose engine has compiled it if the test said so. */
struct scene {
    struct kit_plugin k;
    struct text_graph g;
    struct kit_graph graph;
    struct kit_compiled c;
};

static struct scene *scene_begin(const char *text)
{
    struct scene *s = calloc(1, sizeof *s);

    kit_open(&s->k);
    s->g = text_begin();
    text_record(&s->g, text);
    kit_graph(&s->g, &s->graph);
    return s;
}

/* Asserts that the stand-in has no objects left. */
static void scene_end(struct scene *s)
{
    void *library = dlopen(getenv("BP_OPENVINO_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    int (*live)(void);

    if (s->c.result.engine) kit_destroy(&s->k, &s->c);
    kit_close(&s->k);
    text_finish(&s->g);
    free(s);
    cr_assert_not_null(library, "the library named by BP_OPENVINO_LIBRARY is not loaded");
    *(void **)&live = dlsym(library, "standin_live");
    if (live) cr_assert_eq(live(), 0, "%d objects of the library are left", live());
}

static bool is_standin(void)
{
    void *library = dlopen(getenv("BP_OPENVINO_LIBRARY"), RTLD_NOW);
    bool found = library && dlsym(library, "standin_live");

    if (library) dlclose(library);
    return found;
}

static void *scene_context(struct scene *s)
{
    void *context;

    cr_assert_eq(s->k.engine->context_create(s->k.self, 0, s->c.result.engine, &context), BP_OK,
                 "%s", s->k.message);
    return context;
}

static void scene_compile(struct scene *s)
{
    cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_OK, "%s", s->k.message);
    cr_assert_not_null(s->c.result.engine);
}

/* ---- claims ---- */

/* Asserts that the last node of the text is left out for a reason that contains the word; NULL: it
 * is claimed. */
static void expect_claim_with(uint32_t flags, const char *text, const char *word)
{
    struct scene *s = scene_begin(text);
    struct kit_claim claim;
    uint32_t n = (uint32_t)s->graph.data.n_node - 1;

    s->k.flags = flags;
    cr_assert_eq(kit_claim(&s->k, &s->graph, &claim), BP_OK);
    if (word) {
        cr_assert_eq(claim.group[n], 0, "%s is claimed", text);
        cr_assert_not_null(claim.reason[n], "%s: no reason", text);
        cr_assert_not_null(strstr(claim.reason[n], word), "%s: '%s' does not say '%s'", text,
                           claim.reason[n], word);
    } else {
        cr_assert_eq(claim.group[n], 1, "%s: %s", text, claim.reason[n]);
        cr_assert_null(claim.reason[n]);
        cr_assert_eq(claim.n_group, 1);
    }
    scene_end(s);
}

static void expect_claim(const char *text, const char *word)
{
    expect_claim_with(BP_ENGINE_FAST_MATH, text, word);
}

Test(openvino_engine, known_nodes_are_claimed)
{
    expect_claim("add(x, y)", NULL);
    expect_claim("gather(x, i:i64[3])", NULL);
    expect_claim("cast(i:i64[3]; to=11)", NULL);
    expect_claim("relu(erfinv(x))", NULL);
    expect_claim("gather(x, argmax(y[5,3]; axis=1))", NULL);
}

Test(openvino_engine, others_are_left_out_with_a_reason)
{
    expect_claim("erfinv(x)", "does not know");
    expect_claim("add(x:f64, y:f64)", "dtype");
    expect_claim("add(x:i64, y:i64)", "dtype");
    expect_claim("less_than(x:f64, y:f64)", "dtype");
    expect_claim("relu(x[0,4])", "empty");
    expect_claim("cast(x; to=4)", "rounds by other rules");
    expect_claim("gather(x, flatten(cast(y; to=3)))", "cannot be checked");
    expect_claim("gather(i!:i64[4], j:i64[2])", "32 bits");
    expect_claim("cast(i!:i64[3]; to=11)", "i64");
    expect_claim("cast(i:i64[3]; to=9)", "i64");
    expect_claim("max_pool(x[1,2,8,8]; window=2_2, dilation=2_2)", "gaps");
    expect_claim("avg_pool(x[1,2,8,8]; window=2_2, divisor=3)", "divisor");
    expect_claim("avg_pool(x[1,2,8,8]; window=3_3, stride=2_2, ceil_mode=1, include_pad=1)",
                 "padding");
    expect_claim("lrn(x[1,8,3,3]; window=4)", "middle");
    expect_claim("lrn(x[1,4,2,2,2,2]; window=3)", "spatial");
    expect_claim("lp_normalize(x; p=1)", "order");
    expect_claim("resize(x[1,3,4,4]; sizes=2_2, antialias=1)", "weights");
}

Test(openvino_engine, only_fast_math_claims_what_loses_accuracy)
{
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "erf(x)", "BP_ALLOW=fast-math");
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "exp(x)", "BP_ALLOW=fast-math");
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "add(x, y)", NULL);
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "relu(x)", NULL);
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "add(cast(x; to=10), cast(y; to=10))",
                      "BP_ALLOW=fast-math");
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "cast(x; to=10)", "BP_ALLOW=fast-math");
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "less_than(cast(x; to=10), cast(y; to=10))",
                      "BP_ALLOW=fast-math");
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "transpose(cast(x; to=10))", NULL);
    expect_claim_with(BP_ENGINE_DETERMINISTIC, "cast(cast(x; to=10); to=11)", NULL);
    expect_claim_with(BP_ENGINE_FAST_MATH, "add(cast(x; to=10), cast(y; to=10))", NULL);
    expect_claim_with(BP_ENGINE_FAST_MATH, "erf(x)", NULL);
}

/* ---- runs ---- */

Test(openvino_engine, values_are_those_of_kernels)
{
    static const char *const text[] = {"add(mul(x, y), x)",
                                       "y = relu(x)\nreturn y, reshape(y; shape=-1)",
                                       "return assign(x), relu(x)",
                                       "gather(x, i:i64[2])",
                                       "mul(b![4], x)",
                                       "mul(cast(i:i64[4]; to=11), x)",
                                       "gather(w![3,7], i!:i64[5])"};

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct scene *s = scene_begin(text[i]);
        kit_check(&s->k, &s->g, 8);
        scene_end(s);
    }
}

/* The second run has outputs at other addresses, the third again those of the first. */
/* NaN of the input is in the result, unless fast math is allowed. */
static void expect_nan(uint32_t flags, const char *text, bool kept)
{
    struct scene *s = scene_begin(text);
    void *context, *out[TEXT_OUTPUTS], *data;
    uint32_t fault = 0;
    bool found = false;

    s->k.flags = flags;
    scene_compile(s);
    OK(bp_tensor_map(s->g.in[0], &data));
    ((float *)data)[1] = NAN;
    context = scene_context(s);
    cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, out, &fault), BP_OK);
    for (int i = 0; i < 4; i++) found |= isnan(((float *)out[0])[i]);
    cr_assert_eq(found, kept, "%s", text);
    free(out[0]);
    s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, context);
    scene_end(s);
}

Test(openvino_engine, fast_math_may_lose_nan)
{
    static const char *const text[] = {"relu(x)", "maximum(x, y)", "max(x; axes=-1)", "softmax(x)",
                                       "max_pool(x[1,1,4,4]; window=2_2, stride=2_2)", "gelu(x)",
                                       "clip(x; max=1)", "hard_swish(x)", "silu(x)"};

    expect_nan(BP_ENGINE_FAST_MATH, "relu(x)", false);
    for (size_t i = 0; i < (is_standin() ? 1 : sizeof text / sizeof *text); i++)
        expect_nan(BP_ENGINE_DETERMINISTIC, text[i], true);
}

Test(openvino_engine, addresses_may_change)
{
    struct scene *s = scene_begin("add(x, y)");
    void *out[3], *context;
    uint32_t fault = 0;

    scene_compile(s);
    context = scene_context(s);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &out[i], &fault), BP_OK);
    for (int i = 1; i < 3; i++) cr_assert_eq(memcmp(out[0], out[i], 64 * sizeof(float)), 0);
    for (int i = 0; i < 3; i++) free(out[i]);
    s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, context);
    scene_end(s);
}

Test(openvino_engine, a_bad_index_is_a_fault)
{
    static const int64_t bad[] = {4, -5, INT64_MAX};

    for (size_t i = 0; i < 3; i++) {
        struct scene *s = scene_begin("relu(gather(x, i:i64[2]))");
        void *context, *out, *index;
        uint32_t fault = 0;
        scene_compile(s);
        context = scene_context(s);
        OK(bp_tensor_map(text_input(&s->g, "i"), &index));
        ((int64_t *)index)[1] = bad[i];
        cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &out, &fault), BP_OK);
        cr_assert_neq(fault, 0, "index %ld", (long)bad[i]);
        free(out);
        ((int64_t *)index)[1] = -4;
        fault = 0;
        cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &out, &fault), BP_OK);
        cr_assert_eq(fault, 0);
        free(out);
        s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, context);
        scene_end(s);
    }
}

Test(openvino_engine, a_bad_constant_index_is_refused)
{
    struct scene *s = scene_begin("gather(x, 7:i64[2])");

    cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(s->k.message, "index 7 is outside of extent 4"), "%s", s->k.message);
    scene_end(s);
}

struct lane {
    struct scene *s;
    void *context;
    float first[64];
    bool same;
};

static void *lane_run(void *p)
{
    struct lane *lane = p;

    lane->same = true;
    for (int i = 0; i < 200; i++) {
        uint32_t fault = 0;
        void *out;
        if (kit_run(&lane->s->k, &lane->s->g, &lane->s->graph, &lane->s->c, lane->context, &out,
                    &fault))
            lane->same = false;
        if (!i) memcpy(lane->first, out, sizeof lane->first);
        lane->same &= !memcmp(lane->first, out, sizeof lane->first);
        free(out);
    }
    return NULL;
}

Test(openvino_engine, contexts_run_at_the_same_time)
{
    struct scene *s = scene_begin("relu(add(mul(x, y), x))");
    struct lane lane[3];
    pthread_t thread[3];

    scene_compile(s);
    for (int i = 0; i < 3; i++) {
        lane[i] = (struct lane){.s = s, .context = scene_context(s)};
        cr_assert_eq(pthread_create(&thread[i], NULL, lane_run, &lane[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        cr_assert(lane[i].same);
        cr_assert_eq(memcmp(lane[i].first, lane[0].first, sizeof lane->first), 0);
        s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, lane[i].context);
    }
    scene_end(s);
}

/* ---- compilations ---- */

static uint32_t progress_stop(void *ctx, double done, const char *what)
{
    uint32_t *calls = ctx;

    (void)done;
    cr_assert_not_null(what);
    return !--*calls;
}

Test(openvino_engine, progress_can_cancel)
{
    for (uint32_t at = 1; at <= 3; at++) {
        struct scene *s = scene_begin("relu(add(x, b![4]))");
        uint32_t calls = at;
        s->c.options.progress = progress_stop;
        s->c.options.ctx = &calls;
        cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_ERR_CANCELLED);
        cr_assert_null(s->c.result.engine);
        scene_end(s);
    }
}

Test(openvino_engine, a_deadline_is_kept)
{
    struct scene *s = scene_begin("relu(x)");
    struct timespec now;

    s->c.options.deadline_ns = 1;
    cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_ERR_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &now);
    s->c.options.deadline_ns = ((uint64_t)now.tv_sec + 600) * 1000000000;
    scene_compile(s);
    scene_end(s);
}

Test(openvino_engine, a_note_names_what_loses_nan)
{
    struct scene *s = scene_begin("relu(add(relu(x), maximum(x, y)))");

    scene_compile(s);
    cr_assert_not_null(strstr(s->c.result.note, "CPU, f32; loses NaN or accuracy:"), "%s",
                       s->c.result.note);
    cr_assert_not_null(strstr(s->c.result.note, "relu"));
    cr_assert_not_null(strstr(s->c.result.note, "maximum"));
    cr_assert_null(strstr(s->c.result.note, "add"));
    kit_destroy(&s->k, &s->c);
    s->k.flags = BP_ENGINE_DETERMINISTIC;
    scene_compile(s);
    cr_assert_null(strstr(s->c.result.note, "loses"), "%s", s->c.result.note);
    scene_end(s);
}

Test(openvino_engine, an_output_that_is_a_constant_is_refused)
{
    struct scene *s = scene_begin("y = relu(x)\nreturn y, assign(b![4])");

    cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(s->k.message, "is a constant"), "%s", s->k.message);
    scene_end(s);
}

/* ---- failures of the library, on the stand-in ---- */

Test(openvino_engine, failures_of_the_library_are_passed_on)
{
    static const char *const call[] = {"ov_tensor_create",
                                       "ov_tensor_data",
                                       "ov_core_read_model_from_memory_buffer",
                                       "ov_core_compile_model",
                                       "ov_compiled_model_inputs_size",
                                       "ov_compiled_model_output_by_index",
                                       "ov_port_get_element_type",
                                       "ov_const_port_get_shape"};

    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        struct scene *s = scene_begin("relu(add(x, b![4]))");
        if (!is_standin()) {
            scene_end(s);
            cr_skip("only the stand-in fails on demand");
        }
        setenv("STANDIN_FAIL", call[i], 1);
        cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_ERR_DEVICE, "%s", call[i]);
        unsetenv("STANDIN_FAIL");
        cr_assert_not_null(strstr(s->k.message, call[i]), "%s", s->k.message);
        cr_assert_not_null(
            strstr(s->k.message, " answers -1: general error: stand-in: told to fail"), "%s",
            s->k.message);
        scene_end(s);
    }
}

Test(openvino_engine, failures_of_runs_are_passed_on)
{
    static const char *const call[] = {
        "ov_tensor_create_from_host_ptr", "ov_infer_request_set_input_tensor_by_index",
        "ov_infer_request_set_output_tensor_by_index", "ov_infer_request_infer"};

    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        struct scene *s = scene_begin("relu(add(x, b![4]))");
        void *context, *out;
        uint32_t fault = 0;
        if (!is_standin()) {
            scene_end(s);
            cr_skip("only the stand-in fails on demand");
        }
        scene_compile(s);
        context = scene_context(s);
        setenv("STANDIN_FAIL", call[i], 1);
        cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &out, &fault), BP_ERR_DEVICE);
        unsetenv("STANDIN_FAIL");
        cr_assert_not_null(strstr(s->k.message, call[i]), "%s", s->k.message);
        free(out);
        cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &out, &fault), BP_OK);
        free(out);
        s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, context);
        scene_end(s);
    }
}

Test(openvino_engine, other_types_of_the_library_are_refused)
{
    struct scene *s = scene_begin("relu(x)");

    if (!is_standin()) {
        scene_end(s);
        cr_skip("only the stand-in infers other types");
    }
    setenv("STANDIN_TYPES", "1", 1);
    cr_assert_eq(kit_compile(&s->k, &s->graph, &s->c), BP_ERR_DEVICE);
    unsetenv("STANDIN_TYPES");
    cr_assert_not_null(strstr(s->k.message, "another type for output 0"), "%s", s->k.message);
    scene_end(s);
}

/* ---- saved groups ---- */

struct blob {
    unsigned char *data;
    uint64_t size;
    uint32_t fails_at; /* the call of write that fails; 0: none */
};

static enum bp_status blob_write(void *ctx, const void *data, uint64_t size)
{
    struct blob *b = ctx;

    if (b->fails_at && !--b->fails_at) return BP_ERR_CANCELLED;
    b->data = realloc(b->data, b->size + size);
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return BP_OK;
}

static struct blob scene_save(struct scene *s)
{
    struct blob b = {NULL};

    cr_assert_eq(s->k.engine->save(s->k.self, 0, s->c.result.engine, &b, blob_write), BP_OK, "%s",
                 s->k.message);
    kit_destroy(&s->k, &s->c);
    s->c.result.engine = NULL;
    return b;
}

static enum bp_status scene_load(struct scene *s, const void *data, uint64_t size)
{
    s->c.options.blob = data;
    s->c.options.blob_size = size;
    return kit_compile(&s->k, &s->graph, &s->c);
}

Test(openvino_engine, a_saved_group_gives_the_same_values)
{
    struct scene *s = scene_begin("relu(add(mul(x, b![4]), y))");
    void *before, *after, *context;
    uint32_t fault = 0;
    struct blob b;

    scene_compile(s);
    context = scene_context(s);
    cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &before, &fault), BP_OK);
    s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, context);
    b = scene_save(s);
    cr_assert_eq(scene_load(s, b.data, b.size), BP_OK, "%s", s->k.message);
    context = scene_context(s);
    cr_assert_eq(kit_run(&s->k, &s->g, &s->graph, &s->c, context, &after, &fault), BP_OK);
    s->k.engine->context_destroy(s->k.self, 0, s->c.result.engine, context);
    cr_assert_eq(memcmp(before, after, 64 * sizeof(float)), 0);
    free(before);
    free(after);
    free(b.data);
    scene_end(s);
}

/* A blob of another version, device or number of threads, a damaged one, and parts of one. */
Test(openvino_engine, other_blobs_are_stale)
{
    struct scene *s = scene_begin("relu(add(mul(x, b![4]), y))");
    struct blob b;

    scene_compile(s);
    b = scene_save(s);
    for (uint64_t i = 0; i < b.size; i += i < 128 ? 1 : b.size / 23) {
        b.data[i] ^= 4;
        cr_assert_eq(scene_load(s, b.data, b.size), BP_ERR_STALE, "byte %lu", (unsigned long)i);
        b.data[i] ^= 4;
    }
    for (uint64_t size = 0; size < b.size; size += b.size / 7)
        cr_assert_eq(scene_load(s, b.data, size), BP_ERR_STALE, "%lu bytes", (unsigned long)size);
    s->c.options.width = 1;
    cr_assert_eq(scene_load(s, b.data, b.size), BP_ERR_STALE);
    s->c.options.width = 2;
    cr_assert_eq(scene_load(s, b.data, b.size), BP_OK, "%s", s->k.message);
    free(b.data);
    scene_end(s);
}

Test(openvino_engine, a_blob_of_another_group_is_stale)
{
    struct scene *s = scene_begin("relu(add(x, y))"), *other = scene_begin("relu(x[3,4])");
    struct blob b;

    scene_compile(s);
    b = scene_save(s);
    cr_assert_eq(scene_load(other, b.data, b.size), BP_ERR_STALE);
    free(b.data);
    if (other->c.result.engine) kit_destroy(&other->k, &other->c);
    kit_close(&other->k);
    text_finish(&other->g);
    free(other);
    scene_end(s);
}

Test(openvino_engine, a_blob_of_another_version_is_stale)
{
    struct scene *s = scene_begin("relu(x)"), *other;
    struct blob b;

    scene_compile(s);
    b = scene_save(s);
    scene_end(s);
    setenv("STANDIN_VERSION", "2099.2.0-8-standin", 1);
    other = scene_begin("relu(x)");
    if (is_standin()) cr_assert_eq(scene_load(other, b.data, b.size), BP_ERR_STALE);
    unsetenv("STANDIN_VERSION");
    free(b.data);
    scene_end(other);
}

Test(openvino_engine, a_failed_write_ends_save)
{
    for (uint32_t at = 1; at <= 2; at++) {
        struct scene *s = scene_begin("relu(x)");
        struct blob b = {.fails_at = at};
        scene_compile(s);
        cr_assert_eq(s->k.engine->save(s->k.self, 0, s->c.result.engine, &b, blob_write),
                     BP_ERR_CANCELLED);
        free(b.data);
        scene_end(s);
    }
}
