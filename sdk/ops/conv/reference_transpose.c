/* SPDX-License-Identifier: Apache-2.0 */
/* reference_transpose.c: computes the reference results of the transposed convolution: each element
 * of x adds its window, times the element, to the result. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

struct plan {
    int64_t in[3], window[3], out[3], stride[3], dilation[3], before[3];
};

static struct plan plan_of(const struct ref_array *x, const struct ref_array *w,
                           const struct bp_conv_transpose_attrs *a)
{
    struct plan p;

    for (int i = 0; i < 3; i++) {
        bool there = i < x->rank - 2;
        p.in[i] = there ? x->shape[i + 2] : 1;
        p.window[i] = there ? w->shape[i + 2] : 1;
        p.stride[i] = a->stride[i];
        p.dilation[i] = a->dilation[i];
        p.before[i] = a->pad[i];
        p.out[i] = (p.in[i] - 1) * p.stride[i] + (p.window[i] - 1) * p.dilation[i] + 1 +
                   a->output_padding[i] - a->pad[i] - a->pad[i + 3];
    }
    return p;
}

/* Adds one element of x, times one window, to a plane of the result. */
static void ref_transpose_put(const struct plan *p, long double x, const int64_t *i,
                              const long double *w, struct ref_array *y, int64_t plane,
                              int64_t *terms)
{
    int64_t k[3] = {0}, at = 0;

    do {
        int64_t to = 0;
        bool inside = true;
        for (int s = 0; s < 3; s++) {
            int64_t o = i[s] * p->stride[s] + k[s] * p->dilation[s] - p->before[s];
            inside = inside && o >= 0 && o < p->out[s];
            to = to * p->out[s] + o;
        }
        if (inside) {
            y->v[plane + to] += x * w[at];
            y->bound[plane + to] += fabsl(x * w[at]);
            terms[plane + to]++;
        }
        at++;
    } while (ref_next(3, p->window, k));
}

void ref_conv_transpose(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_conv_transpose_attrs *a = attrs;
    const struct ref_array *x = &in[0], *w = &in[1], *bias = &in[2];
    struct plan p = plan_of(x, w, a);
    int64_t filters = w->shape[1] * a->groups, own = x->shape[1] / a->groups;
    int64_t shape[REF_RANK] = {x->shape[0], filters, p.out[0], p.out[1], p.out[2]}, i[3] = {0};
    int64_t size = p.out[0] * p.out[1] * p.out[2], window = p.window[0] * p.window[1] * p.window[2];
    int64_t plane = p.in[0] * p.in[1] * p.in[2], *terms;

    ref_array_init(out, x->type->dtype, x->rank, shape);
    terms = calloc((size_t)out->count + 1, sizeof *terms);
    if (!terms) abort();
    for (int64_t e = 0; e < x->count; e++, ref_next(3, p.in, i)) {
        int64_t n = e / plane / x->shape[1], c = e / plane % x->shape[1], group = c / own;
        for (int64_t m = 0; m < w->shape[1]; m++)
            ref_transpose_put(&p, x->v[e], i, w->v + (c * w->shape[1] + m) * window, out,
                              (n * filters + group * w->shape[1] + m) * size, terms);
    }
    for (int64_t e = 0; e < out->count; e++) {
        long double b = bias->type ? bias->v[e / size % filters] : 0;
        out->v[e] += b;
        out->bound[e] = (out->bound[e] + fabsl(b)) * ref_growth(terms[e] - !bias->type);
    }
    free(terms);
}
