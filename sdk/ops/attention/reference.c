/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of log_softmax, masked_softmax, attention, linear,
 * label_smooth and glu. */
#include "../common/reference_formula.h"
#include <math.h>
#include <stdlib.h>

static void ref_attention_put(struct ref_array *out, int64_t i, long double value,
                              long double bound)
{
    out->v[i] = value;
    if (isfinite(value)) out->bound[i] = bound;
}

static long double ref_attention_largest(const long double *x, int64_t n, int64_t step)
{
    long double m = -INFINITY;

    for (int64_t i = 0; i < n; i++)
        if (!(x[i * step] <= m)) m = x[i * step];
    return m;
}

static int64_t ref_attention_behind(const struct ref_array *x, int axis)
{
    int64_t n = 1;

    for (int i = axis + 1; i < x->rank; i++) n *= x->shape[i];
    return n;
}

/* y = (x - m) - log s: the difference is rounded. s is off by its growth, by the weighted
 * differences of its terms, and by exp (3), all relative; log turns them into an absolute error and
 * is rounded. */
void ref_log_softmax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int axis = ref_axis(((const struct bp_log_softmax_attrs *)attrs)->axis, in->rank);
    int64_t n = in->shape[axis], step = ref_attention_behind(in, axis);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        const long double *x;
        long double m, s = 0, weighted = 0;
        if (i / step % n) continue; /* not the first element of a line */
        x = in->v + i;
        m = ref_attention_largest(x, n, step);
        for (int64_t k = 0; k < n; k++) {
            long double e = expl(x[k * step] - m);
            s += e;
            if (e > 0) weighted += e * fabsl(x[k * step] - m);
        }
        for (int64_t k = 0; k < n; k++)
            ref_attention_put(out, i + k * step, x[k * step] - m - logl(s),
                              fabsl(x[k * step] - m) + ref_growth(n - 1) + weighted / s +
                                  (n > 1 ? 3 : 0) + 1.5L * fabsl(logl(s)));
    }
}

/* dx = dy - e^y s: exp is off by 3, the product is rounded, s is a sum. */
void ref_log_softmax_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int axis = ref_axis(((const struct bp_log_softmax_grad_attrs *)attrs)->axis, in->rank);
    int64_t n = in->shape[axis], step = ref_attention_behind(in, axis);
    const long double *y = in[0].v, *dy = in[1].v;
    long double tiny = ref_underflow(in->type);

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) {
        long double s = 0, size = 0;
        if (i / step % n) continue;
        for (int64_t k = 0; k < n; k++) {
            s += dy[i + k * step];
            size += fabsl(dy[i + k * step]);
        }
        for (int64_t k = 0; k < n; k++) {
            int64_t at = i + k * step;
            ref_attention_put(out, at, dy[at] - expl(y[at]) * s,
                              expl(y[at]) * (ref_growth(n - 1) * size + 4 * fabsl(s)) +
                                  tiny * fabsl(s));
        }
    }
}

/* Returns a score after the mask: mask added, or -infinity. at: coordinates of rank axes. */
static long double ref_attention_masked(const struct ref_array *mask, int rank, const int64_t *at,
                                        long double score)
{
    if (!mask->type) return score;
    if (mask->v) return score + mask->v[ref_index(mask, rank, at)];
    return mask->u[ref_index(mask, rank, at)] ? score : -INFINITY;
}

/* Whether the mask or `causal` hides every key in a row of scores: then its results are all 0. */
static bool is_hidden(const long double *s, int64_t n, bool hides)
{
    for (int64_t i = 0; i < n; i++)
        if (!(isinf(s[i]) && s[i] < 0)) return false;
    return hides;
}

/* Turns scores into probabilities. off has the absolute error of each score, and becomes the
 * relative error of each probability, in units. An error that all scores have in common has no
 * effect. exps: the error of exp. */
static void ref_attention_probabilities(long double *s, long double *off, int64_t n, int exps)
{
    long double m = ref_attention_largest(s, n, 1), sum = 0, mean = 0;

    for (int64_t i = 0; i < n; i++) {
        long double d = s[i] - m;
        s[i] = expl(d);
        sum += s[i];
        off[i] = s[i] > 0 ? off[i] + fabsl(d) + (d < 0 ? exps : 0) : 0;
    }
    for (int64_t i = 0; i < n; i++) {
        s[i] /= sum;
        if (s[i] > 0) mean += s[i] * off[i];
    }
    for (int64_t i = 0; i < n; i++) off[i] += mean + ref_growth(n - 1);
}

void ref_masked_softmax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_masked_softmax_attrs *a = attrs;
    int rank = in->rank;
    int64_t n = in->shape[rank - 1], rows = in->shape[rank - 2], at[REF_RANK] = {0};
    long double *s = malloc(((size_t)n + 1) * sizeof *s),
                *off = malloc(((size_t)n + 1) * sizeof *s);
    bool additive = in[1].type && in[1].v;

    if (!s || !off) abort();
    ref_array_init(out, in->type->dtype, rank, in->shape);
    out->flush = true;
    for (int64_t i = 0; i < in->count; i++, ref_next(rank, in->shape, at)) {
        int64_t k = at[rank - 1];
        s[k] = ref_attention_masked(&in[1], rank, at, in->v[i]);
        if (a->causal && k > at[rank - 2] + n - rows) s[k] = -INFINITY;
        off[k] = additive && isfinite(s[k]) ? fabsl(s[k]) : 0;
        if (k < n - 1) continue;
        if (is_hidden(s, n, in[1].type || (a->causal && rows > n)))
            for (int64_t j = 0; j < n; j++) s[j] = off[j] = 0;
        else ref_attention_probabilities(s, off, n, 0); /* the operator's ulp covers exp */
        for (int64_t j = 0; j < n; j++) ref_attention_put(out, i - k + j, s[j], s[j] * off[j]);
    }
    free(s);
    free(off);
}

/* Counts how often the largest score so far grows. A running sum is multiplied by an exp each time
 * it grows: an error of 4. Besides, an element of a query's result is off, relative to the
 * magnitudes of its terms, by the error of each probability and of the sum. */
static int64_t ref_attention_rises(const long double *s, int64_t n)
{
    long double m = -INFINITY;
    int64_t times = 0;

    for (int64_t i = 0; i < n; i++)
        if (s[i] > m) {
            times += m > -INFINITY;
            m = s[i];
        }
    return times;
}

/* Which keys a query sees by its position: from `first` to `end` - 1. hides: it may see none. */
struct ref_seen {
    int64_t first, end;
    bool hides;
};

static struct ref_seen ref_attention_seen(const struct ref_array *in,
                                          const struct bp_attention_attrs *a, const int64_t *at)
{
    int rank = in->rank;
    int64_t queries = in->shape[rank - 2], n = in[1].shape[rank - 2], length = n, place;
    int64_t right = a->causal ? 0 : a->window.n ? a->window.at[1] : -1;
    struct ref_seen seen;

    if (in[4].type) length = (int64_t)in[4].u[ref_index(&in[4], rank - 3, at)];
    place = at[rank - 2] + length - queries;
    seen.first = a->window.n && a->window.at[0] >= 0 ? place - a->window.at[0] : 0;
    seen.end = length < n ? length : n;
    if (right >= 0 && place + right + 1 < seen.end) seen.end = place + right + 1;
    seen.hides = in[3].type || in[4].type || (right >= 0 && queries > n);
    return seen;
}

/* Limits a score. Its error does not grow, because the slope of tanh is at most 1; for the same
 * reason both roundings of s / cap move the result by less than a rounding of itself. tanh adds 4
 * and the product 1. */
static long double ref_attention_capped(const struct num_type *type, double softcap, long double s,
                                        long double *off)
{
    long double cap = ref_rounded(type, softcap), y;

    if (softcap == 0) return s;
    y = cap * tanhl(s / cap);
    *off += 7 * fabsl(y);
    return y;
}

/* Computes one query: `at` has its coordinates, in all axes of q except the last. */
static void ref_attention_attend(const struct ref_array *in, const struct bp_attention_attrs *a,
                                 const int64_t *at, long double *s, long double *off,
                                 struct ref_array *out, int64_t to)
{
    const struct ref_array *q = &in[0], *k = &in[1], *v = &in[2];
    int rank = q->rank, head = rank - 3;
    int64_t depth = q->shape[rank - 1], n = k->shape[rank - 2], width = v->shape[rank - 1];
    int64_t from = 0, first = 0, place[REF_RANK], times;
    struct ref_seen seen = ref_attention_seen(in, a, at);
    long double scale = a->scale != 0 ? ref_rounded(q->type, a->scale)
                                      : 1 / sqrtl((long double)(depth ? depth : 1));

    for (int i = 0; i < rank - 1; i++) {
        place[i] = at[i];
        from = from * q->shape[i] + at[i];
        if (i < head) first = first * k->shape[i] + at[i];
        if (i == head) first = first * k->shape[i] + at[i] / (q->shape[i] / k->shape[i]);
    }
    for (int64_t j = 0; j < n; j++) {
        long double sum = 0, size = 0;
        for (int64_t d = 0; d < depth; d++) {
            long double t = q->v[from * depth + d] * k->v[(first * n + j) * depth + d] * scale;
            sum += t;
            size += fabsl(t);
        }
        place[rank - 1] = j;
        off[j] = ref_growth(depth + 1) * size;
        sum = ref_attention_capped(q->type, a->softcap, sum, &off[j]);
        s[j] = ref_attention_masked(&in[3], rank, place, sum);
        if (j < seen.first || j >= seen.end) s[j] = -INFINITY;
        if (in[3].type && in[3].v && isfinite(s[j])) off[j] += fabsl(s[j]);
    }
    times = ref_attention_rises(s, n);
    if (is_hidden(s, n, seen.hides))
        for (int64_t j = 0; j < n; j++) s[j] = off[j] = 0;
    else ref_attention_probabilities(s, off, n, 3);
    for (int64_t c = 0; c < width; c++) {
        long double sum = 0, bound = 0;
        for (int64_t j = 0; j < n; j++) {
            long double t = s[j] * v->v[(first * n + j) * width + c];
            sum += t;
            bound += fabsl(t) * (off[j] + ref_growth(n) + (long double)(1 + 4 * times));
        }
        ref_attention_put(out, to * width + c, sum, bound);
    }
}

void ref_attention(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int rank = in->rank;
    int64_t shape[REF_RANK] = {0}, at[REF_RANK] = {0}, n = in[1].shape[rank - 2], queries = 1;
    long double *s = malloc(((size_t)n + 1) * sizeof *s),
                *off = malloc(((size_t)n + 1) * sizeof *s);

    if (!s || !off) abort();
    for (int i = 0; i < rank; i++) shape[i] = i == rank - 1 ? in[2].shape[i] : in->shape[i];
    ref_array_init(out, in->type->dtype, rank, shape);
    for (int i = 0; i < rank - 1; i++) queries *= shape[i];
    for (int64_t i = 0; i < queries; i++, ref_next(rank - 1, shape, at))
        ref_attention_attend(in, attrs, at, s, off, out, i);
    free(s);
    free(off);
}

/* Half types may round the product before the bias is added. */
void ref_linear(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t depth = in[1].shape[1], n = in[1].shape[0], shape[REF_RANK];
    long double first = num_unit(in->type) / num_unit(num_accumulate(in->type));

    (void)attrs;
    for (int i = 0; i < in->rank; i++) shape[i] = i == in->rank - 1 ? n : in->shape[i];
    ref_array_init(out, in->type->dtype, in->rank, shape);
    for (int64_t i = 0; i < out->count; i++) {
        const long double *x = in[0].v + i / n * depth, *w = in[1].v + i % n * depth;
        long double sum = 0, size = 0;
        for (int64_t d = 0; d < depth; d++) {
            sum += x[d] * w[d];
            size += fabsl(x[d] * w[d]);
        }
        if (!in[2].type) ref_attention_put(out, i, sum, ref_growth(depth) * size);
        else
            ref_attention_put(out, i, sum + in[2].v[i % n],
                              ref_growth(depth) * size +
                                  (num_is_half(in->type) ? first * fabsl(sum) : 0) + fabsl(sum));
    }
}

/* The products are rounded (for half types to the half type), and then the sum. */
void ref_label_smooth(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_label_smooth_attrs *a = attrs;
    long double keep = ref_rounded(in->type, 1 - a->epsilon);
    long double units = num_unit(in->type) / num_unit(num_accumulate(in->type));
    int64_t n = in->shape[in->rank - 1], at[REF_RANK] = {0};

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        long double x = keep * in->v[i], p;
        if (in[1].type)
            p = ref_rounded(in->type, a->epsilon) * in[1].v[ref_index(&in[1], in->rank, at)];
        else p = ref_rounded(in->type, a->epsilon / (double)n);
        ref_attention_put(out, i, x + p, in[1].type ? units * (fabsl(x) + fabsl(p)) : fabsl(x));
    }
}

void ref_glu(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int axis = ref_axis(((const struct bp_glu_attrs *)attrs)->axis, in->rank);
    int64_t shape[REF_RANK], inner = ref_attention_behind(in, axis), n = in->shape[axis] / 2;
    long double tiny = ref_underflow(in->type);

    for (int i = 0; i < in->rank; i++) shape[i] = i == axis ? n : in->shape[i];
    ref_array_init(out, in->type->dtype, in->rank, shape);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t line = n * inner, at = i / line * 2 * line + i % line;
        ref_attention_put(out, i, in->v[at] * ref_logistic(in->v[at + line]),
                          tiny * fabsl(in->v[at]));
    }
}
