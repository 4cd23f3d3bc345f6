/* SPDX-License-Identifier: Apache-2.0 */
/* fake_weak_order.c: defines those kernels of rows=weak that return indices, of f32 and with 32-bit
 * indices, for dense tensors. A launch with other tensors fails with BP_ERR_INTERNAL. */
#include "fake_parts.h"

#include <backplane/attrs.h>
#include <stdlib.h>
#include <string.h>

/* Whether the tensors are dense, and the indices, from output `first` on, of 32 bits. */
static bool order_fits(const struct bp_launch *l, uint32_t first)
{
    bool fits = !(l->in[0]->flags & BP_VIEW_STRIDED);

    for (uint32_t i = 0; i < l->n_out; i++) {
        const struct bp_view *v = l->out[i];
        fits &= !v || (!(v->flags & BP_VIEW_STRIDED) && (i < first || v->dtype == BP_I32));
    }
    return fits;
}

/* The elements of x along an axis, for each place of the other axes. */
struct order_lines {
    int64_t outer, n, inner;
};

static struct order_lines order_lines_of(const struct bp_view *x, int64_t axis)
{
    struct order_lines s = {1, 1, 1};

    if (axis < 0) axis += x->rank;
    for (int64_t a = 0; a < x->rank; a++)
        *(a < axis ? &s.outer : a == axis ? &s.n : &s.inner) *= x->shape[a];
    return s;
}

/* A line of x: element i is at[i step]. down: in descending order. */
struct order_line {
    const float *at;
    int64_t step;
    bool down;
};

/* Negative where a comes before b by its value; NaN is above every number. */
static int order_by_value(float a, float b)
{
    if (a != a || b != b) return (a != a) - (b != b);
    return (a > b) - (a < b);
}

static int order_compare(const void *a, const void *b, void *ctx)
{
    const struct order_line *line = ctx;
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    int order = order_by_value(line->at[i * line->step], line->at[j * line->step]);

    if (line->down) order = -order;
    return order ? order : (i > j) - (i < j);
}

/* The places of the n elements of a line in their order; the caller frees them. */
static int32_t *order_places(struct order_line line, int64_t n)
{
    int32_t *place = malloc((size_t)(n + 1) * sizeof *place);

    if (!place) abort();
    for (int64_t i = 0; i < n; i++) place[i] = (int32_t)i;
    qsort_r(place, (size_t)n, sizeof *place, order_compare, &line);
    return place;
}

/* Writes the first k of each line in order. y may be NULL. */
static void order_write(const struct bp_view *x, struct order_lines s, int64_t k, bool down,
                        float *y, int32_t *index)
{
    for (int64_t line = 0; line < s.outer * s.inner; line++) {
        int64_t o = line / s.inner, i = line % s.inner;
        const float *from = (const float *)x->data + o * s.n * s.inner + i;
        int32_t *place = order_places((struct order_line){from, s.inner, down}, s.n);
        for (int64_t j = 0; j < k; j++) {
            int64_t to = (o * k + j) * s.inner + i;
            if (y) y[to] = from[place[j] * s.inner];
            index[to] = place[j];
        }
        free(place);
    }
}

enum bp_status fake_weak_argsort(const struct bp_launch *l)
{
    const struct bp_argsort_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0];
    struct order_lines s = order_lines_of(x, a->axis);

    if (!order_fits(l, 0)) return BP_ERR_INTERNAL;
    if (x->count) order_write(x, s, s.n, a->descending, NULL, l->out[0]->data);
    return BP_OK;
}

enum bp_status fake_weak_topk(const struct bp_launch *l)
{
    const struct bp_topk_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0], *y = l->out[0];

    if (!order_fits(l, 1)) return BP_ERR_INTERNAL;
    if (y->count)
        order_write(x, order_lines_of(x, a->axis), a->k, !a->smallest, y->data, l->out[1]->data);
    return BP_OK;
}

enum bp_status fake_weak_argmax(const struct bp_launch *l)
{
    const struct bp_argmax_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0];
    struct order_lines s = order_lines_of(x, a->axis);

    if (a->flatten) s = (struct order_lines){1, x->count, 1};
    if (!order_fits(l, 0) || a->dtype != BP_I32) return BP_ERR_INTERNAL;
    for (int64_t line = 0; line < l->out[0]->count; line++) {
        int64_t from = line / s.inner * s.n * s.inner + line % s.inner, best = 0;
        const float *at = (const float *)x->data + from;
        for (int64_t i = 1; i < s.n; i++)
            if (order_by_value(at[i * s.inner], at[best * s.inner]) > 0) best = i;
        ((int32_t *)l->out[0]->data)[line] = (int32_t)best;
    }
    return BP_OK;
}

/* The elements of x below a window, in up to three axes. */
struct order_window {
    int64_t begin[3], end[3], step[3], extent[3];
};

/* Returns the window of an element of the result, at places `at` of its spatial axes. */
static struct order_window order_window_at(const struct bp_launch *l, const int64_t *at)
{
    const struct bp_max_pool_with_index_attrs *a = l->attrs;
    struct order_window w = {{0}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};

    for (int i = 0; i + 2 < l->in[0]->rank; i++) {
        int64_t n = l->in[0]->shape[i + 2], m = l->out[0]->shape[i + 2];
        w.extent[i] = n;
        w.step[i] = a->adaptive ? 1 : a->dilation[i];
        w.begin[i] = a->adaptive ? at[i] * n / m : at[i] * a->stride[i] - a->pad[i];
        w.end[i] = a->adaptive ? ((at[i] + 1) * n + m - 1) / m
                               : w.begin[i] + (a->window[i] - 1) * a->dilation[i] + 1;
        if (w.begin[i] < 0) w.begin[i] += (-w.begin[i] + w.step[i] - 1) / w.step[i] * w.step[i];
        if (w.end[i] > n) w.end[i] = n;
    }
    return w;
}

/* Finds the largest element of a window; p: its places. */
static void order_find_largest(const float *x, const struct order_window *w, int64_t *p)
{
    const int64_t *n = w->extent;
    bool any = false;

    for (int64_t i = w->begin[0]; i < w->end[0]; i += w->step[0])
        for (int64_t j = w->begin[1]; j < w->end[1]; j += w->step[1])
            for (int64_t k = w->begin[2]; k < w->end[2]; k += w->step[2]) {
                float here = x[(i * n[1] + j) * n[2] + k];
                if (any && order_by_value(here, x[(p[0] * n[1] + p[1]) * n[2] + p[2]]) <= 0)
                    continue;
                any = true;
                p[0] = i, p[1] = j, p[2] = k;
            }
}

enum bp_status fake_weak_pool(const struct bp_launch *l)
{
    const struct bp_max_pool_with_index_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0], *y = l->out[0];

    if (!order_fits(l, 1) || a->dtype != BP_I32) return BP_ERR_INTERNAL;
    for (int64_t e = 0; e < y->count; e++) {
        int64_t at[3] = {0}, p[3] = {0}, rest = e, plane, place;
        struct order_window w;
        for (int i = y->rank - 1; i >= 2; rest /= y->shape[i--]) at[i - 2] = rest % y->shape[i];
        w = order_window_at(l, at);
        plane = w.extent[0] * w.extent[1] * w.extent[2];
        order_find_largest((const float *)x->data + rest * plane, &w, p);
        place = (p[0] * w.extent[1] + p[1]) * w.extent[2] + p[2];
        ((float *)y->data)[e] = ((const float *)x->data)[rest * plane + place];
        if (a->column_major) place = p[0] + w.extent[0] * (p[1] + w.extent[1] * p[2]);
        ((int32_t *)l->out[1]->data)[e] = (int32_t)(place + (a->whole ? rest * plane : 0));
    }
    return BP_OK;
}

enum bp_status fake_weak_nonzero(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0];
    int32_t *to = l->out[0]->data;
    int64_t found = 0;

    if (!order_fits(l, 0)) return BP_ERR_INTERNAL;
    for (int64_t e = 0; e < x->count; e++) {
        int64_t rest = e;
        if (((const float *)x->data)[e] == 0) continue;
        for (int a = x->rank - 1; a >= 0; rest /= x->shape[a--])
            to[found * x->rank + a] = (int32_t)(rest % x->shape[a]);
        found++;
    }
    l->result[0] = found;
    return BP_OK;
}

/* Writes element `place` of x as value number `group`; the first one of a group names it. */
static void order_note(const struct bp_launch *l, int64_t group, int32_t place, bool first)
{
    int32_t *to[4] = {NULL};

    for (int i = 1; i < 4; i++)
        if (l->out[i]) to[i] = l->out[i]->data;
    if (first) {
        ((float *)l->out[0]->data)[group] = ((const float *)l->in[0]->data)[place];
        if (to[1]) to[1][group] = place;
        if (to[3]) to[3][group] = 0;
    }
    if (to[2]) to[2][place] = (int32_t)group;
    if (to[3]) to[3][group]++;
}

enum bp_status fake_weak_unique(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0];
    const float *from = x->data;
    int64_t n = x->count, group = -1;
    int32_t *place;

    if (!order_fits(l, 1)) return BP_ERR_INTERNAL;
    place = order_places((struct order_line){from, 1, false}, n);
    for (int64_t i = 0; i < n; i++) {
        bool first = !i || order_by_value(from[place[i - 1]], from[place[i]]);
        group += first;
        order_note(l, group, place[i], first);
    }
    free(place);
    l->result[0] = l->result[1] = l->result[3] = group + 1;
    l->result[2] = n;
    return BP_OK;
}
