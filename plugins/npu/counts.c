/* SPDX-License-Identifier: Apache-2.0 */
/* counts.c: builds the rows that count values in bins: ones, or weights, are added at the numbers
 * of their bins. */
#include "builds.h"
#include "compose.h"

#include <math.h>

/* Adds values to the bins that an index names. */
static struct kit_arg counts_add(struct kit_build *b, int64_t bins, struct kit_arg index,
                                 struct kit_arg values)
{
    const uint32_t dtype = part_dtype(b, values);
    struct kit_arg none = npu_filled(b, dtype, 1, &bins, 0);
    struct kit_arg sums = kit_temporary(b, dtype, 1, &bins);

    KIT_STEP(b, "IndexAdd", none, KIT_INT_IS(0), index, values, KIT_SCALAR_IS(1), sums);
    return sums;
}

enum bp_status npu_bincount_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[b->in_at[0]], *y = b->out[0];
    struct kit_arg index, values;

    if (!y->count && !x->count) return b->status;
    if (!x->count) return create_fill(b, NPU_OUT(0), 0);
    index = npu_guard(b, kit_reshaped(b, NPU_IN(0), 1, &x->count), y->count, false);
    if (npu_is_given(b, NPU_IN(1))) values = kit_reshaped(b, part_in(b, 1), 1, &x->count);
    else values = npu_filled(b, BP_I64, 1, &x->count, 1);
    npu_finish(b, counts_add(b, y->count, index, values), NPU_OUT(0));
    return part_pack(b);
}

/* The ends of the range: those of the attributes, or, if these are none, the least and the largest
 * number. Ends that are equal are moved apart. */
static void counts_range(struct kit_build *b, struct kit_arg x, double low, double high,
                         struct kit_arg out_end[2])
{
    const uint32_t dtype = part_dtype(b, x);
    const int64_t axis[1] = {0}, one[1] = {1};
    struct kit_arg end[2] = {KIT_NUMBER_IS(low), KIT_NUMBER_IS(high)}, own[2], is_number, given;

    is_number = part_test(b, "EqTensor", x, x);
    for (int i = 0; i < 2; i++) {
        struct kit_arg beyond = KIT_NUMBER_IS(i ? -INFINITY : INFINITY);
        own[i] = kit_temporary(b, dtype, 1, one);
        KIT_STEP(b, i ? "Amax" : "Amin", part_where_else(b, is_number, x, beyond),
                 kit_array(b, axis, 1), KIT_INT_IS(1), own[i]);
        end[i] = npu_filled(b, dtype, 1, one, end[i].f);
    }
    given = part_test(b, "LogicalOr", part_test(b, "GtTensor", end[1], end[0]),
                      part_test(b, "GtTensor", own[0], own[1]));
    for (int i = 0; i < 2; i++) end[i] = part_where(b, given, end[i], own[i]);
    given = part_test(b, "EqTensor", end[0], end[1]);
    for (int i = 0; i < 2; i++)
        out_end[i] = part_where(b, given, npu_plus(b, end[i], i ? 1 : -1), end[i]);
}

/* Values outside are counted behind the bins. */
enum bp_status npu_histogram_build(struct kit_build *b)
{
    const struct bp_histogram_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0];
    const uint32_t dtype = part_is_half(x->dtype) || x->dtype == BP_F32 ? BP_F32 : BP_F64;
    const int64_t bins = b->out[0]->count;
    struct kit_arg end[2], v, width, inside, at, last = KIT_SCALAR_IS(bins - 1);
    const struct kit_arg infinity = KIT_NUMBER_IS(INFINITY), behind = KIT_SCALAR_IS(bins);

    if (!x->count) return create_fill(b, NPU_OUT(0), 0);
    v = part_cast(b, kit_reshaped(b, NPU_IN(0), 1, &x->count), dtype);
    counts_range(b, v, a->low, a->high, end);
    width = part_sub(b, end[1], end[0]);
    inside = part_test(b, "LogicalAnd", part_test(b, "GeTensor", v, end[0]),
                       part_test(b, "LeTensor", v, end[1]));
    inside = part_test(b, "LogicalAnd", inside, part_compare(b, "LtTensor", width, infinity));
    at = npu_div(b, npu_times(b, part_sub(b, v, end[0]), (double)bins), width);
    at = part_where_else(b, inside, at, KIT_VALUE(KIT_NUMBER_IS(0)));
    at = part_two(b, "Minimum", part_cast(b, at, BP_I64), part_number(b, BP_I64, last));
    at = part_where_else(b, inside, at, behind);
    at = counts_add(b, bins + 1, at, npu_filled(b, BP_I64, 1, &x->count, 1));
    npu_finish(b, kit_alias(b, at, BP_I64, 1, &bins, NULL, 0), NPU_OUT(0));
    return b->status;
}
