/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_filter.c: tests BP_KERNELS, which leaves out kernel rows by the names of rows and of
 * operators: the rows, the calls and programs that used them, the log. */
#include "fixture.h"
#include <stdio.h>
#include <stdlib.h>

/* The log of a core, as one text. */
struct log {
    char text[16384];
    size_t used;
};

static void log_take(void *ctx, uint32_t level, const char *text)
{
    struct log *log = ctx;

    (void)level;
    if (log->used < sizeof log->text)
        log->used += (size_t)snprintf(log->text + log->used, sizeof log->text - log->used, "%s\n",
                                      text);
}

static struct fixture row_filter_core(const char *list, struct log *log)
{
    struct bp_core_options options = {.size = sizeof options};
    struct fixture f;

    setenv("BP_KERNELS", list, 1);
    setenv("BP_LOG", "info", 1);
    setenv("BP_FALLBACK", "deny", 1);
    if (log) *log = (struct log){.used = 0};
    if (log) options.log = log_take, options.log_ctx = log;
    OK(bp_core_create(&options, &f.core));
    OK(bp_device_create(f.core, "cpu:0", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    unsetenv("BP_KERNELS");
    return f;
}

/* The number of rows of an operator that can run. */
static uint32_t rows_left(struct fixture *f, const char *op, const char **out_reason)
{
    uint32_t n = 0;

    *out_reason = "";
    for (uint32_t i = 0; i < bp_device_kernels(f->device); i++) {
        struct bp_kernel_info row = {.size = sizeof row};
        OK(bp_device_kernel(f->device, i, &row));
        if (strcmp(row.op, op)) continue;
        if (*row.reason) *out_reason = row.reason;
        else n++;
    }
    return n;
}

static uint32_t rows_usual(const char *op)
{
    struct fixture f = fixture_init();
    const char *why;
    uint32_t n = rows_left(&f, op, &why);

    fixture_finish(&f);
    return n;
}

static enum bp_status run_op(struct fixture *f, const char *op)
{
    struct bp_tensor *x = tensor_of(f, BP_F32, 1, SHAPE(2), F32(1, 2)), *out = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = 1};
    enum bp_status status;

    if (!strcmp(op, "add") || !strcmp(op, "mul")) call.n_in = 2;
    status = bp_call_run(f->scope, &call, &out, 1, NULL);
    bp_tensor_destroy(out);
    bp_tensor_destroy(x);
    return status;
}

Test(row_filter, a_pattern_names_rows_or_operators)
{
    static const struct {
        const char *list;
        bool add, mul; /* rows are left */
    } of[] = {
        {"-add", false, true},
        {"-cpu_add*", false, true},
        {"-*", false, false},
        {"+add", true, false},
        {"-*,+add", true, false},
        {"+*,-add", false, true},
        {"-add,+add", true, true},
        {"+add,-add", false, false},
        {" -add , -mul\t", false, false},
        {"-ad", true, true},
        {"", true, true},
        {",,", true, true},
        {"+a*,+mul,-cpu_mul*", true, false},
    };
    const char *why;

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct fixture f = row_filter_core(of[i].list, NULL);
        cr_assert_eq(rows_left(&f, "add", &why) > 0, of[i].add, "%s: add", of[i].list);
        cr_assert_eq(*why != 0, !of[i].add, "%s: %s", of[i].list, why);
        cr_assert_eq(rows_left(&f, "mul", &why) > 0, of[i].mul, "%s: mul", of[i].list);
        cr_assert_eq(run_op(&f, "add") == BP_OK, of[i].add, "%s", of[i].list);
        cr_assert_eq(run_op(&f, "mul") == BP_OK, of[i].mul, "%s", of[i].list);
        fixture_finish(&f);
    }
}

Test(row_filter, one_row_is_left_out_and_the_next_one_serves)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(4, 4), NULL), *out = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "matmul", .in = in, .n_in = 2};
    char list[80], first[64] = "", name[64];
    uint32_t usual = rows_usual("matmul");
    const char *why;

    bp_tensor_destroy(x);
    fixture_finish(&f);
    /* Each row in turn that a call names: without it that call fails, and the call without a name
     * runs, as long as another row takes f32. */
    f = fixture_init();
    for (uint32_t i = 0; i < bp_device_kernels(f.device) && !*first; i++) {
        struct bp_kernel_info row = {.size = sizeof row};
        OK(bp_device_kernel(f.device, i, &row));
        if (!strcmp(row.op, "matmul") && row.types[0] >> BP_F32 & 1)
            snprintf(first, sizeof first, "%s", row.name);
    }
    fixture_finish(&f);
    cr_assert(*first && usual > 1);
    snprintf(list, sizeof list, "-%s", first);
    snprintf(name, sizeof name, "%s", first);
    f = row_filter_core(list, NULL);
    cr_assert_eq(rows_left(&f, "matmul", &why), usual - 1);
    x = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4));
    call.kernel = name;
    FAILS(BP_ERR_NO_KERNEL, "BP_KERNELS (-", bp_call_run(f.scope, &call, &out, 1, NULL));
    call.kernel = NULL;
    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, out, F32(7, 10, 15, 22), 16);
    bp_tensor_destroy(out);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(row_filter, the_error_names_the_list)
{
    struct fixture f = row_filter_core("-add", NULL);

    FAILS(BP_ERR_NO_KERNEL, "left out by BP_KERNELS (-add)", run_op(&f, "add"));
    fixture_finish(&f);
    f = row_filter_core("+mul", NULL);
    FAILS(BP_ERR_NO_KERNEL, "left out by BP_KERNELS (no + in it selects the row)",
          run_op(&f, "add"));
    fixture_finish(&f);
}

/* Without its rows, mean runs as its decomposition; without those of sum too, the error names the
 * list. */
Test(row_filter, a_decomposition_serves)
{
    struct fixture f = row_filter_core("-mean", NULL);
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)), *out = NULL;
    struct bp_arg in = {&x, 1};
    struct bp_call call = {.size = sizeof call, .op = "mean", .in = &in, .n_in = 1};

    OK(bp_call_run(f.scope, &call, &out, 1, NULL));
    expect_bytes(&f, out, F32(1.5f), 4);
    bp_tensor_destroy(out);
    bp_tensor_destroy(x);
    fixture_finish(&f);
    f = row_filter_core("-mean,-sum", NULL);
    FAILS(BP_ERR_NO_KERNEL, "BP_KERNELS", run_op(&f, "mean"));
    fixture_finish(&f);
}

/* A prepared call and a program are made with the rows that are left. */
Test(row_filter, prepared_calls_and_programs_fail_when_they_are_made)
{
    struct fixture f = row_filter_core("-cpu_mul*", NULL);
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)), *in, *y = NULL;
    struct bp_arg args[2] = {{&x, 1}, {&x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "mul", .in = args, .n_in = 2};
    struct bp_prepared *prepared = NULL;
    struct bp_program *program = NULL;
    struct bp_graph *graph;

    FAILS(BP_ERR_NO_KERNEL, "BP_KERNELS (-cpu_mul*)",
          bp_prepared_create(f.device, &call, NULL, 0, &prepared));
    cr_assert_null(prepared);
    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(2), &in));
    OK(bp_op_mul(bp_graph_scope(graph), in, in, &y));
    OK(bp_graph_output(graph, y, "y"));
    OK(bp_program_create(graph, f.device, &program));
    FAILS(BP_ERR_NO_KERNEL, "BP_KERNELS (-cpu_mul*)", bp_program_compile(program));
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(in);
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(row_filter, the_log_names_rows_left_out)
{
    static struct log log;
    struct fixture f = row_filter_core("-add,-nms*,nothing,-,-nosuch_*,+mlu_*", &log);

    cr_assert(strstr(log.text, "cpu: BP_KERNELS leaves out "), "%s", log.text);
    cr_assert(strstr(log.text, "cpu_add, "), "%s", log.text);
    cr_assert(strstr(log.text, "got 'nothing'"), "%s", log.text);
    cr_assert(strstr(log.text, "got '-'"), "%s", log.text);
    cr_assert(strstr(log.text, "BP_KERNELS: -nosuch_* matches no kernel row"), "%s", log.text);
    cr_assert_null(strstr(log.text, "-add matches no"), "%s", log.text);
    cr_assert_null(strstr(log.text, "-nms* matches no"), "%s", log.text);
    fixture_finish(&f);
    f = row_filter_core("-softmax", &log);
    cr_assert(strstr(log.text, "leaves out "), "%s", log.text);
    cr_assert_null(strstr(log.text, "no kernel row"), "%s", log.text);
    fixture_finish(&f);
}
