/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero.c: writes the indices of elements that are not 0. Each part of the elements is first
 * counted, and then written after the indices of the parts before it, so the order of indices is
 * the order of elements at any width. */
#include "cpu.h"
#include "dtype.h"
#include "kernels.h"
#include "walk.h"
#include <string.h>

enum { PARTS = 64, PART_LEAST = 16384 };

struct nonzero {
    struct walk walk; /* x, and the number of the element */
    const char *x;
    int size;         /* size of an element in bytes */
    uint64_t mask[2]; /* the bits that make an element not 0, for each 8 bytes */
    const struct bp_view *index;
    int rank;
    const int64_t *shape;
    int64_t part; /* elements of a part */
    int64_t found[PARTS], first[PARTS];
};

struct part {
    const struct nonzero *z;
    int64_t found; /* found so far; while indices are written, plus the part's first index */
};

/* size is a constant wherever this is inlined. */
static inline int nonzero_is_set(const char *at, size_t size, const uint64_t *mask)
{
    uint64_t bits[2] = {0, 0};

    memcpy(bits, at, size);
    return (bits[0] & mask[0]) != 0 || (size > 8 && (bits[1] & mask[1]) != 0);
}

static inline int64_t count_elements(const char *x, int64_t n, int64_t step, size_t size,
                                     const uint64_t *mask)
{
    int64_t found = 0;

    for (int64_t i = 0; i < n; i++)
        found += nonzero_is_set(x + i * step * (int64_t)size, size, mask);
    return found;
}

static int64_t nonzero_count_line(const struct nonzero *z, const char *x, int64_t n, int64_t step)
{
    switch (z->size) {
    case 1: return count_elements(x, n, step, 1, z->mask);
    case 2: return count_elements(x, n, step, 2, z->mask);
    case 4: return count_elements(x, n, step, 4, z->mask);
    case 8: return count_elements(x, n, step, 8, z->mask);
    default: return count_elements(x, n, step, 16, z->mask);
    }
}

static void count_span(void *ctx, int64_t n, const int64_t *at)
{
    struct part *part = ctx;
    const struct nonzero *z = part->z;

    part->found += nonzero_count_line(z, z->x + at[0] * z->size, n,
                                      z->walk.stride[0][z->walk.rank - 1]);
}

static void write_row(const struct nonzero *z, int64_t row, int64_t number)
{
    int64_t *to = (int64_t *)z->index->data + row * z->index->stride[0];

    for (int a = z->rank - 1; a >= 0; a--) {
        to[a * z->index->stride[1]] = number % z->shape[a];
        number /= z->shape[a];
    }
}

static void write_span(void *ctx, int64_t n, const int64_t *at)
{
    struct part *part = ctx;
    const struct nonzero *z = part->z;
    int64_t step = z->walk.stride[0][z->walk.rank - 1] * z->size;
    const char *x = z->x + at[0] * z->size;

    for (int64_t i = 0; i < n; i++)
        if (nonzero_is_set(x + i * step, (size_t)z->size, z->mask))
            write_row(z, part->found++, at[1] + i);
}

static int64_t end_of(const struct nonzero *z, int64_t i)
{
    int64_t end = (i + 1) * z->part;

    return end < z->walk.count ? end : z->walk.count;
}

static void count_part(void *arg, int64_t i)
{
    struct nonzero *z = arg;
    struct part part = {z, 0};

    walk_spans(&z->walk, i * z->part, end_of(z, i), count_span, &part);
    z->found[i] = part.found;
}

static void write_part(void *arg, int64_t i)
{
    struct nonzero *z = arg;
    struct part part = {z, z->first[i]};

    if (z->found[i]) walk_spans(&z->walk, i * z->part, end_of(z, i), write_span, &part);
}

/* For floats, all bits except the sign: -0 is 0, and NaN is not 0. */
static void set_mask(struct nonzero *z, uint8_t dtype)
{
    z->mask[0] = z->mask[1] = ~UINT64_C(0);
    switch (dtype) {
    case BP_F16: case BP_BF16: z->mask[0] = 0x7fff; break;
    case BP_F32: z->mask[0] = 0x7fffffff; break;
    case BP_C64: z->mask[0] = UINT64_C(0x7fffffff7fffffff); break;
    case BP_F64: case BP_C128: z->mask[0] = z->mask[1] = UINT64_MAX >> 1; break;
    default: break;
    }
}

enum bp_status cpu_nonzero(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0];
    struct nonzero z = {.x = x->data, .size = dtype_size(x->dtype), .index = launch->out[0],
                        .rank = x->rank, .shape = x->shape};
    int64_t parts, total = 0;
    uint32_t width;

    set_mask(&z, x->dtype);
    walk_init(&z.walk, x->rank, x->shape);
    walk_broadcast(&z.walk, 0, x->rank, x->shape, x->stride);
    walk_number(&z.walk, 1);
    walk_collapse(&z.walk);
    z.part = (z.walk.count + PARTS - 1) / PARTS;
    if (z.part < PART_LEAST) z.part = PART_LEAST;
    parts = (z.walk.count + z.part - 1) / z.part;
    width = cpu_team_width(launch, (double)z.walk.count);
    cpu_team_run(count_part, &z, parts, width);
    for (int64_t i = 0; i < parts; i++) {
        z.first[i] = total;
        total += z.found[i];
    }
    if (x->rank) cpu_team_run(write_part, &z, parts, width); /* at rank 0 the rows are empty */
    launch->result[0] = total;
    return BP_OK;
}
