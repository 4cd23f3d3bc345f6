/* SPDX-License-Identifier: Apache-2.0 */
/* order.c: builds the calls of operators that sort. Sort, which is stable on demand, serves where
 * equal values must keep their order; its indices are i64. */
#include "builds.h"
#include "parts.h"
#include <string.h>

struct order {
    uint32_t rank;
    int64_t axis, shape[KIT_AXES_MAX];
    struct kit_arg x;
};

/* A tensor without axes is sorted as one with one element. */
static struct order order_of(struct kit_build *b, int64_t axis)
{
    const struct bp_view *x = b->in[0];
    struct order o = {.rank = x->rank ? x->rank : 1, .shape = {1}};

    if (x->rank) memcpy(o.shape, x->shape, x->rank * sizeof *o.shape);
    o.axis = x->rank ? axis + (axis < 0 ? x->rank : 0) : 0;
    o.x = x->rank ? KIT_VALUE(KIT_IN(0)) : kit_reshaped(b, KIT_VALUE(KIT_IN(0)), 1, o.shape);
    return o;
}

static struct kit_arg order_to(struct kit_build *b, const struct order *o, uint32_t port,
                               uint32_t dtype)
{
    if (!b->out[b->out_at[port]]) return kit_temporary(b, dtype, o->rank, o->shape);
    return b->in[0]->rank ? KIT_VALUE(KIT_OUT(port))
                          : kit_reshaped(b, KIT_VALUE(KIT_OUT(port)), 1, o->shape);
}

enum bp_status npu_sort_build(struct kit_build *b)
{
    const struct bp_sort_attrs *attrs = b->attrs;
    const struct order o = order_of(b, attrs->axis);

    return KIT_STEP(b, "Sort", o.x, KIT_INT_IS(1), KIT_INT_IS(o.axis), KIT_INT(sort, descending),
                    order_to(b, &o, 0, b->in[0]->dtype), order_to(b, &o, 1, BP_I64));
}

enum bp_status npu_argsort_build(struct kit_build *b)
{
    const struct bp_argsort_attrs *attrs = b->attrs;
    const struct order o = order_of(b, attrs->axis);
    struct kit_arg values = kit_temporary(b, b->in[0]->dtype, o.rank, o.shape);

    return KIT_STEP(b, "Sort", o.x, KIT_INT_IS(1), KIT_INT_IS(o.axis), KIT_INT(argsort, descending),
                    values, order_to(b, &o, 0, BP_I64));
}

/* k places of a sorted temporary along the axis, from `first` on. */
static struct kit_arg order_places(struct kit_build *b, const struct order *o,
                                   struct kit_arg sorted, int64_t first, int64_t k)
{
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX], step = 1;
    const uint32_t dtype = part_dtype(b, sorted);

    for (uint32_t a = o->rank; a-- > 0; step *= o->shape[a]) stride[a] = step;
    memcpy(shape, o->shape, o->rank * sizeof *shape);
    shape[o->axis] = k;
    return kit_alias(b, sorted, dtype, o->rank, shape, stride,
                     first * stride[o->axis] * (int64_t)part_item_size(dtype));
}

/* Sorts, and copies k places to both outputs. */
static enum bp_status order_some(struct kit_build *b, int64_t axis, int64_t descending,
                                 int64_t first, int64_t k)
{
    const struct order o = order_of(b, axis);
    const uint32_t dtype[2] = {b->in[0]->dtype, BP_I64};
    struct kit_arg sorted[2];

    for (int i = 0; i < 2; i++) sorted[i] = kit_temporary(b, dtype[i], o.rank, o.shape);
    KIT_STEP(b, "Sort", o.x, KIT_INT_IS(1), KIT_INT_IS(o.axis), KIT_INT_IS(descending), sorted[0],
             sorted[1]);
    for (uint16_t i = 0; i < 2; i++) {
        int64_t shape[KIT_AXES_MAX];
        struct kit_arg to;

        memcpy(shape, o.shape, o.rank * sizeof *shape);
        shape[o.axis] = k;
        to = kit_reshaped(b, KIT_VALUE(KIT_OUT(i)), o.rank, shape);
        to.role = KIT_UPDATES;
        KIT_STEP(b, "InplaceCopy", to, order_places(b, &o, sorted[i], first, k));
    }
    return part_pack(b);
}

/* Topk does not promise which of equal values it takes. */
enum bp_status npu_topk_build(struct kit_build *b)
{
    const struct bp_topk_attrs *attrs = b->attrs;

    return order_some(b, attrs->axis, !attrs->smallest, 0, attrs->k);
}

enum bp_status npu_kthvalue_build(struct kit_build *b)
{
    const struct bp_kthvalue_attrs *attrs = b->attrs;

    return order_some(b, attrs->axis, 0, attrs->k - 1, 1);
}

/* How many elements of the lines of `sorted` are in front of those of x: all are compared. */
static enum bp_status order_count(struct kit_build *b, uint32_t sorted, uint32_t from, bool right)
{
    const struct bp_view *s = b->in[sorted], *x = b->in[from], *out = b->out[0];
    int64_t line[KIT_AXES_MAX + 1] = {1, s->count}, each[KIT_AXES_MAX + 1] = {0, 1}, last = 1;
    uint32_t rank = 2;
    struct kit_arg left, value, below, count;

    if (!out->count) return b->status;
    if (!s->count) return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    each[0] = x->count;
    if (s->rank > 1) { /* lines of both */
        rank = 3, last = 2;
        line[2] = s->shape[s->rank - 1], line[1] = 1, line[0] = s->count / line[2];
        each[2] = 1, each[1] = x->shape[x->rank - 1], each[0] = x->count / each[1];
    }
    left = kit_reshaped(b, KIT_VALUE(KIT_IN(sorted)), rank, line);
    value = kit_reshaped(b, KIT_VALUE(KIT_IN(from)), rank, each);
    below = part_test(b, right ? "LeTensor" : "LtTensor", left, value);
    if (BP_MASK_FLOAT >> x->dtype & 1) { /* NaN is above every number */
        struct kit_arg last_of_all = part_test(b, "NeTensor", value, value);

        if (!right)
            last_of_all = part_two(b, "LogicalAnd", last_of_all,
                                   part_test(b, "EqTensor", left, left));
        below = part_two(b, "LogicalOr", below, last_of_all);
    }
    below = part_cast(b, below, BP_I64);
    each[rank - 1] = 1;
    count = kit_temporary(b, BP_I64, rank, each);
    KIT_STEP(b, "ReduceSum", below, kit_array(b, &last, 1), KIT_INT_IS(1), KIT_DTYPE_IS(BP_I64),
             count);
    return part_end(b, kit_reshaped(b, count, out->rank, out->shape));
}

enum bp_status npu_searchsorted_build(struct kit_build *b)
{
    return order_count(b, 0, 1, ((const struct bp_searchsorted_attrs *)b->attrs)->right != 0);
}

enum bp_status npu_bucketize_build(struct kit_build *b)
{
    return order_count(b, 1, 0, ((const struct bp_bucketize_attrs *)b->attrs)->right != 0);
}
