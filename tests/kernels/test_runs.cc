/* SPDX-License-Identifier: Apache-2.0 */
/* test_runs.cc: tests the GPU form of the entries of run.h, for one type, which the build names.
 * Lanes compute several elements together where the operands allow that, else one element; here the
 * lanes run one after another. Elements must have the bits of the formula, and memory beside them
 * must not change. Functions <entry>_is_even must return 1 exactly where the operands are even, so
 * that lanes may load whole runs (walk_is_even); the build lets the compiler check each address. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define __CUDACC__ /* the CUDA keywords that the dialect needs */
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(n)
#define __syncthreads()
#define __shfl_xor_sync(all, word, mask) (word)
#define __shfl_sync(all, word, lane) (word)
static struct {
    unsigned x;
} blockIdx, gridDim = {3}, threadIdx, blockDim = {4};

#ifdef TEST_CAST
#include <ops/cast/kernel.h>
#else
#include <ops/common/kernel_formula.h>
#include <ops/copy/kernel_move.h>
#ifndef ELEM_COMPLEX
#include <ops/unary/kernel_scale.h>
#endif
#endif

enum { ELEMENTS = 1024, OPERANDS = 3, LONGEST = 8 };

/* Layouts of operands, the result first. Rows of an input are `row` elements apart; an input may be
 * one row for all, or have one element for each row. Offsets count elements. */
struct lie {
    const char *name;
    i64 rows, columns, row[OPERANDS], column[OPERANDS], offset[OPERANDS];
    int even; /* whether the layout is even for inputs and results of any size */
};
enum { R = RUN };
static const struct lie lies[] = {
    {"flat, no whole run", 1, R - 1, {}, {1, 1, 1}, {}, 1},
    {"flat, one run", 1, R, {}, {1, 1, 1}, {}, 1},
    {"flat, a run and one", 1, R + 1, {}, {1, 1, 1}, {}, 1},
    {"flat, more runs than lanes", 1, 13 * R, {}, {1, 1, 1}, {}, 1},
    {"flat, with a rest", 1, 14 * R - 1, {}, {1, 1, 1}, {}, 1},
    {"flat, from a later run on", 1, 5 * R + 1, {}, {1, 1, 1}, {16, 16, 16}, 1},
    {"flat, the result is not even", 1, 5 * R + 1, {}, {1, 1, 1}, {1, 0, 0}, 0},
    {"flat, the first input is not even", 1, 5 * R + 1, {}, {1, 1, 1}, {0, 1, 0}, 0},
    {"flat, the last input is not even", 1, 5 * R + 1, {}, {1, 1, 1}, {0, 0, R - 1}, 0},
    {"the last input repeats", 1, 5 * R + 1, {}, {1, 1, 0}, {0, 0, 1}, 1},
    {"every second of the last input", 1, 5 * R, {}, {1, 1, 2}, {}, 0},
    {"the last input is backwards", 1, 5 * R, {}, {1, 1, -1}, {0, 0, 5 * R}, 0},
    {"a row for all", 3, 2 * R, {2 * R, 2 * R, 0}, {1, 1, 1}, {}, 1},
    {"an element for each row", 3, 2 * R, {2 * R, 2 * R, 1}, {1, 1, 0}, {}, 1},
    {"rows with a gap", 3, 2 * R, {2 * R, 32 * R, 2 * R}, {1, 1, 1}, {}, 1},
    {"rows with a gap that is not even", 3, 2 * R, {2 * R, 2 * R + 1, 2 * R}, {1, 1, 1}, {}, 0},
    {"rows that end within a run", 4, 2 * R - 1, {2 * R - 1, 32, 0}, {1, 1, 1}, {}, 0},
    {"columns", 2 * R, 2 * R, {2 * R, 1, 2 * R}, {1, 2 * R, 1}, {}, 0},
};

static unsigned char memory[OPERANDS][ELEMENTS * LONGEST * 4] __attribute__((aligned(16)));
static unsigned char wanted[sizeof memory[0]] __attribute__((aligned(16)));
static int wrong;

static struct walk_by_value walk_of(const struct lie *lie)
{
    struct walk_by_value walk = {};
    int flat = lie->rows == 1 && lie->column[1] == 1 && lie->column[2] == 1;

    walk.count = lie->rows * lie->columns;
    walk.rank = flat ? 0 : lie->rows == 1 ? 1 : 2;
    for (int axis = 0; axis < walk.rank; axis++) {
        int is_row = axis == 0 && walk.rank == 2;
        walk.shape[axis] = is_row ? lie->rows : lie->columns;
        for (int k = 0; k < OPERANDS; k++)
            walk.stride[k][axis] = is_row ? lie->row[k] : lie->column[k];
    }
    return walk;
}

/* Returns the address of element i of operand k. */
template <typename T> static T *at(const struct lie *lie, int k, i64 i, unsigned char *from)
{
    return (T *)from + lie->offset[k] + i / lie->columns * lie->row[k] +
           i % lie->columns * lie->column[k];
}
template <typename T> static T *first(const struct lie *lie, int k)
{
    return (T *)memory[k] + lie->offset[k];
}

/* Fills the operands with bytes of all values; few of the floats are not finite. */
static void fill(unsigned seed)
{
    for (int k = 0; k < OPERANDS; k++)
        for (size_t i = 0; i < sizeof memory[k]; i++)
            memory[k][i] = (unsigned char)((seed = seed * 1664525 + 1013904223) >> 24);
    memcpy(wanted, memory[0], sizeof wanted);
}

template <typename F> static void launch(F kernel)
{
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) kernel();
}

/* Operands with elements of 16 bytes are even at any offset. */
static void check(const struct lie *lie, const char *what, int even)
{
    int odd = even != lie->even && !(even && sizeof(elem) == 16);

    if (odd) printf("# %s: %s: even: %d\n", what, lie->name, even);
    if (memcmp(wanted, memory[0], sizeof wanted)) printf("# %s: %s: wrong\n", what, lie->name);
    wrong += odd || memcmp(wanted, memory[0], sizeof wanted);
}

#ifdef TEST_CAST
template <typename T> static void test(const struct lie *lie, int to, T (*value)(elem))
{
    struct cast_args args = {walk_of(lie), to, 0, 0, 0};
    T *y = first<T>(lie, 0);
    elem *x = first<elem>(lie, 1);

    if (lie->column[2] != 1 || lie->offset[2]) return; /* the layout tests another input */
    fill(to + 1);
    for (i64 i = 0; i < args.walk.count; i++)
        *at<T>(lie, 0, i, wanted) = value(*at<elem>(lie, 1, i, memory[1]));
    launch([&] { NAME(cast)(args, args.walk.count, y, x); });
    check(lie, "cast", cast_is_even(&args, y, x));
}
static void test_all(const struct lie *lie)
{
    test<u8>(lie, CAST_u8, [](elem e) { return (u8)cast_unsigned(e, 8); });
    test<u16>(lie, CAST_bf16, [](elem e) { return bf16_from_f32(cast_odd(e)); });
    test<u32>(lie, CAST_i32, [](elem e) { return (u32)cast_signed(e, 32); });
    test<u64>(lie, CAST_i64, [](elem e) { return (u64)cast_signed(e, 64); });
}
#else
static void test_unary(const struct lie *lie, int op, elem (*value)(elem, acc, acc, acc))
{
    struct unary_args args = {walk_of(lie), op, 0, 0, 0};
    elem *y = first<elem>(lie, 0), *x = first<elem>(lie, 1);

    if (lie->column[2] != 1 || lie->offset[2]) return;
    fill(op + 1);
    for (i64 i = 0; i < args.walk.count; i++)
        *at<elem>(lie, 0, i, wanted) =
            value(*at<elem>(lie, 1, i, memory[1]), acc_zero(), acc_zero(), acc_zero());
    launch([&] { NAME(unary)(args, args.walk.count, y, x); });
    check(lie, "unary", unary_is_even(&args, y, x));
}
static void test_binary(const struct lie *lie, int op)
{
    struct binary_args args = {walk_of(lie), op, 1, 2};
    elem *z = first<elem>(lie, 0), *x = first<elem>(lie, 1), *y = first<elem>(lie, 2);

    fill(op + 1);
    for (i64 i = 0; i < args.walk.count; i++)
        *at<elem>(lie, 0, i, wanted) =
            binary_elem(op, *at<elem>(lie, 1, i, memory[1]), *at<elem>(lie, 2, i, memory[2]),
                        number(1), number(2));
    launch([&] { NAME(binary)(args, args.walk.count, z, x, y); });
    check(lie, "binary", binary_is_even(&args, z, x, y));
}
#ifndef ELEM_COMPLEX
/* The result is the first input. */
static void test_in_place(const struct lie *lie)
{
    struct scale_args args = {walk_of(lie), 3, 1};
    elem *y = first<elem>(lie, 0);

    if (lie->row[1] != lie->row[0] || lie->offset[1] != lie->offset[0]) return;
    fill(6);
    for (i64 i = 0; i < args.walk.count; i++) {
        elem *to = at<elem>(lie, 0, i, wanted);
        *to = elem_put(elem_get(*to) * number(3) + number(1));
    }
    launch([&] { NAME(scale)(args, args.walk.count, y, y); });
    check(lie, "in place", lie->even);
}
#endif
static void test_compare(const struct lie *lie)
{
    struct compare_args args = {walk_of(lie), COMPARE_logical_and, 0, 0, 0};
    u8 *z = first<u8>(lie, 0);
    elem *x = first<elem>(lie, 1), *y = first<elem>(lie, 2);

    fill(3);
    memset(memory[1], 0, sizeof memory[1] / 16);
    for (i64 i = 0; i < args.walk.count; i++)
        *at<u8>(lie, 0, i, wanted) =
            elem_truth(*at<elem>(lie, 1, i, memory[1])) &
            elem_truth(*at<elem>(lie, 2, i, memory[2]));
    launch([&] { NAME(compare)(args, args.walk.count, z, x, y); });
    check(lie, "compare", compare_is_even(&args, z, x, y));
}
/* The condition is the first input. absent: the result has zeros where the condition is true. */
static void test_where(const struct lie *lie, int absent)
{
    struct where_args args = {walk_of(lie)};
    elem *z = first<elem>(lie, 0), *y = first<elem>(lie, 2), zero = elem_put(acc_zero());
    u8 *c = first<u8>(lie, 1);

    fill(4);
    for (int axis = 0; axis < 2; axis++) {
        args.walk.stride[3][axis] = args.walk.stride[2][axis];
        if (absent) args.walk.stride[2][axis] = args.walk.stride[0][axis];
    }
    memset(memory[1], 0, ELEMENTS / 32);
    for (i64 i = 0; i < args.walk.count; i++)
        *at<elem>(lie, 0, i, wanted) =
            *at<u8>(lie, 1, i, memory[1]) && absent ? zero : *at<elem>(lie, 2, i, memory[2]);
    launch([&] { NAME(where)(args, args.walk.count, z, c, absent ? (elem *)0 : y, y); });
    check(lie, "where", where_is_even(&args, z, c, absent ? (elem *)0 : y, y));
}
static void test_move(const struct lie *lie)
{
    struct move_args args = {walk_of(lie)};
    elem *y = first<elem>(lie, 0), *x = first<elem>(lie, 1);

    if (lie->column[2] != 1 || lie->offset[2]) return;
    fill(5);
    for (i64 i = 0; i < args.walk.count; i++)
        *at<elem>(lie, 0, i, wanted) = *at<elem>(lie, 1, i, memory[1]);
    launch([&] { NAME(move)(args, args.walk.count, y, x); });
    check(lie, "move", move_is_even(&args, y, x));
}
static void test_all(const struct lie *lie)
{
    test_unary(lie, UNARY_neg, unary_neg);
    test_binary(lie, BINARY_add);
#ifndef ELEM_COMPLEX
    test_binary(lie, BINARY_fmod); /* a formula with long code */
    test_in_place(lie);
#endif
#ifdef ELEM_FLOAT
    test_unary(lie, UNARY_exp, unary_exp);
#endif
    test_compare(lie);
    test_where(lie, 0);
    test_where(lie, 1);
    test_move(lie);
}
#endif

int main()
{
    int n = (int)(sizeof lies / sizeof *lies), bad = 0;

    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        wrong = 0;
        test_all(&lies[i]);
        printf("%s %d - %s\n", wrong ? "not ok" : "ok", i + 1, lies[i].name);
        bad += wrong;
    }
    return bad != 0;
}
