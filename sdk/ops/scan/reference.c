/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: operators that run along an axis, place by place, each from its definition. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* Lines along an axis: line l begins at element first(l), its places are step apart. */
struct lines {
    int64_t n, step, count;
};

static struct lines lines_of(const struct ref_array *x, int64_t axis)
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

/* Place number i on the way. */
static int64_t place(const struct lines *l, int64_t line, int64_t i, bool reverse)
{
    return first_of(l, line) + (reverse ? l->n - 1 - i : i) * l->step;
}

static void finish_sum(struct ref_array *out, int64_t i, int64_t terms)
{
    out->bound[i] = isfinite(out->v[i]) ? out->bound[i] * ref_growth(terms - 2) : 0;
}

/* Terms pass through one addition less than there are; the last is in the row's ulp. */
void ref_cumsum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_cumsum_attrs *a = attrs;
    struct lines l = lines_of(in, a->axis);
    int parts = in->type->parts;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++)
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at = place(&l, line, i, a->reverse), terms = i + !a->exclusive;
            for (int64_t k = 0; k < terms; k++) {
                int64_t from = place(&l, line, k, a->reverse);
                if (out->u) out->u[at] += in->u[from];
                for (int p = 0; out->v && p < parts; p++) {
                    out->v[at * parts + p] += in->v[from * parts + p];
                    out->bound[at * parts + p] += fabsl(in->v[from * parts + p]);
                }
            }
            for (int p = 0; out->v && p < parts; p++)
                finish_sum(out, at * parts + p, terms);
        }
}

static void product(const struct ref_array *in, struct ref_array *out, int64_t at,
                    const int64_t *from, int64_t terms)
{
    int parts = in->type->parts;
    long double re = 1, im = 0, size = 1;

    if (out->u) {
        out->u[at] = 1;
        for (int64_t k = 0; k < terms; k++) out->u[at] *= in->u[from[k]];
        return;
    }
    for (int64_t k = 0; k < terms; k++) {
        const long double *x = in->v + from[k] * parts;
        long double before = re;
        re = parts == 1 ? re * x[0] : re * x[0] - im * x[1];
        if (parts == 2) im = before * x[1] + im * x[0];
        size *= parts == 1 ? fabsl(x[0]) : fabsl(x[0]) + fabsl(x[1]);
    }
    for (int p = 0; p < parts; p++) {
        out->v[at * parts + p] = p ? im : re;
        if (isfinite(size))
            out->bound[at * parts + p] = size * ref_growth(parts == 1 ? terms - 2 : 2 * terms);
    }
}

/* Makes each place at of those before it, `terms` at from, with it where that is included. The
 * attributes of scans are one layout. */
typedef void scan_fn(const struct ref_array *in, struct ref_array *out, int64_t at,
                     const int64_t *from, int64_t terms);

static void scan(const struct ref_array *in, const struct bp_cumprod_attrs *a,
                 struct ref_array *out, scan_fn *make)
{
    struct lines l = lines_of(in, a->axis);
    int64_t from[4096];

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++)
        for (int64_t i = 0; i < l.n; i++) {
            for (int64_t k = 0; k <= i; k++) from[k] = place(&l, line, k, a->reverse);
            make(in, out, place(&l, line, i, a->reverse), from, i + !a->exclusive);
        }
}

/* As prod. */
void ref_cumprod(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    scan(in, attrs, out, product);
}

/* y = m + log s of the terms so far. s adds up once a term, and is multiplied once for each new
 * largest, by an exp that is off by 3 u; else as logsumexp. */
static void log_sum(const struct ref_array *in, struct ref_array *out, int64_t at,
                    const int64_t *from, int64_t terms)
{
    long double m = -INFINITY, s = 0, weighted = 0, value;
    int64_t rises = 0;
    bool nan = false;

    for (int64_t k = 0; k < terms; k++) {
        nan |= isnan(in->v[from[k]]);
        if (!(in->v[from[k]] > m)) continue;
        m = in->v[from[k]];
        rises++;
    }
    for (int64_t k = 0; k < terms && isfinite(m); k++) {
        long double e = expl(in->v[from[k]] - m);
        s += e;
        if (e > 0) weighted += e * fabsl(in->v[from[k]] - m);
    }
    value = nan ? NAN : isfinite(m) ? m + logl(s) : m;
    out->v[at] = value;
    if (isfinite(value))
        out->bound[at] = ref_growth(terms - 1) + 4 * ref_growth(rises - 1) + weighted / s +
                         (terms > 1 ? 3 : 0) + fabsl(logl(s));
}

void ref_logcumsumexp(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    scan(in, attrs, out, log_sum);
}

/* a stands where b stood, or before: the last of equal ones counts, and any NaN. */
static bool takes_over(const struct ref_array *x, int64_t a, int64_t b, bool largest)
{
    int64_t to = largest ? a : b, from = largest ? b : a;

    if (x->v) return isnan(x->v[a]) || x->v[to] >= x->v[from];
    return x->type->class == NUM_SIGNED ? (int64_t)x->u[to] >= (int64_t)x->u[from]
                                        : x->u[to] >= x->u[from];
}

static void cumulative(const struct ref_array *in, const void *attrs, struct ref_array *out,
                       bool largest)
{
    const struct bp_cummax_attrs *a = attrs;
    struct lines l = lines_of(in, a->axis);

    ref_array_init(&out[0], in->type->dtype, in->rank, in->shape);
    ref_array_init(&out[1], (uint32_t)a->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++)
        for (int64_t i = 0, best = 0; i < l.n; i++) {
            int64_t at = place(&l, line, i, false);
            if (takes_over(in, at, place(&l, line, best, false), largest)) best = i;
            ref_array_copy(&out[0], at, in, place(&l, line, best, false));
            out[1].u[at] = (uint64_t)best;
        }
}

void ref_cummax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    cumulative(in, attrs, out, true);
}

void ref_cummin(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    cumulative(in, attrs, out, false);
}

/* The error goes along too: each place rounds the product, unless that is fused, and the sum, the
 * last of which is in the row's ulp. */
void ref_linear_scan(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_linear_scan_attrs *a = attrs;
    struct lines l = lines_of(in, a->axis);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t line = 0; line < l.count; line++)
        for (int64_t i = 0; i < l.n; i++) {
            int64_t at = place(&l, line, i, a->reverse),
                    before = place(&l, line, i - 1, a->reverse);
            long double factor = i ? in[0].v[a->shift ? before : at] : 0;
            out->v[at] = in[1].v[at];
            if (!i) continue;
            out->v[at] += factor * out->v[before];
            if (isfinite(out->v[at]) && isfinite(factor))
                out->bound[at] = fabsl(factor) * (out->bound[before] + 2 * fabsl(out->v[before]));
        }
}

/* What is in front, x, what is behind, as one along axis. */
static void join(const struct ref_array *in, int axis, struct ref_array *out)
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

/* Differences of neighbours along axis, as the dtype holds them if held. */
static void differences(const struct ref_array *x, int axis, bool held, struct ref_array *out)
{
    int64_t shape[REF_RANK];
    struct lines from = lines_of(x, axis), to;
    int parts = x->type->parts;
    char *bytes = malloc((size_t)x->count * x->type->size + 1);

    if (!bytes) abort();
    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[i];
    shape[axis] -= shape[axis] > 0;
    ref_array_init(out, x->type->dtype, x->rank, shape);
    to = lines_of(out, axis);
    for (int64_t line = 0; line < to.count; line++)
        for (int64_t i = 0; i < to.n; i++) {
            int64_t at = place(&to, line, i, false), here = place(&from, line, i, false);
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

/* Each of n differences is rounded to the dtype. */
void ref_diff(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_diff_attrs *a = attrs;
    int axis = ref_axis(a->axis, in[0].rank);
    struct ref_array now, next;

    join(in, axis, &now);
    for (int64_t n = 0; n < a->n; n++) {
        differences(&now, axis, n + 1 < a->n, &next);
        ref_array_finish(&now);
        now = next;
    }
    *out = now;
}
