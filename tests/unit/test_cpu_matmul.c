/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_matmul.c: tests how the cpu plugin describes products of matrices: products that share
 * one side are one product of more rows or columns, because each product reads both sides whole. */
#include "../../plugins/cpu/matmul.h"
#include <criterion/criterion.h>

enum {
    MOST = 4
};

/* The shapes and strides of three views, and the product expected of them. */
static const struct merge_case {
    const char *name;
    int rank[3]; /* of a, b and c */
    int64_t a[MOST], b[MOST], c[MOST];
    int64_t a_stride[MOST]; /* 0: row-major; of b and c: always row-major */
    int transpose_b;
    int64_t products, m, n, a_row, c_row;
} merge_cases[] = {
    {"one token of 8 sequences",
     {3, 2, 3},
     {8, 1, 32},
     {32, 64},
     {8, 1, 64},
     {0},
     0,
     1,
     8,
     64,
     32,
     64},
    {"all tokens of 8 sequences",
     {3, 2, 3},
     {8, 5, 32},
     {32, 64},
     {8, 5, 64},
     {0},
     0,
     1,
     40,
     64,
     32,
     64},
    {"b repeats along two axes",
     {4, 2, 4},
     {2, 3, 5, 7},
     {7, 4},
     {2, 3, 5, 4},
     {0},
     0,
     1,
     30,
     4,
     7,
     4},
    {"b repeats by an extent of 1",
     {3, 3, 3},
     {8, 5, 32},
     {1, 32, 64},
     {8, 5, 64},
     {0},
     0,
     1,
     40,
     64,
     32,
     64},
    {"rows at a distance",
     {3, 2, 3},
     {8, 1, 32},
     {32, 64},
     {8, 1, 64},
     {99, 7, 1},
     0,
     1,
     8,
     64,
     99,
     64},
    {"sequences with gaps stay apart",
     {3, 2, 3},
     {8, 5, 32},
     {32, 64},
     {8, 5, 64},
     {200, 32, 1},
     0,
     8,
     5,
     64,
     32,
     64},
    {"b repeats along the outer axis",
     {4, 3, 4},
     {2, 3, 1, 7},
     {3, 7, 4},
     {2, 3, 1, 4},
     {0},
     0,
     3,
     2,
     4,
     21,
     12},
    {"no side is shared", {3, 3, 3}, {8, 1, 32}, {8, 32, 64}, {8, 1, 64}, {0}, 0, 8, 1, 64, 32, 64},
    {"one row, shared, and many matrices",
     {1, 3, 2},
     {32},
     {8, 64, 32},
     {8, 64},
     {0},
     1,
     1,
     1,
     512,
     0,
     0},
    {"both sides are shared",
     {3, 3, 3},
     {1, 1, 32},
     {1, 32, 64},
     {1, 1, 64},
     {0},
     0,
     1,
     1,
     64,
     32,
     64},
    {"no rows", {3, 2, 3}, {8, 0, 32}, {32, 64}, {8, 0, 64}, {0}, 0, 8, 0, 64, 32, 64},
};

static struct bp_view merge_view(int rank, const int64_t *shape, const int64_t *given,
                                 int64_t *stride)
{
    struct bp_view view = {.shape = shape, .stride = stride, .rank = (uint8_t)rank, .count = 1};

    for (int a = rank - 1; a >= 0; a--) {
        stride[a] = given && given[0] ? given[a] : view.count;
        view.count *= shape[a];
    }
    return view;
}

Test(cpu_matmul, products_that_share_a_side_are_one)
{
    for (size_t i = 0; i < sizeof merge_cases / sizeof *merge_cases; i++) {
        const struct merge_case *m = &merge_cases[i];
        int64_t stride[3][MOST];
        struct bp_view a = merge_view(m->rank[0], m->a, m->a_stride, stride[0]),
                       b = merge_view(m->rank[1], m->b, NULL, stride[1]),
                       c = merge_view(m->rank[2], m->c, NULL, stride[2]);
        struct bp_matmul_attrs attrs = {sizeof attrs, 0, m->transpose_b};
        struct matmul got;

        matmul_init(&got, &a, &b, &c, &attrs);
        cr_expect_eq(got.batch.count, m->products, "%s: %d products", m->name,
                     (int)got.batch.count);
        cr_expect(got.m == m->m && got.n == m->n, "%s: %d rows, %d columns", m->name, (int)got.m,
                  (int)got.n);
        cr_expect(got.m < 2 || (got.a_row == m->a_row && got.c_row == m->c_row),
                  "%s: rows at a distance of %d and %d", m->name, (int)got.a_row, (int)got.c_row);
    }
}
