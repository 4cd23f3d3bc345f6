/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of pools and their gradients, and builds gradients. Decompositions are in
 * decompose.c. */
#include "shape.h"

#include <call/compose.h>

#include <inttypes.h>
#include <stddef.h>

/* The attribute structs of all pools begin with one layout: POOL_ATTRS of schema.def. */
#define SAME_PREFIX(op) \
    _Static_assert(offsetof(struct bp_##op##_attrs, adaptive) == \
                       offsetof(struct bp_max_pool_attrs, adaptive), \
                   "one layout")
SAME_PREFIX(max_pool_with_index);
SAME_PREFIX(max_pool_grad);
SAME_PREFIX(avg_pool);
SAME_PREFIX(avg_pool_grad);
SAME_PREFIX(lp_pool);
_Static_assert(sizeof(struct bp_avg_pool_attrs) == sizeof(struct bp_avg_pool_grad_attrs),
               "one layout");
_Static_assert(sizeof(struct bp_max_pool_attrs) == sizeof(struct bp_max_pool_grad_attrs),
               "one layout");

enum bp_status bp_pool_rank(const struct bp_invocation *inv, const struct bp_view *x)
{
    if (x->rank >= 3 && x->rank <= 5) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: x has %u axes, expected 3 to 5: N C and 1 to 3 spatial ones",
                    inv->row->info.name, x->rank);
}

enum bp_status bp_pool_unused(const struct bp_invocation *inv, const char *name,
                              const int64_t *entry, uint32_t n, int64_t unset)
{
    for (uint32_t i = n; i < 3; i++)
        if (entry[i] != unset)
            return bp_error(BP_ERR_INVALID,
                            "%s: %s[%u] is %" PRId64 ", but x has %u spatial axes: entry i is of "
                            "axis i, expected %" PRId64,
                            inv->row->info.name, name, i, entry[i], n, unset);
    return BP_OK;
}

/* Computes the span of a window along spatial axis i, and the padded extent; checks the
 * attributes. */
static enum bp_status window_span(const struct bp_invocation *inv, const struct bp_view *x,
                                  const struct bp_max_pool_attrs *a, uint32_t i, int64_t *span,
                                  int64_t *padded)
{
    const char *op = inv->row->info.name;

    if (a->stride[i] < 1 || a->dilation[i] < 1)
        return bp_error(BP_ERR_INVALID, "%s: stride[%u] is %" PRId64 " and dilation[%u] %" PRId64
                        ", expected 1 or more", op, i, a->stride[i], i, a->dilation[i]);
    if (__builtin_mul_overflow(a->dilation[i], a->window[i] - 1, span) ||
        __builtin_add_overflow(*span, 1, span))
        return bp_error(BP_ERR_INVALID, "%s: the window of spatial axis %u is past 63 bits", op, i);
    if (a->pad[i] < 0 || a->pad[i + 3] < 0 || a->pad[i] >= *span || a->pad[i + 3] >= *span)
        return bp_error(BP_ERR_INVALID,
                        "%s: pad[%u] is %" PRId64 " and pad[%u] %" PRId64
                        ", expected 0 or more, and less than the window spans, %" PRId64,
                        op, i, a->pad[i], i + 3, a->pad[i + 3], *span);
    if (__builtin_add_overflow(x->shape[i + 2], a->pad[i] + a->pad[i + 3], padded) ||
        __builtin_add_overflow(*padded, a->stride[i], &(int64_t){0}))
        return bp_error(BP_ERR_INVALID, "%s: spatial axis %u with its padding is past 63 bits", op,
                        i);
    return BP_OK;
}

/* Computes the extent of spatial axis i of the result. Every window has a position in x: a window
 * that is not wholly before or after x reaches x, unless its dilation steps over x. */
static enum bp_status pooled_extent(const struct bp_invocation *inv, const struct bp_view *x,
                                    const struct bp_max_pool_attrs *a, uint32_t i, int64_t *out)
{
    const char *op = inv->row->info.name;
    int64_t span, padded, rest;

    TRY(window_span(inv, x, a, i, &span, &padded));
    if (padded < span && !(a->ceil_mode && span - padded < a->stride[i]))
        return bp_error(BP_ERR_INVALID,
                        "%s: the window spans %" PRId64
                        " in spatial axis %u, but x with its padding has only %" PRId64,
                        op, span, i, padded);
    if ((a->pad[i] || a->pad[i + 3] || a->ceil_mode) && x->shape[i + 2] < a->dilation[i] &&
        a->window[i] > 1)
        return bp_error(BP_ERR_INVALID,
                        "%s: dilation[%u] is %" PRId64 ", but spatial axis %u is only %" PRId64
                        " long, so that a window could miss x",
                        op, i, a->dilation[i], i, x->shape[i + 2]);
    rest = padded - span;
    *out = rest < 0 ? 0 : rest / a->stride[i] + 1;
    if (a->ceil_mode && rest % a->stride[i] &&
        *out <= (x->shape[i + 2] + a->pad[i] - 1) / a->stride[i])
        ++*out;
    return BP_OK;
}

enum bp_status bp_pool_forward(const struct bp_invocation *inv, const struct bp_view *x,
                               const void *attrs, struct bp_type *out)
{
    const struct bp_max_pool_attrs *a = attrs;
    uint32_t n = x->rank - 2u;

    TRY(bp_pool_rank(inv, x));
    TRY(bp_pool_unused(inv, "window", a->window, n, 1));
    TRY(bp_pool_unused(inv, "stride", a->stride, n, 1));
    TRY(bp_pool_unused(inv, "dilation", a->dilation, n, 1));
    TRY(bp_pool_unused(inv, "pad", a->pad, n, 0));
    TRY(bp_pool_unused(inv, "pad past its third entry", a->pad + 3, n, 0));
    bp_shape_copy(out, x);
    for (uint32_t i = 0; i < n; i++) {
        if (a->window[i] < 1)
            return bp_error(BP_ERR_INVALID,
                            "%s: window[%u] is %" PRId64 ", expected 1 or more, for each of %u "
                            "spatial axes",
                            inv->row->info.name, i, a->window[i], n);
        if (x->shape[i + 2] < 1)
            return bp_error(BP_ERR_INVALID, "%s: spatial axis %u of x has extent 0",
                            inv->row->info.name, i);
        if (a->adaptive) out->shape[i + 2] = a->window[i];
        else TRY(pooled_extent(inv, x, a, i, &out->shape[i + 2]));
    }
    return BP_OK;
}

/* Infers the shape of max_pool, avg_pool and lp_pool. */
enum bp_status bp_infer_pool(struct bp_invocation *inv)
{
    return bp_pool_forward(inv, bp_invocation_in(inv, 0), inv->attrs, &inv->out[0]);
}

enum bp_status bp_pool_index(const struct bp_invocation *inv, int64_t dtype, struct bp_type *out)
{
    out->dtype = (uint32_t)dtype;
    if (dtype == BP_I64 || dtype == BP_I32) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: attribute dtype is %s, expected i32 or i64",
                    inv->row->info.name, bp_dtype_name((uint32_t)dtype));
}

/* Checks that the output's dtype can hold all indices below n. */
static enum bp_status index_fits(const struct bp_invocation *inv, int64_t n,
                                 const struct bp_type *out)
{
    if (out->dtype == BP_I64 || n <= INT32_MAX) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: attribute dtype is i32, but there are %" PRId64 " places to count",
                    inv->row->info.name, n);
}

enum bp_status bp_infer_max_pool_with_index(struct bp_invocation *inv)
{
    const struct bp_max_pool_with_index_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    int64_t plane = 1;

    TRY(bp_pool_forward(inv, x, a, &inv->out[0]));
    inv->out[1].rank = inv->out[0].rank;
    memcpy(inv->out[1].shape, inv->out[0].shape, sizeof inv->out[0].shape);
    for (uint32_t i = 2; i < x->rank; i++) plane *= x->shape[i];
    TRY(bp_pool_index(inv, a->dtype, &inv->out[1]));
    return index_fits(inv, a->whole ? x->count : plane, &inv->out[1]);
}

enum bp_status bp_infer_max_pool_grad(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(bp_pool_forward(inv, bp_invocation_in(inv, 2), inv->attrs, &y));
    TRY(bp_shape_expect(inv, 0, &y));
    TRY(bp_shape_expect(inv, 1, &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 2));
    return BP_OK;
}

enum bp_status bp_infer_avg_pool_grad(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(bp_pool_forward(inv, bp_invocation_in(inv, 1), inv->attrs, &y));
    TRY(bp_shape_expect(inv, 0, &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 1));
    return BP_OK;
}

static int64_t spatial_count(const struct bp_tensor *x)
{
    int64_t n = 1;

    for (uint32_t i = 2; i < x->view.rank; i++) n *= x->shape[i];
    return n;
}

/* Builds the gradient from the positions of the largest elements; runs the pool again if index is
 * NULL. attrs: begin as those of max_pool. */
static enum bp_status by_index(struct bp_grad *g, const struct bp_max_pool_attrs *f,
                               struct bp_tensor *index)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_max_pool_with_index_attrs a = {.ceil_mode = f->ceil_mode, .adaptive = f->adaptive};
    struct bp_max_pool_grad_attrs back;
    struct bp_tensor *x = g->in[0], *out[2] = {NULL, index};

    memcpy(a.window, f->window, sizeof a.window);
    memcpy(a.stride, f->stride, sizeof a.stride);
    memcpy(a.dilation, f->dilation, sizeof a.dilation);
    memcpy(a.pad, f->pad, sizeof a.pad);
    a.size = sizeof a;
    a.dtype = spatial_count(x) <= INT32_MAX ? BP_I32 : BP_I64;
    memcpy(&back, &a, sizeof back);
    back.size = sizeof back;
    if (!index) bp_compose_outputs(&c, BP_ROW_max_pool_with_index, &a, &x, 1, 3, out);
    bp_compose_keep(&c, MAKE(&c, max_pool_grad, &back, g->dy[0], out[1], x), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_max_pool(struct bp_grad *g)
{
    return g->want[0] ? by_index(g, g->attrs, NULL) : BP_OK;
}

enum bp_status bp_grad_max_pool_with_index(struct bp_grad *g)
{
    const struct bp_max_pool_with_index_attrs *a = g->attrs;
    bool known = !a->whole && !a->column_major;

    if (!g->want[0] || !g->dy[0]) return BP_OK;
    return by_index(g, g->attrs, known ? g->out[1] : NULL);
}

/* Gathers again the elements that the windows selected. */
enum bp_status bp_grad_max_pool_grad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *d = g->dy[0], *index = g->in[1], *dy = g->in[0];
    struct bp_take_along_axis_attrs along = {.size = sizeof along, .axis = 2};
    int64_t from[] = {d->shape[0], d->shape[1], spatial_count(d)};
    int64_t to[] = {d->shape[0], d->shape[1], spatial_count(dy)};

    if (g->want[0]) {
        d = MAKE(&c, take_along_axis, &along, bp_compose_reshape(&c, d, 3, from),
                 bp_compose_reshape(&c, index, 3, to));
        bp_compose_keep(&c, bp_compose_reshape(&c, d, dy->view.rank, dy->shape), &g->dx[0]);
    }
    return bp_compose_end(&c);
}

/* avg_pool is linear: the two operators are each other's adjoint. */
enum bp_status bp_grad_avg_pool(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, avg_pool_grad, g->attrs, g->dy[0], g->in[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_avg_pool_grad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, avg_pool, g->attrs, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}
