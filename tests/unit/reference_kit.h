/* SPDX-License-Identifier: Apache-2.0 */
/* reference_kit.h: creates arrays for tests of references. */
#ifndef BP_TEST_REFERENCE_KIT_H
#define BP_TEST_REFERENCE_KIT_H

#include <ops/common/reference.h>

/* Creates an array of these values, in row-major order. */
static inline struct ref_array array_of(uint32_t dtype, int rank, const int64_t *shape,
                                        const double *values)
{
    struct ref_array a;

    ref_array_init(&a, dtype, rank, shape);
    for (int64_t i = 0; i < a.count; i++)
        if (a.u) a.u[i] = (uint64_t)(int64_t)values[i];
        else a.v[i] = values[i];
    return a;
}

#endif
