/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes determinants of square matrices. */
#ifndef BP_OPS_LINALG_KERNEL_H
#define BP_OPS_LINALG_KERNEL_H

#include "../../dialect/dialect.h"

/* n by n matrices, one after the other. */
struct det_args {
    i64 n;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* Returns the row from k on whose number in column k has the largest magnitude, the first of
 * several; NaN counts as the largest. */
KFN i64 pivot_row(GLOBAL const acc *m, i64 n, i64 k)
{
    acc best = acc_abs(m[k * n + k]);
    i64 row = k;

    for (i64 i = k + 1; i < n; i++) {
        acc v = acc_abs(m[i * n + k]);
        if (v > best || (v != v && best == best)) {
            best = v;
            row = i;
        }
    }
    return row;
}

/* A team computes one matrix, by elimination in a copy of it in work. */
KFN void det_team(const struct det_args *a, i64 team, LOCAL acc *s, GLOBAL elem *y,
                  GLOBAL const elem *x, GLOBAL acc *work)
{
    i64 n = a->n, first = team * n * n;
    GLOBAL acc *m = work + first;
    acc det = 1;

    (void)s;
    FOR_LANES(i, n * n) m[i] = elem_get(x[first + i]);
    for (i64 k = 0; k < n; k++) {
        i64 row;
        acc pivot;
        BARRIER();
        row = pivot_row(m, n, k);
        pivot = m[row * n + k];
        det *= row == k ? pivot : -pivot;
        BARRIER(); /* every lane has found the pivot */
        FOR_LANES(j, row == k ? 0 : n - k)
        {
            acc v = m[row * n + k + j];
            m[row * n + k + j] = m[k * n + k + j];
            m[k * n + k + j] = v;
        }
        BARRIER();
        if (pivot == 0) continue; /* then the rest of the column is 0 too */
        FOR_LANES(i, n - k - 1)
        {
            GLOBAL acc *to = m + (k + 1 + i) * n;
            acc factor = to[k] / pivot;
            SIMD for (i64 j = k + 1; j < n; j++) to[j] -= factor * m[k * n + j];
        }
    }
    if (LANE == 0) y[team] = elem_put(det);
}
ENTRY_TEAMS_3(det, elem, const elem, acc)
#endif

#endif
