/* SPDX-License-Identifier: Apache-2.0 */
/* axes.h: converts the axis attributes of operators. The core has checked their values. */
#ifndef CPU_AXES_H
#define CPU_AXES_H

#include <backplane/attrs.h>

static inline int axis_index(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

/* One bit for each axis of a list; all bits if the list is empty. */
static inline uint64_t axes_mask(const struct bp_dims *axes, int rank)
{
    uint64_t mask = 0;

    if (!axes->n) return ~UINT64_C(0);
    for (int64_t i = 0; i < axes->n; i++) mask |= UINT64_C(1) << axis_index(axes->at[i], rank);
    return mask;
}

#endif
