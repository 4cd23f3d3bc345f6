/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.c: transposes tensors in tiles. A tile is read a few lines at a time along the source's
 * innermost axis, transposed into a buffer, and written along the destination's innermost axis; or,
 * with streaming stores, transposed line by line without a buffer. If source and destination share
 * a short innermost axis, its runs are moved as units, in tiles of the next axes. */
#include "transpose.h"
#include "cpu.h"
#include "stream_store.h"
#include <string.h>

cpu_transpose_tile cpu_transpose_tile_i8, cpu_transpose_tile_i16, cpu_transpose_tile_i32,
    cpu_transpose_tile_i64;
cpu_transpose_lines cpu_transpose_lines_i8, cpu_transpose_lines_i16, cpu_transpose_lines_i32,
    cpu_transpose_lines_i64;
cpu_transpose_lines cpu_transpose_lines_f32_avx512,
    cpu_transpose_lines_f64_avx512; /* of any type of this size */

/* Elements on a side of a tile: cache lines are read and written completely, and the buffer stays
 * in the L1 cache. */
enum { SIDE = 64, SIDE_WIDE = 32, SIDE_RUNS = 16, BUFFER = SIDE * SIDE * 4, LEAST = 8 };

/* The maximum distance of rows in bytes at which the neighbours of a cache line are needed soon: 16
 * rows are then 16 streams through memory, which the hardware prefetcher follows. */
enum { STEP_NEAR = 512 };

/* Source rows of a task that uses streaming stores, so that each row of the destination receives
 * many elements in a task: ROWS_LINES, or almost all rows (ROWS_NEAR) if the source rows are close
 * to each other. */
enum { ROWS_LINES = 256, ROWS_NEAR = 16384 };

/* The maximum length in bytes of a run for which the order of runs matters. */
enum { RUN_MOST = 1024 };

struct transpose {
    const struct cpu *self;
    struct walk outer;    /* all axes that are not in a tile */
    cpu_transpose_tile *tile;  /* NULL, like `lines`, if runs of elements are moved */
    cpu_transpose_lines
        *lines; /* with streaming stores: rows of the destination begin cache lines */
    char *to;
    const char *from;
    int64_t size;         /* bytes of an element or of a run */
    int64_t side, high;   /* columns and rows of a tile */
    int64_t rows, columns; /* extents of the destination's inner axis, and of the source's */
    int64_t row_tiles;
    int64_t row_from, row_to, column_from, column_to; /* strides in bytes */
    bool nt, fetched;   /* as in stream_store.h and transpose.h */
};

static void transpose_put(const struct transpose *t, char *to, const char *from, int64_t bytes)
{
    if (t->nt) cpu_copy_nt(t->self, to, from, (size_t)bytes);
    else memcpy(to, from, (size_t)bytes);
}

/* Transposes elements through a buffer. */
static void elements_transpose(const struct transpose *t, char *to, const char *from, int64_t rows,
                               int64_t columns, int64_t next)
{
    _Alignas(NT_LINE) char buffer[BUFFER];
    int64_t line = t->side * t->size;

    t->tile(buffer, t->side, from, t->row_from / t->size, rows, columns, next);
    for (int64_t c = 0; c < columns; c++)
        transpose_put(t, to + c * t->column_to, buffer + c * line, rows * t->size);
}

static void runs_transpose(const struct transpose *t, char *to, const char *from, int64_t rows,
                           int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            transpose_put(t, to + r * t->row_to + c * t->column_to,
                          from + r * t->row_from + c * t->column_from, t->size);
}

/* Transposes one row of tiles: they follow each other along the source's inner axis. */
static void transpose_task(void *arg, int64_t number)
{
    const struct transpose *t = arg;
    int64_t at[WALK_VIEWS], row = number % t->row_tiles * t->high;
    int64_t rows = t->rows - row < t->high ? t->rows - row : t->high;

    walk_offset(&t->outer, number / t->row_tiles, at);
    for (int64_t column = 0; column < t->columns; column += t->side) {
        char *to = t->to + at[0] + row * t->row_to + column * t->column_to;
        const char *from = t->from + at[1] + row * t->row_from + column * t->column_from;
        int64_t left = t->columns - column, columns = left < t->side ? left : t->side;
        int64_t next = left - columns < t->side ? left - columns : t->side;
        if (t->lines)
            t->lines(to, t->column_to / t->size, from, t->row_from / t->size, rows, columns,
                     t->fetched);
        else if (t->tile)
            elements_transpose(t, to, from, rows, columns, next);
        else
            runs_transpose(t, to, from, rows, columns);
    }
    nt_fence();
}

/* The axis before `end` along which the source's elements are closest together; -1: no axis is
 * suitable. */
static int source_axis(const struct walk *walk, int end)
{
    int axis = -1;

    for (int a = end - 1; a >= 0; a--)
        if (walk->shape[a] >= LEAST && walk->stride[1][a] > 0 &&
            (axis < 0 || walk->stride[1][a] < walk->stride[1][axis]))
            axis = a;
    return axis;
}

/* Sets the fields that follow from the two axes; the strides of `outer` are in bytes too. */
static void axes_set(struct transpose *t, const struct walk *walk, int row, int column, int size)
{
    t->rows = walk->shape[row];
    t->columns = walk->shape[column];
    t->row_to = walk->stride[0][row] * size;
    t->row_from = walk->stride[1][row] * size;
    t->column_to = walk->stride[0][column] * size;
    t->column_from = walk->stride[1][column] * size;
    walk_init(&t->outer, 0, NULL);
    for (int a = 0; a <= row; a++) {
        int64_t stride[2] = {walk->stride[0][a] * size, walk->stride[1][a] * size};
        if (a != row && a != column) walk_append(&t->outer, walk->shape[a], stride, 2);
    }
}

static bool begins_lines(const struct transpose *t)
{
    uintptr_t off = (uintptr_t)t->to % NT_LINE | (uint64_t)t->column_to % NT_LINE;

    for (int a = 0; a < t->outer.rank; a++) off |= (uint64_t)t->outer.stride[0][a] % NT_LINE;
    return !off;
}

static cpu_transpose_lines *transpose_lines_of(const struct cpu *self, int size)
{
    cpu_transpose_lines *const lines[] = {[1] = cpu_transpose_lines_i8,
                                          [2] = cpu_transpose_lines_i16,
                                          [4] = cpu_transpose_lines_i32,
                                          [8] = cpu_transpose_lines_i64};

#ifdef CPU_AVX512
    if (self->isa == CPU_ISA_AVX512 && size == 4) return cpu_transpose_lines_f32_avx512;
    if (self->isa == CPU_ISA_AVX512 && size == 8) return cpu_transpose_lines_f64_avx512;
#else
    (void)self;
#endif
    return lines[size];
}

/* Chooses the height of tiles. Tiles are squares, except with streaming stores: then they are high
 * if there are enough tiles for all threads, or one cache line high if the rows of the destination
 * are close to each other. */
static void tiles_set(struct transpose *t, int size, const struct bp_launch *launch)
{
    int64_t high = t->row_from <= STEP_NEAR ? ROWS_NEAR : ROWS_LINES;

    t->high = t->side;
    if (t->tile && t->nt && begins_lines(t)) t->lines = transpose_lines_of(t->self, size);
    t->fetched = t->column_to > STEP_NEAR && t->row_from > STEP_NEAR;
    if (t->lines && t->column_to <= STEP_NEAR)
        t->high = NT_LINE / size;
    else if (t->lines && t->outer.count * (t->rows / high) >= 4 * (int64_t)launch->width)
        t->high = high;
    t->row_tiles = (t->rows + t->high - 1) / t->high;
}

bool cpu_transpose(const struct walk *walk, const struct bp_launch *launch, void *to,
                   const void *from, int size)
{
    cpu_transpose_tile *const tile[] = {[1] = cpu_transpose_tile_i8, [2] = cpu_transpose_tile_i16,
                                   [4] = cpu_transpose_tile_i32, [8] = cpu_transpose_tile_i64};
    int last = walk->rank - 1;
    bool runs = walk->stride[1][last] == 1; /* the innermost axes are the same: use the next ones */
    int row = runs ? last - 1 : last, column = row > 0 ? source_axis(walk, row) : -1;
    struct transpose t = {.self = launch->self, .to = to, .from = from,
                     .nt = nt_pays(walk->count * size)};

    if (column < 0 || walk->stride[0][last] != 1 || walk->shape[row] < LEAST ||
        walk->stride[1][column] >= walk->stride[1][row])
        return false;
    if (runs && walk->shape[last] * size > RUN_MOST) return false;
    if (!runs && (size > 8 || walk->stride[1][column] != 1)) return false;
    t.tile = runs ? NULL : tile[size];
    t.size = runs ? walk->shape[last] * size : size;
    t.side = runs ? SIDE_RUNS : size == 8 ? SIDE_WIDE : SIDE;
    axes_set(&t, walk, row, column, size);
    tiles_set(&t, size, launch);
    cpu_team_run(transpose_task, &t, t.outer.count * t.row_tiles,
                 cpu_team_width(launch, (double)walk->count));
    return true;
}
