/* SPDX-License-Identifier: Apache-2.0 */
/* roi_align.c: computes roi_align with means, for one float dtype (elem.h). The weight of an
 * element in a bin is the product of a weight of its row and one of its column, so the sampling
 * points of a bin are added up for each axis once, for all channels. Then each bin of a channel is
 * a sum over the rows and columns that have a weight. */
#include "cpu.h"
#include "kernels.h"
#include "roi_align.h"
#include <backplane/attrs.h>
#include <string.h>

#define HOST_ENTRY static inline
#include <ops/roi/kernel.h>

/* The weights of an axis: those of bin o are begin[o] to begin[o + 1] - 1. */
struct roi_axis {
    acc *weight;
    i64 *at, *begin;
};

struct roi_scratch {
    struct roi_axis axis[2];
    real *sum; /* for each element of a line, of one bin */
    i64 *mark; /* 1: the element has a weight in the bin */
    acc *line;
};

struct roi_call {
    struct roi_args a;
    const elem *x;
    const f32 *rois;
    const void *images;
    elem *y;
    u32 *fault;
    struct roi_room room;
    char *workspace;
    i64 blocks; /* of channels */
};

static struct roi_scratch scratch_of(const struct roi_call *c, i64 part)
{
    struct roi_scratch s;
    i64 *at = (i64 *)(c->workspace + part * c->room.part);
    i64 most = c->a.in[0] > c->a.in[1] ? c->a.in[0] : c->a.in[1];

    for (int d = 0; d < 2; d++) {
        i64 n = roi_weights(c->a.in[d], c->a.out[d]);
        s.axis[d] = (struct roi_axis){(acc *)at, at + n, at + 2 * n};
        at += 2 * n + c->a.out[d] + 1;
    }
    s.sum = (real *)at;
    s.mark = at + most;
    s.line = (acc *)(at + 2 * most);
    memset(s.mark, 0, sizeof *s.mark * (size_t)most);
    return s;
}

/* Adds up the sampling points of bin o along axis d, and appends the weights that it has, each
 * divided by the number of points. */
static void roi_bin_weights(const struct roi_call *c, const struct roi_region *g, int d, i64 o,
                            const struct roi_scratch *s)
{
    const struct roi_axis *axis = &s->axis[d];
    struct roi_range near = roi_near(&c->a, g, d, o);
    i64 low = c->a.in[d], high = -1, n = axis->begin[o];
    real each = 1 / (real)(g->places[d] > 1 ? g->places[d] : 1);

    for (i64 k = near.begin; k < near.end; k++) {
        struct roi_pair p = roi_pair_at(&c->a, g, d, o, k);
        for (int i = 0; i < 2 && !p.outside; i++) {
            i64 at = p.at[i];
            s->sum[at] = s->mark[at] ? s->sum[at] + p.weight[i] : p.weight[i];
            s->mark[at] = 1;
            low = at < low ? at : low;
            high = at > high ? at : high;
        }
    }
    for (i64 at = low; at <= high; at++) {
        if (!s->mark[at]) continue;
        axis->at[n] = at;
        axis->weight[n++] = number(s->sum[at] * each);
        s->mark[at] = 0;
    }
    axis->begin[o + 1] = n;
}

/* line[from] to line[end - 1] = the weighted sum of the rows of bin o. */
static void roi_add_rows(const struct roi_axis *rows, i64 o, const elem *plane, i64 width, i64 from,
                         i64 end, acc *line)
{
    for (i64 j = from; j < end; j++) line[j] = 0;
    for (i64 k = rows->begin[o]; k < rows->begin[o + 1]; k++) {
        const elem *row = plane + rows->at[k] * width;
        acc by = rows->weight[k];
#pragma omp simd
        for (i64 j = from; j < end; j++) line[j] += by * elem_get(row[j]);
    }
}

/* Computes all bins of one channel. */
static void roi_channel(const struct roi_call *c, const struct roi_scratch *s, const elem *plane,
                        i64 from, i64 end, elem *y)
{
    const struct roi_axis *columns = &s->axis[1];

    for (i64 o = 0; o < c->a.out[0]; o++, y += c->a.out[1]) {
        roi_add_rows(&s->axis[0], o, plane, c->a.in[1], from, end, s->line);
        for (i64 q = 0; q < c->a.out[1]; q++) {
            acc sum = 0;
            for (i64 k = columns->begin[q]; k < columns->begin[q + 1]; k++)
                sum += columns->weight[k] * s->line[columns->at[k]];
            y[q] = elem_put(sum);
        }
    }
}

static void roi_item(const struct roi_call *c, i64 item, const struct roi_scratch *s)
{
    const struct roi_args *a = &c->a;
    i64 r = item / c->blocks, first = item % c->blocks * ROI_CHANNELS, from = a->in[1], end = 0;
    i64 last = first + ROI_CHANNELS < a->channels ? first + ROI_CHANNELS : a->channels;
    struct roi_region g = roi_region_at(a, r, c->rois, c->images, c->fault);

    for (int d = 0; d < 2; d++) {
        s->axis[d].begin[0] = 0;
        for (i64 o = 0; o < a->out[d]; o++) roi_bin_weights(c, &g, d, o, s);
    }
    for (i64 k = 0; k < s->axis[1].begin[a->out[1]]; k++) {
        i64 at = s->axis[1].at[k];
        from = at < from ? at : from;
        end = at >= end ? at + 1 : end;
    }
    for (i64 channel = first; channel < last; channel++)
        roi_channel(c, s, c->x + (g.image * a->channels + channel) * a->in[0] * a->in[1], from, end,
                    c->y + (r * a->channels + channel) * a->out[0] * a->out[1]);
}

static void roi_part(void *arg, int64_t part)
{
    const struct roi_call *c = arg;
    struct roi_scratch s = scratch_of(c, part);

    for (i64 item = part; item < c->a.regions * c->blocks; item += c->room.parts)
        roi_item(c, item, &s);
}

enum bp_status NAME(align)(const struct bp_launch *launch)
{
    const struct bp_roi_align_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *rois = launch->in[1], *images = launch->in[2];
    struct roi_call c = {.x = x->data, .rois = rois->data, .images = images->data,
                         .y = launch->out[0]->data, .fault = launch->fault,
                         .workspace = launch->workspace,
                         .a = {.n = x->shape[0], .channels = x->shape[1],
                               .regions = rois->shape[0], .in = {x->shape[2], x->shape[3]},
                               .out = {a->height, a->width}, .sampling = a->sampling,
                               .whole = a->whole, .wide = images->dtype == BP_I64,
                               .scale = (real)a->scale}};

    if (!launch->out[0]->count) return BP_OK;
    c.room = roi_room_of(c.a.in, c.a.out[0], c.a.out[1], c.a.regions, launch->width);
    c.blocks = (c.a.channels + ROI_CHANNELS - 1) / ROI_CHANNELS;
    cpu_team_run(roi_part, &c, c.room.parts,
                 cpu_team_width(launch, 8 * (double)launch->out[0]->count));
    return BP_OK;
}
