/* SPDX-License-Identifier: Apache-2.0 */
/* launch_rows.h: whether normalise_rows can make what a plan says. */
#ifndef BP_OPS_NORM_LAUNCH_ROWS_H
#define BP_OPS_NORM_LAUNCH_ROWS_H

#include "kernel_rows.h"

#include <backplane/kernel.h>

#include <stdbool.h>

/* Of x and y the terms of each group lie side by side, and the groups evenly apart; parameters,
 * which may be absent, lie as normalise_rows_args has it. bytes: of an element. out: untouched
 * where the result is false. */
bool norm_rows(const struct norm_plan *plan, const struct bp_view *scale,
               const struct bp_view *bias, int bytes, struct normalise_rows_args *out);

#endif
