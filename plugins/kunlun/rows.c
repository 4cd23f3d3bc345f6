/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: builds the table of kernel rows of the kunlun plugin: products by XBLAS. */
#include "gpu/gemm.h"
#include "xblas.h"

static const struct bp_kernel rows[] = {
#define LIBRARY_ROW(operator, variant, number, T) \
    {BP_OPROW(operator), \
     .name = GPU_NAME "_" #operator"_" #variant, \
     .types = {T}, \
     .flags = BP_KERNEL_STRIDED, \
     .priority = 100, \
     .launch = kunlun_xblas_run, \
     .prepare = kunlun_xblas_prepare, \
     .plan_destroy = kunlun_xblas_end},
#include "rows.def"
};

static const uint8_t numbers[] = {
#define LIBRARY_ROW(op, variant, number, T) number,
#include "rows.def"
};

int portable_number(const struct bp_kernel *row)
{
    return numbers[row - rows];
}

const struct bp_kernels portable_rows = {
    .size = sizeof portable_rows,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
    .usable = portable_usable,
};
