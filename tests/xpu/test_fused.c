/* SPDX-License-Identifier: Apache-2.0 */
/* test_fused.c: tests `fused` on xpu, where each code is compiled: each result has the number that
 * separate calls give, and calls of other extents use the same kernel. */
#include "../unit/fixture.h"

#include <backplane/attrs.h>
#include <backplane/fused.h>
#include <backplane/fused_text.h>
#include <backplane/ops.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16};

/* Creates a tensor of numbers of both signs; some are zeros, infinities or NaN unless `finite`. */
static struct bp_tensor *numbers_of(struct fixture *f, uint32_t dtype, uint32_t rank,
                                    const int64_t *shape, uint32_t seed, bool finite)
{
    static const double odd[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.5, -0.5, 1e-30};
    struct bp_cast_attrs cast = bp_cast_defaults();
    struct bp_tensor *wide, *y = NULL;
    int64_t count = 1;
    double *data;

    for (uint32_t a = 0; a < rank; a++) count *= shape[a];
    data = malloc((size_t)count * sizeof *data);
    cr_assert(data);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        data[i] = ((double)(seed >> 8) / (1 << 24) - 0.5) * (i % 3 ? 4 : 30);
        if (!finite && i % 29 == 0) data[i] = odd[(seed >> 16) % 10];
    }
    wide = tensor_of(f, BP_F64, rank, shape, data);
    free(data);
    cast.to = dtype;
    OK(bp_op_cast(f->scope, wide, &cast, &y));
    bp_tensor_destroy(wide);
    return y;
}

static struct bp_tensor_info info_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info;
}

/* Reads a tensor as doubles, in memory from malloc. */
static double *numbers_read(struct fixture *f, struct bp_tensor *t, int64_t count)
{
    struct bp_cast_attrs cast = bp_cast_defaults();
    struct bp_tensor *wide = NULL;
    double *number = malloc((size_t)count * sizeof *number);

    cr_assert(number);
    cast.to = BP_F64;
    OK(bp_op_cast(f->scope, t, &cast, &wide));
    OK(bp_tensor_read(f->stream, wide, number, (size_t)count * sizeof *number));
    bp_tensor_destroy(wide);
    return number;
}

/* Asserts that two tensors have the same numbers and zeros; NaN is any NaN. */
static void same_numbers(struct fixture *f, struct bp_tensor *got, struct bp_tensor *wanted,
                         const char *what)
{
    struct bp_tensor_info info = info_of(got);
    int64_t count = 1;
    double *x, *y;

    cr_assert_eq(info.dtype, info_of(wanted).dtype, "%s", what);
    for (uint32_t a = 0; a < info.rank; a++) count *= info.shape[a];
    x = numbers_read(f, got, count);
    y = numbers_read(f, wanted, count);
    for (int64_t i = 0; i < count; i++)
        cr_assert((isnan(x[i]) && isnan(y[i])) ||
                      (x[i] == y[i] && !signbit(x[i]) == !signbit(y[i])),
                  "%s, dtype %u: element %d is %.17g, expected %.17g", what, info.dtype, (int)i,
                  x[i], y[i]);
    free(x);
    free(y);
}

static size_t code_of(const char *text, int64_t *code)
{
    size_t n = 0;

    OK(bp_fused_parse(text, code, &n));
    return n;
}

/* Calls `fused` by the plugin's kernel. */
static void fused_call(struct fixture *f, const int64_t *code, size_t n, struct bp_tensor *const *x,
                       size_t n_x, struct bp_tensor **y)
{
    struct bp_fused_attrs attrs = {.size = sizeof attrs, .code = {code, (int64_t)n}};
    struct bp_arg in = {x, n_x};
    struct bp_call call = {.size = sizeof call,
                           .op = "fused",
                           .attrs = &attrs,
                           .in = &in,
                           .n_in = 1,
                           .kernel = "xpu_fused_compiled"};

    OK(bp_call_run(f->scope, &call, y, bp_fused_n_out(code), NULL));
}

/* Calls the operator of an instruction. */
static struct bp_tensor *separate_call(struct fixture *f, const struct bp_fused_step *step,
                                       struct bp_tensor *const *at)
{
    const struct bp_opinfo *info = bp_opinfo_find(step->op);
    struct bp_tensor *x[BP_FUSED_FROM], *y = NULL;
    struct bp_arg in[BP_FUSED_FROM] = {{&x[0], 1}, {&x[1], 1}, {&x[2], 1}};
    struct bp_call call = {.size = sizeof call, .op = step->op, .in = in};
    uint64_t attrs[64];

    while (call.n_in < BP_FUSED_FROM && step->from[call.n_in] != BP_FUSED_NONE) {
        x[call.n_in] = at[step->from[call.n_in]];
        call.n_in++;
    }
    for (uint32_t k = 0; k < info->n_attr; k++) {
        const struct bp_attr *a = &info->attr[k];
        const int64_t whole = a->kind == BP_ATTR_F64 ? 0 : (int64_t)step->number[k];
        if (!k) memcpy(attrs, info->defaults, info->attrs_size);
        memcpy((char *)attrs + a->offset,
               a->kind == BP_ATTR_F64 ? (const void *)&step->number[k] : &whole, 8);
        call.attrs = attrs;
    }
    OK(bp_call_run(f->scope, &call, &y, 1, NULL));
    return y;
}

/* Compares a call with the operators of its code, each in a call of its own. Code writes each place
 * once. x is destroyed. */
static void like_separate(struct fixture *f, const char *text, struct bp_tensor *const *x,
                          size_t n_x)
{
    struct bp_tensor *at[BP_FUSED_PLACES] = {NULL}, *y[BP_FUSED_OUT] = {NULL};
    int64_t code[BP_FUSED_WORDS];
    size_t n = code_of(text, code);

    for (size_t i = 0; i < n_x; i++) at[i] = x[i];
    fused_call(f, code, n, x, n_x, y);
    for (uint32_t i = 0; i < bp_fused_n_step((int64_t)n); i++) {
        struct bp_fused_step step;
        bp_fused_get(code, i, &step);
        at[step.to] = separate_call(f, &step, at);
    }
    for (uint32_t i = 0; i < bp_fused_n_out(code); i++) {
        same_numbers(f, y[i], at[BP_FUSED_Y + i], text);
        bp_tensor_destroy(y[i]);
    }
    for (int i = 0; i < BP_FUSED_PLACES; i++) bp_tensor_destroy(at[i]);
}

static void like_separate_of(struct fixture *f, uint32_t dtype, const char *text,
                             const char *shapes, bool finite)
{
    struct bp_tensor *x[BP_FUSED_IN];
    size_t n_x = 0;

    for (const char *s = shapes; *s; n_x++, s += *s == '+') {
        int64_t shape[8];
        uint32_t rank = 0;
        for (char *end; *s && *s != '+'; s = end + (*end == 'x'))
            shape[rank++] = strtoll(s, &end, 10);
        x[n_x] = numbers_of(f, dtype, rank, shape, 5 + (uint32_t)n_x, finite);
    }
    like_separate(f, text, x, n_x);
}

/* Eight operators in one program take less time to compile than eight programs. The formulas of f16
 * and bf16 are those of f32, and conformance has those of f64. */
Test(fused, has_the_numbers_of_each_operator, .timeout = 200)
{
    static const struct {
        const char *name;
        int n;
    } ops[] = {
#define X(name, n) {#name, n},
        BP_FUSED_OPS(X)
#undef X
    };
    static const int n_op = sizeof ops / sizeof *ops;
    struct fixture f = fixture_on("xpu:0");

    for (int d = 0; d < 4; d += 2) /* f32 and f16 */
        for (int first = 0; first < n_op; first += BP_FUSED_OUT) {
            char text[1024] = "x2; ";
            for (int i = first; i < first + BP_FUSED_OUT && i < n_op; i++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%sy%d = %s%s",
                         i > first ? "; " : "", i - first, ops[i].name,
                         ops[i].n == 1   ? " x0"
                         : ops[i].n == 2 ? " x0 x1"
                                         : " x0 x1 x2");
            like_separate_of(&f, dtypes[d], text, "5003+5003+5003", false);
        }
    fixture_finish(&f);
}

Test(fused, has_the_numbers_of_several_operators, .timeout = 100)
{
    struct fixture f = fixture_on("xpu:0");

    for (int d = 0; d < 4; d++) {
        like_separate_of(&f, dtypes[d],
                         "r0 = mul x0 x1; r1 = add r0 x2; y0 = relu r1; y1 = tanh y0",
                         "2x6x37x41+6x1x1+6x1x1", true);
        like_separate_of(&f, dtypes[d], "r0 = mul x0 x1; r1 = add r0 x2; y0 = silu r1",
                         "641x24+24+641x1", true);
        like_separate_of(&f, dtypes[d],
                         "r0 = scale x0 factor=0.3 bias=-0.7; r1 = mul r0 x1; r2 = sub r1 x0; "
                         "r3 = clip r2 min=-1.1 max=inf; y0 = nan_to_num r3",
                         "40001+1", false);
        like_separate_of(&f, dtypes[d], "r0 = sub x0 x1; r1 = exp r0; y0 = div r1 x2",
                         "5x1x70+1x60x1+5x60x1", true);
    }
    fixture_finish(&f);
}

/* Registers of truth values; a processor keeps those of several parts in tiles of bytes. The
 * formulas of bf16 are those of f32, and conformance has those of f64. */
Test(fused, has_truth_values, .timeout = 200)
{
    static const char *const text =
        "r0 = floor x0; r1 = floor x1; r2 = equal r0 r1; r3 = not_equal r0 r1; "
        "r4 = less_than r0 r1; r5 = less_equal r0 r1; r6 = logical_and r3 r5; y0 = where r2 x0 x1; "
        "y1 = mask x0 r4; y2 = masked_fill x0 r6 x1; y3 = mask x1 r5 invert=1";
    static const char *const other =
        "r0 = greater_than x0 x1; r1 = greater_equal x0 x0; r2 = isnan x0; r3 = isinf x1; "
        "r4 = isfinite x0; r5 = logical_or r2 r3; r6 = logical_xor r4 r0; r7 = logical_not r6; "
        "y0 = where r5 x0 x1; y1 = where r7 x1 x0; r8 = tanh x0; y2 = where r1 r8 x1";
    struct fixture f = fixture_on("xpu:0");

    for (int d = 0; d < 4; d += 2) { /* f32 and f16 */
        like_separate_of(&f, dtypes[d], text, "7x731+731", false);
        like_separate_of(&f, dtypes[d], other, "641x24+641x1", false);
    }
    fixture_finish(&f);
}

/* Rows of a transposed tensor, every other column of one, and a tensor with the axes of the result
 * in another order. */
Test(fused, takes_any_strides)
{
    struct fixture f = fixture_on("xpu:0");

    for (int d = 0; d < 4; d++) {
        struct bp_tensor *all = numbers_of(&f, dtypes[d], 1, SHAPE(6000), 3, true), *x[4];
        OK(bp_tensor_view(all, 0, 2, SHAPE(30, 40), SHAPE(1, 30), &x[0]));
        OK(bp_tensor_view(all, 7, 2, SHAPE(30, 40), SHAPE(80, 2), &x[1]));
        OK(bp_tensor_view(all, 5, 2, SHAPE(30, 40), SHAPE(50, 1), &x[2]));
        OK(bp_tensor_view(all, 99, 2, SHAPE(1, 40), SHAPE(1, 3), &x[3]));
        bp_tensor_destroy(all);
        like_separate(&f, "r0 = mul x0 x1; r1 = add r0 x2; y0 = mul r1 x3", x, 4);
    }
    fixture_finish(&f);
}

/* Results over inputs that other instructions read. */
Test(fused, may_write_over_its_inputs)
{
    static const char *const text = "y0 = mul x0 x1; y1 = tanh y0; r0 = sub y0 x0; y2 = mul r0 x1";
    struct fixture f = fixture_on("xpu:0");

    for (int d = 0; d < 4; d++) {
        struct bp_tensor *x[2], *wanted[3] = {NULL}, *over[3];
        int64_t code[BP_FUSED_WORDS];
        size_t n = code_of(text, code);
        for (int k = 0; k < 2; k++) {
            struct bp_tensor *all =
                numbers_of(&f, dtypes[d], 2, SHAPE(37, 221), 7 + (uint32_t)k, true);
            OK(bp_tensor_view(all, 0, 2, SHAPE(37, 131), SHAPE(221, 1), &x[k]));
            bp_tensor_destroy(all);
        }
        fused_call(&f, code, n, x, 2, wanted);
        over[0] = x[1];
        over[1] = x[0];
        OK(bp_tensor_create(f.device, dtypes[d], 2, SHAPE(37, 131), &over[2]));
        fused_call(&f, code, n, x, 2, over);
        for (int i = 0; i < 3; i++) {
            same_numbers(&f, over[i], wanted[i], text);
            bp_tensor_destroy(over[i]);
            bp_tensor_destroy(wanted[i]);
        }
    }
    fixture_finish(&f);
}

/* ---- kernels ---- */

static int programs_in(const char *folder)
{
    DIR *all = opendir(folder);
    int n = 0;

    cr_assert(all, "%s", folder);
    for (struct dirent *e; (e = readdir(all));) n += strstr(e->d_name, ".bin") != NULL;
    closedir(all);
    return n;
}

static void folder_remove(const char *folder)
{
    DIR *all = opendir(folder);
    char path[512];

    for (struct dirent *e; all && (e = readdir(all));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (all) closedir(all);
    rmdir(folder);
}

/* Runs code over two tensors that need no operator besides. */
static void run_plain(struct fixture *f, const char *text, const int64_t *a, const int64_t *b)
{
    struct bp_tensor *x[2], *y[1] = {NULL};
    int64_t code[BP_FUSED_WORDS];
    size_t n = code_of(text, code);

    OK(bp_tensor_create(f->device, BP_F32, 2, a, &x[0]));
    OK(bp_tensor_create(f->device, BP_F32, 2, b, &x[1]));
    fused_call(f, code, n, x, 2, y);
    OK(bp_stream_synchronize(f->stream));
    for (int i = 0; i < 2; i++) bp_tensor_destroy(x[i]);
    bp_tensor_destroy(y[0]);
}

Test(fused, compiles_once_for_all_extents)
{
    char folder[] = "/tmp/bp_fused_XXXXXX";
    static const char *const text = "r0 = add x0 x1; y0 = relu r0";
    struct fixture f;

    cr_assert(mkdtemp(folder));
    setenv("BP_XPU_CACHE", folder, 1); /* each test is a separate process */
    f = fixture_on("xpu:0");
    run_plain(&f, text, SHAPE(5, 7), SHAPE(5, 7));
    run_plain(&f, text, SHAPE(500, 1), SHAPE(500, 1));
    cr_expect_eq(programs_in(folder), 1, "other extents: %d", programs_in(folder));
    run_plain(&f, text, SHAPE(5, 7), SHAPE(1, 7));
    run_plain(&f, text, SHAPE(50, 3), SHAPE(1, 3));
    cr_expect_eq(programs_in(folder), 2, "rows: %d", programs_in(folder));
    run_plain(&f, text, SHAPE(5, 7), SHAPE(1, 1));
    cr_expect_eq(programs_in(folder), 3, "a scalar: %d", programs_in(folder));
    run_plain(&f, "r0 = add x0 x1; y0 = neg r0", SHAPE(5, 7), SHAPE(5, 7));
    cr_expect_eq(programs_in(folder), 4, "other code: %d", programs_in(folder));
    fixture_finish(&f);
    folder_remove(folder);
}
