/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes batched products of matrices in long double, as the reference for matmul
 * kernels. */
#include "../common/reference.h"
#include <math.h>

/* A side as a stack of matrices: the shape, and the steps between rows and between columns. */
struct side {
    struct ref_array batch; /* shape of the axes before the last two; no data */
    int64_t rows, columns, row_step, column_step;
};

static struct side ref_matmul_side_of(const struct ref_array *array, bool column, bool transpose)
{
    struct side side = {
        .batch = {.rank = array->rank > 2 ? array->rank - 2 : 0}, .row_step = 1, .column_step = 1};
    int last = array->rank - 1;

    for (int i = 0; i < side.batch.rank; i++) side.batch.shape[i] = array->shape[i];
    if (array->rank == 1) {
        side.rows = column ? array->shape[0] : 1;
        side.columns = column ? 1 : array->shape[0];
        return side;
    }
    side.rows = array->shape[transpose ? last : last - 1];
    side.columns = array->shape[transpose ? last - 1 : last];
    *(transpose ? &side.column_step : &side.row_step) = array->shape[last];
    return side;
}

static int result_shape(const struct ref_array *in, const struct side *a, const struct side *b,
                        int64_t *shape)
{
    int batch = a->batch.rank > b->batch.rank ? a->batch.rank : b->batch.rank, rank = batch;

    for (int i = 0; i < batch; i++) {
        int in_a = i - (batch - a->batch.rank), in_b = i - (batch - b->batch.rank);
        int64_t extent_a = in_a < 0 ? 1 : a->batch.shape[in_a],
                extent_b = in_b < 0 ? 1 : b->batch.shape[in_b];
        shape[i] = extent_a == 1 ? extent_b : extent_a;
    }
    if (in[0].rank > 1) shape[rank++] = a->rows;
    if (in[1].rank > 1) shape[rank++] = b->columns;
    return rank;
}

/* Adds the product of elements x of a and y of b to element i of out. */
static void add_product(const struct ref_array *in, int64_t x, int64_t y, struct ref_array *out,
                        int64_t i)
{
    if (out->u) {
        out->u[i] += in[0].u[x] * in[1].u[y];
    } else if (out->type->parts == 1) {
        long double product = in[0].v[x] * in[1].v[y];
        out->v[i] += product;
        out->bound[i] += fabsl(product);
    } else {
        const long double *a = &in[0].v[2 * x], *b = &in[1].v[2 * y];
        out->v[2 * i] += a[0] * b[0] - a[1] * b[1];
        out->v[2 * i + 1] += a[0] * b[1] + a[1] * b[0];
        out->bound[2 * i] += fabsl(a[0] * b[0]) + fabsl(a[1] * b[1]);
        out->bound[2 * i + 1] += fabsl(a[0] * b[1]) + fabsl(a[1] * b[0]);
    }
}

void ref_matmul(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_matmul_attrs *matmul = attrs;
    struct side a = ref_matmul_side_of(&in[0], false, matmul->transpose_a),
                b = ref_matmul_side_of(&in[1], true, matmul->transpose_b);
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, inner = a.columns;
    int rank = result_shape(in, &a, &b, shape), batch = rank - (in[0].rank > 1) - (in[1].rank > 1);
    int64_t matrix = a.rows * b.columns;

    ref_array_init(out, in[0].type->dtype, rank, shape);
    if (!out->count) return;
    for (int64_t n = 0; n < out->count / matrix; n++, ref_next(batch, shape, at)) {
        int64_t from_a = ref_index(&a.batch, batch, at) * a.rows * inner;
        int64_t from_b = ref_index(&b.batch, batch, at) * inner * b.columns;
        for (int64_t r = 0; r < a.rows; r++)
            for (int64_t c = 0; c < b.columns; c++)
                for (int64_t k = 0; k < inner; k++)
                    add_product(in, from_a + r * a.row_step + k * a.column_step,
                                from_b + k * b.row_step + c * b.column_step, out,
                                n * matrix + r * b.columns + c);
    }
    /* n products have n roundings and n - 1 additions have as many again, but at most n of these
     * apply to each term. */
    if (out->v)
        for (int64_t i = 0; i < out->count * out->type->parts; i++)
            out->bound[i] *= ref_growth(inner * out->type->parts - 1);
}
