/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_reduce.c: tests references of reductions, scans and linear algebra against
 * independent values (50 digits of Python's decimal, or computed by hand), and the labels of
 * einsum. */
#include "reference_kit.h"

#include <backplane/backplane.h>
#include <criterion/criterion.h>
#include <math.h>

#define LIST(...) (const double[]){__VA_ARGS__}
#define SHAPE(...) (const int64_t[]){__VA_ARGS__}

/* Expects that the reference of one to three inputs returns this list, to 1e-15. */
static void conform_reduce_check(ref_fn *of, const struct ref_array *in, const void *attrs,
                                 int64_t n, const double *want)
{
    struct ref_array out[2] = {{0}};

    of(in, attrs, out);
    cr_assert_eq(out[0].count, n);
    for (int64_t i = 0; i < n; i++) {
        long double got = out[0].u ? (long double)(int64_t)out[0].u[i] : out[0].v[i];
        cr_assert(fabsl(got - (long double)want[i]) < 1e-15L * (1 + fabsl(got)) ||
                      (isnan(got) && isnan(want[i])) || got == (long double)want[i],
                  "%lld: got %.20Lg, expected %.17g", (long long)i, got, want[i]);
    }
    for (int i = 0; i < 2; i++) ref_array_finish(&out[i]);
}

static const double x4[] = {0.5, -1.25, 2, 0.75}, y4[] = {1, 2, -0.5, 1.5};

/* The cases are rows to exchange, a small pivot, and a matrix without rows. */
Test(reference, determinants)
{
    struct ref_array x = array_of(BP_F64, 3, SHAPE(2, 3, 3),
                                  LIST(0, 2, 1, 3, 0, 0, 4, 5, 6, 0.0625, 1, 1, 1, 1, 2, 1, 2, 1));
    struct ref_array none = array_of(BP_F64, 2, SHAPE(0, 0), NULL);

    conform_reduce_check(ref_det, &x, NULL, 2, LIST(-21, 1.8125));
    conform_reduce_check(ref_det, &none, NULL, 1, LIST(1));
    ref_array_finish(&x);
    ref_array_finish(&none);
}

Test(reference, reductions_of_four_numbers)
{
    struct ref_array x = array_of(BP_F64, 1, SHAPE(4), x4);
    struct bp_sum_attrs all = {sizeof all, {NULL, 0}, 0};
    struct bp_var_attrs var = {sizeof var, {NULL, 0}, 0, 1};
    struct bp_norm_attrs norm = {sizeof norm, {NULL, 0}, 0, 3};

    conform_reduce_check(ref_mean, &x, &all, 1, LIST(0.5));
    conform_reduce_check(ref_prod, &x, &all, 1, LIST(-0.9375));
    conform_reduce_check(ref_max, &x, &all, 1, LIST(2));
    conform_reduce_check(ref_amin, &x, &all, 1, LIST(-1.25));
    conform_reduce_check(ref_logsumexp, &x, &all, 1, LIST(2.4372280586139025599));
    conform_reduce_check(ref_var, &x, &var, 1, LIST(1.7916666666666666667));
    conform_reduce_check(ref_std, &x, &var, 1, LIST(1.3385315336840842117));
    var.unbiased = 0;
    conform_reduce_check(ref_var, &x, &var, 1, LIST(1.34375));
    conform_reduce_check(ref_norm, &x, &norm, 1, LIST(2.1897595699439446329));
    norm.p = 0.5;
    conform_reduce_check(ref_norm, &x, &norm, 1, LIST(16.854142777531044588));
    norm.p = 2;
    conform_reduce_check(ref_norm, &x, &norm, 1, LIST(2.5248762345905194883));
    norm.p = -INFINITY;
    conform_reduce_check(ref_norm, &x, &norm, 1, LIST(0.5));
    ref_array_finish(&x);
}

Test(reference, reductions_take_axes_and_ties)
{
    struct ref_array x = array_of(BP_I32, 2, SHAPE(2, 3), LIST(4, -7, 4, 0, 4, -7)),
                     n = array_of(BP_F32, 1, SHAPE(4), LIST(1, NAN, 3, NAN));
    struct bp_sum_attrs columns = {sizeof columns, {SHAPE(0), 1}, 0},
                        all = {sizeof all, {NULL, 0}, 0};
    struct bp_argmax_attrs arg = {sizeof arg, 1, 0, 0, BP_I64};

    conform_reduce_check(ref_max, &x, &columns, 3, LIST(4, 4, 4));
    conform_reduce_check(ref_min, &x, &columns, 3, LIST(0, -7, -7));
    conform_reduce_check(ref_count_nonzero, &x, &columns, 3, LIST(1, 2, 2));
    conform_reduce_check(ref_all, &x, &columns, 3, LIST(0, 1, 1));
    conform_reduce_check(ref_any, &x, &columns, 3, LIST(1, 1, 1));
    conform_reduce_check(ref_argmax, &x, &arg, 2, LIST(0, 1));
    conform_reduce_check(ref_argmin, &x, &arg, 2, LIST(1, 2));
    arg.flatten = 1;
    conform_reduce_check(ref_argmin, &x, &arg, 1, LIST(1));
    conform_reduce_check(ref_argmax, &n, &arg, 1, LIST(1));
    conform_reduce_check(ref_min, &n, &all, 1, LIST(NAN));
    conform_reduce_check(ref_nansum, &n, &all, 1, LIST(4));
    conform_reduce_check(ref_nanmean, &n, &all, 1, LIST(2));
    ref_array_finish(&x);
    ref_array_finish(&n);
}

Test(reference, norm_grad_of_order_3)
{
    struct ref_array in[3] = {array_of(BP_F64, 1, SHAPE(4), x4),
                              array_of(BP_F64, 1, SHAPE(1), LIST(2.1897595699439446329)),
                              array_of(BP_F64, 1, SHAPE(1), LIST(2))};
    struct bp_norm_grad_attrs a = {sizeof a, 3};

    conform_reduce_check(ref_norm_grad, in, &a, 4,
                         LIST(0.10427426523542593490, -0.65171415772141209311,
                              1.6683882437668149584, 0.23461709677970835352));
    for (int i = 0; i < 3; i++) ref_array_finish(&in[i]);
}

Test(reference, scans_by_hand)
{
    struct ref_array x = array_of(BP_F64, 1, SHAPE(4), x4),
                     both[3] = {x, array_of(BP_F64, 1, SHAPE(4), y4), {0}}, only[3] = {x};
    struct bp_cumsum_attrs a = {sizeof a, 0, 0, 0};
    struct bp_linear_scan_attrs l = {sizeof l, 0, 0, 0};
    struct bp_cummax_attrs c = {sizeof c, 0, BP_I64};
    struct bp_diff_attrs d = {sizeof d, 2, 0};

    conform_reduce_check(ref_cumsum, &x, &a, 4, LIST(0.5, -0.75, 1.25, 2));
    conform_reduce_check(ref_cumprod, &x, &a, 4, LIST(0.5, -0.625, -1.25, -0.9375));
    conform_reduce_check(
        ref_logcumsumexp, &x, &a, 4,
        LIST(0.5, 0.66022415043808722689, 2.2326219831020326765, 2.4372280586139025599));
    a.exclusive = a.reverse = 1;
    conform_reduce_check(ref_cumsum, &x, &a, 4, LIST(1.5, 2.75, 0.75, 0));
    conform_reduce_check(ref_cumprod, &x, &a, 4, LIST(-1.875, 1.5, 0.75, 1));
    conform_reduce_check(ref_cummax, &x, &c, 4, LIST(0.5, 0.5, 2, 2));
    conform_reduce_check(ref_cummin, &x, &c, 4, LIST(0.5, -1.25, -1.25, -1.25));
    conform_reduce_check(ref_linear_scan, both, &l, 4, LIST(1, 0.75, 1, 2.25));
    l.reverse = l.shift = 1;
    conform_reduce_check(ref_linear_scan, both, &l, 4, LIST(-3.0625, 3.25, 0.625, 1.5));
    conform_reduce_check(ref_diff, only, &d, 2, LIST(5, -4.5));
    ref_array_finish(&x);
    ref_array_finish(&both[1]);
}

Test(reference, vectors_and_matrices)
{
    struct ref_array pair[2] = {array_of(BP_F64, 1, SHAPE(4), x4),
                                array_of(BP_F64, 1, SHAPE(4), y4)},
                     m = array_of(BP_F64, 2, SHAPE(2, 2), LIST(1, 2, 3, 4)),
                     two[2] = {m, array_of(BP_F64, 1, SHAPE(2), LIST(5, -6))},
                     chain[4] = {m, m, two[1], {0}},
                     cube[2] = {array_of(BP_I32, 1, SHAPE(3), LIST(1, 2, 3)),
                                array_of(BP_I32, 1, SHAPE(3), LIST(4, 5, 6))};
    struct bp_cosine_similarity_attrs cosine = {sizeof cosine, 0, 1e-8};
    struct bp_dist_attrs dist = {sizeof dist, 2};
    struct bp_trace_attrs trace = {sizeof trace, 1, 0, 1};
    struct bp_matrix_power_attrs power = {sizeof power, 3};
    struct bp_cross_attrs cross = {sizeof cross, 0};

    conform_reduce_check(ref_cosine_similarity, pair, &cosine, 1, LIST(-0.27116307227332021500));
    conform_reduce_check(ref_dist, pair, &dist, 1, LIST(4.1982139059366663005));
    conform_reduce_check(ref_dot, pair, NULL, 1, LIST(-1.875));
    conform_reduce_check(ref_mv, two, NULL, 2, LIST(-7, -9));
    conform_reduce_check(ref_outer, (struct ref_array[]){two[1], two[1]}, NULL, 4,
                         LIST(25, -30, -30, 36));
    conform_reduce_check(ref_kron, (struct ref_array[]){two[1], two[1]}, NULL, 4,
                         LIST(25, -30, -30, 36));
    conform_reduce_check(ref_inner, (struct ref_array[]){m, m}, NULL, 4, LIST(5, 11, 11, 25));
    conform_reduce_check(ref_trace, &m, &trace, 1, LIST(2));
    conform_reduce_check(ref_matrix_power, &m, &power, 4, LIST(37, 54, 81, 118));
    conform_reduce_check(ref_multi_dot, chain, NULL, 2, LIST(-25, -57));
    conform_reduce_check(ref_cross, cube, &cross, 3, LIST(-3, 6, -3));
    for (int i = 0; i < 2; i++) {
        ref_array_finish(&pair[i]);
        ref_array_finish(&two[i]);
        ref_array_finish(&cube[i]);
    }
}

static void check_einsum(const char *equation, const struct ref_array *in, int64_t n,
                         const double *want)
{
    int64_t labels[32];
    size_t n_labels;
    struct bp_einsum_attrs a = {.size = sizeof a};

    cr_assert_eq(bp_einsum_labels(equation, labels, 32, &n_labels), BP_OK, "%s",
                 bp_error_message());
    a.labels = (struct bp_dims){labels, (int64_t)n_labels};
    conform_reduce_check(ref_einsum, in, &a, n, want);
}

Test(reference, einsum_by_hand)
{
    struct ref_array m = array_of(BP_F64, 2, SHAPE(2, 2), LIST(1, 2, 3, 4)),
                     v = array_of(BP_F64, 1, SHAPE(2), LIST(5, -6));

    check_einsum("ij, jk -> ik", (struct ref_array[]){m, m}, 4, LIST(7, 10, 15, 22));
    check_einsum("ij,jk", (struct ref_array[]){m, m}, 4, LIST(7, 10, 15, 22));
    check_einsum("ba", (struct ref_array[]){m}, 4, LIST(1, 3, 2, 4));
    check_einsum("ii->i", (struct ref_array[]){m}, 2, LIST(1, 4));
    check_einsum("ii", (struct ref_array[]){m}, 1, LIST(5));
    check_einsum("ij,i,j->", (struct ref_array[]){m, v, v}, 1, LIST(19));
    check_einsum("ij->", (struct ref_array[]){m}, 1, LIST(10));
    ref_array_finish(&m);
    ref_array_finish(&v);
}

Test(einsum, labels_of_an_equation)
{
    static const int64_t want[] = {0, 1, -1, 1, 2, -1, 2, 0};
    int64_t labels[8] = {0};
    size_t n = 99;

    cr_assert_eq(bp_einsum_labels("zb,bA->Az", labels, 8, &n), BP_OK);
    cr_assert_eq(n, 8);
    cr_assert_arr_eq(labels, want, sizeof want);
    cr_assert_eq(bp_einsum_labels(",->", labels, 8, &n), BP_OK);
    cr_assert_eq(n, 2);
    n = 99;
    cr_assert_eq(bp_einsum_labels("zb,bA->Az", labels, 7, &n), BP_ERR_INVALID);
    cr_assert_eq(bp_einsum_labels("i...->i", labels, 8, &n), BP_ERR_INVALID);
    cr_assert_eq(bp_einsum_labels("i->j", labels, 8, &n), BP_ERR_INVALID);
    cr_assert_eq(bp_einsum_labels("i->i->i", labels, 8, &n), BP_ERR_INVALID);
    cr_assert_eq(bp_einsum_labels("i->i,i", labels, 8, &n), BP_ERR_INVALID);
    cr_assert_eq(n, 99);
}
