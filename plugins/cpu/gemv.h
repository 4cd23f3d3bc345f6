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
    GEMV_WIDE = 8192 / (int)sizeof(acc), /* results of a task that are contiguous in the matrix */
    GEMV_LINES = 16,                     /* results of a task whose terms are contiguous */
    GEMV_LANES = 128 / (int)sizeof(acc), /* partial sums of one result whose terms are contiguous */
    GEMV_LINE = 64,                      /* size of a cache line in bytes */
};

struct gemv {
    struct matmul_line line;
    const elem *x, *matrix;
    elem *y;
    int64_t tasks; /* tasks of one product */
};

static inline void gemv_fetch(const elem *at, int64_t n)
{
    for (int64_t i = 0; i < n; i += GEMV_LINE / (int64_t)sizeof *at) __builtin_prefetch(at + i);
}

/* Computes contiguous results: uses four rows of the matrix at a time while the next four are
 * prefetched. */
static void gemv_across(const struct matmul_line *l, const elem *x, const elem *b, elem *y,
                        int64_t w)
{
    acc sum[GEMV_WIDE];
    int64_t k = 0;

    for (int64_t j = 0; j < w; j++) sum[j] = 0;
    for (; k + 4 <= l->k; k += 4, b += 4 * l->row) {
        const elem *b1 = b + l->row, *b2 = b1 + l->row, *b3 = b2 + l->row;
        acc x0 = x[k * l->x_step], x1 = x[(k + 1) * l->x_step], x2 = x[(k + 2) * l->x_step],
            x3 = x[(k + 3) * l->x_step];
        for (int i = 4; i < 8 && k + i < l->k; i++) gemv_fetch(b + i * l->row, w);
#pragma omp simd
        for (int64_t j = 0; j < w; j++)
            sum[j] += (x0 * b[j] + x1 * b1[j]) + (x2 * b2[j] + x3 * b3[j]);
    }
    for (; k < l->k; k++, b += l->row) {
        acc x0 = x[k * l->x_step];
#pragma omp simd
        for (int64_t j = 0; j < w; j++) sum[j] += x0 * b[j];
    }
    for (int64_t j = 0; j < w; j++) y[j * l->y_step] = sum[j];
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
    int64_t at[WALK_VIEWS], first = task % g->tasks * (l->column == 1 ? GEMV_WIDE : GEMV_LINES), n;

    walk_offset(&l->batch, task / g->tasks, at);
    n = l->n - first;
    const elem *x = g->x + at[1], *b = g->matrix + at[2] + first * l->column;
    elem *y = g->y + at[0] + first * l->y_step;
    if (l->column == 1) {
        gemv_across(l, x, b, y, n < GEMV_WIDE ? n : GEMV_WIDE);
        return;
    }
    for (int64_t j = 0; j < n && j < GEMV_LINES; j++)
        y[j * l->y_step] = gemv_dot(x, b + j * l->column, l->k);
}

/* Computes the product if it is a vector times a matrix of this kind. false: the product has
 * another form; nothing was computed. */
static bool gemv_run(const struct bp_launch *launch, const struct matmul *s)
{
    struct gemv g = {.y = launch->out[0]->data};
    int64_t each;

    if (!matmul_is_line(s, &g.line)) return false;
    g.x = launch->in[g.line.swapped]->data;
    g.matrix = launch->in[!g.line.swapped]->data;
    each = g.line.column == 1 ? GEMV_WIDE : GEMV_LINES;
    g.tasks = (g.line.n + each - 1) / each;
    cpu_team_run(gemv_task, &g, g.tasks * s->batch.count,
                 cpu_team_width(launch, (double)launch->out[0]->count * (double)s->k));
    return true;
}

#endif
