/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules, gradients and decompositions of the CTC loss. */
#include <call/shape.h>
#include "../loss/shape.h"

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

static uint32_t ctc_wide(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 ? BP_F32 : dtype;
}

/* Checks x (T N C), labels (N S) and lengths (N); sets lines to the type of N losses. */
static enum bp_status ctc_check(const struct bp_invocation *inv, int64_t blank,
                                struct bp_type *lines)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *label = bp_invocation_in(inv, 1);
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    if (x->rank != 3 || label->rank != 2 || label->shape[0] != x->shape[1])
        return bp_error(
            BP_ERR_INVALID, "%s: x is %s and label is %s: expected T N C and N S, N the same",
            inv->row->info.name, bp_type_text(x->dtype, x->rank, x->shape, a, sizeof a),
            bp_type_text(label->dtype, label->rank, label->shape, b, sizeof b));
    if (blank < 0 || blank >= x->shape[2])
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute blank is %" PRId64 ", expected 0 to %" PRId64,
                        inv->row->info.name, blank, x->shape[2] - 1);
    *lines = (struct bp_type){.rank = 1, .shape = {x->shape[1]}};
    TRY(bp_shape_expect(inv, 2, lines));
    return bp_shape_expect(inv, 3, lines);
}

enum bp_status bp_infer_ctc_lines(struct bp_invocation *inv)
{
    struct bp_type lines;

    TRY(ctc_check(inv, ((struct bp_ctc_lines_attrs *)inv->attrs)->blank, &lines));
    lines.dtype = ctc_wide(bp_invocation_in(inv, 0)->dtype);
    inv->out[0] = lines;
    return BP_OK;
}

enum bp_status bp_infer_ctc_lines_grad(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *dloss = bp_invocation_in(inv, 4);
    struct bp_type lines;

    TRY(ctc_check(inv, ((struct bp_ctc_lines_grad_attrs *)inv->attrs)->blank, &lines));
    if (dloss->dtype != ctc_wide(x->dtype))
        return bp_error(BP_ERR_INVALID,
                        "ctc_lines_grad: input dloss is %s, expected %s where x is %s",
                        bp_dtype_name(dloss->dtype), bp_dtype_name(ctc_wide(x->dtype)),
                        bp_dtype_name(x->dtype));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 4, &lines);
}

enum bp_status bp_infer_ctc_loss(struct bp_invocation *inv)
{
    struct bp_type lines;

    TRY(ctc_check(inv, ((struct bp_ctc_loss_attrs *)inv->attrs)->blank, &lines));
    return bp_loss_result(inv, &lines, 2);
}

enum bp_status bp_decompose_ctc_loss(struct bp_decomposition *e)
{
    const struct bp_ctc_loss_attrs *a = e->attrs;
    struct bp_ctc_lines_attrs lines = {.size = sizeof lines, .blank = a->blank};
    int64_t last = -1;
    struct bp_logsumexp_attrs sum = {.size = sizeof sum, .axes = {&last, 1}, .keep = 1};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *t, *length;

    if (a->logits) {
        x = bp_compose_widen(&c, x);
        x = MAKE(&c, sub, NULL, x, MAKE(&c, logsumexp, &sum, x));
    }
    t = MAKE(&c, ctc_lines, &lines, x, e->in[1], e->in[2], e->in[3]);
    if (a->zero_infinity)
        t = bp_loss_mask(
            &c, t, MAKE(&c, less_than, NULL, t, bp_loss_clip(&c, t, INFINITY, INFINITY)), false);
    if (a->reduction == 1) {
        length = bp_compose_cast(&c, bp_loss_clip(&c, e->in[3], 1, INFINITY),
                                 ctc_wide(e->in[0]->view.dtype));
        t = bp_loss_mean(&c, MAKE(&c, div, NULL, t, length));
    } else if (a->reduction) {
        t = bp_loss_sum(&c, t);
    }
    bp_compose_keep(&c, bp_compose_cast(&c, t, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_ctc_lines(struct bp_grad *g)
{
    const struct bp_ctc_lines_attrs *f = g->attrs;
    struct bp_ctc_lines_grad_attrs a = {.size = sizeof a, .blank = f->blank};
    struct bp_compose c = bp_compose_begin(g->scope);

    if (!g->want[0]) return BP_OK;
    bp_compose_keep(&c,
                    MAKE(&c, ctc_lines_grad, &a, g->in[0], g->in[1], g->in[2], g->in[3], g->dy[0]),
                    &g->dx[0]);
    return bp_compose_end(&c);
}
