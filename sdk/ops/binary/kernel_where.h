/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_where.h: computes where: z = x where c, else y, element by element, for one size of
 * elements (elem.h). */
#ifndef BP_OPS_BINARY_KERNEL_WHERE_H
#define BP_OPS_BINARY_KERNEL_WHERE_H

#include "../../dialect/elem.h"

KFN elem where_elem(int c, elem x, elem y)
{
    if (c) return x;
    return y;
}

#endif
