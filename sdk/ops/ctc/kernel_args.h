/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_CTC_ARGS_H
#define BP_KERNELS_CTC_ARGS_H

#include "../../dialect/dialect.h"

/* x is [steps, lines, classes], labels [lines, labels]; wide: they are i64, else i32. room: numbers
 * of workspace for each line. */
struct ctc_lines_args {
    i64 steps, lines, classes, labels, wide, blank, room;
};
#define ctc_lines_grad_args ctc_lines_args

#endif
