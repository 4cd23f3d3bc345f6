/* SPDX-License-Identifier: Apache-2.0 */
/* cases_slices.h: declares the slices with which slice, its gradient and set_value are tested. */
#ifndef BP_OPS_COMMON_CASES_SLICES_H
#define BP_OPS_COMMON_CASES_SLICES_H

#include "cases.h"

struct case_slice {
    const char *variant, *shape, *result; /* extents of the input, and of the selected elements */
    int n;
    int64_t starts[2], ends[2], steps[2]; /* no steps if steps[0] is 0 */
    int64_t axes[2];                      /* no axes if axes[0] is NO_AXES */
    bool quick, layouts;
};
enum { NO_AXES = 99, CASE_SLICES = 15 };
extern const struct case_slice case_slices[CASE_SLICES];

/* Slices with negative steps, for set_value. */
enum { CASE_SLICES_DOWN = 9 };
extern const struct case_slice case_slices_down[CASE_SLICES_DOWN];

/* Fills the attributes of slice, or of its gradient. */
void case_slice_attrs(struct kernel_case *made, const struct case_slice *slice);

#endif
