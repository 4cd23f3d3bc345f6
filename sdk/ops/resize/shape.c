/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of resize and resize_axis, builds gradients, and decomposes resize axis by
 * axis. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>

_Static_assert(sizeof(struct bp_resize_axis_attrs) == sizeof(struct bp_resize_axis_grad_attrs),
               "one layout");
enum { LARGEST = 1 << 30 }; /* largest extent: positions are exact in f64 */

enum bp_status bp_values_resize_axis(const void *attrs)
{
    const struct bp_resize_axis_attrs *a = attrs;

    if (a->mode < 0 || a->mode > 2 || a->coordinates < 0 || a->coordinates > 5 || a->nearest < 0 ||
        a->nearest > 3)
        return bp_error(BP_ERR_INVALID,
                        "resize_axis: mode is %" PRId64 ", coordinates %" PRId64
                        " and nearest %" PRId64 ", expected 0 to 2, 0 to 5 and 0 to 3",
                        a->mode, a->coordinates, a->nearest);
    if (!isfinite(a->cubic_a) || !(a->scale >= 0 && a->scale <= LARGEST) || !isfinite(a->start) ||
        !isfinite(a->end) || fabs(a->start) > LARGEST || fabs(a->end) > LARGEST)
        return bp_error(BP_ERR_INVALID,
                        "resize_axis: cubic_a is %g, scale %g, start %g and end %g, expected "
                        "numbers, scale 0 or more",
                        a->cubic_a, a->scale, a->start, a->end);
    return BP_OK;
}

/* Infers the type of resize_axis(x). */
static enum bp_status resize_forward(const struct bp_invocation *inv, const struct bp_view *x,
                                     const struct bp_resize_axis_attrs *a, struct bp_type *out)
{
    const char *op = inv->row->info.name;
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (a->mode && !(BP_MASK_FLOAT >> x->dtype & 1))
        return bp_error(BP_ERR_INVALID, "%s: x is %s, expected a float where mode is not 0", op,
                        bp_dtype_name(x->dtype));
    if (a->extent < 1 || a->extent > LARGEST || x->shape[axis] < 1 || x->shape[axis] > LARGEST)
        return bp_error(BP_ERR_INVALID,
                        "%s: axis %u is %" PRId64 " long and shall be %" PRId64
                        ", expected 1 to 2^30",
                        op, axis, x->shape[axis], a->extent);
    bp_shape_copy(out, x);
    out->shape[axis] = a->extent;
    return BP_OK;
}

enum bp_status bp_infer_resize_axis(struct bp_invocation *inv)
{
    return resize_forward(inv, bp_invocation_in(inv, 0), inv->attrs, &inv->out[0]);
}

enum bp_status bp_infer_resize_axis_grad(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(resize_forward(inv, bp_invocation_in(inv, 1), inv->attrs, &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 1));
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_grad_resize_axis(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, resize_axis_grad, g->attrs, g->dy[0], g->in[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

/* resize_axis_grad is linear in dy; the value for positions outside of x does not enter it. */
enum bp_status bp_grad_resize_axis_grad(struct bp_grad *g)
{
    struct bp_resize_axis_attrs a;
    struct bp_compose c = bp_compose_begin(g->scope);

    memcpy(&a, g->attrs, sizeof a);
    a.extrapolation = 0;
    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, resize_axis, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

/* Returns the attributes of resize_axis for entry i of the axes of resize. */
static struct bp_resize_axis_attrs step_of(const struct bp_resize_attrs *a, uint32_t rank,
                                           int64_t i)
{
    const double scale[] = {a->scale0, a->scale1, a->scale2};
    const double start[] = {a->start0, a->start1, a->start2}, end[] = {a->end0, a->end1, a->end2};

    return (struct bp_resize_axis_attrs){
        .size = sizeof(struct bp_resize_axis_attrs), .extent = a->sizes.at[i],
        .axis = a->axes.n ? a->axes.at[i] : (int64_t)rank - a->sizes.n + i,
        .mode = a->mode, .coordinates = a->coordinates, .nearest = a->nearest,
        .cubic_a = a->cubic_a, .antialias = a->antialias, .exclude_outside = a->exclude_outside,
        .extrapolation = a->extrapolation, .scale = scale[i], .start = start[i], .end = end[i]};
}

enum bp_status bp_infer_resize(struct bp_invocation *inv)
{
    const struct bp_resize_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t seen = 0, axis;

    if (a->sizes.n < 1 || a->sizes.n > 3 || a->sizes.n > x->rank ||
        (a->axes.n && a->axes.n != a->sizes.n))
        return bp_error(BP_ERR_INVALID,
                        "resize: sizes has %" PRId64 " entries and axes %" PRId64
                        ", expected 1 to 3, as many as x has axes at most, and as many in both",
                        a->sizes.n, a->axes.n);
    bp_shape_copy(&inv->out[0], x);
    for (int64_t i = 0; i < a->sizes.n; i++) {
        struct bp_resize_axis_attrs step = step_of(a, x->rank, i);
        struct bp_type one = {0};
        TRY(bp_values_resize_axis(&step));
        TRY(bp_shape_axis(inv, step.axis, x->rank, &axis));
        TRY(resize_forward(inv, x, &step, &one));
        if (seen >> axis & 1)
            return bp_error(BP_ERR_INVALID, "resize: attribute axes names axis %u twice", axis);
        seen |= 1u << axis;
        inv->out[0].shape[axis] = one.shape[axis];
    }
    return BP_OK;
}

/* Whether each element of the result has the position of its element in x. */
static bool changes_nothing(const struct bp_resize_axis_attrs *s, const struct bp_tensor *x)
{
    return s->coordinates != 5 && (s->scale == 0 || s->scale == 1) &&
           s->extent == x->shape[s->axis];
}

/* The axes that shrink are resampled first, so that the other steps have fewer elements. Of axes
 * that grow alike the last comes first: steps along others copy or add whole lines, which is
 * faster. */
enum bp_status bp_decompose_resize(struct bp_decomposition *e)
{
    const struct bp_resize_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *y = x;
    struct bp_resize_axis_attrs step[3];
    int64_t n = 0;

    for (int64_t i = 0; i < a->sizes.n; i++) {
        struct bp_resize_axis_attrs s = step_of(a, x->view.rank, i);
        int64_t at = n;
        if (s.axis < 0) s.axis += x->view.rank;
        if (changes_nothing(&s, x)) continue;
        for (; at > 0 && s.extent * x->shape[step[at - 1].axis] <=
                             step[at - 1].extent * x->shape[s.axis]; at--)
            step[at] = step[at - 1];
        step[at] = s;
        n++;
    }
    if (n > 1 && a->mode) y = bp_compose_widen(&c, y);
    for (int64_t i = 0; i < n; i++) y = MAKE(&c, resize_axis, &step[i], y);
    y = n ? bp_compose_cast(&c, y, x->view.dtype) : MAKE(&c, assign, NULL, x);
    bp_compose_keep(&c, y, &e->out[0]);
    return bp_compose_end(&c);
}
