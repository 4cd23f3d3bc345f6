/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h: declares the portable kernels' sources in OpenCL C, one text for each family including
 * its headers, and the arguments that a device without f64 needs as f32. embed.py prints
 * sources.c. */
#ifndef XPU_SOURCES_H
#define XPU_SOURCES_H

#include <dialect/source.h>

extern const struct portable_source xpu_source[]; /* by enum portable_family */

/* The offsets of an entry's arguments of type `host_real` (dialect.h): doubles, in whose place a
 * device without f64 reads an f32. */
struct xpu_given {
    uint16_t n, at[8];
};
extern const struct xpu_given xpu_given[]; /* by ENTRY_ of portable.h */

#endif
