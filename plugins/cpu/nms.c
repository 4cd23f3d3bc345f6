/* SPDX-License-Identifier: Apache-2.0 */
/* nms.c: computes non_max_suppression for one float dtype of at most 32 bits (elem.h). Each line of
 * scores is sorted only as far as boxes are needed, best first; a box is compared with all kept
 * boxes at once, whose corners and areas are in one array each. */
#include "cpu.h"
#include "items.h"
#include "kernels.h"
#include "nms.h"
#include <backplane/attrs.h>
#include <math.h>

enum { FIRST_CHUNK = 256, TOGETHER = 64 };

struct nms {
    const elem *boxes, *scores;
    i64 n, most, classes, lines;
    acc threshold, score;
    bool all, centre; /* all: every score counts; centre: boxes are centres and extents */
    struct nms_room room;
    char *workspace;
};

struct box {
    acc low[2], high[2], area;
};

/* The kept boxes of a line. */
struct kept {
    acc *low[2], *high[2], *area;
    i64 n;
};

static struct box box_at(const struct nms *s, const elem *p)
{
    struct box b;

    for (int k = 0; k < 2; k++) {
        acc u = elem_get(p[k]), v = elem_get(p[k + 2]);
        bool transposed = v < u;
        b.low[k] = s->centre ? u - v / 2 : transposed ? v : u;
        b.high[k] = s->centre ? u + v / 2 : transposed ? u : v;
    }
    b.area = (b.high[0] - b.low[0]) * (b.high[1] - b.low[1]);
    return b;
}

/* Whether a kept box shares more of the union with b than the threshold allows. */
static bool box_is_removed(const struct kept *kept, const struct box *b, acc threshold)
{
    acc low0 = b->low[0], low1 = b->low[1], high0 = b->high[0], high1 = b->high[1], area = b->area;
    const acc *l0 = kept->low[0], *l1 = kept->low[1], *h0 = kept->high[0], *h1 = kept->high[1];

    for (i64 first = 0; first < kept->n; first += TOGETHER) {
        i64 end = first + TOGETHER < kept->n ? first + TOGETHER : kept->n;
        int any = 0;
#pragma omp simd reduction(| : any)
        for (i64 i = first; i < end; i++) {
            acc width = (h0[i] < high0 ? h0[i] : high0) - (l0[i] > low0 ? l0[i] : low0);
            acc height = (h1[i] < high1 ? h1[i] : high1) - (l1[i] > low1 ? l1[i] : low1);
            acc shared = width > 0 && height > 0 ? width * height : 0;
            any |= shared / (kept->area[i] + area - shared) > threshold;
        }
        if (any) return true;
    }
    return false;
}

static void box_keep(struct kept *kept, const struct box *b)
{
    for (int k = 0; k < 2; k++) {
        kept->low[k][kept->n] = b->low[k];
        kept->high[k][kept->n] = b->high[k];
    }
    kept->area[kept->n++] = b->area;
}

/* Writes the kept boxes of a line, best first, to index; returns their number. */
static i64 nms_line(const struct nms *s, i64 line, char *scratch, i64 *index)
{
    const elem *boxes = s->boxes + line / s->classes * s->n * 4, *scores = s->scores + line * s->n;
    u64 *item = (u64 *)scratch, *spare = item + s->n;
    acc *room = (acc *)(spare + s->n);
    struct kept kept = {{room, room + s->most}, {room + 2 * s->most, room + 3 * s->most},
                        room + 4 * s->most, 0};
    i64 m = 0;

    for (i64 i = 0; i < s->n; i++) {
        item[m] = item_make(item_key(scores[i], true), i);
        m += s->all || !(elem_get(scores[i]) <= s->score);
    }
    for (i64 first = 0, chunk = FIRST_CHUNK; first < m && kept.n < s->most; first += chunk) {
        if (first) chunk *= 2;
        if (chunk > m - first) chunk = m - first;
        items_select(item + first, m - first, chunk);
        items_sort(item + first, chunk, spare);
        for (i64 i = first; i < first + chunk && kept.n < s->most; i++) {
            i64 at = item_at(item[i]);
            struct box b = box_at(s, boxes + 4 * at);
            if (box_is_removed(&kept, &b, s->threshold)) continue;
            index[kept.n] = at;
            box_keep(&kept, &b);
        }
    }
    return kept.n;
}

/* Part number `part` computes every parts-th line. */
static void nms_part(void *arg, int64_t part)
{
    const struct nms *s = arg;
    i64 *counts = (i64 *)(s->workspace + s->room.counts);
    i64 *index = (i64 *)(s->workspace + s->room.index);
    char *scratch = s->workspace + s->room.scratch + part * s->room.part;

    for (i64 line = part; line < s->lines; line += s->room.parts)
        counts[line] = nms_line(s, line, scratch, index + line * s->most);
}

enum bp_status NAME(suppress)(const struct bp_launch *launch)
{
    const struct bp_non_max_suppression_attrs *a = launch->attrs;
    const struct bp_view *boxes = launch->in[0], *scores = launch->in[1];
    struct nms s = {.boxes = boxes->data, .scores = scores->data, .n = scores->shape[2],
                    .classes = scores->shape[1], .lines = scores->shape[0] * scores->shape[1],
                    .threshold = (acc)a->iou_threshold, .score = (acc)a->score_threshold,
                    .all = a->score_threshold == -INFINITY, .centre = a->center_point_box,
                    .workspace = launch->workspace};
    i64 *y = launch->out[0]->data, total = 0;

    s.most = a->max_boxes < s.n ? a->max_boxes : s.n;
    if (s.lines && s.most > 0) {
        s.room = nms_room(s.lines, s.n, s.most, launch->width);
        cpu_team_run(nms_part, &s, s.room.parts,
                     cpu_team_width(launch, 8 * (double)s.lines * (double)s.n));
        for (i64 line = 0; line < s.lines; line++) {
            const i64 *index = (i64 *)(s.workspace + s.room.index) + line * s.most;
            i64 count = ((i64 *)(s.workspace + s.room.counts))[line];
            for (i64 k = 0; k < count; k++, total++) {
                y[3 * total] = line / s.classes;
                y[3 * total + 1] = line % s.classes;
                y[3 * total + 2] = index[k];
            }
        }
    }
    *launch->result = total;
    return BP_OK;
}
