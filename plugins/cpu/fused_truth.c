/* SPDX-License-Identifier: Apache-2.0 */
/* fused_truth.c: computes the logic of truth values within `fused`: bytes of 0 or 1. The result may
 * be an operand. */
#include "fused.h"

void cpu_fused_truth(int formula, int64_t n, void *to, const void *const *from,
                     const double *number)
{
    const uint8_t *x = from[0], *y = from[1];
    uint8_t *z = to;

    (void)number;
    switch ((enum fused_truth_op)formula) {
    case FUSED_AND:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = x[i] & y[i];
        break;
    case FUSED_OR:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = x[i] | y[i];
        break;
    case FUSED_XOR:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = x[i] ^ y[i];
        break;
    case FUSED_NOT:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = x[i] ^ 1;
        break;
    }
}
