/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h: elements of several ranks become one. */
#ifndef BP_REDUCE_PRIVATE_H
#define BP_REDUCE_PRIVATE_H

#include "../../base/base.h"

/* Whether there is such a reduction of such elements (ccl.h). */
bool bp_ccl_reduces(uint32_t dtype, uint32_t reduction);

/* The reduction of so many ranks, of whom some sources are sums: averages are divided by that. dst
 * may be one of the first two sources. */
void bp_ccl_reduce_of(uint32_t dtype, uint32_t reduction, void *dst, const void *const *src,
                      uint32_t n_src, uint64_t count, uint32_t ranks);
/* dst[i] = the reduction of src[0][i], src[1][i], ..., taken in this order: n_src of them, count
 * elements each. dst shares no memory with any. */
static inline void bp_ccl_reduce(uint32_t dtype, uint32_t reduction, void *dst,
                                 const void *const *src, uint32_t n_src, uint64_t count)
{
    bp_ccl_reduce_of(dtype, reduction, dst, src, n_src, count, n_src);
}

#endif
