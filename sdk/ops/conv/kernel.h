/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes convolutions and their gradients as the matrix products of kernel_product.h.
 * Either a lane computes a result and finds its terms itself, or the product is computed tile by
 * tile, or block by block where lanes share memory, from panels into which the image is
 * gathered. */
#ifndef BP_OPS_CONV_KERNEL_H
#define BP_OPS_CONV_KERNEL_H

#include "kernel_epilogue.h"
#include "kernel_product.h"
#include "../../dialect/tile_size.h"

struct conv_args {
    struct conv_product p;
};

/* Packs a into panels with the layout of matmul/kernel.h: each of `pieces` pieces, with zeros from
 * k to depth. */
struct conv_pack_a_args {
    struct conv_product p;
    i64 panels, pieces, depth;
    i64 linear; /* elements from k to k + 1 if that distance is constant; else 0 */
};

/* Packs `panels` panels of columns of the image, from panel number `first` on. */
struct conv_pack_image_args {
    struct conv_product p;
    i64 panels, pieces, depth, first;
};
struct conv_tiles_args {
    struct conv_product p;
    i64 panels_a, panels, first, depth;
};
#define conv_blocks_args conv_tiles_args

/* Of fused_conv. */
struct conv_fused_args {
    struct conv_product p;
    struct conv_epilogue end;
};
struct conv_fused_tiles_args {
    struct conv_tiles_args tiles;
    struct conv_epilogue end;
    i64 linear, residual_linear; /* elements from one column to the next if that distance is
                                    constant; else 0 */
};

#ifdef ELEM
#include "../../dialect/block.h"
#include "../../dialect/entry.h"
#include "../../dialect/tile.h"
#include "kernel_line.h"

/* Returns the element of spatial axis d of the image at which position and tap meet; -1: none. */
KFN i64 conv_meet(const struct conv_image *image, int d, i64 position, i64 tap)
{
    i64 t = position * image->step[d] + image->origin[d] + tap * image->tap_step[d];

    if (t < 0) return -1;
    if (image->every[d] > 1) {
        if (t % image->every[d]) return -1;
        t /= image->every[d];
    }
    return t < image->extent[d] ? t : -1;
}

/* Returns the distance in elements from the first element of the image to the one at which a
 * position and a tap meet; -1: none. Only axes 0 to axes - 1 of the three are counted. */
KFN i64 conv_find(const struct conv_image *image, int axes, const i64 *position, const i64 *tap)
{
    i64 at = position[0] * image->batch + tap[0] * image->channel;

    for (int d = 0; d < axes; d++) {
        i64 t = conv_meet(image, d, position[d + 1], tap[d + 1]);
        if (t < 0) return -1;
        at += t * image->stride[d];
    }
    return at;
}

KFN void conv_span(const struct conv_args *args, i64 begin, i64 n, GLOBAL elem *c,
                   GLOBAL const elem *a, GLOBAL const elem *image, GLOBAL const elem *bias)
{
    const struct conv_product *p = &args->p;

#if defined(ON_HOST) || defined(ON_PROCESSOR)
    if (conv_has_lines(p)) {
        conv_lines(p, (const struct conv_epilogue *)0, begin, n, c, a, image, bias,
                   (GLOBAL const elem *)0);
        return;
    }
#endif
    for (i64 number = begin; number < begin + n; number++) {
        i64 row = number / p->n % p->m, group = number / p->n / p->m;
        i64 column[4], k[4] = {0, 0, 0, 0}, from = group * p->a_group + row * p->a_row;
        i64 to = group * p->c_group + row * p->c_row;
        acc sum = 0;
        grid_locate(p->c_column.extent, number % p->n, column);
        for (i64 i = 0; i < p->k; i++) {
            i64 at = p->taps_are_columns ? conv_find(&p->image, 3, k, column)
                                         : conv_find(&p->image, 3, column, k);
            if (at >= 0)
                sum += elem_get(a[from + grid_offset(p->a_k.stride, k)]) *
                       elem_get(image[group * p->image_group + at]);
            grid_next(p->a_k.extent, k);
        }
        if (bias) sum += elem_get(bias[(group * p->m + row) * p->bias_step]);
        c[to + grid_offset(p->c_column.stride, column)] = elem_put(sum);
    }
}
ENTRY_SPANS_4(conv, elem, const elem, const elem, const elem)

KFN void conv_fused_span(const struct conv_fused_args *args, i64 begin, i64 n, GLOBAL elem *c,
                         GLOBAL const elem *a, GLOBAL const elem *image, GLOBAL const elem *bias,
                         GLOBAL const elem *residual)
{
    conv_lines(&args->p, &args->end, begin, n, c, a, image, bias, residual);
}
ENTRY_SPANS_5(conv_fused, elem, const elem, const elem, const elem, const elem)

/* The piece, its k and the panel that a number of the packing entries means. */
struct conv_pack {
    i64 pieces, depth;
    i64 piece, k, panel;
};

KFN struct conv_pack conv_pack_begin(i64 pieces, i64 depth, i64 number)
{
    struct conv_pack at;

    at.pieces = pieces;
    at.depth = depth;
    at.piece = number % pieces;
    at.k = number / pieces % depth;
    at.panel = number / pieces / depth;
    return at;
}

KFN void conv_pack_next(struct conv_pack *at)
{
    if (++at->piece < at->pieces) return;
    at->piece = 0;
    if (++at->k < at->depth) return;
    at->k = 0;
    at->panel++;
}

/* Each number packs one k of one piece of a panel of a group. */
KFN void conv_pack_a_span(const struct conv_pack_a_args *args, i64 begin, i64 n, GLOBAL acc *to,
                          GLOBAL const elem *a)
{
    const struct conv_product *p = &args->p;
    struct conv_pack at = conv_pack_begin(args->pieces, args->depth, begin);

    for (i64 number = begin; number < begin + n; number++, conv_pack_next(&at)) {
        i64 first = (at.panel % args->panels * args->pieces + at.piece) * TILE_ROWS;
        i64 from = at.panel / args->panels * p->a_group + first * p->a_row, k[4];
        i64 end = at.k < p->k ? p->m : 0;
        if (args->linear) {
            from += at.k * args->linear;
        } else {
            grid_locate(p->a_k.extent, at.k, k);
            from += grid_offset(p->a_k.stride, k);
        }
        for (int i = 0; i < TILE_ROWS; i++)
            to[number * TILE_ROWS + i] =
                first + i < end ? elem_get(a[from + i * p->a_row]) : (acc)0;
    }
}
ENTRY_SPANS_2(conv_pack_a, acc, const elem)

/* Gathers n positions for one tap, which are in one line of the image. */
KFN void conv_gather_line(const struct conv_image *image, GLOBAL acc *to, int n,
                          const i64 *position, const i64 *tap, GLOBAL const elem *from)
{
    i64 at = conv_find(image, 2, position, tap), step = image->step[2];
    i64 t = position[3] * step + image->origin[2] + tap[3] * image->tap_step[2];
    i64 stride = image->stride[2], last = t + (n - 1) * step;

    if (at < 0) {
        for (int j = 0; j < n; j++) to[j] = 0;
    } else if (t >= 0 && last < image->extent[2] && step * stride == 1) {
        from += at + t;
        for (int j = 0; j < n; j++) to[j] = elem_get(from[j]);
    } else {
        for (int j = 0; j < n; j++, t += step)
            to[j] = t >= 0 && t < image->extent[2] ? elem_get(from[at + t * stride]) : (acc)0;
    }
}

/* Gathers any columns, for one k. */
KFN void conv_gather(const struct conv_product *p, GLOBAL acc *to, i64 columns, i64 *column,
                     const i64 *k, GLOBAL const elem *from)
{
    for (int j = 0; j < TILE_COLUMNS; j++) {
        i64 at = -1;
        if (j < columns) {
            at = p->taps_are_columns ? conv_find(&p->image, 3, k, column)
                                     : conv_find(&p->image, 3, column, k);
            grid_next(p->c_column.extent, column);
        }
        to[j] = at >= 0 ? elem_get(from[at]) : (acc)0;
    }
}

/* Gathers positions for one tap, line by line. */
KFN void conv_gather_lines(const struct conv_product *p, GLOBAL acc *to, i64 columns, i64 *column,
                           const i64 *k, GLOBAL const elem *from)
{
    int j = 0, n;

    if (columns >= TILE_COLUMNS && column[3] + TILE_COLUMNS <= p->c_column.extent[3]) {
        conv_gather_line(&p->image, to, TILE_COLUMNS, column, k, from);
        return;
    }
    for (; j < TILE_COLUMNS && j < columns; j += n) {
        i64 rest = p->c_column.extent[3] - column[3], most = columns - j;
        n = TILE_COLUMNS - j;
        if (n > rest) n = (int)rest;
        if (n > most) n = (int)most;
        conv_gather_line(&p->image, to + j, n, column, k, from);
        column[3] += n - 1;
        grid_next(p->c_column.extent, column);
    }
    for (; j < TILE_COLUMNS; j++) to[j] = 0;
}

/* Each number packs one k of one piece of a panel of a group. */
KFN void conv_pack_image_span(const struct conv_pack_image_args *args, i64 begin, i64 n,
                              GLOBAL acc *to, GLOBAL const elem *image)
{
    const struct conv_product *p = &args->p;
    struct conv_pack at = conv_pack_begin(args->pieces, args->depth, begin);
    int is_lines = !p->taps_are_columns && p->image.every[2] == 1;
    i64 first = -1, begins[4], k[4];
    GLOBAL const elem *from = image;

    grid_locate(p->a_k.extent, at.k, k);
    for (i64 number = begin; number < begin + n; number++) {
        i64 column[4], k_before = at.k, columns;
        if (first < 0) {
            first = ((args->first + at.panel % args->panels) * args->pieces + at.piece) *
                    TILE_COLUMNS;
            grid_locate(p->c_column.extent, first, begins);
            from = image + at.panel / args->panels * p->image_group;
        }
        columns = at.k < p->k ? p->n - first : 0;
        for (int d = 0; d < 4; d++) column[d] = begins[d];
        if (is_lines) conv_gather_lines(p, to + number * TILE_COLUMNS, columns, column, k, from);
        else conv_gather(p, to + number * TILE_COLUMNS, columns, column, k, from);
        conv_pack_next(&at);
        if (at.pieces > 1 || !at.k) first = -1;
        if (!at.k) k[0] = k[1] = k[2] = k[3] = 0;
        else if (at.k != k_before) grid_next(p->a_k.extent, k);
    }
}
ENTRY_SPANS_2(conv_pack_image, acc, const elem)

KFN void conv_tiles_span(const struct conv_tiles_args *args, i64 begin, i64 n, GLOBAL elem *c,
                         GLOBAL const acc *a, GLOBAL const acc *b, GLOBAL const elem *bias)
{
    const struct conv_product *p = &args->p;

    for (i64 number = begin; number < begin + n; number++) {
        i64 i = number % args->panels_a, j = number / args->panels_a % args->panels;
        i64 group = number / args->panels_a / args->panels;
        i64 row = i * TILE_ROWS, first = (args->first + j) * TILE_COLUMNS;
        i64 column[4], at[TILE_COLUMNS], to = group * p->c_group + row * p->c_row;
        wide s[TILE_ROWS];
        tile_make(s, p->k, a + (group * args->panels_a + i) * p->k * TILE_ROWS,
                  b + (group * args->panels + j) * p->k * TILE_COLUMNS);
        grid_locate(p->c_column.extent, first, column);
        for (int q = 0; q < TILE_COLUMNS; q++) {
            at[q] = first + q < p->n ? grid_offset(p->c_column.stride, column) : -1;
            grid_next(p->c_column.extent, column);
        }
        UNROLL
        for (int r = 0; r < TILE_ROWS; r++) {
            acc line[WIDE], more = 0;
            wide_store(line, s[r]);
            if (bias && row + r < p->m)
                more = elem_get(bias[(group * p->m + row + r) * p->bias_step]);
            for (int q = 0; q < TILE_COLUMNS; q++)
                if (row + r < p->m && at[q] >= 0)
                    c[to + r * p->c_row + at[q]] = elem_put(line[q] + more);
        }
    }
}
ENTRY_SPANS_4(conv_tiles, elem, const acc, const acc, const elem)

/* The distances of the columns of a tile from the first one of a row; -1: there is no such column.
 * run: they are those of adjacent elements. */
struct conv_columns {
    i64 at[TILE_COLUMNS];
    int run;
};

KFN void conv_columns_find(struct conv_columns *to, const struct conv_product *p,
                           const i64 *stride, i64 linear, i64 first)
{
    i64 column[4];

    to->run = linear == 1 && first + TILE_COLUMNS <= p->n;
    if (linear) {
        for (int q = 0; q < TILE_COLUMNS; q++)
            to->at[q] = first + q < p->n ? (first + q) * linear : -1;
        return;
    }
    grid_locate(p->c_column.extent, first, column);
    for (int q = 0; q < TILE_COLUMNS; q++) {
        to->at[q] = first + q < p->n ? grid_offset(stride, column) : -1;
        grid_next(p->c_column.extent, column);
    }
}

/* Adds the residual to a row of sums, applies the activation and writes the results. */
KFN void conv_fused_put(const struct conv_epilogue *end, acc *line, const struct conv_columns *to,
                        GLOBAL elem *c, const struct conv_columns *of,
                        GLOBAL const elem *residual)
{
    if (residual && of->run)
        for (int q = 0; q < TILE_COLUMNS; q++) line[q] += elem_get(residual[of->at[0] + q]);
    else if (residual)
        for (int q = 0; q < TILE_COLUMNS; q++)
            if (of->at[q] >= 0) line[q] += elem_get(residual[of->at[q]]);
    conv_activate(end, line, TILE_COLUMNS);
    if (to->run)
        for (int q = 0; q < TILE_COLUMNS; q++) c[to->at[0] + q] = elem_put(line[q]);
    else
        for (int q = 0; q < TILE_COLUMNS; q++)
            if (to->at[q] >= 0) c[to->at[q]] = elem_put(line[q]);
}

/* As conv_tiles, with an epilogue. */
KFN void conv_fused_tiles_span(const struct conv_fused_tiles_args *args, i64 begin, i64 n,
                               GLOBAL elem *c, GLOBAL const acc *a, GLOBAL const acc *b,
                               GLOBAL const elem *bias, GLOBAL const elem *residual)
{
    const struct conv_tiles_args *tiles = &args->tiles;
    const struct conv_product *p = &tiles->p;
    const struct conv_epilogue *end = &args->end;

    for (i64 number = begin; number < begin + n; number++) {
        i64 i = number % tiles->panels_a, j = number / tiles->panels_a % tiles->panels;
        i64 group = number / tiles->panels_a / tiles->panels;
        i64 row = i * TILE_ROWS, first = (tiles->first + j) * TILE_COLUMNS;
        struct conv_columns to, of;
        acc lines[TILE_ROWS * WIDE];
        wide s[TILE_ROWS];
        tile_make(s, p->k, a + (group * tiles->panels_a + i) * p->k * TILE_ROWS,
                  b + (group * tiles->panels + j) * p->k * TILE_COLUMNS);
        conv_columns_find(&to, p, p->c_column.stride, args->linear, first);
        conv_columns_find(&of, p, end->column, residual ? args->residual_linear : 1, first);
        UNROLL
        for (int r = 0; r < TILE_ROWS; r++) wide_store(lines + r * WIDE, s[r]);
        ROLLED
        for (i64 r = row; r < row + TILE_ROWS && r < p->m; r++) {
            acc *line = lines + (r - row) * WIDE;
            acc more = bias ? elem_get(bias[(group * p->m + r) * p->bias_step]) : (acc)0;
            for (int q = 0; q < TILE_COLUMNS; q++) line[q] += more;
            conv_fused_put(end, line, &to, c + group * p->c_group + r * p->c_row, &of,
                           residual ? residual + group * end->group + r * end->row : residual);
        }
    }
}
ENTRY_SPANS_5(conv_fused_tiles, elem, const acc, const acc, const elem, const elem)

/* Writes the results of a lane of a block, whose first result is in this row and column of the
 * group. */
KFN void conv_put(const struct conv_product *p, i64 group, i64 row, i64 first, const acc *s,
                  GLOBAL elem *c, GLOBAL const elem *bias)
{
    i64 column[4], at[BLOCK_EDGE];

    UNROLL
    for (int q = 0; q < BLOCK_EDGE; q++) {
        i64 number = first + block_at(0, q);
        if (q % 4 == 0) grid_locate(p->c_column.extent, number, column);
        at[q] = number < p->n ? grid_offset(p->c_column.stride, column) : -1;
        grid_next(p->c_column.extent, column);
    }
    c += group * p->c_group;
    UNROLL
    for (int r = 0; r < BLOCK_EDGE; r++) {
        i64 i = row + block_at(0, r);
        acc more = bias && i < p->m ? elem_get(bias[(group * p->m + i) * p->bias_step]) : (acc)0;
        UNROLL
        for (int q = 0; q < BLOCK_EDGE; q++)
            if (i < p->m && at[q] >= 0)
                c[i * p->c_row + at[q]] = elem_put(s[r * BLOCK_EDGE + q] + more);
    }
}

KFN void conv_blocks_team(const struct conv_blocks_args *args, i64 team, LOCAL acc *scratch,
                          GLOBAL elem *c, GLOBAL const acc *a, GLOBAL const acc *b,
                          GLOBAL const elem *bias)
{
    i64 i = team % args->panels_a, j = team / args->panels_a % args->panels;
    i64 group = team / args->panels_a / args->panels;

    a += (group * args->panels_a + i) * args->depth * BLOCK;
    b += (group * args->panels + j) * args->depth * BLOCK;
    EACH_BLOCK_LANE(lane)
    {
        acc s[BLOCK_EDGE * BLOCK_EDGE];
        block_make(s, lane, args->depth, a, b, scratch);
        conv_put(&args->p, group, i * BLOCK + block_row(lane),
                 (args->first + j) * BLOCK + block_column(lane), s, c, bias);
    }
}
#undef TEAM_SCRATCH
#define TEAM_SCRATCH BLOCK_SCRATCH
ENTRY_TEAMS_4(conv_blocks, elem, const acc, const acc, const elem)
#endif

#endif
