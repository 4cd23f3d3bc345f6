/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of convolution and its gradients. All three are sums
 * over one set of products x w -> y: two of the arrays are inputs and the third is added up. */
#include "../common/reference.h"
#include <math.h>

/* A convolution in three spatial axes; axes that an array lacks have extent 1. */
struct geometry {
    int64_t batch, channels, filters, groups;
    int64_t in[3], window[3], out[3], stride[3], dilation[3], before[3];
};

static struct geometry geometry_of(const struct ref_array *x, const struct ref_array *w,
                                   const struct bp_conv_attrs *a)
{
    struct geometry g = {x->shape[0], x->shape[1], w->shape[0], a->groups, {1, 1, 1},
                         {1, 1, 1},   {1, 1, 1},   {1, 1, 1},   {1, 1, 1}, {0, 0, 0}};

    for (int i = 0; i < x->rank - 2; i++) {
        g.in[i] = x->shape[i + 2];
        g.window[i] = w->shape[i + 2];
        g.stride[i] = a->stride[i];
        g.dilation[i] = a->dilation[i];
        g.before[i] = a->pad[i];
        g.out[i] = (g.in[i] + a->pad[i] + a->pad[i + 3] - g.dilation[i] * (g.window[i] - 1) - 1) /
                       g.stride[i] +
                   1;
    }
    return g;
}

/* A function that is called with the indices of every product. */
typedef void product_fn(void *ctx, int64_t x, int64_t w, int64_t y);

/* Calls `each` for the products of one output element and one channel of the window. */
static void ref_conv_window(const struct geometry *g, const int64_t *o, int64_t x, int64_t w,
                            int64_t y, product_fn *each, void *ctx)
{
    int64_t k[3] = {0}, n = g->window[0] * g->window[1] * g->window[2];

    for (int64_t i = 0; i < n; i++, ref_next(3, g->window, k)) {
        int64_t at = 0;
        bool inside = true;
        for (int axis = 0; axis < 3; axis++) {
            int64_t p = o[axis] * g->stride[axis] + k[axis] * g->dilation[axis] - g->before[axis];
            inside = inside && p >= 0 && p < g->in[axis];
            at = at * g->in[axis] + p;
        }
        if (inside) each(ctx, x + at, w + i, y);
    }
}

static void ref_conv_products(const struct geometry *g, product_fn *each, void *ctx)
{
    int64_t in_size = g->in[0] * g->in[1] * g->in[2],
            w_size = g->window[0] * g->window[1] * g->window[2];
    int64_t out_size = g->out[0] * g->out[1] * g->out[2], in_group = g->channels / g->groups;

    for (int64_t n = 0; n < g->batch; n++)
        for (int64_t m = 0; m < g->filters; m++) {
            int64_t first = m / (g->filters / g->groups) * in_group, o[3] = {0};
            for (int64_t i = 0; i < out_size; i++, ref_next(3, g->out, o))
                for (int64_t c = 0; c < in_group; c++)
                    ref_conv_window(g, o, (n * g->channels + first + c) * in_size,
                                    (m * in_group + c) * w_size,
                                    (n * g->filters + m) * out_size + i, each, ctx);
        }
}

struct sum {
    const long double *x, *w, *y; /* the two of the three arrays that are inputs */
    struct ref_array *out;
    int64_t *terms; /* number of terms of each element of out */
};

static void ref_conv_add(struct sum *s, int64_t i, long double product)
{
    s->out->v[i] += product;
    s->out->bound[i] += fabsl(product);
    s->terms[i]++;
}

static void add_x(void *ctx, int64_t x, int64_t w, int64_t y)
{
    struct sum *s = ctx;
    ref_conv_add(s, x, s->y[y] * s->w[w]);
}

static void add_w(void *ctx, int64_t x, int64_t w, int64_t y)
{
    struct sum *s = ctx;
    ref_conv_add(s, w, s->y[y] * s->x[x]);
}

/* Adds up all products, and multiplies each element's bound by the growth for its number of
 * terms. */
static void add_up(const struct geometry *g, product_fn *each, struct sum *s)
{
    struct ref_array terms;

    ref_array_init(&terms, BP_I64, s->out->rank, s->out->shape);
    s->terms = (int64_t *)terms.u;
    ref_conv_products(g, each, s);
    for (int64_t i = 0; i < s->out->count; i++)
        s->out->bound[i] *= ref_growth(s->terms[i] - 1);
    ref_array_finish(&terms);
}

/* One element of y: its sum so far, the sum of the magnitudes of its terms, and their number. */
struct element {
    long double sum, size;
    int64_t terms;
};

/* Adds the products of one window of one channel, as ref_conv_window does. Tests of whole networks
 * use this function: it keeps its sums in registers and needs a quarter of the time. */
static void add_window(const struct geometry *g, const int64_t *first, const long double *x,
                       const long double *w, struct element *out)
{
    struct element e = *out;
    int64_t p0 = first[0];

    for (int64_t i = 0; i < g->window[0]; i++, p0 += g->dilation[0]) {
        int64_t p1 = first[1];
        for (int64_t j = 0; j < g->window[1]; j++, p1 += g->dilation[1]) {
            int64_t p2 = first[2];
            for (int64_t k = 0; k < g->window[2]; k++, p2 += g->dilation[2], w++) {
                if (p0 < 0 || p0 >= g->in[0] || p1 < 0 || p1 >= g->in[1] || p2 < 0 ||
                    p2 >= g->in[2])
                    continue;
                long double product = x[(p0 * g->in[1] + p1) * g->in[2] + p2] * *w;
                e.sum += product;
                e.size += fabsl(product);
                e.terms++;
            }
        }
    }
    *out = e;
}

/* Computes one filter on one image, starting from its bias if it has one. */
static void ref_conv_plane(const struct geometry *g, const long double *x, const long double *w,
                           const long double *bias, long double *y, long double *bound)
{
    int64_t in_size = g->in[0] * g->in[1] * g->in[2], o[3] = {0}, first[3];
    int64_t w_size = g->window[0] * g->window[1] * g->window[2];
    int64_t n = g->out[0] * g->out[1] * g->out[2];

    for (int64_t i = 0; i < n; i++, ref_next(3, g->out, o)) {
        struct element e = {0};
        if (bias) e = (struct element){*bias, fabsl(*bias), 1};
        for (int axis = 0; axis < 3; axis++)
            first[axis] = o[axis] * g->stride[axis] - g->before[axis];
        for (int64_t c = 0; c < g->channels / g->groups; c++)
            add_window(g, first, x + c * in_size, w + c * w_size, &e);
        y[i] = e.sum;
        bound[i] = e.size * ref_growth(e.terms - 1);
    }
}

void ref_conv(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct geometry g = geometry_of(&in[0], &in[1], attrs);
    int64_t shape[REF_RANK] = {g.batch, g.filters, g.out[0], g.out[1], g.out[2]};
    int64_t in_size = g.in[0] * g.in[1] * g.in[2], in_group = g.channels / g.groups;
    int64_t w_size = g.window[0] * g.window[1] * g.window[2] * in_group;
    int64_t out_size = g.out[0] * g.out[1] * g.out[2];

    ref_array_init(out, in[0].type->dtype, in[0].rank, shape);
    for (int64_t n = 0; n < g.batch; n++)
        for (int64_t m = 0; m < g.filters; m++) {
            int64_t group = m / (g.filters / g.groups), at = (n * g.filters + m) * out_size;
            ref_conv_plane(&g, in[0].v + (n * g.channels + group * in_group) * in_size,
                           in[1].v + m * w_size, in[2].type ? &in[2].v[m] : NULL, out->v + at,
                           out->bound + at);
        }
}

/* The attributes of the gradients equal those of conv, member for member. */
_Static_assert(sizeof(struct bp_conv_grad_input_attrs) == sizeof(struct bp_conv_attrs) &&
                   sizeof(struct bp_conv_grad_weight_attrs) == sizeof(struct bp_conv_attrs),
               "one layout");

void ref_conv_grad_input(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *dy = &in[0], *w = &in[1], *x = &in[2];
    struct geometry g = geometry_of(x, w, attrs);
    struct sum s = {.y = dy->v, .w = w->v, .out = out};

    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    add_up(&g, add_x, &s);
}

void ref_conv_grad_weight(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *dy = &in[0], *x = &in[1], *w = &in[2];
    struct geometry g = geometry_of(x, w, attrs);
    struct sum s = {.y = dy->v, .x = x->v, .out = out};

    ref_array_init(out, w->type->dtype, w->rank, w->shape);
    add_up(&g, add_w, &s);
}
