/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h: describes the tensors of kernel.h and scatter/kernel.h on the host, for their
 * launches. */
#ifndef BP_OPS_INDEX_LAUNCH_H
#define BP_OPS_INDEX_LAUNCH_H

#include "kernel_row.h"
#include "../../dialect/portable.h"

/* Returns rows along axis of x, named by all of index. */
struct index_rows index_rows_along(const struct bp_view *x, const struct bp_view *index, int axis);

/* Returns rows of the axes of x after the first `batch`, named by the last axis of index. */
struct index_rows index_rows_nd(const struct bp_view *x, const struct bp_view *index, int batch);

#endif
