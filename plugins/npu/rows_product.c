/* SPDX-License-Identifier: Apache-2.0 */
/* rows_product.c: builds the rows of products of matrices and vectors. The vendor's functions take
 * matrices of any strides and broadcast up to four axes in front of them. */
#include "builds.h"
#include "compose.h"

#include <string.h>

enum {
    PRODUCT_AXES = 6
};

/* An operand as matrices: a vector becomes a row on the left and a column on the right. */
static struct kit_arg product_side(struct kit_build *b, struct kit_arg x, bool transposed,
                                   bool is_left)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[2] = {1, 1};

    if (type->rank != 1) return transposed ? npu_swapped(b, x) : x;
    shape[is_left] = type->shape[0];
    return kit_reshaped(b, x, 2, shape);
}

/* The result with the axes of extent 1 that vectors leave out. */
static struct kit_arg product_result(struct kit_build *b, struct kit_arg out, bool row, bool column)
{
    const struct bp_view *type = npu_type(b, out);
    int64_t shape[KIT_AXES_MAX + 2];
    uint32_t rank = type->rank, n = 0;

    if (b->status || (!row && !column)) return out;
    for (uint32_t i = 0; i + !column < rank; i++) shape[n++] = type->shape[i];
    if (row) shape[n++] = 1;
    if (!column) shape[n++] = type->shape[rank - 1];
    else shape[n++] = 1;
    return kit_reshaped(b, out, n, shape);
}

struct kit_arg npu_product_batches(struct kit_build *b, struct kit_arg x,
                                   const struct bp_view *result)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[KIT_AXES_MAX], flat[3] = {1, 0, 0};
    uint32_t rank = result->rank, own = type->rank;
    struct kit_arg all;

    if (b->status) return x;
    for (uint32_t i = 0; i + 2 < rank; i++) flat[0] *= shape[i] = result->shape[i];
    for (uint32_t i = 1; i <= 2; i++) flat[3 - i] = shape[rank - i] = type->shape[own - i];
    all = kit_temporary(b, type->dtype, rank, shape);
    KIT_STEP(b, "Expand", x, kit_array(b, shape, rank), all);
    return kit_reshaped(b, all, 3, flat);
}

/* Adds the product of two lists of matrices. */
static void product_step(struct kit_build *b, struct kit_arg left, struct kit_arg right,
                         struct kit_arg out)
{
    const struct bp_view *result = npu_type(b, out);
    int64_t flat[3] = {1, 0, 0};
    struct kit_arg left_flat, right_flat;

    if (b->status || !result->count) return;
    if (!npu_type(b, left)->count) {
        npu_fill(b, out, 0);
        return;
    }
    if (result->rank <= PRODUCT_AXES) {
        KIT_STEP(b, "Matmul", left, right, out, NPU_CUBE);
        return;
    }
    for (uint32_t i = 0; i + 2 < result->rank; i++) flat[0] *= result->shape[i];
    for (uint32_t i = 1; i <= 2; i++) flat[3 - i] = result->shape[result->rank - i];
    left_flat = npu_product_batches(b, left, result);
    right_flat = npu_product_batches(b, right, result);
    KIT_STEP(b, "BatchMatMul", left_flat, right_flat, kit_reshaped(b, out, 3, flat), NPU_CUBE);
}

void npu_product(struct kit_build *b, struct kit_arg x, struct kit_arg y, bool transpose_x,
                 bool transpose_y, struct kit_arg out)
{
    bool row = npu_type(b, x)->rank == 1, column = npu_type(b, y)->rank == 1;
    struct kit_arg left, right, result;

    if (b->status || npu_is_empty(b, out)) return;
    left = product_side(b, x, transpose_x, true);
    right = product_side(b, y, transpose_y, false);
    result = product_result(b, out, row, column);
    product_step(b, left, right, result);
}

enum bp_status npu_build_matmul(struct kit_build *b)
{
    const struct bp_matmul_attrs *a = b->attrs;

    npu_product(b, NPU_IN(0), NPU_IN(1), a->transpose_a, a->transpose_b, NPU_OUT(0));
    return b->status;
}

static bool product_is_dense(const struct bp_view *view)
{
    int64_t step = 1;

    for (uint32_t i = view->rank; i-- > 0; step *= view->shape[i])
        if (view->shape[i] > 1 && view->stride[i] != step) return false;
    return true;
}

/* Matrices with all axes but the last as one. */
static struct kit_arg product_lines(struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[2] = {1, 1};

    if (b->status || type->rank == 2) return x;
    shape[1] = type->shape[type->rank - 1];
    for (uint32_t i = 0; i + 1 < type->rank; i++) shape[0] *= type->shape[i];
    return kit_reshaped(b, x, 2, shape);
}

/* The vendor adds a bias to the product of two matrices. Lists of matrices that are multiplied by
 * one matrix are such a product, too. Returns false if this product is none. */
static bool product_with_bias(struct kit_build *b, const struct bp_fused_matmul_attrs *a,
                              struct kit_arg out)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_IN(1));

    if (b->status || x->rank < 2 || y->rank != 2 || !x->count) return false;
    if (x->rank > 2 &&
        (a->transpose_a || !product_is_dense(x) || !product_is_dense(npu_type(b, out))))
        return false;
    KIT_STEP(b, "Addmm", NPU_IN(2),
             product_side(b, product_lines(b, NPU_IN(0)), a->transpose_a, true),
             product_side(b, NPU_IN(1), a->transpose_b, false), KIT_SCALAR_IS(1), KIT_SCALAR_IS(1),
             product_lines(b, out), NPU_CUBE);
    return true;
}

/* y = activation(a b + bias + residual). */
enum bp_status npu_build_fused_matmul(struct kit_build *b)
{
    const struct bp_fused_matmul_attrs *a = b->attrs;
    struct kit_arg residual = NPU_IN(3), out = NPU_OUT(0), t, sum;
    bool has_bias = npu_is_given(b, NPU_IN(2)), adds = npu_is_given(b, residual);
    bool last = !adds && !a->activation;
    uint32_t dtype = npu_type(b, out)->dtype;

    if (npu_is_empty(b, out)) return b->status;
    t = last ? out : npu_like(b, out, dtype);
    if (!has_bias) npu_product(b, NPU_IN(0), NPU_IN(1), a->transpose_a, a->transpose_b, t);
    else if (!product_with_bias(b, a, t)) {
        sum = npu_like(b, out, dtype);
        npu_product(b, NPU_IN(0), NPU_IN(1), a->transpose_a, a->transpose_b, sum);
        KIT_STEP(b, "Add", sum, NPU_IN(2), KIT_SCALAR_IS(1), t);
    }
    if (adds) {
        sum = a->activation ? npu_like(b, out, dtype) : out;
        KIT_STEP(b, "Add", t, residual, KIT_SCALAR_IS(1), sum);
        t = sum;
    }
    if (a->activation) npu_activate(b, a->activation, a->alpha, a->beta, t, out);
    return b->status;
}

/* Writes the bias to each row of the result. */
static void product_bias(struct kit_build *b, struct kit_arg bias, struct kit_arg out)
{
    const struct bp_view *type = npu_type(b, out);

    KIT_STEP(b, "Expand", bias, kit_array(b, type->shape, type->rank), out);
}

/* y = x weight^T + bias, with all axes of x but the last as one. */
enum bp_status npu_build_linear(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *w = npu_type(b, NPU_IN(1));
    int64_t from[2] = {1, 0}, to[2];
    struct kit_arg left, right, out;
    bool has_bias = npu_is_given(b, NPU_IN(2));

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    for (uint32_t i = 0; i + 1 < x->rank; i++) from[0] *= x->shape[i];
    from[1] = w->shape[1];
    to[0] = from[0], to[1] = w->shape[0];
    left = kit_reshaped(b, NPU_IN(0), 2, from);
    right = npu_swapped(b, NPU_IN(1));
    out = kit_reshaped(b, NPU_OUT(0), 2, to);
    if (!from[1] && has_bias) product_bias(b, NPU_IN(2), out);
    else if (has_bias)
        KIT_STEP(b, "Addmm", NPU_IN(2), left, right, KIT_SCALAR_IS(1), KIT_SCALAR_IS(1), out,
                 NPU_CUBE);
    else product_step(b, left, right, out);
    return b->status;
}

/* y = beta input + alpha a b. Without products the vendor's function need not work. */
enum bp_status npu_build_addmm(struct kit_build *b)
{
    const struct bp_addmm_attrs *a = b->attrs;

    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (npu_is_empty(b, NPU_IN(1))) {
        product_bias(b, npu_times(b, NPU_IN(0), a->beta), NPU_OUT(0));
        return b->status;
    }
    return KIT_STEP(b, "Addmm", NPU_IN(0), NPU_IN(1), NPU_IN(2), KIT_NUMBER_IS(a->beta),
                    KIT_NUMBER_IS(a->alpha), NPU_OUT(0), NPU_CUBE);
}

enum bp_status npu_build_mv(struct kit_build *b)
{
    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (npu_is_empty(b, NPU_IN(0))) {
        npu_fill(b, NPU_OUT(0), 0);
        return b->status;
    }
    return KIT_STEP(b, "Mv", NPU_IN(0), NPU_IN(1), NPU_OUT(0), NPU_CUBE);
}

/* Sums of products over the last axis: of many vectors, products of a row and a column. */
enum bp_status npu_build_dot(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    int64_t row[3] = {1, 1, 0}, column[3] = {1, 0, 1}, one[3] = {1, 1, 1};

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (!x->count) {
        npu_fill(b, NPU_OUT(0), 0);
        return b->status;
    }
    if (x->rank == 1) return KIT_STEP(b, "Dot", NPU_IN(0), NPU_IN(1), NPU_OUT(0));
    row[2] = column[1] = x->shape[x->rank - 1];
    row[0] = column[0] = one[0] = x->count / row[2];
    return KIT_STEP(b, "BatchMatMul", kit_reshaped(b, NPU_IN(0), 3, row),
                    kit_reshaped(b, NPU_IN(1), 3, column), kit_reshaped(b, NPU_OUT(0), 3, one),
                    NPU_CUBE);
}

enum bp_status npu_build_outer(struct kit_build *b)
{
    int64_t column[2] = {npu_type(b, NPU_IN(0))->count, 1};
    int64_t row[2] = {1, npu_type(b, NPU_IN(1))->count};

    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    return KIT_STEP(b, "Mul", kit_reshaped(b, NPU_IN(0), 2, column),
                    kit_reshaped(b, NPU_IN(1), 2, row), NPU_OUT(0));
}

/* Sums of products over the last axes of both: a product of two matrices. */
enum bp_status npu_build_inner(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_IN(1));
    int64_t left[2] = {1, 0}, right[2] = {1, 0}, out[2];

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (!x->rank || !y->rank) return KIT_STEP(b, "Mul", NPU_IN(0), NPU_IN(1), NPU_OUT(0));
    left[1] = right[1] = x->shape[x->rank - 1];
    for (uint32_t i = 0; i + 1 < x->rank; i++) left[0] *= x->shape[i];
    for (uint32_t i = 0; i + 1 < y->rank; i++) right[0] *= y->shape[i];
    out[0] = left[0], out[1] = right[0];
    product_step(b, kit_reshaped(b, NPU_IN(0), 2, left),
                 npu_swapped(b, kit_reshaped(b, NPU_IN(1), 2, right)),
                 kit_reshaped(b, NPU_OUT(0), 2, out));
    return b->status;
}

/* x[i] y[j] at i n + j along each of at most four axes. */
enum bp_status npu_build_kron(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_IN(1));
    uint32_t rank = x->rank > y->rank ? x->rank : y->rank;
    int64_t left[KIT_AXES_MAX], right[KIT_AXES_MAX], both[KIT_AXES_MAX];

    if (rank > KIT_AXES_MAX / 2) return kit_refuse(b);
    if (npu_is_empty(b, NPU_OUT(0))) return b->status;
    for (uint32_t i = 1; i <= rank; i++) {
        uint32_t at = 2 * (rank - i);
        left[at] = i <= x->rank ? x->shape[x->rank - i] : 1;
        right[at + 1] = i <= y->rank ? y->shape[y->rank - i] : 1;
        left[at + 1] = right[at] = 1;
        both[at] = left[at], both[at + 1] = right[at + 1];
    }
    return KIT_STEP(b, "Mul", kit_reshaped(b, NPU_IN(0), 2 * rank, left),
                    kit_reshaped(b, NPU_IN(1), 2 * rank, right),
                    kit_reshaped(b, NPU_OUT(0), 2 * rank, both));
}

/* Unsigned integers as signed ones, which have the same products and sums. */
static struct kit_arg product_bits(struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *v = npu_type(b, x);
    uint32_t dtype = create_bits(v->dtype);

    return dtype == v->dtype ? x : kit_alias(b, x, dtype, v->rank, v->shape, v->stride, 0);
}

void npu_product_terms(struct kit_build *b, struct kit_arg left, struct kit_arg right,
                       bool transpose_left, bool transpose_right, struct kit_arg out)
{
    bool row = npu_type(b, left)->rank == 1, column = npu_type(b, right)->rank == 1;
    struct kit_arg terms;
    const struct bp_view *x, *y, *result;
    int64_t of_left[KIT_AXES_MAX], of_right[KIT_AXES_MAX], last[1], flat[3] = {1, 0, 0};

    if (b->status || npu_is_empty(b, out)) return;
    left = product_side(b, product_bits(b, left), transpose_left, true);
    right = npu_swapped(b, product_side(b, product_bits(b, right), transpose_right, false));
    out = product_result(b, product_bits(b, out), row, column);
    result = npu_type(b, out);
    if (result->rank == KIT_AXES_MAX) { /* no room for the axis of terms */
        for (uint32_t i = 0; i + 2 < result->rank; i++) flat[0] *= result->shape[i];
        flat[1] = result->shape[result->rank - 2], flat[2] = result->shape[result->rank - 1];
        left = npu_product_batches(b, left, result);
        right = npu_product_batches(b, right, result);
        out = kit_reshaped(b, out, 3, flat);
    }
    x = npu_type(b, left), y = npu_type(b, right), result = npu_type(b, out);
    if (b->status) return;
    if (!x->count) {
        KIT_STEP(b, "InplaceFillScalar", kit_as(out, KIT_UPDATES), KIT_SCALAR_IS(0));
        return;
    }
    memcpy(of_left, x->shape, x->rank * sizeof *of_left);
    memcpy(of_right, y->shape, y->rank * sizeof *of_right);
    of_left[x->rank] = of_left[x->rank - 1], of_left[x->rank - 1] = 1;
    of_right[y->rank] = of_right[y->rank - 1], of_right[y->rank - 1] = of_right[y->rank - 2];
    of_right[y->rank - 2] = 1;
    last[0] = result->rank;
    terms = npu_mul(b, kit_reshaped(b, left, x->rank + 1, of_left),
                    kit_reshaped(b, right, y->rank + 1, of_right));
    KIT_STEP(b, "ReduceSum", terms, kit_array(b, last, 1), KIT_INT_IS(0),
             KIT_DTYPE_IS(result->dtype), out);
}

enum bp_status npu_build_matmul_terms(struct kit_build *b)
{
    const struct bp_matmul_attrs *a = b->attrs;

    npu_product_terms(b, NPU_IN(0), NPU_IN(1), a->transpose_a, a->transpose_b, NPU_OUT(0));
    return b->status;
}
