/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.h: computes the arguments of a call of max_pool or avg_pool that concern its spatial
 * axes. */
#ifndef BP_OPS_POOL_LAUNCH_SHAPE_H
#define BP_OPS_POOL_LAUNCH_SHAPE_H

#include "kernel_window.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <stdbool.h>

/* Returns the arguments of a launch without its places: rank, run, tile and place are 0. average:
 * the operator is avg_pool. */
struct pool_args pool_args_of(const struct bp_launch *launch, bool average);

#endif
