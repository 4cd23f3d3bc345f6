/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h: the portable kernels' sources in OpenCL C, a text for each family with all that it
 * includes, and what a device without f64 needs; sources.c is printed by embed.py. */
#ifndef XPU_SOURCES_H
#define XPU_SOURCES_H

#include <stdint.h>

struct xpu_source {
    uint32_t n; /* lines, each with its end */
    const char *const *line;
};
extern const struct xpu_source xpu_source[]; /* by enum portable_family */

/* Where in an entry's numbers those are that are `host_real` (dialect.h): doubles, in whose places
 * a device without f64 finds an f32. */
struct xpu_given {
    uint16_t n, at[8];
};
extern const struct xpu_given xpu_given[]; /* by ENTRY_ of portable.h */

#endif
