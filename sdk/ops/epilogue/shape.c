/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers the shapes of products with an epilogue, and checks the activation. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <stddef.h>

/* The attributes begin with those of conv and of matmul. */
_Static_assert(offsetof(struct bp_fused_conv_attrs, activation) == sizeof(struct bp_conv_attrs),
               "begins as conv");
_Static_assert(offsetof(struct bp_fused_matmul_attrs, activation) ==
                   sizeof(struct bp_matmul_attrs),
               "begins as matmul");

static enum bp_status activation_check(const char *op, int64_t activation)
{
    const int last = BP_ACTIVATION_SOFTPLUS;

    if (activation >= 0 && activation <= last) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: attribute activation is %" PRId64
                    ", expected 0 to %d, a value of enum bp_activation",
                    op, activation, last);
}

enum bp_status bp_values_fused_conv(const void *attrs)
{
    return activation_check("fused_conv",
                            ((const struct bp_fused_conv_attrs *)attrs)->activation);
}

enum bp_status bp_values_fused_matmul(const void *attrs)
{
    return activation_check("fused_matmul",
                            ((const struct bp_fused_matmul_attrs *)attrs)->activation);
}

/* Checks bias, which has one axis of `columns` values, and residual, which has the type of the
 * result. */
static enum bp_status epilogue_check(const struct bp_invocation *inv, int64_t columns)
{
    struct bp_type bias = {.rank = 1, .shape = {columns}};

    if (bp_invocation_in(inv, 2)) TRY(bp_shape_expect(inv, 2, &bias));
    return bp_invocation_in(inv, 3) ? bp_shape_expect(inv, 3, &inv->out[0]) : BP_OK;
}

enum bp_status bp_infer_fused_conv(struct bp_invocation *inv)
{
    const struct bp_view *w = bp_invocation_in(inv, 1);

    TRY(bp_shape_conv("fused_conv", bp_invocation_in(inv, 0), w, inv->attrs, &inv->out[0]));
    return epilogue_check(inv, w->shape[0]);
}

enum bp_status bp_infer_fused_matmul(struct bp_invocation *inv)
{
    const struct bp_view *b = bp_invocation_in(inv, 1);

    TRY(bp_infer_matmul(inv));
    if (b->rank == 1 && bp_invocation_in(inv, 2))
        return bp_error(BP_ERR_INVALID,
                        "fused_matmul: b has one axis, so that the result has no columns, but "
                        "there is a bias for columns");
    return epilogue_check(inv, inv->out[0].rank ? inv->out[0].shape[inv->out[0].rank - 1] : 1);
}
