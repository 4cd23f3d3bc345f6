/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: one rule for each GRAD word, written in the typed calls. A rule gets the
 * gradient dy of the result and makes the gradients of the inputs that are wanted. */
#include <op/compose.h>

#include <backplane/ops.h>
#include <string.h>

static enum bp_status sum_axes(struct bp_scope *scope, struct bp_tensor *t, const int64_t *axes,
                               int64_t n, int64_t keep, struct bp_tensor **out)
{
    struct bp_sum_attrs attrs = bp_sum_defaults();

    attrs.axes = (struct bp_dims){axes, n};
    attrs.keep = keep;
    if (!n) {
        *out = bp_tensor_retain(t);
        return BP_OK;
    }
    return bp_op_sum(scope, t, &attrs, out);
}

/* Sums a gradient over the axes that broadcasting repeated: to the shape of like. Takes the
 * reference d. */
static enum bp_status sum_to(struct bp_scope *scope, struct bp_tensor *d,
                             const struct bp_tensor *like, struct bp_tensor **out)
{
    int64_t lead[BP_RANK_MAX], inner[BP_RANK_MAX], n_lead = 0, n_inner = 0;
    uint32_t extra = d->view.rank - like->view.rank;
    struct bp_tensor *kept;
    enum bp_status status;

    for (uint32_t i = 0; i < d->view.rank; i++) {
        if (i < extra) lead[n_lead++] = i;
        else if (like->shape[i - extra] != d->shape[i]) inner[n_inner++] = i;
    }
    status = sum_axes(scope, d, inner, n_inner, 1, &kept);
    bp_tensor_destroy(d);
    TRY(status);
    status = sum_axes(scope, kept, lead, n_lead, 0, out);
    bp_tensor_destroy(kept);
    return status;
}

static bool is_complex(const struct bp_tensor *t)
{
    uint64_t complex = BP_MASK_COMPLEX;

    return complex >> t->view.dtype & 1;
}

/* The gradient of a complex number is that of its real part plus i times that of its imaginary
 * part: a factor comes back conjugate. */
static struct bp_tensor *conjugate(struct bp_compose *c, struct bp_tensor *t)
{
    return c->status || !is_complex(t) ? t : MAKE(c, conj, NULL, t);
}

enum bp_status bp_grad_add(struct bp_grad *g)
{
    for (int i = 0; i < 2; i++)
        if (g->want[i]) TRY(sum_to(g->scope, bp_tensor_retain(g->dy[0]), g->in[i], &g->dx[i]));
    return BP_OK;
}

enum bp_status bp_grad_sub(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, bp_compose_sum_to(&c, g->dy[0], g->in[0]), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(
            &c, bp_compose_sum_to(&c, MAKE(&c, neg, NULL, g->dy[0]), g->in[1]), &g->dx[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_mul(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (int i = 0; i < 2; i++)
        if (g->want[i]) {
            struct bp_tensor *d = MAKE(&c, mul, NULL, g->dy[0], conjugate(&c, g->in[1 - i]));
            bp_compose_keep(&c, bp_compose_sum_to(&c, d, g->in[i]), &g->dx[i]);
        }
    return bp_compose_end(&c);
}

/* dx = dy / y; of y: -dx x / y. */
enum bp_status bp_grad_div(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *y = conjugate(&c, g->in[1]);
    struct bp_tensor *d = MAKE(&c, div, NULL, g->dy[0], y);

    if (g->want[0]) bp_compose_keep(&c, bp_compose_sum_to(&c, d, x), &g->dx[0]);
    if (g->want[1]) {
        d = MAKE(&c, div, NULL, MAKE(&c, mul, NULL, d, conjugate(&c, x)), y);
        bp_compose_keep(&c, bp_compose_sum_to(&c, MAKE(&c, neg, NULL, d), g->in[1]), &g->dx[1]);
    }
    return bp_compose_end(&c);
}

enum bp_status bp_grad_scale(struct bp_grad *g)
{
    struct bp_scale_attrs a = *(const struct bp_scale_attrs *)g->attrs;

    a.bias = 0;
    return g->want[0] ? bp_op_scale(g->scope, g->dy[0], &a, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_assign(struct bp_grad *g)
{
    if (g->want[0]) g->dx[0] = bp_tensor_retain(g->dy[0]);
    return BP_OK;
}

/* The real line to an integer is a staircase: zero almost everywhere. */
enum bp_status bp_grad_cast(struct bp_grad *g)
{
    struct bp_cast_attrs attrs = bp_cast_defaults();
    uint64_t floats = BP_MASK_FLOAT;

    attrs.to = g->in[0]->view.dtype;
    if (!g->want[0] || !(floats >> attrs.to & 1) || !(floats >> g->dy[0]->view.dtype & 1))
        return BP_OK;
    return bp_op_cast(g->scope, g->dy[0], &attrs, &g->dx[0]);
}

enum bp_status bp_grad_sum(struct bp_grad *g)
{
    const struct bp_sum_attrs *a = g->attrs;
    struct bp_sum_grad_attrs attrs = bp_sum_grad_defaults();

    attrs.axes = a->axes;
    attrs.keep = a->keep;
    return g->want[0] ? bp_op_sum_grad(g->scope, g->dy[0], g->in[0], &attrs, &g->dx[0]) : BP_OK;
}

/* Linear in dy; x gives its shape only. */
enum bp_status bp_grad_sum_grad(struct bp_grad *g)
{
    const struct bp_sum_grad_attrs *a = g->attrs;
    struct bp_sum_attrs attrs = bp_sum_defaults();

    attrs.axes = a->axes;
    attrs.keep = a->keep;
    return g->want[0] ? bp_op_sum(g->scope, g->dy[0], &attrs, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_softmax(struct bp_grad *g)
{
    const struct bp_softmax_attrs *a = g->attrs;
    struct bp_softmax_grad_attrs attrs = bp_softmax_grad_defaults();

    attrs.axis = a->axis;
    return g->want[0] ? bp_op_softmax_grad(g->scope, g->out[0], g->dy[0], &attrs, &g->dx[0])
                      : BP_OK;
}

/* a times the sum of b c along axis, which stays with extent 1 (a NULL: that sum). */
static enum bp_status times_sum(struct bp_scope *scope, struct bp_tensor *a, struct bp_tensor *b,
                                struct bp_tensor *c, int64_t axis, struct bp_tensor **out)
{
    struct bp_tensor *product, *sum;
    enum bp_status status;

    TRY(bp_op_mul(scope, b, c, &product));
    status = sum_axes(scope, product, &axis, 1, 1, &sum);
    bp_tensor_destroy(product);
    TRY(status);
    if (!a) {
        *out = sum;
        return BP_OK;
    }
    status = bp_op_mul(scope, a, sum, out);
    bp_tensor_destroy(sum);
    return status;
}

/* With g the gradient of dx = y (dy - s), s = sum(y dy): in y it is g (dy - s) - dy sum(g y). */
static enum bp_status softmax_grad_in_y(struct bp_grad *g, int64_t axis, struct bp_tensor **out)
{
    struct bp_tensor *y = g->in[0], *dy = g->in[1], *dx = g->dy[0];
    struct bp_tensor *s = NULL, *inner = NULL, *direct = NULL, *through = NULL;
    enum bp_status status = times_sum(g->scope, NULL, y, dy, axis, &s);

    if (status == BP_OK) status = bp_op_sub(g->scope, dy, s, &inner);
    if (status == BP_OK) status = bp_op_mul(g->scope, dx, inner, &direct);
    if (status == BP_OK) status = times_sum(g->scope, dy, dx, y, axis, &through);
    if (status == BP_OK) status = bp_op_sub(g->scope, direct, through, out);
    bp_tensor_destroy(s);
    bp_tensor_destroy(inner);
    bp_tensor_destroy(direct);
    bp_tensor_destroy(through);
    return status;
}

/* Its matrix is symmetric, so in dy it is its own gradient. */
enum bp_status bp_grad_softmax_grad(struct bp_grad *g)
{
    const struct bp_softmax_grad_attrs *attrs = g->attrs;

    if (g->want[0]) TRY(softmax_grad_in_y(g, attrs->axis, &g->dx[0]));
    return g->want[1] ? bp_op_softmax_grad(g->scope, g->in[0], g->dy[0], attrs, &g->dx[1]) : BP_OK;
}

static enum bp_status reshape(struct bp_scope *scope, struct bp_tensor *t, uint32_t rank,
                              const int64_t *shape, struct bp_tensor **out)
{
    struct bp_reshape_attrs a = bp_reshape_defaults();

    a.shape = (struct bp_dims){shape, rank};
    return bp_op_reshape(scope, t, NULL, &a, out);
}

/* t with an axis of extent 1 before axis at. */
static enum bp_status unsqueeze(struct bp_scope *scope, struct bp_tensor *t, uint32_t at,
                                struct bp_tensor **out)
{
    int64_t shape[BP_RANK_MAX];
    uint32_t rank = t->view.rank;

    if (rank == BP_RANK_MAX)
        return bp_error(BP_ERR_UNSUPPORTED, "a gradient needs more than %d axes", BP_RANK_MAX);
    for (uint32_t i = 0; i <= rank; i++)
        shape[i] = i < at ? t->shape[i] : i == at ? 1 : t->shape[i - 1];
    return reshape(scope, t, rank + 1, shape, out);
}

struct matrices {
    struct bp_tensor *a, *b, *dc; /* of two axes or more each */
};

static void release(struct matrices *m)
{
    bp_tensor_destroy(m->a);
    bp_tensor_destroy(m->b);
    bp_tensor_destroy(m->dc);
}

/* Gives the sides of one axis the second that the product works with, and dc the axes that it then
 * has. */
static enum bp_status to_matrices(struct bp_grad *g, struct matrices *m)
{
    bool row = g->in[0]->view.rank == 1, column = g->in[1]->view.rank == 1;
    struct bp_tensor *dc = bp_tensor_retain(g->dy[0]), *with;
    enum bp_status status = BP_OK;

    *m = (struct matrices){NULL, NULL, NULL};
    if (column) {
        status = unsqueeze(g->scope, dc, dc->view.rank, &with);
        bp_tensor_destroy(dc);
        dc = status ? NULL : with;
    }
    if (status == BP_OK && row) {
        status = unsqueeze(g->scope, dc, dc->view.rank - 1u, &with);
        bp_tensor_destroy(dc);
        dc = status ? NULL : with;
    }
    m->dc = dc;
    if (status == BP_OK)
        status = row ? unsqueeze(g->scope, g->in[0], 0, &m->a)
                     : (m->a = bp_tensor_retain(g->in[0]), BP_OK);
    if (status == BP_OK)
        status = column ? unsqueeze(g->scope, g->in[1], 1, &m->b)
                        : (m->b = bp_tensor_retain(g->in[1]), BP_OK);
    if (status) release(m);
    return status;
}

static enum bp_status product(struct bp_scope *scope, struct bp_tensor *a, bool ta,
                              struct bp_tensor *b, bool tb, const struct bp_tensor *side,
                              struct bp_tensor *like, struct bp_tensor **out)
{
    struct bp_matmul_attrs attrs = bp_matmul_defaults();
    struct bp_tensor *full, *summed;
    enum bp_status status;

    attrs.transpose_a = ta;
    attrs.transpose_b = tb;
    TRY(bp_op_matmul(scope, a, b, &attrs, &full));
    TRY(sum_to(scope, full, side, &summed));
    if (summed->view.rank == like->view.rank) {
        *out = summed;
        return BP_OK;
    }
    status = reshape(scope, summed, like->view.rank, like->shape, out); /* the axis goes again */
    bp_tensor_destroy(summed);
    return status;
}

/* A side of complex numbers comes back conjugate. */
static enum bp_status conjugate_side(struct bp_scope *scope, struct bp_tensor **side)
{
    struct bp_tensor *t;

    if (!is_complex(*side)) return BP_OK;
    TRY(bp_op_conj(scope, *side, &t));
    bp_tensor_destroy(*side);
    *side = t;
    return BP_OK;
}

/* For C = A B: dA = dC B', dB = A' dC; a transposed side takes the transpose of that. */
enum bp_status bp_grad_matmul(struct bp_grad *g)
{
    const struct bp_matmul_attrs *t = g->attrs;
    bool ta = t->transpose_a, tb = t->transpose_b;
    struct matrices m;
    enum bp_status status = BP_OK;

    TRY(to_matrices(g, &m));
    if (g->want[0]) status = conjugate_side(g->scope, &m.b);
    if (status == BP_OK && g->want[1]) status = conjugate_side(g->scope, &m.a);
    if (status == BP_OK && g->want[0])
        status = ta ? product(g->scope, m.b, tb, m.dc, true, m.a, g->in[0], &g->dx[0])
                    : product(g->scope, m.dc, false, m.b, !tb, m.a, g->in[0], &g->dx[0]);
    if (status == BP_OK && g->want[1])
        status = tb ? product(g->scope, m.dc, true, m.a, ta, m.b, g->in[1], &g->dx[1])
                    : product(g->scope, m.a, !ta, m.dc, false, m.b, g->in[1], &g->dx[1]);
    release(&m);
    return status;
}

/* The three attribute structs of convolution are one layout (conv/shape.c asserts it). */
static struct bp_conv_attrs as_conv(const void *attrs)
{
    struct bp_conv_attrs a;
    memcpy(&a, attrs, sizeof a);
    return a;
}
static struct bp_conv_grad_input_attrs as_input(const void *attrs)
{
    struct bp_conv_grad_input_attrs a;
    memcpy(&a, attrs, sizeof a);
    return a;
}
static struct bp_conv_grad_weight_attrs as_weight(const void *attrs)
{
    struct bp_conv_grad_weight_attrs a;
    memcpy(&a, attrs, sizeof a);
    return a;
}

enum bp_status bp_grad_conv(struct bp_grad *g)
{
    struct bp_conv_grad_input_attrs ai = as_input(g->attrs);
    struct bp_conv_grad_weight_attrs aw = as_weight(g->attrs);
    static const int64_t all_but_channels[] = {0, 2, 3, 4};
    struct bp_tensor *dy = g->dy[0];

    if (g->want[0]) TRY(bp_op_conv_grad_input(g->scope, dy, g->in[1], g->in[0], &ai, &g->dx[0]));
    if (g->want[1]) TRY(bp_op_conv_grad_weight(g->scope, dy, g->in[0], g->in[1], &aw, &g->dx[1]));
    if (g->want[2]) TRY(sum_axes(g->scope, dy, all_but_channels, dy->view.rank - 1, 0, &g->dx[2]));
    return BP_OK;
}

/* dx is linear in dy and in w, and its adjoints are the other two: the set is closed. */
enum bp_status bp_grad_conv_grad_input(struct bp_grad *g)
{
    struct bp_conv_attrs ac = as_conv(g->attrs);
    struct bp_conv_grad_weight_attrs aw = as_weight(g->attrs);

    if (g->want[0]) TRY(bp_op_conv(g->scope, g->dy[0], g->in[1], NULL, &ac, &g->dx[0]));
    if (g->want[1])
        TRY(bp_op_conv_grad_weight(g->scope, g->in[0], g->dy[0], g->in[1], &aw, &g->dx[1]));
    return BP_OK;
}

enum bp_status bp_grad_conv_grad_weight(struct bp_grad *g)
{
    struct bp_conv_attrs ac = as_conv(g->attrs);
    struct bp_conv_grad_input_attrs ai = as_input(g->attrs);

    if (g->want[0]) TRY(bp_op_conv(g->scope, g->in[1], g->dy[0], NULL, &ac, &g->dx[0]));
    if (g->want[1])
        TRY(bp_op_conv_grad_input(g->scope, g->in[0], g->dy[0], g->in[1], &ai, &g->dx[1]));
    return BP_OK;
}

enum bp_status bp_grad_reshape(struct bp_grad *g)
{
    struct bp_tensor *x = g->in[0];

    return g->want[0] ? reshape(g->scope, g->dy[0], x->view.rank, x->shape, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_transpose(struct bp_grad *g)
{
    const struct bp_transpose_attrs *f = g->attrs;
    struct bp_transpose_attrs a = bp_transpose_defaults();
    int64_t inverse[BP_RANK_MAX], rank = g->in[0]->view.rank;

    for (int64_t i = 0; i < f->perm.n; i++)
        inverse[f->perm.at[i] < 0 ? f->perm.at[i] + rank : f->perm.at[i]] = i;
    a.perm = (struct bp_dims){inverse, f->perm.n};
    return g->want[0] ? bp_op_transpose(g->scope, g->dy[0], &a, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_slice(struct bp_grad *g)
{
    const struct bp_slice_attrs *f = g->attrs;
    struct bp_slice_grad_attrs a = {sizeof a, f->starts, f->ends, f->axes, f->steps};

    return g->want[0] ? bp_op_slice_grad(g->scope, g->dy[0], g->in[0], &a, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_slice_grad(struct bp_grad *g)
{
    const struct bp_slice_grad_attrs *f = g->attrs;
    struct bp_slice_attrs a = {sizeof a, f->starts, f->ends, f->axes, f->steps};

    if (!g->want[0]) return BP_OK;
    return bp_op_slice(g->scope, g->dy[0], NULL, NULL, NULL, NULL, &a, &g->dx[0]);
}

enum bp_status bp_grad_expand(struct bp_grad *g)
{
    return g->want[0] ? sum_to(g->scope, bp_tensor_retain(g->dy[0]), g->in[0], &g->dx[0]) : BP_OK;
}

/* Each tensor gets back its part. */
enum bp_status bp_grad_concat(struct bp_grad *g)
{
    const struct bp_concat_attrs *f = g->attrs;
    int64_t rank = g->in[0]->view.rank, axis = f->axis < 0 ? f->axis + rank : f->axis, at = 0;

    for (uint32_t i = 0; i < g->n_in; i++) {
        struct bp_slice_attrs a = bp_slice_defaults();
        int64_t end = at + g->in[i]->shape[axis];
        a.axes = (struct bp_dims){&axis, 1};
        a.starts = (struct bp_dims){&at, 1};
        a.ends = (struct bp_dims){&end, 1};
        if (g->want[i])
            TRY(bp_op_slice(g->scope, g->dy[0], NULL, NULL, NULL, NULL, &a, &g->dx[i]));
        at = end;
    }
    return BP_OK;
}

/* One part of the gradient of x, where its part of the forward was: from at on. */
static enum bp_status add_part(struct bp_grad *g, uint32_t i, int64_t axis, int64_t at)
{
    struct bp_slice_grad_attrs a = bp_slice_grad_defaults();
    int64_t end = at + g->out[i]->shape[axis];
    struct bp_tensor *part, *sum;
    enum bp_status status;

    a.axes = (struct bp_dims){&axis, 1};
    a.starts = (struct bp_dims){&at, 1};
    a.ends = (struct bp_dims){&end, 1};
    TRY(bp_op_slice_grad(g->scope, g->dy[i], g->in[0], &a, &part));
    if (!g->dx[0]) {
        g->dx[0] = part;
        return BP_OK;
    }
    status = bp_op_add(g->scope, g->dx[0], part, &sum);
    bp_tensor_destroy(part);
    TRY(status);
    bp_tensor_destroy(g->dx[0]);
    g->dx[0] = sum;
    return BP_OK;
}

/* The parts joined again; where some are zero, the others put in their places. */
enum bp_status bp_grad_split(struct bp_grad *g)
{
    const struct bp_split_attrs *f = g->attrs;
    struct bp_concat_attrs join = bp_concat_defaults();
    int64_t axis = f->axis < 0 ? f->axis + g->in[0]->view.rank : f->axis, at = 0;
    bool all = true;

    if (!g->want[0]) return BP_OK;
    for (uint32_t i = 0; i < g->n_out; i++) all &= g->dy[i] != NULL;
    join.axis = axis;
    if (all) return bp_op_concat(g->scope, g->dy, g->n_out, &join, &g->dx[0]);
    for (uint32_t i = 0; i < g->n_out; i++) {
        if (g->dy[i]) TRY(add_part(g, i, axis, at));
        at += g->out[i]->shape[axis];
    }
    return BP_OK;
}
