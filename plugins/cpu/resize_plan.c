/* SPDX-License-Identifier: Apache-2.0 */
/* resize_plan.c: plans resize over all its axes: finds planes, lines and columns, and makes tables
 * of the elements and weights along each resampled axis. The weights are those of the portable
 * kernel (ops/resize/kernel.h). Calls that resize.c and resize_nearest.c do not support are
 * refused: then the core decomposes them. */
#include "resize.h"
#include "cpu.h"
#include "kernels.h"
#include <backplane/attrs.h>
#include <dialect/portable.h>
#include <stdlib.h>

/* The portable kernel's positions and weights are in f64 for every element type. */
#define ELEM f64
#define ELEM_f64
#define HOST_ENTRY static inline
#include <ops/resize/kernel_axis.h>

enum {
    INNER_FEW = 16,       /* with fewer inner elements, lines have a table entry for each element */
    TABLE_MOST = 1 << 22, /* the most entries of a table */
    EACH = 4,             /* parts for each thread */
};

/* The axes of a call. step: the arguments of a resampled axis; resampled[a]: its number, or -1. */
struct resize_call {
    const struct bp_view *x, *y;
    int n, resampled[RESIZE_AXES];
    bool used[RESIZE_AXES];
    struct resize_args step[3];
};

/* Returns the attributes of resize_axis for entry i of the axes of resize. */
static struct bp_resize_axis_attrs resize_step(const struct bp_resize_attrs *a, int64_t i)
{
    const double scale[] = {a->scale0, a->scale1, a->scale2};
    const double start[] = {a->start0, a->start1, a->start2}, end[] = {a->end0, a->end1, a->end2};

    return (struct bp_resize_axis_attrs){
        .size = sizeof(struct bp_resize_axis_attrs), .mode = a->mode,
        .coordinates = a->coordinates, .nearest = a->nearest, .cubic_a = a->cubic_a,
        .antialias = a->antialias, .exclude_outside = a->exclude_outside,
        .extrapolation = a->extrapolation, .scale = scale[i], .start = start[i], .end = end[i]};
}

/* false: there is nothing to resample, the result is empty, or positions outside of x have the
 * value `extrapolation`. */
static bool resize_call_init(struct resize_call *c, const struct bp_prep *prep)
{
    const struct bp_resize_attrs *a = prep->attrs;

    *c = (struct resize_call){.x = prep->in[0], .y = prep->out[0]};
    for (int i = 0; i < RESIZE_AXES; i++) c->resampled[i] = -1;
    for (int64_t i = 0; i < a->sizes.n; i++) {
        struct bp_resize_axis_attrs step = resize_step(a, i);
        int axis = portable_axis(a->axes.n ? a->axes.at[i] : c->x->rank - a->sizes.n + i,
                                 c->x->rank);
        int64_t in = c->x->shape[axis], out = c->y->shape[axis];
        struct resize_args args = resize_axis_args(&step, in, out);
        if (args.crop || args.reach > TABLE_MOST) return false;
        if (in == out && (step.scale == 0 || step.scale == 1)) continue;
        c->resampled[axis] = c->n;
        c->step[c->n++] = args;
    }
    return c->n && c->y->count;
}

/* Finds the elements that are contiguous in both and resampled alike. */
static void resize_find_inner(struct resize_call *c, struct resize_plan *p)
{
    bool found = true;

    p->inner = 1;
    while (found) {
        found = false;
        for (int a = 0; a < c->y->rank && !found; a++) {
            if (c->used[a] || c->resampled[a] >= 0 || c->y->shape[a] == 1 ||
                c->y->stride[a] != p->inner || c->x->stride[a] != p->inner)
                continue;
            c->used[a] = found = true;
            p->inner *= c->y->shape[a];
        }
    }
}

static struct resize_axis resize_axis_of(const struct resize_call *c, int a)
{
    return (struct resize_axis){.in = c->x->shape[a], .out = c->y->shape[a],
                                .x_step = c->x->stride[a], .y_step = c->y->stride[a]};
}

/* The axis of the columns: resampled, and next to the inner elements in x and y; -1: none. */
static int resize_find_columns(const struct resize_call *c, const struct resize_plan *p)
{
    if (c->n == 1 && p->inner >= INNER_FEW) return -1;
    for (int a = 0; a < c->y->rank; a++)
        if (c->resampled[a] >= 0 && c->y->shape[a] > 1 && c->x->shape[a] > 1 &&
            c->y->stride[a] == p->inner && c->x->stride[a] == p->inner)
            return a;
    return -1;
}

/* Adds an axis of planes, sorted by the steps of y. */
static void resize_add_plane(struct resize_plan *p, int64_t n, int64_t x_step, int64_t y_step)
{
    int at = p->planes_rank++;

    for (; at > 0 && p->y_step[at - 1] < y_step; at--) {
        p->shape[at] = p->shape[at - 1];
        p->x_step[at] = p->x_step[at - 1];
        p->y_step[at] = p->y_step[at - 1];
    }
    p->shape[at] = n;
    p->x_step[at] = x_step;
    p->y_step[at] = y_step;
    p->planes *= n;
}

/* Sorts the axes of the call into inner elements, columns, lines and planes. arg: the arguments of
 * the lines' axes, then those of the columns. false: elements of lines are not contiguous, or there
 * are more than `lines` axes of lines. */
static bool resize_sort_axes(struct resize_call *c, struct resize_plan *p, int lines,
                             const struct resize_args *arg[RESIZE_LINES + 1])
{
    resize_find_inner(c, p);
    int column = resize_find_columns(c, p);
    if (column < 0 && p->inner == 1) return false;
    p->has_columns = column >= 0;
    p->planes = 1;
    for (int a = 0; a < c->y->rank; a++) {
        if (c->used[a]) continue;
        if (c->resampled[a] < 0) {
            if (c->y->shape[a] > 1)
                resize_add_plane(p, c->y->shape[a], c->x->stride[a], c->y->stride[a]);
        } else if (a == column) {
            p->column = resize_axis_of(c, a);
            arg[RESIZE_LINES] = &c->step[c->resampled[a]];
        } else {
            if (p->lines == lines) return false;
            arg[p->lines] = &c->step[c->resampled[a]];
            p->line[p->lines++] = resize_axis_of(c, a);
        }
    }
    if (p->lines == 2 && p->line[0].y_step < p->line[1].y_step) {
        struct resize_axis first = p->line[0];
        const struct resize_args *first_arg = arg[0];
        p->line[0] = p->line[1];
        p->line[1] = first;
        arg[0] = arg[1];
        arg[1] = first_arg;
    }
    if (p->has_columns) p->column.x_step = p->inner;
    p->x_line = p->inner * (p->has_columns ? p->column.in : 1);
    p->y_line = p->inner * (p->has_columns ? p->column.out : 1);
    return p->x_line < INT32_MAX && p->y_line < INT32_MAX;
}

static void *resize_table(struct resize_plan *p, int64_t n, size_t size)
{
    p->bytes += (uint64_t)n * size;
    return calloc((size_t)n, size);
}

/* Adds up the weights of one element's taps; those beyond the border count for the border. Returns
 * the number of neighbours that have a weight, from *first on. */
static int64_t resize_tap_list(const struct resize_args *a, int64_t o, int64_t *first, f64 *weight)
{
    struct resize_taps t = resize_taps_at(a, resize_place(a, o));
    int64_t n = 0;

    *first = 0;
    for (int64_t k = 0; k < t.n; k++) {
        int64_t at = t.first + k;
        if (a->exclude && (at < 0 || at >= a->in)) continue;
        f64 by = resize_tap(a, &t, k);
        if (by == 0 && !n) continue;
        at = resize_clamp(at, a->in);
        if (!n) *first = at;
        for (; n < at - *first + 1; n++) weight[n] = 0;
        weight[at - *first] += by;
    }
    while (n && weight[n - 1] == 0) n--;
    return n;
}

static void resize_put_weight(void *table, int64_t at, f64 w, bool wide)
{
    if (wide) ((f64 *)table)[at] = w;
    else ((f32 *)table)[at] = (f32)w;
}

static f64 resize_get_weight(const void *table, int64_t at, bool wide)
{
    return wide ? ((const f64 *)table)[at] : (f64)((const f32 *)table)[at];
}

/* The weights of an axis. wide: in f64. */
static enum bp_status resize_weights_init(struct resize_plan *p, struct resize_weights *w,
                                          const struct resize_args *a, bool wide)
{
    f64 *list;

    w->room = (int64_t)(2 * a->reach) + 3;
    if (w->room > a->in) w->room = a->in;
    if (w->room * a->out > TABLE_MOST) return BP_ERR_UNSUPPORTED;
    list = calloc((size_t)w->room, sizeof *list);
    w->first = resize_table(p, a->out, sizeof *w->first);
    w->n = resize_table(p, a->out, sizeof *w->n);
    w->weight = resize_table(p, a->out * w->room, wide ? sizeof(f64) : sizeof(f32));
    for (int64_t o = 0; o < a->out && list && w->first && w->n && w->weight; o++) {
        w->n[o] = resize_tap_list(a, o, &w->first[o], list);
        if (w->n[o] > w->taps) w->taps = w->n[o];
        for (int64_t k = 0; k < w->n[o]; k++)
            resize_put_weight(w->weight, o * w->room + k, list[k], wide);
    }
    bool made = list && w->first && w->n && w->weight;
    free(list);
    return made ? BP_OK : BP_ERR_MEMORY;
}

/* Returns the most elements from the first to the last that 16 neighbours read; INT32_MAX: one of
 * them reads an element before that of the first neighbour. */
static int64_t resize_reach(const int32_t *first, int64_t n)
{
    enum { NEIGHBOURS = 16 };
    int64_t most = 0;

    for (int64_t j = 0; j < n; j++) {
        int64_t reach = first[j] - first[j / NEIGHBOURS * NEIGHBOURS] + 1;
        if (reach < 1) return INT32_MAX;
        if (reach > most) most = reach;
    }
    return most;
}

/* Spreads the weights of the columns' axis over the elements of a line. Elements with fewer than
 * `taps` weights get weights of 0 for neighbours inside of x. */
static enum bp_status resize_columns_init(struct resize_plan *p, bool wide)
{
    struct resize_columns *c = &p->columns;
    const struct resize_weights *w = &p->column.w;

    c->n = p->y_line;
    c->taps = w->taps ? w->taps : 1;
    c->step = p->inner;
    if (c->n * c->taps > TABLE_MOST) return BP_ERR_UNSUPPORTED;
    c->first = resize_table(p, c->n, sizeof *c->first);
    c->by = resize_table(p, c->n * c->taps, wide ? sizeof(f64) : sizeof(f32));
    if (!c->first || !c->by) return BP_ERR_MEMORY;
    for (int64_t j = 0; j < c->n; j++) {
        int64_t o = j / p->inner, last = p->column.in - c->taps;
        int64_t before = w->first[o] > last ? w->first[o] - last : 0;
        c->first[j] = (int32_t)((w->first[o] - before) * p->inner + j % p->inner);
        for (int64_t k = 0; k < w->n[o]; k++)
            resize_put_weight(c->by, (before + k) * c->n + j,
                              resize_get_weight(w->weight, o * w->room + k, wide), wide);
    }
    c->reach = resize_reach(c->first, c->n) + (c->taps - 1) * c->step;
    return BP_OK;
}

/* Whether resampling each line of x along its columns, before lines are added, takes fewer
 * operations. Adding lines reads in order, which is so many times as fast for each element. */
static bool resize_is_columns_first(const struct resize_plan *p)
{
    const int64_t in_order = 4;
    const struct resize_weights *line = &p->line[0].w;
    int64_t columns = p->y_line * p->column.w.taps, add = line->taps * p->line[0].out;
    int64_t read = 0, end = 0; /* lines of x that have a weight; the last of them, plus 1 */

    for (int64_t o = 0; o < p->line[0].out; o++) {
        int64_t first = line->first[o] > end ? line->first[o] : end;
        if (line->first[o] + line->n[o] > end) end = line->first[o] + line->n[o];
        if (end > first) read += end - first;
    }
    return in_order * read * columns + add * p->y_line <
           in_order * p->line[0].out * columns + add * p->x_line;
}

/* One axis of lines, which may have only one line, and lines of contiguous elements. */
static enum bp_status resize_plan_weights(struct resize_plan *p, const struct resize_args **arg,
                                          uint8_t dtype)
{
    static const struct resize_args alone = {.mode = RESIZE_LINEAR, .in = 1, .out = 1, .num = 1,
                                             .den = 1, .shrink = 1, .reach = 1};
    enum bp_status status;
    int64_t most = p->x_line > p->y_line ? p->x_line : p->y_line;
    bool wide = dtype == BP_F64, is_half = !wide && dtype != BP_F32;

    if (!p->lines) {
        p->line[0] = (struct resize_axis){.in = 1, .out = 1};
        arg[0] = &alone;
    }
    p->lines = 1;
    status = resize_weights_init(p, &p->line[0].w, arg[0], wide);
    if (status == BP_OK && p->has_columns)
        status = resize_weights_init(p, &p->column.w, arg[RESIZE_LINES], wide);
    if (status == BP_OK && p->has_columns && p->inner < INNER_FEW)
        status = resize_columns_init(p, wide);
    if (status) return status;
    p->columns_first = p->has_columns && resize_is_columns_first(p);
    /* Without columns, f32 and f64 are added up in the result itself. */
    p->room = p->has_columns || is_half ? (most + 15) / 16 * 16 : 0;
    p->part = p->room * (p->line[0].w.taps + 2) * (wide ? 8 : 4);
    p->part += (8 * p->line[0].w.taps + 63) / 64 * 64;
    return p->part < INT64_C(1) << 26 ? BP_OK : BP_ERR_UNSUPPORTED;
}

static int64_t *resize_offsets(struct resize_plan *p, const struct resize_args *a, int64_t step)
{
    int64_t *at = resize_table(p, a->out, sizeof *at);

    for (int64_t o = 0; at && o < a->out; o++)
        at[o] = resize_nearest(a, resize_place(a, o)) * step;
    return at;
}

static enum bp_status resize_plan_nearest(struct resize_plan *p, const struct resize_args **arg)
{
    struct resize_axis *column = &p->column;

    for (int i = 0; i < p->lines; i++)
        if (p->line[i].out > TABLE_MOST) return BP_ERR_UNSUPPORTED;
    if (p->has_columns && p->y_line > TABLE_MOST) return BP_ERR_UNSUPPORTED;
    for (int i = 0; i < p->lines; i++) {
        p->line[i].at = resize_offsets(p, arg[i], p->line[i].x_step);
        if (!p->line[i].at) return BP_ERR_MEMORY;
    }
    if (!p->has_columns) return BP_OK;
    column->at = resize_offsets(p, arg[RESIZE_LINES], p->inner);
    if (!column->at) return BP_ERR_MEMORY;
    p->twice = p->inner == 1;
    for (int64_t o = 0; o < column->out; o++) p->twice = p->twice && column->at[o] == o / 2;
    p->pairs = p->twice && p->lines == 1;
    for (int64_t o = 0; o < p->line[0].out; o++)
        p->pairs = p->pairs && p->line[0].at[o] == o / 2 * p->line[0].x_step;
    if (p->inner >= INNER_FEW) return BP_OK;
    p->place = resize_table(p, p->y_line, sizeof *p->place);
    if (!p->place) return BP_ERR_MEMORY;
    for (int64_t j = 0; j < p->y_line; j++)
        p->place[j] = (int32_t)(column->at[j / p->inner] + j % p->inner);
    p->reach = resize_reach(p->place, p->y_line);
    return BP_OK;
}

static void resize_weights_finish(struct resize_weights *w)
{
    free(w->first);
    free(w->n);
    free(w->weight);
}

void cpu_resize_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    struct resize_plan *p = plan;

    (void)self;
    (void)kernel;
    for (int i = 0; i < RESIZE_LINES; i++) {
        free(p->line[i].at);
        resize_weights_finish(&p->line[i].w);
    }
    free(p->column.at);
    resize_weights_finish(&p->column.w);
    free(p->columns.first);
    free(p->columns.by);
    free(p->place);
    free(p);
}

static enum bp_status resize_prepare(struct cpu *self, const struct bp_prep *prep, bool nearest,
                                     struct bp_plan *out)
{
    const struct bp_resize_attrs *a = prep->attrs;
    const struct resize_args *arg[RESIZE_LINES + 1] = {NULL};
    struct resize_call c;
    struct resize_plan *p;
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if ((a->mode == RESIZE_NEAREST) != nearest || !resize_call_init(&c, prep))
        return BP_ERR_UNSUPPORTED;
    p = calloc(1, sizeof *p);
    if (!p) status = BP_ERR_MEMORY;
    else if (resize_sort_axes(&c, p, nearest ? RESIZE_LINES : 1, arg))
        status = nearest ? resize_plan_nearest(p, arg)
                         : resize_plan_weights(p, arg, c.x->dtype);
    if (status == BP_OK) {
        int64_t lines = resize_lines(p), most = EACH * (int64_t)(prep->width ? prep->width : 1);
        p->parts = lines < most ? lines : most;
    } else {
        if (p) cpu_resize_destroy(self, prep->kernel, p);
        return status == BP_ERR_MEMORY
                   ? bp_fail(self->host, status, "cpu: no memory for a plan of resize")
                   : status;
    }
    out->plan = p;
    out->bytes = sizeof *p + p->bytes;
    out->workspace = (uint64_t)(p->parts * p->part);
    out->workspace_alignment = 64;
    return BP_OK;
}

enum bp_status cpu_resize_weigh_prepare(void *self, const struct bp_prep *prep,
                                        struct bp_plan *out)
{
    return resize_prepare(self, prep, false, out);
}

enum bp_status cpu_resize_nearest_prepare(void *self, const struct bp_prep *prep,
                                          struct bp_plan *out)
{
    return resize_prepare(self, prep, true, out);
}
