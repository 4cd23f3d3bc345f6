/* SPDX-License-Identifier: Apache-2.0 */
/* test_ops.c: tests the operator table and the tables that are derived from it. */
#include "fixture.h"
#include <stdio.h>

Test(ops, are_found_by_name_and_alias)
{
    uint32_t n = bp_opinfo_count();

    cr_assert_geq(n, 10);
    cr_assert_null(bp_opinfo_at(n));
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        cr_assert_eq(bp_opinfo_find(op->name), op, "%s", op->name);
        for (const char *alias = op->alias; alias && *alias;) {
            char name[64];
            size_t length = strcspn(alias, " ");
            snprintf(name, sizeof name, "%.*s", (int)length, alias);
            cr_assert_eq(bp_opinfo_find(name), op, "%s is %s", name, op->name);
            alias += length + strspn(alias + length, " ");
        }
    }
    cr_assert_eq(bp_opinfo_find("conv2d"), bp_opinfo_find("conv"));
    cr_assert_null(bp_opinfo_find("ad"));
    cr_assert_null(bp_opinfo_find("add "));
    cr_assert_null(bp_opinfo_find(""));
    cr_assert_null(bp_opinfo_find(NULL));
}

/* The attributes follow `size` without gaps, so that a call's signature has no padding in it. */
Test(ops, attributes_fill_their_struct)
{
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        size_t at = sizeof(size_t);
        cr_assert_leq(op->attrs_size, 512, "%s: bp_attrs_copy has room for 512 bytes", op->name);
        if (!op->n_attr) continue;
        for (uint32_t a = 0; a < op->n_attr; a++) {
            cr_assert_eq(op->attr[a].offset, at, "%s.%s", op->name, op->attr[a].name);
            at += op->attr[a].kind == BP_ATTR_DIMS ? sizeof(struct bp_dims)
                                                   : 8u * op->attr[a].count;
        }
        cr_assert_eq(op->attrs_size, at, "%s", op->name);
        cr_assert_eq(*(const size_t *)op->defaults, at, "%s", op->name);
    }
    cr_assert_eq(bp_opinfo_find("conv")->attr[2].offset, offsetof(struct bp_conv_attrs, pad));
    cr_assert_eq(bp_opinfo_find("sum")->attr[1].offset, offsetof(struct bp_sum_attrs, keep));
}

Test(ops, defaults_are_those_of_the_rows)
{
    struct bp_conv_attrs conv = bp_conv_defaults();

    cr_assert_eq(conv.size, sizeof conv);
    cr_assert_eq(conv.groups, 1);
    for (int i = 0; i < 3; i++) cr_assert(conv.stride[i] == 1 && conv.dilation[i] == 1);
    for (int i = 0; i < 6; i++) cr_assert_eq(conv.pad[i], 0);
    cr_assert_eq(bp_softmax_defaults().axis, -1);
    cr_assert_eq(bp_cast_defaults().to, BP_F32);
}

Test(ops, ports_have_variables_that_the_row_binds)
{
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        cr_assert(op->doc && *op->doc, "%s", op->name);
        cr_assert_geq(op->n_out, 1, "%s", op->name);
        for (uint32_t p = 0; p < op->n_in; p++)
            cr_assert(op->types[op->in[p].var], "%s.%s", op->name, op->in[p].name);
        for (uint32_t p = 0, varies = 0; p < op->n_out; p++) {
            varies += op->out[p].kind == BP_PORT_VAROUT || op->out[p].kind == BP_PORT_VIEWS;
            cr_assert(varies < 2, "%s", op->name);
            cr_assert(!varies || op->n_out == 1 || !(op->flags & BP_OP_EXPAND), "%s", op->name);
            cr_assert(op->types[op->out[p].var], "%s.%s", op->name, op->out[p].name);
            cr_assert_lt(op->out[p].share, op->n_in, "%s.%s", op->name, op->out[p].name);
        }
    }
}

Test(names, of_dtypes_and_statuses)
{
    enum bp_dtype dtype = BP_I8;

#define X(NAME, name, number, bits, class) BP_##NAME,
    static const uint32_t all[] = {BP_DTYPES(X)};
#undef X
    static const uint32_t reserved[] = {17, 18, 19, 23, 63, 64, 200};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        OK(bp_dtype_find(bp_dtype_name(all[i]), &dtype));
        cr_assert_eq(dtype, all[i]);
        cr_assert_gt(bp_dtype_bits(all[i]), 0);
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        cr_assert_eq(bp_dtype_bits(reserved[i]), 0, "%u", reserved[i]);
        cr_assert_str_eq(bp_dtype_name(reserved[i]), "?", "%u", reserved[i]);
    }
    cr_assert_eq(bp_dtype_bits(BP_BF16), 16);
    FAILS(BP_ERR_INVALID, "'float'", bp_dtype_find("float", &dtype));
    FAILS(BP_ERR_INVALID, "NULL", bp_dtype_find(NULL, &dtype));
    cr_assert_str_eq(bp_status_name(BP_ERR_TIMEOUT), "BP_ERR_TIMEOUT");
    cr_assert_str_eq(bp_status_name((enum bp_status)77), "BP_ERR_?");
}
