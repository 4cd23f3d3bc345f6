/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: runs operators that select by indices, or that compute indices. */
#include "../chain.h"
#include "../ops.h"

static const int64_t all_elements[1] = {-1};

enum bp_status onnx_topk(struct onnx_call *c)
{
    struct bp_topk_attrs attrs = bp_topk_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *y = NULL, *index = NULL;
    struct onnx_ints k;

    attrs.k = onnx_attr_int(c, "k", 0);
    if (c->node->opset >= 10) {
        TRY(onnx_in_ints(c, 1, &k));
        if (k.n != 1) return onnx_error(BP_ERR_INVALID, "k is to be one number");
        attrs.k = k.at[0];
    }
    attrs.axis = onnx_attr_int(c, "axis", -1);
    attrs.smallest = onnx_attr_int(c, "largest", 1) == 0;
    TRY(bp_op_topk(c->scope, x, NULL, &attrs, &y, &index));
    TRY(onnx_give(c, 0, y));
    return onnx_give(c, 1, index);
}

/* How an update is combined with the old value. The first three numbers are those of
 * put_along_axis. */
enum join { REPLACE, ADD, MULTIPLY, MAXIMUM, MINIMUM, JOINS };

static enum bp_status read_join(const struct onnx_call *c, enum join *out)
{
    static const char *const word[JOINS] = {"none", "add", "mul", "max", "min"};

    for (int i = REPLACE; i < JOINS; i++) {
        *out = (enum join)i;
        if (onnx_attr_is(c, "reduction", word[i], "none")) return BP_OK;
    }
    return onnx_error(BP_ERR_UNSUPPORTED, "reduction is expected to be none, add, mul, max or min");
}

/* Puts the maximum or minimum of x and the updates. Each update is first combined with the old
 * value, then updates are sorted so that the best comes last: of several updates for one index,
 * put_along_axis keeps the last. */
static struct bp_tensor *put_best(struct onnx_chain *k, bool most, int64_t axis,
                                  struct bp_tensor *x, struct bp_tensor *index,
                                  struct bp_tensor *updates)
{
    struct bp_put_along_axis_attrs put = bp_put_along_axis_defaults();
    struct bp_take_along_axis_attrs take = bp_take_along_axis_defaults();
    struct bp_argsort_attrs sort = bp_argsort_defaults();
    struct bp_tensor *there, *order;

    put.axis = take.axis = sort.axis = axis;
    sort.descending = !most;
    there = MAKE(k, take_along_axis, &take, x, index);
    updates = onnx_chain_call(k, most ? "maximum" : "minimum", NULL,
                              (struct bp_tensor *[]){there, updates}, 2);
    order = MAKE(k, argsort, &sort, updates);
    index = MAKE(k, take_along_axis, &take, index, order);
    updates = MAKE(k, take_along_axis, &take, updates, order);
    return MAKE(k, put_along_axis, &put, x, index, updates);
}

static struct bp_tensor *index_put(struct onnx_chain *k, enum join join, int64_t axis,
                                   struct bp_tensor *x, struct bp_tensor *index,
                                   struct bp_tensor *updates)
{
    struct bp_put_along_axis_attrs attrs = bp_put_along_axis_defaults();

    if (join >= MAXIMUM) return put_best(k, join == MAXIMUM, axis, x, index, updates);
    attrs.axis = axis;
    attrs.reduce = join;
    return MAKE(k, put_along_axis, &attrs, x, index, updates);
}

/* Booleans are computed as bytes. */
enum bp_status onnx_scatter_elements(struct onnx_call *c)
{
    struct bp_tensor *x = onnx_in(c, 0), *updates = onnx_in(c, 2), *y;
    struct onnx_chain k = onnx_chain_begin(c);
    enum join join;
    uint32_t dtype;

    TRY(onnx_need(c, 3));
    TRY(read_join(c, &join));
    dtype = onnx_info(x).dtype;
    if (dtype == BP_BOOL) {
        x = onnx_chain_cast(&k, x, BP_U8);
        updates = onnx_chain_cast(&k, updates, BP_U8);
    }
    y = index_put(&k, join, onnx_attr_int(c, "axis", 0), x, onnx_in(c, 1), updates);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, y, dtype));
    return onnx_chain_end(&k);
}

/* Converts a row of indices along the first n extents to one linear index of `places`. A row with
 * an index out of range becomes a linear index out of range. */
static struct bp_tensor *index_linear(struct onnx_chain *k, struct bp_tensor *index, int64_t n,
                                      const int64_t *extent, int64_t places)
{
    int64_t stride[ONNX_RANK_MAX], at = 1;
    struct bp_sum_attrs last = bp_sum_defaults();
    struct bp_tensor *bound = NULL, *step = NULL, *zero, *is_inside;
    const int64_t axis = -1;

    for (int64_t i = n - 1; i >= 0; i--) {
        stride[i] = at;
        at *= extent[i];
    }
    last.axes = (struct bp_dims){&axis, 1};
    if (k->status == BP_OK) k->status = onnx_constant_ints(k->call, 1, &n, extent, &bound);
    bound = onnx_chain_take(k, bound);
    if (k->status == BP_OK) k->status = onnx_constant_ints(k->call, 1, &n, stride, &step);
    step = onnx_chain_take(k, step);
    zero = onnx_chain_number(k, BP_I64, 0);
    index = onnx_chain_cast(k, index, BP_I64);
    index = MAKE(k, where, NULL, MAKE(k, less_than, NULL, index, zero),
                 MAKE(k, add, NULL, index, bound), index);
    is_inside = MAKE(k, logical_and, NULL, MAKE(k, greater_equal, NULL, index, zero),
                     MAKE(k, less_than, NULL, index, bound));
    index = MAKE(k, where, NULL, is_inside, MAKE(k, mul, NULL, index, step),
                 onnx_chain_number(k, BP_I64, (double)places));
    return MAKE(k, sum, &last, index);
}

/* Returns x with slices combined one by one; x is viewed as a matrix whose rows are the slices. */
static struct bp_tensor *put_slices(struct onnx_chain *k, enum join join, struct bp_tensor *x,
                                    struct bp_tensor *index, struct bp_tensor *updates)
{
    struct bp_expand_attrs wide = bp_expand_defaults();
    struct bp_tensor_info info = onnx_info(x), rows = onnx_info(index);
    int64_t n = rows.rank ? rows.shape[rows.rank - 1] : 0, matrix[2] = {1, 1}, picked[2];

    if (n < 1 || n > (int64_t)info.rank || n > ONNX_RANK_MAX) {
        k->status = onnx_error(BP_ERR_INVALID, "rows of %lld indices, x has %u axes",
                               (long long)n, info.rank);
        return NULL;
    }
    for (uint32_t i = 0; i < info.rank; i++) matrix[i >= n] *= info.shape[i];
    picked[0] = rows.count / n;
    picked[1] = matrix[1];
    wide.shape = (struct bp_dims){picked, 2};
    index = index_linear(k, index, n, info.shape, matrix[0]);
    index = onnx_chain_reshape(k, index, 2, (const int64_t[]){picked[0], 1});
    index = MAKE(k, expand, &wide, index);
    x = onnx_chain_reshape(k, x, 2, matrix);
    updates = onnx_chain_reshape(k, updates, 2, picked);
    x = index_put(k, join, 0, x, index, updates);
    return onnx_chain_reshape(k, x, info.rank, info.shape);
}

enum bp_status onnx_scatter_nd(struct onnx_call *c)
{
    struct bp_tensor *x = onnx_in(c, 0), *index = onnx_in(c, 1), *updates = onnx_in(c, 2), *y;
    struct onnx_chain k = onnx_chain_begin(c);
    enum join join;

    TRY(onnx_need(c, 3));
    TRY(read_join(c, &join));
    if (join >= MULTIPLY) y = put_slices(&k, join, x, index, updates);
    else if (join == ADD) y = MAKE(&k, scatter_nd_add, NULL, x, index, updates);
    else y = MAKE(&k, scatter_nd_update, NULL, x, index, updates);
    onnx_chain_give(&k, 0, y);
    return onnx_chain_end(&k);
}

/* Element i of a list of numbers, as a tensor of rank 0. */
static struct bp_tensor *index_element(struct onnx_chain *k, struct bp_tensor *list, int64_t i)
{
    struct bp_slice_attrs attrs = bp_slice_defaults();
    const int64_t end = i + 1;

    attrs.starts = (struct bp_dims){&i, 1};
    attrs.ends = (struct bp_dims){&end, 1};
    return onnx_chain_reshape(k, MAKE(k, slice, &attrs, list), 0, NULL);
}

/* `values` has the number for all other positions, then the number for the indexed positions. */
enum bp_status onnx_one_hot(struct onnx_call *c)
{
    struct bp_one_hot_attrs attrs = bp_one_hot_defaults();
    struct bp_tensor *index = onnx_in(c, 0), *values = onnx_in(c, 2), *hot;
    struct onnx_chain k = onnx_chain_begin(c);

    if (!index || !values || onnx_info(values).rank != 1 || onnx_info(values).count != 2)
        return onnx_error(BP_ERR_INVALID, "indices, a depth and two values are expected");
    TRY(onnx_in_whole(c, 1, &attrs.depth));
    attrs.axis = onnx_attr_int(c, "axis", -1);
    attrs.dtype = BP_BOOL;
    attrs.allow_out_of_range = 1;
    hot = MAKE(&k, one_hot, &attrs, onnx_chain_cast(&k, index, BP_I64));
    onnx_chain_give(
        &k, 0,
        MAKE(&k, where, NULL, hot, index_element(&k, values, 1), index_element(&k, values, 0)));
    return onnx_chain_end(&k);
}

/* The condition may have fewer elements than x along the axis. */
enum bp_status onnx_compress(struct onnx_call *c)
{
    struct bp_index_select_attrs attrs = bp_index_select_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *condition = onnx_in(c, 1), *index;
    struct onnx_chain k = onnx_chain_begin(c);

    TRY(onnx_need(c, 2));
    index = onnx_chain_reshape(&k, MAKE(&k, nonzero, NULL, condition), 1, all_elements);
    attrs.axis = onnx_attr_int(c, "axis", 0);
    if (!onnx_attr(c->node, "axis")) x = onnx_chain_reshape(&k, x, 1, all_elements);
    onnx_chain_give(&k, 0, MAKE(&k, index_select, &attrs, x, index));
    return onnx_chain_end(&k);
}

enum bp_status onnx_nonzero(struct onnx_call *c)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *index = MAKE(&k, nonzero, NULL, onnx_in(c, 0));

    onnx_chain_give(&k, 0, MAKE(&k, transpose, NULL, index));
    return onnx_chain_end(&k);
}
