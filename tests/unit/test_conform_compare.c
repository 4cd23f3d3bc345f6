/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_compare.c: tests the tolerances of the conformance suite at the edges of the rule of
 * docs/accuracy.md, and its reader of symbol tables on invalid files. */
#include <compare.h>
#include <criterion/criterion.h>
#include <elf_symbols.h>
#include <math.h>
#include <operand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct conform_op exact = {.name = "exact", .ulp = 0.5},
                               growing = {.name = "growing", .ulp = 1, .terms = 1};
static const struct conform_op nothing = {.name = "nothing"};

/* Data of kind DATA_APART is not near a kink: neither of a maximum, nor of a function with kinks at
 * multiples of 1/2. */
Test(data, apart)
{
    struct random random = random_of("apart", 0);
    const struct kernel_input apart = {.data = DATA_APART};
    struct ref_array x[3];
    long double all[120];
    int64_t shape[] = {40};

    for (int i = 0; i < 3; i++) {
        ref_array_init(&x[i], BP_F64, 1, shape);
        data_fill(&x[i], &apart, i, &random);
        for (int e = 0; e < 40; e++) all[40 * i + e] = x[i].v[e];
        ref_array_finish(&x[i]);
    }
    for (int e = 0; e < 120; e++) {
        cr_expect(all[e] >= -2 && all[e] < 2);
        cr_expect(fabsl(2 * all[e] - roundl(2 * all[e])) > 2 * 0.005L, "%Lg", all[e]);
        for (int other = 0; other < e; other++)
            cr_expect(fabsl(all[e] - all[other]) > 0.005L, "%Lg and %Lg", all[e], all[other]);
    }
}

/* Tests whether one result of dtype is accepted for the reference value want with the bound. */
static bool conform_compare_accepts(const struct conform_op *op, uint32_t dtype, long double want,
                                    long double bound, long double got, bool tie)
{
    unsigned char data[16];
    struct ref_array expected;
    struct comparison c;

    ref_array_init(&expected, dtype, 0, NULL);
    for (int i = 0; i < expected.type->parts; i++) {
        expected.v[i] = want;
        expected.bound[i] = bound;
        num_set_float(expected.type, data + i * (int)expected.type->size / expected.type->parts,
                      got);
    }
    expected.exact = tie;
    c = compare(op, &expected, data);
    cr_assert_eq(c.wrong == 0, c.worst <= 1, "wrong %d, worst %g", (int)c.wrong, c.worst);
    ref_array_finish(&expected);
    return c.wrong == 0;
}

Test(compare, half_an_ulp_is_the_nearest)
{
    cr_assert(conform_compare_accepts(&exact, BP_F32, 1 + 0x1p-24L, 0, 1, false));
    cr_assert(conform_compare_accepts(&exact, BP_F32, 1 + 0x1p-24L, 0, 1 + 0x1p-23L, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F32, 1 + 0x1.1p-24L, 0, 1, false));
    cr_assert(conform_compare_accepts(&exact, BP_BF16, 1 + 0x1.1p-8L, 0, 1 + 0x1p-7L, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F16, 0x1p-24L, 0, 0, false));
    cr_assert(conform_compare_accepts(&exact, BP_C64, 1 + 0x1p-24L, 0, 1, false));
    cr_assert(!conform_compare_accepts(&nothing, BP_F32, 1, 0, 1 + 0x1p-23L, false));
    cr_assert(conform_compare_accepts(&nothing, BP_F32, 1, 0, 1, false));
}

/* The largest of +0 and -0 is either; a copy keeps the sign. */
Test(compare, the_sign_of_a_zero_that_was_selected_is_open)
{
    cr_assert(conform_compare_accepts(conform_op("max_pool"), BP_F32, 0, 0, -0.0L, false));
    cr_assert(conform_compare_accepts(conform_op("maxout"), BP_F32, -0.0L, 0, 0, false));
    cr_assert(conform_compare_accepts(conform_op("maximum"), BP_F32, -0.0L, 0, 0, false));
    cr_assert(!conform_compare_accepts(conform_op("assign"), BP_F32, 0, 0, -0.0L, false));
}

Test(compare, ties_go_to_even_where_they_are_known)
{
    cr_assert(conform_compare_accepts(&exact, BP_F32, 1 + 0x1p-24L, 0, 1, true));
    cr_assert(!conform_compare_accepts(&exact, BP_F32, 1 + 0x1p-24L, 0, 1 + 0x1p-23L, true));
    cr_assert(conform_compare_accepts(&exact, BP_F32, 1 + 0x3p-24L, 0, 1 + 0x1p-22L, true));
    cr_assert(!conform_compare_accepts(&exact, BP_F16, 0x1p-25L, 0, 0x1p-24L, true));
    cr_assert(conform_compare_accepts(&exact, BP_F16, 0x1p-25L, 0, 0, true));
}

Test(compare, sums_may_grow_by_their_bound)
{
    long double u = 0x1p-24L;

    cr_assert(conform_compare_accepts(&growing, BP_F32, 1, 0, 1 + 2 * u, false));
    cr_assert(!conform_compare_accepts(&growing, BP_F32, 1, 0, 1 + 4 * u, false));
    cr_assert(conform_compare_accepts(&growing, BP_F32, 1, 10, 1 + 12 * u, false));
    cr_assert(!conform_compare_accepts(&growing, BP_F32, 1, 10, 1 + 14 * u, false));
    /* Half types are added in f32: the tolerance is half an ulp of the half type, plus a
     * very small amount. */
    cr_assert(conform_compare_accepts(&growing, BP_F16, 1 + 0x1p-11L, 10, 1, false));
    cr_assert(!conform_compare_accepts(&growing, BP_F16, 1 + 0x1.1p-11L, 10, 1, false));
    cr_assert(!conform_compare_accepts(&growing, BP_BF16, 1, 10, 1 + 0x1p-7L, false));
}

Test(compare, infinity_and_nan)
{
    cr_assert(conform_compare_accepts(&exact, BP_F32, NAN, 0, NAN, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F32, NAN, 0, 1, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F32, 1, 0, NAN, false));
    cr_assert(conform_compare_accepts(&exact, BP_F32, INFINITY, 0, INFINITY, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F32, INFINITY, 0, -INFINITY, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F32, INFINITY, 0, 1, false));
    cr_assert(!conform_compare_accepts(&growing, BP_F32, 1, 100, INFINITY, false));
    cr_assert(!conform_compare_accepts(&growing, BP_F32, 1, 100, NAN, false));
}

Test(compare, overflow_begins_half_an_ulp_past_the_end)
{
    cr_assert(conform_compare_accepts(&exact, BP_F16, 65519, 0, 65504, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F16, 65519, 0, INFINITY, false));
    cr_assert(conform_compare_accepts(&exact, BP_F16, 65520, 0, INFINITY, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F16, 65520, 0, 65504, false));
    cr_assert(!conform_compare_accepts(&exact, BP_F16, 65520, 0, -INFINITY, false));
    cr_assert(conform_compare_accepts(&exact, BP_F16, 1e9L, 0, INFINITY, false));
}

Test(compare, integers_are_exact)
{
    int32_t got[] = {1, 2, -3};
    struct ref_array expected;
    struct comparison c;
    char text[300];

    ref_array_init(&expected, BP_I32, 1, (const int64_t[]){3});
    for (int i = 0; i < 3; i++) expected.u[i] = (uint64_t)(int64_t)got[i];
    cr_assert_eq(compare(&exact, &expected, got).wrong, 0);
    got[1] = 3;
    got[2] = 4;
    c = compare(&exact, &expected, got);
    cr_assert_eq(c.wrong, 2);
    cr_assert_eq(c.at, 1);
    compare_describe(&c, &expected, got, text, sizeof text);
    cr_assert_str_eq(text,
                     "worst at [1] (element 1 of 3): got 3, expected 2; 2 of 3 elements are wrong");
    ref_array_finish(&expected);
}

Test(compare, a_bool_is_0_or_1)
{
    unsigned char got = 2;
    struct ref_array expected;

    ref_array_init(&expected, BP_BOOL, 0, NULL);
    expected.u[0] = 1;
    cr_assert_eq(compare(&exact, &expected, &got).wrong, 1);
    got = 1;
    cr_assert_eq(compare(&exact, &expected, &got).wrong, 0);
    ref_array_finish(&expected);
}

/* Counts the elements of got that are reported as unwritten, for the expected values want. */
static int64_t conform_compare_unwritten(uint32_t dtype, const uint64_t want[3],
                                         const uint64_t got[3])
{
    int64_t shape[] = {3}, n;
    unsigned char data[24];
    struct ref_array expected;
    struct comparison c;

    ref_array_init(&expected, dtype, 1, shape);
    for (int i = 0; i < 3; i++) {
        expected.u[i] = want[i];
        num_set_int(expected.type, data + i * (int)expected.type->size, got[i]);
    }
    c = compare(&nothing, &expected, data);
    n = compare_unwritten(&c, &expected, data);
    ref_array_finish(&expected);
    return n;
}

Test(compare, poison_differs_from_results)
{
    const uint32_t poison = 0xa5a5a5a5;

    cr_assert_eq(
        conform_compare_unwritten(BP_U32, (uint64_t[]){1, 2, 3}, (uint64_t[]){1, poison, poison}),
        2);
    cr_assert_eq(
        conform_compare_unwritten(BP_U32, (uint64_t[]){poison, 2, 3}, (uint64_t[]){poison, 7, 3}),
        0);
    /* A wrong byte may equal the poison byte by chance. */
    cr_assert_eq(conform_compare_unwritten(BP_U8, (uint64_t[]){1, 2, 3}, (uint64_t[]){1, 2, 0xa5}),
                 1);
    cr_assert_eq(conform_compare_unwritten(BP_U8, (uint64_t[]){1, 2, 3}, (uint64_t[]){1, 7, 0xa5}),
                 0);
}

/* A poisoned NaN that was not written does not count as an expected NaN; real and imaginary parts
 * are compared separately. */
Test(compare, poison_is_no_result)
{
    const float nan = NAN;
    float got[4];
    struct ref_array expected;
    struct comparison c;

    ref_array_init(&expected, BP_C64, 1, (const int64_t[]){2});
    for (int i = 0; i < 4; i++) {
        expected.v[i] = i == 1 || i == 2 ? nan : 0;
        memset(&got[i], compare_poison(&expected, i), sizeof *got);
    }
    c = compare(&nothing, &expected, got);
    cr_expect_eq(c.wrong, 4);
    cr_expect_eq(compare_unwritten(&c, &expected, got), 2);
    got[2] = nan;
    c = compare(&nothing, &expected, got);
    cr_expect_eq(c.wrong, 3);
    cr_expect_eq(compare_unwritten(&c, &expected, got), 1);
    ref_array_finish(&expected);
}

Test(compare, nothing_is_described_too)
{
    const struct comparison c = {.worst = -1};
    struct ref_array expected;
    char text[300];

    ref_array_init(&expected, BP_F32, 2, (const int64_t[]){0, 3});
    compare_describe(&c, &expected, "", text, sizeof text);
    cr_assert_str_eq(text, "there are no elements");
    ref_array_finish(&expected);
}

Test(compare, the_worst_of_many_is_described)
{
    float got[] = {1, 2, 3.5f, 4, 5, 6};
    struct ref_array expected;
    struct comparison c;
    char text[300];

    ref_array_init(&expected, BP_F32, 2, (const int64_t[]){2, 3});
    for (int i = 0; i < 6; i++) expected.v[i] = i + 1;
    c = compare(&exact, &expected, got);
    cr_assert_eq(c.at, 2);
    compare_describe(&c, &expected, got, text, sizeof text);
    cr_assert(strstr(text, "worst at [0,2] (element 2 of 6): got 3.5, expected 3, 2.097e+06 ulp "
                           "where 0.5 are allowed"),
              "%s", text);
    ref_array_finish(&expected);
}

/* Files that begin like a plugin and are truncated or changed anywhere: the reader returns a result
 * and reads no byte outside. */
Test(elf, damaged_files_are_survived)
{
    static unsigned char bytes[1 << 20];
    char path[] = "/tmp/elf-XXXXXX", text[200];
    FILE *file = fopen(SOME_LIBRARY, "rb"), *out;
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0, n;
    int fd = mkstemp(path);

    cr_assert(size > 1000 && fd >= 0);
    fclose(file);
    cr_assert(elf_exports(SOME_LIBRARY, text, sizeof text, &n));
    cr_assert_str_eq(text, "bp_plugin_get");
    cr_assert_eq(n, 1);
    srand(1);
    for (int i = 0; i < 600; i++) {
        size_t at = i < 300 ? (size_t)i : (size_t)rand() % size;
        unsigned char saved = bytes[at];
        bytes[at] = (unsigned char)rand();
        out = fopen(path, "wb");
        fwrite(bytes, 1, i % 3 ? size : (size_t)rand() % size, out);
        fclose(out);
        elf_exports(path, text, sizeof text, &n);
        bytes[at] = saved;
    }
    remove(path);
    cr_assert(!elf_exports(path, text, sizeof text, &n));
    cr_assert(!elf_exports("/etc/passwd", text, sizeof text, &n));
}
