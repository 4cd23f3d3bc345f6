/* SPDX-License-Identifier: Apache-2.0 */
/* compute.h: runs portable kernels that were compiled as C, on the processor that they were
 * compiled for. compute.c is compiled with the same compiler as the kernels. The launch functions,
 * which are compiled for the host, describe an entry in a struct portable (portable.h); its family,
 * type and entry are numbers that mean the same on both sides, if both are of the same release. */
#ifndef BP_DIALECT_COMPUTE_H
#define BP_DIALECT_COMPUTE_H

#include "portable.h"

/* Computes the elements (or teams) begin to begin + count - 1 of an entry, on the calling thread.
 * args: a copy of p->args, aligned to 8 bytes. operand: the addresses of the operands of p, in
 * their order, as this processor accesses them; NULL for an absent operand. Elements are
 * independent: several threads may compute parts of one entry at the same time, in any order.
 * Returns 0, or -1 if no kernel for this family and type is linked. */
int portable_compute(enum portable_family family, enum portable_type type, int entry,
                     const void *args, void *const *operand, int64_t begin, int64_t count);

#endif
