/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h: converts times of the clocks of plugins to times since the start of a recording. */
#ifndef BP_PROFILE_CONVERT_H
#define BP_PROFILE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At the time `since` after the start of the recording, the clock of the device showed `clock`. */
struct bp_clock_point {
    uint32_t device; /* the number of its name */
    uint64_t since, clock;
};

struct bp_clock_points {
    struct bp_clock_point *at;
    size_t n, room;
};

/* Adds a point. Returns false without memory. */
bool bp_clock_add(struct bp_clock_points *points, struct bp_clock_point point);

/* Sorts the points by device and clock, and removes the ones that contradict the point before
 * them: neither clock runs backwards. Call it once, after the last bp_clock_add. */
void bp_clock_order(struct bp_clock_points *points);

/* Converts a time of the device's clock. A result before the start is negative. Returns false if
 * the device has no point, or the result lies more than 104 days from the start. */
bool bp_clock_convert(const struct bp_clock_points *points, uint32_t device, uint64_t clock,
                      int64_t *out_since);

#endif
