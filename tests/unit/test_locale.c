/* SPDX-License-Identifier: Apache-2.0 */
/* test_locale.c: tests that the library's texts have a decimal point in an app whose locale has a
 * comma: code of `fused`, patterns of the compiler, and times in environment variables. */
#include "fixture.h"

#include "comma_locale.h"
#include <backplane/fused_text.h>
#include <backplane/ops.h>

Test(locale, code_of_fused_is_read_and_written_with_points)
{
    static const char text[] = "r0 = clip x0 min=0.125 max=6.5; y0 = mul r0 x1";
    int64_t expected[BP_FUSED_WORDS], code[BP_FUSED_WORDS];
    size_t n = 0, m = 0;
    char again[BP_FUSED_TEXT];

    OK(bp_fused_parse(text, expected, &n));
    comma_locale_set();
    OK(bp_fused_parse(text, code, &m));
    cr_assert_eq(m, n);
    cr_assert_arr_eq(code, expected, n * sizeof *code);
    OK(bp_fused_print(code, n, again, sizeof again));
    cr_expect_str_eq(again, text);
    cr_expect_str_eq(localeconv()->decimal_point, ",", "the app's locale is as before");
}

/* gelu of parts: 0.5 x (1 + erf(x / 1.4142135623730951)). The compiler reads its patterns when the
 * first program is compiled. */
Test(locale, patterns_are_read_with_points)
{
    struct bp_launch_info launch = {.size = sizeof launch};
    struct bp_tensor *x, *t[5] = {NULL}, *number[3];
    const float value[3] = {0.5f, 1.41421356f, 1};
    struct bp_program *program;
    struct bp_graph *graph;
    struct bp_scope *scope;
    struct fixture f;

    comma_locale_set();
    f = fixture_init();
    for (int i = 0; i < 3; i++) {
        number[i] = tensor_of(&f, BP_F32, 0, NULL, &value[i]);
        OK(bp_tensor_freeze(number[i]));
    }
    OK(bp_graph_create(f.core, &graph));
    scope = bp_graph_scope(graph);
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(8, 16), &x));
    OK(bp_op_mul(scope, x, number[0], &t[0]));
    OK(bp_op_div(scope, x, number[1], &t[1]));
    OK(bp_op_erf(scope, t[1], &t[2]));
    OK(bp_op_add(scope, t[2], number[2], &t[3]));
    OK(bp_op_mul(scope, t[0], t[3], &t[4]));
    OK(bp_graph_output(graph, t[4], "y"));
    OK(bp_program_create(graph, f.device, &program));
    OK(bp_program_compile(program));
    OK(bp_program_launch(program, 0, &launch));
    cr_expect_str_eq(launch.op, "gelu");
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    for (int i = 0; i < 5; i++) bp_tensor_destroy(t[i]);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(number[i]);
    fixture_finish(&f);
}

static void locale_log(void *ctx, uint32_t level, const char *text)
{
    (void)level;
    *(bool *)ctx |= strstr(text, "BP_WAIT_TIMEOUT") != NULL;
}

Test(locale, times_are_read_with_points)
{
    struct bp_core_options options = {.size = sizeof options};
    struct bp_core *core;
    bool logged = false;

    options.log = locale_log;
    options.log_ctx = &logged;
    comma_locale_set();
    setenv("BP_WAIT_TIMEOUT", "1.5", 1);
    OK(bp_core_create(&options, &core));
    cr_expect(!logged, "1.5 is refused");
    bp_core_destroy(core);
    setenv("BP_WAIT_TIMEOUT", "1,5", 1);
    OK(bp_core_create(&options, &core));
    cr_expect(logged, "1,5 is taken");
    bp_core_destroy(core);
}
