/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_parts.c: tests which missing kernels the conformance suite finds for a case without
 * a kernel row. The template has rows of add and softmax, for f32. */
#include <criterion/criterion.h>
#include <backplane/attrs.h>
#include <backplane/call.h>
#include <parts.h>
#include <case_fixture.h>
#include <stdio.h>
#include <stdlib.h>

static struct fixture fixture;

static void open_template(void)
{
    cr_assert_eq(fixture_init(&fixture, TEMPLATE, "", "", true), 0);
}

static void open_cpu(void)
{
    cr_assert_eq(fixture_init(&fixture, "cpu", "", "", true), 0);
}

static void conform_parts_finish(void)
{
    fixture_finish(&fixture);
}

/* Creates a case with default attributes and inputs of one dtype. */
static struct kernel_case *conform_parts_begin(const char *op, uint32_t dtype, const char *shapes)
{
    const struct bp_opinfo *info = bp_opinfo_find(op);
    struct case_builder builder = {.op = conform_op(op),
                               .dtype = {dtype, dtype, dtype, dtype},
                               .defaults = info->defaults,
                               .attrs_size = info->attrs_size};

    return case_begin(&builder, shapes);
}

/* needs: the kernel that the device lacks for the case; NULL: none. Frees the case. */
static void conform_parts_expect(struct kernel_case *made, const char *needs)
{
    char text[160] = "", expected[160] = "";
    bool lacks = parts_lack(&fixture, made, text, sizeof text);

    if (needs)
        snprintf(expected, sizeof expected, "it needs %s, for which the device has no row", needs);
    cr_expect_eq(lacks, needs != NULL, "%s", made->op->name);
    cr_expect_str_eq(text, expected);
    cr_expect_eq(parts_lack(&fixture, made, NULL, 0), lacks, "%s without a text", made->op->name);
    free(made);
}

Test(parts, rows_are_those_of_the_decomposition, .init = open_template,
     .fini = conform_parts_finish)
{
    struct kernel_case *made;

    conform_parts_expect(conform_parts_begin("masked_softmax", BP_F32, "3x4"),
                         NULL); /* consists of softmax only */
    conform_parts_expect(conform_parts_begin("masked_softmax", BP_F64, "3x4"), "softmax for f64");
    conform_parts_expect(conform_parts_begin("soft_relu", BP_F32, "5"), "clip for f32");
    made = conform_parts_begin("nll_loss", BP_F32,
                               "3x5+3"); /* label_loss, which decomposes further */
    made->in[1].dtype = BP_I64;
    conform_parts_expect(made, "clip for i64");
    made = conform_parts_begin("soft_relu", BP_F32, "5");
    made->row = "a_row";
    conform_parts_expect(made, NULL);
}

Test(parts, attributes_inputs_ranks_and_elements_count, .init = open_template,
     .fini = conform_parts_finish)
{
    struct kernel_case *made = conform_parts_begin("masked_softmax", BP_F32, "4x3");

    conform_parts_expect(conform_parts_begin("masked_softmax", BP_F32, "4x3"), NULL);
    made->attrs.masked_softmax.causal = 1;
    conform_parts_expect(made, "sum for f32");
    conform_parts_expect(conform_parts_begin("masked_softmax", BP_F32, "4x3+4x3"), "max for f32");
    conform_parts_expect(conform_parts_begin("diag", BP_F32, "5"), "diag_embed for f32");
    conform_parts_expect(conform_parts_begin("diag", BP_F32, "5x5"), NULL);
    conform_parts_expect(conform_parts_begin("hardmax", BP_F32, "5x7"), "argmax for f32");
    conform_parts_expect(conform_parts_begin("hardmax", BP_F32, "0x7"), NULL);
}

/* The core copies, for all dtypes. */
Test(parts, copies_need_no_row, .init = open_template, .fini = conform_parts_finish)
{
    struct kernel_case *made = conform_parts_begin("reshape", BP_F32, "2x3");

    conform_parts_expect(conform_parts_begin("reshape", BP_F32, "2x3"), NULL);
    made->given = true;
    conform_parts_expect(made, NULL);
    made = conform_parts_begin("reshape", BP_F64, "2x3");
    made->may_copy = true;
    conform_parts_expect(made, NULL);
    conform_parts_expect(conform_parts_begin("hardmax", BP_F64, "0x7"), NULL);
    conform_parts_expect(conform_parts_begin("hardmax", BP_F64, "5x7"), "argmax for f64");
}

/* Tests whether a causal softmax of a shape looks for rows without columns. */
static bool looks_for_rows(const char *shape, bool real)
{
    struct kernel_case *made = conform_parts_begin("masked_softmax", BP_F32, shape);
    bool looks;

    made->attrs.masked_softmax.causal = 1;
    made->real = real;
    looks = parts_have(&fixture, made, "max", UINT64_MAX);
    free(made);
    return looks;
}

/* Rows without columns exist only if there are more rows than columns. */
Test(parts, extents_count_where_they_are_real, .init = open_cpu, .fini = conform_parts_finish)
{
    cr_expect_not(looks_for_rows("3x4", true));
    cr_expect(looks_for_rows("4x3", true));
    cr_expect(looks_for_rows("5x3", false));
    cr_expect(looks_for_rows("3x4", false), "it is taken for the one before it");
}

Test(parts, those_with_rows_are_known, .init = open_cpu, .fini = conform_parts_finish)
{
    struct kernel_case *made = conform_parts_begin("linear", BP_F32, "3x4+5x4");

    cr_expect(parts_have(&fixture, made, "matmul", UINT64_C(1) << BP_F32));
    cr_expect_not(parts_have(&fixture, made, "matmul", ~(UINT64_C(1) << BP_F32)));
    cr_expect_not(parts_have(&fixture, made, "conv", UINT64_MAX));
    conform_parts_expect(made, NULL);
}
