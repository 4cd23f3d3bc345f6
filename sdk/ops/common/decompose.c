/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: one rule for each EXPAND word: an operator written in others. */
#include <op/op.h>

#include <backplane/ops.h>

/* x as dtype; a new reference to x where it is that already. */
static enum bp_status as_dtype(struct bp_scope *scope, struct bp_tensor *x, uint32_t dtype,
                               struct bp_tensor **out)
{
    struct bp_cast_attrs attrs = bp_cast_defaults();

    attrs.to = dtype;
    if (x->view.dtype != dtype) return bp_op_cast(scope, x, &attrs, out);
    *out = bp_tensor_retain(x);
    return BP_OK;
}

/* The mean of the squares of d. */
static enum bp_status mean_square(struct bp_scope *scope, struct bp_tensor *d,
                                  struct bp_tensor **out)
{
    struct bp_scale_attrs mean = bp_scale_defaults();
    struct bp_tensor *square = NULL, *sum = NULL;
    enum bp_status status;

    mean.factor = 1.0 / (double)d->view.count;
    status = bp_op_mul(scope, d, d, &square);
    if (status == BP_OK) status = bp_op_sum(scope, square, NULL, &sum);
    if (status == BP_OK) status = bp_op_scale(scope, sum, &mean, out);
    bp_tensor_destroy(square);
    bp_tensor_destroy(sum);
    return status;
}

/* Half types in f32: the sum of squares would not fit in f16, nor a half-rounded one be exact. */
enum bp_status bp_expand_mse_loss(struct bp_expansion *e)
{
    uint32_t dtype = e->in[0]->view.dtype;
    uint32_t wide = dtype == BP_F16 || dtype == BP_BF16 ? BP_F32 : dtype;
    struct bp_tensor *x = NULL, *y = NULL, *d = NULL, *mean = NULL;
    enum bp_status status = as_dtype(e->scope, e->in[0], wide, &x);

    if (status == BP_OK) status = as_dtype(e->scope, e->in[1], wide, &y);
    if (status == BP_OK) status = bp_op_sub(e->scope, x, y, &d);
    if (status == BP_OK) status = mean_square(e->scope, d, &mean);
    if (status == BP_OK) status = as_dtype(e->scope, mean, dtype, &e->out[0]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(d);
    bp_tensor_destroy(mean);
    return status;
}
