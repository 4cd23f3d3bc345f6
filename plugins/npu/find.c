/* SPDX-License-Identifier: Apache-2.0 */
/* find.c: builds the calls of operators whose outputs have extents that depend on data. Elements
 * that are kept get their places by a running sum; all others go to one place behind them, which is
 * left out. The launch waits for the extents. */
#include "builds.h"
#include "parts.h"

#define FIND_INT(value) KIT_VALUE(KIT_SCALAR_IS(value))

/* The dtype by which elements are moved by functions that take neither bools, unsigned integers nor
 * complex numbers. */
static uint32_t find_bits(uint32_t dtype)
{
    return dtype == BP_BOOL ? BP_U8 : dtype == BP_C64 ? BP_I64 : create_bits(dtype);
}

/* A tensor as a line, and a part of a line. */
static struct kit_arg find_line(struct kit_build *b, struct kit_arg x, uint32_t dtype)
{
    const struct bp_view *v = kit_arg_view(b, &x);

    return v ? kit_alias(b, x, dtype, 1, &v->count, NULL, 0) : KIT_VALUE(KIT_NONE);
}

static struct kit_arg find_part(struct kit_build *b, struct kit_arg line, int64_t first, int64_t n)
{
    const uint32_t dtype = part_dtype(b, line);

    return kit_alias(b, line, dtype, 1, &n, NULL, first * (int64_t)part_item_size(dtype));
}

static void find_copy(struct kit_build *b, struct kit_arg to, struct kit_arg from)
{
    KIT_STEP(b, "InplaceCopy", kit_as(to, KIT_UPDATES), from);
}

/* How many of a line of i64 are 1: an extent of output `out`. */
static struct kit_arg find_count(struct kit_build *b, struct kit_arg ones, uint32_t out)
{
    const int64_t axis = 0;
    struct kit_arg extent = kit_extent(b, out);

    KIT_STEP(b, "ReduceSum", ones, kit_array(b, &axis, 1), KIT_INT_IS(1), KIT_DTYPE_IS(BP_I64),
             extent);
    return extent;
}

/* Places of the elements with a 1 among those elements, from 0 on. */
static struct kit_arg find_places(struct kit_build *b, struct kit_arg ones)
{
    struct kit_arg sum = part_like(b, ones);

    KIT_STEP(b, "Cumsum", ones, KIT_INT_IS(0), KIT_DTYPE_IS(BP_I64), sum);
    return part_plus(b, sum, FIND_INT(-1));
}

/* Writes the kept elements of a line to an output: `at` has their places, and n for the others. */
static void find_keep(struct kit_build *b, struct kit_arg from, struct kit_arg at, int64_t n,
                      struct kit_arg out)
{
    const int64_t more = n + 1;
    const uint32_t dtype = part_dtype(b, from);
    struct kit_arg none = kit_temporary(b, dtype, 1, &more), to = kit_temporary(b, dtype, 1, &more);

    KIT_STEP(b, "InplaceFillScalar", kit_as(none, KIT_WRITES), KIT_SCALAR_IS(0));
    KIT_STEP(b, "Scatter", none, KIT_INT_IS(0), at, from, KIT_INT_IS(0), to);
    find_copy(b, find_line(b, out, dtype), find_part(b, to, 0, n));
}

enum bp_status npu_nonzero_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[0];
    const uint32_t dtype = create_bits(x->dtype);
    struct kit_arg in = kit_alias(b, KIT_VALUE(KIT_IN(0)), dtype, x->rank, x->shape, x->stride, 0);
    struct kit_arg line = find_line(b, KIT_VALUE(KIT_IN(0)), dtype);

    line = part_compare(b, "NeTensor", line, FIND_INT(0));
    find_count(b, part_cast(b, line, BP_I64), 0);
    if (b->out[0]->count) KIT_STEP(b, "Nonzero", in, KIT_OUT(0));
    return part_pack(b);
}

enum bp_status npu_masked_select_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[0];
    struct kit_arg in = find_line(b, KIT_VALUE(KIT_IN(0)), find_bits(x->dtype));
    struct kit_arg mask = find_line(b, KIT_VALUE(KIT_IN(1)), BP_BOOL), ones, at;

    ones = part_cast(b, mask, BP_I64);
    find_count(b, ones, 0);
    at = part_where_else(b, mask, find_places(b, ones), FIND_INT(x->count));
    find_keep(b, in, at, x->count, KIT_VALUE(KIT_OUT(0)));
    return part_pack(b);
}

/* The gradient of no elements: a mask that names one is a fault. */
static enum bp_status find_none(struct kit_build *b, struct kit_arg mask)
{
    const int64_t axis = 0;
    struct kit_arg any = kit_temporary(b, BP_BOOL, 0, NULL);

    KIT_STEP(b, "Any", mask, kit_array(b, &axis, 1), KIT_INT_IS(0), any);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_word(b), any, KIT_SCALAR_IS(1));
    return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
}

enum bp_status npu_masked_select_grad_build(struct kit_build *b)
{
    const struct bp_view *dy = b->in[0], *dx = b->out[0];
    const uint32_t dtype = find_bits(dx->dtype);
    struct kit_arg mask = find_line(b, KIT_VALUE(KIT_IN(1)), BP_BOOL), at, from, to, zero;

    if (!dy->count) return find_none(b, mask);
    at = find_places(b, part_cast(b, mask, BP_I64));
    at = npu_guard(b, part_where_else(b, mask, at, FIND_INT(0)), dy->shape[0], false);
    from = kit_temporary(b, dtype, 1, &dx->count);
    to = find_line(b, KIT_VALUE(KIT_OUT(0)), dtype);
    zero = part_number(b, dtype, FIND_INT(0));
    KIT_STEP(b, "GatherV2", find_line(b, KIT_VALUE(KIT_IN(0)), dtype), KIT_INT_IS(0), at, from);
    KIT_STEP(b, "SWhere", mask, from, zero, to);
    return part_pack(b);
}

/* Which elements of a line differ from the one before: the first one does. All NaN are equal. */
static struct kit_arg find_differ(struct kit_build *b, struct kit_arg line)
{
    const struct bp_view *v = kit_arg_view(b, &line);
    const bool is_float = v && (BP_MASK_FLOAT >> v->dtype) & 1;
    const int64_t n = v ? v->count : 1;
    struct kit_arg differ = kit_temporary(b, BP_BOOL, 1, &n), x, y, different;

    KIT_STEP(b, "InplaceFillScalar", kit_as(differ, KIT_WRITES), KIT_SCALAR_IS(1));
    if (n == 1) return differ;
    x = find_part(b, line, 0, n - 1);
    y = find_part(b, line, 1, n - 1);
    different = part_test(b, "NeTensor", x, y);
    if (is_float)
        different = part_test(b, "LogicalAnd", different,
                              part_test(b, "LogicalOr", part_test(b, "EqTensor", x, x),
                                        part_test(b, "EqTensor", y, y)));
    find_copy(b, find_part(b, differ, 1, n - 1), different);
    return differ;
}

/* The elements that differ from the one before in a line, which `order` sorted (NULL: it is in the
 * order of the input), to the outputs values, index, inverse and counts. -1: there is no output. */
static enum bp_status find_runs(struct kit_build *b, struct kit_arg line,
                                const struct kit_arg *order, const int port[4])
{
    const int64_t n = b->in[0]->count;
    const uint32_t dtype = create_bits(b->in[0]->dtype);
    struct kit_arg differ, ones, place, at, out[4];

    for (int i = 0; i < 4; i++) {
        struct kit_arg to = KIT_OUT(0);

        to.at = (uint16_t)(port[i] < 0 ? 0 : port[i]);
        out[i] = port[i] < 0 || !kit_arg_view(b, &to) ? KIT_VALUE(KIT_NONE) : to;
    }
    differ = find_differ(b, line);
    ones = part_cast(b, differ, BP_I64);
    place = find_places(b, ones);
    at = part_where_else(b, differ, place, FIND_INT(n));
    for (int i = 0; i < 4; i++) {
        if (!kit_arg_view(b, &out[i])) continue;
        if (i != 2) find_count(b, ones, b->out_at[port[i]]);
        else
            KIT_STEP(b, "InplaceFillScalar", kit_as(kit_extent(b, b->out_at[port[i]]), KIT_WRITES),
                     KIT_SCALAR_IS(n));
    }
    find_keep(b, find_line(b, line, dtype), at, n, out[0]);
    if (order && kit_arg_view(b, &out[1])) find_keep(b, *order, at, n, out[1]);
    if (kit_arg_view(b, &out[2])) {
        if (order)
            KIT_STEP(b, "Scatter", place, KIT_INT_IS(0), *order, place, KIT_INT_IS(0), out[2]);
        else find_copy(b, out[2], place);
    }
    if (kit_arg_view(b, &out[3])) {
        struct kit_arg none = part_full(b, kit_arg_view(b, &place), FIND_INT(0));
        struct kit_arg one = part_full(b, kit_arg_view(b, &place), FIND_INT(1));

        KIT_STEP(b, "IndexAdd", none, KIT_INT_IS(0), place, one, KIT_SCALAR_IS(1),
                 find_line(b, out[3], BP_I64));
    }
    return part_pack(b);
}

enum bp_status npu_unique_build(struct kit_build *b)
{
    static const int port[4] = {0, 1, 2, 3};
    const int64_t n = b->in[0]->count;
    const uint32_t dtype = b->in[0]->dtype;
    struct kit_arg sorted = kit_temporary(b, dtype, 1, &n), order = kit_temporary(b, BP_I64, 1, &n);

    KIT_STEP(b, "Sort", find_line(b, KIT_VALUE(KIT_IN(0)), dtype), KIT_INT_IS(1), KIT_INT_IS(0),
             KIT_INT_IS(0), sorted, order);
    return find_runs(b, find_line(b, sorted, create_bits(dtype)), &order, port);
}

enum bp_status npu_unique_consecutive_build(struct kit_build *b)
{
    static const int port[4] = {0, -1, 1, 2};

    return find_runs(b, find_line(b, KIT_VALUE(KIT_IN(0)), create_bits(b->in[0]->dtype)), NULL,
                     port);
}
