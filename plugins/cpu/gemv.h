/* SPDX-License-Identifier: Apache-2.0 */
/* gemv.h: multiplies a vector by a matrix, for a dtype (elem.h) whose sums have the same type. Each
 * element of the matrix is used once, so the speed of memory decides: the matrix is read in a few
 * long streams. */
#ifndef CPU_GEMV_H
#define CPU_GEMV_H

#include "cpu.h"
#include "matmul.h"
#include <dialect/elem.h>

enum {
    GEMV_WIDE = 16384 / (int)sizeof(acc), /* a row of at most so many results is read whole */
    GEMV_PART = 2048 / (int)sizeof(acc),  /* results of a task that reads parts of rows */
    GEMV_LONG = 32768 / (int)sizeof(acc), /* rows of so many results or more are read in long parts,
                                             and their sums are added to y */
    GEMV_LINES = 16,                      /* results of a task whose terms are contiguous */
    GEMV_LANES = 128 / (int)sizeof(acc), /* partial sums of one result whose terms are contiguous */
    GEMV_SUMS = 4,       /* tasks that share the terms of a result, at most */
    GEMV_SPLIT = 65536,  /* a matrix of so many elements is divided by terms */
    GEMV_LINE = 64,                      /* size of a cache line in bytes */
    GEMV_AHEAD = 8192 / (int)sizeof(elem), /* how far whole rows are prefetched */
};

struct gemv {
    struct matmul_line line;
    const elem *x, *matrix;
    elem *y;
    int64_t each;  /* results of a task */
    int64_t tasks; /* tasks of one product, or of one of its sums */
    int64_t terms; /* terms of a sum, of a product that is divided by terms */
    elem *sums;    /* for each of its sums the results, one after the other */
};

static inline void gemv_fetch(const elem *at, int64_t n)
{
    for (int64_t i = 0; i < n; i += GEMV_LINE / (int64_t)sizeof *at) __builtin_prefetch(at + i);
}

/* The functions gemv_whole, gemv_parts and gemv_long compute contiguous results, and add the terms
 * of each in the order of k: the results are equal, however a product is divided into tasks. */

/* Reads whole rows, which are one stream. */
static void gemv_whole(const struct matmul_line *l, const elem *x, const elem *b, elem *y)
{
    acc sum[GEMV_WIDE];

    for (int64_t j = 0; j < l->n; j++) sum[j] = 0;
    for (int64_t k = 0; k < l->k; k++, b += l->row) {
        acc by = x[k * l->x_step];
        int64_t j = 0, n;
        for (; j < l->n; j += n) {
            n = l->n - j < GEMV_LANES ? l->n - j : GEMV_LANES;
            gemv_fetch(b + j + GEMV_AHEAD, n);
            if (n == GEMV_LANES)
                for (int i = 0; i < GEMV_LANES; i++) sum[j + i] += by * b[j + i];
            else
                for (int64_t i = j; i < l->n; i++) sum[i] += by * b[i];
        }
    }
    for (int64_t j = 0; j < l->n; j++) y[j * l->y_step] = sum[j];
}

/* Reads parts of four rows at a time, and prefetches those of the next four. */
static void gemv_parts(const struct matmul_line *l, const elem *x, const elem *b, elem *y,
                       int64_t w)
{
    acc sum[GEMV_PART];
    int64_t k = 0;

    for (int64_t j = 0; j < w; j++) sum[j] = 0;
    for (; k + 4 <= l->k; k += 4, b += 4 * l->row) {
        const elem *b1 = b + l->row, *b2 = b1 + l->row, *b3 = b2 + l->row;
        acc x0 = x[k * l->x_step], x1 = x[(k + 1) * l->x_step], x2 = x[(k + 2) * l->x_step],
            x3 = x[(k + 3) * l->x_step];
        for (int i = 4; i < 8 && k + i < l->k; i++) gemv_fetch(b + i * l->row, w);
#pragma omp simd
        for (int64_t j = 0; j < w; j++)
            sum[j] = (((sum[j] + x0 * b[j]) + x1 * b1[j]) + x2 * b2[j]) + x3 * b3[j];
    }
    for (; k < l->k; k++, b += l->row) {
        acc x0 = x[k * l->x_step];
#pragma omp simd
        for (int64_t j = 0; j < w; j++) sum[j] += x0 * b[j];
    }
    for (int64_t j = 0; j < w; j++) y[j * l->y_step] = sum[j];
}

/* Reads long parts of four rows at a time. Their sums would fill the first cache, so they are added
 * to y, which is contiguous. */
static void gemv_long(const struct matmul_line *l, const elem *x, const elem *b, elem *y, int64_t w)
{
    int64_t k = 0, row = l->row, step = l->x_step;

    for (int64_t j = 0; j < w; j++) y[j] = 0;
    for (; k + 4 <= l->k; k += 4, b += 4 * row, x += 4 * step) {
        acc x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
#pragma omp simd
        for (int64_t j = 0; j < w; j++)
            y[j] = (((y[j] + x0 * b[j]) + x1 * b[row + j]) + x2 * b[2 * row + j]) +
                   x3 * b[3 * row + j];
    }
    for (; k < l->k; k++, b += row, x += step)
#pragma omp simd
        for (int64_t j = 0; j < w; j++) y[j] += x[0] * b[j];
}

/* Whether the product is one sum whose terms are contiguous. */
static inline bool gemv_is_dot(const struct matmul_line *l)
{
    return l->n == 1 && l->row == 1 && l->x_step == 1;
}

static inline bool gemv_is_long(const struct matmul_line *l)
{
    return l->column == 1 && l->y_step == 1 && l->n >= GEMV_LONG;
}

/* Computes one result whose terms are contiguous. */
static acc gemv_dot(const elem *x, const elem *b, int64_t n)
{
    acc lane[GEMV_LANES];
    int64_t i = 0;

    for (int j = 0; j < GEMV_LANES; j++) lane[j] = 0;
    for (; i + GEMV_LANES <= n; i += GEMV_LANES)
        for (int j = 0; j < GEMV_LANES; j++) lane[j] += (acc)x[i + j] * b[i + j];
    for (int j = 0; i < n; i++, j++) lane[j] += (acc)x[i] * b[i];
    for (int half = GEMV_LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static void gemv_task(void *arg, int64_t task)
{
    const struct gemv *g = arg;
    const struct matmul_line *l = &g->line;
    int64_t at[WALK_VIEWS], first = task % g->tasks * g->each, n;

    walk_offset(&l->batch, task / g->tasks, at);
    n = l->n - first < g->each ? l->n - first : g->each;
    const elem *x = g->x + at[1], *b = g->matrix + at[2] + first * l->column;
    elem *y = g->y + at[0] + first * l->y_step;
    if (l->column == 1 && !gemv_is_dot(l)) {
        if (gemv_is_long(l)) gemv_long(l, x, b, y, n);
        else if (n == l->n && n > GEMV_PART) gemv_whole(l, x, b, y);
        else gemv_parts(l, x, b, y, n);
        return;
    }
    for (int64_t j = 0; j < n; j++) y[j * l->y_step] = gemv_dot(x, b + j * l->column, l->k);
}

/* How many results a task has. */
static int64_t gemv_each(const struct matmul_line *l, uint32_t width)
{
    int64_t share = (l->n + width - 1) / width;

    if (l->column != 1) return GEMV_LINES;
    if (share == l->n && l->n <= GEMV_WIDE) return l->n;
    if (share > GEMV_PART && !gemv_is_long(l)) share = GEMV_PART;
    return (share + GEMV_LANES - 1) / GEMV_LANES * GEMV_LANES;
}

/* Whether the terms of each result are divided into sums, which are added up at last: a task then
 * reads whole rows. A token of GPT-2 takes 0.71 of the time on two threads, and 0.88 on one, of
 * tasks that read parts of rows. This and the sums depend on the product alone, so the result has
 * the same bits at any width. */
static inline bool gemv_is_split(const struct matmul_line *l)
{
    return l->column == 1 && !gemv_is_dot(l) && l->batch.count == 1 && l->n <= GEMV_WIDE &&
           l->n * l->k >= GEMV_SPLIT;
}

static void gemv_sum_task(void *arg, int64_t task)
{
    const struct gemv *g = arg;
    int64_t sum = task / g->tasks, from = sum * g->terms, first = task % g->tasks * g->each;
    int64_t n = g->line.n - first < g->each ? g->line.n - first : g->each;
    struct matmul_line l = g->line;
    const elem *x = g->x + from * l.x_step, *b = g->matrix + from * l.row + first;
    elem *y = g->sums + sum * l.n + first;

    l.k = l.k - from < g->terms ? l.k - from : g->terms;
    l.y_step = 1;
    if (n == l.n && n > GEMV_PART) gemv_whole(&l, x, b, y);
    else gemv_parts(&l, x, b, y, n);
}

/* Computes a product that is divided by terms. Where the sums do not occupy all threads, each sum
 * is also divided by results. */
static void gemv_split(struct gemv *g, uint32_t width)
{
    const struct matmul_line *l = &g->line;
    int64_t pieces = width && GEMV_SUMS % width ? (width + 1) / 2 : 1, count;
    elem sums[GEMV_SUMS * GEMV_WIDE];

    g->sums = sums;
    g->terms = (l->k + 4 * GEMV_SUMS - 1) / (4 * GEMV_SUMS) * 4;
    g->each = ((l->n + pieces - 1) / pieces + GEMV_LANES - 1) / GEMV_LANES * GEMV_LANES;
    if (pieces > 1 && g->each > GEMV_PART) g->each = GEMV_PART;
    g->tasks = (l->n + g->each - 1) / g->each;
    count = (l->k + g->terms - 1) / g->terms;
    cpu_team_run(gemv_sum_task, g, g->tasks * count, width);
    for (int64_t i = 1; i < count; i++)
        for (int64_t j = 0; j < l->n; j++) sums[j] += sums[i * l->n + j];
    for (int64_t j = 0; j < l->n; j++) g->y[j * l->y_step] = sums[j];
}

/* Computes the product if it is a vector times a matrix of this kind. false: the product has
 * another form; nothing was computed. */
static bool gemv_run(const struct bp_launch *launch, const struct matmul *s)
{
    struct gemv g = {.y = launch->out[0]->data};
    uint32_t width;

    if (!matmul_is_line(s, &g.line)) return false;
    g.x = launch->in[g.line.swapped]->data;
    g.matrix = launch->in[!g.line.swapped]->data;
    width = cpu_team_width(launch, (double)launch->out[0]->count * (double)s->k);
    if (gemv_is_split(&g.line)) {
        gemv_split(&g, width);
        return true;
    }
    g.each = gemv_each(&g.line, s->batch.count < width ? width : 1);
    g.tasks = (g.line.n + g.each - 1) / g.each;
    cpu_team_run(gemv_task, &g, g.tasks * s->batch.count, width);
    return true;
}

#endif
