/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of scans, element by element, each from the state of the
 * elements before it; also of diff. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* Lines along an axis: line l begins at element first_of(l); its elements are `step` apart. */
struct lines {
    int64_t n, step, count;
};

static struct lines ref_scan_lines_of(const struct ref_array *x, int64_t axis)
{
    struct lines l = {x->shape[ref_axis(axis, x->rank)], 1, 0};

    for (int i = ref_axis(axis, x->rank) + 1; i < x->rank; i++) l.step *= x->shape[i];
    l.count = l.n ? x->count / l.n : 0;
    return l;
}

static int64_t first_of(const struct lines *l, int64_t line)
{
    return line / l->step * l->step * l->n + line % l->step;
}

/* The index of the element that is scanned as number i. */
static int64_t ref_scan_place(const struct lines *l, int64_t line, int64_t i, bool reverse)
{
    return first_of(l, line) + (reverse ? l->n - 1 - i : i) * l->step;
}

/* The state of a line's elements so far. */
struct so_far {
    int64_t terms, rises; /* terms so far; terms that were larger than all before */
    uint64_t u;
    long double v[2], size[2]; /* of each part: result, and the magnitude that scales its error */
    long double largest;       /* for a log of sums: v is relative to it */
    bool whole, nan;           /* whole: all terms are integers; nan: one is NaN */
};

/* take_fn adds one term to the state; put_fn writes the result so far. */
typedef void take_fn(const struct ref_array *in, int64_t from, struct so_far *s);
typedef void put_fn(const struct so_far *s, struct ref_array *out, int64_t at);

/* The attributes of scans have one layout. */
static void ref_scan_scan(const struct ref_array *in, const struct bp_cumsum_attrs *a,
                          struct ref_array *out, const struct so_far *nothing, take_fn *take,
                          put_fn *put)
{
    struct lines l = ref_scan_lines_of(in, a->axis);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++) {
        struct so_far s = *nothing;
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at = ref_scan_place(&l, line, i, a->reverse);
            if (a->exclusive) put(&s, out, at);
            take(in, at, &s);
            s.terms++;
            if (!a->exclusive) put(&s, out, at);
        }
    }
}

static void take_sum(const struct ref_array *in, int64_t from, struct so_far *s)
{
    int parts = in->type->parts;

    if (in->u) s->u += in->u[from];
    for (int p = 0; in->v && p < parts; p++) {
        long double x = in->v[from * parts + p];
        s->v[p] += x;
        s->size[p] += fabsl(x);
        s->whole = s->whole && x == truncl(x);
    }
}

/* n terms need n - 1 additions, and TOL counts the last, in ulp. Integers add up exactly as long as
 * the type of the sums can hold the sum of their magnitudes. */
static void put_sum(const struct so_far *s, struct ref_array *out, int64_t at)
{
    int parts = out->type->parts;

    if (out->u) out->u[at] = s->u;
    for (int p = 0; out->v && p < parts; p++) {
        bool exact = s->whole && s->size[p] <= 1 / num_unit(num_accumulate(out->type));
        out->v[at * parts + p] = s->v[p];
        if (isfinite(s->v[p]) && !exact)
            out->bound[at * parts + p] = s->size[p] * ref_growth(s->terms - 2);
    }
}

void ref_cumsum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_scan_scan(in, attrs, out, &(struct so_far){.whole = true}, take_sum, put_sum);
}

static void take_product(const struct ref_array *in, int64_t from, struct so_far *s)
{
    int parts = in->type->parts;
    const long double *x;
    long double re = s->v[0];

    if (in->u) {
        s->u *= in->u[from];
        return;
    }
    x = in->v + from * parts;
    s->v[0] = parts == 1 ? re * x[0] : re * x[0] - s->v[1] * x[1];
    if (parts == 2) s->v[1] = re * x[1] + s->v[1] * x[0];
    s->size[0] *= parts == 1 ? fabsl(x[0]) : fabsl(x[0]) + fabsl(x[1]);
}

static void put_product(const struct so_far *s, struct ref_array *out, int64_t at)
{
    int parts = out->type->parts;

    if (out->u) out->u[at] = s->u;
    for (int p = 0; out->v && p < parts; p++) {
        out->v[at * parts + p] = s->v[p];
        if (isfinite(s->size[0]))
            out->bound[at * parts + p] =
                s->size[0] * ref_growth(parts == 1 ? s->terms - 2 : 2 * s->terms);
    }
}

/* The error is as in ref_prod. */
void ref_cumprod(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_scan_scan(in, attrs, out, &(struct so_far){.u = 1, .v = {1}, .size = {1}}, take_product,
                  put_product);
}

/* v is the sum of exp(x - largest) so far, and size the same sum with each term times its distance
 * from largest. A new largest makes the terms smaller and all distances larger. */
static void take_log(const struct ref_array *in, int64_t from, struct so_far *s)
{
    long double x = in->v[from], e;

    s->nan |= isnan(x);
    if (x > s->largest) {
        e = expl(s->largest - x);
        s->size[0] = e > 0 ? e * (s->size[0] + s->v[0] * (x - s->largest)) : 0;
        s->v[0] = s->v[0] * e + 1;
        s->largest = x;
        s->rises++;
    } else if (isfinite(s->largest)) {
        e = expl(x - s->largest);
        s->v[0] += e;
        if (e > 0) s->size[0] += e * (s->largest - x);
    }
}

/* y = m + log s for the terms so far. s has one addition for each term and one multiplication for
 * each new largest, by an exp with an error of 3 u; the rest is as in logsumexp. */
static void put_log(const struct so_far *s, struct ref_array *out, int64_t at)
{
    long double value = s->largest;

    if (s->nan) value = NAN;
    else if (isfinite(value)) value += logl(s->v[0]);
    out->v[at] = value;
    if (isfinite(value))
        out->bound[at] = ref_growth(s->terms - 1) + 4 * ref_growth(s->rises - 1) +
                         s->size[0] / s->v[0] + (s->terms > 1 ? 3 : 0) + fabsl(logl(s->v[0]));
}

void ref_logcumsumexp(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_scan_scan(in, attrs, out, &(struct so_far){.largest = -INFINITY}, take_log, put_log);
}

/* Whether a replaces b as the largest (or smallest): the later of equal elements does, and any
 * NaN. */
static bool takes_over(const struct ref_array *x, int64_t a, int64_t b, bool largest)
{
    int64_t to = largest ? a : b, from = largest ? b : a;

    if (x->v) return isnan(x->v[a]) || x->v[to] >= x->v[from];
    return x->type->class == NUM_SIGNED ? (int64_t)x->u[to] >= (int64_t)x->u[from]
                                        : x->u[to] >= x->u[from];
}

static void ref_scan_cumulative(const struct ref_array *in, const void *attrs,
                                struct ref_array *out, bool largest)
{
    const struct bp_cummax_attrs *a = attrs;
    struct lines l = ref_scan_lines_of(in, a->axis);

    ref_array_init(&out[0], in->type->dtype, in->rank, in->shape);
    ref_array_init(&out[1], (uint32_t)a->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++)
        for (int64_t i = 0, best = 0; i < l.n; i++) {
            int64_t at = ref_scan_place(&l, line, i, false);
            if (takes_over(in, at, ref_scan_place(&l, line, best, false), largest)) best = i;
            ref_array_copy(&out[0], at, in, ref_scan_place(&l, line, best, false));
            out[1].u[at] = (uint64_t)best;
        }
}

void ref_cummax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_scan_cumulative(in, attrs, out, true);
}

void ref_cummin(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_scan_cumulative(in, attrs, out, false);
}

/* The error is passed on: each element rounds the product (unless it is fused) and the sum; TOL
 * counts the last sum, in ulp. */
void ref_linear_scan(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_linear_scan_attrs *a = attrs;
    struct lines l = ref_scan_lines_of(in, a->axis);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++)
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at = ref_scan_place(&l, line, i, a->reverse),
                    before = ref_scan_place(&l, line, i - 1, a->reverse);
            long double factor = i ? in[0].v[a->shift ? before : at] : 0;
            out->v[at] = in[1].v[at];
            if (!i) continue;
            out->v[at] += factor * out->v[before];
            if (isfinite(out->v[at]) && isfinite(factor))
                out->bound[at] = fabsl(factor) * (out->bound[before] + 2 * fabsl(out->v[before]));
        }
}

/* Joins the input before x, x, and the input after it along axis. */
static void ref_scan_join(const struct ref_array *in, int axis, struct ref_array *out)
{
    static const int order[] = {1, 0, 2};
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];
    int rank = in[0].rank;

    for (int i = 0; i < rank; i++) shape[i] = in[0].shape[i];
    for (int k = 1; k < 3; k++)
        if (in[k].type) shape[axis] += in[k].shape[axis];
    ref_array_init(out, in[0].type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t left = at[axis];
        int k = 0;
        for (int a = 0; a < rank; a++) from[a] = at[a];
        while (!in[order[k]].type || left >= in[order[k]].shape[axis]) {
            if (in[order[k]].type) left -= in[order[k]].shape[axis];
            k++;
        }
        from[axis] = left;
        ref_array_copy(out, i, &in[order[k]], ref_index(&in[order[k]], rank, from));
    }
}

/* Differences of neighbours along axis; held: rounded to the dtype. */
static void ref_scan_differences(const struct ref_array *x, int axis, bool held,
                                 struct ref_array *out)
{
    int64_t shape[REF_RANK];
    struct lines from = ref_scan_lines_of(x, axis), to;
    int parts = x->type->parts;
    char *bytes = malloc((size_t)x->count * x->type->size + 1);

    if (!bytes) abort();
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    shape[axis] -= shape[axis] > 0;
    ref_array_init(out, x->type->dtype, x->rank, shape);
    to = ref_scan_lines_of(out, axis);
    for (int64_t line = 0; line < to.count; line++)
        for (int64_t i = 0; i < to.n; i++) {
            int64_t at = ref_scan_place(&to, line, i, false),
                    here = ref_scan_place(&from, line, i, false);
            if (out->u) out->u[at] = x->u[here + from.step] - x->u[here];
            for (int p = 0; out->v && p < parts; p++)
                out->v[at * parts + p] =
                    x->v[(here + from.step) * parts + p] - x->v[here * parts + p];
        }
    if (held) {
        ref_array_encode(out, bytes);
        ref_array_decode(out, bytes);
    }
    free(bytes);
}

/* Each of the n differences but the last is rounded to the dtype. */
void ref_diff(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_diff_attrs *a = attrs;
    int axis = ref_axis(a->axis, in[0].rank);
    struct ref_array now, next;

    ref_scan_join(in, axis, &now);
    for (int64_t n = 0; n < a->n; n++) {
        ref_scan_differences(&now, axis, n + 1 < a->n, &next);
        ref_array_finish(&now);
        now = next;
    }
    *out = now;
}
