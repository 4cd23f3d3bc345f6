/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_transpose.c: tests transposes of the cpu plugin, with streaming stores and of few lines,
 * for elements of each size: each element is right, and no byte between separated rows is
 * written. */
#include "cpu_kit.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 64, MARK = 0xa5 };

/* A sanitizer checks each access of the kernel, but makes comparing slow: one line of so many is
 * compared, and the last; other builds compare all. */
#ifdef __SANITIZE_ADDRESS__
enum { COMPARED = 16 };
#else
enum { COMPARED = 1 };
#endif

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

/* y has `columns` lines of `rows` elements, at distance `line`, in each of its images. off: its
 * distance in bytes from the start of a cache line. */
struct transpose {
    int dtype, size;
    int64_t rows, columns, line;
    size_t off;
    uint32_t width;
    int64_t images;
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
    for (int64_t i = 0; i < t->images * t->columns; i++) {
        if (i % COMPARED && i + 1 < t->images * t->columns) continue;
        int64_t c = i % t->columns;
        const unsigned char *line = y + t->off + i * t->line * t->size;
        const unsigned char *image = x + i / t->columns * t->columns * t->rows * t->size;
        for (int64_t r = 0; r < t->rows; r++)
            if (cpu_transpose_element(line + r * t->size, t->size) !=
                cpu_transpose_element(image + (r * t->columns + c) * t->size, t->size))
                cr_assert_fail("size %d, off %zu, width %u: element %lld, %lld", t->size, t->off,
                         t->width, (long long)i, (long long)r);
        for (int64_t k = t->rows * t->size; k < t->line * t->size; k++)
            cr_assert_eq(line[k], MARK, "size %d: written behind line %lld", t->size, (long long)i);
    }
    for (size_t i = 0; i < t->off; i++) cr_assert_eq(y[i], MARK);
    for (size_t i = bytes - PAD + t->off; i < bytes; i++) cr_assert_eq(y[i], MARK);
}

static void cpu_transpose_run(const struct transpose *t)
{
    size_t bytes = (size_t)(t->images * t->columns * t->line * t->size) + PAD;
    size_t all = (size_t)(t->images * t->rows * t->columns * t->size) / 64 * 64 + 64;
    unsigned char *x = aligned_alloc(64, all), *y = aligned_alloc(64, bytes / 64 * 64 + 64);
    int64_t shape[] = {t->images, t->columns, t->rows};
    int64_t from[] = {t->rows * t->columns, 1, t->columns};
    int64_t to[] = {t->columns * t->line, t->line, 1};
    struct bp_view in = {.data = x, .dtype = (uint8_t)t->dtype, .rank = 3, .shape = shape,
                         .stride = from, .count = t->images * t->rows * t->columns,
                         .flags = BP_VIEW_STRIDED};
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
    struct transpose t = {dtype, size, rows, columns, rows, 0, 1, 1};

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

/* ---- few lines: the channels of an image ---- */

static const struct {
    int dtype, size;
} widths[] = {{BP_U8, 1}, {BP_I16, 2}, {BP_F32, 4}, {BP_F64, 8}};

/* Lines of `few` elements are made from planes of n elements, and the reverse. */
static void few_both_ways(int width, int64_t few, int64_t n, int64_t images)
{
    struct transpose t = {widths[width].dtype, widths[width].size, few, n, few, 0, 1, images};

    cpu_transpose_run(&t);
    t.line += 2; /* lines with gaps take another path */
    cpu_transpose_run(&t);
    t = (struct transpose){t.dtype, t.size, n, few, n, 0, 1, images};
    cpu_transpose_run(&t);
    t.line += 3;
    t.off = (size_t)t.size;
    cpu_transpose_run(&t);
}

Test(cpu_transpose, of_few_lines)
{
    kit_load();
    for (int width = 0; width < 4; width++)
        for (int64_t few = 2; few <= 16; few++) {
            few_both_ways(width, few, 1, 2);
            few_both_ways(width, few, 37, 3);
            few_both_ways(width, few, 8192 + 21, 1);
        }
    kit_unload();
}

/* Results of 16 MiB and more are written with streaming stores. */
Test(cpu_transpose, of_few_lines_with_streaming_stores)
{
    kit_load();
    for (int width = 0; width < 4; width++)
        few_both_ways(width, 2 + width, (int64_t)(17 << 20) / widths[width].size / 2 + 3, 1);
    few_both_ways(2, 3, 700001, 3);
    kit_unload();
}

/* A second thread takes the second half of the blocks. */
Test(cpu_transpose, of_few_lines_by_two_threads)
{
    struct transpose t = {BP_F32, 4, 3, 224 * 224, 3, 0, 2, 2};

    kit_load();
    cpu_transpose_run(&t);
    t = (struct transpose){BP_F32, 4, 224 * 224, 3, 224 * 224, 4, 2, 2};
    cpu_transpose_run(&t);
    kit_unload();
}
