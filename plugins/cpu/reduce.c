/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: computes sums over any axes, for one dtype (elem.h), and means for floats.
 *
 * Terms are added pairwise: a range of terms is halved until it is short, so that rounding errors
 * grow with the logarithm of the number of terms. The split depends only on shapes and strides,
 * never on the width, so results have the same bits at any width. */
#include "axes.h"
#include "cpu.h"
#include <dialect/elem.h>
#include "kernels.h"
#include "walk.h"
#include <stdbool.h>

enum {
    COLUMNS = 64,        /* sums that are computed side by side */
    WIDE = 8192 / (int)sizeof(acc), /* their maximum number, where the sums are contiguous in x */
    PARTIALS = 32,          /* partial sums of one contiguous row */
    LEAF_ROW = 1024, /* terms that are added without halving: along a contiguous row, in PARTIALS
                        partial sums */
    LEAF = 64,           /* in all other cases, one after the other */
    PART = 65536,        /* terms of a task, where there are few sums and many terms */
    PARTS = 64,          /* the maximum number of these tasks */
    CACHE_LINE = 64,
    AHEAD = 8192,
};

struct sum {
    struct walk kept;  /* views y, x: over the axes of y */
    struct walk terms; /* view x: over the summed axes */
    const elem *x;
    elem *y;
    int64_t wide, chunks; /* sums of a task, and tasks, along the last axis of `kept` */
    int64_t parts, part; /* number of tasks that split the terms; terms of each */
    acc *partial;      /* parts * COLUMNS partial sums, if parts > 1 */
    int scaled;        /* whether sums are multiplied by `factor`: floats only */
    acc factor;
};

/* The sums of some terms for w neighbouring columns. */
struct columns {
    const struct sum *sum;
    const elem *x; /* the first term of the first sum */
    int64_t w, step; /* number of columns, and their distance in x */
    acc *to;
};

static acc row_sum(const elem *x, int64_t n)
{
    acc lane[PARTIALS];
    int64_t i = 0;

    for (int j = 0; j < PARTIALS; j++) lane[j] = acc_zero();
    for (; i + PARTIALS <= n; i += PARTIALS)
        for (int j = 0; j < PARTIALS; j++) lane[j] = acc_add(lane[j], elem_get(x[i + j]));
    for (int j = 0; i < n; i++, j++) lane[j] = acc_add(lane[j], elem_get(x[i]));
    for (int half = PARTIALS / 2; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] = acc_add(lane[j], lane[j + half]);
    return lane[0];
}

static acc strided_sum(const elem *x, int64_t n, int64_t step)
{
    acc total = acc_zero();

    for (int64_t i = 0; i < n; i++) total = acc_add(total, elem_get(x[i * step]));
    return total;
}

/* Prefetches the addresses AHEAD bytes after n terms, which need not exist. Where the lines of x
 * follow each other, a hardware prefetcher does not recognise four short lines that are read
 * together as streams. */
static inline void lines_fetch(const elem *x, int64_t n)
{
    uintptr_t at = (uintptr_t)x + AHEAD, end = at + (uintptr_t)n * sizeof(elem);

    for (; at < end; at += CACHE_LINE) __builtin_prefetch((const void *)at);
}

/* Adds n lines of w terms, four lines at a time: the running sums are read and written once for
 * four lines, and memory receives requests for several lines at the same time. */
static void lines_add(acc *to, const elem *x, int64_t w, int64_t n, int64_t step)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4, x += 4 * step) {
        const elem *b = x + step, *c = b + step, *d = c + step;
        if (w == step) lines_fetch(x, 4 * w);
#pragma omp simd
        for (int64_t j = 0; j < w; j++)
            to[j] = acc_add(acc_add(acc_add(acc_add(to[j], elem_get(x[j])), elem_get(b[j])),
                                    elem_get(c[j])),
                            elem_get(d[j]));
    }
    for (; i < n; i++, x += step) {
#pragma omp simd
        for (int64_t j = 0; j < w; j++) to[j] = acc_add(to[j], elem_get(x[j]));
    }
}

/* Adds a span of n terms along the innermost summed axis to each column. */
static void columns_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct columns *c = ctx;
    const struct walk *terms = &c->sum->terms;
    int64_t step = terms->stride[0][terms->rank - 1];
    const elem *x = c->x + at[0];
    acc *to = c->to;

    if (step == 1) {
        for (int64_t j = 0; j < c->w; j++) to[j] = acc_add(to[j], row_sum(x + j * c->step, n));
    } else if (c->step == 1 && c->w > 1) {
        lines_add(to, x, c->w, n, step);
    } else {
        for (int64_t j = 0; j < c->w; j++)
            to[j] = acc_add(to[j], strided_sum(x + j * c->step, n, step));
    }
}

/* to[j] = the sum of terms begin to end - 1 of column j. */
static void columns_sum(const struct columns *c, int64_t begin, int64_t end)
{
    const struct walk *terms = &c->sum->terms;
    int64_t leaf = terms->stride[0][terms->rank - 1] == 1 ? LEAF_ROW : LEAF;

    if (end - begin <= leaf) {
        for (int64_t j = 0; j < c->w; j++) c->to[j] = acc_zero();
        walk_spans(terms, begin, end, columns_span, (void *)c);
        return;
    }
    int64_t half = (end - begin) / 2;
    int64_t middle = begin + (half + leaf - 1) / leaf * leaf;
    acc right[WIDE];
    struct columns other = *c;

    other.to = right;
    columns_sum(c, begin, middle);
    columns_sum(&other, middle, end);
    for (int64_t j = 0; j < c->w; j++) c->to[j] = acc_add(c->to[j], right[j]);
}

static inline elem sum_result(const struct sum *sum, acc total)
{
#ifdef ELEM_FLOAT
    if (sum->scaled) total *= sum->factor;
#else
    (void)sum;
#endif
    return elem_put(total);
}

/* Describes the columns of one chunk: their addresses in x and y. */
static struct columns chunk_columns(const struct sum *sum, int64_t chunk, acc *to, elem **y,
                                    int64_t *y_step)
{
    const struct walk *kept = &sum->kept;
    int last = kept->rank - 1;
    int64_t row = chunk / sum->chunks, first = chunk % sum->chunks * sum->wide;
    int64_t w = kept->shape[last] - first, at[WALK_VIEWS];

    walk_offset(kept, row * kept->shape[last] + first, at);
    *y = sum->y + at[0];
    *y_step = kept->stride[0][last];
    return (struct columns){.sum = sum,
                            .x = sum->terms.count ? sum->x + at[1] : NULL,
                            .w = w < sum->wide ? w : sum->wide,
                            .step = kept->stride[1][last],
                            .to = to};
}

static void sum_chunk(void *arg, int64_t chunk)
{
    const struct sum *sum = arg;
    acc total[WIDE];
    elem *y;
    int64_t y_step;
    struct columns c = chunk_columns(sum, chunk, total, &y, &y_step);

    columns_sum(&c, 0, sum->terms.count);
    for (int64_t j = 0; j < c.w; j++) y[j * y_step] = sum_result(sum, total[j]);
}

static void sum_part(void *arg, int64_t part)
{
    const struct sum *sum = arg;
    elem *y;
    int64_t y_step, begin = part * sum->part, end = begin + sum->part;
    struct columns c = chunk_columns(sum, 0, sum->partial + part * COLUMNS, &y, &y_step);

    columns_sum(&c, begin, end < sum->terms.count ? end : sum->terms.count);
}

/* Computes one chunk of sums with many terms: several tasks add the terms, and then their sums are
 * added in order. */
static void sum_in_parts(struct sum *sum, uint32_t width)
{
    acc partial[PARTS * COLUMNS];
    elem *y;
    int64_t y_step;
    struct columns c = chunk_columns(sum, 0, partial, &y, &y_step);

    sum->partial = partial;
    cpu_team_run(sum_part, sum, sum->parts, width);
    for (int64_t j = 0; j < c.w; j++) {
        acc total = partial[j];
        for (int64_t p = 1; p < sum->parts; p++) total = acc_add(total, partial[p * COLUMNS + j]);
        y[j * y_step] = sum_result(sum, total);
    }
}

static void sum_walks(struct sum *sum, const struct bp_view *x, const struct bp_view *y,
                      uint64_t summed, int keep)
{
    walk_init(&sum->kept, 0, NULL);
    walk_init(&sum->terms, 0, NULL);
    for (int a = 0, to = 0; a < x->rank; a++) {
        if (summed >> a & 1) {
            walk_append(&sum->terms, x->shape[a], &x->stride[a], 1);
            to += keep;
        } else {
            walk_append(&sum->kept, x->shape[a], (int64_t[]){y->stride[to], x->stride[a]}, 2);
            to++;
        }
    }
    walk_sort(&sum->kept, 1);
    walk_collapse(&sum->kept);
    walk_sort(&sum->terms, 0);
    walk_collapse(&sum->terms);
}

/* Whether the sums are contiguous in x, and the terms of each sum are not. */
static bool is_column(const struct sum *sum)
{
    return sum->kept.stride[1][sum->kept.rank - 1] == 1 &&
           sum->terms.stride[0][sum->terms.rank - 1] != 1;
}

/* Gives each task so many sums that there is one task for each thread. The order of additions does
 * not change. */
static void reduce_widen(struct sum *sum, int64_t columns, uint32_t width)
{
    int64_t part = COLUMNS * (int64_t)width, share = (columns + part - 1) / part * COLUMNS;

    sum->wide = share < WIDE ? share : WIDE;
    sum->chunks = (columns + sum->wide - 1) / sum->wide;
}

/* Computes all sums over the axes of `summed`. */
static enum bp_status sum_all(struct sum *sum, const struct bp_launch *launch, uint64_t summed,
                              int keep)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    uint32_t width = cpu_team_width(launch, (double)x->count);

    if (!y->count) return BP_OK;
    sum->x = x->data;
    sum->y = y->data;
    sum_walks(sum, x, y, summed, keep);
    int64_t columns = sum->kept.shape[sum->kept.rank - 1];
    sum->wide = COLUMNS;
    sum->chunks = (columns + COLUMNS - 1) / COLUMNS;
    int64_t tasks = sum->kept.count / columns * sum->chunks;

    sum->parts = (sum->terms.count + PART - 1) / PART;
    if (tasks == 1 && sum->parts > 1) {
        if (sum->parts > PARTS) sum->parts = PARTS;
        sum->part = (sum->terms.count + sum->parts - 1) / sum->parts;
        sum_in_parts(sum, width);
    } else {
        if (is_column(sum)) reduce_widen(sum, columns, width);
        cpu_team_run(sum_chunk, sum, sum->kept.count / columns * sum->chunks, width);
    }
    return BP_OK;
}

enum bp_status NAME(sum)(const struct bp_launch *launch)
{
    const struct bp_sum_attrs *attrs = launch->attrs;
    struct sum sum = {.scaled = 0};

    return sum_all(&sum, launch, axes_mask(&attrs->axes, launch->in[0]->rank), attrs->keep != 0);
}

#ifdef ELEM_FLOAT
/* The mean of nothing is 0 / 0. */
static enum bp_status mean_all(const struct bp_launch *launch, uint64_t summed, int keep)
{
    const struct bp_view *x = launch->in[0];
    struct sum sum = {.scaled = 1};
    double terms = 1;

    for (int a = 0; a < x->rank; a++)
        if (summed >> a & 1) terms *= (double)x->shape[a];
    sum.factor = (acc)(1 / terms);
    return sum_all(&sum, launch, summed, keep);
}

enum bp_status NAME(mean)(const struct bp_launch *launch)
{
    const struct bp_mean_attrs *attrs = launch->attrs;

    return mean_all(launch, axes_mask(&attrs->axes, launch->in[0]->rank), attrs->keep != 0);
}

/* The axes of images are all but the first two. */
enum bp_status NAME(global_avg_pool)(const struct bp_launch *launch)
{
    uint64_t all = ((uint64_t)1 << launch->in[0]->rank) - 1;

    return mean_all(launch, all & ~(uint64_t)3, launch->out[0]->rank == launch->in[0]->rank);
}
#endif
