/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_transpose.c: tests transposes of the cpu plugin with streaming stores, for elements of
 * each size: each element is right, and no byte between separated rows is written. */
#include "cpu_kit.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 64, MARK = 0xa5 };

static const struct bp_kernel *row_of(const char *op)
{
    for (size_t i = 0; i < kit_plugin->kernels->count; i++)
        if (!strcmp(kit_plugin->kernels->first[i].op, op)) return &kit_plugin->kernels->first[i];
    cr_assert_fail("no row of %s", op);
    return NULL;
}

/* Fills memory with bytes that do not repeat soon. */
static void cpu_transpose_fill(unsigned char *memory, size_t size)
{
    uint64_t state = 1;

    for (size_t i = 0; i + 8 <= size; i += 8) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(memory + i, &state, 8);
    }
}

/* y has `columns` lines of `rows` elements, at distance `line`. off: its distance in bytes from the
 * start of a cache line. */
struct transpose {
    int dtype, size;
    int64_t rows, columns, line;
    size_t off;
    uint32_t width;
};

/* Reads one element. A sanitizer would check each memcmp of a single element, which is slow. */
static uint64_t cpu_transpose_element(const unsigned char *at, int size)
{
    uint64_t value = 0;

    switch (size) {
    case 1: return *at;
    case 2: memcpy(&value, at, 2); return value;
    case 4: memcpy(&value, at, 4); return value;
    default: memcpy(&value, at, 8); return value;
    }
}

static void cpu_transpose_check(const struct transpose *t, const unsigned char *x,
                                const unsigned char *y, size_t bytes)
{
    for (int64_t c = 0; c < t->columns; c++) {
        const unsigned char *line = y + t->off + c * t->line * t->size;
        for (int64_t r = 0; r < t->rows; r++)
            if (cpu_transpose_element(line + r * t->size, t->size) !=
                cpu_transpose_element(x + (r * t->columns + c) * t->size, t->size))
                cr_assert_fail("size %d, off %zu, width %u: element %lld, %lld", t->size, t->off,
                         t->width, (long long)c, (long long)r);
        for (int64_t i = t->rows * t->size; i < t->line * t->size; i++)
            cr_assert_eq(line[i], MARK, "size %d: written behind line %lld", t->size, (long long)c);
    }
    for (size_t i = 0; i < t->off; i++) cr_assert_eq(y[i], MARK);
    for (size_t i = bytes - PAD + t->off; i < bytes; i++) cr_assert_eq(y[i], MARK);
}

static void cpu_transpose_run(const struct transpose *t)
{
    size_t bytes = (size_t)(t->columns * t->line * t->size) + PAD;
    size_t all = (size_t)(t->rows * t->columns * t->size) / 64 * 64 + 64;
    unsigned char *x = aligned_alloc(64, all), *y = aligned_alloc(64, bytes / 64 * 64 + 64);
    int64_t shape[] = {t->columns, t->rows}, from[] = {1, t->columns}, to[] = {t->line, 1};
    struct bp_view in = {.data = x, .dtype = (uint8_t)t->dtype, .rank = 2, .shape = shape,
                         .stride = from, .count = t->rows * t->columns, .flags = BP_VIEW_STRIDED};
    struct bp_view out = in;
    const struct bp_view *ins[] = {&in}, *outs[] = {&out};

    cr_assert(x && y);
    out.data = y + t->off;
    out.stride = to;
    cpu_transpose_fill(x, all);
    memset(y, MARK, bytes);
    struct bp_launch launch = {.self = kit_self, .kernel = row_of("assign"),
                               .in = ins, .n_in = 1, .out = outs, .n_out = 1, .width = t->width};
    cr_assert_eq(launch.kernel->launch(&launch), BP_OK);
    cpu_transpose_check(t, x, y, bytes);
    free(x);
    free(y);
}

/* Lines of the destination are complete, end early, or begin within a cache line. */
static void of_size(int dtype, int size, int64_t rows, int64_t columns)
{
    struct transpose t = {dtype, size, rows, columns, rows, 0, 1};

    kit_load();
    cpu_transpose_run(&t);
    t.width = 2;
    cpu_transpose_run(&t);
    t.rows -= 5;
    cpu_transpose_run(&t);
    t.off = (size_t)size;
    cpu_transpose_run(&t);
    kit_unload();
}

Test(cpu_transpose, of_1_byte)
{
    of_size(BP_U8, 1, 4160, 4099);
}

Test(cpu_transpose, of_2_bytes)
{
    of_size(BP_I16, 2, 2080, 4109);
}

Test(cpu_transpose, of_4_bytes)
{
    of_size(BP_F32, 4, 2064, 2083);
}

Test(cpu_transpose, of_8_bytes)
{
    of_size(BP_F64, 8, 2056, 1051);
}

/* Rows that are near each other, in the destination or in the source, use other tiles. */
Test(cpu_transpose, short_lines)
{
    of_size(BP_F32, 4, 80, 65539);
    of_size(BP_F64, 8, 40, 65541);
}

Test(cpu_transpose, short_rows)
{
    of_size(BP_F32, 4, 262160, 37);
    of_size(BP_F64, 8, 131080, 43);
}
