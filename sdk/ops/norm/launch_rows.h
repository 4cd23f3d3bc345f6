/* SPDX-License-Identifier: Apache-2.0 */
/* launch_rows.h: checks whether the kernel normalize_rows can run a plan of normalisation. */
#ifndef BP_OPS_NORM_LAUNCH_ROWS_H
#define BP_OPS_NORM_LAUNCH_ROWS_H

#include "kernel_rows.h"

#include <backplane/kernel.h>

#include <stdbool.h>

/* Returns true if the terms of each group are contiguous in x and y, the groups are evenly apart,
 * and the parameters, if present, have a layout that normalize_rows_args can express. bytes: size
 * of an element. out: unchanged if the result is false. */
bool norm_rows(const struct norm_plan *plan, const struct bp_view *scale,
               const struct bp_view *bias, int bytes, struct normalize_rows_args *out);

#endif
