/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of windows with offsets. All of them visit the same
 * corners: the elements of x around the position of each element of each window. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* The geometry, with one entry for each axis. */
struct deform {
    const struct ref_array *x, *offset, *mask; /* mask: type NULL if absent */
    int64_t groups, kernel[2], stride[2], dilation[2], before[2];
};

/* One corner of one element of a window: its index in x, its weights along the axes and their
 * slopes, the index of the element among all columns, of its offset's row number and of its mask,
 * and the mask. place: the distance of an offset's column number from its row number. */
struct visit {
    int64_t x, column, offset, mask, place;
    long double weight[2], error[2], slope[2], by; /* error: of the weight */
};
typedef void visit_fn(void *ctx, const struct visit *v);

/* Calls `each` for the four corners that are inside of x. */
static void visit_corners(const struct deform *d, const int64_t *base, struct visit v,
                          visit_fn *each, void *ctx)
{
    int64_t plane = v.x, low[2];
    long double rest[2], rounding[2];

    for (int s = 0; s < 2; s++) {
        long double o = d->offset->v[v.offset + s * v.place];
        if (!(fabsl(o) < 1e9L)) return;
        low[s] = base[s] + (int64_t)floorl(o);
        rest[s] = o - floorl(o);
        rounding[s] = o > -0.5L && o < 0 ? rest[s] : 0; /* otherwise exact (Sterbenz) */
    }
    for (int corner = 0; corner < 4; corner++) {
        bool upper[2] = {corner > 1, corner % 2 == 1}, inside = true;
        v.x = plane;
        for (int s = 0; s < 2; s++) {
            int64_t at = low[s] + upper[s], extent = d->x->shape[2 + s];
            inside = inside && at >= 0 && at < extent;
            v.weight[s] = upper[s] ? rest[s] : 1 - rest[s];
            v.error[s] = rounding[s];
            if (!upper[s] && rest[s] > 0 && rest[s] < 0.5L) v.error[s] += v.weight[s];
            v.slope[s] = upper[s] ? 1 : -1;
            v.x = s ? v.x + at : v.x + at * d->x->shape[3];
        }
        if (inside) each(ctx, &v);
    }
}

/* Visits the elements of all windows: of image n, channel c, tap k, window o. */
static void visit_all(const struct deform *d, visit_fn *each, void *ctx)
{
    int64_t out[2] = {d->offset->shape[2], d->offset->shape[3]}, taps = d->kernel[0] * d->kernel[1];
    int64_t shape[] = {d->x->shape[0], d->x->shape[1], d->kernel[0], d->kernel[1], out[0], out[1]};
    int64_t all = d->x->shape[0] * d->x->shape[1] * taps * out[0] * out[1], at[REF_RANK] = {0};
    int64_t each_group = d->x->shape[1] / d->groups;

    for (int64_t e = 0; e < all; e++, ref_next(6, shape, at)) {
        struct visit v = {.column = e, .place = out[0] * out[1]};
        int64_t group = at[0] * d->groups + at[1] / each_group, base[2];
        int64_t row = group * taps + at[2] * d->kernel[1] + at[3];
        for (int s = 0; s < 2; s++)
            base[s] = at[4 + s] * d->stride[s] + at[2 + s] * d->dilation[s] - d->before[s];
        v.x = (at[0] * d->x->shape[1] + at[1]) * d->x->shape[2] * d->x->shape[3];
        v.mask = row * v.place + at[4] * out[1] + at[5];
        v.offset = 2 * row * v.place + at[4] * out[1] + at[5];
        v.by = d->mask->type ? d->mask->v[v.mask] : 1;
        visit_corners(d, base, v, each, ctx);
    }
}

static struct deform deform_of(const struct ref_array *x, const struct ref_array *offset,
                               const void *attrs)
{
    const struct bp_deform_unfold_attrs *a = attrs; /* the gradients have its layout */

    return (struct deform){.x = x, .offset = offset, .mask = offset + 1,
                           .groups = a->offset_groups, .kernel = {a->kernel[0], a->kernel[1]},
                           .stride = {a->stride[0], a->stride[1]},
                           .dilation = {a->dilation[0], a->dilation[1]},
                           .before = {a->pad[0], a->pad[1]}};
}

/* The error of a weight: those of its parts, and of their product. */
static long double weight_error(const struct visit *v)
{
    long double a = v->weight[0], b = v->weight[1];

    return v->error[0] * b + a * v->error[1] + a * b;
}

struct deform_sum {
    const struct ref_array *x, *dy;
    struct ref_array *out, *mask;
    int64_t *terms;
    long double growth, *size;
};

static void add_column(void *ctx, const struct visit *v)
{
    struct deform_sum *s = ctx;
    long double x = s->x->v[v->x], weight = v->weight[0] * v->weight[1];

    s->out->v[v->column] += v->by * weight * x;
    s->out->bound[v->column] +=
        fabsl(v->by * x) * (weight_error(v) + fabsl(weight) * (1 + ref_growth(3)));
}

void ref_deform_unfold(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    struct deform d = deform_of(&in[0], &in[1], attrs);
    struct deform_sum s = {.x = &in[0], .out = y};
    int64_t shape[] = {in[0].shape[0], in[0].shape[1] * d.kernel[0] * d.kernel[1],
                       in[1].shape[2] * in[1].shape[3]};

    ref_array_init(y, in[0].type->dtype, 3, shape);
    visit_all(&d, add_column, &s);
}

static void add_input(void *ctx, const struct visit *v)
{
    struct deform_sum *s = ctx;
    long double dy = s->dy->v[v->column], weight = v->weight[0] * v->weight[1];

    s->out->v[v->x] += v->by * weight * dy;
    s->out->bound[v->x] += fabsl(v->by * dy) * (weight_error(v) + 2 * fabsl(weight));
    s->size[v->x] += fabsl(v->by * dy * weight);
    s->terms[v->x]++;
}

void ref_deform_unfold_grad_input(const struct ref_array *in, const void *attrs,
                                  struct ref_array *dx)
{
    struct deform d = deform_of(&in[1], &in[2], attrs);
    struct deform_sum s = {.dy = &in[0], .out = dx};

    s.terms = calloc((size_t)in[1].count + 1, sizeof *s.terms);
    s.size = calloc((size_t)in[1].count + 1, sizeof *s.size);
    if (!s.terms || !s.size) abort();
    ref_array_init(dx, in[1].type->dtype, 4, in[1].shape);
    visit_all(&d, add_input, &s);
    for (int64_t i = 0; i < dx->count; i++)
        dx->bound[i] += s.size[i] * ref_growth(s.terms[i] - 1);
    free(s.terms);
    free(s.size);
}

/* A slope is a sum over channels of dy times a difference of x, weighted along the other axis. */
static void add_offset(void *ctx, const struct visit *v)
{
    struct deform_sum *s = ctx;
    long double dy = s->dy->v[v->column], x = s->x->v[v->x];

    for (int axis = 0; axis < 2; axis++) {
        long double weight = v->weight[1 - axis];
        int64_t to = v->offset + axis * v->place;
        s->out->v[to] += v->by * dy * x * weight * v->slope[axis];
        s->out->bound[to] += fabsl(v->by * dy * x) * (v->error[1 - axis] + weight * s->growth);
    }
    s->mask->v[v->mask] += dy * x * v->weight[0] * v->weight[1];
    s->mask->bound[v->mask] +=
        fabsl(dy * x) * (weight_error(v) + v->weight[0] * v->weight[1] * s->growth);
}

void ref_deform_unfold_grad_offset(const struct ref_array *in, const void *attrs,
                                   struct ref_array *out)
{
    struct deform d = deform_of(&in[1], &in[2], attrs);
    struct deform_sum s = {.dy = &in[0], .x = &in[1], .out = &out[0], .mask = &out[1]};
    int64_t shape[] = {in[2].shape[0], in[2].shape[1] / 2, in[2].shape[2], in[2].shape[3]};

    s.growth = 6 + ref_growth(in[1].shape[1] / d.groups - 1);
    ref_array_init(&out[0], in[2].type->dtype, 4, in[2].shape);
    ref_array_init(&out[1], in[2].type->dtype, 4, shape);
    visit_all(&d, add_offset, &s);
}

/* Multiplies the columns by the filters; the columns round once. */
static void ref_deform_multiply(const struct ref_array *columns, const struct ref_array *w,
                                int64_t groups, const struct ref_array *bias, struct ref_array *y)
{
    int64_t depth = w->shape[1] * w->shape[2] * w->shape[3], places = columns->shape[2];
    int64_t filters = w->shape[0], each = filters / groups;

    for (int64_t e = 0; e < y->count; e++) {
        int64_t place = e % places, m = e / places % filters, n = e / places / filters;
        int64_t first = (n * groups + (each ? m / each : 0)) * depth;
        long double size = bias->type ? fabsl(bias->v[m]) : 0;
        y->v[e] = bias->type ? bias->v[m] : 0;
        for (int64_t i = 0; i < depth; i++) {
            long double weight = w->v[m * depth + i];
            int64_t at = (first + i) * places + place;
            y->v[e] += weight * columns->v[at];
            y->bound[e] += fabsl(weight) * (columns->bound[at] + fabsl(columns->v[at]));
            size += fabsl(weight * columns->v[at]);
        }
        y->bound[e] += size * ref_growth(depth + (bias->type != NULL));
    }
}

void ref_deform_conv(const struct ref_array *in, const void *attrs, struct ref_array *y)
{
    const struct bp_deform_conv_attrs *a = attrs;
    const struct ref_array *x = &in[0], *w = &in[1], *offset = &in[2], *mask = &in[4];
    struct deform d = {.x = x, .offset = offset, .mask = mask, .groups = a->offset_groups,
                       .kernel = {w->shape[2], w->shape[3]},
                       .stride = {a->stride[0], a->stride[1]},
                       .dilation = {a->dilation[0], a->dilation[1]},
                       .before = {a->pad[0], a->pad[1]}};
    int64_t taps = d.kernel[0] * d.kernel[1], places = offset->shape[2] * offset->shape[3];
    int64_t column[] = {x->shape[0], x->shape[1] * taps, places};
    int64_t shape[] = {x->shape[0], w->shape[0], offset->shape[2], offset->shape[3]};
    struct ref_array columns;
    struct deform_sum s = {.x = x, .out = &columns};

    ref_array_init(&columns, x->type->dtype, 3, column);
    visit_all(&d, add_column, &s);
    ref_array_init(y, x->type->dtype, 4, shape);
    ref_deform_multiply(&columns, w, a->groups, &in[3], y);
    ref_array_finish(&columns);
}
