/* SPDX-License-Identifier: Apache-2.0 */
/* transpose_tile.c: transposes a tile, for elements of one size. A square of n rows of n elements
 * is transposed in log2 n rounds. In each round the elements of rows i and i + n/2 are interleaved
 * into rows 2 i and 2 i + 1, which moves one bit from the number of the row to the number of the
 * column. */
#include "transpose.h"
#include "stream_store.h"
#include <dialect/elem.h>
#include <string.h>

#ifdef __AVX512F__
enum { ROW = 64 }; /* bytes of a square's row */
#else
enum { ROW = 16 };
#endif
enum { SQUARE = ROW / sizeof(elem), LINE = NT_LINE / sizeof(elem) }; /* in elements */
typedef elem row __attribute__((vector_size(ROW)));

/* Shuffle masks that interleave two rows: their first halves, and their second halves. */
#if defined(ELEM_f32)
#define FIRST 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(ELEM_f64)
#define FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(ELEM_i8)
#define FIRST 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(ELEM_i16)
#define FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND 4, 12, 5, 13, 6, 14, 7, 15
#elif defined(ELEM_i32)
#define FIRST 0, 4, 1, 5
#define SECOND 2, 6, 3, 7
#else
#define FIRST 0, 2
#define SECOND 1, 3
#endif

static inline void store_nt(elem *to, const row *from)
{
#ifdef __AVX512F__
    nt_store_wide(to, from);
#else
    nt_store_16(to, from);
#endif
}

static inline void transpose_tile_square(elem *to, int64_t to_step, const elem *from,
                                         int64_t from_step, int nt)
{
    row a[SQUARE], b[SQUARE];

    for (int i = 0; i < SQUARE; i++) memcpy(&a[i], from + i * from_step, sizeof *a);
    for (int n = 1; n < SQUARE; n *= 2) {
        for (int i = 0; i < SQUARE / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + SQUARE / 2], FIRST);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + SQUARE / 2], SECOND);
        }
        memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < SQUARE; i++) {
        if (nt) store_nt(to + i * to_step, &a[i]);
        else memcpy(to + i * to_step, &a[i], sizeof *a);
    }
}

/* Prefetches rows that are far apart, which no hardware prefetcher predicts. Uses the L2 cache: in
 * the L1 cache, rows whose distance is a power of two would evict each other. */
static inline void transpose_tile_fetch(const elem *from, int64_t step, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t at = 0; at < n; at += NT_LINE / (int64_t)sizeof(elem))
            __builtin_prefetch(from + i * step + at, 0, 2);
}

cpu_transpose_tile NAME(transpose_tile);
void NAME(transpose_tile)(void *to, int64_t to_step, const void *from, int64_t from_step,
                          int64_t rows, int64_t columns, int64_t next)
{
    elem *y = to;
    const elem *x = from;
    int64_t r = 0;

    for (; r + SQUARE <= rows; r += SQUARE) {
        int64_t c = 0;
        transpose_tile_fetch(x + r * from_step + columns, from_step, SQUARE, next);
        for (; c + SQUARE <= columns; c += SQUARE)
            transpose_tile_square(y + c * to_step + r, to_step, x + r * from_step + c, from_step,
                                  0);
        for (; c < columns; c++)
            for (int64_t i = r; i < r + SQUARE; i++) y[c * to_step + i] = x[i * from_step + c];
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) y[c * to_step + r] = x[r * from_step + c];
}

/* Transposes the complete squares of LINE rows, so that cache lines of `to` are filled one after
 * the other. */
static inline void transpose_tile_lines(elem *to, int64_t to_step, const elem *from,
                                        int64_t from_step, int64_t columns)
{
    for (int64_t c = 0; c + SQUARE <= columns; c += SQUARE)
        for (int64_t r = 0; r < LINE; r += SQUARE)
            transpose_tile_square(to + c * to_step + r, to_step, from + r * from_step + c,
                                  from_step, 1);
}

cpu_transpose_lines NAME(transpose_lines);
void NAME(transpose_lines)(void *to, int64_t to_step, const void *from, int64_t from_step,
                           int64_t rows, int64_t columns, int fetched)
{
    elem *y = to;
    const elem *x = from;
    int64_t whole = rows / LINE * LINE, transpose_tile_square = columns / SQUARE * SQUARE;
    int64_t side = fetched ? 2 * LINE : LINE;

    for (int64_t c = 0; c < columns; c += side)
        for (int64_t r = 0; r < whole; r += LINE) {
            int64_t n = columns - c < side ? columns - c : side;
            if (fetched) transpose_tile_fetch(x + (r + LINE) * from_step + c, from_step, LINE, n);
            transpose_tile_lines(y + c * to_step + r, to_step, x + r * from_step + c, from_step, n);
        }
    for (int64_t c = transpose_tile_square; c < columns; c++)
        for (int64_t r = 0; r < whole; r++) y[c * to_step + r] = x[r * from_step + c];
    for (int64_t r = whole; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) y[c * to_step + r] = x[r * from_step + c];
}
