/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of sorting, counting and searching. NaN is above every
 * number, and equal to NaN. Lines are sorted by merging halves, so that equal values keep their
 * order. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* Compares two elements: -1, 0 or 1. */
static int ref_sort_compared(const struct ref_array *x, int64_t i, const struct ref_array *y,
                             int64_t k)
{
    if (x->u && x->type->class == NUM_SIGNED)
        return ((int64_t)x->u[i] > (int64_t)y->u[k]) - ((int64_t)x->u[i] < (int64_t)y->u[k]);
    if (x->u) return (x->u[i] > y->u[k]) - (x->u[i] < y->u[k]);
    if (isnan(x->v[i]) || isnan(y->v[k])) return (int)!!isnan(x->v[i]) - (int)!!isnan(y->v[k]);
    return (x->v[i] > y->v[k]) - (x->v[i] < y->v[k]);
}

/* The lines of x along an axis. */
struct lines {
    const struct ref_array *x;
    int64_t outer, extent, inner;
};

static struct lines ref_sort_lines_of(const struct ref_array *x, int axis)
{
    struct lines l = {x, 1, x->shape[axis], 1};

    for (int i = 0; i < axis; i++) l.outer *= x->shape[i];
    for (int i = axis + 1; i < x->rank; i++) l.inner *= x->shape[i];
    return l;
}

static int64_t ref_sort_element(const struct lines *l, int64_t line, int64_t k)
{
    return (line / l->inner * l->extent + k) * l->inner + line % l->inner;
}

/* Merges the two sorted halves of `order`. */
static void ref_sort_merge(const struct lines *l, int64_t line, bool down, int64_t *order,
                           int64_t n_a, int64_t n, int64_t *room)
{
    int64_t i = 0, k = n_a;

    for (int64_t t = 0; t < n; t++) {
        bool second = i == n_a;
        if (i < n_a && k < n) {
            int c = ref_sort_compared(l->x, ref_sort_element(l, line, order[k]), l->x,
                                      ref_sort_element(l, line, order[i]));
            second = (down ? -c : c) < 0;
        }
        room[t] = second ? order[k++] : order[i++];
    }
    for (int64_t t = 0; t < n; t++) order[t] = room[t];
}

static void sort_some(const struct lines *l, int64_t line, bool down, int64_t *order, int64_t n,
                      int64_t *room)
{
    if (n < 2) return;
    sort_some(l, line, down, order, n / 2, room);
    sort_some(l, line, down, order + n / 2, n - n / 2, room);
    ref_sort_merge(l, line, down, order, n / 2, n, room);
}

/* Returns the indices of a line, in the order of its values. The caller frees them. */
static int64_t *ref_sort_ordered(const struct lines *l, int64_t line, bool down)
{
    int64_t *order = malloc((2 * (size_t)l->extent + 1) * sizeof *order);

    if (!order) abort();
    for (int64_t i = 0; i < l->extent; i++) order[i] = i;
    sort_some(l, line, down, order, l->extent, order + l->extent);
    return order;
}

/* Writes sorted values skip to skip + take - 1 of each line; values may be NULL. rank, shape: those
 * of both outputs. */
static void write_lines(const struct ref_array *x, int axis, bool down, int64_t skip, int64_t take,
                        int rank, const int64_t *shape, struct ref_array *values,
                        struct ref_array *index)
{
    struct lines l = ref_sort_lines_of(x, axis);

    if (values) ref_array_init(values, x->type->dtype, rank, shape);
    ref_array_init(index, BP_I64, rank, shape);
    for (int64_t line = 0; x->count && line < l.outer * l.inner; line++) {
        int64_t *order = ref_sort_ordered(&l, line, down);
        for (int64_t j = 0; j < take; j++) {
            int64_t to = (line / l.inner * take + j) * l.inner + line % l.inner;
            if (values) ref_array_copy(values, to, x, ref_sort_element(&l, line, order[skip + j]));
            index->u[to] = (uint64_t)order[skip + j];
        }
        free(order);
    }
}

void ref_sort(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_sort_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);

    write_lines(in, axis, a->descending, 0, in->shape[axis], in->rank, in->shape, &out[0], &out[1]);
}

void ref_argsort(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_argsort_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);

    write_lines(in, axis, a->descending, 0, in->shape[axis], in->rank, in->shape, NULL, out);
}

void ref_topk(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_topk_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);
    int64_t shape[REF_RANK];

    for (int i = 0; i < in->rank; i++) shape[i] = i == axis ? a->k : in->shape[i];
    write_lines(in, axis, !a->smallest, 0, a->k, in->rank, shape, &out[0], &out[1]);
}

/* The shape of x without axis, or with extent 1 there. */
static int ref_sort_reduced(const struct ref_array *x, int axis, bool keep, int64_t *shape)
{
    int rank = 0;

    for (int i = 0; i < x->rank; i++) {
        if (i != axis) shape[rank++] = x->shape[i];
        else if (keep) shape[rank++] = 1;
    }
    return rank;
}

void ref_kthvalue(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_kthvalue_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank), rank;
    int64_t shape[REF_RANK];

    rank = ref_sort_reduced(in, axis, a->keep, shape);
    write_lines(in, axis, false, a->k - 1, 1, rank, shape, &out[0], &out[1]);
}

/* Counts the equal values of each value of a line; chooses the most frequent, then the smallest of
 * these, then its last index. */
void ref_mode(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_mode_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);
    struct lines l = ref_sort_lines_of(in, axis);
    int64_t shape[REF_RANK];
    int rank = ref_sort_reduced(in, axis, a->keep, shape);

    ref_array_init(&out[0], in->type->dtype, rank, shape);
    ref_array_init(&out[1], BP_I64, rank, shape);
    for (int64_t line = 0; in->count && line < l.outer * l.inner; line++) {
        int64_t best = 0, most = 0;
        for (int64_t i = 0; i < l.extent; i++) {
            int64_t n = 0, mine = ref_sort_element(&l, line, i);
            int c = ref_sort_compared(in, mine, in, ref_sort_element(&l, line, best));
            for (int64_t k = 0; k < l.extent; k++)
                n += !ref_sort_compared(in, mine, in, ref_sort_element(&l, line, k));
            if (n > most || (n == most && c <= 0)) {
                best = i;
                most = n;
            }
        }
        ref_array_copy(&out[0], line, in, ref_sort_element(&l, line, best));
        out[1].u[line] = (uint64_t)best;
    }
}

/* Groups equal elements in the order of `order`; a group begins with its first element. */
static void ref_sort_grouped(const struct ref_array *x, const int64_t *order,
                             struct ref_array *values, struct ref_array *first,
                             struct ref_array *inverse, struct ref_array *counts)
{
    int64_t n = 0, group = -1;

    for (int64_t i = 0; i < x->count; i++)
        n += !i || ref_sort_compared(x, order[i], x, order[i - 1]);
    ref_array_init(values, x->type->dtype, 1, &n);
    if (first) ref_array_init(first, BP_I64, 1, &n);
    ref_array_init(inverse, BP_I64, 1, &x->count);
    ref_array_init(counts, BP_I64, 1, &n);
    for (int64_t i = 0; i < x->count; i++) {
        if (!i || ref_sort_compared(x, order[i], x, order[i - 1])) {
            ref_array_copy(values, ++group, x, order[i]);
            if (first) first->u[group] = (uint64_t)order[i];
        }
        inverse->u[order[i]] = (uint64_t)group;
        counts->u[group]++;
    }
}

void ref_unique(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct lines whole = {in, 1, in->count, 1};
    int64_t *order = ref_sort_ordered(&whole, 0, false);

    (void)attrs;
    ref_sort_grouped(in, order, &out[0], &out[1], &out[2], &out[3]);
    free(order);
}

void ref_unique_consecutive(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t *order = malloc(((size_t)in->count + 1) * sizeof *order);

    (void)attrs;
    if (!order) abort();
    for (int64_t i = 0; i < in->count; i++) order[i] = i;
    ref_sort_grouped(in, order, &out[0], NULL, &out[1], &out[2]);
    free(order);
}

/* Counts the sorted values below each value (or up to it), one by one. */
static void ref_sort_search(const struct ref_array *sorted, const struct ref_array *x, bool right,
                            uint32_t dtype, struct ref_array *out)
{
    int64_t n = sorted->shape[sorted->rank - 1], m = x->rank ? x->shape[x->rank - 1] : 1;

    ref_array_init(out, dtype, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t line = sorted->rank == 1 ? 0 : i / m * n;
        for (int64_t k = 0; k < n; k++)
            out->u[i] += ref_sort_compared(sorted, line + k, x, i) < (right ? 1 : 0);
    }
}

void ref_searchsorted(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_searchsorted_attrs *a = attrs;

    ref_sort_search(&in[0], &in[1], a->right, (uint32_t)a->dtype, out);
}

void ref_bucketize(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_bucketize_attrs *a = attrs;

    ref_sort_search(&in[1], &in[0], a->right, (uint32_t)a->dtype, out);
}

static long double ref_sort_value_of(const struct ref_array *x, int64_t i)
{
    return x->u ? (long double)(int64_t)x->u[i] : x->v[i];
}

/* The bin as the operator's definition has it: computed in steps that are rounded to f32, or to
 * f64. */
static int64_t bin_of(bool narrow, long double x, long double low, long double high, int64_t bins)
{
    if (narrow) {
        volatile float above = (float)x - (float)low, width = (float)high - (float)low;
        volatile float scaled = above * (float)bins, bin = scaled / width;
        return (int64_t)bin < bins ? (int64_t)bin : bins - 1;
    }
    volatile double above = (double)x - (double)low, width = (double)high - (double)low;
    volatile double scaled = above * (double)bins, bin = scaled / width;
    return (int64_t)bin < bins ? (int64_t)bin : bins - 1;
}

void ref_histogram(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_histogram_attrs *a = attrs;
    bool narrow = !in->u && num_accumulate(in->type)->digits < 53, any = false;
    long double low = narrow ? (float)a->low : a->low, high = narrow ? (float)a->high : a->high;

    ref_array_init(out, BP_I64, 1, &a->bins);
    for (int64_t i = 0; a->low >= a->high && i < in->count; i++) {
        long double x = narrow || !in->u ? ref_sort_value_of(in, i)
                                         : (double)ref_sort_value_of(in, i);
        if (isnan(x)) continue;
        low = !any || x < low ? x : low;
        high = !any || x > high ? x : high;
        any = true;
    }
    if (low == high) {
        low = narrow ? (float)low - 1 : (double)low - 1;
        high = narrow ? (float)high + 1 : (double)high + 1;
    }
    for (int64_t i = 0; i < in->count; i++) {
        long double x = in->u ? (double)ref_sort_value_of(in, i) : ref_sort_value_of(in, i);
        if (!isfinite(high - low) || !(x >= low && x <= high)) continue;
        out->u[bin_of(narrow, x, low, high, a->bins)]++;
    }
}

static bool ref_sort_overlaps(const long double *boxes, int64_t i, int64_t k, long double threshold)
{
    const long double *a = boxes + 4 * i, *b = boxes + 4 * k;
    long double width = fminl(a[2], b[2]) - fmaxl(a[0], b[0]);
    long double height = fminl(a[3], b[3]) - fmaxl(a[1], b[1]);
    long double shared = width > 0 && height > 0 ? width * height : 0;
    long double both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared;

    return shared / both > threshold;
}

void ref_nms(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t n = in->shape[0], kept = 0;
    struct lines line = {&in[1], 1, n, 1};
    int64_t *order = in[1].type ? ref_sort_ordered(&line, 0, true) : NULL;
    int64_t *keep = malloc(((size_t)n + 1) * sizeof *keep);

    if (!keep) abort();
    for (int64_t i = 0; i < n; i++) {
        int64_t mine = order ? order[i] : i;
        bool stays = true;
        for (int64_t k = 0; k < kept; k++)
            stays &= !ref_sort_overlaps(in->v, keep[k], mine, ref_number(in->type, attrs, 1));
        if (stays) keep[kept++] = mine;
    }
    ref_array_init(out, BP_I64, 1, &kept);
    for (int64_t i = 0; i < kept; i++) out->u[i] = (uint64_t)keep[i];
    free(order);
    free(keep);
}

/* Returns the boxes as lower and upper corner. The caller frees them. */
static long double *ref_sort_cornered(const struct ref_array *boxes, bool centre)
{
    long double *c = malloc(((size_t)boxes->count + 1) * sizeof *c);

    if (!c) abort();
    for (int64_t i = 0; i < boxes->count; i++) {
        int64_t first = i % 4 < 2 ? i : i - 2;
        long double u = boxes->v[first], v = boxes->v[first + 2];
        long double low = centre ? u - v / 2 : fminl(u, v);
        c[i] = i == first ? low : centre ? u + v / 2 : fmaxl(u, v);
    }
    return c;
}

/* Writes the kept boxes of one line of scores to keep; returns their number. */
static int64_t ref_sort_suppressed(const struct lines *scores, int64_t line,
                                   const long double *boxes, const void *attrs, int64_t *keep)
{
    const struct bp_non_max_suppression_attrs *a = attrs;
    const struct num_type *type = scores->x->type;
    int64_t *order = ref_sort_ordered(scores, line, true), kept = 0;

    for (int64_t i = 0; i < scores->extent && kept < a->max_boxes; i++) {
        bool stays = a->score_threshold == -INFINITY ||
                     !(scores->x->v[ref_sort_element(scores, line, order[i])] <=
                       ref_number(type, attrs, 3));
        for (int64_t k = 0; k < kept; k++)
            stays &= !ref_sort_overlaps(boxes, keep[k], order[i], ref_number(type, attrs, 2));
        if (stays) keep[kept++] = order[i];
    }
    free(order);
    return kept;
}

void ref_non_max_suppression(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_non_max_suppression_attrs *a = attrs;
    struct lines scores = ref_sort_lines_of(&in[1], 2);
    int64_t *keep = malloc(((size_t)in[1].count + 1) * sizeof *keep);
    int64_t *row = malloc((3 * (size_t)in[1].count + 1) * sizeof *row), shape[] = {0, 3};
    long double *boxes = ref_sort_cornered(&in[0], a->center_point_box);

    if (!keep || !row) abort();
    for (int64_t line = 0; in[1].count && line < scores.outer; line++) {
        int64_t batch = line / in[1].shape[1];
        int64_t n = ref_sort_suppressed(&scores, line, boxes + batch * in[0].shape[1] * 4, attrs,
                                        keep);
        for (int64_t i = 0; i < n; i++, shape[0]++) {
            row[3 * shape[0]] = batch;
            row[3 * shape[0] + 1] = line % in[1].shape[1];
            row[3 * shape[0] + 2] = keep[i];
        }
    }
    ref_array_init(out, BP_I64, 2, shape);
    for (int64_t i = 0; i < out->count; i++) out->u[i] = (uint64_t)row[i];
    free(boxes);
    free(keep);
    free(row);
}
