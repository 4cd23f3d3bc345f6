/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_parts.h: copies the parts of complex numbers to an array of real numbers, and back: the
 * bytes are equal. elem is a part. */
#ifndef BP_OPS_COMPLEX_KERNEL_PARTS_H
#define BP_OPS_COMPLEX_KERNEL_PARTS_H

#include "../../dialect/dialect.h"

/* The kernel needs only the count; OpenCL has no empty structs. */
struct complex_parts_args {
    i64 unused;
};

#ifdef ELEM
#include "../../dialect/entry.h"

KFN void complex_parts_span(const struct complex_parts_args *a, i64 begin, i64 count,
                            GLOBAL elem *y, GLOBAL const elem *x)
{
    (void)a;
    SIMD
    for (i64 i = begin; i < begin + count; i++) y[i] = x[i];
}
ENTRY_SPANS_2(complex_parts, elem, const elem)
#endif

#endif
