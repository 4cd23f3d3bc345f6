/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_kernels.c: tests each kernel row of the cpu plugin that this machine can run, against
 * plain loops in double, in all layouts, on one thread and on two. The conformance suite covers
 * more shapes; this test needs no core. */
#include "cpu_kit.h"
#include <dialect/philox.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* With two threads a sanitizer finds all that it finds with one. */
#ifdef __SANITIZE_ADDRESS__
enum { NARROWEST = 2 };
#else
enum { NARROWEST = 1 };
#endif

/* Runs each row of op with each of its dtypes, in each layout, at width 1 and 2. run: creates the
 * tensors and runs the row; returns whether the row accepted them. */
static void each_row(const char *op, int (*run)(const struct bp_kernel *row, int dtype,
                                                enum layout layout, uint32_t width))
{
    int rows = 0;

    kit_load();
    for (size_t i = 0; i < kit_plugin->kernels->count; i++) {
        const struct bp_kernel *row = &kit_plugin->kernels->first[i];
        int ran = 0;

        if (strcmp(row->op, op) || kit_plugin->kernels->usable(kit_self, row)) continue;
        for (int dtype = 0; dtype < 17; dtype++)
            for (int layout = 0; layout < LAYOUTS && row->types[0] >> dtype & 1; layout++)
                for (uint32_t width = NARROWEST; width <= 2; width++)
                    ran += run(row, dtype, layout, width);
        cr_expect(ran, "%s took none of the cases", row->name);
        rows++;
    }
    cr_assert(rows, "no row of %s", op);
    kit_unload();
}

/* Runs a row and checks its result; returns whether the row accepted the tensors. */
static int run_check(const struct bp_kernel *row, struct tensor *const *in, uint32_t n_in,
                     struct tensor *out, const void *attrs, uint32_t width, const char *what)
{
    enum bp_status status = kit_run(row, in, n_in, out, attrs, width);

    if (status == BP_ERR_UNSUPPORTED && row->priority) return 0;
    cr_assert_eq(status, BP_OK, "%s, %s: status %d", row->name, what, status);
    kit_check(row, out, what);
    return 1;
}

static double complex binary_of(const char *op, double complex x, double complex y)
{
    return !strcmp(op, "add") ? x + y : !strcmp(op, "sub") ? x - y : x * y;
}

static int run_binary(const struct bp_kernel *row, int dtype, enum layout layout, uint32_t width)
{
    static const int64_t shapes[][3][3] = {
        /* shapes of z, x, y */
        {{3, 5, 7}, {3, 5, 7}, {3, 5, 7}},        {{3, 5, 7}, {3, 1, 7}, {1, 5, 1}},
        {{16, 61, 70}, {16, 61, 70}, {1, 1, 70}}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
        {{3, 0, 7}, {3, 0, 7}, {3, 1, 7}},        {{2, 3, 65}, {1, 1, 1}, {2, 3, 65}}};

    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct tensor x, y, z;
        tensor_init(&z, dtype, layout, 0, 3, shapes[s][0]);
        tensor_init(&x, dtype, layout, 1, 3, shapes[s][1]);
        tensor_init(&y, dtype, DENSE, 2, 3, shapes[s][2]);
        tensor_clear(&z);
        for (int64_t n = 0; n < z.view.count; n++) {
            int64_t at[3], ax[3], ay[3];
            tensor_index(&z, n, at);
            for (int a = 0; a < 3; a++) {
                ax[a] = at[a] % x.shape[a];
                ay[a] = at[a] % y.shape[a];
            }
            z.value[n] = binary_of(row->op, x.value[tensor_number(&x, ax)],
                                   y.value[tensor_number(&y, ay)]);
        }
        run_check(row, (struct tensor *[]){&x, &y}, 2, &z, NULL, width, row->op);
        if (!memcmp(shapes[s][0], shapes[s][1], sizeof shapes[s][0])) { /* in place: z is x */
            struct tensor *out = &x;
            memcpy(x.value, z.value, (size_t)z.view.count * sizeof *z.value);
            run_check(row, (struct tensor *[]){&x, &y}, 2, out, NULL, width, "in place");
        }
        tensor_finish(&x);
        tensor_finish(&y);
        tensor_finish(&z);
    }
    return 1;
}

Test(cpu_kernels, add_sub_mul)
{
    each_row("add", run_binary);
#ifndef __SANITIZE_ADDRESS__ /* one source for all three; conformance runs the others */
    each_row("sub", run_binary);
    each_row("mul", run_binary);
#endif
}

/* Test vectors for philox4x32_10, published by Random123. */
Test(cpu_kernels, philox)
{
    static const struct {
        uint32_t counter[4], key[2], expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t word[4];
        memcpy(word, known[i].counter, sizeof word);
        philox(word, known[i].key[0] | (uint64_t)known[i].key[1] << 32);
        cr_assert(!memcmp(word, known[i].expected, sizeof word), "vector %zu", i);
    }
}

static int64_t shape_without(const int64_t *shape, int rank, unsigned summed, int keep,
                             int64_t *out)
{
    int to = 0;

    for (int a = 0; a < rank; a++)
        if (!(summed >> a & 1)) out[to++] = shape[a];
        else if (keep) out[to++] = 1;
    return to;
}

/* The number in y of the element to which element n of x is added. */
static int64_t summed_into(const struct tensor *x, const struct tensor *y, int64_t n,
                           unsigned summed, int keep)
{
    int64_t at[6], to[6];
    int r = 0;

    tensor_index(x, n, at);
    for (int a = 0; a < x->view.rank; a++)
        if (!(summed >> a & 1)) to[r++] = at[a];
        else if (keep) to[r++] = 0;
    return tensor_number(y, to);
}

static const struct sum_case {
    int64_t shape[4];
    unsigned summed; /* a bit for each axis that is summed */
    int keep;
} sum_cases[] = {
    {{2, 3, 4, 5}, 15, 0},   {{2, 3, 4, 5}, 5, 1},     {{2, 3, 70, 5}, 10, 0},
    {{7, 1, 1, 3000}, 8, 0}, {{1000, 2, 1, 35}, 1, 1}, {{1, 3, 150, 150}, 14, 0},
    {{2, 0, 3, 1}, 2, 0},    {{0, 2, 2, 2}, 2, 0},     {{1, 1, 1, 1}, 15, 1},
};

static int run_sum(const struct bp_kernel *row, int dtype, enum layout layout, uint32_t width)
{
    for (size_t s = 0; s < sizeof sum_cases / sizeof *sum_cases; s++) {
        const struct sum_case *c = &sum_cases[s];
        int64_t axes[4], shape[4], n_axes = 0;
        struct tensor x, y;

        for (int a = 0; a < 4; a++)
            if (c->summed >> a & 1) axes[n_axes++] = a % 2 ? a : a - 4;
        tensor_init(&x, dtype, layout, 5, 4, c->shape);
        tensor_init(&y, dtype, layout, 6,
                    (int)shape_without(c->shape, 4, c->summed, c->keep, shape), shape);
        tensor_clear(&y);
        for (int64_t n = 0; n < x.view.count; n++) {
            int64_t to = summed_into(&x, &y, n, c->summed, c->keep);
            y.value[to] += x.value[n];
            y.weight[to] += cabs(x.value[n]);
        }
        struct bp_sum_attrs attrs = {.size = sizeof attrs, .axes = {axes, n_axes}, .keep = c->keep};
        if (c->summed == 15) attrs.axes = (struct bp_dims){NULL, 0};
        run_check(row, (struct tensor *[]){&x}, 1, &y, &attrs, width, "sum");
        tensor_finish(&x);
        tensor_finish(&y);
    }
    return 1;
}

Test(cpu_kernels, sum)
{
    each_row("sum", run_sum);
}

static int run_sum_grad(const struct bp_kernel *row, int dtype, enum layout layout, uint32_t width)
{
    for (size_t s = 0; s < sizeof sum_cases / sizeof *sum_cases; s++) {
        const struct sum_case *c = &sum_cases[s];
        int64_t axes[4], shape[4], n_axes = 0;
        struct tensor x, dy, dx;

        for (int a = 0; a < 4; a++)
            if (c->summed >> a & 1) axes[n_axes++] = a;
        tensor_init(&x, dtype, DENSE, 5, 4, c->shape);
        tensor_init(&dx, dtype, layout, 5, 4, c->shape);
        tensor_init(&dy, dtype, layout, 6,
                    (int)shape_without(c->shape, 4, c->summed, c->keep, shape), shape);
        tensor_clear(&dx);
        for (int64_t n = 0; n < x.view.count; n++)
            dx.value[n] = dy.value[summed_into(&x, &dy, n, c->summed, c->keep)];
        struct bp_sum_grad_attrs attrs = {
            .size = sizeof attrs, .axes = {axes, n_axes}, .keep = c->keep};
        run_check(row, (struct tensor *[]){&dy, &x}, 2, &dx, &attrs, width, "sum_grad");
        tensor_finish(&x);
        tensor_finish(&dy);
        tensor_finish(&dx);
    }
    return 1;
}

Test(cpu_kernels, sum_grad)
{
    each_row("sum_grad", run_sum_grad);
}

/* Batched products of m x k and k x n. once: a (A_ONCE) or b (B_ONCE) is one matrix for the whole
 * batch. */
enum { A_ONCE = 1, B_ONCE = 2 };
static const struct matmul_case {
    int64_t batch, m, k, n;
    int once, transpose_a, transpose_b;
} matmul_cases[] = {
    {2, 3, 4, 5, 0, 0, 0},    {3, 1, 7, 1, 1, 0, 1},     {1, 73, 129, 65, 0, 1, 0},
    {2, 80, 70, 90, 1, 0, 1}, {1, 200, 40, 30, 0, 1, 1}, {2, 5, 0, 3, 0, 0, 0},
    {0, 2, 3, 4, 0, 0, 0},    {9, 33, 40, 31, 0, 0, 0},  {8, 1, 70, 90, 2, 0, 0},
    {5, 7, 60, 41, 2, 0, 1},  {6, 9, 50, 1, 2, 0, 0},    {7, 1, 80, 30, 1, 0, 1},
    {3, 5, 90, 64, 2, 1, 0},  {1, 1, 331, 203, 0, 0, 0}, {1, 203, 331, 1, 0, 1, 0},
};

static void matmul_reference(const struct matmul_case *c, const struct tensor *a,
                             const struct tensor *b, struct tensor *out)
{
    int64_t step_a = c->transpose_a ? a->shape[2] : 1, step_b = c->transpose_b ? 1 : b->shape[2];

    for (int64_t n = 0; n < out->view.count; n++) {
        int64_t at[3];
        tensor_index(out, n, at);
        int64_t row[3] = {c->once == A_ONCE ? 0 : at[0], c->transpose_a ? 0 : at[1],
                          c->transpose_a ? at[1] : 0};
        int64_t column[3] = {c->once == B_ONCE ? 0 : at[0], c->transpose_b ? at[2] : 0,
                             c->transpose_b ? 0 : at[2]};
        const double complex *x = a->value + tensor_number(a, row);
        const double complex *y = b->value + tensor_number(b, column);
        for (int64_t k = 0; k < c->k; k++, x += step_a, y += step_b) {
            double complex term = *x * *y;
            out->value[n] += term;
            out->weight[n] += cabs(term);
        }
    }
}

static int run_matmul(const struct bp_kernel *row, int dtype, enum layout layout, uint32_t width)
{
    int ran = 0;

    for (size_t s = 0; s < sizeof matmul_cases / sizeof *matmul_cases; s++) {
        const struct matmul_case *c = &matmul_cases[s];
        struct tensor a, b, out;
        int64_t of_a = c->once == A_ONCE ? 1 : c->batch, of_b = c->once == B_ONCE ? 1 : c->batch;

        tensor_init(&a, dtype, layout, 1, 3,
                    (int64_t[]){of_a, c->transpose_a ? c->k : c->m, c->transpose_a ? c->m : c->k});
        tensor_init(
            &b, dtype, DENSE, 2, 3,
            (int64_t[]){of_b, c->transpose_b ? c->n : c->k, c->transpose_b ? c->k : c->n});
        tensor_init(&out, dtype, layout, 3, 3, (int64_t[]){c->batch, c->m, c->n});
        tensor_clear(&out);
        matmul_reference(c, &a, &b, &out);
        struct bp_matmul_attrs attrs = {sizeof attrs, c->transpose_a, c->transpose_b};
        ran += run_check(row, (struct tensor *[]){&a, &b}, 2, &out, &attrs, width, "matmul");
        tensor_finish(&a);
        tensor_finish(&b);
        tensor_finish(&out);
    }
    return ran;
}

Test(cpu_kernels, matmul)
{
    each_row("matmul", run_matmul);
}

/* Runs softmax of x, or its gradient from y and dy, for each row along axis 1 of three. */
static int run_softmax(const struct bp_kernel *row, int dtype, enum layout layout, uint32_t width)
{
    static const int64_t shapes[][3] = {{2, 5, 3},   {3, 1000, 1}, {1, 1, 1},
                                        {4, 37, 70}, {2, 0, 3},    {1, 4, 5000}};
    bool grad = !strcmp(row->op, "softmax_grad");
    int ran = 0;

    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct tensor x, dy, out;
        tensor_init(&x, dtype, layout, 1, 3, shapes[s]);
        tensor_init(&dy, dtype, layout, 2, 3, shapes[s]);
        tensor_init(&out, dtype, layout, 3, 3, shapes[s]);
        tensor_clear(&out);
        for (int64_t r = 0; r < shapes[s][0] * shapes[s][2] && out.view.count; r++) {
            int64_t base = r / shapes[s][2] * shapes[s][1] * shapes[s][2] + r % shapes[s][2],
                    step = shapes[s][2];
            long double sum = 0; /* double would have larger rounding errors than the kernels */
            double weight = 0;
            for (int64_t i = 0; i < shapes[s][1]; i++) {
                double v = creal(x.value[base + i * step]), g = creal(dy.value[base + i * step]);
                sum += grad ? (long double)v * g : expl(v);
                weight += fabs(v * g);
            }
            for (int64_t i = 0, n = base; i < shapes[s][1]; i++, n += step) {
                double v = creal(x.value[n]), g = creal(dy.value[n]);
                out.value[n] = (double)(grad ? v * (g - sum) : expl(v) / sum);
                out.weight[n] = grad ? fabs(v) * (fabs(g) + weight) : creal(out.value[n]);
            }
        }
        struct bp_softmax_attrs attrs = {sizeof attrs, s % 2 ? 1 : -2};
        ran += run_check(row, grad ? (struct tensor *[]){&x, &dy} : (struct tensor *[]){&x},
                         grad ? 2 : 1, &out, &attrs, width, row->op);
        tensor_finish(&x);
        tensor_finish(&dy);
        tensor_finish(&out);
    }
    return ran;
}

Test(cpu_kernels, softmax)
{
    each_row("softmax", run_softmax);
}

Test(cpu_kernels, softmax_grad)
{
    each_row("softmax_grad", run_softmax);
}
