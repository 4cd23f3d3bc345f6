/* SPDX-License-Identifier: Apache-2.0 */
/* resize.c: computes linear and cubic resize over all axes, for one float dtype (elem.h). A line of
 * the result is the weighted sum of some lines of x, resampled along the columns: either each line
 * of x is resampled first, once for all lines of the result that need it, or the sum is, whichever
 * the plan found cheaper (resize_plan.c). */
#include "resize.h"
#include "cpu.h"
#include "kernels.h"
#include "resize_window.h"
#include <dialect/elem.h>
#include <string.h>

enum { VECTOR_LANES = VECTOR / (int)sizeof(acc) };

/* One task: lines of x in the ring are those that `tag` names, -1: none. */
struct resize_task {
    const struct resize_plan *p;
    const elem *x; /* the plane */
    acc *ring, *sum, *made;
    int64_t *tag;
};

/* to = a wa + b wb, or to += that. */
static inline __attribute__((always_inline)) void lines_add_two(acc *to, bool first, const acc *a,
                                                                acc wa, const acc *b, acc wb,
                                                                int64_t n)
{
    if (first) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = wa * a[j] + wb * b[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] += wa * a[j] + wb * b[j];
    }
}

static void lines_add_one(acc *to, bool first, const acc *a, acc wa, int64_t n)
{
    if (first) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] = wa * a[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) to[j] += wa * a[j];
    }
}

#if defined(__AVX512F__) && !defined(ELEM_f64)
/* Computes the columns of a line in vectors, for neighbours that read near elements. parts: of a
 * window. */
static inline __attribute__((always_inline)) void columns_near(const struct resize_plan *p, acc *to,
                                                               const acc *from, int parts)
{
    const struct resize_columns *c = &p->columns;
    const f32 *by = c->by;

    for (int64_t j = 0; j < c->n; j += WINDOW_PART) {
        __mmask16 some = window_mask(c->n - j);
        int64_t base = c->first[j];
        struct resize_window w = window_read(from + base, p->x_line - base, parts);
        __m512i at = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(some, c->first + j),
                                      _mm512_set1_epi32((int)base));
        __m512 sum = _mm512_setzero_ps();
        for (int64_t k = 0; k < c->taps; k++) {
            __m512 weight = _mm512_maskz_loadu_ps(some, by + k * c->n + j);
            __mmask16 has = _mm512_cmp_ps_mask(weight, _mm512_setzero_ps(), _CMP_NEQ_UQ);
            sum = _mm512_mask3_fmadd_ps(weight, window_take(&w, at), sum, has);
            at = _mm512_add_epi32(at, _mm512_set1_epi32((int)c->step));
        }
        _mm512_mask_storeu_ps(to + j, some, sum);
    }
}
#endif

/* Computes elements j to j + n - 1 of a line of few inner elements. */
static inline __attribute__((always_inline)) void columns_some(const struct resize_columns *c,
                                                               acc *to, const acc *from, int64_t j,
                                                               int64_t n)
{
    const int32_t *first = c->first + j;
    const acc *by = (const acc *)c->by + j;
    acc s[VECTOR_LANES] = {0};

    for (int64_t k = 0; k < c->taps; k++, by += c->n, from += c->step) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            acc value = by[i] * from[first[i]];
            s[i] += by[i] == 0 ? 0 : value;
        }
    }
    for (int64_t i = 0; i < n; i++) to[j + i] = s[i];
}

/* Computes a line with runs of many inner elements. */
static void columns_wide(const struct resize_plan *p, acc *to, const acc *from)
{
    const struct resize_weights *w = &p->column.w;

    for (int64_t o = 0; o < p->column.out; o++, to += p->inner) {
        const acc *weight = (const acc *)w->weight + o * w->room;
        const acc *x = from + w->first[o] * p->inner;
        if (!w->n[o]) memset(to, 0, sizeof *to * (size_t)p->inner);
        for (int64_t k = 0; k < w->n[o]; k++)
            lines_add_one(to, !k, x + k * p->inner, weight[k], p->inner);
    }
}

/* Resamples a line along its columns. */
static void columns_run(const struct resize_plan *p, acc *to, const acc *from)
{
    const struct resize_columns *c = &p->columns;
    int64_t j = 0;

    if (!c->first) {
        columns_wide(p, to, from);
        return;
    }
#if defined(__AVX512F__) && !defined(ELEM_f64)
    if (c->reach <= 2 * WINDOW_PART) {
        columns_near(p, to, from, 2);
        return;
    }
    if (c->reach <= 4 * WINDOW_PART) {
        columns_near(p, to, from, 4);
        return;
    }
#endif
    for (; j + VECTOR_LANES <= c->n; j += VECTOR_LANES) columns_some(c, to, from, j, VECTOR_LANES);
    if (j < c->n) columns_some(c, to, from, j, c->n - j);
}

/* Line r of the plane, in the type of the sums, and resampled along its columns if that comes
 * first. */
static const acc *task_line(struct resize_task *t, int64_t r)
{
    const struct resize_plan *p = t->p;
    const elem *x = t->x + r * p->line[0].x_step;
    int64_t slot = r % p->line[0].w.taps;
    acc *to = t->ring + slot * (p->columns_first ? p->y_line : p->x_line);

#ifdef ELEM_HALF
    acc *line = p->columns_first ? t->sum : to;
    if (t->tag[slot] == r) return to;
    for (int64_t j = 0; j < p->x_line; j++) line[j] = elem_get(x[j]);
#else
    const acc *line = x;
    if (!p->columns_first) return line;
    if (t->tag[slot] == r) return to;
#endif
    t->tag[slot] = r;
    if (p->columns_first) columns_run(p, to, line);
    return to;
}

/* to = the weighted sum of the lines for line o of the result, each of n elements. */
static void task_add_lines(struct resize_task *t, int64_t o, acc *to, int64_t n)
{
    const struct resize_weights *w = &t->p->line[0].w;
    const acc *weight = (const acc *)w->weight + o * w->room;
    int64_t first = w->first[o], k = 0;

    if (!w->n[o]) memset(to, 0, sizeof *to * (size_t)n);
    for (; k + 1 < w->n[o]; k += 2) {
        const acc *a = task_line(t, first + k), *b = task_line(t, first + k + 1);
        lines_add_two(to, !k, a, weight[k], b, weight[k + 1], n);
    }
    if (k < w->n[o]) lines_add_one(to, !k, task_line(t, first + k), weight[k], n);
}

/* Computes line o of the plane. */
static void task_run_line(struct resize_task *t, int64_t o, elem *y)
{
    const struct resize_plan *p = t->p;
    const struct resize_weights *w = &p->line[0].w;
    const acc *weight = (const acc *)w->weight + o * w->room, *line = t->sum;
#ifdef ELEM_HALF
    acc *to = t->made;
#else
    acc *to = y;
#endif

    if (p->columns_first || !p->has_columns) {
        task_add_lines(t, o, to, p->y_line);
    } else {
        if (w->n[o] == 1 && weight[0] == 1) line = task_line(t, w->first[o]);
        else task_add_lines(t, o, t->sum, p->x_line);
        columns_run(p, to, line);
    }
#ifdef ELEM_HALF
    for (int64_t j = 0; j < p->y_line; j++) y[j] = elem_put(to[j]);
#endif
}

static void resize_part(void *arg, int64_t part)
{
    const struct bp_launch *launch = arg;
    const struct resize_plan *p = launch->plan;
    int64_t lines = resize_lines(p), out = p->line[0].out, taps = p->line[0].w.taps;
    int64_t end = lines * (part + 1) / p->parts;
    struct resize_task t = {.p = p, .ring = (acc *)((char *)launch->workspace + part * p->part)};

    t.sum = t.ring + taps * p->room;
    t.made = t.sum + p->room;
    t.tag = (int64_t *)(void *)(t.made + p->room);
    for (int64_t i = lines * part / p->parts; i < end;) {
        struct resize_offset at = resize_plane(p, i / out);
        elem *y = (elem *)launch->out[0]->data + at.y;
        t.x = (const elem *)launch->in[0]->data + at.x;
        for (int64_t k = 0; k < taps; k++) t.tag[k] = -1;
        for (int64_t o = i % out; o < out && i < end; o++, i++)
            task_run_line(&t, o, y + o * p->line[0].y_step);
    }
}

enum bp_status NAME(resize)(const struct bp_launch *launch)
{
    const struct resize_plan *p = launch->plan;
    double work = (double)launch->out[0]->count * (double)(p->line[0].w.taps + p->column.w.taps);

    cpu_team_run(resize_part, (void *)launch, p->parts, cpu_team_width(launch, work));
    return BP_OK;
}
