/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h: how launches describe the tensors of kernel.h and scatter/kernel.h: the host's side. */
#ifndef BP_OPS_INDEX_LAUNCH_H
#define BP_OPS_INDEX_LAUNCH_H

#include "kernel_row.h"
#include "../../dialect/portable.h"

/* Rows along axis of x, named by all of index. */
struct index_rows index_rows_along(const struct bp_view *x, const struct bp_view *index, int axis);

/* Rows of the axes of x past the first `batch`, named by the last axis of index. */
struct index_rows index_rows_nd(const struct bp_view *x, const struct bp_view *index, int batch);

#endif
