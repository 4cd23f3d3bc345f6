/* SPDX-License-Identifier: Apache-2.0 */
/* det.c: builds the row of determinants, by elimination with exchange of rows: CANN's aclnnSlogdet
 * gives a logarithm, which has fewer digits. A round eliminates one column of all matrices. */
#include "builds.h"
#include "rounds.h"

/* All matrices, batch by n by n; `product` is that of the pivots, batch by 1 by 1. */
struct det {
    int64_t batch, n;
    struct kit_arg m, product, rows;
    struct kit_arg column; /* the number of the round's column */
};

/* The row from the round's column on with the largest magnitude there, the first of several. */
static struct kit_arg det_pivot_row(struct kit_build *b, const struct det *d)
{
    struct kit_arg size = part_one(b, "Abs", npu_select(b, d->m, 2, d->column));
    struct kit_arg open = part_test(b, "GeTensor", d->rows, d->column);

    return npu_argmax(b, part_where_else(b, open, size, KIT_VALUE(KIT_NUMBER_IS(-1))), 1);
}

/* Exchanges the pivot's row and that of the round. Returns the pivot's row. */
static struct kit_arg det_exchange(struct kit_build *b, struct det *d, struct kit_arg at)
{
    const int64_t line[3] = {d->batch, 1, d->n};
    struct kit_arg each = kit_temporary(b, BP_I64, 3, line), pivot, former, is_pivot, is_here;

    KIT_STEP(b, "Expand", at, kit_array(b, line, 3), each);
    pivot = npu_gather(b, d->m, 1, each);
    former = npu_select(b, d->m, 1, d->column);
    is_pivot = part_test(b, "EqTensor", d->rows, at);
    is_here = part_test(b, "EqTensor", d->rows, d->column);
    former = part_where(b, is_pivot, former, d->m);
    npu_state_set(b, d->m, part_where(b, is_here, pivot, former));
    return pivot;
}

/* Subtracts multiples of the pivot's row from the rows below, unless the pivot is 0: then the rest
 * of the column is 0 too. Columns on the left are not read again, whatever they become. */
static void det_eliminate(struct kit_build *b, const struct det *d, struct kit_arg row,
                          struct kit_arg pivot)
{
    struct kit_arg below = part_test(b, "GtTensor", d->rows, d->column);
    struct kit_arg used = part_compare(b, "NeTensor", pivot, KIT_VALUE(KIT_NUMBER_IS(0))), factor;

    used = part_test(b, "LogicalAnd", below, used);
    factor = part_two(b, "Div", npu_select(b, d->m, 2, d->column), pivot);
    factor = part_sub(b, d->m, part_two(b, "Mul", factor, row));
    npu_state_set(b, d->m, part_where(b, used, factor, d->m));
}

static void det_round(struct kit_build *b, struct det *d)
{
    struct kit_arg at = det_pivot_row(b, d), row = det_exchange(b, d, at);
    struct kit_arg pivot = npu_select(b, row, 2, d->column), same, factor;

    same = part_test(b, "EqTensor", at, d->column);
    factor = part_where(b, same, pivot, part_one(b, "Neg", pivot));
    npu_state_set(b, d->product, part_two(b, "Mul", d->product, factor));
    det_eliminate(b, d, row, pivot);
}

enum bp_status npu_det_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[0];
    const int64_t n = x->shape[x->rank - 1];
    const int64_t shape[3] = {b->out[0]->count, n, n}, each[3] = {b->out[0]->count, 1, 1};
    const uint32_t dtype = part_is_half(x->dtype) ? BP_F32 : x->dtype;
    struct det d = {.batch = shape[0], .n = n};
    struct npu_rounds rounds;

    if (!n) return create_fill(b, NPU_OUT(0), 1);
    d.m = npu_state(b, kit_reshaped(b, part_in(b, 0), 3, shape));
    d.product = npu_filled(b, dtype, 3, each, 1);
    d.rows = npu_places(b, n, 3, 1);
    rounds = npu_rounds_begin(b);
    d.column = rounds.at;
    det_round(b, &d);
    npu_rounds_end(b, &rounds, n);
    npu_finish(b, d.product, NPU_OUT(0));
    return part_pack(b);
}
