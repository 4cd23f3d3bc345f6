/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c: converts times of the clocks of plugins by the clock records of a profile: straight
 * lines between points. */
#include "convert.h"

#include <stdlib.h>

bool bp_clock_add(struct bp_clock_points *points, struct bp_clock_point point)
{
    if (points->n == points->room) {
        size_t room = 2 * points->room + 16;
        struct bp_clock_point *grown = realloc(points->at, room * sizeof *grown);
        if (!grown) return false;
        points->at = grown;
        points->room = room;
    }
    points->at[points->n++] = point;
    return true;
}

static int clock_compare(const void *a, const void *b)
{
    const struct bp_clock_point *p = a, *q = b;

    if (p->device != q->device) return p->device < q->device ? -1 : 1;
    if (p->clock != q->clock) return p->clock < q->clock ? -1 : 1;
    return p->since < q->since ? -1 : p->since > q->since;
}

void bp_clock_order(struct bp_clock_points *points)
{
    size_t n = 0;

    if (points->n) qsort(points->at, points->n, sizeof *points->at, clock_compare);
    for (size_t i = 0; i < points->n; i++) {
        const struct bp_clock_point *p = &points->at[i];
        const struct bp_clock_point *last = n ? &points->at[n - 1] : NULL;
        if (last && last->device == p->device &&
            (p->clock == last->clock || p->since <= last->since))
            continue;
        points->at[n++] = *p;
    }
    points->n = n;
}

/* The index of the first point that is not before the given one. */
static size_t clock_search(const struct bp_clock_points *points, uint32_t device, uint64_t clock)
{
    size_t low = 0, high = points->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct bp_clock_point *p = &points->at[middle];
        if (p->device < device || (p->device == device && p->clock < clock)) low = middle + 1;
        else high = middle;
    }
    return low;
}

bool bp_clock_convert(const struct bp_clock_points *points, uint32_t device, uint64_t clock,
                      int64_t *out_since)
{
    const double limit = 9007199254740992.0; /* 2^53, 104 days */
    size_t next = clock_search(points, device, clock);
    bool has_next = next < points->n && points->at[next].device == device;
    bool has_last = next > 0 && points->at[next - 1].device == device;
    const struct bp_clock_point *from, *p = NULL, *q = NULL; /* the line from p to q */
    double rate = 1, distance, since;

    if (!has_next && !has_last) return false;
    from = &points->at[has_last ? next - 1 : next];
    if (has_next && has_last) p = &points->at[next - 1], q = p + 1;
    else if (has_last && next > 1 && points->at[next - 2].device == device)
        p = &points->at[next - 2], q = p + 1;
    else if (has_next && next + 1 < points->n && points->at[next + 1].device == device)
        p = &points->at[next], q = p + 1;
    if (p) rate = (double)(q->since - p->since) / (double)(q->clock - p->clock);
    distance = clock >= from->clock ? (double)(clock - from->clock)
                                    : -(double)(from->clock - clock);
    since = (double)from->since + distance * rate;
    if (!(since > -limit && since < limit)) return false;
    *out_since = (int64_t)from->since + (int64_t)(distance * rate + (distance < 0 ? -0.5 : 0.5));
    return true;
}
