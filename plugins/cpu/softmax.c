/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c: computes softmax and its gradient along any axis, for one float dtype (elem.h).
 *
 * A row is n elements along the axis. If a row's elements are contiguous, each row is one loop;
 * otherwise up to COLUMNS neighbouring rows are processed together, so that inner loops run over
 * contiguous elements. Sums are accumulated in double. */
#include "axes.h"
#include "cpu.h"
#include <dialect/maths.h>
#include "kernels.h"
#include "softmax_short.h"
#include "walk.h"
#include <math.h>
#include <stdbool.h>

enum {
    COLUMNS = 32, /* maximum number of rows that are processed together */
    TASK = 8192,  /* elements of a task, about, if each row is processed alone */
    PARTIALS = 32,   /* partial sums of a row */
    RUN = 1024,   /* terms that are added before their sums are added to a double: few in each
                     lane */
    RUN_COLUMNS = 32, /* the same for a column */
};

struct softmax {
    struct walk rows; /* views y, x; or dx, y, dy */
    int64_t n;        /* elements in a row */
    int64_t step[WALK_VIEWS]; /* distances of a row's elements */
    int64_t wide, chunks; /* rows of a task, and tasks, along the last axis of `rows` */
    elem *out;
    const elem *in[2];
};

static inline acc row_max(const elem *x, int64_t sx, int64_t n)
{
    acc lane[PARTIALS], max = (acc)-INFINITY;
    int64_t i = 0;

    for (int j = 0; j < PARTIALS; j++) lane[j] = max;
    for (; i + PARTIALS <= n; i += PARTIALS) {
#pragma omp simd
        for (int j = 0; j < PARTIALS; j++) {
            acc value = elem_get(x[(i + j) * sx]);
            lane[j] = value > lane[j] ? value : lane[j];
        }
    }
    for (; i < n; i++) max = elem_get(x[i * sx]) > max ? elem_get(x[i * sx]) : max;
    for (int half = PARTIALS / 2; half >= ACROSS; half /= 2) {
#pragma omp simd
        for (int j = 0; j < half; j++)
            lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];
    }
    acc most = across_max(lane);
    return most > max ? most : max;
}

static inline double lanes_sum(acc *lane)
{
    for (int half = PARTIALS / 2; half >= ACROSS; half /= 2) {
#pragma omp simd
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    }
    return (double)across_sum(lane);
}

/* y[i] = exp(x[i] - max), if y has enough bits for this value. Returns the sum of the values. */
static inline double row_exp(elem *y, int64_t sy, const elem *x, int64_t sx, int64_t n, acc max)
{
    acc lane[PARTIALS] = {0};
    int64_t i = 0;

    for (; i + PARTIALS <= n; i += PARTIALS) {
#pragma omp simd
        for (int j = 0; j < PARTIALS; j++) {
            acc e = acc_exp_below(elem_get(x[(i + j) * sx]) - max);
            if (sizeof(elem) == sizeof(acc)) y[(i + j) * sy] = (elem)e;
            lane[j] += e;
        }
    }
    for (int j = 0; i < n; i++, j++) {
        acc e = acc_exp_below(elem_get(x[i * sx]) - max);
        if (sizeof(elem) == sizeof(acc)) y[i * sy] = (elem)e;
        lane[j] += e;
    }
    return lanes_sum(lane);
}

/* y may be x. Half types have too few bits to hold a value that is divided later: for them exp is
 * computed a second time. */
static inline void softmax_row(elem *y, int64_t sy, const elem *x, int64_t sx, int64_t n)
{
    acc max = row_max(x, sx, n);
    double total = 0;

    for (int64_t i = 0; i < n; i += RUN)
        total += row_exp(y + i * sy, sy, x + i * sx, sx, n - i < RUN ? n - i : RUN, max);
    acc part = (acc)(1 / total); /* a division takes as long as all other operations */
    if (sizeof(elem) == sizeof(acc)) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i * sy] = elem_put(elem_get(y[i * sy]) * part);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i * sy] = elem_put(acc_exp_below(elem_get(x[i * sx]) - max) * part);
    }
}

static inline void columns_flush(acc *part, double *total, int64_t w)
{
    for (int64_t j = 0; j < w; j++) {
        total[j] += (double)part[j];
        part[j] = 0;
    }
}

/* w neighbouring rows; sy and sx are the distances of rows. */
static inline void softmax_columns(const struct softmax *s, elem *y, int64_t sy, const elem *x,
                                   int64_t sx, int64_t w)
{
    acc max[COLUMNS], part[COLUMNS] = {0};
    double total[COLUMNS] = {0};

    for (int64_t j = 0; j < w; j++) max[j] = (acc)-INFINITY;
    for (int64_t i = 0; i < s->n; i++) {
        const elem *row = x + i * s->step[1];
        for (int64_t j = 0; j < w; j++) {
            acc value = elem_get(row[j * sx]);
            max[j] = value > max[j] ? value : max[j];
        }
    }
    for (int64_t i = 0; i < s->n; i++) {
        const elem *row = x + i * s->step[1];
#pragma omp simd
        for (int64_t j = 0; j < w; j++) part[j] += acc_exp_below(elem_get(row[j * sx]) - max[j]);
        if ((i + 1) % RUN_COLUMNS == 0 || i + 1 == s->n) columns_flush(part, total, w);
    }
    for (int64_t j = 0; j < w; j++) part[j] = (acc)(1 / total[j]);
    for (int64_t i = 0; i < s->n; i++) {
        const elem *row = x + i * s->step[1];
        elem *to = y + i * s->step[0];
#pragma omp simd
        for (int64_t j = 0; j < w; j++)
            to[j * sy] = elem_put(acc_exp_below(elem_get(row[j * sx]) - max[j]) * part[j]);
    }
}

static inline double row_dot(const elem *x, int64_t sx, const elem *y, int64_t sy, int64_t n)
{
    acc lane[PARTIALS] = {0};
    int64_t i = 0;

    for (; i + PARTIALS <= n; i += PARTIALS) {
#pragma omp simd
        for (int j = 0; j < PARTIALS; j++)
            lane[j] += elem_get(x[(i + j) * sx]) * elem_get(y[(i + j) * sy]);
    }
    for (int j = 0; i < n; i++, j++) lane[j] += elem_get(x[i * sx]) * elem_get(y[i * sy]);
    return lanes_sum(lane);
}

static inline void grad_row(elem *dx, int64_t sd, const elem *y, int64_t sy, const elem *dy,
                            int64_t sdy, int64_t n)
{
    double total = 0;

    for (int64_t i = 0; i < n; i += RUN)
        total += row_dot(y + i * sy, sy, dy + i * sdy, sdy, n - i < RUN ? n - i : RUN);
    acc dot = (acc)total;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i * sd] = elem_put(elem_get(y[i * sy]) * (elem_get(dy[i * sdy]) - dot));
}

static inline void grad_columns(const struct softmax *s, elem *dx, int64_t sd, const elem *y,
                                int64_t sy, const elem *dy, int64_t sdy, int64_t w)
{
    acc part[COLUMNS] = {0};
    double total[COLUMNS] = {0};

    for (int64_t i = 0; i < s->n; i++) {
        const elem *a = y + i * s->step[1], *b = dy + i * s->step[2];
#pragma omp simd
        for (int64_t j = 0; j < w; j++) part[j] += elem_get(a[j * sy]) * elem_get(b[j * sdy]);
        if ((i + 1) % RUN_COLUMNS == 0 || i + 1 == s->n) columns_flush(part, total, w);
    }
    for (int64_t i = 0; i < s->n; i++) {
        elem *to = dx + i * s->step[0];
        const elem *a = y + i * s->step[1], *b = dy + i * s->step[2];
#pragma omp simd
        for (int64_t j = 0; j < w; j++)
            to[j * sd] = elem_put(elem_get(a[j * sy]) * (elem_get(b[j * sdy]) - (acc)total[j]));
    }
}

/* Returns the number of a chunk's rows, and the offset of the first row in each view. */
static int64_t chunk_rows(const struct softmax *s, int64_t chunk, int64_t *at)
{
    const struct walk *rows = &s->rows;
    int64_t side = rows->shape[rows->rank - 1], first = chunk % s->chunks * s->wide;

    walk_offset(rows, chunk / s->chunks * side + first, at);
    return side - first < s->wide ? side - first : s->wide;
}

static void softmax_chunk(void *arg, int64_t chunk)
{
    const struct softmax *s = arg;
    int last = s->rows.rank - 1;
    int64_t at[WALK_VIEWS], w = chunk_rows(s, chunk, at);
    int64_t sy = s->rows.stride[0][last], sx = s->rows.stride[1][last];
    elem *y = s->out + at[0];
    const elem *x = s->in[0] + at[1];

    if (s->step[0] == 1 && s->step[1] == 1) {
        if (short_rows(y, sy, x, sx, s->n, w)) return;
        for (int64_t j = 0; j < w; j++) softmax_row(y + j * sy, 1, x + j * sx, 1, s->n);
    } else if (sy == 1 && sx == 1)
        softmax_columns(s, y, 1, x, 1, w);
    else
        softmax_columns(s, y, sy, x, sx, w);
}

static void grad_chunk(void *arg, int64_t chunk)
{
    const struct softmax *s = arg;
    int last = s->rows.rank - 1;
    int64_t at[WALK_VIEWS], w = chunk_rows(s, chunk, at);
    int64_t sd = s->rows.stride[0][last], sy = s->rows.stride[1][last],
            sdy = s->rows.stride[2][last];
    elem *dx = s->out + at[0];
    const elem *y = s->in[0] + at[1], *dy = s->in[1] + at[2];

    if (s->step[0] == 1 && s->step[1] == 1 && s->step[2] == 1)
        for (int64_t j = 0; j < w; j++)
            grad_row(dx + j * sd, 1, y + j * sy, 1, dy + j * sdy, 1, s->n);
    else if (sd == 1 && sy == 1 && sdy == 1)
        grad_columns(s, dx, 1, y, 1, dy, 1, w);
    else
        grad_columns(s, dx, sd, y, sy, dy, sdy, w);
}

/* Runs the task for all chunks. All views have the output's shape. For rank 0 there is one row of
 * one element. */
static void rows_run(const struct bp_launch *launch, int64_t axis,
                     void (*task)(void *arg, int64_t chunk), double cost)
{
    const struct bp_view *out = launch->out[0];
    struct softmax s = {.n = 1, .out = out->data};
    int along = out->rank ? axis_index(axis, out->rank) : -1;

    if (!out->count) return;
    for (uint32_t i = 0; i < launch->n_in; i++) s.in[i] = launch->in[i]->data;
    walk_init(&s.rows, 0, NULL);
    for (int a = 0; a < out->rank; a++) {
        int64_t stride[WALK_VIEWS] = {out->stride[a]};
        for (uint32_t i = 0; i < launch->n_in; i++) stride[i + 1] = launch->in[i]->stride[a];
        if (a != along) {
            walk_append(&s.rows, out->shape[a], stride, WALK_VIEWS);
            continue;
        }
        s.n = out->shape[a];
        for (int i = 0; i < WALK_VIEWS; i++) s.step[i] = stride[i];
    }
    walk_sort(&s.rows, 0);
    walk_collapse(&s.rows);
    int64_t side = s.rows.shape[s.rows.rank - 1];
    bool by_row = s.step[0] == 1 && s.step[1] == 1 && (launch->n_in < 2 || s.step[2] == 1);
    s.wide = !by_row ? COLUMNS : s.n < TASK ? TASK / s.n : 1;
    s.chunks = (side + s.wide - 1) / s.wide;
    cpu_team_run(task, &s, s.rows.count / side * s.chunks,
                 cpu_team_width(launch, (double)out->count * cost));
}

enum bp_status NAME(softmax)(const struct bp_launch *launch)
{
    const struct bp_softmax_attrs *attrs = launch->attrs;

    rows_run(launch, attrs->axis, softmax_chunk, 8);
    return BP_OK;
}

enum bp_status NAME(softmax_grad)(const struct bp_launch *launch)
{
    const struct bp_softmax_grad_attrs *attrs = launch->attrs;

    rows_run(launch, attrs->axis, grad_chunk, 3);
    return BP_OK;
}
