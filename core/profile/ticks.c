/* SPDX-License-Identifier: Apache-2.0 */
/* ticks.c: decides whether profiles use the processor's counter, and measures the length of its
 * ticks by CLOCK_MONOTONIC. */
#include "ticks.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
    READINGS = 9,          /* of both clocks, of which the quickest counts */
    AT_LEAST_NS = 2000000, /* between the two moments that measure a tick */
};

_Atomic bool bp_profile_counter;

/* A moment by both clocks. */
struct moment {
    uint64_t ticks, ns;
};

/* The ticks lie between two readings of the other clock, in the middle at best. */
static struct moment moment_read(void)
{
    struct moment moment = {0};
    uint64_t least = UINT64_MAX;

    if (!atomic_load(&bp_profile_counter)) {
        moment.ticks = moment.ns = bp_clock_ns();
        return moment;
    }
    for (int i = 0; i < READINGS; i++) {
        uint64_t before = bp_clock_ns(), ticks = bp_profile_now(), after = bp_clock_ns();
        if (after - before >= least) continue;
        least = after - before;
        moment = (struct moment){ticks, before + least / 2};
    }
    return moment;
}

#if defined(__x86_64__)
/* Whether the kernel keeps its time by the counter: then the counters of all processors agree. */
static bool counter_is_kernels(void)
{
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    char name[8] = "";
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);

    if (fd >= 0) close(fd);
    return n > 0 && !strcmp(name, "tsc\n");
}
#endif

/* The counter serves if its rate never changes, whatever the processor does. */
static bool counter_serves(void)
{
#if defined(__x86_64__)
    const unsigned leaf = 0x80000007, invariant = 1u << 8;
    unsigned a, b, c, d;

    return __get_cpuid(leaf, &a, &b, &c, &d) && (d & invariant) && counter_is_kernels();
#else
    return false;
#endif
}

struct bp_profile_line bp_profile_line_start(void)
{
    static struct moment first; /* of the process: the longer ago, the better the measurement */
    struct moment now;

    if (!first.ns) {
        atomic_store(&bp_profile_counter, counter_serves());
        first = moment_read();
    }
    do now = moment_read();
    while (atomic_load(&bp_profile_counter) && now.ns - first.ns < AT_LEAST_NS);
    if (!atomic_load(&bp_profile_counter))
        return (struct bp_profile_line){now.ticks, now.ns, UINT64_C(1) << 32};
    return (struct bp_profile_line){
        now.ticks, now.ns,
        (uint64_t)((double)(now.ns - first.ns) / (double)(now.ticks - first.ticks) * 0x1p32)};
}
