/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: moves elements from one memory layout to another, on the host. */
#include "tensor.h"

#include <string.h>

/* Sorts the axes with more than one element by the stride of dst, largest first. Adjacent axes that
 * one stride covers on both sides are merged, and the innermost axes become part of a run. */
void bp_move_init(struct bp_move *move, uint32_t rank, const int64_t *shape,
                  const int64_t *dst_stride, const int64_t *src_stride, uint64_t width)
{
    struct bp_move m = {.width = width};
    uint32_t order[BP_RANK_MAX], n = 0;

    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = n;
        if (shape[i] == 1) continue;
        for (; at > 0 && dst_stride[order[at - 1]] < dst_stride[i]; at--) order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    for (uint32_t k = 0; k < n; k++) {
        int64_t extent = shape[order[k]], dst = dst_stride[order[k]] * (int64_t)width,
                src = src_stride[order[k]] * (int64_t)width;
        uint32_t last = m.rank - 1;
        if (m.rank && m.dst[last] == extent * dst && m.src[last] == extent * src) {
            m.shape[last] *= extent;
        } else {
            last = m.rank++;
            m.shape[last] = extent;
        }
        m.dst[last] = dst;
        m.src[last] = src;
    }
    if (m.rank && m.dst[m.rank - 1] == (int64_t)width && m.src[m.rank - 1] == (int64_t)width)
        m.width = width * (uint64_t)m.shape[--m.rank];
    *move = m;
}

int64_t bp_move_count(const struct bp_move *move)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < move->rank; i++) count *= move->shape[i];
    return count;
}

bool bp_move_split_repeats(struct bp_move *move, uint64_t *out_block, uint64_t *out_times)
{
    uint64_t block = move->width;

    if (!move->rank || move->src[0]) return false;
    for (uint32_t i = 1; i < move->rank; i++) block *= (uint64_t)move->shape[i];
    if ((uint64_t)move->dst[0] != block) return false;
    *out_block = block;
    *out_times = (uint64_t)move->shape[0];
    move->rank--;
    memmove(move->shape, move->shape + 1, move->rank * sizeof *move->shape);
    memmove(move->dst, move->dst + 1, move->rank * sizeof *move->dst);
    memmove(move->src, move->src + 1, move->rank * sizeof *move->src);
    return true;
}

bool bp_move_next(const struct bp_move *move, struct bp_move_cursor *at)
{
    for (uint32_t i = move->rank; i-- > 0;) {
        at->dst += move->dst[i];
        at->src += move->src[i];
        if (++at->index[i] < move->shape[i]) return true;
        at->dst -= move->shape[i] * move->dst[i];
        at->src -= move->shape[i] * move->src[i];
        at->index[i] = 0;
    }
    return false;
}

/* The two innermost axes of a move. */
struct plane {
    int64_t rows, columns, dst_row, dst_column, src_row, src_column;
};

/* Bytes of a cache line, and the side of a tile. */
enum {
    LINE = 64
};

/* Moves a full tile for which src is dense along rows and dst along columns, through a local
 * buffer: each cache line is read once and written once, also for strides that map to few cache
 * sets. */
static inline __attribute__((always_inline)) void move_tile(const struct plane *p, char *dst,
                                                            const char *src, size_t width)
{
    char buffer[LINE * LINE];
    size_t side = LINE / width;

    for (size_t c = 0; c < side; c++)
        memcpy(buffer + c * LINE, src + (int64_t)c * p->src_column, LINE);
    for (size_t r = 0; r < side; r++)
        for (size_t c = 0; c < side; c++)
            memcpy(dst + (int64_t)r * p->dst_row + c * width, buffer + c * LINE + r * width, width);
}

static inline __attribute__((always_inline)) void move_part(const struct plane *p, char *dst,
                                                            const char *src, int64_t rows,
                                                            int64_t columns, size_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        char *to = dst + r * p->dst_row;
        const char *from = src + r * p->src_row;
        for (int64_t c = 0; c < columns; c++)
            memcpy(to + c * p->dst_column, from + c * p->src_column, width);
    }
}

/* Moves a plane by tiles, when src has its small stride along rows and dst along columns. */
static inline __attribute__((always_inline)) void move_tiles(const struct plane *p, char *dst,
                                                             const char *src, size_t width)
{
    bool dense = p->src_row == (int64_t)width && p->dst_column == (int64_t)width;
    int64_t side = LINE / (int64_t)width;

    for (int64_t c = 0; c < p->columns; c += side)
        for (int64_t r = 0; r < p->rows; r += side) {
            int64_t rows = p->rows - r < side ? p->rows - r : side;
            int64_t columns = p->columns - c < side ? p->columns - c : side;
            char *to = dst + r * p->dst_row + c * p->dst_column;
            const char *from = src + r * p->src_row + c * p->src_column;
            if (dense && rows == side && columns == side) move_tile(p, to, from, width);
            else move_part(p, to, from, rows, columns, width);
        }
}

/* width is a constant in each call, so that the compiler specializes the loops. */
static inline __attribute__((always_inline)) void move_plane(const struct plane *p, char *dst,
                                                             const char *src, size_t width)
{
    if (p->src_column > p->src_row && p->rows > 1) move_tiles(p, dst, src, width);
    else move_part(p, dst, src, p->rows, p->columns, width);
}

static void move_plane_any(const struct plane *p, char *dst, const char *src, size_t width)
{
    move_part(p, dst, src, p->rows, p->columns, width);
}

/* Removes the two innermost axes from m: the axis with dst's smallest stride, and of the others the
 * axis with src's smallest stride. */
static struct plane plane_extract(struct bp_move *m)
{
    struct plane p = {1, 1, 0, 0, 0, 0};
    uint32_t row = 0;

    if (!m->rank) return p;
    m->rank--;
    p.columns = m->shape[m->rank];
    p.dst_column = m->dst[m->rank];
    p.src_column = m->src[m->rank];
    if (!m->rank) return p;
    for (uint32_t i = 1; i < m->rank; i++)
        if (m->src[i] <= m->src[row]) row = i;
    p.rows = m->shape[row];
    p.dst_row = m->dst[row];
    p.src_row = m->src[row];
    m->rank--;
    for (uint32_t i = row; i < m->rank; i++) {
        m->shape[i] = m->shape[i + 1];
        m->dst[i] = m->dst[i + 1];
        m->src[i] = m->src[i + 1];
    }
    return p;
}

void bp_move_run(const struct bp_move *move, void *dst, const void *src)
{
    struct bp_move outer = *move;
    struct plane p = plane_extract(&outer);
    struct bp_move_cursor at = {.dst = 0};

    do {
        char *to = (char *)dst + at.dst;
        const char *from = (const char *)src + at.src;
        switch (move->width) {
        case 1: move_plane(&p, to, from, 1); break;
        case 2: move_plane(&p, to, from, 2); break;
        case 4: move_plane(&p, to, from, 4); break;
        case 8: move_plane(&p, to, from, 8); break;
        case 16: move_plane(&p, to, from, 16); break;
        default: move_plane_any(&p, to, from, move->width);
        }
    } while (bp_move_next(&outer, &at));
}
