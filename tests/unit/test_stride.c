/* SPDX-License-Identifier: Apache-2.0 */
/* test_stride.c: tests the arithmetic of views and the order of copies, without a core. The
 * expected results are found by visiting each element. */
#include "../../core/tensor/tensor.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char message[1024];

void bp_error_write(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
}

static uint64_t seed = 12345;

static int64_t stride_below(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

static int64_t stride_count_of(const struct bp_extents *e)
{
    int64_t n = 1;

    for (uint32_t i = 0; i < e->rank; i++) n *= e->shape[i];
    return n;
}

/* The offset of element number n, in row-major order. */
static int64_t stride_place(const struct bp_extents *e, int64_t n)
{
    int64_t at = e->offset;

    for (uint32_t i = e->rank; i-- > 0; n /= e->shape[i]) at += n % e->shape[i] * e->stride[i];
    return at;
}

static struct bp_extents stride_dense(uint32_t rank, const int64_t *shape)
{
    struct bp_extents e = {.rank = rank};

    for (uint32_t i = rank, step = 1; i-- > 0; step *= (uint32_t)shape[i]) {
        e.shape[i] = shape[i];
        e.stride[i] = step;
    }
    return e;
}

/* Returns a view of up to 4 axes, some of them cut, permuted or repeated. */
static struct bp_extents some_view(void)
{
    struct bp_extents e = {.rank = (uint32_t)stride_below(5)}, to;
    int64_t step = 1;

    for (uint32_t i = e.rank; i-- > 0;) {
        e.shape[i] = 1 + stride_below(4);
        e.stride[i] = step;
        step *= e.shape[i] + (stride_below(3) ? 0 : stride_below(3));
        if (!stride_below(8)) e.stride[i] = 0;
        if (e.shape[i] == 1) e.stride[i] = stride_below(50);
    }
    to = e;
    for (uint32_t i = 0; i < e.rank && stride_below(2); i++) {
        uint32_t a = (uint32_t)stride_below(e.rank), b = (uint32_t)stride_below(e.rank);
        to.shape[a] = e.shape[b], to.stride[a] = e.stride[b];
        to.shape[b] = e.shape[a], to.stride[b] = e.stride[a];
        e = to;
    }
    return e;
}

/* If strides for the new shape exist, the neighbours of element 0 determine them. Tests whether
 * they fit. */
static bool has_strides(const struct bp_extents *from, struct bp_extents *to)
{
    int64_t apart = stride_count_of(from), n = apart;

    for (uint32_t i = 0; i < to->rank; i++) {
        apart /= to->shape[i];
        to->stride[i] = to->shape[i] > 1 ? stride_place(from, apart) - stride_place(from, 0) : 0;
    }
    for (int64_t k = 0; k < n; k++)
        if (stride_place(to, k) != stride_place(from, k)) return false;
    return true;
}

/* Factors n into extents, with ones between them. */
static uint32_t stride_factors(int64_t n, int64_t *out_shape)
{
    uint32_t rank = 0;

    for (int64_t f = 2; n > 1 && rank < 7;) {
        if (!stride_below(4)) {
            out_shape[rank++] = 1;
            continue;
        }
        while (n % f) f++;
        out_shape[rank] = f;
        n /= f;
        while (n > 1 && stride_below(2)) {
            for (f = 2; n % f;) f++;
            out_shape[rank] *= f;
            n /= f;
        }
        rank++;
        f = 2;
    }
    if (n > 1 && rank == 7) out_shape[rank++] = n;
    return rank;
}

Test(stride, reshape_gives_a_view_where_there_is_one)
{
    int views = 0, refused = 0;

    for (int k = 0; k < 200000; k++) {
        struct bp_extents from = some_view(), to = {0}, got;
        int64_t shape[BP_RANK_MAX];
        int open;
        to.rank = stride_factors(stride_count_of(&from), to.shape);
        memcpy(shape, to.shape, sizeof shape);
        open = to.rank && stride_below(2) ? (int)stride_below(to.rank) : -1;
        if (open >= 0) shape[open] = -1;
        if (!has_strides(&from, &to)) {
            cr_assert_eq(bp_extents_reshape("r", &from, to.rank, shape, &got), BP_ERR_UNSUPPORTED);
            cr_assert(strstr(message, "copy"), "%s", message);
            refused++;
            continue;
        }
        cr_assert_eq(bp_extents_reshape("r", &from, to.rank, shape, &got), BP_OK, "%s", message);
        cr_assert_eq(got.rank, to.rank);
        for (uint32_t i = 0; i < got.rank; i++) cr_assert_eq(got.shape[i], to.shape[i]);
        for (int64_t n = 0; n < stride_count_of(&from); n++)
            cr_assert_eq(stride_place(&got, n), stride_place(&from, n));
        views++;
    }
    cr_assert(views > 20000 && refused > 20000, "%d views, %d refused", views, refused);
}

Test(stride, reshape_of_nothing_and_of_one)
{
    const int64_t empty[] = {0, 5}, other[] = {3, 0, 7}, open[] = {-1, 0}, open_one[] = {-1, 5},
                  ones[] = {1, 1}, two[] = {2}, twice[] = {-1, -1}, minus[] = {-2}, any[] = {-1},
                  huge[] = {INT64_MAX, INT64_MAX}, zero_huge[] = {INT64_MAX, 0, INT64_MAX};
    struct bp_extents e = stride_dense(2, empty), one = {.rank = 0}, got = {.rank = 77};

    cr_assert_eq(bp_extents_reshape("r", &e, 2, open, &got), BP_ERR_INVALID);
    cr_assert(strstr(message, "say which"), "%s", message);
    cr_assert_eq(bp_extents_reshape("r", &one, 1, two, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_reshape("r", &one, 2, twice, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_reshape("r", &one, 1, minus, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_reshape("r", &one, 2, huge, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_reshape("r", &e, 0, NULL, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_reshape("r", &one, 9, huge, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_reshape("r", &e, 3, zero_huge, &got), BP_ERR_INVALID);
    cr_assert_eq(got.rank, 77, "a failure wrote its answer");
    cr_assert_eq(bp_extents_reshape("r", &e, 3, other, &got), BP_OK, "%s", message);
    cr_assert(got.rank == 3 && got.shape[2] == 7 && got.stride[0] == 7 && got.stride[2] == 1);
    cr_assert_eq(bp_extents_reshape("r", &e, 2, open_one, &got), BP_OK, "%s", message);
    cr_assert_eq(got.shape[0], 0);
    cr_assert_eq(bp_extents_reshape("r", &one, 2, ones, &got), BP_OK);
    cr_assert(got.rank == 2 && got.shape[0] == 1 && got.shape[1] == 1);
    cr_assert_eq(bp_extents_reshape("r", &one, 1, any, &got), BP_OK);
    cr_assert(got.rank == 1 && got.shape[0] == 1);
    cr_assert_eq(bp_extents_reshape("r", &got, 0, NULL, &got), BP_OK);
    cr_assert_eq(got.rank, 0);
}

/* Tests each index for whether it is in the slice. */
static int64_t expected_slice(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *out)
{
    int64_t found = 0, first = -1;

    for (int64_t i = 0; i < n; i++) {
        bool after = start >= 0 ? i >= start : i - n >= start;
        bool before = stop >= 0 ? i < stop : i - n < stop;
        if (!after || !before) continue;
        if (first < 0) first = i;
        if ((i - first) % step == 0) out[found++] = i;
    }
    return found;
}

Test(stride, slice_is_that_of_python)
{
    const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -9,       -6, -5, -4, -1, 0, 1, 2, 4, 5, 6,
                            9,         INT64_MAX - 1, INT64_MAX};
    const int64_t steps[] = {1, 2, 3, 5, 7, INT64_MAX};
    enum {
        ENDS = sizeof ends / sizeof *ends
    };

    for (int64_t n = 0; n < 7; n++)
        for (int k = 0; k < ENDS * ENDS * 6; k++) {
            int64_t start = ends[k % ENDS], stop = ends[k / ENDS % ENDS],
                    step = steps[k / ENDS / ENDS], want[8];
            struct bp_extents from = stride_dense(3, (const int64_t[]){2, n ? n : 1, 3}), got;
            int64_t found = expected_slice(n, start, stop, step, want);
            from.shape[1] = n;
            cr_assert_eq(bp_extents_slice("s", &from, k % 2 ? 1 : -2, start, stop, step, &got),
                         BP_OK);
            cr_assert_eq(got.shape[1], found, "[%lld:%lld:%lld] of %lld", (long long)start,
                         (long long)stop, (long long)step, (long long)n);
            for (int64_t i = 0; i < found; i++)
                cr_assert_eq(got.offset + i * got.stride[1], want[i] * 3);
            cr_assert(got.shape[0] == 2 && got.shape[2] == 3 && got.stride[2] == 1);
            cr_assert(found > 1 || got.stride[1] == 3, "a step that leads nowhere");
        }
}

Test(stride, slice_refuses)
{
    struct bp_extents from = stride_dense(2, (const int64_t[]){4, 5}), got = {.rank = 77};

    cr_assert_eq(bp_extents_slice("s", &from, 0, 0, 4, 0, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_slice("s", &from, 0, 4, 0, -1, &got), BP_ERR_INVALID);
    cr_assert(strstr(message, "flip copies"), "%s", message);
    cr_assert_eq(bp_extents_slice("s", &from, 2, 0, 4, 1, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_slice("s", &from, -3, 0, 4, 1, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_slice("s", &from, INT64_MIN, 0, 4, 1, &got), BP_ERR_INVALID);
    from.rank = 0;
    cr_assert_eq(bp_extents_slice("s", &from, 0, 0, 4, 1, &got), BP_ERR_INVALID);
    cr_assert_eq(got.rank, 77);
}

Test(stride, transpose_moves_axes)
{
    const int64_t shape[] = {2, 3, 4}, perm[] = {2, 0, 1};
    struct bp_extents from = stride_dense(3, shape), got;

    cr_assert_eq(bp_extents_transpose("t", &from, perm, &got), BP_OK);
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 3; j++)
            for (int64_t k = 0; k < 4; k++)
                cr_assert_eq(stride_place(&got, (k * 2 + i) * 3 + j),
                             stride_place(&from, (i * 3 + j) * 4 + k));
    cr_assert_eq(bp_extents_transpose("t", &from, NULL, &got), BP_OK);
    cr_assert(got.shape[0] == 4 && got.shape[2] == 2 && got.stride[0] == 1 && got.stride[2] == 12);
    cr_assert_eq(bp_extents_transpose("t", &from, (const int64_t[]){0, 1, 1}, &got),
                 BP_ERR_INVALID);
    cr_assert_eq(bp_extents_transpose("t", &from, (const int64_t[]){0, 1, 3}, &got),
                 BP_ERR_INVALID);
    cr_assert_eq(bp_extents_transpose("t", &from, (const int64_t[]){0, 1, -1}, &got),
                 BP_ERR_INVALID);
    cr_assert_eq(bp_extents_transpose("t", &from, (const int64_t[]){0, 1, INT64_MAX}, &got),
                 BP_ERR_INVALID);
}

Test(stride, expand_repeats)
{
    struct bp_extents from = stride_dense(2, (const int64_t[]){3, 1}), got = {.rank = 77};

    cr_assert_eq(bp_extents_expand("e", &from, 1, (const int64_t[]){3}, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_expand("e", &from, 2, (const int64_t[]){4, 1}, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_expand("e", &from, 2, (const int64_t[]){1, 1}, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_expand("e", &from, 2, (const int64_t[]){3, -2}, &got), BP_ERR_INVALID);
    cr_assert_eq(bp_extents_expand("e", &from, 3, (const int64_t[]){-1, 3, 1}, &got),
                 BP_ERR_INVALID);
    cr_assert_eq(got.rank, 77);
    cr_assert_eq(bp_extents_expand("e", &from, 3, (const int64_t[]){2, -1, 4}, &got), BP_OK);
    for (int64_t n = 0; n < 24; n++) cr_assert_eq(stride_place(&got, n), n / 4 % 3);
    cr_assert_eq(bp_extents_expand("e", &from, 2, (const int64_t[]){3, 0}, &got), BP_OK);
    cr_assert(got.shape[0] == 3 && got.shape[1] == 0);
}

Test(stride, meeting_is_having_an_element_in_common)
{
    enum {
        PLACES = 4096
    };
    static uint8_t mark[PLACES];
    int meets = 0, apart = 0;

    for (int k = 0; k < 100000; k++) {
        struct bp_extents a = some_view(), b = stride_below(2) ? some_view() : a;
        bool expected = false;
        a.offset = stride_below(20), b.offset = stride_below(20);
        memset(mark, 0, sizeof mark);
        for (int64_t n = 0; n < stride_count_of(&a); n++) mark[stride_place(&a, n)] = 1;
        for (int64_t n = 0; n < stride_count_of(&b); n++) expected |= mark[stride_place(&b, n)];
        cr_assert_eq(bp_extents_overlap(&a, &b), expected, "round %d", k);
        meets += expected, apart += !expected;
    }
    cr_assert(meets > 10000 && apart > 10000, "%d meet, %d do not", meets, apart);
}

/* Two halves of a matrix, and its odd and even rows, in sizes that are too large to visit each
 * element. */
Test(stride, meeting_is_settled_for_large_views)
{
    const int64_t n = INT64_C(1) << 28;
    struct bp_extents left = {2, 0, {n, n / 2}, {n, 1}}, right = {2, n / 2, {n, n / 2}, {n, 1}};
    struct bp_extents even = {2, 0, {n / 2, n}, {2 * n, 1}}, odd = {2, n, {n / 2, n}, {2 * n, 1}};

    cr_assert(!bp_extents_overlap(&left, &right) && !bp_extents_overlap(&even, &odd));
    cr_assert(bp_extents_overlap(&left, &even) && bp_extents_overlap(&right, &odd));
    right.offset--;
    cr_assert(bp_extents_overlap(&left, &right));
    left.shape[1] = 0;
    cr_assert(!bp_extents_overlap(&left, &right));
}

/* Returns a layout of shape in which no two elements share an address. */
static struct bp_extents some_layout(uint32_t rank, const int64_t *shape)
{
    struct bp_extents e = {.rank = rank};
    uint32_t order[BP_RANK_MAX];
    int64_t step = 1 + (stride_below(3) == 0);

    memcpy(e.shape, shape, rank * sizeof *shape);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = (uint32_t)stride_below(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    if (stride_below(2))
        for (uint32_t i = 0; i < rank; i++) order[i] = rank - 1 - i;
    for (uint32_t i = 0; i < rank; i++) {
        e.stride[order[i]] = step;
        step *= shape[order[i]] + (stride_below(3) == 0);
    }
    return e;
}

enum {
    ROOM = 1 << 20
};

static void check_move(const struct bp_extents *to, const struct bp_extents *from, int64_t width)
{
    static unsigned char src[ROOM], dst[ROOM], want[ROOM];
    struct bp_move move;

    for (int i = 0; i < ROOM; i++) src[i] = (unsigned char)(i * 7 + i / 251);
    memset(dst, 0xa5, ROOM);
    memset(want, 0xa5, ROOM);
    for (int64_t n = 0; n < stride_count_of(to); n++) {
        cr_assert((stride_place(to, n) + 1) * width <= ROOM &&
                  (stride_place(from, n) + 1) * width <= ROOM);
        memcpy(want + stride_place(to, n) * width, src + stride_place(from, n) * width,
               (size_t)width);
    }
    bp_move_init(&move, to->rank, to->shape, to->stride, from->stride, (uint64_t)width);
    cr_assert_eq(bp_move_count(&move) * (int64_t)move.width, stride_count_of(to) * width);
    bp_move_run(&move, dst, src);
    cr_assert(!memcmp(dst, want, ROOM), "rank %u, width %lld", to->rank, (long long)width);
    memset(dst, 0xa5, ROOM);
    struct bp_move_cursor at = {.dst = 0};
    do memcpy(dst + at.dst, src + at.src, move.width);
    while (bp_move_next(&move, &at));
    cr_assert(!memcmp(dst, want, ROOM), "by runs: rank %u, width %lld", to->rank, (long long)width);
}

Test(move, moves_exactly_the_bytes_of_the_view)
{
    for (int k = 0; k < 300; k++) {
        const int64_t widths[] = {1, 2, 4, 8, 16};
        struct bp_extents to, from;
        int64_t shape[BP_RANK_MAX];
        uint32_t rank = (uint32_t)stride_below(6);
        for (uint32_t i = 0; i < rank; i++) shape[i] = 1 + stride_below(5);
        to = some_layout(rank, shape);
        from = some_layout(rank, shape);
        if (rank && !stride_below(4)) from.stride[stride_below(rank)] = 0;
        check_move(&to, &from, widths[k % 5]);
    }
}

/* Planes that are copied by tiles, with partial tiles at their ends. */
Test(move, transposes_planes)
{
    const int64_t sides[][2] = {{64, 64}, {65, 130}, {16, 17}, {15, 200}, {128, 9}};

    for (int k = 0; k < 5; k++)
        for (int64_t width = 1; width <= 16; width *= 2) {
            struct bp_extents to = stride_dense(3, (const int64_t[]){2, sides[k][0], sides[k][1]});
            struct bp_extents from = to;
            from.stride[1] = 1;
            from.stride[2] = sides[k][0];
            check_move(&to, &from, width);
        }
}

Test(move, adjacent_elements_are_one_run)
{
    const int64_t shape[] = {4, 1, 5, 6};
    struct bp_extents e = stride_dense(4, shape);
    struct bp_move move;

    bp_move_init(&move, 4, shape, e.stride, e.stride, 4);
    cr_assert(move.rank == 0 && move.width == 480);
    bp_move_init(&move, 4, shape, (const int64_t[]){60, 0, 12, 1}, e.stride, 4);
    cr_assert(move.rank == 1 && move.width == 24 && bp_move_count(&move) == 20);
    bp_move_init(&move, 2, (const int64_t[]){3, 5}, (const int64_t[]){1, 3},
                 (const int64_t[]){1, 3}, 2); /* both column-major */
    cr_assert(move.rank == 0 && move.width == 30);
}
