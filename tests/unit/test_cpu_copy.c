/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_copy.c: tests small copies of the cpu plugin, and large ones with streaming stores, at
 * each instruction level: each byte is copied, from and to any address, and no other byte is
 * written. */
#include "cpu_kit.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 16384, GUARD = 128, LARGEST = (4 << 20) + 3 * PIECE };

/* Fills memory with numbers that do not repeat, so that a block in the wrong position is
 * noticed. */
static void cpu_copy_fill(unsigned char *memory, size_t size)
{
    uint64_t state = 1;

    for (size_t i = 0; i + 8 <= size; i += 8) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(memory + i, &state, 8);
    }
}

static void cpu_copy_check(unsigned char *to, const unsigned char *from, size_t dst, size_t src,
                           size_t size)
{
    struct bp_copy copy = {.dst = to + GUARD + dst, .src = from + src, .size = size};

    memset(to, 0xa5, size + 2 * GUARD + dst);
    cr_assert_eq(kit_plugin->runtime->copy_within(kit_self, 0, NULL, &copy), BP_OK);
    cr_assert_arr_eq(copy.dst, copy.src, size, "%zu bytes from offset %zu to %zu", size, src, dst);
    for (size_t i = 0; i < GUARD + dst; i++)
        cr_assert_eq(to[i], 0xa5, "%zu bytes to %zu: %zu in front", size, dst, GUARD + dst - i);
    for (size_t i = 0; i < GUARD; i++)
        cr_assert_eq(to[GUARD + dst + size + i], 0xa5, "%zu bytes to %zu: %zu behind", size, dst,
                     i);
}

static void check_level(const char *isa)
{
    static const size_t at[] = {0, 1, 32, 63};
    static const size_t sizes[] = {1, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 1,
                                   (4 << 20) + PIECE - 1, (4 << 20) + PIECE + 65};
    unsigned char *from = aligned_alloc(64, LARGEST), *to = aligned_alloc(64, LARGEST);

    cr_assert(from && to);
    setenv("BP_CPU_ISA", isa, 1); /* each test is a separate process */
    kit_load();
    cpu_copy_fill(from, LARGEST);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t d = 0; d < 4; d++)
            for (size_t f = 0; f < 4; f++) cpu_copy_check(to, from, at[d], at[f], sizes[s]);
    kit_unload();
    free(from);
    free(to);
}

Test(cpu_copy, portable)
{
    check_level("portable");
}

Test(cpu_copy, avx2)
{
    check_level("avx2");
}

Test(cpu_copy, avx512)
{
    check_level("avx512");
}
