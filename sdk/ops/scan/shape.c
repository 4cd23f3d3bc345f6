/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of scans, builds their gradients, and decomposes diff. The gradients are
 * linear recurrences, which linear_scan computes, and their gradients are linear recurrences,
 * too. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

/* The first attributes of all of these operators. */
struct along {
    size_t size;
    int64_t axis;
};
_Static_assert(offsetof(struct bp_cumsum_attrs, axis) == offsetof(struct along, axis), "cumsum");
_Static_assert(offsetof(struct bp_cummax_attrs, axis) == offsetof(struct along, axis), "cummax");
_Static_assert(offsetof(struct bp_linear_scan_attrs, axis) == offsetof(struct along, axis),
               "linear_scan");
_Static_assert(sizeof(struct bp_cumsum_attrs) == sizeof(struct bp_cumprod_attrs) &&
                   sizeof(struct bp_cumsum_attrs) == sizeof(struct bp_logcumsumexp_attrs),
               "they are one layout");

enum bp_status bp_infer_scan(struct bp_invocation *inv)
{
    const struct along *a = inv->attrs;
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, bp_invocation_in(inv, 0)->rank, &axis));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}

enum bp_status bp_infer_cumulative(struct bp_invocation *inv)
{
    const struct bp_cummax_attrs *a = inv->attrs;

    if (a->dtype != BP_I64 && a->dtype != BP_I32)
        return bp_error(BP_ERR_INVALID, "%s: attribute dtype is %s, expected i32 or i64",
                        inv->row->info.name, bp_dtype_name((uint32_t)a->dtype));
    TRY(bp_infer_scan(inv));
    bp_shape_copy(&inv->out[1], bp_invocation_in(inv, 0));
    inv->out[1].dtype = (uint32_t)a->dtype;
    return BP_OK;
}

enum bp_status bp_infer_linear_scan(struct bp_invocation *inv)
{
    TRY(bp_infer_scan(inv));
    return bp_shape_expect(inv, 1, &inv->out[0]);
}

/* A part of an axis: all elements but the first, or but the last. */
struct part {
    int64_t axis, start, end;
};
static struct part scan_but(const struct bp_tensor *t, int64_t axis, bool first)
{
    int64_t at = axis < 0 ? axis + t->view.rank : axis, n = t->shape[at];
    int64_t end = n - !first;

    return (struct part){at, first && n, end < 0 ? 0 : end};
}

static struct bp_tensor *scan_part_of(struct bp_compose *c, struct bp_tensor *t,
                                      const struct part *p)
{
    struct bp_slice_attrs a = {.size = sizeof a, .starts = {&p->start, 1}, .ends = {&p->end, 1},
                               .axes = {&p->axis, 1}};

    return MAKE(c, slice, &a, t);
}

/* Returns t at the positions of a part of `like`, and 0 at the others. */
static struct bp_tensor *scan_padded(struct bp_compose *c, struct bp_tensor *t,
                                     const struct part *p, struct bp_tensor *like)
{
    struct bp_slice_grad_attrs a = {.size = sizeof a, .starts = {&p->start, 1},
                                    .ends = {&p->end, 1}, .axes = {&p->axis, 1}};

    return MAKE(c, slice_grad, &a, t, like);
}

static struct bp_tensor *linear_scan(struct bp_compose *c, struct bp_tensor *a,
                                     struct bp_tensor *b, int64_t axis, bool reverse, bool shift)
{
    struct bp_linear_scan_attrs attrs = {.size = sizeof attrs, .axis = axis, .reverse = reverse,
                                         .shift = shift};

    return MAKE(c, linear_scan, &attrs, a, b);
}

/* Each element adds to all results after it, so the gradient is a sum in the other direction. */
enum bp_status bp_grad_cumsum(struct bp_grad *g)
{
    struct bp_cumsum_attrs a = *(const struct bp_cumsum_attrs *)g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);

    a.reverse = !a.reverse;
    return g->want[0] ? bp_compose_dx(g, &c, MAKE(&c, cumsum, &a, g->dy[0])) : BP_OK;
}

/* Converts dy of an exclusive scan to that of an inclusive one: dy moves one element back in the
 * direction of the scan. */
static struct bp_tensor *scan_inclusive(struct bp_compose *c, struct bp_tensor *dy,
                                        const struct bp_cumsum_attrs *a)
{
    struct part from = scan_but(dy, a->axis, !a->reverse), to = scan_but(dy, a->axis, a->reverse);

    return a->exclusive ? scan_padded(c, scan_part_of(c, dy, &from), &to, dy) : dy;
}

/* dx[i] = (product before i) r[i], where r[i] = dy[i] + x[i+1] r[i+1] is the sum over later
 * elements k of dy[k] times the product between i and k. This is right where x is 0, too. */
enum bp_status bp_grad_cumprod(struct bp_grad *g)
{
    const struct bp_cumprod_attrs *f = g->attrs;
    struct bp_cumsum_attrs like = {sizeof like, f->axis, f->exclusive, f->reverse};
    struct bp_cumprod_attrs before = {sizeof before, f->axis, 1, f->reverse};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *r, *product;

    if (!g->want[0]) return BP_OK;
    r = linear_scan(&c, x, scan_inclusive(&c, g->dy[0], &like), f->axis, !f->reverse, true);
    product = f->exclusive ? g->out[0] : MAKE(&c, cumprod, &before, x);
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL, product, r));
}

/* With y the inclusive result: dx[i] = exp(x[i] - y[i]) s[i] and s[i] = dy[i] + exp(y[i] - y[i+1])
 * s[i+1]. y rises, so nothing overflows. */
enum bp_status bp_grad_logcumsumexp(struct bp_grad *g)
{
    const struct bp_logcumsumexp_attrs *f = g->attrs;
    struct bp_cumsum_attrs like = {sizeof like, f->axis, f->exclusive, f->reverse};
    struct bp_logcumsumexp_attrs whole = {sizeof whole, f->axis, 0, f->reverse};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *y, *a, *s;
    struct part here = scan_but(x, f->axis, f->reverse), next = scan_but(x, f->axis, !f->reverse);

    if (!g->want[0]) return BP_OK;
    y = f->exclusive ? MAKE(&c, logcumsumexp, &whole, x) : g->out[0];
    a = MAKE(&c, sub, NULL, scan_part_of(&c, y, &here), scan_part_of(&c, y, &next));
    a = scan_padded(&c, MAKE(&c, exp, NULL, a), &here, x);
    s = linear_scan(&c, a, scan_inclusive(&c, g->dy[0], &like), f->axis, !f->reverse, false);
    a = MAKE(&c, exp, NULL, MAKE(&c, sub, NULL, x, y));
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL, a, s));
}

/* Elements with the same index are neighbours: an element that continues a run (its index is that
 * before) adds its dy to the first of the run, which is at the position that the index names. */
enum bp_status bp_grad_cumulative(struct bp_grad *g)
{
    const struct along *f = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *index = g->out[1], *changes, *goes_on, *s;
    struct part next = scan_but(x, f->axis, true), here = scan_but(x, f->axis, false);

    if (!g->want[0] || !g->dy[0]) return BP_OK;
    changes = MAKE(&c, sub, NULL, scan_part_of(&c, index, &next), scan_part_of(&c, index, &here));
    changes = bp_compose_cast(&c, bp_compose_cast(&c, changes, BP_BOOL), x->view.dtype);
    goes_on = scan_padded(&c, bp_compose_scale(&c, changes, -1, 1), &next, x);
    s = linear_scan(&c, goes_on, g->dy[0], f->axis, true, true);
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL, s, bp_compose_scale(&c, goes_on, -1, 1)));
}

/* With g the gradient of r: db[i] = g[i] + (the factor of the next element) db[next]. The gradient
 * of each factor is db times the r that the factor multiplied. */
enum bp_status bp_grad_linear_scan(struct bp_grad *g)
{
    const struct bp_linear_scan_attrs *f = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *a = g->in[0], *db, *da;
    struct part before = scan_but(a, f->axis, f->reverse),
                behind = scan_but(a, f->axis, !f->reverse);

    db = linear_scan(&c, a, g->dy[0], f->axis, !f->reverse, !f->shift);
    if (g->want[0]) {
        da = MAKE(&c, mul, NULL, scan_part_of(&c, db, &behind),
                  scan_part_of(&c, g->out[0], &before));
        bp_compose_keep(&c, scan_padded(&c, da, f->shift ? &before : &behind, a), &g->dx[0]);
    }
    if (g->want[1]) bp_compose_keep(&c, db, &g->dx[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_diff(struct bp_invocation *inv)
{
    const struct bp_diff_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type expected;
    uint32_t axis;
    int64_t extent;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (a->n < 0)
        return bp_error(BP_ERR_INVALID, "diff: attribute n is %" PRId64 ", expected 0 or more",
                        a->n);
    extent = x->shape[axis];
    bp_shape_copy(&expected, x);
    for (uint32_t port = 1; port < 3; port++) {
        const struct bp_view *more = bp_invocation_in(inv, port);
        if (!more) continue;
        if (more->rank == x->rank) expected.shape[axis] = more->shape[axis];
        TRY(bp_shape_expect(inv, port, &expected));
        extent += more->shape[axis];
    }
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].shape[axis] = extent > a->n ? extent - a->n : 0;
    return BP_OK;
}

enum bp_status bp_decompose_diff(struct bp_decomposition *e)
{
    const struct bp_diff_attrs *a = e->attrs;
    struct bp_concat_attrs join = {.size = sizeof join, .axis = a->axis};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *parts[3], *t = e->in[0];
    size_t n = 0;

    if (e->in[1]) parts[n++] = e->in[1];
    parts[n++] = t;
    if (e->in[2]) parts[n++] = e->in[2];
    if (n > 1) t = bp_compose_all(&c, BP_ROW_concat, &join, parts, n);
    for (int64_t i = 0; i < a->n && !c.status; i++) {
        struct part next = scan_but(t, a->axis, true), here = scan_but(t, a->axis, false);
        t = MAKE(&c, sub, NULL, scan_part_of(&c, t, &next), scan_part_of(&c, t, &here));
        if (next.end <= 1) break; /* an empty axis stays empty */
    }
    bp_compose_keep(&c, t, &e->out[0]);
    return bp_compose_end(&c);
}
