/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.h: reads the clock of the events of a profile, which threads read twice for each event. It
 * counts ticks: those of the counter of the processor, if the kernel keeps its own time by it, else
 * nanoseconds of CLOCK_MONOTONIC. Reading the counter takes half the time. A tick becomes
 * nanoseconds when an event is written. */
#ifndef BP_PROFILE_TICKS_H
#define BP_PROFILE_TICKS_H

#include "../base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Whether ticks are those of the processor's counter. Set before the first recording begins. */
extern _Atomic bool bp_profile_counter __attribute__((visibility("hidden")));

static inline uint64_t bp_profile_now(void)
{
#if defined(__x86_64__)
    if (atomic_load_explicit(&bp_profile_counter, memory_order_relaxed))
        return __builtin_ia32_rdtsc();
#endif
    return bp_clock_ns();
}

/* The line from ticks to nanoseconds since the start of a recording. */
struct bp_profile_line {
    uint64_t start;    /* ticks */
    uint64_t start_ns; /* of CLOCK_MONOTONIC at that moment */
    uint64_t scale;    /* nanoseconds in 2^32 ticks */
};

/* Returns the line of a recording that starts now. The first call in a process takes about 2 ms: it
 * measures how long a tick is. Called by one thread at a time, while nothing is recorded. */
struct bp_profile_line bp_profile_line_start(void);

/* Converts ticks that are not before the line's start. */
static inline uint64_t bp_profile_ns(const struct bp_profile_line *line, uint64_t ticks)
{
    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)((wide)(ticks - line->start) * line->scale >> 32);
}

#endif
