/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: resamples a tensor along one axis, for any order of axes in memory. Neighbours along
 * another axis share their weights. If the resampled axis is innermost, the kernel computes the
 * weights of a tile once and uses them for all rows of a span. */
#ifndef BP_OPS_RESIZE_KERNEL_H
#define BP_OPS_RESIZE_KERNEL_H

#include "../../dialect/dialect.h"

enum { RESIZE_AXES = 8, RESIZE_TILE = 256, RESIZE_TAPS = 4 };
enum { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };

/* Element j of the result is at position (j + ahead) num / den + shift of x. shrink: factor of
 * distances before they are weighted. An element of x has a weight at distances below `reach`.
 * crop: the result is `outside` where the position is outside of x. sum: the weights are divided by
 * their sum.
 *
 * The axes of the output are in memory order, innermost last. `axis` is the number of the resampled
 * axis; in the input its strides are 0 in `read`, and its neighbours are `step` apart. */
struct resize_args {
    i64 mode, nearest, in, out, crop, exclude, sum;
    host_real ahead, num, den, shift, shrink, reach, cubic, outside;
    i64 rank, axis, step;
    i64 shape[RESIZE_AXES], made[RESIZE_AXES], read[RESIZE_AXES];
};
#define resize_copy_args resize_args
#define resize_weigh_args resize_args
#define resize_back_args resize_args

#ifdef ELEM
#include "../../dialect/entry.h"

#ifdef ON_HOST
enum { RESIZE_ROOM = RESIZE_TILE };
#else
enum { RESIZE_ROOM = 1 };
#endif

/* Offsets of output element i, and of the input element there, without the resampled axis. */
struct resize_at {
    i64 made, read, along, rest; /* along: coordinate on the axis; rest: elements to the end of the
                                    innermost axis */
};

KFN struct resize_at resize_find(const struct resize_args *a, i64 i)
{
    struct resize_at at;

    at.made = at.read = at.along = 0;
    at.rest = a->shape[a->rank - 1] - i % a->shape[a->rank - 1];
    for (i64 k = a->rank - 1; k >= 0; k--) {
        i64 c = i % a->shape[k];
        i /= a->shape[k];
        at.made += c * a->made[k];
        at.read += c * a->read[k];
        if (k == a->axis) at.along = c;
    }
    return at;
}

/* As resize_find, for many rows one after the other: the coordinates of the row's first element,
 * and its offsets. */
struct resize_row {
    i64 at[RESIZE_AXES], made, read;
};

KFN struct resize_row resize_row_find(const struct resize_args *a, i64 row)
{
    struct resize_row r;

    r.made = r.read = 0;
    for (i64 k = a->rank - 2; k >= 0; k--) {
        r.at[k] = row % a->shape[k];
        row /= a->shape[k];
        r.made += r.at[k] * a->made[k];
        r.read += r.at[k] * a->read[k];
    }
    return r;
}

KFN void resize_row_next(const struct resize_args *a, struct resize_row *r)
{
    for (i64 k = a->rank - 2; k >= 0; k--) {
        r->made += a->made[k];
        r->read += a->read[k];
        if (++r->at[k] < a->shape[k]) return;
        r->made -= a->made[k] * a->shape[k];
        r->read -= a->read[k] * a->shape[k];
        r->at[k] = 0;
    }
}

KFN real resize_place(const struct resize_args *a, i64 j)
{
    return ((real)j + a->ahead) * a->num / a->den + a->shift;
}

KFN i64 resize_outside(const struct resize_args *a, real p)
{
    return a->crop && (p < 0 || p > (real)(a->in - 1));
}

/* The largest integer not above p, limited to -1 to `in`. */
KFN i64 resize_floor(real p, i64 in)
{
    p = p < -1 ? -1 : p;
    p = p > (real)in ? (real)in : p;
    return (i64)floor(p);
}

KFN i64 resize_clamp(i64 t, i64 in)
{
    return t < 0 ? 0 : t < in ? t : in - 1;
}

KFN i64 resize_nearest(const struct resize_args *a, real p)
{
    real whole = a->nearest == 0   ? ceil(p - (real)0.5)
                 : a->nearest == 1 ? floor(p + (real)0.5)
                 : a->nearest == 2 ? floor(p)
                                   : ceil(p);

    return resize_clamp(resize_floor(whole, a->in), a->in);
}

/* The weight at a distance that is already multiplied by shrink. */
KFN real resize_weight(const struct resize_args *a, real d)
{
    real c = a->cubic;

    d = d < 0 ? -d : d;
    if (a->mode == RESIZE_LINEAR) return d < 1 ? 1 - d : 0;
    if (d < 1) return (1 - d) * (1 + d - (c + 2) * d * d);
    return d < 2 ? c * (d - 1) * (d - 2) * (d - 2) : 0;
}

/* The elements of x that have a weight at position p, beyond the border too: first to first + n -
 * 1. scale: factor of their weights. */
struct resize_taps {
    i64 first, n;
    real p, scale;
};

KFN real resize_tap(const struct resize_args *a, const struct resize_taps *t, i64 k)
{
    i64 at = t->first + k;

    if (a->exclude && (at < 0 || at >= a->in)) return 0;
    return resize_weight(a, ((real)at - t->p) * a->shrink) * t->scale;
}

KFN struct resize_taps resize_taps_at(const struct resize_args *a, real p)
{
    struct resize_taps t;
    real sum = 0;

    t.p = p;
    t.scale = 1;
    if (a->mode == RESIZE_NEAREST) {
        t.first = resize_nearest(a, p);
        t.n = 1;
        return t;
    }
    t.first = (i64)floor(p - a->reach) + 1;
    t.n = (i64)ceil(p + a->reach) - t.first;
    if (!a->sum) return t;
    for (i64 k = 0; k < t.n; k++) sum += resize_tap(a, &t, k);
    t.scale = 1 / sum;
    return t;
}

KFN elem resize_outer(const struct resize_args *a)
{
#ifdef ELEM_FLOAT
    return elem_put(number(a->outside));
#else
    return (elem)(i64)a->outside;
#endif
}

/* The offset of the element of x that element j along the axis is a copy of; -1: outside of x. */
KFN i64 resize_take(const struct resize_args *a, i64 j)
{
    real p = resize_place(a, j);

    return resize_outside(a, p) ? -1 : resize_nearest(a, p) * a->step;
}

/* Copies w elements of a line, from the offsets `take`. twice: each place is taken by two
 * neighbours, and the next two take the next place, so that no table is needed. */
KFN void resize_copy_line(const struct resize_args *a, i64 w, i64 twice, const i64 *take,
                          GLOBAL elem *y, GLOBAL const elem *x)
{
    i64 made = a->made[a->rank - 1];
    elem outer = resize_outer(a);

    if (twice) {
        x += take[0];
        SIMD
        for (i64 j = 0; j < w / 2; j++) {
            elem v = x[j];
            y[2 * j] = v;
            y[2 * j + 1] = v;
        }
        if (w % 2) y[w - 1] = x[w / 2];
    } else if (a->crop) {
        for (i64 j = 0; j < w; j++) y[j * made] = take[j] < 0 ? outer : x[take[j]];
    } else {
        for (i64 j = 0; j < w; j++) y[j * made] = x[take[j]];
    }
}

/* Copies elements c to c + w - 1 of rows from to end - 1, where the resampled axis is
 * innermost. */
KFN void resize_copy_rows(const struct resize_args *a, i64 from, i64 end, i64 c, i64 w,
                          GLOBAL elem *y, GLOBAL const elem *x)
{
    i64 made = a->made[a->rank - 1], twice = made == 1 && w > 1;
    i64 take[RESIZE_ROOM];
    struct resize_row row = resize_row_find(a, from);

    for (i64 j = 0; j < w; j++) {
        take[j] = resize_take(a, c + j);
        twice = twice && take[j] >= 0 && take[j] == take[0] + j / 2;
    }
    for (i64 r = from; r < end; r++) {
        resize_copy_line(a, w, twice, take, y + row.made + c * made, x + row.read);
        resize_row_next(a, &row);
    }
}

/* Copies elements c to c + w - 1 of rows from to end - 1, where each row has one position along the
 * resampled axis. */
KFN void resize_copy_shared(const struct resize_args *a, i64 from, i64 end, i64 c, i64 w,
                            GLOBAL elem *y, GLOBAL const elem *x)
{
    i64 made = a->made[a->rank - 1], read = a->read[a->rank - 1];
    i64 take[RESIZE_ROOM], few = a->out <= RESIZE_ROOM && a->out <= end - from;
    struct resize_row row = resize_row_find(a, from);
    elem outer = resize_outer(a);

    for (i64 j = 0; few && j < a->out; j++) take[j] = resize_take(a, j);
    for (i64 r = from; r < end; r++) {
        i64 at = row.at[a->axis], there = few ? take[at] : resize_take(a, at);
        GLOBAL elem *to = y + row.made + c * made;
        GLOBAL const elem *line = x + row.read + c * read + there;
        if (there < 0)
            for (i64 j = 0; j < w; j++) to[j * made] = outer;
        else if (made == 1 && read == 1)
            for (i64 j = 0; j < w; j++) to[j] = line[j];
        else
            for (i64 j = 0; j < w; j++) to[j * made] = line[j * read];
        resize_row_next(a, &row);
    }
}

/* Copies the nearest elements. */
KFN void resize_copy_span(const struct resize_args *a, i64 begin, i64 n, GLOBAL elem *y,
                          GLOBAL const elem *x)
{
    i64 end = begin + n, length = a->shape[a->rank - 1], rows;

    for (; begin < end; begin += rows * length) {
        i64 row = begin / length, c = begin % length, stop = length;
        rows = c ? 1 : (end - begin) / length;
        rows = rows < 1 ? 1 : rows;
        if (stop - c > end - begin) stop = c + (end - begin);
        if (a->axis == a->rank - 1)
            for (i64 j = c, w; j < stop; j += w) {
                w = stop - j < RESIZE_ROOM ? stop - j : RESIZE_ROOM;
                resize_copy_rows(a, row, row + rows, j, w, y, x);
            }
        else
            resize_copy_shared(a, row, row + rows, c, stop - c, y, x);
        begin -= c;
    }
}
ENTRY_SPANS_2(resize_copy, elem, const elem)

/* Computes w neighbours that share one position along the axis. */
KFN void resize_shared(const struct resize_args *a, struct resize_at at, i64 w, GLOBAL elem *y,
                       GLOBAL const elem *x)
{
    real p = resize_place(a, at.along);
    struct resize_taps t = resize_taps_at(a, p);
    i64 made = a->made[a->rank - 1], read = a->read[a->rank - 1];
    acc s[RESIZE_ROOM];

    for (i64 j = 0; j < w; j++) s[j] = resize_outside(a, p) ? number(a->outside) : 0;
    for (i64 k = 0; k < t.n && !resize_outside(a, p); k++) {
        acc by = number(resize_tap(a, &t, k));
        GLOBAL const elem *from = x + at.read + resize_clamp(t.first + k, a->in) * a->step;
        if (a->exclude && (t.first + k < 0 || t.first + k >= a->in)) continue;
        if (read == 1) {
            SIMD
            for (i64 j = 0; j < w; j++) s[j] += by * elem_get(from[j]);
        } else {
            for (i64 j = 0; j < w; j++) s[j] += by * elem_get(from[j * read]);
        }
    }
    for (i64 j = 0; j < w; j++) y[at.made + j * made] = elem_put(s[j]);
}

/* Tables of the taps of up to RESIZE_ROOM elements. An element has a base and up to RESIZE_TAPS
 * taps; the tap of a missing one is -1. */
struct resize_table {
    i64 tap[RESIZE_TAPS][RESIZE_ROOM];
    acc by[RESIZE_TAPS][RESIZE_ROOM], base[RESIZE_ROOM];
};

KFN void resize_table_fill(const struct resize_args *a, i64 c, i64 w, struct resize_table *t)
{
    for (i64 j = 0; j < w; j++) {
        real p = resize_place(a, c + j);
        i64 off = resize_outside(a, p);
        struct resize_taps taps = resize_taps_at(a, p);
        t->base[j] = off ? number(a->outside) : 0;
        for (i64 k = 0; k < RESIZE_TAPS; k++) {
            i64 here = taps.first + k, none = off || k >= taps.n;
            none = none || (a->exclude && (here < 0 || here >= a->in));
            t->by[k][j] = none ? 0 : number(resize_tap(a, &taps, k));
            t->tap[k][j] = none ? -1 : resize_clamp(here, a->in) * a->step;
        }
    }
}

/* As resize_rows, with two taps for each element; the weight of a missing one, and only of such a
 * one, is 0. */
KFN void resize_rows_of_two(const struct resize_args *a, i64 from, i64 end, i64 c, i64 w,
                            GLOBAL elem *y, GLOBAL const elem *x, struct resize_table *t)
{
    i64 made = a->made[a->rank - 1];
    struct resize_row row = resize_row_find(a, from);

    for (i64 k = 0; k < 2; k++)
        for (i64 j = 0; j < w; j++) t->tap[k][j] = t->tap[k][j] < 0 ? 0 : t->tap[k][j];
    for (i64 r = from; r < end; r++) {
        GLOBAL const elem *line = x + row.read;
        GLOBAL elem *to = y + row.made + c * made;
        acc s[RESIZE_ROOM];
        SIMD
        for (i64 j = 0; j < w; j++) {
            acc u = t->by[0][j] * elem_get(line[t->tap[0][j]]);
            acc v = t->by[1][j] * elem_get(line[t->tap[1][j]]);
            s[j] = t->base[j] + (t->by[0][j] == 0 ? 0 : u) + (t->by[1][j] == 0 ? 0 : v);
        }
        if (made == 1)
            for (i64 j = 0; j < w; j++) to[j] = elem_put(s[j]);
        else
            for (i64 j = 0; j < w; j++) to[j * made] = elem_put(s[j]);
        resize_row_next(a, &row);
    }
}

/* Computes elements c to c + w - 1 of rows from to end - 1, where the resampled axis is
 * innermost. */
KFN void resize_rows(const struct resize_args *a, i64 from, i64 end, i64 c, i64 w, GLOBAL elem *y,
                     GLOBAL const elem *x)
{
    i64 length = a->shape[a->rank - 1], made = a->made[a->rank - 1];
    struct resize_table t;

    resize_table_fill(a, c, w, &t);
    if (a->mode == RESIZE_LINEAR && a->reach <= 1 && !a->sum) {
        resize_rows_of_two(a, from, end, c, w, y, x, &t);
        return;
    }
    for (i64 r = from; r < end; r++) {
        struct resize_at at = resize_find(a, r * length + c);
        for (i64 j = 0; j < w; j++) {
            acc s = t.base[j];
            for (i64 k = 0; k < RESIZE_TAPS; k++)
                if (t.tap[k][j] >= 0) s += t.by[k][j] * elem_get(x[at.read + t.tap[k][j]]);
            y[at.made + j * made] = elem_put(s);
        }
    }
}

KFN void resize_weigh_span(const struct resize_args *a, i64 begin, i64 n, GLOBAL elem *y,
                           GLOBAL const elem *x)
{
    i64 end = begin + n, length = a->shape[a->rank - 1], few = a->reach <= 2;

    while (begin < end) {
        i64 row = begin / length, c = begin % length, rows = c ? 1 : (end - begin) / length;
        i64 stop = length;
        if (rows < 1) rows = 1;
        if (stop - c > end - begin) stop = c + (end - begin);
        for (i64 j = c; j < stop;) {
            i64 w = stop - j < RESIZE_ROOM ? stop - j : RESIZE_ROOM;
            if (a->axis == a->rank - 1 && few) {
                resize_rows(a, row, row + rows, j, w, y, x);
            } else {
                if (a->axis == a->rank - 1) w = 1;
                for (i64 r = row; r < row + rows; r++)
                    resize_shared(a, resize_find(a, r * length + j), w, y, x);
            }
            j += w;
        }
        begin += rows > 1 ? rows * length : stop - c;
    }
}
ENTRY_SPANS_2(resize_weigh, elem, const elem)

/* For gradients: a range of elements of the result at which element q of x may have a weight. The
 * range may be too large. */
KFN void resize_range(const struct resize_args *a, i64 q, i64 *first, i64 *last)
{
    real reach = a->reach + 2, low, high;

    *first = 0;
    *last = a->out - 1;
    if (a->num == 0) return;
    low = ((real)q - reach - a->shift) * a->den / a->num - a->ahead;
    high = ((real)q + reach - a->shift) * a->den / a->num - a->ahead;
    if (a->num < 0) {
        real other = low;
        low = high;
        high = other;
    }
    if (low > (real)a->out) low = (real)a->out;
    if (high < -1) high = -1;
    if (low > 0 && q > 0 && q < a->in - 1) *first = (i64)low;
    if (high < (real)*last && q > 0 && q < a->in - 1) *last = (i64)high + 1;
    if (*last > a->out - 1) *last = a->out - 1;
    /* All positions beyond the border use the border element. */
    if (a->in > 1 && a->num > 0 && q == 0 && high < (real)*last) *last = (i64)(high + 1);
    if (a->in > 1 && a->num > 0 && q == a->in - 1 && low > 0) *first = (i64)low;
}

KFN void resize_back_span(const struct resize_args *a, i64 begin, i64 n, GLOBAL elem *dx,
                          GLOBAL const elem *dy)
{
    i64 end = begin + n, made = a->made[a->rank - 1], read = a->read[a->rank - 1];
    acc s[RESIZE_ROOM];

    for (i64 i = begin; i < end;) {
        struct resize_at at = resize_find(a, i);
        i64 w = at.rest < end - i ? at.rest : end - i, first, last;
        w = w < RESIZE_ROOM ? w : RESIZE_ROOM;
        if (a->axis == a->rank - 1) w = 1;
        resize_range(a, at.along, &first, &last);
        for (i64 k = 0; k < w; k++) s[k] = 0;
        for (i64 j = first; j <= last; j++) {
            real p = resize_place(a, j), by = 0;
            struct resize_taps t;
            if (resize_outside(a, p)) continue;
            t = resize_taps_at(a, p);
            for (i64 k = 0; k < t.n; k++)
                if (resize_clamp(t.first + k, a->in) == at.along)
                    by += a->mode == RESIZE_NEAREST ? 1 : resize_tap(a, &t, k);
            if (by == 0) continue;
            for (i64 k = 0; k < w; k++)
                s[k] += number(by) * elem_get(dy[at.read + j * a->step + k * read]);
        }
        for (i64 k = 0; k < w; k++) dx[at.made + k * made] = elem_put(s[k]);
        i += w;
    }
}
ENTRY_SPANS_2(resize_back, elem, const elem)
#endif

#endif
