/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_axis.h: declares how the attributes of an axis become arguments of kernel.h, for the host
 * code of every plugin. */
#ifndef BP_OPS_RESIZE_KERNEL_AXIS_H
#define BP_OPS_RESIZE_KERNEL_AXIS_H

#include "kernel.h"
#include <backplane/attrs.h>

/* launch.c: returns the arguments for an axis of `in` elements in x and `out` elements in the
 * result: how positions and weights are computed. The fields that concern memory (rank, axis, step,
 * and the arrays) are 0. */
struct resize_args resize_axis_args(const struct bp_resize_axis_attrs *a, int64_t in, int64_t out);

#endif
