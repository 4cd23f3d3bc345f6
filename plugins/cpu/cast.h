/* SPDX-License-Identifier: Apache-2.0 */
/* cast.h: conversions between dtypes: cast.c is the kernel, cast_run.c its loops. */
#ifndef CPU_CAST_H
#define CPU_CAST_H

#include <stddef.h>
#include <stdint.h>

struct cpu_cast {
    uint8_t from, to;      /* enum bp_dtype */
    size_t x_size, y_size; /* of an element */
    int past;              /* the result is stored past the caches */
};

/* n elements, steps sy and sx apart. */
typedef void cpu_cast_fn(const struct cpu_cast *cast, char *y, int64_t sy, const char *x,
                         int64_t sx, int64_t n);

#endif
