/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c: transposes in tiles: one is read a few lines at a time along the source's innermost axis,
 * turned into a buffer, and written along the destination's. */
#include "turn.h"
#include "cpu.h"
#include "past.h"
#include <string.h>

cpu_turn_tile cpu_turn_tile_i8, cpu_turn_tile_i16, cpu_turn_tile_i32, cpu_turn_tile_i64;

/* Elements on a side: lines are read and written whole, and the buffer stays in the nearest
 * cache. */
enum { SIDE = 64, SIDE_WIDE = 32, BUFFER = SIDE * SIDE * 4, LEAST = 8 };

struct turn {
    struct walk outer; /* all other axes */
    cpu_turn_tile *tile;
    char *to;
    const char *from;
    int size;                /* of an element */
    int64_t side;
    int64_t rows, row_step;  /* along the destination's innermost axis; step in the source */
    int64_t columns, column_step; /* along the source's; step in the destination */
    int64_t row_tiles, column_tiles;
    bool past;
};

static void tile_put(const struct turn *t, char *to, const char *buffer, int64_t rows,
                     int64_t columns)
{
    size_t bytes = (size_t)(rows * t->size);

    for (int64_t c = 0; c < columns; c++) {
        char *row = to + c * t->column_step * t->size;
        if (t->past) past_put(row, buffer + c * t->side * t->size, bytes);
        else memcpy(row, buffer + c * t->side * t->size, bytes);
    }
}

/* The rows of the next tile, on their way while this one is turned: rows are far apart, which no
 * machine foresees. Into the second cache: in the first one rows of a step that is a power of two
 * would drive each other out. */
static void tile_fetch(const struct turn *t, const char *from, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < columns * t->size; at += PAST_LINE)
            __builtin_prefetch(from + r * t->row_step * t->size + at, 0, 2);
}

/* Tiles of one place follow each other along the source's innermost axis. */
static void turn_task(void *arg, int64_t number)
{
    const struct turn *t = arg;
    int64_t at[WALK_VIEWS], row = number % t->row_tiles * t->side;
    int64_t rows = t->rows - row < t->side ? t->rows - row : t->side;
    _Alignas(64) char buffer[BUFFER];
    char *to;
    const char *from;

    walk_offset(&t->outer, number / t->row_tiles, at);
    to = t->to + (at[0] + row) * t->size;
    from = t->from + (at[1] + row * t->row_step) * t->size;
    for (int64_t column = 0; column < t->columns; column += t->side) {
        int64_t left = t->columns - column, columns = left < t->side ? left : t->side;
        int64_t next = left - columns < t->side ? left - columns : t->side;
        tile_fetch(t, from + (column + t->side) * t->size, rows, next);
        t->tile(buffer, t->side, from + column * t->size, t->row_step, rows, columns);
        tile_put(t, to + column * t->column_step * t->size, buffer, rows, columns);
    }
    past_end();
}

/* The axis along which the source's elements lie side by side; -1: none but the last. */
static int source_axis(const struct walk *walk)
{
    for (int a = walk->rank - 2; a >= 0; a--)
        if (walk->stride[1][a] == 1 && walk->shape[a] >= LEAST) return a;
    return -1;
}

bool cpu_turn(const struct walk *walk, const struct bp_launch *launch, void *to, const void *from,
              int size)
{
    cpu_turn_tile *const tile[] = {[1] = cpu_turn_tile_i8, [2] = cpu_turn_tile_i16,
                                   [4] = cpu_turn_tile_i32, [8] = cpu_turn_tile_i64};
    int last = walk->rank - 1, across = source_axis(walk);
    struct turn t = {.to = to, .from = from, .size = size, .side = size == 8 ? SIDE_WIDE : SIDE};

    if (across < 0 || size > 8 || walk->stride[0][last] != 1 || walk->stride[1][last] == 1 ||
        walk->shape[last] < LEAST)
        return false;
    t.tile = tile[size];
    t.rows = walk->shape[last];
    t.row_step = walk->stride[1][last];
    t.columns = walk->shape[across];
    t.column_step = walk->stride[0][across];
    t.row_tiles = (t.rows + t.side - 1) / t.side;
    t.past = past_pays(walk->count * size);
    walk_init(&t.outer, 0, NULL);
    for (int a = 0; a < last; a++) {
        int64_t stride[2] = {walk->stride[0][a], walk->stride[1][a]};
        if (a != across) walk_append(&t.outer, walk->shape[a], stride, 2);
    }
    cpu_team_run(turn_task, &t, t.outer.count * t.row_tiles,
                 cpu_team_width(launch, (double)walk->count));
    return true;
}
