/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_format.c: tests the pass format: which values get layouts of the plugin, how many
 * conversions there are, and that programs keep their values, on the device of
 * ../plugins/blocked. */
#include "pass_kit.h"

#include <backplane/ops.h>

#include <stdio.h>
#include <stdlib.h>

/* Sums of at most 289 products of numbers below 2, twice in a row. */
static const double format_terms = 4e6;

static void format_begin(void)
{
    text_device = "blocked:0";
}

TestSuite(format, .init = format_begin);

#define X "x[1,16,16,16]"
#define CONV(x) "conv(" x ", w![16,16,3,3], c![16]; pad=1_1_0_1_1_0)"
#define AGAIN(x) "conv(" x ", v![16,16,3,3], k![16]; pad=1_1_0_1_1_0)"

/* Writes the rows of the launches that are the device's own, without "blocked_"; other launches are
 * "-". */
static void list_rows(const struct bp_schedule *s, char *text, size_t size)
{
    static const char own[] = "blocked_";
    size_t at = 0;

    *text = 0;
    for (uint32_t n = 0; n < s->n_launch; n++) {
        const char *row = s->launch[n].step->kernel->name;
        bool is_own = !strncmp(row, own, sizeof own - 1);
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? " " : "",
                               is_own ? row + sizeof own - 1 : "-");
        cr_assert(at < size);
    }
}

static void expect_rows(const char *text, const char *rows, double terms)
{
    struct text_graph g = text_begin();
    struct bp_schedule *s;
    char found[512];

    text_record(&g, text);
    OK(bp_compile(g.graph, g.f.device, &s));
    list_rows(s, found, sizeof found);
    cr_assert_str_eq(found, rows, "%s: %s", text, found);
    bp_schedule_destroy(s);
    if (terms > 0) pass_check_values(&g, terms);
    text_finish(&g);
}

struct format_case {
    const char *text, *rows;
};

/* One conversion for each value that comes in, and one for each that goes out. */
static const struct format_case networks[] = {
    {CONV(X), "to_c8 conv from_c8"},
    {AGAIN(CONV(X)), "to_c8 conv conv from_c8"},
    {AGAIN("relu(" CONV(X) ")"), "to_c8 conv relu conv from_c8"},
    /* a residual: the copy of the input serves twice */
    {"add(" AGAIN("relu(" CONV(X) ")") ", x)", "to_c8 conv relu conv add from_c8"},
    /* few channels come in */
    {AGAIN("relu(conv(x[1,3,48,48], w![16,3,3,3], _; pad=1_1_0_1_1_0))"),
     "conv_first relu conv from_c8"},
    /* channels that do not fill their blocks, groups and dilation */
    {"conv(conv(x[2,20,16,16], w![12,20,3,3], _; dilation=2_2_1), v![12,6,3,3], _; groups=2)",
     "to_c8 conv conv from_c8"},
    {"relu(mul(" CONV(X) ", y[16,1,1]))", "to_c8 conv factor relu from_c8"},
    /* one copy in strides for all readers that want one, before the first */
    {"a = " CONV(X) "\nb = tanh(a)\nd = relu(a)\nreturn b, sigmoid(a), d",
     "to_c8 conv from_c8 - relu - from_c8"},
    {"matmul(x[64,128], w![128,64])", "matmul"},
    /* not frozen: converted at each run */
    {"matmul(x[64,128], w[128,64])", "to_n8 matmul"},
    /* two readers of one input */
    {"add(" CONV(X) ", " AGAIN("x") ")", "to_c8 conv conv add from_c8"},
};

Test(format, networks_are_converted_at_their_borders)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        expect_rows(networks[i].text, networks[i].rows, format_terms);
}

/* Small or single operators are not worth a conversion. */
static const struct format_case plain[] = {
    {"relu(" X ")", "-"},
    {"add(" X ", y[1,16,16,16])", "-"},
    {"conv(x[1,16,4,4], w![8,16,3,3], _)", "-"},
    {"matmul(x[8,8], w![8,8])", "-"},
    {"tanh(relu(" X "))", "- -"},
    /* only one of the operands is in the layout */
    {"add(" CONV(X) ", y[1,16,16,16])", "to_c8 conv from_c8 -"},
    /* a type that is not kept in the layout */
    {"conv(x[1,3,32,32], w![3,3,3,3], _; pad=1_1_0_1_1_0)", "-"},
    {"conv(x[1,3,64,64], w![16,3,3,3], _; pad=1_1_0_1_1_0)", "conv_first from_c8"},
};

Test(format, small_graphs_stay_in_strides)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        expect_rows(plain[i].text, plain[i].rows, format_terms);
}

/* A small convolution takes the row if its image is in the layout already. */
Test(format, small_nodes_join_large_ones)
{
    expect_rows("conv(" CONV(X) ", u![8,16,1,1], _)", "to_c8 conv conv from_c8", format_terms);
    expect_rows("conv(tanh(" CONV(X) "), u![8,16,1,1], _)", "to_c8 conv from_c8 - -", format_terms);
}

/* Views, updates and outputs see strides. */
static const struct format_case seen[] = {
    {"a = " CONV(X) "\nreturn a, relu(a)", "to_c8 conv relu from_c8 from_c8"},
    {"a = " CONV(X) "\nreturn a, a", "to_c8 conv from_c8"},
    {"reshape(relu(" CONV(X) "); shape=1_4096)", "to_c8 conv relu from_c8"},
    {"a = " CONV(X) "\nb = transpose(a; perm=0_2_3_1)\nreturn relu(a), b",
     "to_c8 conv from_c8 relu from_c8"},
    /* a concat of converted values */
    {"concat(" CONV(X) ", relu(" AGAIN("x") "); axis=1)", "to_c8 conv conv relu from_c8 from_c8 -"},
};

Test(format, what_others_see_is_in_strides)
{
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        expect_rows(seen[i].text, seen[i].rows, format_terms);
    /* read before and after an update: no copy is kept */
    expect_rows("a = " CONV("p[1,16,16,16]") "\nsgd(p, g[1,16,16,16], lr[1], _)\nb = " AGAIN(
                    "p") "\nreturn a, b",
                "- - -", 0);
}

/* The result of a row of one layout goes to a row of the other by strides. */
Test(format, layouts_are_exchanged_by_strides)
{
    expect_rows("matmul(reshape(" CONV(X) "; shape=64_64), u[64,128])",
                "to_c8 conv from_c8 to_n8 matmul", format_terms);
}

Test(format, strided_images_are_converted)
{
    expect_rows(CONV("transpose(x[1,16,16,16]; perm=0_1_3_2)"), "to_c8 conv from_c8", format_terms);
    expect_rows(CONV("slice(x[1,32,16,16]; starts=4, ends=20, axes=1, steps=1)"),
                "to_c8 conv from_c8", format_terms);
}

/* A call that names a kernel row of strides, or none of the device, keeps its strides. */
Test(format, pinned_rows_stay)
{
    pass_expect_pin_kept(CONV(X), bp_pass_format, 1);
}

/* A call that names a row with layouts takes it, whatever its work; the others are where they would
 * be without it. */
static const struct format_case named[] = {
    {"relu@blocked_relu(" X ")", "to_c8 relu from_c8"},
    {"add@blocked_add(" X ", y[1,16,16,16])", "to_c8 to_c8 add from_c8"},
    {"add@blocked_add(" X ", x)", "to_c8 add from_c8"},
    {"conv@blocked_conv(x[1,16,4,4], w![8,16,3,3], _)", "to_c8 conv from_c8"},
    {"matmul@blocked_matmul(x[8,8], w![8,8])", "matmul"},
    {"matmul@blocked_matmul(x[8,8], w~[8,8])", "to_n8 matmul"},
    {"relu@blocked_relu(relu@blocked_relu(" X "))", "to_c8 relu relu from_c8"},
    {"tanh(relu@blocked_relu(neg(" X ")))", "- to_c8 relu from_c8 -"},
    {"relu@blocked_relu(transpose(x[1,16,16,16]; perm=0_1_3_2))", "to_c8 relu from_c8"},
    {"relu@cpu_relu(" CONV(X) ")", "to_c8 conv from_c8 -"},
    /* conversions, and back */
    {"assign@blocked_to_c8(" X ")", "to_c8 from_c8"},
    {"assign@blocked_from_c8(" X ")", "to_c8 from_c8"},
    {"assign@blocked_to_n8(x[3,9])", "to_n8 from_n8"},
};

/* Copies a text without the names of rows. */
static void copy_unnamed(const char *text, char *out)
{
    for (; *text; text++)
        if (*text == '@') text += strcspn(text, "(") - 1;
        else *out++ = *text;
    *out = 0;
}

Test(format, named_rows_with_layouts_are_taken)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        struct text_graph g = text_begin(), unnamed = text_begin();
        char text[512];
        cr_assert(strlen(named[i].text) < sizeof text);
        copy_unnamed(named[i].text, text);
        expect_rows(named[i].text, named[i].rows, 0);
        text_record(&g, named[i].text);
        text_record(&unnamed, text);
        pass_check_values_of(&g, &unnamed, format_terms);
        text_finish(&unnamed);
        text_finish(&g);
    }
}

static void expect_row_fails(const char *text, const char *why)
{
    struct text_graph g = text_begin();
    struct bp_schedule *s;

    text_record(&g, text);
    FAILS(BP_ERR_NO_KERNEL, why, bp_compile(g.graph, g.f.device, &s));
    text_finish(&g);
}

Test(format, named_rows_that_cannot_run_fail)
{
    expect_row_fails("relu@blocked_relu(x[1,3,4,4])",
                   "blocked_relu: input 0 cannot be converted to its layout");
    expect_row_fails("relu@blocked_relu(x[0,8,4,4])", "input 0 cannot be converted to its layout");
    expect_row_fails("relu@blocked_relu(x:f64[1,8,4,4])", "blocked_relu: ");
    expect_row_fails("conv@blocked_conv(x[1,16,4,4], w![3,16,3,3], _)",
                   "blocked_conv: output 0 cannot be converted from its layout");
    expect_row_fails("matmul@blocked_matmul(x[8,8], w![8,8]; transpose_a=1)",
                   "blocked_matmul: does not take this configuration");
    expect_row_fails("add@blocked_add(" X ", y[16,1,1])", "blocked_add: ");
    setenv("BP_BLOCKED", "unconverted", 1);
    expect_row_fails("relu@blocked_relu(" X ")", "input 0 cannot be converted to its layout");
    setenv("BP_BLOCKED", "lost", 1);
    expect_row_fails("relu@blocked_relu(" X ")",
                   "no row of assign that this machine can run converts from layout c8");
    setenv("BP_PASSES", "-format", 1);
    unsetenv("BP_BLOCKED");
    expect_row_fails("relu@blocked_relu(" X ")", "blocked_relu: takes tensors in other layouts");
    unsetenv("BP_PASSES");
}

Test(format, leaves_out_by_setting)
{
    setenv("BP_PASSES", "-format", 1);
    expect_rows(AGAIN(CONV(X)), "- -", format_terms);
    unsetenv("BP_PASSES");
}

/* ---- what a program shows ---- */

static struct bp_operand_info operand_of(struct bp_program *p, uint32_t launch, uint32_t k)
{
    struct bp_operand_info o = {.size = sizeof o};

    OK(bp_program_operand(p, launch, k, &o));
    return o;
}

Test(format, a_program_names_layouts_and_their_bytes)
{
    struct text_graph g = text_begin();
    struct bp_operand_info o;
    struct bp_program *p;

    text_record(&g, "relu(conv(x[1,20,18,18], w![12,20,3,3], _))"); /* with padding */
    OK(bp_program_create(g.graph, g.f.device, &p));
    OK(bp_program_compile(p));
    o = operand_of(p, 1, 0); /* of the convolution: its image, 3 blocks of channels */
    cr_assert_str_eq(o.layout, "c8");
    cr_assert_eq(o.bytes, 3 * 8 * 18 * 18 * 4);
    cr_assert_eq(o.memory, BP_MEMORY_ARENA);
    o = operand_of(p, 1, 1);
    cr_assert_str_eq(o.layout, "");
    o = operand_of(p, 2, 1); /* of relu: its result, which lies over its input */
    cr_assert_str_eq(o.layout, "c8");
    cr_assert_eq(o.bytes, 2 * 8 * 16 * 16 * 4);
    cr_assert_eq(o.in_place, 1);
    bp_program_destroy(p);
    text_finish(&g);
}

/* The contents of a converted constant. */
static const void *converted_right(struct bp_program *p)
{
    struct bp_operand_info o;

    OK(bp_program_compile(p));
    o = operand_of(p, 0, 1);
    cr_assert_str_eq(o.layout, "n8");
    cr_assert_eq(o.folded, 1);
    cr_assert_eq(o.bytes, 128 * 64 * 4);
    return o.type->data;
}

Test(format, programs_share_converted_constants)
{
    struct text_graph g = text_begin();
    struct bp_program *p, *q;

    text_record(&g, "matmul(x[64,128], w![128,62])");
    OK(bp_program_create(g.graph, g.f.device, &p));
    OK(bp_program_create(g.graph, g.f.device, &q));
    cr_assert_eq(converted_right(p), converted_right(q));
    bp_program_destroy(p);
    bp_program_destroy(q);
    text_finish(&g);
}

static char folder[] = "/tmp/bp-format-XXXXXX";

static struct bp_program *saved_program(struct text_graph *g)
{
    struct bp_program_options o = {.size = sizeof o, .cache = folder};
    struct bp_program *p;

    OK(bp_program_create_with(g->graph, g->f.device, &o, &p));
    OK(bp_program_compile(p));
    return p;
}

/* Asserts that two programs have the same launches, with the same layouts. */
static void expect_same_launches(struct bp_program *p, struct bp_program *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct bp_launch_info a = {.size = sizeof a}, b = {.size = sizeof b};
        OK(bp_program_launch(p, i, &a));
        OK(bp_program_launch(q, i, &b));
        cr_assert_str_eq(a.kernel, b.kernel);
        for (uint32_t k = 0; k < a.n_in + a.n_out; k++)
            if (operand_of(p, i, k).type)
                cr_assert_str_eq(operand_of(p, i, k).layout, operand_of(q, i, k).layout);
    }
}

Test(format, saved_programs_keep_layouts)
{
    struct text_graph g = text_begin();
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *first, *second;
    char command[64];

    cr_assert(mkdtemp(folder));
    text_record(&g, "a = " AGAIN("relu(" CONV(X) ")") "\nreturn a, matmul(y[64,128], u![128,64])");
    first = saved_program(&g);
    second = saved_program(&g);
    OK(bp_program_get_info(second, &info));
    cr_assert_eq(info.loaded, 1, "%s", info.cache);
    cr_assert_eq(info.launches, 6);
    expect_same_launches(first, second, info.launches);
    bp_program_destroy(first);
    bp_program_destroy(second);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
    text_finish(&g);
}

/* A conversion that accepts nothing: the compiler does without the layout. */
Test(format, a_conversion_that_declines)
{
    setenv("BP_BLOCKED", "unconverted", 1);
    expect_rows(AGAIN(CONV(X)), "- -", format_terms);
}
