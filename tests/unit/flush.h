/* SPDX-License-Identifier: Apache-2.0 */
/* flush.h: lets a test compute as devices do that treat subnormal numbers of f32 as 0. */
#ifndef TEST_FLUSH_H
#define TEST_FLUSH_H

#include <dialect/dialect.h>
#include <stdbool.h>

/* Switches the flushing of subnormal operands and results to 0. Returns whether it is on; false:
 * not supported here. */
static inline bool flush_set(bool on)
{
#if defined(__x86_64__)
    const u32 bits = 0x8040; /* FTZ, DAZ */
    u32 control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? control | bits : control & ~bits);
    return on;
#elif defined(__aarch64__)
    const u64 bits = 1 << 24; /* FZ */
    u64 control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    control = on ? control | bits : control & ~bits;
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
    return on;
#else
    (void)on;
    return false;
#endif
}

static inline bool flush_is_on(void)
{
    volatile f32 small = f32_from_bits(1 << 22);

    return small * 2.0f == 0;
}

#endif
