/* SPDX-License-Identifier: Apache-2.0 */
/* conv_depthwise.c: computes depthwise convolutions of images whose channels are innermost, for
 * f32. A block is a few neighbouring results of one line: their sums for one or two vectors of
 * channels stay in registers while all taps are added. Taps outside the image are left out. */
#include "conv_own.h"
#include <dialect/elem.h>

typedef float vec __attribute__((vector_size(VECTOR)));
typedef float vec_any __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));
enum {
    WIDTH = VECTOR / (int)sizeof(float),
    ACROSS = VECTOR == 64 ? 2 : 1 /* vectors of channels in a block, as registers permit */
};

/* A block: n results at y from place `first` of line `line`. */
struct block {
    const struct conv_own *p;
    const float *packed, *bias;
    const float *x; /* the first point of the first window, if it is inside */
    float *y;
    int n, from, to; /* rows of the window that lie in the image */
    bool inside;     /* no window leaves the image to the sides, and n is CONV_OWN_BLOCK */
    /* Otherwise: the columns of each row of the window; NULL: outside the image. */
    const float *column[CONV_OWN_WINDOW][CONV_OWN_LINE];
};

static inline __attribute__((always_inline)) const float *block_at(const struct block *b, int row,
                                                                   int column, bool inside)
{
    return inside ? b->x + row * b->p->x_row + column * b->p->x_column : b->column[row][column];
}

/* Computes channels c to c + across * WIDTH - 1. All but b and c are constants wherever this is
 * inlined. */
static inline __attribute__((always_inline)) void block_sums(const struct block *b, int64_t c,
                                                             int window, int step, int across,
                                                             bool inside)
{
    const struct conv_own *p = b->p;
    vec sum[CONV_OWN_BLOCK][ACROSS];

    for (int v = 0; v < across; v++) {
        vec first = {0};
        if (b->bias) first = *(const vec_any *)(b->bias + c + v * WIDTH);
        for (int i = 0; i < CONV_OWN_BLOCK; i++) sum[i][v] = first;
    }
    for (int row = b->from; row < b->to; row++) {
        const float *w = b->packed + row * window * p->channels + c;
#pragma GCC unroll 5
        for (int tap = 0; tap < window; tap++, w += p->channels) {
            vec by[ACROSS];
            for (int v = 0; v < across; v++) by[v] = *(const vec_any *)(w + v * WIDTH);
#pragma GCC unroll 7
            for (int i = 0; i < CONV_OWN_BLOCK; i++) {
                const float *x = block_at(b, row, i * step + tap, inside);
                if (!x) continue; /* outside the image: a weight that is not finite has no effect */
                x += c;
                for (int v = 0; v < across; v++)
                    sum[i][v] += by[v] * *(const vec_any *)(x + v * WIDTH);
            }
        }
    }
#pragma GCC unroll 7
    for (int i = 0; i < CONV_OWN_BLOCK; i++) {
        if (!inside && i >= b->n) break;
        for (int v = 0; v < across; v++)
            *(vec_any *)(b->y + i * p->y_column + c + v * WIDTH) = sum[i][v];
    }
}

/* Computes all channels. The last vector overlaps the one before if the channels do not fill it. */
static inline __attribute__((always_inline)) void block_run(const struct block *b, int window,
                                                            int step, bool inside)
{
    int64_t c = 0, channels = b->p->channels;

    for (; c + ACROSS * WIDTH <= channels; c += ACROSS * WIDTH)
        block_sums(b, c, window, step, ACROSS, inside);
    for (; c < channels; c += WIDTH)
        block_sums(b, c + WIDTH <= channels ? c : channels - WIDTH, window, step, 1, inside);
}

static __attribute__((noinline)) void block_choose(const struct block *b)
{
    switch (b->p->window * 4 + b->p->step * 2 + b->inside) {
    case 3 * 4 + 1 * 2 + 0: block_run(b, 3, 1, false); break;
    case 3 * 4 + 1 * 2 + 1: block_run(b, 3, 1, true); break;
    case 3 * 4 + 2 * 2 + 0: block_run(b, 3, 2, false); break;
    case 3 * 4 + 2 * 2 + 1: block_run(b, 3, 2, true); break;
    case 5 * 4 + 1 * 2 + 0: block_run(b, 5, 1, false); break;
    case 5 * 4 + 1 * 2 + 1: block_run(b, 5, 1, true); break;
    case 5 * 4 + 2 * 2 + 0: block_run(b, 5, 2, false); break;
    case 5 * 4 + 2 * 2 + 1: block_run(b, 5, 2, true); break;
    }
}

/* Finds the columns of a block that leaves the image: `at` is the first one. */
static void block_columns(struct block *b, int64_t at)
{
    const struct conv_own *p = b->p;
    int last = (b->n - 1) * p->step + p->window;

    for (int row = b->from; row < b->to; row++)
        for (int i = 0; i < (CONV_OWN_BLOCK - 1) * p->step + p->window; i++)
            b->column[row][i] = i < last && at + i >= 0 && at + i < p->columns
                                    ? b->x + row * p->x_row + i * p->x_column
                                    : NULL;
}

/* Activates n results of a line. */
static void line_activate(const struct conv_own *p, int64_t n, float *y)
{
    if (p->y_column == p->channels) conv_own_activate(p, n * p->channels, y);
    else
        for (int64_t i = 0; i < n; i++) conv_own_activate(p, p->channels, y + i * p->y_column);
}

conv_own_task NAME(conv_depthwise);
void NAME(conv_depthwise)(void *arg, int64_t task)
{
    const struct conv_own_run *run = arg;
    const struct conv_own *p = run->plan;
    int64_t image = task / p->lines, line = task % p->lines, top = line * p->step - p->before[0];
    const float *x = run->x + image * p->x_image + top * p->x_row;
    float *y = run->y + image * p->y_image + line * p->y_row;
    struct block b = {.p = p,
                      .packed = run->packed,
                      .bias = run->bias,
                      .from = top < 0 ? (int)-top : 0,
                      .to = p->window};
    int64_t active = 0; /* so many results are activated */

    if (b.to > p->rows - top) b.to = (int)(p->rows - top);
    for (int64_t first = 0; first < p->places; first += CONV_OWN_BLOCK) {
        int64_t at = first * p->step - p->before[1], left = p->places - first;

        b.n = left < CONV_OWN_BLOCK ? (int)left : CONV_OWN_BLOCK;
        b.x = x + at * p->x_column;
        b.y = y + first * p->y_column;
        b.inside = b.n == CONV_OWN_BLOCK && at >= 0 &&
                   at + (CONV_OWN_BLOCK - 1) * p->step + p->window <= p->columns;
        if (!b.inside) block_columns(&b, at);
        block_choose(&b);
        int64_t end = first + b.n, n = end - active;
        if (n * p->channels < CONV_OWN_ACTIVE && end < p->places) continue;
        line_activate(p, n, y + active * p->y_column);
        active = end;
    }
}
