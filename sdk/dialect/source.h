/* SPDX-License-Identifier: Apache-2.0 */
/* source.h: declares source text for compilers at run time, which embed.py prints as an array of
 * lines. */
#ifndef BP_DIALECT_SOURCE_H
#define BP_DIALECT_SOURCE_H

#include <stdint.h>

struct portable_source {
    uint32_t n; /* number of lines, each with its newline */
    const char *const *line;
};

/* fused_functions.h: functions without a kernel. */
extern const struct portable_source portable_source_fused;

#endif
