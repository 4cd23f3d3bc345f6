/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: builds the plans of pools of up to three spatial axes. CNNL has pools of two axes, of
 * images with the channels last: images are transposed in front of the calls and behind them, and a
 * third axis gets a call of its own. */
#include "rows.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    POOL_PLACES = 1 << 22 /* the most places of windows that a plan lists */
};

/* A pool along one axis. */
struct pool_axis {
    int64_t n, out;                                  /* extents */
    int64_t window, stride, dilation, before, after; /* the operator's */
    int64_t given_window, given_before, given_after; /* as CNNL gets them */
    bool parts;                                      /* of an adaptive pool */
    bool apart; /* CNNL's integers cannot hold them: each output is a pool of its own */
};

struct pool {
    bool average, adaptive, include_pad;
    double divisor; /* 0: none */
    struct pool_axis axis[3];
    int64_t images, channels;
};

/* CNNL gets a window without the places that no output reads, and borders so wide that the last
 * window lies in them: so ceil_mode needs no option of CNNL. */
static void pool_fit(struct mlu_build *b, struct pool_axis *a)
{
    int64_t last = (a->out - 1) * a->stride, unread = 0, most, span;

    if (a->before > last) unread = (a->before - last) / a->dilation;
    if (unread > a->window - 1) unread = a->window - 1;
    a->given_before = a->before - unread * a->dilation;
    a->given_window = a->window - unread;
    most = (a->n + a->given_before + a->dilation - 1) / a->dilation;
    if (most < 1) most = 1;
    if (a->given_window > most) a->given_window = most;
    span = (a->given_window - 1) * a->dilation + 1;
    a->given_after = last + span - a->n - a->given_before;
    if (a->given_after < 0) a->given_after = 0;
    if (a->n > INT_MAX) mlu_refuse(b);
    a->apart = span > INT_MAX || a->given_before > INT_MAX || a->given_after > INT_MAX ||
               a->stride > INT_MAX;
    if (a->apart && a->out > MLU_PARTS) mlu_refuse(b);
}

/* An adaptive pool: output o of `out` has a part of x. CNNL has adaptive averages only. For maxima,
 * parts of one size are an ordinary pool. */
static void pool_fit_parts(struct mlu_build *b, struct pool_axis *a, bool average)
{
    a->parts = true;
    if (average) return;
    a->window = a->stride = a->given_window = a->n / a->out;
    a->apart = a->n % a->out != 0;
    if (a->n > INT_MAX || (a->apart && a->out > MLU_PARTS)) mlu_refuse(b);
}

/* The places of x in the window of output o. */
static struct mlu_cut pool_cut(const struct pool_axis *a, int64_t o)
{
    int64_t first = o * a->stride - a->before, skipped = 0, n;

    if (a->parts) {
        first = o * a->n / a->out;
        return (struct mlu_cut){first, ((o + 1) * a->n + a->out - 1) / a->out - first, 1};
    }
    if (first < 0) skipped = (-first + a->dilation - 1) / a->dilation;
    first += skipped * a->dilation;
    n = (a->n - first + a->dilation - 1) / a->dilation;
    if (n > a->window - skipped) n = a->window - skipped;
    return (struct mlu_cut){first, n, a->dilation < a->n ? a->dilation : a->n};
}

/* Reads the extents, and the attributes that all pools have, which come first in their structs.
 * attrs NULL: the adaptive pool. */
static void pool_read(struct mlu_build *b, const struct bp_max_pool_attrs *attrs,
                      const struct bp_view *x, const struct bp_view *y, struct pool *out)
{
    int spatial = x->rank - 2;

    out->images = x->shape[0];
    out->channels = x->shape[1];
    out->adaptive = !attrs || attrs->adaptive;
    if (!x->count) mlu_refuse(b);
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - spatial);
        struct pool_axis *a = &out->axis[i];
        *a = (struct pool_axis){1, 1, 1, 1, 1, 0, 0, 1, 0, 0, false, false};
        if (from < 0) continue;
        a->n = x->shape[2 + from];
        a->out = y->shape[2 + from];
        if (out->adaptive) {
            pool_fit_parts(b, a, out->average);
            continue;
        }
        a->window = attrs->window[from];
        a->stride = attrs->stride[from];
        a->dilation = attrs->dilation[from];
        a->before = attrs->pad[from];
        a->after = attrs->pad[3 + from];
        pool_fit(b, a);
    }
}

static int pool_call_forward(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlPoolingForward(r->handle, s->desc, NULL, mlu_desc(s, 0),
                                            mlu_address(r, s, 0), NULL, mlu_desc(s, 1),
                                            mlu_address(r, s, 1), mlu_work(r, s), s->work);
}

static int pool_call_adaptive(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlAdaptivePoolingForward_v2(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
        MLU_CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, mlu_work(r, s), s->work, mlu_desc(s, 1),
        mlu_address(r, s, 1), NULL, NULL);
}

/* CNNL's mode. Averages divide by the size of the window, or by the places that lie in x. */
static int pool_mode(const struct pool *p)
{
    if (!p->average) return MLU_CNNL_POOLING_MAX;
    return p->adaptive || p->include_pad || p->divisor != 0
               ? MLU_CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
               : MLU_CNNL_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

static void pool_adaptive(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y)
{
    const int mode = MLU_CNNL_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    struct mlu_step *s;
    size_t size = 0;
    int code;

    s = mlu_step_images(b, FN_cnnlAdaptivePoolingForward_v2, pool_call_adaptive, MLU_TENSORS(x, y),
                        MLU_CNNL_LAYOUT_NHWC);
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetAdaptivePoolingForwardWorkspaceSize(b->handle, mlu_desc(s, 0), mode,
                                                                    mlu_desc(s, 1), &size);
    mlu_step_reserve(b, s, FN_cnnlGetAdaptivePoolingForwardWorkspaceSize, code, size);
}

/* Gives a step the descriptor of a pool of two axes. */
static bool pool_describe(struct mlu_build *b, const struct pool *p, const struct pool_axis *rows,
                          const struct pool_axis *columns, struct mlu_step *s)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int code;

    if (!s || !mlu_build_check(b, FN_cnnlCreatePoolingDescriptor,
                               cnnl->cnnlCreatePoolingDescriptor(&s->desc)))
        return false;
    s->desc_destroy = FN_cnnlDestroyPoolingDescriptor;
    code = cnnl->cnnlSetPooling2dDescriptor_v2(
        s->desc, pool_mode(p), MLU_CNNL_PROPAGATE_NAN, (int)rows->given_window,
        (int)columns->given_window, (int)rows->given_before, (int)rows->given_after,
        (int)columns->given_before, (int)columns->given_after, (int)rows->stride,
        (int)columns->stride, (int)rows->dilation, (int)columns->dilation, false);
    return mlu_build_check(b, FN_cnnlSetPooling2dDescriptor_v2, code);
}

/* A pool of two axes, of images with the channels last. */
static void pool_two(struct mlu_build *b, const struct pool *p, const struct pool_axis *rows,
                     const struct pool_axis *columns, struct mlu_tensor x, struct mlu_tensor y)
{
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (p->adaptive && p->average) {
        pool_adaptive(b, x, y);
        return;
    }
    s = mlu_step_images(b, FN_cnnlPoolingForward, pool_call_forward, MLU_TENSORS(x, y),
                        MLU_CNNL_LAYOUT_NHWC);
    if (!pool_describe(b, p, rows, columns, s)) return;
    code = mlu_cnnl.call.cnnlGetPoolingWorkspaceSize(b->handle, pool_mode(p), (int)columns->out,
                                                     (int)rows->out, &size);
    mlu_step_reserve(b, s, FN_cnnlGetPoolingWorkspaceSize, code, size);
}

/* Each output of an axis by a pool of its own, over the places of x in its window. */
static void pool_apart(struct mlu_build *b, const struct pool *p, const struct pool_axis *a,
                       const struct pool_axis *same, struct mlu_tensor x, struct mlu_tensor y)
{
    const int64_t line[] = {x.shape[0], 1, x.shape[2] * x.shape[3]};
    struct mlu_tensor part[MLU_PARTS];

    for (int64_t o = 0; o < a->out && b->status == BP_OK; o++) {
        struct mlu_cut cut[4] = {
            {0, x.shape[0], 1}, pool_cut(a, o), {0, x.shape[2], 1}, {0, x.shape[3], 1}};
        struct pool_axis all = {.n = cut[1].n,
                                .out = 1,
                                .window = cut[1].n,
                                .stride = 1,
                                .dilation = 1,
                                .given_window = cut[1].n};
        struct mlu_tensor places;
        int64_t shape[4];
        if (cut[1].n < 1) mlu_refuse(b);
        if (b->status) return;
        memcpy(shape, x.shape, sizeof shape);
        shape[1] = cut[1].n;
        places = mlu_temporary(b, x.dtype, 4, shape);
        mlu_step_cut(b, x, places, cut);
        shape[1] = 1;
        part[o] = mlu_temporary(b, x.dtype, 4, shape);
        pool_two(b, p, &all, same, places, part[o]);
        part[o] = mlu_shaped(part[o], 3, line);
    }
    if (b->status == BP_OK)
        mlu_step_concat(b, (uint32_t)a->out, part,
                        mlu_shaped(y, 3, (int64_t[]){line[0], a->out, line[2]}));
}

/* Pools axis i of x, whose axes in front of it are pooled already. */
static struct mlu_tensor pool_along(struct mlu_build *b, const struct pool *p, int i,
                                    struct mlu_tensor x)
{
    const struct pool_axis *a = &p->axis[i];
    struct pool_axis same = {.window = 1, .stride = 1, .dilation = 1, .given_window = 1};
    int64_t outer = p->images, inner = 1;
    struct mlu_tensor y;

    for (int k = 0; k < i; k++) outer *= p->axis[k].out;
    for (int k = i + 1; k < 3; k++) inner *= p->axis[k].n;
    if (inner > INT_MAX) mlu_refuse(b);
    same.n = same.out = inner;
    x = mlu_shaped(x, 4, (int64_t[]){outer, a->n, inner, p->channels});
    y = mlu_temporary(b, x.dtype, 4, (int64_t[]){outer, a->out, inner, p->channels});
    if (a->apart) pool_apart(b, p, a, &same, x, y);
    else pool_two(b, p, a, &same, x, y);
    return y;
}

/* By how many elements output o of an axis is divided; 1 if a divisor takes the place of them. */
static double pool_count(const struct pool *p, const struct pool_axis *a, int64_t o)
{
    int64_t first = o * a->stride - a->before, n = 0, end = a->n + a->after;

    if (p->divisor != 0) return 1;
    if (a->parts || !p->include_pad) return (double)pool_cut(a, o).n;
    if (a->window * a->dilation > 0) n = (end - first + a->dilation - 1) / a->dilation;
    return (double)(n > a->window ? a->window : n);
}

/* The same over the number by which CNNL divides. */
static double pool_correction(const struct pool *p, const struct pool_axis *a, int64_t o)
{
    bool all = a->parts || a->apart;

    return pool_count(p, a, o) / (all ? (double)pool_cut(a, o).n : (double)a->given_window);
}

/* Fills in the number by which each output is to be divided; returns whether one is not 1. */
static bool pool_numbers(const struct pool *p,
                         double (*number)(const struct pool *, const struct pool_axis *, int64_t),
                         float *value)
{
    const struct pool_axis *a = p->axis;
    bool needed = false;
    int64_t at = 0;

    for (int64_t i = 0; i < a[0].out; i++)
        for (int64_t j = 0; j < a[1].out; j++)
            for (int64_t k = 0; k < a[2].out; k++, at++) {
                value[at] = (float)(number(p, &a[0], i) * number(p, &a[1], j) *
                                    number(p, &a[2], k) * (p->divisor != 0 ? p->divisor : 1));
                needed |= value[at] != 1.0f;
            }
    return needed;
}

/* Whether CNNL divides by other numbers. */
static bool pool_is_corrected(const struct pool *p)
{
    return p->average && (p->divisor != 0 || (p->include_pad && !p->adaptive));
}

/* Divides each output by its number. */
static struct mlu_tensor pool_divide(struct mlu_build *b, const struct pool *p,
                                     double (*number)(const struct pool *, const struct pool_axis *,
                                                      int64_t),
                                     struct mlu_tensor x)
{
    int64_t places = p->axis[0].out * p->axis[1].out * p->axis[2].out;
    float *value = malloc((size_t)places * sizeof *value);
    struct mlu_tensor y, numbers;

    if (!value) {
        mlu_refuse(b);
        return x;
    }
    if (pool_numbers(p, number, value)) {
        numbers = mlu_constant(b, BP_F32, 3, (int64_t[]){1, places, 1}, value);
        x = mlu_shaped(x, 3, (int64_t[]){p->images, places, p->channels});
        y = mlu_temporary(b, BP_F32, 3, x.shape);
        mlu_step_divide(b, x, numbers, y);
        x = y;
    }
    free(value);
    return x;
}

static void pool_build(struct mlu_build *b, const struct pool *p)
{
    static const int last[] = {0, 2, 1}, first[] = {0, 2, 1};
    const struct pool_axis *a = p->axis;
    int64_t n = p->images, c = p->channels, places = a[0].n * a[1].n * a[2].n;
    bool alone = b->prep->in[0]->rank == 5 || a[1].apart || a[2].apart;
    struct mlu_tensor x, y;

    if (b->status) return;
    x = mlu_temporary(b, b->prep->in[0]->dtype, 3, (int64_t[]){n, places, c});
    mlu_step_transpose(b, mlu_shaped(mlu_in(b, 0), 3, (int64_t[]){n, c, places}), x, last);
    if (alone) {
        y = x;
        for (int i = 5 - b->prep->in[0]->rank; i < 3; i++) y = pool_along(b, p, i, y);
    } else {
        y = mlu_temporary(b, x.dtype, 4, (int64_t[]){n, a[1].out, a[2].out, c});
        pool_two(b, p, &a[1], &a[2], mlu_shaped(x, 4, (int64_t[]){n, a[1].n, a[2].n, c}), y);
    }
    places = a[0].out * a[1].out * a[2].out;
    if (pool_is_corrected(p)) y = pool_divide(b, p, pool_correction, y);
    mlu_step_transpose(b, mlu_shaped(y, 3, (int64_t[]){n, places, c}),
                       mlu_shaped(mlu_out(b, 0), 3, (int64_t[]){n, c, places}), first);
}

void mlu_build_max_pool(struct mlu_build *b)
{
    struct pool p = {.average = false};

    pool_read(b, b->prep->attrs, b->prep->in[0], b->prep->out[0], &p);
    pool_build(b, &p);
}

void mlu_build_avg_pool(struct mlu_build *b)
{
    const struct bp_avg_pool_attrs *attrs = b->prep->attrs;
    struct pool p = {
        .average = true, .include_pad = attrs->include_pad != 0, .divisor = attrs->divisor};

    pool_read(b, b->prep->attrs, b->prep->in[0], b->prep->out[0], &p);
    pool_build(b, &p);
}

void mlu_build_adaptive_avg_pool(struct mlu_build *b)
{
    struct pool p = {.average = true};

    pool_read(b, NULL, b->prep->in[0], b->prep->out[0], &p);
    pool_build(b, &p);
}

static int pool_call_backward(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlPoolingBackward(
        r->handle, s->desc, NULL, NULL, NULL, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), NULL, mlu_desc(s, 2), mlu_address(r, s, 2));
}

/* The gradient of a pool of two axes. CNNL takes x, on whose values the gradient of an average does
 * not depend: x is filled with zeros, so that the caller's x, which may have other strides, is not
 * read. */
static void pool_two_back(struct mlu_build *b, const struct pool *p, const struct pool_axis *rows,
                          const struct pool_axis *columns, struct mlu_tensor dy,
                          struct mlu_tensor dx)
{
    struct mlu_tensor x = mlu_temporary(b, dx.dtype, 4, dx.shape);

    mlu_step_fill(b, 0, mlu_flat(x));
    pool_describe(b, p, rows, columns,
                  mlu_step_images(b, FN_cnnlPoolingBackward, pool_call_backward,
                                  MLU_TENSORS(dy, x, dx), MLU_CNNL_LAYOUT_NHWC));
}

/* How many places the windows of an axis have in x together; 0: too many. */
static int64_t pool_places(const struct pool_axis *a)
{
    int64_t n = 0;

    for (int64_t o = 0; o < a->out; o++) {
        struct mlu_cut cut = pool_cut(a, o);
        if (cut.n < 1 || cut.n > POOL_PLACES - n) return 0;
        n += cut.n;
    }
    return n;
}

/* The gradient of sums along axis i of x: each element of dy is added to the places of its
 * window. */
static struct mlu_tensor pool_back_along(struct mlu_build *b, const struct pool *p, int i,
                                         struct mlu_tensor dy)
{
    const struct pool_axis *a = &p->axis[i];
    int64_t outer = p->images, inner = p->channels, at = 0, n = pool_places(a);
    struct mlu_tensor zeros, share, dx;
    int32_t *from = malloc((size_t)n * 2 * sizeof *from + 1);

    for (int k = 0; k < i; k++) outer *= p->axis[k].out;
    for (int k = i + 1; k < 3; k++) inner *= p->axis[k].n;
    zeros = mlu_temporary(b, dy.dtype, 3, (int64_t[]){outer, a->n, inner});
    dx = mlu_temporary(b, dy.dtype, 3, zeros.shape);
    share = mlu_temporary(b, dy.dtype, 3, (int64_t[]){outer, n, inner});
    if (!n || !from) mlu_refuse(b);
    for (int64_t o = 0; o < a->out && b->status == BP_OK; o++) {
        struct mlu_cut cut = pool_cut(a, o);
        for (int64_t k = 0; k < cut.n; k++, at++) {
            from[at] = (int32_t)o;
            from[n + at] = (int32_t)(cut.first + k * cut.step);
        }
    }
    if (b->status == BP_OK) {
        mlu_step_select(b, mlu_shaped(dy, 3, (int64_t[]){outer, a->out, inner}),
                        mlu_constant(b, BP_I32, 1, &n, from), share);
        mlu_step_fill(b, 0, mlu_flat(zeros));
        mlu_step_index_add(b, zeros, mlu_constant(b, BP_I32, 1, &n, from + n), share, dx);
    }
    free(from);
    return dx;
}

/* Whether one call of CNNL does: of one or two axes, with numbers by which CNNL divides, for a
 * second division would round once more. Parts of one size of an adaptive pool are windows. */
static bool pool_fits_back(struct mlu_build *b, struct pool *p)
{
    bool fits = b->prep->in[1]->rank < 5 && !pool_is_corrected(p);

    for (int i = 0; i < 3; i++) {
        struct pool_axis *a = &p->axis[i];
        if (a->n > INT_MAX) mlu_refuse(b);
        if (a->parts && a->n % a->out == 0) {
            a->window = a->stride = a->given_window = a->n / a->out;
            a->parts = false;
        }
        fits = fits && !a->parts && !a->apart;
    }
    return fits;
}

void mlu_build_avg_pool_grad(struct mlu_build *b)
{
    static const int last[] = {0, 2, 1}, first[] = {0, 2, 1};
    const struct bp_avg_pool_grad_attrs *attrs = b->prep->attrs;
    struct pool p = {
        .average = true, .include_pad = attrs->include_pad != 0, .divisor = attrs->divisor};
    struct pool_axis *a = p.axis;
    int64_t places, out;
    struct mlu_tensor t;
    bool fits;

    pool_read(b, b->prep->attrs, b->prep->in[1], b->prep->in[0], &p);
    fits = pool_fits_back(b, &p);
    if (b->status) return;
    places = a[0].n * a[1].n * a[2].n;
    out = a[0].out * a[1].out * a[2].out;
    t = mlu_temporary(b, BP_F32, 3, (int64_t[]){p.images, out, p.channels});
    mlu_step_transpose(b, mlu_shaped(mlu_in(b, 0), 3, (int64_t[]){p.images, p.channels, out}), t,
                       last);
    if (fits) {
        struct mlu_tensor dx = mlu_temporary(b, BP_F32, 4,
                                             (int64_t[]){p.images, a[1].n, a[2].n, p.channels});
        t = mlu_shaped(t, 4, (int64_t[]){p.images, a[1].out, a[2].out, p.channels});
        pool_two_back(b, &p, &a[1], &a[2], t, dx);
        t = dx;
    } else {
        t = pool_divide(b, &p, pool_count, t);
        for (int i = 2; i >= 5 - (int)b->prep->in[1]->rank; i--) t = pool_back_along(b, &p, i, t);
    }
    mlu_step_transpose(b, mlu_shaped(t, 3, (int64_t[]){p.images, places, p.channels}),
                       mlu_shaped(mlu_out(b, 0), 3, (int64_t[]){p.images, p.channels, places}),
                       first);
}

/* The places of x in the windows of a pool with indices, as a list for each output: `place` counts
 * in x without its borders, `index` as the caller wants it. Lists have one length: they end with
 * places outside of x, so that of equal values a place in x comes first. */
struct pool_lists {
    int64_t out, taps, places;
    int32_t *place, *index;
};

/* Lists the window of output o, whose coordinates are at[]. Returns how many places it has. */
static int64_t pool_list(const struct pool *p, const int64_t at[3], bool column_major,
                         int32_t *place, int32_t *index)
{
    const struct pool_axis *a = p->axis;
    struct mlu_cut cut[3] = {pool_cut(&a[0], at[0]), pool_cut(&a[1], at[1]),
                             pool_cut(&a[2], at[2])};
    int64_t n = 0;

    for (int64_t i = 0; i < cut[0].n; i++)
        for (int64_t j = 0; j < cut[1].n; j++)
            for (int64_t k = 0; k < cut[2].n; k++, n++) {
                int64_t x = cut[0].first + i * cut[0].step, y = cut[1].first + j * cut[1].step;
                int64_t z = cut[2].first + k * cut[2].step;
                if (!place) continue;
                place[n] = (int32_t)((x * a[1].n + y) * a[2].n + z);
                index[n] = column_major ? (int32_t)((z * a[1].n + y) * a[0].n + x) : place[n];
            }
    return n;
}

/* Makes the lists; returns false if there are too many places. */
static bool pool_lists_init(struct pool_lists *l, const struct pool *p, bool column_major)
{
    const struct pool_axis *a = p->axis;
    int64_t at[3];

    *l = (struct pool_lists){.out = a[0].out * a[1].out * a[2].out, .taps = 1};
    l->places = a[0].n * a[1].n * a[2].n;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t o = 0; o < l->out; o++) {
            int32_t *place = pass ? l->place + o * l->taps : NULL, *index = NULL;
            int64_t n;
            at[0] = o / (a[1].out * a[2].out);
            at[1] = o / a[2].out % a[1].out;
            at[2] = o % a[2].out;
            if (pass) index = l->index + o * l->taps;
            n = pool_list(p, at, column_major, place, index);
            if (n < 1) return false;
            if (n > l->taps) l->taps = n;
            for (; pass && n < l->taps; n++) {
                place[n] = (int32_t)l->places;
                index[n] = -1;
            }
        }
        if (pass || l->taps > POOL_PLACES / l->out || l->places >= INT32_MAX) break;
        l->place = calloc((size_t)(l->out * l->taps), sizeof *l->place);
        l->index = calloc((size_t)(l->out * l->taps), sizeof *l->index);
        if (!l->place || !l->index) break;
    }
    return l->place && l->index;
}

static void pool_lists_finish(struct pool_lists *l)
{
    free(l->place);
    free(l->index);
}

static int pool_call_largest(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlTopKTensor_v3(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), 1, 2, true, true, true, mlu_work(r, s),
        s->work, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2));
}

static int pool_call_index(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlGather_v2(r->handle, 2, mlu_desc(s, 0), mlu_address(r, s, 0),
                                       mlu_desc(s, 1), mlu_address(r, s, 1), mlu_work(r, s),
                                       s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

/* y = the largest of each list, tap = where in the list it is. */
static void pool_largest(struct mlu_build *b, struct mlu_tensor lists, struct mlu_tensor y,
                         struct mlu_tensor tap)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlTopKTensor_v3, pool_call_largest,
                                  MLU_TENSORS(lists, y, tap));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetTopKTensorWorkspaceSize(b->handle, mlu_desc(s, 0), 1, 2, true,
                                                        mlu_desc(s, 1), mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetTopKTensorWorkspaceSize, code, size);
}

/* index = the entry of the lists' indices at tap. With `whole` each channel has indices of its
 * own: they are images * channels apart. */
static void pool_index(struct mlu_build *b, const struct pool *p, const struct pool_lists *l,
                       bool whole, struct mlu_tensor tap, struct mlu_tensor index)
{
    int64_t images = p->images * p->channels, n = l->out * l->taps;
    const int64_t all[] = {images, l->out, l->taps};
    struct mlu_tensor table = mlu_temporary(b, BP_I32, 3, all);
    struct mlu_step *s;
    size_t size = 0;
    int code;

    if (!whole) {
        mlu_step_unary(b, FN_cnnlExpand,
                       mlu_constant(b, BP_I32, 3, (int64_t[]){1, l->out, l->taps}, l->index),
                       table);
    } else {
        int32_t *each = images > POOL_PLACES / n || images * l->places >= INT32_MAX
                            ? NULL
                            : malloc((size_t)(images * n) * sizeof *each);
        if (!each) mlu_refuse(b);
        for (int64_t i = 0; each && i < images * n; i++)
            each[i] = (int32_t)(i / n * l->places) + l->index[i % n];
        if (each) table = mlu_constant(b, BP_I32, 3, all, each);
        free(each);
    }
    s = mlu_step(b, FN_cnnlGather_v2, pool_call_index, MLU_TENSORS(table, tap, index));
    if (!s) return;
    code = mlu_cnnl.call.cnnlGetGatherWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                    mlu_desc(s, 2), 2, &size);
    mlu_step_reserve(b, s, FN_cnnlGetGatherWorkspaceSize, code, size);
}

/* How CNNL counts the indices of its own function is not known: the windows are listed, and the
 * largest of each list is taken. */
static void pool_with_index(struct mlu_build *b, const struct pool *p, const struct pool_lists *l,
                            bool whole)
{
    const uint32_t dtype = b->prep->in[0]->dtype;
    int64_t images = p->images * p->channels, n = l->out * l->taps;
    const int64_t picked[] = {images, l->out, 1};
    struct mlu_tensor part[2], x, lists, tap = mlu_temporary(b, BP_I32, 3, picked);

    part[0] = mlu_shaped(mlu_in(b, 0), 3, (int64_t[]){images, l->places, 1});
    part[1] = mlu_temporary(b, dtype, 3, (int64_t[]){images, 1, 1});
    x = mlu_temporary(b, dtype, 3, (int64_t[]){images, l->places + 1, 1});
    lists = mlu_temporary(b, dtype, 3, (int64_t[]){images, n, 1});
    mlu_step_fill(b, dtype == BP_I32 ? INT32_MIN : -INFINITY, mlu_flat(part[1]));
    mlu_step_concat(b, 2, part, x);
    mlu_step_select(b, x, mlu_constant(b, BP_I32, 1, &n, l->place), lists);
    pool_largest(b, mlu_shaped(lists, 3, (int64_t[]){images, l->out, l->taps}),
                 mlu_shaped(mlu_out(b, 0), 3, picked), tap);
    pool_index(b, p, l, whole, tap, mlu_shaped(mlu_out(b, 1), 3, picked));
}

void mlu_build_max_pool_with_index(struct mlu_build *b)
{
    const struct bp_max_pool_with_index_attrs *attrs = b->prep->attrs;
    struct pool p = {.average = true}; /* parts of an adaptive pool stay parts */
    struct pool_lists lists = {0};

    pool_read(b, b->prep->attrs, b->prep->in[0], b->prep->out[0], &p);
    if (b->status) return;
    if (!pool_lists_init(&lists, &p, attrs->column_major != 0)) mlu_refuse(b);
    else pool_with_index(b, &p, &lists, attrs->whole != 0);
    pool_lists_finish(&lists);
}

/* share = dy where the index names the place of a list, else 0. */
static void pool_share(struct mlu_build *b, struct mlu_tensor index, struct mlu_tensor table,
                       struct mlu_tensor dy, struct mlu_tensor share)
{
    struct mlu_tensor is = mlu_temporary(b, BP_BOOL, 3, share.shape);
    struct mlu_tensor zero = mlu_temporary(b, dy.dtype, 3, (int64_t[]){1, 1, 1});

    mlu_step_equal(b, index, table, is);
    mlu_step_fill(b, 0, mlu_flat(zero));
    mlu_step_where(b, is, dy, zero, share);
}

/* dy counts where its window has the place that its index names: the places of all windows are
 * listed, and get dy or 0. */
static void pool_back_lists(struct mlu_build *b, const struct pool *p, const struct pool_lists *l)
{
    const uint32_t dtype = b->prep->in[0]->dtype;
    int64_t images = p->images * p->channels, n = l->out * l->taps, behind = l->places + 1;
    const int64_t lists[] = {images, l->out, l->taps}, picked[] = {images, l->out, 1};
    const int64_t line[] = {images, n, 1}, all[] = {images, behind, 1};
    struct mlu_tensor share = mlu_temporary(b, dtype, 3, lists);
    struct mlu_tensor zeros = mlu_temporary(b, dtype, 3, all);
    struct mlu_tensor sum = mlu_temporary(b, dtype, 3, all);

    pool_share(b, mlu_shaped(mlu_in(b, 1), 3, picked),
               mlu_constant(b, BP_I32, 3, (int64_t[]){1, l->out, l->taps}, l->index),
               mlu_shaped(mlu_in(b, 0), 3, picked), share);
    mlu_step_fill(b, 0, mlu_flat(zeros));
    mlu_step_index_add(b, zeros, mlu_constant(b, BP_I32, 1, &n, l->place),
                       mlu_shaped(share, 3, line), sum);
    mlu_step_cut(b, sum, mlu_shaped(mlu_out(b, 0), 3, (int64_t[]){images, l->places, 1}),
                 (struct mlu_cut[]){{0, images, 1}, {0, l->places, 1}, {0, 1, 1}});
}

void mlu_build_max_pool_grad(struct mlu_build *b)
{
    struct pool p = {.average = true}; /* parts of an adaptive pool stay parts */
    struct pool_lists lists = {0};

    if (!b->prep->in[0]->count) {
        mlu_step_fill(b, 0, mlu_flat(mlu_out(b, 0)));
        return;
    }
    pool_read(b, b->prep->attrs, b->prep->out[0], b->prep->in[0], &p);
    if (b->status) return;
    if (!pool_lists_init(&lists, &p, false)) mlu_refuse(b);
    else pool_back_lists(b, &p, &lists);
    pool_lists_finish(&lists);
}
