/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_parts_args.h: numbers of the kernels of kernel_parts.h, which launches work out. */
#ifndef BP_KERNELS_PARTS_ARGS_H
#define BP_KERNELS_PARTS_ARGS_H

#include "../../dialect/dialect.h"

/* Nothing but the count is needed; OpenCL has no empty structs. */
struct parts_args {
    i64 unused;
};

#endif
