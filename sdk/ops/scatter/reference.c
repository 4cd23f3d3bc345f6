/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of scatter operators: replaces, adds or multiplies one
 * update after the other. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* A result being computed. For each number: the sum of the magnitudes of its terms (for products,
 * the magnitude of the product), and the number of terms. */
struct heap {
    struct ref_array *out;
    long double *size;
    int64_t *terms;
    bool product;
};

/* x NULL: begins with zeros. */
static struct heap ref_scatter_begin(struct ref_array *out, const struct ref_array *x,
                                     uint32_t dtype, int rank, const int64_t *shape)
{
    struct heap h = {.out = out};
    size_t n;

    ref_array_init(out, dtype, rank, shape);
    n = (size_t)(out->count * out->type->parts) + 1;
    h.size = calloc(n, sizeof *h.size);
    h.terms = calloc(n, sizeof *h.terms);
    if (!h.size || !h.terms) abort();
    for (int64_t i = 0; x && i < out->count; i++) ref_array_copy(out, i, x, i);
    for (int64_t i = 0; x && !out->u && i < out->count * out->type->parts; i++) {
        h.size[i] = fabsl(out->v[i]);
        h.terms[i] = 1;
    }
    return h;
}

/* TOL counts the last rounding of n terms, in ulp; long double itself has a small error for
 * each. */
static void ref_scatter_end(struct heap *h)
{
    struct ref_array *out = h->out;

    for (int64_t i = 0; !out->u && i < out->count * out->type->parts; i++) {
        int64_t roundings = h->product ? (h->terms[i] - 1) * out->type->parts : h->terms[i] - 1;
        out->bound[i] = h->size[i] * (ref_growth(roundings - 1) +
                                      0x1p-10L * (long double)(roundings > 0 ? roundings : 0));
    }
    free(h->size);
    free(h->terms);
}

static void ref_scatter_add(struct heap *h, int64_t to, const struct ref_array *u, int64_t from)
{
    int parts = u->type->parts;

    if (u->u) h->out->u[to] += u->u[from];
    for (int64_t p = 0; !u->u && p < parts; p++) {
        h->out->v[to * parts + p] += u->v[from * parts + p];
        h->size[to * parts + p] += fabsl(u->v[from * parts + p]);
        h->terms[to * parts + p]++;
    }
}

static void ref_scatter_replace(struct heap *h, int64_t to, const struct ref_array *u, int64_t from)
{
    int parts = u->type->parts;

    ref_array_copy(h->out, to, u, from);
    for (int64_t p = 0; !u->u && p < parts; p++) {
        h->size[to * parts + p] = fabsl(u->v[from * parts + p]);
        h->terms[to * parts + p] = 1;
    }
}

/* The magnitude of a complex number is the sum of both parts' magnitudes. */
static void ref_scatter_multiply(struct heap *h, int64_t to, const struct ref_array *u,
                                 int64_t from)
{
    int parts = u->type->parts;
    long double *v = h->out->v + to * parts, a, b;
    const long double *w = u->v + from * parts;

    h->product = true;
    if (u->u) {
        h->out->u[to] *= u->u[from];
        return;
    }
    a = v[0];
    b = parts == 2 ? v[1] : 0;
    if (parts == 2) {
        v[0] = a * w[0] - b * w[1];
        v[1] = a * w[1] + b * w[0];
    } else {
        v[0] = a * w[0];
    }
    a = parts == 2 ? fabsl(w[0]) + fabsl(w[1]) : fabsl(w[0]);
    b = parts == 2 && h->terms[to * 2] == 1 ? h->size[to * 2] + h->size[to * 2 + 1]
                                            : h->size[to * parts];
    for (int p = 0; p < parts; p++) {
        h->size[to * parts + p] = a * b;
        h->terms[to * parts + p]++;
    }
}

static int64_t ref_scatter_within(const struct ref_array *index, int64_t i, int64_t extent)
{
    int64_t k = (int64_t)index->u[i];

    return k < 0 ? k + extent : k;
}

typedef void put_fn(struct heap *h, int64_t to, const struct ref_array *u, int64_t from);

/* Applies updates of the shape of a gather along axis. skip: a row without updates. */
static void put_along(struct heap *h, const struct ref_array *index, const struct ref_array *u,
                      int axis, int64_t skip, put_fn *put)
{
    const struct ref_array *y = h->out;
    int64_t outer = 1, inner = 1, n = index->count;

    for (int i = 0; i < axis; i++) outer *= y->shape[i];
    for (int i = axis + 1; i < y->rank; i++) inner *= y->shape[i];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < n; j++) {
            int64_t row = ref_scatter_within(index, j, y->shape[axis]);
            for (int64_t i = 0; row != skip && i < inner; i++)
                put(h, (o * y->shape[axis] + row) * inner + i, u, (o * n + j) * inner + i);
        }
}

void ref_gather_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_gather_grad_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, NULL, in[2].type->dtype, in[2].rank, in[2].shape);

    put_along(&h, &in[1], &in[0], ref_axis(a->axis, out->rank), -1, ref_scatter_add);
    ref_scatter_end(&h);
}

void ref_embedding_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_embedding_grad_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, NULL, in[2].type->dtype, in[2].rank, in[2].shape);

    put_along(&h, &in[1], &in[0], 0, a->padding_idx, ref_scatter_add);
    ref_scatter_end(&h);
}

void ref_index_add(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_index_add_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, &in[0], in->type->dtype, in->rank, in->shape);

    put_along(&h, &in[1], &in[2], ref_axis(a->axis, out->rank), -1, ref_scatter_add);
    ref_scatter_end(&h);
}

/* Without overwrite, the named slices are set to zero first. */
void ref_scatter(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_scatter_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, &in[0], in->type->dtype, in->rank, in->shape);
    int64_t inner = out->shape[0] ? out->count / out->shape[0] : 0;
    int parts = out->type->parts;

    for (int64_t j = 0; !a->overwrite && j < in[1].count; j++) {
        int64_t row = ref_scatter_within(&in[1], j, out->shape[0]);
        for (int64_t i = row * inner; out->u && i < (row + 1) * inner; i++) out->u[i] = 0;
        for (int64_t i = row * inner * parts; !out->u && i < (row + 1) * inner * parts; i++) {
            out->v[i] = h.size[i] = 0;
            h.terms[i] = 0;
        }
    }
    put_along(&h, &in[1], &in[2], 0, -1, a->overwrite ? ref_scatter_replace : ref_scatter_add);
    ref_scatter_end(&h);
}

/* Applies updates whose index rows are k coordinates after the first `batch` axes. */
static void put_nd(struct heap *h, const struct ref_array *index, const struct ref_array *u,
                   int batch, put_fn *put)
{
    const struct ref_array *y = h->out;
    int k = (int)index->shape[index->rank - 1];
    int64_t rows = 1, inner = 1, each = 1;

    for (int i = 0; i < index->rank - 1; i++) rows *= index->shape[i];
    for (int i = batch; i < index->rank - 1; i++) each *= index->shape[i];
    for (int i = batch + k; i < y->rank; i++) inner *= y->shape[i];
    for (int64_t r = 0; r < rows; r++) {
        int64_t to = r / each;
        for (int d = 0; d < k; d++)
            to = to * y->shape[batch + d] +
                 ref_scatter_within(index, r * k + d, y->shape[batch + d]);
        for (int64_t i = 0; i < inner; i++) put(h, to * inner + i, u, r * inner + i);
    }
}

void ref_gather_nd_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_gather_nd_grad_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, NULL, in[2].type->dtype, in[2].rank, in[2].shape);

    put_nd(&h, &in[1], &in[0], (int)a->batch_dims, ref_scatter_add);
    ref_scatter_end(&h);
}

void ref_scatter_nd(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_scatter_nd_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, NULL, in[1].type->dtype, (int)a->shape.n, a->shape.at);

    put_nd(&h, &in[0], &in[1], 0, ref_scatter_add);
    ref_scatter_end(&h);
}

void ref_scatter_nd_add(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct heap h = ref_scatter_begin(out, &in[0], in->type->dtype, in->rank, in->shape);

    (void)attrs;
    put_nd(&h, &in[1], &in[2], 0, ref_scatter_add);
    ref_scatter_end(&h);
}

void ref_scatter_nd_update(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct heap h = ref_scatter_begin(out, &in[0], in->type->dtype, in->rank, in->shape);

    (void)attrs;
    put_nd(&h, &in[1], &in[2], 0, ref_scatter_replace);
    ref_scatter_end(&h);
}

static void put_elements(struct heap *h, const struct ref_array *index, const struct ref_array *u,
                         int axis, put_fn *put)
{
    const struct ref_array *y = h->out;
    int64_t at[REF_RANK] = {0};

    for (int64_t i = 0; i < index->count; i++, ref_next(index->rank, index->shape, at)) {
        int64_t to = 0;
        for (int k = 0; k < y->rank; k++)
            to = to * y->shape[k] +
                 (k == axis ? ref_scatter_within(index, i, y->shape[axis]) : at[k]);
        put(h, to, u, i);
    }
}

void ref_put_along_axis(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_put_along_axis_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, &in[0], in->type->dtype, in->rank, in->shape);

    put_elements(&h, &in[1], &in[2], ref_axis(a->axis, out->rank),
                 a->reduce == 1   ? ref_scatter_add
                 : a->reduce == 2 ? ref_scatter_multiply
                                  : ref_scatter_replace);
    ref_scatter_end(&h);
}

void ref_take_along_axis_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_take_along_axis_grad_attrs *a = attrs;
    struct heap h = ref_scatter_begin(out, NULL, in[2].type->dtype, in[2].rank, in[2].shape);

    put_elements(&h, &in[1], &in[0], ref_axis(a->axis, out->rank), ref_scatter_add);
    ref_scatter_end(&h);
}

/* Weights have the result's type; without weights, each number counts 1. */
void ref_bincount(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_bincount_attrs *a = attrs;
    const struct ref_array *weights = in[1].type ? &in[1] : NULL;
    struct heap h = ref_scatter_begin(out, NULL, weights ? weights->type->dtype : BP_I64, 1,
                                      &a->bins);

    for (int64_t i = 0; i < in->count; i++)
        if (weights) ref_scatter_add(&h, (int64_t)in->u[i], weights, i);
        else out->u[in->u[i]]++;
    ref_scatter_end(&h);
}

static bool is_better(const struct ref_array *x, int64_t i, int64_t than, int64_t mode)
{
    if (x->u)
        return mode == 2 ? (int64_t)x->u[i] > (int64_t)x->u[than]
                         : (int64_t)x->u[i] < (int64_t)x->u[than];
    if (isnan(x->v[than])) return false;
    return isnan(x->v[i]) || (mode == 2 ? x->v[i] > x->v[than] : x->v[i] < x->v[than]);
}

/* Computes element `to` of the result from n rows of x, beginning with element `first`. */
static void ref_scatter_pool(struct heap *h, int64_t to, const struct ref_array *x, int64_t first,
                             int64_t n, int64_t inner, int64_t mode)
{
    int64_t best = first;

    for (int64_t r = 1; r < n; r++)
        if (is_better(x, first + r * inner, best, mode)) best = first + r * inner;
    if (n && mode >= 2) ref_scatter_replace(h, to, x, best);
    for (int64_t r = 0; mode < 2 && r < n; r++) ref_scatter_add(h, to, x, first + r * inner);
    if (mode != 1 || !n) return;
    if (x->u) {
        /* the sum as the type holds it */
        int shift = 64 - 8 * (int)x->type->size;
        int64_t sum = (int64_t)(h->out->u[to] << shift) >> shift;
        h->out->u[to] = (uint64_t)(sum / n);
    } else {
        h->out->v[to] /= (long double)n;
        h->size[to] /= (long double)n;
        h->terms[to]++; /* the division */
    }
}

void ref_segment_pool(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_segment_pool_attrs *a = attrs;
    int64_t shape[REF_RANK], inner = 1, row = 0;
    struct heap h;

    for (int i = 1; i < in->rank; i++) inner *= shape[i] = in->shape[i];
    shape[0] = a->segments;
    h = ref_scatter_begin(out, NULL, in->type->dtype, in->rank, shape);
    for (int64_t s = 0; s < a->segments; s++) {
        int64_t first = row;
        while (row < in->shape[0] && (int64_t)in[1].u[row] == s) row++;
        for (int64_t i = 0; i < inner; i++)
            ref_scatter_pool(&h, s * inner + i, in, first * inner + i, row - first, inner, a->mode);
    }
    ref_scatter_end(&h);
}

void ref_segment_pool_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_segment_pool_grad_attrs *a = attrs;
    const struct ref_array *x = &in[0], *ids = &in[1], *y = &in[2], *dy = &in[3];
    int64_t inner = x->shape[0] ? x->count / x->shape[0] : 0;

    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t id = (int64_t)ids->u[i / inner], from = id * inner + i % inner, n = 0;
        for (int64_t r = 0; r < ids->count; r++) n += (int64_t)ids->u[r] == id;
        out->v[i] = a->mode == 1 ? dy->v[from] / (long double)n
                    : a->mode == 0 || x->v[i] == y->v[from] ? dy->v[from] : 0;
        out->bound[i] = fabsl(out->v[i]) * 0x1p-10L;
    }
}
