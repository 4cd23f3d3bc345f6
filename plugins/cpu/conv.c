/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c: computes convolution, its gradients and the transposed convolution, for one float dtype
 * (elem.h), tile by tile (gemm.h) of the products that ops/conv/kernel_product.h describes. The
 * image is gathered while it is packed. Results of a gradient in the input are computed in parts
 * with the same taps, because stride 2 would otherwise multiply 3 zeros for each weight. */
#include "cpu.h"
#include "gemm.h"
#include "kernels.h"
#include <ops/conv/launch_shape.h>
#include <stdbool.h>

/* At most so many rows are computed without packing, and a product in at most so many parts. */
enum { FEW_ROWS = 3, CONV_PARTS = 64 };

struct conv_call {
    struct conv_product p;
    const elem *a, *image, *bias;
    elem *c;
};

struct tile {
    const struct conv_product *p;
    const elem *a;     /* row 0 of the tile */
    const elem *image; /* the image of the group */
    int64_t m, n, column; /* column: the tile's first column */
};

/* to[j] = the image along its last axis: n values at t, t + step, ... of spatial axis 2. */
static void gather_line(const struct conv_image *image, const elem *line, int64_t t, int64_t n,
                        acc *to)
{
    int64_t step = image->step[2], every = image->every[2], extent = image->extent[2],
            s = image->stride[2];
    int64_t j = 0;

    if (every == 1) {
        for (; j < n && t < 0; j++, t += step) to[j] = 0;
        if (step == 1 && s == 1)
            for (; j < n && t < extent; j++, t++) to[j] = elem_get(line[t]);
        else
            for (; j < n && t < extent; j++, t += step) to[j] = elem_get(line[t * s]);
        for (; j < n; j++) to[j] = 0;
        return;
    }
    for (; j < n; j++, t += step) {
        bool hit = t >= 0 && t % every == 0 && t / every < extent;
        to[j] = hit ? elem_get(line[t / every * s]) : 0;
    }
}

/* to[j] = the image at positions first to first + n - 1, for one tap. */
static void conv_gather_window(const struct conv_image *image, const elem *data,
                               const int64_t tap[4], int64_t first, int64_t n, acc *to)
{
    int64_t at[4], run;

    data += tap[0] * image->channel;
    grid_locate(image->position, first, at);
    for (int64_t done = 0; done < n; done += run) {
        const elem *line = data + at[0] * image->batch;
        bool inside = true;

        run = image->position[3] - at[3];
        if (run > n - done) run = n - done;
        for (int d = 0; d < 2; d++) {
            int64_t t = at[d + 1] * image->step[d] + image->origin[d] +
                        tap[d + 1] * image->tap_step[d];
            inside = inside && t >= 0 && t % image->every[d] == 0 &&
                     t / image->every[d] < image->extent[d];
            if (inside) line += t / image->every[d] * image->stride[d];
        }
        int64_t t = at[3] * image->step[2] + image->origin[2] + tap[3] * image->tap_step[2];
        if (inside) gather_line(image, line, t, run, to + done);
        else for (int64_t j = 0; j < run; j++) to[done + j] = 0;
        at[3] += run - 1;
        grid_next(image->position, at);
    }
}

static void pack_a(const void *ctx, int64_t begin, int64_t depth, acc *to)
{
    const struct tile *tile = ctx;
    const struct conv_grid *grid = &tile->p->a_k;
    int64_t at[4], row = tile->p->a_row;

    grid_locate(grid->extent, begin, at);
    for (int64_t k = 0; k < depth; k++) {
        const elem *from = tile->a + grid_offset(grid->stride, at);
        for (int64_t i = 0; i < tile->m; i++)
            panel_row(to, i, depth)[k * MR] = elem_get(from[i * row]);
        grid_next(grid->extent, at);
    }
}

/* k counts taps, and columns are positions. */
static void pack_positions(const void *ctx, int64_t begin, int64_t depth, acc *to)
{
    const struct tile *tile = ctx;
    const struct conv_image *image = &tile->p->image;
    int64_t tap[4];
    acc line[TILE_N];

    grid_locate(image->tap, begin, tap);
    for (int64_t k = 0; k < depth; k++) {
        conv_gather_window(image, tile->image, tap, tile->column, tile->n, line);
        for (int64_t j = 0; j < tile->n; j += NR) {
            int64_t n = tile->n - j < NR ? tile->n - j : NR;
            memcpy(panel_column(to, j, depth) + k * NR, line + j, sizeof *line * (size_t)n);
        }
        grid_next(image->tap, tap);
    }
}

/* k counts positions, and columns are taps. */
static void pack_taps(const void *ctx, int64_t begin, int64_t depth, acc *to)
{
    const struct tile *tile = ctx;
    const struct conv_image *image = &tile->p->image;
    int64_t tap[4];
    acc line[TILE_K];

    grid_locate(image->tap, tile->column, tap);
    for (int64_t j = 0; j < tile->n; j++) {
        acc *column = panel_column(to, j, depth);
        conv_gather_window(image, tile->image, tap, begin, depth, line);
        for (int64_t k = 0; k < depth; k++) column[k * NR] = line[k];
        grid_next(image->tap, tap);
    }
}

/* The sums of a tile with so few rows that packing would take longer than the products. */
static void conv_few_rows(const struct tile *tile, acc *sum)
{
    const struct conv_product *p = tile->p;
    int64_t tap[4];
    acc line[TILE_N];

    for (int64_t i = 0; i < tile->m * TILE_N; i++) sum[i] = 0;
    if (!p->k) return; /* the window may be empty */
    grid_locate(p->image.tap, 0, tap);
    for (int64_t k = 0; k < p->k; k++) {
        const elem *a = tile->a + grid_offset(p->a_k.stride, tap);
        conv_gather_window(&p->image, tile->image, tap, tile->column, tile->n, line);
        for (int64_t i = 0; i < tile->m; i++) {
            acc by = elem_get(a[i * p->a_row]), *to = sum + i * TILE_N;
#pragma omp simd
            for (int64_t j = 0; j < tile->n; j++) to[j] += by * line[j];
        }
        grid_next(p->image.tap, tap);
    }
}

/* Writes the tile whose first column is at `at` among the columns of c. */
static void conv_put(const struct tile *tile, int64_t *at, const acc *sum, const elem *bias,
                     elem *c)
{
    const struct conv_product *p = tile->p;
    int64_t row = p->c_row, step = p->c_column.stride[3];

    for (int64_t q = 0, run; q < tile->n; q += run) {
        elem *to = c + grid_offset(p->c_column.stride, at);
        run = p->c_column.extent[3] - at[3];
        if (run > tile->n - q) run = tile->n - q;
        for (int64_t r = 0; r < tile->m; r++) {
            const acc *from = sum + r * TILE_N + q;
            acc more = bias ? elem_get(bias[r * p->bias_step]) : 0;
            for (int64_t j = 0; j < run; j++)
                to[r * row + j * step] = elem_put(bias ? from[j] + more : from[j]);
        }
        at[3] += run - 1;
        grid_next(p->c_column.extent, at);
    }
}

#ifndef ELEM_HALF
#include "conv_columns.h"
#endif

static void conv_tile(void *arg, int64_t task)
{
    const struct conv_call *call = arg;
    const struct conv_product *p = &call->p;
    int64_t tiles_m = (p->m + TILE_M - 1) / TILE_M, tiles_n = (p->n + TILE_N - 1) / TILE_N;
    int64_t group = task / tiles_m / tiles_n, j = task / tiles_m % tiles_n * TILE_N;
    int64_t i = task % tiles_m * TILE_M, at[4];
    struct tile tile = {
        .p = p,
        .a = p->k ? call->a + group * p->a_group + i * p->a_row : NULL,
        .image = p->k ? call->image + group * p->image_group : NULL,
        .m = p->m - i < TILE_M ? p->m - i : TILE_M,
        .n = p->n - j < TILE_N ? p->n - j : TILE_N,
        .column = j,
    };
    const elem *bias = call->bias ? call->bias + (group * p->m + i) * p->bias_step : NULL;
    elem *c = call->c + group * p->c_group + i * p->c_row;
    _Alignas(64) acc sum[TILE_M * TILE_N];

#ifndef ELEM_HALF
    if (conv_has_few_columns(p)) {
        conv_few_columns(p, tile.a, tile.image, tile.m, tile.n, j, sum);
        grid_locate(p->c_column.extent, j, at);
        conv_put(&tile, at, sum, bias, c);
        return;
    }
#endif
    if (p->m <= FEW_ROWS && !p->taps_are_columns) conv_few_rows(&tile, sum);
    else gemm_tile(&(struct gemm){&tile, tile.m, tile.n, p->k, pack_a,
                                  p->taps_are_columns ? pack_taps : pack_positions}, sum);
    grid_locate(p->c_column.extent, j, at);
    conv_put(&tile, at, sum, bias, c);
}

#include "conv_lines.h"

static int64_t conv_tasks(const struct conv_product *p)
{
    return (p->m + TILE_M - 1) / TILE_M * ((p->n + TILE_N - 1) / TILE_N) * p->groups;
}

/* The parts of a gradient or of a transposed convolution. Task number t is task t / active of part
 * at[t % active], so that tasks that follow each other, which one thread runs, write neighbouring
 * elements: two threads that wrote alternate lines would take cache lines from each other. */
struct conv_parts {
    int64_t n, active, most; /* active: parts with tasks; most: the most tasks of a part */
    int64_t at[CONV_PARTS], tasks[CONV_PARTS];
    void (*run[CONV_PARTS])(void *call, int64_t task);
    struct conv_call part[CONV_PARTS];
};

static void part_init(struct conv_parts *parts, int64_t i)
{
    const struct conv_product *p = &parts->part[i].p;

    parts->run[i] = conv_tile;
    parts->tasks[i] = conv_tasks(p);
#ifndef ELEM_HALF
    if (conv_has_lines(p)) {
        parts->run[i] = conv_lines;
        parts->tasks[i] = lines_tasks(p);
    }
    if (i % 2 && conv_is_pair(&parts->part[i - 1], &parts->part[i])) {
        parts->run[i - 1] = conv_line_pairs;
        parts->tasks[i] = 0; /* those of part i - 1 compute this part, too */
    }
#endif
}

static void conv_part_tile(void *arg, int64_t task)
{
    struct conv_parts *parts = arg;
    int64_t i = parts->at[task % parts->active], k = task / parts->active;

    if (k < parts->tasks[i]) parts->run[i](&parts->part[i], k);
}

/* Computes the parts of conv_phase_init together. false: there are too many. */
static bool conv_run_parts(const struct bp_launch *launch, const struct conv_call *call)
{
    struct conv_parts parts = {.n = conv_phase_count(&call->p)};

    if (parts.n > CONV_PARTS || !call->p.k) return false;
    for (int64_t i = 0; i < parts.n; i++) {
        struct conv_phase phase;
        conv_phase_init(&phase, &call->p, i);
        parts.part[i] = *call;
        parts.part[i].p = phase.p;
        parts.part[i].a += phase.a;
        parts.part[i].c += phase.c;
        part_init(&parts, i);
    }
    for (int64_t i = 0; i < parts.n; i++) {
        if (!parts.tasks[i]) continue;
        parts.at[parts.active++] = i;
        if (parts.tasks[i] > parts.most) parts.most = parts.tasks[i];
    }
    cpu_team_run(conv_part_tile, &parts, parts.active * parts.most,
                 cpu_team_width(launch, (double)launch->out[0]->count * (double)call->p.k));
    return true;
}

static enum bp_status conv_run(const struct bp_launch *launch, enum conv_kind kind)
{
    struct conv_call call;
    const struct conv_product *p = &call.p;

    if (!launch->out[0]->count) return BP_OK;
    struct conv_views v = conv_product_init(&call.p, kind, launch->in, launch->n_in, launch->out,
                                            launch->attrs);
    call.a = v.a->data;
    call.image = v.image->data;
    call.bias = v.bias ? v.bias->data : NULL;
    call.c = v.c->data;
    bool back = kind == CONV_GRAD_INPUT || kind == CONV_TRANSPOSE;
    if (back && conv_run_parts(launch, &call)) return BP_OK;
    int64_t tasks = conv_tasks(p);
    cpu_team_run(conv_tile, &call, tasks,
                 cpu_team_width(launch, (double)launch->out[0]->count * (double)p->k));
    return BP_OK;
}

enum bp_status NAME(conv)(const struct bp_launch *launch)
{
    return conv_run(launch, CONV_FORWARD);
}

enum bp_status NAME(conv_grad_input)(const struct bp_launch *launch)
{
    return conv_run(launch, CONV_GRAD_INPUT);
}

enum bp_status NAME(conv_transpose)(const struct bp_launch *launch)
{
    return conv_run(launch, CONV_TRANSPOSE);
}

enum bp_status NAME(conv_grad_weight)(const struct bp_launch *launch)
{
    return conv_run(launch, CONV_GRAD_WEIGHT);
}
