/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_SCAN_ARGS_H
#define BP_KERNELS_SCAN_ARGS_H

#include "../../dialect/dialect.h"
#include "../common/kernel_formulas.h"

/* Tensors are [lines / inner, n, inner]; each line is gone along from its first or its last place.
 * */
struct scan_args {
    i64 op, n, inner, exclusive, reverse;
};
struct linear_scan_args {
    i64 n, inner, reverse, shift;
};
enum { SCAN_LINES = 64 }; /* neighbours that a lane goes along together */

#endif
