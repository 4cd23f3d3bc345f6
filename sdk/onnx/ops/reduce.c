/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: runs reductions and other operators along axes (ArgMax, Softmax). */
#include "../chain.h"
#include "../ops.h"
#include "list.h"
#include <math.h>
#include <string.h>

/* before, op, after: operators that are run in this order, NULL: none. alone: the operator for a
 * node that reduces no axis. is_float: integers are computed in f64 and truncated. */
static const struct reduction {
    const char *name, *before, *op, *after, *alone;
    bool is_float;
} reduction[] = {
    {"ReduceL1", "abs", "sum", NULL, "abs", false},
    {"ReduceL2", NULL, "norm", NULL, "abs", true},
    {"ReduceLogSum", NULL, "sum", "log", "log", true},
    {"ReduceLogSumExp", NULL, "logsumexp", NULL, NULL, true},
    {"ReduceMax", NULL, "max", NULL, NULL, false},
    {"ReduceMean", NULL, "mean", NULL, NULL, true},
    {"ReduceMin", NULL, "min", NULL, NULL, false},
    {"ReduceProd", NULL, "prod", NULL, NULL, false},
    {"ReduceSum", NULL, "sum", NULL, NULL, false},
    {"ReduceSumSquare", "square", "sum", NULL, "square", false},
};

static const struct reduction *find_reduction(const char *name)
{
    const struct reduction *r = reduction;

    while (strcmp(r->name, name)) r++;
    return r;
}

/* The dtype of the computation of a reduction. */
static uint32_t inner_dtype(const struct reduction *r, uint32_t dtype)
{
    if (r->is_float && BP_MASK_INT >> dtype & 1) return BP_F64;
    return dtype == BP_BOOL ? BP_U8 : dtype;
}

/* Leaves out abs for unsigned dtypes, which it does not support. */
static const char *unsigned_too(const char *op, uint32_t dtype)
{
    return op && BP_MASK_UNSIGNED >> dtype & 1 && !strcmp(op, "abs") ? NULL : op;
}

/* Returns op of x, or x if op is NULL. */
static struct bp_tensor *reduce_by(struct onnx_chain *k, const char *op, const void *attrs,
                                   struct bp_tensor *x)
{
    return op ? onnx_chain_call(k, op, attrs, &x, 1) : x;
}

/* Makes a tensor of rank 0: the identity of max or min, i.e. the lowest or the highest value of the
 * dtype. */
static struct bp_tensor *reduce_limit(struct onnx_chain *k, uint32_t dtype, bool lowest)
{
    bool is_signed = !(BP_MASK_UNSIGNED >> dtype & 1);
    uint32_t bits = bp_dtype_bits(dtype);
    uint64_t top = UINT64_C(1) << (bits - 1), value = is_signed ? top : 0;
    struct bp_tensor *t = NULL;

    if (!lowest) value = is_signed ? top - 1 : top - 1 + top;
    if (BP_MASK_FLOAT >> dtype & 1)
        return onnx_chain_number(k, dtype, lowest ? (double)-INFINITY : (double)INFINITY);
    if (k->status == BP_OK) k->status = onnx_constant(k->call, dtype, 0, NULL, &value, &t);
    return onnx_chain_take(k, t);
}

/* The maximum or minimum along axes one of which has no element: the identity, in the shape of the
 * result. Returns NULL if all reduced axes have elements, or op is another operator. */
static struct bp_tensor *reduce_empty(struct onnx_chain *k, const char *op,
                                      const struct bp_sum_attrs *attrs, struct bp_tensor *x)
{
    bool is_max = !strcmp(op, "max"), is_empty = false, reduced[ONNX_RANK_MAX] = {false};
    struct bp_expand_attrs expand = bp_expand_defaults();
    struct bp_tensor_info info = onnx_info(x);
    int64_t shape[ONNX_RANK_MAX];

    if (info.count || (!is_max && strcmp(op, "min"))) return NULL;
    for (int64_t i = 0; i < attrs->axes.n && k->status == BP_OK; i++) {
        int64_t axis;
        k->status = onnx_axis(attrs->axes.at[i], info.rank, &axis);
        if (k->status == BP_OK) reduced[axis] = true;
    }
    for (uint32_t i = 0; i < info.rank; i++) {
        bool is_reduced = reduced[i] || !attrs->axes.n;
        is_empty |= is_reduced && !info.shape[i];
        if (!is_reduced || attrs->keep)
            shape[expand.shape.n++] = is_reduced ? 1 : info.shape[i];
    }
    if (!is_empty) return NULL;
    expand.shape.at = shape;
    return MAKE(k, expand, &expand, reduce_limit(k, info.dtype, is_max), NULL);
}

enum bp_status onnx_reduce(struct onnx_call *c)
{
    const struct reduction *r = find_reduction(c->node->row->name);
    struct bp_sum_attrs attrs = bp_sum_defaults(); /* all reductions have the same attributes */
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *empty = NULL;
    struct onnx_ints axes;
    uint32_t dtype, inner;

    TRY(onnx_need(c, 1));
    TRY(onnx_ints_of(c, "axes", strcmp(r->name, "ReduceSum") ? 18 : 13, 1, &axes));
    attrs.axes = onnx_dims(axes);
    attrs.keep = onnx_attr_int(c, "keepdims", 1) != 0;
    dtype = onnx_info(x).dtype;
    inner = inner_dtype(r, dtype);
    x = onnx_chain_cast(&k, x, inner);
    if (axes.n <= 0 && onnx_attr_int(c, "noop_with_empty_axes", 0))
        x = reduce_by(&k, unsigned_too(r->alone, inner), NULL, x);
    else if (x && (empty = reduce_empty(&k, r->op, &attrs, x))) x = empty;
    else {
        x = reduce_by(&k, unsigned_too(r->before, inner), NULL, x);
        x = reduce_by(&k, r->after, NULL, reduce_by(&k, r->op, &attrs, x));
    }
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, dtype));
    return onnx_chain_end(&k);
}

/* For the last index of an extreme instead of the first, x is reversed along the axis. */
enum bp_status onnx_arg_minmax(struct onnx_call *c)
{
    struct bp_argmax_attrs attrs = bp_argmax_defaults(); /* argmin has the same ones */
    struct bp_flip_attrs flip = bp_flip_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0), *index;
    int64_t axis = onnx_attr_int(c, "axis", 0);
    bool last = onnx_attr_int(c, "select_last_index", 0) != 0;
    struct bp_tensor_info info;

    TRY(onnx_need(c, 1));
    info = onnx_info(x);
    attrs.axis = axis;
    attrs.keep = onnx_attr_int(c, "keepdims", 1) != 0;
    flip.axes = (struct bp_dims){&axis, 1};
    if (last) x = MAKE(&k, flip, &flip, x);
    index = onnx_chain_call(&k, c->node->row->op, &attrs, &x, 1);
    if (last && k.status == BP_OK) { /* the call has checked axis */
        double n = (double)info.shape[axis < 0 ? axis + info.rank : axis];
        index = MAKE(&k, sub, NULL, onnx_chain_number(&k, BP_I64, n - 1), index);
    }
    onnx_chain_give(&k, 0, index);
    return onnx_chain_end(&k);
}

/* Before opset 13 x is treated as a matrix: the axes from `axis` on are its columns. */
enum bp_status onnx_softmax(struct onnx_call *c)
{
    struct bp_softmax_attrs attrs = bp_softmax_defaults(); /* log_softmax, hardmax have the same */
    bool is_matrix = c->node->opset < 13;
    int64_t axis = onnx_attr_int(c, "axis", is_matrix ? 1 : -1), shape[2];
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);
    struct bp_tensor_info info;

    TRY(onnx_need(c, 1));
    info = onnx_info(x);
    if (is_matrix) {
        TRY(onnx_as_matrix(x, axis, shape));
        x = onnx_chain_reshape(&k, x, 2, shape);
        axis = 1;
    }
    attrs.axis = axis;
    x = onnx_chain_call(&k, c->node->row->op, &attrs, &x, 1);
    if (is_matrix) x = onnx_chain_reshape(&k, x, info.rank, info.shape);
    onnx_chain_give(&k, 0, x);
    return onnx_chain_end(&k);
}
