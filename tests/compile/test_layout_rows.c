/* SPDX-License-Identifier: Apache-2.0 */
/* test_layout_rows.c: tests which kernel rows with layouts are used, the reasons for the others,
 * and programs that have a group of an engine too, on the device of ../plugins/blocked. */
#include "pass_kit.h"

#include <backplane/ops.h>

#include <stdio.h>
#include <stdlib.h>

static void layout_rows_begin(void)
{
    text_device = "blocked:0";
}

TestSuite(layout_rows, .init = layout_rows_begin);

static struct bp_kernel_info row_named(struct bp_device *device, const char *name)
{
    struct bp_kernel_info info = {.size = sizeof info};

    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        OK(bp_device_kernel(device, i, &info));
        if (!strcmp(info.name, name)) return info;
    }
    cr_assert_fail("there is no row %s", name);
    return info;
}

static void expect_reason(const char *spoilt, const char *row, const char *reason)
{
    struct text_graph g;
    struct bp_kernel_info info;

    setenv("BP_BLOCKED", spoilt, 1);
    g = text_begin();
    info = row_named(g.f.device, row);
    cr_assert_str_eq(info.reason, reason, "%s: %s", spoilt, info.reason);
    cr_assert_str_eq(info.layouts, "");
    text_finish(&g);
    unsetenv("BP_BLOCKED");
}

Test(layout_rows, a_number_without_a_layout)
{
    expect_reason("number", "blocked_relu", "in_layout[0] is 7, but the plugin has 2 layouts");
}

Test(layout_rows, two_layouts_of_one_name)
{
    expect_reason("twin", "blocked_conv",
                  "in_layout[0]: layout 1 of the plugin has the name of another one");
}

Test(layout_rows, a_name_with_a_space)
{
    expect_reason("nameless", "blocked_conv_first",
                  "out_layout[0]: layout 1 of the plugin has no valid name: letters, digits and "
                  "'_', '.', '-'");
}

Test(layout_rows, a_layout_without_a_size)
{
    expect_reason("sizeless", "blocked_add",
                  "in_layout[0]: layout 1 of the plugin has no function bytes");
}

Test(layout_rows, a_layout_that_no_row_converts)
{
    expect_reason("lost", "blocked_conv",
                  "no row of assign that this machine can run converts from layout c8");
}

Test(layout_rows, a_conversion_between_two_layouts)
{
    expect_reason("cross", "blocked_cross",
                  "it converts from c8 to n8: rows of assign convert "
                  "from strides or to strides");
}

Test(layout_rows, a_view_in_a_layout)
{
    expect_reason("narrow", "blocked_reshape",
                  "the tensors of reshape are always in strides: its rows have no layouts");
}

Test(layout_rows, layouts_that_cannot_be_walked)
{
    struct bp_device *device;
    struct bp_core *core;

    setenv("BP_BLOCKED", "stride", 1);
    OK(bp_core_create(NULL, &core));
    FAILS(BP_ERR_PLUGIN, "its layouts cannot be walked",
          bp_device_create(core, "blocked:0", &device));
    bp_core_destroy(core);
}

/* BP_VALIDATE=arena finds the kernel that writes more bytes than the plugin has stated. */
Test(layout_rows, a_layout_with_too_few_bytes)
{
    struct bp_tensor *y = NULL;
    struct bp_program *program;
    struct text_graph g;

    setenv("BP_BLOCKED", "small", 1);
    setenv("BP_VALIDATE", "arena", 1);
    g = text_begin();
    text_record(&g, "relu@blocked_relu(x[1,7,3,2])");
    OK(bp_program_create(g.graph, g.f.device, &program));
    FAILS(BP_ERR_PLUGIN,
          "blocked_to_c8 wrote behind output 0, which has 168 bytes in layout c8: byte ",
          bp_program_run(program, g.f.stream, g.in, g.n_in, &y, 1));
    bp_program_destroy(program);
    text_finish(&g);
    unsetenv("BP_BLOCKED");
}

static void expect_launches(struct bp_program *program, const char *ops)
{
    struct bp_launch_info launch = {.size = sizeof launch};
    char found[256] = "";

    for (uint32_t i = 0; !bp_program_launch(program, i, &launch); i++)
        strcat(strcat(found, i ? " " : ""), launch.op);
    cr_assert_str_eq(found, ops);
}

/* An engine's group between two nodes in layouts: it reads and writes strides. */
Test(layout_rows, groups_of_engines_are_in_strides)
{
    char path[512];
    struct bp_program *program;
    struct text_graph g;

    snprintf(path, sizeof path, "%s:%s", getenv("BP_PLUGIN_PATH"), BLOCKED_ENGINE);
    setenv("BP_PLUGIN_PATH", path, 1);
    setenv("BP_ENGINED_ADDON", "only=tanh", 1);
    g = text_begin();
    text_record(&g, "a = relu(conv(x[1,16,16,16], w![16,16,3,3], _; pad=1_1_0_1_1_0))\n"
                    "conv(tanh(a), w, _; pad=1_1_0_1_1_0)");
    OK(bp_program_create(g.graph, g.f.device, &program));
    OK(bp_program_compile(program));
    expect_launches(program, "assign conv relu assign engine assign conv assign");
    bp_program_destroy(program);
    pass_check_values(&g, 4e6);
    text_finish(&g);
}

/* Calls of an app never run on a row with layouts, also if they name it. */
Test(layout_rows, only_programs_run_them)
{
    struct text_graph g = text_begin();
    struct bp_call call = {.size = sizeof call, .op = "relu", .kernel = "blocked_relu", .n_in = 1};
    struct bp_tensor *x, *y = NULL;
    struct bp_arg arg;

    cr_assert_str_eq(row_named(g.f.device, "blocked_add").layouts, "c8, c8 -> c8");
    cr_assert_str_eq(row_named(g.f.device, "blocked_matmul").layouts, "-, n8 -> -");
    cr_assert_str_eq(row_named(g.f.device, "blocked_add").reason,
                     "only programs use it: it takes tensors in layouts of the plugin");
    x = tensor_of(&g.f, BP_F32, 4, (const int64_t[]){1, 8, 2, 2}, NULL);
    arg = (struct bp_arg){&x, 1};
    call.in = &arg;
    FAILS(BP_ERR_NO_KERNEL, "takes tensors in other layouts",
          bp_call_run(g.f.scope, &call, &y, 1, NULL));
    bp_tensor_destroy(x);
    text_finish(&g);
}
