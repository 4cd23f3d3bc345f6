/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h: reads the clock of all time limits, durations and profiles. */
#ifndef BP_CLOCK_H
#define BP_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The time of CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t bp_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
