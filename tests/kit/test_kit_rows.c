/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_rows.c: tests the rows of sdk/kit as a table (steps, roles, values of arguments), the
 * calls of functions whose parameters are known at run time, and the staging of copies. */
#include "fixture.h"
#include <backplane/attrs.h>
#include <kit/invoke.h>
#include <kit/rows.h>
#include <kit/staging.h>

/* ---- calls ---- */

static int kit_many(int8_t a, bool b, int32_t c, uint64_t d, const char *e, int64_t f, int8_t g,
                    bool h, int32_t i, const void *j)
{
    CHECK(a == -3 && b && c == -70000 && d == UINT64_MAX && !strcmp(e, "text"), "the first five");
    CHECK(f == INT64_MIN && g == -1 && !h && i == 7 && j == &kit_failed, "those on the stack");
    return 11;
}

static int kit_mixed(const void *a, double b, int64_t c, float d, bool e, double f, float g,
                     int64_t h, int64_t i, int64_t j, double k, float l, int8_t m)
{
    CHECK(a == NULL && b == 0.1 && c == 3 && d == 1.5f && e && f == -1e300 && g == -0.25f,
          "registers: %g %g %g %g", b, (double)d, f, (double)g);
    CHECK(h == 8 && i == 9 && j == 10 && k == 2 && l == 3.0f && m == -128, "the rest");
    return -5;
}

static void functions_get_their_arguments(void)
{
    struct kit_invocation call = {.n_word = 0};
    int (*many)(int8_t, bool, int32_t, uint64_t, const char *, int64_t, int8_t, bool, int32_t,
                const void *) = kit_many;
    void *function;

    if (!kit_invoke_works()) return;
    memcpy(&function, &many, sizeof function);
    kit_invoke_word(&call, -3);
    kit_invoke_word(&call, true);
    kit_invoke_word(&call, -70000);
    kit_invoke_word(&call, -1);
    kit_invoke_pointer(&call, "text");
    kit_invoke_word(&call, INT64_MIN);
    kit_invoke_word(&call, -1);
    kit_invoke_word(&call, false);
    kit_invoke_word(&call, 7);
    kit_invoke_pointer(&call, &kit_failed);
    CHECK(kit_invoke(function, &call) == 11 && !call.too_many, "the result");
}

static void numbers_take_registers_of_their_own(void)
{
    struct kit_invocation call = {.n_word = 0};
    int (*mixed)(const void *, double, int64_t, float, bool, double, float, int64_t, int64_t,
                 int64_t, double, float, int8_t) = kit_mixed;
    void *function;

    if (!kit_invoke_works()) return;
    memcpy(&function, &mixed, sizeof function);
    kit_invoke_pointer(&call, NULL);
    kit_invoke_double(&call, 0.1);
    kit_invoke_word(&call, 3);
    kit_invoke_float(&call, 1.5f);
    kit_invoke_word(&call, true);
    kit_invoke_double(&call, -1e300);
    kit_invoke_float(&call, -0.25f);
    for (int i = 8; i <= 10; i++) kit_invoke_word(&call, i);
    kit_invoke_double(&call, 2);
    kit_invoke_float(&call, 3);
    kit_invoke_word(&call, -128);
    CHECK(kit_invoke(function, &call) == -5, "the result");
}

static void too_many_arguments_are_noticed(void)
{
    struct kit_invocation call = {.n_word = 0};

    for (int i = 0; i < KIT_INVOKE_WORDS; i++) kit_invoke_word(&call, i);
    CHECK(!call.too_many, "too early");
    kit_invoke_word(&call, 0);
    CHECK(call.too_many, "too many words");
    call = (struct kit_invocation){.n_word = 0};
    for (int i = 0; i <= KIT_INVOKE_FLOATS; i++) kit_invoke_double(&call, i);
    CHECK(call.too_many, "too many numbers");
}

/* ---- steps ---- */

static const int64_t shape[] = {2, 3}, stride[] = {3, 1}, turned[] = {1, 2};
static const struct bp_view dense = {
    .shape = shape, .stride = stride, .count = 6, .rank = 2, .dtype = BP_F32};
static const struct bp_view columns = {.shape = shape,
                                       .stride = turned,
                                       .count = 6,
                                       .rank = 2,
                                       .dtype = BP_F32,
                                       .flags = BP_VIEW_STRIDED};
static const struct bp_view *const inputs[] = {&dense, &columns}, *const outputs[] = {&dense};
static const uint16_t in_at[] = {0, 1, 1, 2}, out_at[] = {0, 1};

/* A call of three inputs, of which the second is absent. */
static struct kit_build kit_begin(const void *attrs)
{
    const struct bp_prep prep = {.size = sizeof prep,
                                 .in = inputs,
                                 .out = outputs,
                                 .in_at = in_at,
                                 .out_at = out_at,
                                 .n_in = 2,
                                 .n_out = 1,
                                 .attrs = attrs,
                                 .device = 3};
    struct kit_build b;

    kit_build_prep(&b, &kit_failed, &prep);
    return b;
}

static void values_come_from_attributes(void)
{
    const int64_t axes[] = {-1};
    const struct bp_sum_attrs some = {sizeof some, {axes, 1}, 1}, all = {sizeof all, {NULL, 0}, 0};
    const struct kit_arg arg = KIT_AXES(sum, axes, 0), keep = KIT_INT(sum, keep);
    struct kit_build b = kit_begin(&some);
    int64_t got[KIT_INTS_MAX];

    CHECK(kit_arg_ints(&b, &arg, got) == 1 && got[0] == 1, "an axis is %d", (int)got[0]);
    CHECK(kit_arg_int(&b, &keep) == 1, "keep");
    CHECK(b.device == 3 && b.self == &kit_failed, "the call");
    b = kit_begin(&all);
    CHECK(kit_arg_ints(&b, &arg, got) == 2 && got[0] == 0 && got[1] == 1, "all axes");
    CHECK(kit_arg_int(&b, &keep) == 0, "keep");
    kit_build_end(&b);
}

static void constants_keep_their_values(void)
{
    const struct kit_arg integer = KIT_SCALAR_IS(INT64_MAX), number = KIT_NUMBER_IS(0.25),
                         dtype = KIT_IN_DTYPE(0), none = KIT_IN_DTYPE(1);
    struct kit_build b = kit_begin(NULL);
    struct kit_arg array = kit_array(&b, shape, 2);
    int64_t got[KIT_INTS_MAX];

    CHECK(kit_arg_int(&b, &integer) == INT64_MAX && !kit_arg_is_number(&integer), "an integer");
    CHECK(kit_arg_number(&b, &number) == 0.25 && kit_arg_is_number(&number), "a number");
    CHECK(kit_arg_int(&b, &dtype) == BP_F32 && kit_arg_int(&b, &none) == -1, "dtypes");
    CHECK(kit_arg_ints(&b, &array, got) == 2 && got[0] == 2 && got[1] == 3, "an array");
    kit_build_end(&b);
}

static void absent_tensors_have_no_view(void)
{
    const struct kit_arg first = KIT_IN(0), absent = KIT_IN(1), third = KIT_IN(2);
    struct kit_build b = kit_begin(NULL);

    CHECK(kit_arg_view(&b, &first) == &dense, "the first port");
    CHECK(!kit_arg_view(&b, &absent), "the absent port");
    CHECK(kit_arg_view(&b, &third) == &columns, "the third port");
    kit_build_end(&b);
}

static void temporaries_lie_apart(void)
{
    struct kit_build b = kit_begin(NULL);
    struct kit_arg x = kit_temporary_like(&b, &dense), y = kit_temporary(&b, BP_I64, 1, shape);
    const struct kit_tensor *first = &b.tensor[x.at], *second = &b.tensor[y.at];
    uint64_t at = (uintptr_t)second->view.data;

    CHECK((uintptr_t)first->view.data == 0 && at % 512 == 0 && at >= 24 + 32, "at %d", (int)at);
    CHECK(b.bytes >= at + 16 && first->view.stride[0] == 3 && second->view.count == 2, "types");
    kit_build_end(&b);
}

static void steps_find_the_roles_of_tensors(void)
{
    struct kit_build b = kit_begin(NULL);
    struct kit_arg t = kit_temporary_like(&b, &dense), half, word = kit_word(&b);

    half = kit_alias(&b, t, BP_F32, 1, shape, NULL, 4);
    KIT_STEP(&b, "A", KIT_IN(0), t);
    KIT_STEP(&b, "B", half, KIT_OUT(0), word);
    KIT_STEP(&b, "C", KIT_UPDATED(0), kit_as(t, KIT_WRITES));
    CHECK(b.status == BP_OK && b.n_step == 3 && b.n_arg == 7 && b.guarded, "the steps");
    CHECK(b.arg[0].role == KIT_READS && b.arg[1].role == KIT_WRITES, "A");
    CHECK(b.arg[2].role == KIT_READS && b.arg[3].role == KIT_WRITES, "B");
    CHECK(b.arg[4].role == KIT_UPDATES && b.arg[5].role == KIT_UPDATES, "the word and an update");
    CHECK(b.arg[6].role == KIT_WRITES, "C");
    kit_build_end(&b);
}

static void a_shape_changes_where_strides_allow_it(void)
{
    const int64_t flat[] = {6}, more[] = {1, 2, 1, 3};
    struct kit_build b = kit_begin(NULL);
    struct kit_arg x = kit_reshaped(&b, KIT_VALUE(KIT_IN(0)), 1, flat);
    struct kit_arg y = kit_reshaped(&b, KIT_VALUE(KIT_IN(2)), 4, more);

    CHECK(b.status == BP_OK && b.tensor[x.at].view.count == 6, "a dense tensor");
    CHECK(b.tensor[y.at].stride[1] == 1 && b.tensor[y.at].stride[3] == 2, "axes of extent 1");
    kit_reshaped(&b, KIT_VALUE(KIT_IN(2)), 1, flat);
    CHECK(b.status == BP_ERR_UNSUPPORTED, "other strides");
    kit_build_end(&b);
}

static void a_failure_stays_in_the_build(void)
{
    struct kit_build b = kit_begin(NULL);

    for (int i = 0; i < KIT_ARGS; i++) KIT_STEP(&b, "A", KIT_IN(0));
    CHECK(b.status == BP_OK, "too early");
    CHECK(KIT_STEP(&b, "A", KIT_IN(0)) == BP_ERR_UNSUPPORTED, "one more");
    CHECK(kit_repeat(&b, 0, 2) == BP_ERR_UNSUPPORTED && b.n_step == KIT_ARGS, "later");
    kit_build_end(&b);
    b = kit_begin(NULL);
    for (int i = 0; i < KIT_TENSORS; i++) kit_temporary_like(&b, &dense);
    CHECK(b.status == BP_OK, "too early");
    kit_temporary_like(&b, &dense);
    CHECK(b.status == BP_ERR_UNSUPPORTED, "a temporary too many");
    kit_build_end(&b);
}

static bool kit_has(void *self, const char *function)
{
    (*(int *)self)++;
    return strcmp(function, "Missing") != 0;
}

static void a_build_of_a_launch_has_its_seed(void)
{
    const struct bp_launch launch = {.seed = 7, .offset = 9, .device = 2};
    struct kit_build b;

    memset(&b, 1, sizeof b);
    kit_build_launch(&b, &launch);
    CHECK(b.seed == 7 && b.offset == 9 && b.device == 2, "the values of the launch");
    CHECK(b.status == BP_OK && !b.n_step && !b.held, "nothing else");
    kit_build_end(&b);
}

static void missing_functions_are_named(void)
{
    const struct kit_row good = {.functions = "Add Mul"}, bad = {.functions = "Add Missing Mul"};
    char missing[64] = "";
    int calls = 0;

    CHECK(kit_row_has(&good, kit_has, &calls, missing) && calls == 2, "%d calls", calls);
    CHECK(!kit_row_has(&bad, kit_has, &calls, missing), "a function is missing");
    CHECK(!strcmp(missing, "Missing"), "it is %s", missing);
}

/* ---- constants ---- */

/* A build of a call with one input and one output of 2 x 3 numbers. */
struct rows_call {
    int64_t shape[2], stride[2];
    struct bp_view view;
    const struct bp_view *in[1], *out[1];
    uint16_t at[2];
    struct bp_prep prep;
    struct kit_build b;
};

static struct kit_build *rows_begin(struct rows_call *c)
{
    *c = (struct rows_call){.shape = {2, 3}, .stride = {3, 1}, .at = {0, 1}};
    c->view = (struct bp_view){
        .shape = c->shape, .stride = c->stride, .count = 6, .dtype = BP_F32, .rank = 2};
    c->in[0] = c->out[0] = &c->view;
    c->prep = (struct bp_prep){.size = sizeof c->prep,
                               .in = c->in,
                               .out = c->out,
                               .in_at = c->at,
                               .out_at = c->at,
                               .n_in = 1,
                               .n_out = 1};
    kit_build_prep(&c->b, NULL, &c->prep);
    return &c->b;
}

static uint64_t rows_place(const struct kit_build *b, struct kit_arg arg)
{
    return (uintptr_t)kit_arg_view(b, &arg)->data;
}

/* Contents stay although later constants need more memory. */
static void constants_are_copied(void)
{
    static const int64_t three[1] = {3}, more[1] = {5000};
    int64_t number[3] = {7, 8, 9}, *large = calloc(5000, sizeof *large);
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);
    struct kit_arg first = kit_constant(b, BP_I64, 1, three, number), second;

    number[0] = 1;
    large[4999] = 11;
    second = kit_constant(b, BP_I64, 1, more, large);
    memset(large, 0, 5000 * sizeof *large);
    CHECK(!b->status, "the status is %d", b->status);
    CHECK(!memcmp(b->held + rows_place(b, first), (int64_t[]){7, 8, 9}, 24), "the first constant");
    CHECK(((int64_t *)(void *)(b->held + rows_place(b, second)))[4999] == 11, "the second one");
    CHECK(b->held_bytes >= rows_place(b, second) + 5000 * 8, "the size of all");
    CHECK(!b->bytes, "a constant takes no workspace");
    kit_build_end(b);
    CHECK(!b->held, "the end frees constants");
    free(large);
}

static void constants_are_read_and_temporaries_written_first(void)
{
    static const int64_t two[1] = {2};
    static const float number[2] = {1, 2};
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);
    struct kit_arg t = kit_temporary(b, BP_F32, 1, two);
    struct kit_arg constant = kit_constant(b, BP_F32, 1, two, number);

    KIT_STEP(b, "Exp", constant, t);
    KIT_STEP(b, "Log", t, KIT_OUT(0));
    CHECK(b->n_step == 2 && b->step[0].n == 2, "two steps of two arguments");
    CHECK(b->step[0].arg[0].role == KIT_READS, "a constant is read");
    CHECK(b->step[0].arg[1].role == KIT_WRITES, "a temporary is written by its first step");
    CHECK(b->step[1].arg[0].role == KIT_READS, "and read by the next one");
    CHECK(b->step[1].arg[1].role == KIT_WRITES, "an output is written");
    kit_build_end(b);
}

/* Steps in rounds, of which a part is itself rounds. */
static void steps_are_repeated(void)
{
    static const char order[] = "ABBCABBCABBC";
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);
    struct kit_arg t = kit_temporary_like(b, &c.view);
    bool shared = true;

    KIT_STEP(b, "A", KIT_IN(0), t);
    KIT_STEP(b, "B", t, KIT_OUT(0));
    kit_repeat(b, 1, 2);
    KIT_STEP(b, "C", t, KIT_OUT(0));
    CHECK(b->step[3].of == 3, "a step behind those that are repeated");
    CHECK(kit_repeat(b, 0, 3) == BP_OK && b->n_step == 12 && b->n_arg == 6, "all rounds");
    for (uint32_t i = 0; i < b->n_step; i++) {
        const struct kit_step *step = &b->step[i], *of = &b->step[step->of];
        CHECK(step->function[0] == order[i], "step %u is %s", i, step->function);
        shared &= step->of <= i && of->of == step->of && of->arg == step->arg && step->n == 2;
    }
    CHECK(shared, "repeated steps have the arguments of the first one");
    CHECK(b->step[4].of == 0 && b->step[6].of == 1, "of steps that are repeated twice");
    CHECK(b->step[0].arg[1].role == KIT_WRITES && b->step[4].arg[1].role == KIT_WRITES, "roles");
    CHECK(kit_repeat(b, 0, 1) == BP_OK && b->n_step == 12, "once");
    CHECK(kit_repeat(b, 12, 7) == BP_OK && b->n_step == 12, "no steps");
    CHECK(kit_repeat(b, 0, KIT_STEPS / 12 + 1) == BP_ERR_UNSUPPORTED, "too many");
    kit_build_end(b);
    b = rows_begin(&c);
    KIT_STEP(b, "A", KIT_IN(0), KIT_OUT(0));
    CHECK(kit_repeat(b, 0, KIT_STEPS) == BP_OK && b->n_step == KIT_STEPS, "the most");
    CHECK(KIT_STEP(b, "B", KIT_IN(0), KIT_OUT(0)) == BP_ERR_UNSUPPORTED, "one more");
    kit_build_end(b);
    CHECK(!b->step, "the end frees the steps");
    b = rows_begin(&c);
    KIT_STEP(b, "A", KIT_IN(0), KIT_OUT(0));
    CHECK(kit_repeat(b, 0, 0) == BP_ERR_UNSUPPORTED, "no round");
    kit_build_end(b);
}

/* ---- staging ---- */

static struct {
    char memory[KIT_STAGES * KIT_STAGE];
    int events, waits, records, copies, released, fail_at, calls;
    void *waited;
} stage;

static enum bp_status stage_call(void)
{
    return ++stage.calls == stage.fail_at ? BP_ERR_MEMORY : BP_OK;
}

static enum bp_status stage_allocate(void *stream, size_t size, void **out)
{
    (void)stream;
    CHECK(size == sizeof stage.memory, "%zu bytes", size);
    if (stage_call()) return BP_ERR_MEMORY;
    *out = stage.memory;
    return BP_OK;
}

static void stage_release(void *stream, void *memory)
{
    (void)stream;
    CHECK(memory == stage.memory, "other memory");
    stage.released++;
}

static enum bp_status stage_event(void *stream, void **out)
{
    (void)stream;
    if (stage_call()) return BP_ERR_MEMORY;
    *out = stage.memory + stage.events++;
    return BP_OK;
}

static void stage_event_destroy(void *stream, void *event)
{
    (void)stream;
    (void)event;
    stage.events--;
}

static enum bp_status stage_record(void *stream, void *event)
{
    (void)stream;
    (void)event;
    stage.records++;
    return stage_call();
}

static enum bp_status stage_wait(void *stream, void *event)
{
    (void)stream;
    stage.waits++;
    stage.waited = event;
    return stage_call();
}

static enum bp_status stage_copy(void *stream, void *dst, const void *src, size_t size)
{
    (void)stream;
    stage.copies++;
    memcpy(dst, src, size);
    return stage_call();
}

static const struct kit_staging_calls stage_calls = {
    stage_allocate, stage_release, stage_event, stage_event_destroy,
    stage_record,   stage_wait,    stage_copy};

static void copies_wait_only_for_their_span(void)
{
    struct kit_staging staging = {.next = 0};
    int number, got = 0;

    memset(&stage, 0, sizeof stage);
    for (number = 0; number < 2 * KIT_STAGES; number++) {
        CHECK(!kit_staging_copy(&staging, &stage_calls, NULL, &got, &number, sizeof got), "copy");
        CHECK(got == number, "%d is %d", number, got);
        CHECK(stage.waits == (number < KIT_STAGES ? 0 : number - KIT_STAGES + 1), "waits");
        if (stage.waits) CHECK(stage.waited == staging.passed[number % KIT_STAGES], "its event");
    }
    CHECK(stage.records == number && stage.events == KIT_STAGES, "events");
    kit_staging_end(&staging, &stage_calls, NULL);
    CHECK(!stage.events && stage.released == 1 && !staging.memory, "all is released");
    kit_staging_end(&staging, &stage_calls, NULL);
    CHECK(stage.released == 1, "once");
}

/* Each call fails once; the next copy works, and nothing is made twice. */
static void a_failed_copy_can_be_made_again(void)
{
    for (int at = 1; at <= 7; at++) {
        struct kit_staging staging = {.next = 0};
        int number = at, got = 0;
        memset(&stage, 0, sizeof stage);
        stage.fail_at = at;
        CHECK(kit_staging_copy(&staging, &stage_calls, NULL, &got, &number, sizeof got),
              "call %d does not fail", at);
        CHECK(!kit_staging_copy(&staging, &stage_calls, NULL, &got, &number, sizeof got),
              "after call %d", at);
        CHECK(got == number && stage.events == KIT_STAGES, "after call %d", at);
        kit_staging_end(&staging, &stage_calls, NULL);
        CHECK(!stage.events && stage.released == 1, "after call %d", at);
    }
}

int main(void)
{
#define X(name) {#name, name},
    static const struct kit_test tests[] = {
        X(functions_get_their_arguments) X(numbers_take_registers_of_their_own)
            X(too_many_arguments_are_noticed) X(values_come_from_attributes)
                X(constants_keep_their_values) X(absent_tensors_have_no_view)
                    X(temporaries_lie_apart) X(steps_find_the_roles_of_tensors)
                        X(a_shape_changes_where_strides_allow_it) X(a_failure_stays_in_the_build)
                            X(a_build_of_a_launch_has_its_seed) X(a_failure_stays_in_the_build)
                                X(missing_functions_are_named) X(constants_are_copied)
                                    X(constants_are_read_and_temporaries_written_first)
                                        X(steps_are_repeated) X(copies_wait_only_for_their_span)
                                            X(a_failed_copy_can_be_made_again)};
#undef X

    return kit_run(tests, sizeof tests / sizeof *tests);
}
