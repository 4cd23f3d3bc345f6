/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_conv.c: tests the convolutions of the cpu plugin and their gradients against seven loops
 * in double, and cast against single values. */
#include "cpu_kit.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* A sanitizer makes the loops of the reference slow: an image of fewer rows does. */
#ifdef __SANITIZE_ADDRESS__
enum { TALL = 7 };
#else
enum { TALL = 20 };
#endif

static const struct conv_case {
    int spatial;
    int64_t batch, groups, channels, filters; /* channels, filters: of one group */
    int64_t in[3], window[3], stride[3], dilation[3], pad[6];
    int bias;
} cases[] = {
    {2, 2, 1, 3, 4, {6, 7}, {3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, 1},
    {2, 1, 1, 16, 24, {TALL, 21}, {3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, 1},
    {2, 2, 2, 8, 9, {19, 16}, {3, 2}, {2, 3, 1}, {2, 1, 1}, {0, 2, 0, 3, 1, 0}, 0},
    {1, 2, 3, 1, 1, {40}, {5}, {2, 1, 1}, {3, 1, 1}, {4, 0, 0, 1, 0, 0}, 1},
    {3, 1, 1, 2, 3, {4, 5, 6}, {2, 3, 2}, {1, 2, 2}, {1, 1, 2}, {1, 0, 2, 0, 2, 1}, 1},
    {2, 2, 1, 20, 70, {1, 1}, {1, 1}, {1, 1, 1}, {1, 1, 1}, {0}, 1},
    {2, 1, 1, 0, 3, {4, 4}, {2, 2}, {1, 1, 1}, {1, 1, 1}, {0}, 1},
    {1, 1, 1, 2, 3, {0}, {2}, {1, 1, 1}, {1, 1, 1}, {2, 0, 0, 2, 0, 0}, 1},
    {2, 0, 1, 2, 3, {4, 4}, {2, 2}, {1, 1, 1}, {1, 1, 1}, {0}, 0},
};

struct conv {
    const struct conv_case *c;
    struct tensor x, w, bias, y;
};

static void conv_init(struct conv *v, const struct conv_case *c, int dtype, enum layout layout)
{
    int64_t x[5] = {c->batch, c->groups * c->channels},
            w[5] = {c->groups * c->filters, c->channels};
    int64_t y[5] = {c->batch, c->groups * c->filters};

    for (int d = 0; d < c->spatial; d++) {
        x[d + 2] = c->in[d];
        w[d + 2] = c->window[d];
        y[d + 2] = (c->in[d] + c->pad[d] + c->pad[d + 3] - (c->window[d] - 1) * c->dilation[d] -
                    1) /
                       c->stride[d] +
                   1;
    }
    v->c = c;
    tensor_init(&v->x, dtype, layout, 1, c->spatial + 2, x);
    tensor_init(&v->w, dtype, layout, 2, c->spatial + 2, w);
    tensor_init(&v->y, dtype, layout, 3, c->spatial + 2, y);
    tensor_init(&v->bias, dtype, layout, 4, 1, w);
}

static void conv_finish(struct conv *v)
{
    tensor_finish(&v->x);
    tensor_finish(&v->w);
    tensor_finish(&v->y);
    tensor_finish(&v->bias);
}

/* Adds a term to an element, and its magnitude to the weight. */
static void term_add(struct tensor *to, int64_t n, double complex term)
{
    to->value[n] += term;
    to->weight[n] += cabs(term);
}

/* Visits each product w * x of each y, and adds it to the tensor `to`. */
static void conv_reference(struct conv *v, struct tensor *to)
{
    const struct conv_case *c = v->c;
    int64_t taps = v->w.shape[0] ? v->w.view.count / v->w.shape[0] : 0;

    for (int64_t ny = 0; ny < v->y.view.count; ny++) {
        int64_t y[5], w[5], x[5];
        tensor_index(&v->y, ny, y);
        if (to == &v->y && c->bias) term_add(to, ny, v->bias.value[y[1]]);
        for (int64_t nw = y[1] * taps; nw < (y[1] + 1) * taps; nw++) {
            bool inside = true;
            tensor_index(&v->w, nw, w);
            x[0] = y[0];
            x[1] = y[1] / c->filters * c->channels + w[1];
            for (int d = 0; d < c->spatial; d++) {
                x[d + 2] = y[d + 2] * c->stride[d] - c->pad[d] + w[d + 2] * c->dilation[d];
                inside = inside && x[d + 2] >= 0 && x[d + 2] < c->in[d];
            }
            if (!inside) continue;
            int64_t nx = tensor_number(&v->x, x);
            if (to == &v->y) term_add(to, ny, v->w.value[nw] * v->x.value[nx]);
            if (to == &v->x) term_add(to, nx, v->w.value[nw] * v->y.value[ny]);
            if (to == &v->w) term_add(to, nw, v->y.value[ny] * v->x.value[nx]);
        }
    }
}

static int conv_check(const struct bp_kernel *row, struct conv *v, struct tensor *out,
                      uint32_t width)
{
    struct bp_conv_attrs attrs = {.size = sizeof attrs, .groups = v->c->groups};
    struct tensor old; /* a copy of the input: the gradient reads its shape */
    struct tensor *forward[] = {&v->x, &v->w, v->c->bias ? &v->bias : NULL};
    struct tensor *grad_input[] = {&v->y, &v->w, &old}, *grad_weight[] = {&v->y, &v->x, &old};
    struct tensor **in = out == &v->y ? forward : out == &v->x ? grad_input : grad_weight;

    memcpy(attrs.stride, v->c->stride, sizeof attrs.stride);
    memcpy(attrs.dilation, v->c->dilation, sizeof attrs.dilation);
    memcpy(attrs.pad, v->c->pad, sizeof attrs.pad);
    tensor_clear(out);
    conv_reference(v, out);
    old = *out;
    enum bp_status status = kit_run(row, in, 3, out, &attrs, width);
    if (status == BP_ERR_UNSUPPORTED && row->priority) return 0;
    cr_assert_eq(status, BP_OK, "%s: status %d", row->name, status);
    kit_check(row, out, v->c->groups > 1 ? "groups" : "one group");
    return 1;
}

static void conv_rows(const char *op)
{
    kit_load();
    for (size_t i = 0; i < kit_plugin->kernels->count; i++) {
        const struct bp_kernel *row = &kit_plugin->kernels->first[i];
        int ran = 0;

        if (strcmp(row->op, op) || kit_plugin->kernels->usable(kit_self, row)) continue;
        int dtype = __builtin_ctzll(row->types[0]);
        for (size_t s = 0; s < sizeof cases / sizeof *cases; s++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                struct conv v;
                conv_init(&v, &cases[s], dtype, layout);
                struct tensor *out = !strcmp(op, "conv")              ? &v.y
                                     : !strcmp(op, "conv_grad_input") ? &v.x
                                                                      : &v.w;
                ran += conv_check(row, &v, out, 1 + (uint32_t)(s & 1));
                conv_finish(&v);
            }
        cr_expect(ran, "%s took none of the cases", row->name);
    }
    kit_unload();
}

Test(cpu_conv, forward)
{
    conv_rows("conv");
}

Test(cpu_conv, grad_input)
{
    conv_rows("conv_grad_input");
}

Test(cpu_conv, grad_weight)
{
    conv_rows("conv_grad_weight");
}

static const struct bp_kernel *cast_row(void)
{
    for (size_t i = 0; i < kit_plugin->kernels->count; i++)
        if (!strcmp(kit_plugin->kernels->first[i].op, "cast"))
            return &kit_plugin->kernels->first[i];
    cr_assert_fail("no row of cast");
    return NULL;
}

/* Casts one element with the bytes of `from`. */
static void cast_one(int dtype, const void *from, size_t from_size, int to, void *out)
{
    struct tensor x, y;
    struct bp_cast_attrs attrs = {sizeof attrs, to};

    tensor_init(&x, dtype, DENSE, 1, 0, NULL);
    tensor_init(&y, to, DENSE, 1, 0, NULL);
    memcpy(x.view.data, from, from_size);
    cr_assert_eq(kit_run(cast_row(), (struct tensor *[]){&x}, 1, &y, &attrs, 1), BP_OK);
    memcpy(out, y.view.data, y.size - 128);
    tensor_finish(&x);
    tensor_finish(&y);
}

Test(cpu_cast, every_pair)
{
    kit_load();
    for (int from = 0; from <= BP_F64; from++)
        for (int to = 0; to <= BP_F64; to++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                struct tensor x, y;
                struct bp_cast_attrs attrs = {sizeof attrs, to};
                tensor_init(&x, from, layout, 7, 2, (int64_t[]){20, 70});
                tensor_init(&y, to, layout, 7, 2, (int64_t[]){20, 70});
                tensor_clear(&y);
                for (int64_t n = 0; n < x.view.count; n++) {
                    double v = creal(x.value[n]);
                    if (to == BP_BOOL) v = v != 0;
                    else if (to < BP_F16) v = trunc(v);
                    if (from >= BP_F16 && v < 0 && UINT64_C(1) << to & BP_MASK_UNSIGNED) v = 0;
                    y.value[n] = v;
                }
                cr_assert_eq(kit_run(cast_row(), (struct tensor *[]){&x}, 1, &y, &attrs, 2), BP_OK);
                kit_check(cast_row(), &y, "cast");
                tensor_finish(&x);
                tensor_finish(&y);
            }
}

static uint16_t cast_f64_half(double x, int to)
{
    uint16_t h;
    cast_one(BP_F64, &x, sizeof x, to, &h);
    return h;
}

Test(cpu_cast, half_types_round_once_to_nearest_even)
{
    kit_load();
    cr_expect_eq(cast_f64_half(65504, BP_F16), 0x7bff);
    cr_expect_eq(cast_f64_half(65519.999999999, BP_F16), 0x7bff);
    cr_expect_eq(cast_f64_half(65520, BP_F16), 0x7c00);
    cr_expect_eq(cast_f64_half(-1e300, BP_F16), 0xfc00);
    cr_expect_eq(cast_f64_half(0x1p-24, BP_F16), 1);
    cr_expect_eq(cast_f64_half(0x1p-25, BP_F16), 0);
    cr_expect_eq(cast_f64_half(0x1.0000000000001p-25, BP_F16), 1);
    cr_expect_eq(cast_f64_half(-0x1p-1074, BP_F16), 0x8000);
    cr_expect_eq(cast_f64_half(0x1.ffcp-15, BP_F16),
                 0x0400 - 0); /* 1023.5 units: the tie goes to 1024 */
    cr_expect_eq(cast_f64_half(1 + 0x1p-11, BP_F16), 0x3c00);
    cr_expect_eq(cast_f64_half(1 + 0x1p-11 + 0x1p-50, BP_F16),
                 0x3c01); /* through f32 it would be a tie */
    cr_expect_eq(cast_f64_half(1 + 0x1p-8, BP_BF16), 0x3f80);
    cr_expect_eq(cast_f64_half(1 + 0x1p-8 + 0x1p-50, BP_BF16), 0x3f81);
    cr_expect_eq(cast_f64_half(1 + 3 * 0x1p-8, BP_BF16), 0x3f82);
    cr_expect_eq(cast_f64_half(0x1.fep127 + 0x1p119, BP_BF16), 0x7f80);
    cr_expect_eq(cast_f64_half(NAN, BP_F16) & 0x7e00, 0x7e00);
    cr_expect_eq(cast_f64_half(NAN, BP_BF16) & 0x7fc0, 0x7fc0);
}

Test(cpu_cast, long_integers_round_once)
{
    int64_t tie = (INT64_C(1) << 62) + (INT64_C(1) << 54), above = tie + 1;
    uint16_t h;

    kit_load();
    cast_one(BP_I64, &tie, 8, BP_BF16, &h);
    cr_expect_eq(h, 0x5e80);
    cast_one(BP_I64, &above, 8, BP_BF16, &h);
    cr_expect_eq(h, 0x5e81);
    above = -above;
    cast_one(BP_I64, &above, 8, BP_BF16, &h);
    cr_expect_eq(h, 0xde81);
    cast_one(BP_U64, &(uint64_t){UINT64_MAX}, 8, BP_F16, &h);
    cr_expect_eq(h, 0x7c00);
}

Test(cpu_cast, floats_saturate)
{
    static const double x[] = {1e30, -1e30,  NAN,     INFINITY, -INFINITY,
                               -0.9, 0x1p63, -0x1p63, 0x1p64};
    static const int64_t i64[] = {INT64_MAX, INT64_MIN, 0,         INT64_MAX, INT64_MIN,
                                  0,         INT64_MAX, INT64_MIN, INT64_MAX};
    static const uint64_t u64[] = {UINT64_MAX,        0, 0,         UINT64_MAX, 0, 0,
                                   UINT64_C(1) << 63, 0, UINT64_MAX};
    static const int8_t i8[] = {127, -128, 0, 127, -128, 0, 127, -128, 127};

    kit_load();
    for (int i = 0; i < 9; i++) {
        int64_t a;
        uint64_t b;
        int8_t c;
        cast_one(BP_F64, &x[i], 8, BP_I64, &a);
        cast_one(BP_F64, &x[i], 8, BP_U64, &b);
        cast_one(BP_F64, &x[i], 8, BP_I8, &c);
        cr_expect_eq(a, i64[i], "%g to i64", x[i]);
        cr_expect_eq(b, u64[i], "%g to u64", x[i]);
        cr_expect_eq(c, i8[i], "%g to i8", x[i]);
    }
}

/* Each f16 value is unchanged after a cast to f32 or f64 and back. */
Test(cpu_cast, every_f16_there_and_back)
{
    kit_load();
    struct tensor h, wide, back;
    int64_t n = 65536;
    for (int to = BP_F32; to <= BP_F64; to++) {
        tensor_init(&h, BP_F16, DENSE, 1, 1, &n);
        tensor_init(&wide, to, DENSE, 1, 1, &n);
        tensor_init(&back, BP_F16, DENSE, 1, 1, &n);
        uint16_t *from = h.view.data, *got = back.view.data;
        for (int i = 0; i < 65536; i++) from[i] = (uint16_t)i;
        struct bp_cast_attrs there = {sizeof there, to}, again = {sizeof again, BP_F16};
        cr_assert_eq(kit_run(cast_row(), (struct tensor *[]){&h}, 1, &wide, &there, 1), BP_OK);
        cr_assert_eq(kit_run(cast_row(), (struct tensor *[]){&wide}, 1, &back, &again, 1), BP_OK);
        for (int i = 0; i < 65536; i++) {
            bool nan = (i & 0x7c00) == 0x7c00 && (i & 0x3ff);
            double value = creal(tensor_read(&wide, i)), want = creal(tensor_read(&h, i));
            cr_assert(nan ? isnan(value) : value == want, "f16 %#x gave %g, expected %g", i, value,
                      want);
            cr_assert(nan ? (got[i] & 0x7e00) == 0x7e00 : got[i] == i, "f16 %#x came back as %#x",
                      i, got[i]);
        }
        tensor_finish(&h);
        tensor_finish(&wide);
        tensor_finish(&back);
    }
}
