/* SPDX-License-Identifier: Apache-2.0 */
/* test_fused.c: tests the operator `fused`: invalid code is refused, text and code agree, and each
 * result has the bits that separate calls give. */
#include "fixture.h"

#include <backplane/attrs.h>
#include <backplane/ops.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- code and text ---- */

static size_t code_of(const char *text, int64_t *code)
{
    size_t n = 0;

    OK(bp_fused_parse(text, code, &n));
    return n;
}

static void keeps_text(const char *text)
{
    int64_t code[BP_FUSED_WORDS], again[BP_FUSED_WORDS];
    char *printed = malloc(BP_FUSED_TEXT);
    size_t n = code_of(text, code);

    cr_assert(printed);
    OK(bp_fused_print(code, n, printed, BP_FUSED_TEXT));
    cr_assert_str_eq(printed, text);
    cr_assert_eq(code_of(printed, again), n);
    cr_assert(!memcmp(code, again, n * sizeof *code), "%s", text);
    FAILS(BP_ERR_INVALID, "room", bp_fused_print(code, n, printed, strlen(text)));
    free(printed);
}

Test(fused_text, is_kept)
{
    keeps_text("y0 = relu x0");
    keeps_text("r0 = mul x0 x1; y0 = relu r0");
    keeps_text("r11 = clip x15 min=-0.1 max=6; y7 = lerp r11 x0 x1; y0 = neg y7; y1 = abs y0; "
               "y2 = abs y0; y3 = abs y0; y4 = abs y0; y5 = abs y0; y6 = abs y0");
    keeps_text("y0 = gelu x0 approximate=1");
    keeps_text("y0 = scale x0 factor=0.1 bias=1e-300; x3; r2");
    keeps_text("y0 = clip x0 min=0"); /* max has its default, infinity */
    keeps_text("y0 = hard_tanh x0 max=inf");
    keeps_text("r0 = less_than x0 x1; y0 = where r0 x0 x1");
    keeps_text("r1 = equal x0 x1; r2 = isnan x0; r1 = logical_and r1 r2; r2 = logical_not r1; "
               "r0 = neg x0; y0 = masked_fill r0 r2 x1; y1 = mask x0 r1 invert=1; x2; r3");
}

Test(fused_text, of_invalid_code_is_refused)
{
    static const char *const text[][2] = {
        {"", "words"},
        {"x0", "words"},
        {"y0 relu x0", "'='"},
        {"z0 = relu x0", "place"},
        {"y8 = relu x0", "too large"},
        {"y0 = relu x16", "too large"},
        {"y0 = relu r12", "too large"},
        {"y0 = rel x0", "no operator"},
        {"y0 = softmax x0", "fused.h"},
        {"y0 = pow x0 x1", "fused.h"},
        {"y0 = relu x0 x1", "more operands"},
        {"y0 = add x0", "no value"},
        {"y0 = add x0 x1 x2 x3", "too many operands"},
        {"y0 = relu r0; r0 = neg x0", "no value"},
        {"y0 = relu y1; y1 = neg x0", "no value"},
        {"y1 = relu x0", "no output 0"},
        {"y0 = relu x0; y0 = neg x0", "writes again output 0"},
        {"x0 = relu x1; y0 = neg x0", "no register or output"},
        {"r0 = relu x0", "0 outputs"},
        {"y0 = clip x0 least=1", "no such attribute"},
        {"y0 = clip x0 min=much", "expected a number"},
        {"y0 = gelu x0 approximate=2", "expected 0 or 1"},
        {"y0 = gelu x0 approximate=0.5", "no integer"},
        {"y0 = gelu x0 approximate=nan", "no integer"},
        {"y0 = gelu x0 approximate=1e300", "no integer"},
        {"y0 = less_than x0 x1", "writes truth values"},
        {"r0 = less_than x0 x1; y0 = neg r0", "expects numbers"},
        {"r0 = isnan x0; r1 = less_than r0 x1; y0 = where r1 x0 x1", "expects numbers"},
        {"r0 = isnan x0; y0 = where r0 r0 x1", "expects numbers"},
        {"r0 = neg x0; y0 = where r0 x0 x1", "expects truth values"},
        {"y0 = where x0 x0 x1", "expects truth values"},
        {"r0 = logical_and x0 x1; y0 = where r0 x0 x1", "expects truth values"},
        {"r0 = less_than x0 x1; r0 = neg x0; y0 = neg r0", "writes numbers"},
        {"r0 = isnan x0; y0 = mask x0 r0 invert=2", "expected 0 or 1"},
    };
    int64_t code[BP_FUSED_WORDS] = {77};
    size_t n = 5;

    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        FAILS(BP_ERR_INVALID, text[i][1], bp_fused_parse(text[i][0], code, &n));
        cr_assert(n == 5 && code[0] == 77, "%s changed its results", text[i][0]);
    }
    FAILS(BP_ERR_INVALID, "NULL", bp_fused_parse(NULL, code, &n));
    FAILS(BP_ERR_INVALID, "NULL", bp_fused_print(NULL, 8, (char[8]){0}, 8));
}

/* Word 0 has bits for registers of truth values if and only if the version is 2, and each of these
 * registers is written. */
Test(fused_text, of_invalid_heads_is_refused)
{
    static const struct {
        const char *text, *what;
        int64_t add; /* to word 0 */
    } heads[] = {
        {"r0 = neg x0; y0 = neg r0", "expected version", BP_FUSED_VERSION},
        {"r0 = neg x0; y0 = neg r0", "expected version", INT64_C(1) << 32},
        {"r0 = neg x0; y0 = neg r0", "writes numbers", BP_FUSED_VERSION + (INT64_C(1) << 32)},
        {"y0 = neg x0; r0", "no instruction", BP_FUSED_VERSION + (INT64_C(1) << 32)},
        {"y0 = neg x0; r0", "hold truth", BP_FUSED_VERSION + (INT64_C(1) << 33)},
        {"y0 = neg x0", "hold truth", BP_FUSED_VERSION + (INT64_C(1) << 32)},
        {"r0 = isnan x0; y0 = mask x0 r0", "hold truth", INT64_C(1) << 44},
        {"r0 = isnan x0; y0 = mask x0 r0", "hold truth", INT64_MIN},
        {"r0 = isnan x0; y0 = mask x0 r0", "expected version", -BP_FUSED_VERSION},
        {"r0 = isnan x0; y0 = mask x0 r0", "expected version", BP_FUSED_VERSION},
        {"r0 = isnan x0; y0 = mask x0 r0", "expected version", -(INT64_C(1) << 32)},
    };
    int64_t code[BP_FUSED_WORDS];
    char printed[256];

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        size_t n = code_of(heads[i].text, code);
        OK(bp_fused_print(code, n, printed, sizeof printed));
        code[0] = (int64_t)((uint64_t)code[0] + (uint64_t)heads[i].add);
        FAILS(BP_ERR_INVALID, heads[i].what, bp_fused_print(code, n, printed, sizeof printed));
    }
}

Test(fused_text, has_64_instructions_at_most)
{
    char text[4096] = "";
    int64_t code[BP_FUSED_WORDS];
    size_t n = 0;

    for (int i = 0; i < 63; i++) strcat(text, i ? "r0 = neg r0; " : "r0 = neg x0; ");
    strcat(text, "y0 = neg r0; ");
    OK(bp_fused_parse(text, code, &n));
    cr_assert_eq(n, BP_FUSED_WORDS);
    strcat(text, "y1 = neg r0");
    FAILS(BP_ERR_INVALID, "too many instructions", bp_fused_parse(text, code, &n));
}

/* ---- calls ---- */

static enum bp_status call_fused(struct fixture *f, const int64_t *code, size_t n,
                                 struct bp_tensor *const *x, size_t n_x, struct bp_tensor **y,
                                 size_t n_y)
{
    struct bp_fused_attrs attrs = {.size = sizeof attrs, .code = {code, (int64_t)n}};
    struct bp_arg in = {x, n_x};
    struct bp_call call = {.size = sizeof call, .op = "fused", .in = &in, .n_in = 1,
                           .attrs = &attrs};

    return bp_call_run(f->scope, &call, y, n_y, NULL);
}

/* Code whose words an attacker chose: each change of one word is refused or is valid code, and no
 * call reads outside its memory. text: code of two inputs and two outputs. */
static void refuses_changed(const char *text)
{
    static const int64_t changes[] = {INT64_MIN, -1, 0, 1, 255, 256, INT64_C(1) << 32, INT64_MAX};
    struct fixture f = fixture_init();
    float data[6] = {1, -2, 3, -4, 5, -6};
    struct bp_tensor *x[2] = {tensor_of(&f, BP_F32, 1, (int64_t[]){6}, data),
                              tensor_of(&f, BP_F32, 1, (int64_t[]){6}, data)};
    int64_t code[BP_FUSED_WORDS], changed[BP_FUSED_WORDS];
    size_t n = code_of(text, code);
    int refused = 0, ran = 0;

    for (size_t w = 0; w < n; w++)
        for (size_t k = 0; k < sizeof changes / sizeof *changes + 64; k++) {
            struct bp_tensor *y[2] = {NULL, NULL};
            size_t listed = sizeof changes / sizeof *changes;
            memcpy(changed, code, sizeof code);
            changed[w] = k < listed ? changes[k]
                                    : (int64_t)((uint64_t)code[w] ^ UINT64_C(1) << (k - listed));
            if (call_fused(&f, changed, n, x, 2, y, 2)) {
                refused++;
                continue;
            }
            ran++;
            bp_tensor_destroy(y[0]);
            bp_tensor_destroy(y[1]);
        }
    cr_assert_gt(refused, 1000, "%d", refused);
    cr_assert_gt(ran, 100, "%d", ran); /* other attributes, or places that have values */
    for (size_t less = 0; less < n; less++) {
        struct bp_tensor *y[2] = {NULL, NULL};
        FAILS(BP_ERR_INVALID, "fused", call_fused(&f, code, less, x, 2, y, 2));
    }
    for (int i = 0; i < 2; i++) bp_tensor_destroy(x[i]);
    fixture_finish(&f);
}

Test(fused_call, refuses_changed_words)
{
    refuses_changed("r0 = mul x0 x1; r1 = clip r0 min=0; y0 = relu r1; y1 = neg r0");
    refuses_changed("r0 = less_than x0 x1; r1 = clip x0 min=0; y0 = where r0 r1 x1; "
                    "y1 = mask x1 r0");
}

Test(fused_call, refuses_other_tensors)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x[2], *y[2] = {NULL, NULL};
    int64_t code[BP_FUSED_WORDS];
    size_t n = code_of("y0 = add x0 x1", code);

    OK(bp_tensor_create(f.device, BP_F32, 1, (int64_t[]){6}, &x[0]));
    OK(bp_tensor_create(f.device, BP_F32, 1, (int64_t[]){5}, &x[1]));
    FAILS(BP_ERR_INVALID, "broadcast", call_fused(&f, code, n, x, 2, y, 1));
    FAILS(BP_ERR_INVALID, "xs has 1", call_fused(&f, code, n, x, 1, y, 1));
    bp_tensor_destroy(x[1]);
    OK(bp_tensor_create(f.device, BP_F64, 1, (int64_t[]){6}, &x[1]));
    FAILS(BP_ERR_INVALID, "f64", call_fused(&f, code, n, x, 2, y, 1));
    bp_tensor_destroy(x[1]);
    FAILS(BP_ERR_INVALID, "outputs asked for",
          call_fused(&f, code, n, (struct bp_tensor *[]){x[0], x[0]}, 2, y, 2));
    bp_tensor_destroy(x[0]);
    OK(bp_tensor_create(f.device, BP_I32, 1, (int64_t[]){6}, &x[0]));
    FAILS(BP_ERR_INVALID, "i32", call_fused(&f, code, n, (struct bp_tensor *[]){x[0], x[0]}, 2, y,
                                            1));
    bp_tensor_destroy(x[0]);
    fixture_finish(&f);
}

/* ---- bits ---- */

enum { MANY = 5003 };

/* Creates a tensor of numbers of both signs, zeros, infinities and NaN in a float dtype. */
static struct bp_tensor *float_tensor(struct fixture *f, uint32_t dtype, uint32_t rank,
                                      const int64_t *shape, uint32_t seed, bool finite)
{
    struct bp_tensor *wide, *y = NULL;
    struct bp_cast_attrs cast = bp_cast_defaults();
    int64_t count = 1;
    double *data;

    for (uint32_t a = 0; a < rank; a++) count *= shape[a];
    data = malloc((size_t)count * sizeof *data);
    cr_assert(data);
    for (int64_t i = 0; i < count; i++) {
        static const double odd[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0.5, -0.5, 1e-30};
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

/* Asserts that two tensors have the same bits. */
static void same_bits(struct fixture *f, struct bp_tensor *a, struct bp_tensor *b, const char *what)
{
    struct bp_tensor_info info = {.size = sizeof info};
    char *got, *wanted;

    OK(bp_tensor_get_info(a, &info));
    got = malloc(info.bytes + 1);
    wanted = malloc(info.bytes + 1);
    cr_assert(got && wanted);
    OK(bp_tensor_read(f->stream, a, got, info.bytes));
    OK(bp_tensor_read(f->stream, b, wanted, info.bytes));
    for (uint64_t i = 0; i < info.bytes; i++)
        cr_assert_eq(got[i], wanted[i], "%s: byte %d of %d", what, (int)i, (int)info.bytes);
    free(got);
    free(wanted);
}

/* Calls an operator with n inputs and one output. number: of each attribute; NULL: the defaults. */
static struct bp_tensor *plain_call(struct fixture *f, const char *op, struct bp_tensor *const *x,
                                    size_t n, const double *number)
{
    const struct bp_opinfo *info = bp_opinfo_find(op);
    struct bp_arg in[3] = {{&x[0], 1}, {&x[1], 1}, {&x[2], 1}};
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = n};
    struct bp_tensor *y = NULL;
    uint64_t attrs[32];

    for (uint32_t k = 0; number && k < info->n_attr; k++) {
        const struct bp_attr *a = &info->attr[k];
        const int64_t whole = (int64_t)number[k];
        if (!k) memcpy(attrs, info->defaults, info->attrs_size);
        memcpy((char *)attrs + a->offset,
               a->kind == BP_ATTR_F64 ? (const void *)&number[k] : &whole, 8);
        call.attrs = attrs;
    }
    OK(bp_call_run(f->scope, &call, &y, 1, NULL));
    return y;
}

static void bits_alone(const char *isa)
{
    static const struct {
        const char *name;
        size_t n;
    } ops[] = {
#define X(name, n) {#name, n},
        BP_FUSED_OPS(X)
#undef X
    };
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16};
    struct fixture f;

    setenv("BP_CPU_ISA", isa, 1); /* each test is a separate process */
    f = fixture_init();
    for (size_t d = 0; d < 4; d++) {
        struct bp_tensor *x[3];
        for (uint32_t k = 0; k < 3; k++)
            x[k] = float_tensor(&f, dtypes[d], 1, (int64_t[]){MANY}, 77 + k, false);
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            struct bp_tensor *got = NULL, *wanted = plain_call(&f, ops[i].name, x, ops[i].n, NULL);
            int64_t code[BP_FUSED_WORDS];
            char text[64];
            snprintf(text, sizeof text, "y0 = %s%s", ops[i].name,
                     ops[i].n == 1   ? " x0"
                     : ops[i].n == 2 ? " x0 x1"
                                     : " x0 x1 x2");
            OK(call_fused(&f, code, code_of(text, code), x, ops[i].n, &got, 1));
            same_bits(&f, got, wanted, text);
            bp_tensor_destroy(got);
            bp_tensor_destroy(wanted);
        }
        for (int k = 0; k < 3; k++) bp_tensor_destroy(x[k]);
    }
    fixture_finish(&f);
}

Test(fused_bits, of_each_operator_alone)
{
    bits_alone("avx512");
}

Test(fused_bits, of_each_operator_alone_on_avx2)
{
    bits_alone("avx2");
}

Test(fused_bits, of_each_operator_alone_portably)
{
    bits_alone("portable");
}

/* Compares a call with the operators of its code, each in a call of its own. */
static void like_separate_of(struct fixture *f, uint32_t dtype, const char *text,
                             const char *shapes, bool finite)
{
    struct bp_tensor *x[BP_FUSED_IN], *at[BP_FUSED_PLACES] = {NULL}, *y[BP_FUSED_OUT] = {NULL};
    int64_t code[BP_FUSED_WORDS];
    size_t n = code_of(text, code), n_x = 0;

    for (const char *s = shapes; *s; n_x++, s += *s == '+') {
        int64_t shape[8];
        uint32_t rank = 0;
        for (char *end; *s && *s != '+'; s = end + (*end == 'x'))
            shape[rank++] = strtoll(s, &end, 10);
        x[n_x] = at[n_x] = float_tensor(f, dtype, rank, shape, 5 + (uint32_t)n_x, finite);
    }
    OK(call_fused(f, code, n, x, n_x, y, bp_fused_n_out(code)));
    for (uint32_t i = 0; i < bp_fused_n_step((int64_t)n); i++) {
        struct bp_tensor *in[3];
        struct bp_fused_step step;
        size_t n_in = 0;
        bp_fused_get(code, i, &step);
        for (; n_in < 3 && step.from[n_in] != BP_FUSED_NONE; n_in++) in[n_in] = at[step.from[n_in]];
        in[2] = n_in < 3 ? NULL : in[2];
        at[step.to] = plain_call(f, step.op, in, n_in, step.number); /* places are written once */
    }
    for (uint32_t i = 0; i < bp_fused_n_out(code); i++)
        same_bits(f, y[i], at[BP_FUSED_Y + i], text);
    for (int i = 0; i < BP_FUSED_PLACES; i++) bp_tensor_destroy(at[i]);
    for (uint32_t i = 0; i < bp_fused_n_out(code); i++) bp_tensor_destroy(y[i]);
}

static void like_separate(struct fixture *f, uint32_t dtype, const char *text, const char *shapes)
{
    like_separate_of(f, dtype, text, shapes, true);
}

Test(fused_bits, of_several_operators)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16};
    struct fixture f = fixture_init();

    for (int d = 0; d < 4; d++) {
        like_separate(&f, dtypes[d], "r0 = mul x0 x1; r1 = add r0 x2; y0 = relu r1; y1 = tanh y0",
                      "2x6x37x41+6x1x1+6x1x1");
        like_separate(&f, dtypes[d], "r0 = mul x0 x1; r1 = add r0 x2; y0 = silu r1",
                      "641x24+24+641x1");
        like_separate(&f, dtypes[d], "r0 = mul x0 x1; r1 = sigmoid x1; y0 = add r1 r0",
                      "40001+1");
        like_separate(&f, dtypes[d], "r0 = sub x0 x1; r1 = exp r0; y0 = div r1 x2",
                      "5x1x70+1x60x1+5x60x1");
    }
    fixture_finish(&f);
}

/* ---- truth values ---- */

/* Numbers that are often equal, NaN and infinities. */
static void bits_of_truths(const char *isa)
{
    static const char *const compared[] = {"equal",      "not_equal",    "less_than",
                                           "less_equal", "greater_than", "greater_equal"};
    static const char *const predicates[] = {"isnan", "isinf", "isfinite"};
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16};
    struct fixture f;
    char text[256];

    setenv("BP_CPU_ISA", isa, 1); /* each test is a separate process */
    f = fixture_init();
    for (int d = 0; d < 4; d++) {
        for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
            snprintf(text, sizeof text,
                     "r0 = floor x0; r1 = floor x1; r2 = %s r0 r1; y0 = where r2 x0 x1",
                     compared[i]);
            like_separate_of(&f, dtypes[d], text, "5003+5003", false);
        }
        for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++) {
            snprintf(text, sizeof text, "r0 = %s x0; y0 = where r0 x1 x0; y1 = mask x1 r0",
                     predicates[i]);
            like_separate_of(&f, dtypes[d], text, "5003+5003", false);
        }
        like_separate_of(&f, dtypes[d],
                         "r0 = less_than x0 x1; r1 = isfinite x1; r2 = logical_and r0 r1; "
                         "r3 = logical_or r0 r1; r4 = logical_xor r0 r1; r5 = logical_not r4; "
                         "y0 = where r2 x0 x1; y1 = mask x0 r3; y2 = mask x1 r5 invert=1; "
                         "y3 = masked_fill x0 r4 x1; y4 = mask x0 r2; y5 = mask x1 r4",
                         "7x731+731", false);
    }
    fixture_finish(&f);
}

Test(fused_bits, of_truths)
{
    bits_of_truths("avx512");
}

Test(fused_bits, of_truths_on_avx2)
{
    bits_of_truths("avx2");
}

Test(fused_bits, of_truths_portably)
{
    bits_of_truths("portable");
}

/* Masks whose operands repeat, transposed or one number, and results with streaming stores. */
Test(fused_bits, of_masks)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16};
    struct fixture f = fixture_init();

    for (int d = 0; d < 4; d++) {
        like_separate(&f, dtypes[d],
                      "r0 = mul x0 x1; r1 = greater_than r0 x2; r2 = where r1 r0 x3; "
                      "y0 = add r2 x0; y1 = masked_fill y0 r1 x3",
                      "641x24+24+1+641x1");
        like_separate(&f, dtypes[d],
                      "r0 = less_equal x0 x1; r1 = scale x2 factor=0.125; "
                      "r2 = masked_fill r1 r0 x3; y0 = exp r2",
                      "1x60x1+1x1x70+5x60x70+1");
    }
    like_separate(&f, BP_F32,
                  "r0 = add x0 x1; r1 = greater_than r0 x2; r2 = mul r0 x1; y0 = where r1 r2 x2",
                  "2100x2011+2011+1");
    fixture_finish(&f);
}

/* Results over inputs that later instructions read, of tensors that are larger than a tile. */
Test(fused_bits, of_results_over_inputs)
{
    static const char *const text = "y0 = mul x0 x1; y1 = add x0 x1; r0 = sub y0 x0; "
                                    "y2 = mul r0 x1";
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16};
    struct fixture f = fixture_init();

    for (int d = 0; d < 4; d++)
        for (int strided = 0; strided < 2; strided++) {
            struct bp_tensor *x[2], *wanted[3] = {NULL}, *over[3];
            int64_t code[BP_FUSED_WORDS];
            size_t n = code_of(text, code);
            for (int k = 0; k < 2; k++) {
                struct bp_tensor *all = float_tensor(&f, dtypes[d], 2, SHAPE(97, 221),
                                                     7 + (uint32_t)k, true);
                OK(bp_tensor_view(all, 0, 2, SHAPE(97, 131), SHAPE(strided ? 221 : 131, 1),
                                  &x[k]));
                bp_tensor_destroy(all);
            }
            OK(call_fused(&f, code, n, x, 2, wanted, 3));
            over[0] = x[1];
            over[1] = x[0];
            OK(bp_tensor_create(f.device, dtypes[d], 2, SHAPE(97, 131), &over[2]));
            OK(call_fused(&f, code, n, x, 2, over, 3));
            for (int i = 0; i < 3; i++) same_bits(&f, over[i], wanted[i], text);
            for (int i = 0; i < 3; i++) bp_tensor_destroy(over[i]);
            for (int i = 0; i < 3; i++) bp_tensor_destroy(wanted[i]);
        }
    fixture_finish(&f);
}

/* ---- chains ---- */

/* Asserts that two tensors of f32 or f64 have the same numbers and zeros; NaN is any NaN, because a
 * processor takes that of either operand. */
static void same_numbers(struct fixture *f, struct bp_tensor *a, struct bp_tensor *b,
                         const char *what)
{
    struct bp_cast_attrs cast = bp_cast_defaults();
    struct bp_tensor *wide[2] = {NULL, NULL}, *from[2] = {a, b};
    static double number[2][MANY];

    cast.to = BP_F64;
    for (int i = 0; i < 2; i++) {
        OK(bp_op_cast(f->scope, from[i], &cast, &wide[i]));
        OK(bp_tensor_read(f->stream, wide[i], number[i], sizeof number[i]));
        bp_tensor_destroy(wide[i]);
    }
    for (int i = 0; i < MANY; i++) {
        double x = number[0][i], y = number[1][i];
        cr_assert((isnan(x) && isnan(y)) || (x == y && !signbit(x) == !signbit(y)),
                  "%s: element %d is %.17g, expected %.17g", what, i, x, y);
    }
}

/* Two cheap operators, the second of which reads the first one's result and x1. */
static void like_pair(struct fixture *f, const char *op, size_t n, bool second,
                      struct bp_tensor *const *x)
{
    struct bp_tensor *got = NULL, *in[2], *wanted;
    int64_t code[BP_FUSED_WORDS];
    char text[96];

    snprintf(text, sizeof text, "r0 = neg x0; y0 = %s %s", op,
             n == 1   ? "r0; x1"
             : second ? "x1 r0"
                      : "r0 x1");
    OK(call_fused(f, code, code_of(text, code), x, 2, &got, 1));
    in[second] = plain_call(f, "neg", x, 1, NULL);
    in[!second] = x[1];
    wanted = plain_call(f, op, n == 1 ? &in[second] : in, n, NULL);
    same_numbers(f, got, wanted, text);
    bp_tensor_destroy(in[second]);
    bp_tensor_destroy(got);
    bp_tensor_destroy(wanted);
}

static void bits_chained(const char *isa)
{
    static const struct {
        const char *name;
        size_t n;
    } ops[] = {{"add", 2},    {"sub", 2}, {"mul", 2}, {"maximum", 2}, {"minimum", 2}, {"abs", 1},
               {"neg", 1},    {"square", 1}, {"relu", 1}, {"clip", 1}, {"scale", 1}};
    static const double numbers[] = {0, -0.0, 1.5, -0.75, INFINITY, -INFINITY, NAN};
    static const uint32_t dtypes[] = {BP_F32, BP_F64};
    struct fixture f;

    setenv("BP_CPU_ISA", isa, 1); /* each test is a separate process */
    f = fixture_init();
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < 8; k++) {
            struct bp_tensor *x[2] = {
                float_tensor(&f, dtypes[d], 1, (int64_t[]){MANY}, 3, false), NULL};
            float single = (float)numbers[k % 7];
            if (k == 7) x[1] = float_tensor(&f, dtypes[d], 1, (int64_t[]){MANY}, 9, false);
            else if (d) x[1] = tensor_of(&f, BP_F64, 0, NULL, &numbers[k]);
            else x[1] = tensor_of(&f, BP_F32, 0, NULL, &single);
            for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
                for (int second = 0; second < (int)ops[i].n; second++)
                    like_pair(&f, ops[i].name, ops[i].n, second, x);
            bp_tensor_destroy(x[0]);
            bp_tensor_destroy(x[1]);
        }
    fixture_finish(&f);
}

Test(fused_bits, of_cheap_operators_in_chains)
{
    bits_chained("avx512");
}

Test(fused_bits, of_cheap_operators_in_chains_on_avx2)
{
    bits_chained("avx2");
}

Test(fused_bits, of_cheap_operators_in_chains_portably)
{
    bits_chained("portable");
}

/* A chain of all cheap operators; numbers of clip and scale, whose bounds and roundings show;
 * results of a chain that later instructions read; a chain that two results leave. */
Test(fused_bits, of_long_chains)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64};
    struct fixture f = fixture_init();

    for (int d = 0; d < 2; d++) {
        like_separate(&f, dtypes[d],
                      "r0 = add x0 x1; r1 = mul r0 x2; r2 = sub x1 r1; r3 = maximum r2 x2; r4 = "
                      "minimum x1 r3; r5 = abs r4; r6 = neg r5; r7 = square r6; y0 = relu r7",
                      "7x331+7x331+331");
        like_separate(&f, dtypes[d],
                      "r0 = add x0 x1; r1 = scale r0 factor=0.3 bias=0.7; r2 = clip r1 min=-0.4 "
                      "max=0.9; y0 = neg r2",
                      "5003+5003");
        like_separate(&f, dtypes[d],
                      "r0 = mul x0 x1; r1 = clip r0 min=0.5 max=-0.25; y0 = abs r1", "5003+5003");
        like_separate(&f, dtypes[d],
                      "r0 = add x0 x1; r1 = mul r0 x0; y0 = tanh r1; r2 = neg r1; y1 = abs r2",
                      "5003+5003");
        like_separate(&f, dtypes[d], "r0 = add x0 x1; y0 = mul r0 x0; r1 = neg y0; y1 = abs r1",
                      "5003+5003");
        like_separate(&f, dtypes[d], "r0 = add x0 x1; r1 = mul r0 r0; y0 = neg r1", "5003+1");
    }
    fixture_finish(&f);
}

/* Results of 16 MiB and more are written with streaming stores. */
Test(fused_bits, of_large_results)
{
    struct fixture f = fixture_init();

    like_separate(&f, BP_F32, "r0 = mul x0 x1; r1 = add r0 x2; y0 = relu r1; y1 = neg r1",
                  "2100x2011+2011+2100x1");
    like_separate(&f, BP_F32, "r0 = mul x0 x1; y0 = relu r0", "4200007+4200007");
    like_separate(&f, BP_F32, "r0 = tanh x0; r1 = mul r0 x1; y0 = abs r1; y1 = sigmoid y0",
                  "2100x2011+2011");
    like_separate(&f, BP_F64, "r0 = mul x0 x1; y0 = relu r0", "2100013+1");
    fixture_finish(&f);
}

Test(fused_bits, of_16_inputs_and_8_outputs)
{
    struct fixture f = fixture_init();

    like_separate(&f, BP_F32,
                  "y0 = add x0 x1; y1 = sub x2 x3; y2 = mul x4 x5; y3 = maximum x6 x7; "
                  "y4 = minimum x8 x9; y5 = add x10 x11; y6 = sub x12 x13; r0 = add y0 y1; "
                  "r1 = add y2 y3; r2 = add y4 y5; r3 = add r0 r1; r4 = add r2 y6; r5 = add r3 r4; "
                  "r6 = add x14 x15; r7 = neg r6; r8 = abs r7; r9 = neg r8; r10 = mul r9 r5; "
                  "r11 = relu r10; y7 = add r11 r8",
                  "3x700+700+1+3x700+3x700+3x1+3x700+3x700+700+3x700+3x700+3x700+3x700+3x700+3x700+"
                  "3x700");
    fixture_finish(&f);
}

/* The operands and results of operators with truth values, and those of the table, have the same
 * dtypes. */
Test(fused_ops, state_truth_values)
{
    static const struct {
        const char *name;
        uint32_t n, from, to;
    } ops[] = {
#define X(name, n, from, to) {#name, n, from, to},
        BP_FUSED_TRUTH_OPS(X)
#undef X
    };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const struct bp_opinfo *info = bp_opinfo_find(ops[i].name);
        cr_assert(info && strlen(ops[i].name) < BP_FUSED_NAME, "%s", ops[i].name);
        cr_expect(info->n_in == ops[i].n && info->n_out == 1, "%s", ops[i].name);
        cr_expect(info->n_attr == !strcmp(ops[i].name, "mask"), "%s", ops[i].name);
        cr_expect((info->out[0].var == BP_VAR_U) == ops[i].to, "%s", ops[i].name);
        for (uint32_t k = 0; k < info->n_in; k++) {
            bool logic = !strncmp(ops[i].name, "logical_", 8); /* of any dtype */
            cr_expect((logic || info->in[k].var == BP_VAR_U) == (ops[i].from >> k & 1), "%s",
                      ops[i].name);
        }
    }
}

/* An instruction has room for three numbers, one for each attribute, and its operands are inputs
 * of the dtype of the call. */
Test(fused_ops, fit_an_instruction)
{
    static const struct {
        const char *name;
        uint32_t n;
    } ops[] = {
#define X(name, n) {#name, n},
        BP_FUSED_OPS(X)
#undef X
    };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const struct bp_opinfo *info = bp_opinfo_find(ops[i].name);
        cr_assert(info && strlen(ops[i].name) <= BP_FUSED_NAME, "%s", ops[i].name);
        cr_expect(info->n_in == ops[i].n && info->n_out == 1, "%s", ops[i].name);
        cr_expect(info->n_attr <= BP_FUSED_FROM, "%s", ops[i].name);
        for (uint32_t k = 0; k < info->n_attr; k++)
            cr_expect(info->attr[k].kind == BP_ATTR_F64 || !strcmp(ops[i].name, "gelu"), "%s",
                      ops[i].name);
        for (uint32_t k = 0; k < info->n_in; k++)
            cr_expect(info->in[k].var == info->out[0].var, "%s", ops[i].name);
    }
}
