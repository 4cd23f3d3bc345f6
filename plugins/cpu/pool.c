/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: computes max_pool and avg_pool of images whose channels, or whose elements along the last
 * axis, are contiguous, for one float dtype (elem.h). The portable kernel computes all other cases.
 *
 * Contiguous channels share their windows: each position of the result passes through its window
 * once, with as many channels as the registers hold. For contiguous lines, all lines of x under a
 * line of the result are first reduced to one line: sums (or maxima) of columns, with the values of
 * padding at both ends. The windows then move along this one line. */
#include "cpu.h"
#include "kernels.h"
#include "stream_store.h"
#include "pool_rows.h"
#include <ops/pool/launch_shape.h>
#include <ops/pool/kernel_window.h>
#include <stdbool.h>

enum { ROOM = 2048 }; /* columns that are reduced in one step */

/* One call. The last axis of `a` is the axis along which lines are contiguous; axes that x lacks
 * come first. The elements that are computed together, those of a line or the channels, are `width`
 * long, and are computed in parts. */
struct pooling {
    struct pool_args a;
    struct pool_range whole[3]; /* for each axis, the positions whose windows are inside x */
    const elem *x;
    elem *y;
    bool channels; /* the channels are contiguous */
    bool fetches;  /* x is too large for the caches: prefetch it */
    bool each;     /* the windows along a line are computed one by one */
    bool direct;   /* directly from x: one line is under a line of the result, without padding */
    bool dense;    /* windows of consecutive lines are consecutive too */
    int64_t extent[2], x_step[2], y_step[2]; /* axes: images, channels */
    int64_t width, part, parts;
    int64_t columns, pitch, together; /* columns of a part; distance of lines; maximum number of
                                         lines computed together */
    int64_t lines; /* parts of lines in one task */
};

struct room {
    _Alignas(VECTOR) acc line[ROOM + 2 * POOL_LANES + 2];
    _Alignas(VECTOR) acc even[ROOM / 2 + POOL_LANES + 1], odd[ROOM / 2 + POOL_LANES + 1];
    _Alignas(VECTOR) acc count[ROOM]; /* for the part that begins at `counted`; -1: for none */
    int64_t counted;
};

/* An axis with one element. */
static const struct pool_axis one = {.in = 1, .out = 1, .window = 1, .stride = 1, .dilation = 1,
                                     .limit = 1};

static bool is_one(const struct pool_axis *axis)
{
    return axis->in == 1 && axis->out == 1 && axis->window == 1 && !axis->before;
}

/* Moves the last axis with more than one element to the end. */
static void pool_axes(struct pool_args *a, int rank)
{
    a->run = -1;
    for (int s = 0; s < 3; s++)
        if (s >= rank - 2) a->axis[s] = one;
    for (int i = 0; i < 2 && is_one(&a->axis[2]); i++) {
        a->axis[2] = a->axis[1];
        a->axis[1] = a->axis[0];
        a->axis[0] = one;
    }
    for (int s = 0; s < 3; s++) { /* set strides that are never used */
        struct pool_axis *axis = &a->axis[s];
        if (axis->in == 1) axis->x = 1;
        if (axis->out == 1) axis->y = 1;
        if (axis->out == 1) axis->stride = axis->window;
    }
}

/* Merges the last two axes if the windows are complete consecutive lines of x: these are windows of
 * one longer line. */
static bool pool_join_axes(struct pool_args *a)
{
    struct pool_axis *before = &a->axis[1], *line = &a->axis[2];
    int64_t n = line->in;

    if (a->adaptive || is_one(before) || line->out != 1 || line->window != n || line->before ||
        before->x != n || before->y != 1 || before->dilation != 1 || before->window > ROOM / n)
        return false;
    *line = (struct pool_axis){.in = before->in * n, .out = before->out,
                               .window = before->window * n, .stride = before->stride * n,
                               .dilation = 1, .before = before->before * n,
                               .limit = before->limit * n, .x = 1, .y = 1};
    a->axis[1] = a->axis[0];
    a->axis[0] = one;
    return true;
}

/* Makes all channels and all images part of the outermost axis, if its windows follow each other
 * without gaps or overlap. */
static void pool_join_planes(struct pooling *p)
{
    int s = !is_one(&p->a.axis[0]) ? 0 : !is_one(&p->a.axis[1]) ? 1 : 2;
    struct pool_axis *axis = &p->a.axis[s];

    if (p->a.adaptive || !p->a.whole) return;
    if (axis->window != axis->stride || axis->in != axis->out * axis->stride) return;
    for (int i = 1; i >= 0; i--) {
        if (p->extent[i] == 1) continue;
        if (p->x_step[i] != axis->in * axis->x || p->y_step[i] != axis->out * axis->y) return;
        axis->in *= p->extent[i];
        axis->out *= p->extent[i];
        p->extent[i] = 1;
    }
}

/* The positions of axis s whose windows are inside x. */
static struct pool_range pool_whole(const struct pool_args *a, int s)
{
    const struct pool_axis *axis = &a->axis[s];
    int64_t room = axis->in + axis->before - (axis->window - 1) * axis->dilation - 1;
    struct pool_range r = {0, 0};

    if (a->adaptive || room < 0) return r;
    r.begin = pool_up(axis->before, axis->stride);
    r.end = room / axis->stride + 1;
    r.end = r.end < axis->out ? r.end : axis->out;
    return r;
}

/* Chooses how lines are computed. false: the buffers are too small. */
static bool pool_line_init(struct pooling *p)
{
    struct pool_axis *line = &p->a.axis[2];
    int64_t reach = (line->window - 1) * line->dilation + 1;

    while (pool_join_axes(&p->a)) continue;
    pool_join_planes(p);
    p->each = p->a.adaptive || line->stride > 2;
    p->direct = p->each && !p->a.adaptive && p->a.whole && sizeof(elem) == sizeof(acc) &&
                is_one(&p->a.axis[0]) && is_one(&p->a.axis[1]);
    p->width = p->part = p->together = line->out;
    p->columns = line->in;
    if (!p->a.adaptive) {
        reach = (line->window - 1) * line->dilation + 1;
        if (reach > ROOM) return false;
        p->part = (ROOM - reach) / line->stride + 1;
        p->part = p->part < p->width ? p->part : p->width;
        p->parts = (p->width + p->part - 1) / p->part;
        p->columns = (p->part - 1) * line->stride + reach;
    }
    p->pitch = p->columns + p->columns % 2;
    p->together = p->parts == 1 && p->pitch < ROOM ? ROOM / p->pitch : 1;
    p->dense = !p->each && p->a.whole && p->parts == 1 && p->a.axis[1].y == p->width &&
               p->pitch == p->width * line->stride;
    return p->columns <= ROOM && p->part <= ROOM;
}

/* Describes the call. false: the functions below cannot compute it. */
static bool pooling_init(struct pooling *p, const struct bp_launch *launch, bool average)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];

    *p = (struct pooling){.a = pool_args_of(launch, average), .x = x->data, .y = y->data};
    pool_axes(&p->a, x->rank);
    p->channels = x->shape[1] > 1 && x->stride[1] == 1 && y->stride[1] == 1;
    p->fetches = nt_pays(x->count * (int64_t)sizeof(elem));
    for (int i = 0; i < 2; i++) {
        p->extent[i] = p->channels && i ? 1 : x->shape[i];
        p->x_step[i] = x->stride[i];
        p->y_step[i] = y->stride[i];
    }
    p->width = p->part = x->shape[1];
    p->parts = p->together = 1;
    if (!p->channels &&
        (p->a.axis[2].x != 1 || p->a.axis[2].y != 1 || !pool_line_init(p)))
        return false;
    for (int s = 0; s < 3; s++) p->whole[s] = pool_whole(&p->a, s);
    return true;
}

/* Advances to the taps that the window at position o has along axis s. */
static inline void taps_along(struct pool_taps *t, const struct pool_args *a, int s, int64_t o)
{
    struct pool_range r = pool_taps(a, s, o, 1);

    t->n[s] = r.end > r.begin ? r.end - r.begin : 0;
    t->step[s] = (a->adaptive ? 1 : a->axis[s].dilation) * a->axis[s].x;
    if (t->n[s]) t->from += pool_at(a, s, o, r.begin) * a->axis[s].x;
}

/* Prefetches the elements that windows further along their line will read first. A hardware
 * prefetcher stops at the end of each page: without this, 16 images of 64 x 112 x 112 took twice as
 * long. */
static inline void pool_fetch(const struct pooling *p, const struct pool_taps *taps, int64_t n)
{
    enum { AHEAD = 2048 / sizeof(elem), LINE = 64 / sizeof(elem) };
    int64_t seen = taps->n[1] - p->a.axis[1].stride;

    for (int64_t b = seen > 0 ? seen : 0; b < taps->n[1]; b++)
        for (int64_t i = 0; i < p->a.axis[2].stride * n; i += LINE)
            __builtin_prefetch(taps->from + b * taps->step[1] + i + AHEAD);
}

/* Computes n channels for each position of a line. counted: the number of taps that the windows
 * count along the other axes. */
POOL_INLINE void line_of_channels(int what, const struct pooling *p, const struct pool_taps *line,
                                  elem *y, acc counted, int64_t n)
{
    const struct pool_args *a = &p->a;
    const struct pool_axis *axis = &a->axis[2];
    struct pool_range whole = p->whole[2];

    for (int64_t o = 0; o < axis->out; o++, y += axis->y) {
        struct pool_taps taps = *line;
        struct pool_made made = {.taps = &taps, .y = y, .by = (acc)a->divisor};
        if (o >= whole.begin && o < whole.end) {
            taps.from += (o * axis->stride - axis->before) * axis->x;
            taps.n[2] = axis->window;
            taps.step[2] = axis->dilation * axis->x;
            if (p->fetches) pool_fetch(p, &taps, n);
        } else {
            taps_along(&taps, a, 2, o);
        }
        if (what == POOL_MEAN && a->divisor == 0)
            made.by = counted * (acc)pool_count(a, 2, o);
        pool_make(POOL_RESULTS, what, &made, n);
    }
}

/* Computes the number of taps that n elements from position o on count along their line. */
static void pool_counts(struct room *room, const struct pool_args *a, int64_t o, int64_t n)
{
    const struct pool_axis *line = &a->axis[2];

    if (room->counted == o) return;
    room->counted = o;
    for (int64_t j = 0; j < n; j++) {
        int64_t start = (o + j) * line->stride - line->before;
        bool inside = !a->adaptive && start >= 0 &&
                      start + (line->window - 1) * line->dilation < line->in;
        room->count[j] = a->divisor != 0 ? 1 : (acc)(inside ? line->window
                                                            : pool_count(a, 2, o + j));
    }
}

/* Reduces columns begin to begin + n - 1 of the lines under a line of the result; some columns may
 * be padding. */
POOL_INLINE void pool_columns(int what, const struct pooling *p, const struct pool_taps *lines,
                              int64_t begin, int64_t n, acc *to)
{
    int64_t in = p->a.axis[2].in, first = begin < 0 ? -begin : 0, end = n < in - begin ? n
                                                                                      : in - begin;
    struct pool_taps taps = *lines;
    struct pool_made made = {.taps = &taps, .sum = to + first};

    for (int64_t j = 0; j < first && j < n; j++) to[j] = pool_start(what);
    for (int64_t j = end < first ? first : end; j < n; j++) to[j] = pool_start(what);
    if (end <= first) return;
    taps.from += begin + first;
    pool_make(POOL_SUMS, what, &made, end - first);
}

/* Computes windows along a line, one by one. */
POOL_INLINE void windows_of_line(int what, const struct pooling *p, const acc *line, elem *y,
                                 acc by, int64_t o, int64_t n, const struct room *room)
{
    const struct pool_axis *axis = &p->a.axis[2];

    for (int64_t j = 0; j < n; j++) {
        struct pool_range r = {j * axis->stride, j * axis->stride + axis->window};
        if (p->a.adaptive) r = pool_part(o + j, axis->in, axis->out);
        acc s = pool_window(what, line + r.begin, r.end - r.begin, axis->dilation);
        y[j] = elem_put(what == POOL_MAX ? s : s / (by * room->count[j]));
    }
}

/* Splits n columns into those at even and at odd positions. */
static void pool_part_columns(struct room *room, int64_t n)
{
    for (int64_t j = 0; j < n; j += 2 * POOL_LANES) {
#pragma omp simd
        for (int64_t i = 0; i < POOL_LANES; i++) {
            room->even[j / 2 + i] = room->line[j + 2 * i];
            room->odd[j / 2 + i] = room->line[j + 2 * i + 1];
        }
    }
}

/* Computes n elements from position o on, for `lines` lines of the result at y. by: the divisor
 * from the other axes. */
POOL_INLINE void lines_of_places(int what, const struct pooling *p, struct pool_taps taps, elem *y,
                                 acc by, int64_t o, int64_t n, int64_t lines, struct room *room)
{
    const struct pool_axis *line = &p->a.axis[2], *across = &p->a.axis[1];
    struct pool_along along = {.phase = {room->line, room->odd}, .n = line->window,
                               .step = line->dilation, .odd = line->stride - 1};
    struct pool_made made = {.along = &along, .y = y, .by = by, .count = room->count};
    int64_t begin = p->a.adaptive ? 0 : o * line->stride - line->before;
    int64_t columns = n == p->part ? p->columns
                                   : p->columns - (p->part - n) * line->stride;

    if (what == POOL_MEAN) pool_counts(room, &p->a, o, n);
    if (p->direct) {
        windows_of_line(what, p, (const void *)(taps.from + begin), y, by, o, n, room);
        return;
    }
    for (int64_t k = 0; k < lines; k++, taps.from += across->stride * across->x)
        pool_columns(what, p, &taps, begin, columns, room->line + k * p->pitch);
    if (p->each) {
        for (int64_t k = 0; k < lines; k++, y += across->y)
            windows_of_line(what, p, room->line + k * p->pitch, y, by, o, n, room);
        return;
    }
    if (line->stride == 2) {
        along.phase[0] = room->even;
        pool_part_columns(room, (lines - 1) * p->pitch + columns);
    }
    if (p->dense) { /* all windows have the same count */
        if (what == POOL_MEAN) made.by = by * room->count[0];
        pool_make(POOL_ALONG, what, &made, lines * n);
        return;
    }
    for (int64_t k = 0; k < lines; k++, made.y += across->y) {
        pool_make(what == POOL_MAX ? POOL_ALONG : POOL_COUNTED, what, &made, n);
        along.phase[0] += p->pitch / line->stride;
        along.phase[1] += p->pitch / line->stride;
    }
}

/* The number of lines from `at` on that can be computed together, at most n. */
static inline int64_t lines_together(const struct pooling *p, const int64_t *at, int64_t n)
{
    int64_t o = at[3], most = p->whole[1].end - o;

    if (o < p->whole[1].begin || most < 1) return 1;
    if (most > p->together) most = p->together;
    return most < n ? most : n;
}

/* Computes lines, or parts of lines, begin to end - 1, in the order of images, channels, positions
 * and parts. */
POOL_INLINE void pool_lines(int what, bool channels, const struct pooling *p, int64_t begin,
                            int64_t end)
{
    const struct pool_args *a = &p->a;
    const int64_t extent[] = {p->extent[0], p->extent[1], a->axis[0].out, a->axis[1].out, p->parts};
    struct room room;
    int64_t at[5], rest = begin, lines;

    room.counted = -1;
    for (int k = 4; k >= 0; rest /= extent[k], k--) at[k] = rest % extent[k];
    for (int64_t i = begin; i < end; i += lines) {
        int64_t o = at[4] * p->part, n = p->width - o < p->part ? p->width - o : p->part;
        struct pool_taps taps = {.from = p->x + at[0] * p->x_step[0] + at[1] * p->x_step[1],
                                 .n = {1, 1, 1}};
        elem *y = p->y + at[0] * p->y_step[0] + at[1] * p->y_step[1] + at[2] * a->axis[0].y +
                  at[3] * a->axis[1].y + o;
        acc counted = 1;
        for (int s = 0; s < 2; s++) {
            taps_along(&taps, a, s, at[2 + s]);
            if (what == POOL_MEAN) counted *= (acc)pool_count(a, s, at[2 + s]);
        }
        acc by = a->divisor != 0 ? (acc)a->divisor : counted;
        lines = channels ? 1 : lines_together(p, at, end - i);
        if (channels) line_of_channels(what, p, &taps, y, counted, n);
        else lines_of_places(what, p, taps, y, by, o, n, lines, &room);
        if (lines > 1) at[3] += lines - 1;
        for (int k = 4; k >= 0 && ++at[k] == extent[k]; k--) at[k] = 0;
    }
}

static int64_t line_count(const struct pooling *p)
{
    return p->extent[0] * p->extent[1] * p->a.axis[0].out * p->a.axis[1].out * p->parts;
}

POOL_INLINE void task(int what, bool channels, const struct pooling *p, int64_t i)
{
    int64_t begin = i * p->lines, end = begin + p->lines, n = line_count(p);

    pool_lines(what, channels, p, begin, end < n ? end : n);
}

static void max_of_places(void *p, int64_t i)
{
    task(POOL_MAX, false, p, i);
}

static void max_of_channels(void *p, int64_t i)
{
    task(POOL_MAX, true, p, i);
}

static void mean_of_places(void *p, int64_t i)
{
    task(POOL_MEAN, false, p, i);
}

static void mean_of_channels(void *p, int64_t i)
{
    task(POOL_MEAN, true, p, i);
}

/* The approximate number of elements of x that are read for each element of the result. */
static double pool_reads(const struct pooling *p)
{
    double n = 1;

    for (int s = 0; s < 3; s++)
        n *= p->a.adaptive ? (double)p->a.axis[s].in / (double)p->a.axis[s].out + 1
                           : (double)p->a.axis[s].window;
    return n;
}

static bool pool_run(const struct bp_launch *launch, bool average)
{
    const double task_work = 16384, of_read = 0.5;
    static void (*const tasks[2][2])(void *p, int64_t i) = {{max_of_places, max_of_channels},
                                                            {mean_of_places, mean_of_channels}};
    struct pooling p;
    int64_t n;

    if (!launch->out[0]->count) return true;
    if (!pooling_init(&p, launch, average)) return false;
    n = line_count(&p);
    double work = of_read * pool_reads(&p) * (double)launch->out[0]->count;
    p.lines = (int64_t)(task_work * (double)n / work) + 1;
    cpu_team_run(tasks[average][p.channels], &p, (n + p.lines - 1) / p.lines,
                 cpu_team_width(launch, work));
    return true;
}

enum bp_status NAME(max_pooling)(const struct bp_launch *launch)
{
    return pool_run(launch, false) ? BP_OK : portable_max_pool(launch);
}

enum bp_status NAME(avg_pooling)(const struct bp_launch *launch)
{
    return pool_run(launch, true) ? BP_OK : portable_avg_pool(launch);
}
