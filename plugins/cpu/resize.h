/* SPDX-License-Identifier: Apache-2.0 */
/* resize.h: defines the plan of resize over all its axes, which resize_plan.c makes, and resize.c
 * and resize_nearest.c run.
 *
 * An image is seen as planes of lines. `inner` elements are contiguous in x and y, and are
 * resampled alike. A line is a run of them along the columns' axis, or only one such run if no axis
 * of columns is resampled. `lines` axes count the lines of a plane; the other axes count planes. */
#ifndef CPU_RESIZE_H
#define CPU_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

enum { RESIZE_PLANES = 8, RESIZE_LINES = 2 };

/* The weights along an axis. Elements first[o] to first[o] + n[o] - 1 of x have the weights
 * weight[o * room], ..., in f64 if the result is f64, and in f32 otherwise. */
struct resize_weights {
    int64_t taps, room; /* taps: the most of an element */
    int64_t *first, *n;
    void *weight;
};

/* One resampled axis. With nearest, element o of the result is the element of x at offset at[o]. */
struct resize_axis {
    int64_t in, out, x_step, y_step;
    int64_t *at;
    struct resize_weights w;
};

/* The weights of a line, if `inner` is small: element j of the result has `taps` weights by[k * n +
 * j] of the elements first[j] + k * step. Weights of 0 stand for elements that do not belong to
 * the result's element. */
struct resize_columns {
    int64_t n, taps, step;
    int32_t *first;
    void *by;
    int64_t reach; /* the most elements from the first to the last that any 16 neighbours read */
};

struct resize_plan {
    int planes_rank, lines;
    int64_t planes, shape[RESIZE_PLANES], x_step[RESIZE_PLANES], y_step[RESIZE_PLANES];
    int64_t inner, x_line, y_line; /* x_line, y_line: elements of a line */
    bool has_columns;
    bool columns_first; /* each line of x is resampled along its columns before lines are added */
    bool twice;         /* nearest: columns 2 j and 2 j + 1 are copies of column j */
    bool pairs;         /* also lines 2 j and 2 j + 1, on the only axis of lines */
    struct resize_axis line[RESIZE_LINES], column;
    struct resize_columns columns;
    int32_t *place; /* nearest, if inner is small: the element of x's line for each of y's line */
    int64_t reach;  /* of `place`, as columns.reach */
    int64_t parts, part; /* the launch's tasks, and bytes of workspace of each */
    int64_t room;        /* elements of a line in the workspace */
    uint64_t bytes;      /* of all tables */
};

/* The number of lines of the result. */
static inline int64_t resize_lines(const struct resize_plan *p)
{
    int64_t n = p->planes;

    for (int i = 0; i < p->lines; i++) n *= p->line[i].out;
    return n;
}

/* The offsets of a plane. */
struct resize_offset {
    int64_t x, y;
};

static inline struct resize_offset resize_plane(const struct resize_plan *p, int64_t plane)
{
    struct resize_offset at = {0, 0};

    for (int d = p->planes_rank - 1; d >= 0; d--) {
        int64_t c = plane % p->shape[d];
        plane /= p->shape[d];
        at.x += c * p->x_step[d];
        at.y += c * p->y_step[d];
    }
    return at;
}

#endif
