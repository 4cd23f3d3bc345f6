/* SPDX-License-Identifier: Apache-2.0 */
/* cast.h: declares the function that converts elements between dtypes: cast.c is the kernel,
 * cast_run.c has the loops. */
#ifndef CPU_CAST_H
#define CPU_CAST_H

#include <stdbool.h>
#include <stdint.h>

/* How numbers become f8 types. saturate: whether the attribute overflow of cast is 0. round: its
 * attribute of this name. */
struct cast_rule {
    bool saturate;
    uint8_t round;
};

/* Converts n contiguous elements between two dtypes of enum bp_dtype. nt: store complete vectors
 * with streaming stores; then y begins a cache line, and the dtypes are f16 and f32. */
typedef void cpu_cast_fn(uint8_t from, uint8_t to, struct cast_rule rule, int64_t n, char *y,
                         const char *x, int nt);

#endif
