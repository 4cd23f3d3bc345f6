/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: checks the inputs of optimizer steps. States have the shape of the parameters, and the
 * dtype in which the parameters are computed. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

static enum bp_status one_value(const struct bp_invocation *inv, uint32_t port)
{
    const struct bp_view *v = bp_invocation_in(inv, port);

    if (v->count == 1) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: %s has %" PRId64 " elements, expected 1",
                    inv->row->info.name, inv->row->info.in[port].name, v->count);
}

/* Checks that U is f64 if the values are f64, else f32. */
static enum bp_status optimizer_computed(const struct bp_invocation *inv, uint32_t of,
                                         uint32_t port)
{
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t dtype = bp_invocation_in(inv, of)->dtype, got = bp_invocation_in(inv, port)->dtype;
    uint32_t wide = dtype == BP_F64 ? BP_F64 : BP_F32;

    if (got == wide) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: %s is %s, expected %s, in which %s of %s are computed",
                    op->name, op->in[port].name, bp_dtype_name(got), bp_dtype_name(wide),
                    op->in[of].name, bp_dtype_name(dtype));
}

/* Input 2 is the learning rate. The names of the other inputs of one value end in "_pow". */
enum bp_status bp_infer_step(struct bp_invocation *inv)
{
    const struct bp_opinfo *op = &inv->row->info;
    struct bp_type param;

    bp_shape_copy(&param, bp_invocation_in(inv, 0));
    TRY(optimizer_computed(inv, 0, 2));
    for (uint32_t i = 1; i < op->n_in; i++) {
        if (!bp_invocation_in(inv, i)) continue;
        TRY(i == 2 || strstr(op->in[i].name, "_pow") ? one_value(inv, i)
                                                     : bp_shape_expect(inv, i, &param));
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        const struct bp_view *v = bp_invocation_in(inv, (uint32_t)op->out[i].share);
        if (v) bp_shape_copy(&inv->out[i], v);
        if (i) inv->out[i].dtype = inv->dtype[BP_VAR_U];
    }
    return BP_OK;
}

/* The first attributes of several optimizers. */
struct betas {
    size_t size;
    double beta[2], epsilon;
};

enum bp_status bp_values_betas(const void *attrs)
{
    const struct betas *a = attrs;

    for (int i = 0; i < 2; i++)
        if (!(a->beta[i] >= 0 && a->beta[i] < 1))
            return bp_error(BP_ERR_INVALID, "attribute beta%d is %g, expected 0 to below 1", i + 1,
                            a->beta[i]);
    if (a->epsilon >= 0) return BP_OK;
    return bp_error(BP_ERR_INVALID, "attribute epsilon is %g, expected 0 or more", a->epsilon);
}

enum bp_status bp_values_rho(const void *attrs)
{
    const struct bp_adadelta_attrs *a = attrs;

    if (!(a->rho >= 0 && a->rho < 1))
        return bp_error(BP_ERR_INVALID, "attribute rho is %g, expected 0 to below 1", a->rho);
    if (a->epsilon >= 0) return BP_OK;
    return bp_error(BP_ERR_INVALID, "attribute epsilon is %g, expected 0 or more", a->epsilon);
}

enum bp_status bp_values_epsilon(const void *attrs)
{
    const struct bp_adagrad_attrs *a = attrs;

    if (a->epsilon >= 0) return BP_OK;
    return bp_error(BP_ERR_INVALID, "attribute epsilon is %g, expected 0 or more", a->epsilon);
}

enum bp_status bp_infer_unscale(struct bp_invocation *inv)
{
    uint32_t n = inv->n_in - 1;

    if (!n)
        return bp_error(BP_ERR_INVALID,
                        "unscale: xs has no tensors, expected one or more");
    TRY(optimizer_computed(inv, 1, 0));
    TRY(one_value(inv, 0));
    TRY(bp_invocation_count(inv, n));
    bp_shape_copy(&inv->out[0], inv->in[0]);
    inv->out[0].dtype = BP_BOOL;
    for (uint32_t i = 0; i < n; i++) bp_shape_copy(&inv->out[1 + i], inv->in[1 + i]);
    return BP_OK;
}

enum bp_status bp_values_update_loss_scaling(const void *attrs)
{
    const struct bp_update_loss_scaling_attrs *a = attrs;

    if (a->grow_after < 1 || a->shrink_after < 1)
        return bp_error(BP_ERR_INVALID,
                        "update_loss_scaling: attribute grow_after is %" PRId64
                        " and shrink_after is %" PRId64 ": expected 1 or more",
                        a->grow_after, a->shrink_after);
    if (isfinite(a->grow) && a->grow > 0 && isfinite(a->shrink) && a->shrink > 0) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "update_loss_scaling: attribute grow is %g and shrink is %g: expected finite "
                    "numbers above 0",
                    a->grow, a->shrink);
}

enum bp_status bp_infer_update_loss_scaling(struct bp_invocation *inv)
{
    static const uint32_t of[] = {0, 2, 3};

    for (uint32_t i = 0; i < 4; i++) TRY(one_value(inv, i));
    for (uint32_t i = 0; i < 3; i++) bp_shape_copy(&inv->out[i], bp_invocation_in(inv, of[i]));
    return BP_OK;
}

enum bp_status bp_infer_sgd(struct bp_invocation *inv)
{
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    TRY(bp_shape_expect(inv, 1, &inv->out[0]));
    return one_value(inv, 2);
}
