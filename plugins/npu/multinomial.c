/* SPDX-License-Identifier: Apache-2.0 */
/* multinomial.c: builds the row that draws categories by weights. Other devices add the weights one
 * after the other, each sum rounded, and compare with the sums: so does this row, in one round for
 * each weight, because aclnnCumsum promises no order. aclnnMultinomial draws other numbers. */
#include "builds.h"
#include "rounds.h"

#include <math.h>

enum {
    MULTINOMIAL_ROUNDS = 8192, /* of more the fallback device is faster */
    MULTINOMIAL_MOST = 1 << 24 /* comparisons */
};

/* Rows of m weights; with replacement all draws of a row are made at once. */
struct multinomial {
    int64_t rows, m, draws, at_once;
    struct kit_arg weights, sums; /* states, rows by m */
    struct kit_arg parts;         /* random numbers below 1, rows by draws */
    struct kit_arg columns;       /* the numbers of the weights */
};

/* Lets the launch report BP_ERR_FAULT if any element is true. */
static void multinomial_fault(struct kit_build *b, struct kit_arg bad)
{
    const int64_t axes[2] = {0, 1};
    struct kit_arg any = kit_temporary(b, BP_BOOL, 0, NULL);

    KIT_STEP(b, "Any", bad, kit_array(b, axes, 2), KIT_INT_IS(0), any);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_word(b), any, KIT_SCALAR_IS(1));
}

/* The weights, with 0 in place of bad ones. Each row needs `least` weights above 0. */
static void multinomial_begin(struct kit_build *b, struct multinomial *s, int64_t least)
{
    const int64_t shape[2] = {s->rows, s->m}, parts[2] = {s->rows, s->draws};
    const struct kit_arg zero = KIT_NUMBER_IS(0), end = KIT_NUMBER_IS(INFINITY);
    struct kit_arg x = kit_reshaped(b, part_in(b, 0), 2, shape), good, above;

    good = part_test(b, "LogicalAnd", part_compare(b, "GeTensor", x, zero),
                     part_compare(b, "LtTensor", x, end));
    multinomial_fault(b, part_one(b, "LogicalNot", good));
    s->weights = npu_state(b, part_where_else(b, good, x, zero));
    above = part_cast(b, part_compare(b, "GtTensor", s->weights, zero), BP_I64);
    above = part_compare(b, "LtTensor", npu_sum(b, above, 2), KIT_VALUE(KIT_SCALAR_IS(least)));
    multinomial_fault(b, above);
    s->sums = npu_state(b, s->weights);
    s->columns = npu_places(b, s->m, 2, 1);
    x = npu_random_numbers(b, s->rows * s->draws, part_dtype(b, x));
    s->parts = npu_times(b, kit_reshaped(b, x, 2, parts), 0x1p-24);
}

/* The sum of the weights up to each one. */
static void multinomial_add(struct kit_build *b, const struct multinomial *s)
{
    const int64_t shape[2] = {s->rows, 1};
    struct kit_arg sum = kit_temporary(b, part_dtype(b, s->weights), 2, shape), more;
    struct npu_rounds rounds;

    KIT_STEP(b, "InplaceFillScalar", kit_as(sum, KIT_UPDATES), KIT_SCALAR_IS(0));
    rounds = npu_rounds_begin(b);
    more = part_add(b, sum, npu_select(b, s->weights, 1, rounds.at));
    npu_state_set(b, s->sums,
                  part_where(b, part_test(b, "EqTensor", s->columns, rounds.at), more, s->sums));
    npu_state_set(b, sum, more);
    npu_rounds_end(b, &rounds, s->m);
}

/* The last weight above 0 of each row, rows by 1; 0: there is none. */
static struct kit_arg multinomial_last(struct kit_build *b, const struct multinomial *s)
{
    const int64_t axis[1] = {1}, shape[2] = {s->rows, 1};
    struct kit_arg above = part_compare(b, "GtTensor", s->weights, KIT_VALUE(KIT_NUMBER_IS(0)));
    struct kit_arg last = kit_temporary(b, BP_I64, 2, shape);

    above = part_where_else(b, above, s->columns, KIT_VALUE(KIT_SCALAR_IS(0)));
    KIT_STEP(b, "Amax", above, kit_array(b, axis, 1), KIT_INT_IS(1), last);
    return last;
}

/* The first sums above parts of the last sum, rows by at_once; else the last weight above 0. A part
 * that is NaN, because the sum is infinite, has none. */
static struct kit_arg multinomial_find(struct kit_build *b, const struct multinomial *s,
                                       struct kit_arg part)
{
    const int64_t sums[3] = {s->rows, 1, s->m}, limits[3] = {s->rows, s->at_once, 1};
    const int64_t found[2] = {s->rows, s->at_once};
    struct kit_arg limit = part_two(b, "Mul", part, npu_part(b, s->sums, 1, s->m - 1, 1, 1)), below;

    below = part_test(b, "GtTensor", kit_reshaped(b, s->sums, 3, sums),
                      kit_reshaped(b, limit, 3, limits));
    below = npu_sum(b, part_cast(b, part_one(b, "LogicalNot", below), BP_I64), 4);
    below = kit_reshaped(b, below, 2, found);
    return part_where(b, part_compare(b, "LtTensor", below, KIT_VALUE(KIT_SCALAR_IS(s->m))), below,
                      multinomial_last(b, s));
}

/* One draw after the other: a weight that is drawn becomes 0. */
static struct kit_arg multinomial_each(struct kit_build *b, const struct multinomial *s)
{
    const int64_t shape[2] = {s->rows, s->draws};
    struct kit_arg all = npu_filled(b, BP_I64, 2, shape, 0), last = npu_places(b, s->draws, 2, 1);
    struct kit_arg found, gone;
    struct npu_rounds rounds = npu_rounds_begin(b);

    multinomial_add(b, s);
    found = multinomial_find(b, s, npu_select(b, s->parts, 1, rounds.at));
    npu_state_set(b, all, part_where(b, part_test(b, "EqTensor", last, rounds.at), found, all));
    gone = part_test(b, "EqTensor", s->columns, found);
    npu_state_set(b, s->weights,
                  part_where_number(b, gone, KIT_VALUE(KIT_NUMBER_IS(0)), s->weights));
    npu_rounds_end(b, &rounds, s->draws);
    return all;
}

enum bp_status npu_multinomial_build(struct kit_build *b)
{
    const struct bp_multinomial_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0], *out = b->out[0];
    struct multinomial s = {.m = x->shape[x->rank - 1], .draws = a->n};
    struct kit_arg found;

    if (!out->count) return b->status;
    s.rows = out->count / s.draws;
    s.at_once = a->replacement ? s.draws : 1;
    if (s.m < 1 || s.m * (s.draws / s.at_once) > MULTINOMIAL_ROUNDS ||
        s.rows * s.at_once > MULTINOMIAL_MOST / s.m)
        return kit_refuse(b);
    multinomial_begin(b, &s, a->replacement ? 1 : s.draws);
    if (a->replacement) {
        multinomial_add(b, &s);
        found = multinomial_find(b, &s, s.parts);
    } else {
        found = multinomial_each(b, &s);
    }
    npu_finish(b, found, NPU_OUT(0));
    return b->status;
}
