/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes lp_normalize, mean_variance_normalization and lrn into other
 * operators. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <math.h>

enum bp_status bp_decompose_lp_normalize(struct bp_decomposition *e)
{
    const struct bp_lp_normalize_attrs *a = e->attrs;
    struct bp_norm_attrs norm = {.size = sizeof norm, .axes = {&a->axis, 1}, .keep = 1, .p = a->p};
    struct bp_clip_attrs least = {.size = sizeof least, .min = a->epsilon, .max = INFINITY};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);
    struct bp_tensor *size = MAKE(&c, clip, &least, MAKE(&c, norm, &norm, x));

    if ((float)a->epsilon == 0) size = bp_compose_not_zero(&c, size);
    return bp_compose_give(e, &c, MAKE(&c, div, NULL, x, size));
}

enum bp_status bp_decompose_mean_variance(struct bp_decomposition *e)
{
    const struct bp_mean_variance_normalization_attrs *a = e->attrs;
    struct bp_mean_attrs mean = {.size = sizeof mean, .axes = a->axes, .keep = 1};
    struct bp_std_attrs deviation = {.size = sizeof deviation, .axes = a->axes, .keep = 1};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);
    struct bp_tensor *d = MAKE(&c, sub, NULL, x, MAKE(&c, mean, &mean, x));
    struct bp_tensor *s = MAKE(&c, std, &deviation, x);

    return bp_compose_give(e, &c, MAKE(&c, div, NULL, d, bp_compose_scale(&c, s, 1, a->epsilon)));
}

/* Returns t, which has n channels, shifted by `by` channels towards the last one; zeros fill the
 * channels that become free. */
static struct bp_tensor *norm_shifted(struct bp_compose *c, struct bp_tensor *t, int64_t by,
                                      int64_t n)
{
    static const int64_t axis = 1;
    int64_t from = by < 0 ? -by : 0, to = by < 0 ? n : n - by, low = by < 0 ? 0 : by,
            high = by < 0 ? n + by : n;
    struct bp_slice_attrs part = {.size = sizeof part, .starts = {&from, 1}, .ends = {&to, 1},
                                  .axes = {&axis, 1}};
    struct bp_slice_grad_attrs put = {.size = sizeof put, .starts = {&low, 1}, .ends = {&high, 1},
                                      .axes = {&axis, 1}};

    return by ? MAKE(c, slice_grad, &put, MAKE(c, slice, &part, t), t) : t;
}

/* Returns the sum of n channels of t: for each channel, that with `first` channels distance and the
 * n - 1 after it (sign -1) or before it (sign 1). Each sum of 2, 4 or 8 channels is made from two
 * of the sums before; the bits of n select the sums to add. */
static struct bp_tensor *run_of(struct bp_compose *c, struct bp_tensor *t, int64_t sign,
                                int64_t first, int64_t n, int64_t channels)
{
    struct bp_tensor *sum = NULL, *part;

    for (int64_t bit = 1; bit <= n && !c->status; bit *= 2) {
        if (n & bit) {
            part = norm_shifted(c, t, sign * first, channels);
            sum = sum ? MAKE(c, add, NULL, sum, part) : part;
            first += bit;
        }
        if (2 * bit <= n) t = MAKE(c, add, NULL, t, norm_shifted(c, t, sign * bit, channels));
    }
    return sum;
}

/* x e^(-beta log(bias + alpha / window s)). A window with more channels than x is cut. */
enum bp_status bp_decompose_lrn(struct bp_decomposition *e)
{
    const struct bp_lrn_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *square, *s;
    int64_t n = e->in[0]->shape[1], below = (a->window - 1) / 2, above = a->window / 2;

    if (below >= n) below = n ? n - 1 : 0;
    if (above >= n) above = n ? n - 1 : 0;
    square = MAKE(&c, mul, NULL, x, x);
    s = run_of(&c, square, -1, 0, above + 1, n);
    if (below > 0) s = MAKE(&c, add, NULL, s, run_of(&c, square, 1, 1, below, n));
    s = MAKE(&c, log, NULL, bp_compose_scale(&c, s, a->alpha / (double)a->window, a->bias));
    s = MAKE(&c, exp, NULL, bp_compose_scale(&c, s, -a->beta, 0));
    return bp_compose_give(e, &c, MAKE(&c, mul, NULL, x, s));
}
