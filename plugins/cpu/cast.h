/* SPDX-License-Identifier: Apache-2.0 */
/* cast.h: conversions between dtypes: cast.c is the kernel, cast_run.c its loops. */
#ifndef CPU_CAST_H
#define CPU_CAST_H

#include <stdint.h>

/* n elements side by side, between two of enum bp_dtype. past: those that fill vectors are stored
 * past the caches; y begins a line; between f16 and f32 only. */
typedef void cpu_cast_fn(uint8_t from, uint8_t to, int64_t n, char *y, const char *x, int past);

#endif
