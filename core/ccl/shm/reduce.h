/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h: declares the reductions that combine the elements of several ranks into one. */
#ifndef BP_REDUCE_PRIVATE_H
#define BP_REDUCE_PRIVATE_H

#include "../../base/base.h"

/* Whether this dtype supports this reduction (ccl.h). */
bool bp_ccl_reduces(uint32_t dtype, uint32_t reduction);

/* Reduces n_src sources that together represent `ranks` ranks, because some sources are already
 * sums of several ranks; an average divides by `ranks`. dst may be one of the first two sources. */
void bp_ccl_reduce_of(uint32_t dtype, uint32_t reduction, void *dst, const void *const *src,
                      uint32_t n_src, uint64_t count, uint32_t ranks);
/* Reduces n_src sources of count elements each: dst[i] = the reduction of src[0][i], src[1][i],
 * ..., in this order. dst shares no memory with any source. */
static inline void bp_ccl_reduce(uint32_t dtype, uint32_t reduction, void *dst,
                                 const void *const *src, uint32_t n_src, uint64_t count)
{
    bp_ccl_reduce_of(dtype, reduction, dst, src, n_src, count, n_src);
}

#endif
