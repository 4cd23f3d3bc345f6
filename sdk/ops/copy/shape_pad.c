/* SPDX-License-Identifier: Apache-2.0 */
/* shape_pad.c: has the rules of pad and its gradients: axis by axis, the gradient of a border is
 * added to the elements that the border was copied from. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

enum {
    PAD_VALUE,
    PAD_REFLECT,
    PAD_REPLICATE,
    PAD_CIRCULAR,
    PAD_MODES
};

enum bp_status bp_values_pad(const void *attrs)
{
    const struct bp_pad_attrs *a = attrs;

    if (a->mode >= 0 && a->mode < PAD_MODES) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "pad: attribute mode is %" PRId64
                    ", expected 0 (value), 1 (reflect), 2 (replicate) or 3 (circular)",
                    a->mode);
}

/* Checks a border of an axis of extent n. */
static enum bp_status check_border(const char *which, uint32_t axis, int64_t border, int64_t n,
                                   int64_t mode)
{
    int64_t most = mode == PAD_REFLECT ? (n ? n - 1 : 0) : mode == PAD_CIRCULAR ? n : INT64_MAX;

    if (mode == PAD_REPLICATE && !n) most = 0;
    if (border <= most && border >= -(INT64_MAX / 2)) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "pad: %s[%u] is %" PRId64 ", expected at most %" PRId64 " for mode %" PRId64
                    " and the extent %" PRId64 " of x, and no less than -2^62",
                    which, axis, border, most, mode, n);
}

enum bp_status bp_infer_pad(struct bp_invocation *inv)
{
    const struct bp_pad_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type *out = &inv->out[0];

    if ((a->before.n && a->before.n != x->rank) || (a->after.n && a->after.n != x->rank))
        return bp_error(BP_ERR_INVALID,
                        "pad: before has %" PRId64 " entries and after %" PRId64
                        ", expected %u, one for each axis of x, or none",
                        a->before.n, a->after.n, x->rank);
    bp_shape_copy(out, x);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t before = a->before.n ? a->before.at[i] : 0, after = a->after.n ? a->after.at[i] : 0;
        TRY(check_border("before", i, before, x->shape[i], a->mode));
        TRY(check_border("after", i, after, x->shape[i], a->mode));
        if (__builtin_add_overflow(before, after, &after) ||
            __builtin_add_overflow(x->shape[i], after, &out->shape[i]) || out->shape[i] < 0)
            return bp_error(BP_ERR_INVALID,
                            "pad: axis %u of extent %" PRId64 " and its borders add up to %" PRId64
                            ", expected 0 to 2^63 - 1",
                            i, x->shape[i], out->shape[i]);
    }
    return BP_OK;
}

/* An axis of a tensor, and the tensor's rank. */
struct line {
    int64_t rank, axis;
};

/* Adds this many zeros before and after t, along the axis. */
static struct bp_tensor *pad_bordered(struct bp_compose *c, struct bp_tensor *t, struct line l,
                                      int64_t before, int64_t after)
{
    int64_t low[BP_RANK_MAX] = {0}, high[BP_RANK_MAX] = {0};
    struct bp_pad_attrs a = {.size = sizeof a, .before = {low, l.rank}, .after = {high, l.rank}};

    low[l.axis] = before;
    high[l.axis] = after;
    return MAKE(c, pad, &a, t);
}

/* Takes a border's gradient, n elements from `from` on, and moves it to the elements that the
 * border was copied from, from `to` on; the result has `extent` elements along the axis. */
static struct bp_tensor *given_back(struct bp_compose *c, struct bp_tensor *d, struct line l,
                                    int64_t mode, int64_t from, int64_t n, int64_t to,
                                    int64_t extent)
{
    int64_t end = from + n;
    struct bp_slice_attrs part = {
        .size = sizeof part, .starts = {&from, 1}, .ends = {&end, 1}, .axes = {&l.axis, 1}};
    struct bp_flip_attrs turn = {.size = sizeof turn, .axes = {&l.axis, 1}};

    d = MAKE(c, slice, &part, d);
    if (mode == PAD_REFLECT) d = MAKE(c, flip, &turn, d);
    if (mode == PAD_REPLICATE) d = bp_compose_sum(c, d, &l.axis, 1, true);
    return pad_bordered(c, d, l, to, extent - to - (mode == PAD_REPLICATE ? 1 : n));
}

static struct bp_tensor *pad_unpad(struct bp_compose *c, struct bp_tensor *d, struct line l,
                                   int64_t mode, int64_t n, int64_t before, int64_t after)
{
    int64_t all = n + before + after, low = before < all ? before : all,
            high = after < all ? after : all, to;
    struct bp_tensor *sum = pad_bordered(c, d, l, -before, -after);

    if (mode != PAD_VALUE && low > 0) {
        to = mode == PAD_REFLECT ? before - low + 1 : mode == PAD_CIRCULAR ? n - before : 0;
        sum = MAKE(c, add, NULL, sum, given_back(c, d, l, mode, 0, low, to, n));
    }
    if (mode != PAD_VALUE && high > 0) {
        to = mode == PAD_REFLECT ? n - 1 - after : mode == PAD_CIRCULAR ? after - high : n - 1;
        sum = MAKE(c, add, NULL, sum, given_back(c, d, l, mode, all - high, high, to, n));
    }
    return sum;
}

/* Computes the gradient for borders that copy elements. Half types are rounded once. */
static enum bp_status grad_modes(struct bp_grad *g, const struct bp_pad_attrs *f)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *d = bp_compose_widen(&c, g->dy[0]);

    for (int64_t i = 0; i < x->view.rank; i++) {
        int64_t before = f->before.n ? f->before.at[i] : 0, after = f->after.n ? f->after.at[i] : 0;
        if (!before && !after) continue;
        d = pad_unpad(&c, d, (struct line){x->view.rank, i}, f->mode, x->shape[i], before, after);
    }
    bp_compose_keep(&c, bp_compose_cast(&c, d, x->view.dtype), &g->dx[0]);
    return bp_compose_end(&c);
}

/* The border of a constant value is cut off from dy, along all axes in one call. */
enum bp_status bp_grad_pad(struct bp_grad *g)
{
    const struct bp_pad_attrs *f = g->attrs;
    int64_t low[BP_RANK_MAX], high[BP_RANK_MAX];
    struct bp_pad_attrs a = {
        .size = sizeof a, .before = {low, f->before.n}, .after = {high, f->after.n}};
    struct bp_compose c = bp_compose_begin(g->scope);

    if (!g->want[0]) return BP_OK;
    if (f->mode != PAD_VALUE) return grad_modes(g, f);
    for (int64_t i = 0; i < f->before.n; i++) low[i] = -f->before.at[i];
    for (int64_t i = 0; i < f->after.n; i++) high[i] = -f->after.at[i];
    bp_compose_keep(&c, MAKE(&c, pad, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}
