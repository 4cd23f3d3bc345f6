/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_LABEL_ARGS_H
#define BP_KERNELS_LABEL_ARGS_H

#include "../../dialect/dialect.h"

/* x is [lines / inner, n, inner]; wide: labels are i64, else i32; logits: x are logits, else
 * logarithms of probabilities. */
struct label_row_args {
    i64 n, inner, wide, ignore, logits;
    host_real smoothing;
};
#define label_columns_args label_row_args
#define label_row_grad_args label_row_args
#define label_columns_grad_args label_row_args

#endif
