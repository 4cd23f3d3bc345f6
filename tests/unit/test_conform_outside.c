/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_outside.c: tests references of optimizer steps, sort and regions of interest against
 * independent values. Optimizer steps: the documented formulas in 50 digits of Python's decimal
 * (adamw also by PyTorch's AdamW); kthvalue and quantile: PyTorch; regions: computed by hand. */
#include "reference_kit.h"

#include <backplane/backplane.h>
#include <criterion/criterion.h>
#include <math.h>

#define LIST(...) (const double[]){__VA_ARGS__}
#define SHAPE(...) (const int64_t[]){__VA_ARGS__}
enum { OUTPUTS = 6 };

/* Expects output number o to be this list, to 1e-15. */
static void conform_outside_check(struct ref_array *out, int o, int64_t n, const double *want)
{
    cr_assert_eq(out[o].count, n);
    for (int64_t i = 0; i < n; i++) {
        long double got = out[o].u ? (long double)(int64_t)out[o].u[i] : out[o].v[i];
        cr_expect(fabsl(got - (long double)want[i]) < 1e-15L * (1 + fabsl(got)),
                  "output %d, %lld: got %.20Lg, expected %.17g", o, (long long)i, got, want[i]);
    }
}

static void conform_outside_finish(struct ref_array *a, int n)
{
    for (int i = 0; i < n; i++) ref_array_finish(&a[i]);
}

/* Creates param, grad, lr; and, if given, input 5 of n5 numbers and input 6 of one number. */
static void conform_outside_inputs(struct ref_array *in, const double *second, int64_t n5,
                                   const double *first)
{
    in[0] = array_of(BP_F64, 1, SHAPE(3), LIST(0.5, -1.25, 2));
    in[1] = array_of(BP_F64, 1, SHAPE(3), LIST(0.25, -0.5, 1));
    in[2] = array_of(BP_F64, 1, SHAPE(1), LIST(0.125));
    if (n5) in[5] = array_of(BP_F64, 1, &n5, first);
    if (second) in[6] = array_of(BP_F64, 1, SHAPE(1), second);
}

Test(outside, adamw_and_lamb)
{
    struct bp_adamw_attrs adamw = bp_adamw_defaults();
    struct bp_lamb_attrs lamb = bp_lamb_defaults();
    struct ref_array in[8] = {{0}}, out[OUTPUTS] = {{0}};

    conform_outside_inputs(in, LIST(0.25), 1, LIST(0.5625));
    in[3] = array_of(BP_F64, 1, SHAPE(3), LIST(0.125, 0.25, -0.5));
    in[4] = array_of(BP_F64, 1, SHAPE(3), LIST(0.0625, 0.5, 0.25));
    adamw.beta1 = lamb.beta1 = 0.75;
    adamw.beta2 = lamb.beta2 = adamw.decay = lamb.decay = 0.5;
    adamw.epsilon = lamb.epsilon = 0.0625;
    for (int which = 0; which < 2; which++) {
        if (which) ref_lamb(in, &lamb, out);
        else ref_adamw(in, &adamw, out);
        conform_outside_check(
            out, 0, 3,
            which ? LIST(0.24813663141477219276, -1.1626571479445618056, 1.8594426015475403071)
                  : LIST(0.34162580256966020669, -1.1950779437547463675, 1.9116161063919383620));
        conform_outside_check(out, 1, 3, LIST(0.15625, 0.0625, -0.125));
        conform_outside_check(out, 2, 3, LIST(0.0625, 0.375, 0.625));
        conform_outside_check(out, 3, 1, LIST(0.421875));
        conform_outside_check(out, 4, 1, LIST(0.125));
        conform_outside_finish(out, OUTPUTS);
        for (int o = 0; o < OUTPUTS; o++) out[o] = (struct ref_array){0};
    }
    conform_outside_finish(in, 8);
}

/* Tests rmsprop with a mean of the gradients, and without. */
Test(outside, rmsprop)
{
    static const double param[][3] = {
        {0.16161165235168155944, -1.6616116523516815594, 1.9482233047033631189},
        {0.15146707218357068477, -1.6612643490583886229, 1.9453946979732250993}};
    static const double velocity[][3] = {
        {0.33838834764831844055, 0.41161165235168155944, 0.05177669529663688110},
        {0.34853292781642931522, 0.41126434905838862296, 0.05460530202677490071}};
    struct bp_rmsprop_attrs a = bp_rmsprop_defaults();

    a.rho = 0.75;
    a.momentum = 0.5;
    a.epsilon = 0.0625;
    for (int centered = 0; centered < 2; centered++) {
        struct ref_array in[8] = {{0}}, out[OUTPUTS] = {{0}};
        conform_outside_inputs(in, NULL, centered ? 3 : 0, LIST(0.125, 0.25, -0.5));
        in[3] = array_of(BP_F64, 1, SHAPE(3), LIST(0.0625, 0.5, 0.25));
        in[4] = array_of(BP_F64, 1, SHAPE(3), LIST(0.5, 1, -0.25));
        ref_rmsprop(in, &a, out);
        conform_outside_check(out, 0, 3, param[centered]);
        conform_outside_check(out, 1, 3, LIST(0.0625, 0.4375, 0.4375));
        conform_outside_check(out, 2, 3, velocity[centered]);
        if (centered) conform_outside_check(out, 3, 3, LIST(0.15625, 0.0625, -0.125));
        conform_outside_finish(out, OUTPUTS);
        conform_outside_finish(in, 8);
    }
}

Test(outside, kthvalue_and_quantile)
{
    struct bp_kthvalue_attrs k = bp_kthvalue_defaults();
    struct bp_quantile_attrs q = bp_quantile_defaults();
    struct ref_array in[2], out[OUTPUTS] = {{0}}, part = {0};

    in[0] = array_of(BP_F64, 2, SHAPE(2, 5), LIST(3, -1, 4, 1, -5, 9, 2, -6, 5, 3));
    in[1] = array_of(BP_F64, 1, SHAPE(5), LIST(0, 0.25, 0.375, 0.9375, 1));
    k.axis = q.axis = 1;
    for (k.k = 2; k.k <= 4; k.k += 2) {
        ref_kthvalue(in, &k, out);
        conform_outside_check(out, 0, 2, k.k == 2 ? LIST(-1, 2) : LIST(3, 5));
        conform_outside_check(out, 1, 2, k.k == 2 ? LIST(1, 1) : LIST(0, 3));
        conform_outside_finish(out, OUTPUTS);
        out[0] = out[1] = (struct ref_array){0};
    }
    ref_quantile(in, &q, &part);
    conform_outside_check(&part, 0, 10, LIST(-5, -6, -1, 2, 0, 2.5, 3.75, 8, 4, 9));
    conform_outside_finish(&part, 1);
    conform_outside_finish(in, 2);
}

/* The regions are a whole image; (1, 1) to (3, 3), whose bins overlap (2.5 is rounded to 3); and
 * one outside the image. */
Test(outside, roi_pool)
{
    struct bp_roi_pool_attrs a = bp_roi_pool_defaults();
    struct ref_array in[3], y = {0};

    in[0] = array_of(BP_F64, 4, SHAPE(1, 1, 4, 4),
                     LIST(3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3));
    in[1] = array_of(BP_F32, 2, SHAPE(3, 4), LIST(0, 0, 6, 6, 2, 2, 5, 6, 8, 8, 10, 10));
    in[2] = array_of(BP_I64, 1, SHAPE(3), LIST(0, 0, 0));
    a.height = a.width = 2;
    a.scale = 0.5;
    ref_roi_pool(in, &a, &y);
    conform_outside_check(&y, 0, 12, LIST(9, 6, 9, 9, 9, 8, 9, 9, 0, 0, 0, 0));
    conform_outside_finish(&y, 1);
    conform_outside_finish(in, 3);
}
