/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules of log_softmax, masked_softmax, attention, linear, label_smooth and
 * glu, and the gradients and decompositions of all but masked_softmax and attention. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

enum bp_status bp_infer_log_softmax(struct bp_invocation *inv)
{
    const struct bp_log_softmax_attrs *a = inv->attrs;
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, bp_invocation_in(inv, 0)->rank, &axis));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}

enum bp_status bp_infer_log_softmax_grad(struct bp_invocation *inv)
{
    TRY(bp_infer_log_softmax(inv)); /* the attributes of both have one layout */
    return bp_shape_expect(inv, 1, &inv->out[0]);
}

enum bp_status bp_grad_log_softmax(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, log_softmax_grad, g->attrs, g->out[0], g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_decompose_log_softmax_grad(struct bp_decomposition *e)
{
    const struct bp_log_softmax_grad_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *dy = bp_compose_widen(&c, e->in[1]);
    struct bp_tensor *p = MAKE(&c, exp, NULL, bp_compose_widen(&c, e->in[0]));

    p = MAKE(&c, mul, NULL, p, bp_compose_sum(&c, dy, &a->axis, 1, true));
    return bp_compose_give(e, &c, MAKE(&c, sub, NULL, dy, p));
}

/* Checks that a mask is bool or has the dtype of input 0, and broadcasts to scores. */
static enum bp_status check_mask(const struct bp_invocation *inv, uint32_t port,
                                 const struct bp_type *scores)
{
    const struct bp_view *mask = bp_invocation_in(inv, port), *x = bp_invocation_in(inv, 0);
    char got[BP_TYPE_TEXT], want[BP_TYPE_TEXT];
    bool fits = mask && mask->rank <= scores->rank;

    if (!mask) return BP_OK;
    if (mask->dtype != BP_BOOL && mask->dtype != x->dtype)
        return bp_error(BP_ERR_INVALID, "%s: input mask is %s, expected bool or %s",
                        inv->row->info.name, bp_dtype_name(mask->dtype), bp_dtype_name(x->dtype));
    for (uint32_t i = 0; fits && i < mask->rank; i++) {
        int64_t extent = bp_shape_extent_back(mask, i);
        fits = extent == 1 || extent == scores->shape[scores->rank - 1 - i];
    }
    if (fits) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: input mask is %s, expected what broadcasts to %s",
                    inv->row->info.name,
                    bp_type_text(mask->dtype, mask->rank, mask->shape, got, sizeof got),
                    bp_type_text(mask->dtype, scores->rank, scores->shape, want, sizeof want));
}

enum bp_status bp_infer_masked_softmax(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (x->rank < 2)
        return bp_error(BP_ERR_INVALID, "masked_softmax: input x has %u axes, expected 2 or more",
                        x->rank);
    bp_shape_copy(&inv->out[0], x);
    return check_mask(inv, 1, &inv->out[0]);
}

/* Checks that k or v has the axes of q before heads, and that its heads divide those of q. */
static enum bp_status check_attended(const struct bp_invocation *inv, uint32_t port)
{
    const struct bp_view *q = bp_invocation_in(inv, 0), *k = bp_invocation_in(inv, port);
    uint32_t heads = q->rank - 3;
    char x[BP_TYPE_TEXT], y[BP_TYPE_TEXT];
    bool fits = k->rank == q->rank;

    for (uint32_t i = 0; fits && i < heads; i++) fits = k->shape[i] == q->shape[i];
    fits = fits && (k->shape[heads] ? q->shape[heads] % k->shape[heads] == 0 : !q->shape[heads]);
    if (fits) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "attention: q is %s and %s is %s: expected the same axes before heads, and "
                    "heads that divide those of q",
                    bp_type_text(q->dtype, q->rank, q->shape, x, sizeof x),
                    inv->row->info.in[port].name,
                    bp_type_text(k->dtype, k->rank, k->shape, y, sizeof y));
}

/* Checks softcap, window and length. */
static enum bp_status check_seen(const struct bp_invocation *inv)
{
    const struct bp_attention_attrs *a = inv->attrs;
    const struct bp_view *q = bp_invocation_in(inv, 0);
    struct bp_type lengths = {0};

    if (!isfinite(a->softcap) || a->softcap < 0)
        return bp_error(BP_ERR_INVALID, "attention: attribute softcap is %g, expected 0 or more",
                        a->softcap);
    if (a->window.n != 0 && a->window.n != 2)
        return bp_error(BP_ERR_INVALID,
                        "attention: attribute window has %" PRId64 " numbers, expected none, or "
                        "how many keys are seen before and after a position",
                        a->window.n);
    for (int i = 0; i < a->window.n; i++)
        if (a->window.at[i] < -1 || a->window.at[i] > INT32_MAX)
            return bp_error(BP_ERR_INVALID,
                            "attention: attribute window: number %d is %" PRId64
                            ", expected -1 (all keys) to %d",
                            i, a->window.at[i], INT32_MAX);
    if (!bp_invocation_in(inv, 4)) return BP_OK;
    bp_shape_copy(&lengths, q);
    lengths.rank = q->rank - 3;
    return bp_shape_expect(inv, 4, &lengths);
}

enum bp_status bp_infer_attention(struct bp_invocation *inv)
{
    const struct bp_attention_attrs *a = inv->attrs;
    const struct bp_view *q = bp_invocation_in(inv, 0), *k = bp_invocation_in(inv, 1),
                         *v = bp_invocation_in(inv, 2);
    struct bp_type scores = {0};
    uint32_t last = q->rank - 1;

    if (q->rank < 3)
        return bp_error(BP_ERR_INVALID,
                        "attention: input q has %u axes, expected heads, a length, D, and any "
                        "before them",
                        q->rank);
    if (!isfinite(a->scale))
        return bp_error(BP_ERR_INVALID, "attention: attribute scale is %g, expected a number",
                        a->scale);
    TRY(check_seen(inv));
    TRY(check_attended(inv, 1));
    TRY(check_attended(inv, 2));
    if (k->shape[last] != q->shape[last] || k->shape[last - 1] != v->shape[last - 1] ||
        k->shape[last - 2] != v->shape[last - 2])
        return bp_error(BP_ERR_INVALID,
                        "attention: q has D %" PRId64 ", k %" PRId64 "; k has %" PRId64
                        " heads of length %" PRId64 ", v %" PRId64 " of %" PRId64
                        ": expected these to be equal",
                        q->shape[last], k->shape[last], k->shape[last - 2], k->shape[last - 1],
                        v->shape[last - 2], v->shape[last - 1]);
    bp_shape_copy(&inv->out[0], q);
    scores = inv->out[0];
    scores.shape[last] = k->shape[last - 1];
    inv->out[0].shape[last] = v->shape[last];
    return check_mask(inv, 3, &scores);
}

enum bp_status bp_infer_linear(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *w = bp_invocation_in(inv, 1);
    struct bp_type bias = {.rank = 1};
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    if (!x->rank || w->rank != 2 || w->shape[1] != x->shape[x->rank - 1])
        return bp_error(BP_ERR_INVALID,
                        "linear: x is %s and weight is %s: expected a weight of two axes, the "
                        "second as long as the last of x",
                        bp_type_text(x->dtype, x->rank, x->shape, a, sizeof a),
                        bp_type_text(w->dtype, w->rank, w->shape, b, sizeof b));
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].shape[x->rank - 1] = bias.shape[0] = w->shape[0];
    return bp_invocation_in(inv, 2) ? bp_shape_expect(inv, 2, &bias) : BP_OK;
}

/* Computes one product of matrices, however many axes x has. */
enum bp_status bp_decompose_linear(struct bp_decomposition *e)
{
    struct bp_matmul_attrs across = {.size = sizeof across, .transpose_b = 1};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *w = e->in[1], *y = x;
    uint32_t rank = x->view.rank;
    int64_t in = w->shape[1], shape[BP_RANK_MAX], rows = 1;

    for (uint32_t i = 0; i + 1 < rank; i++) rows *= shape[i] = x->shape[i];
    shape[rank - 1] = w->shape[0];
    if (rank > 2) y = bp_compose_reshape(&c, x, 2, (int64_t[]){rows, in});
    y = MAKE(&c, matmul, &across, rank == 1 ? bp_compose_reshape(&c, x, 2, (int64_t[]){1, in}) : y,
             w);
    if (e->in[2]) y = MAKE(&c, add, NULL, y, e->in[2]);
    if (rank != 2) y = bp_compose_reshape(&c, y, rank, shape);
    return bp_compose_give(e, &c, y);
}

enum bp_status bp_infer_label_smooth(struct bp_invocation *inv)
{
    const struct bp_label_smooth_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    static const uint32_t both[] = {0, 1};
    struct bp_type all = {0};

    if (!x->rank)
        return bp_error(BP_ERR_INVALID, "label_smooth: label has no axis of classes");
    if (!(a->epsilon >= 0 && a->epsilon <= 1))
        return bp_error(BP_ERR_INVALID, "label_smooth: attribute epsilon is %g, expected 0 to 1",
                        a->epsilon);
    bp_shape_copy(&inv->out[0], x);
    if (!bp_invocation_in(inv, 1)) return BP_OK;
    TRY(bp_shape_broadcast(inv, both, 2, 0, &all));
    return bp_shape_expect(inv, 0, &all);
}

enum bp_status bp_decompose_label_smooth(struct bp_decomposition *e)
{
    const struct bp_label_smooth_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0];
    int64_t classes = x->shape[x->view.rank - 1];
    double even = e->in[1] ? 0 : a->epsilon / (double)(classes ? classes : 1);

    x = bp_compose_scale(&c, x, 1 - a->epsilon, even);
    if (e->in[1]) x = MAKE(&c, add, NULL, x, bp_compose_scale(&c, e->in[1], a->epsilon, 0));
    return bp_compose_give(e, &c, x);
}

enum bp_status bp_infer_glu(struct bp_invocation *inv)
{
    const struct bp_glu_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (x->shape[axis] % 2)
        return bp_error(BP_ERR_INVALID,
                        "glu: axis %u of x is %" PRId64 " long, expected an even number", axis,
                        x->shape[axis]);
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].shape[axis] /= 2;
    return BP_OK;
}

enum bp_status bp_decompose_glu(struct bp_decomposition *e)
{
    const struct bp_glu_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *half[2];
    int64_t axis = a->axis < 0 ? a->axis + x->view.rank : a->axis, n = x->shape[axis] / 2;

    for (int i = 0; i < 2; i++) {
        int64_t start = i * n, end = start + n;
        struct bp_slice_attrs part = {.size = sizeof part, .starts = {&start, 1},
                                      .ends = {&end, 1}, .axes = {&axis, 1}};
        half[i] = bp_compose_widen(&c, MAKE(&c, slice, &part, x));
    }
    return bp_compose_give(e, &c, MAKE(&c, mul, NULL, half[0], MAKE(&c, sigmoid, NULL, half[1])));
}
