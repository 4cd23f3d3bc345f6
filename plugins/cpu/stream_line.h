/* SPDX-License-Identifier: Apache-2.0 */
/* stream_line.h: writes the results of a formula with streaming stores directly from registers, for
 * one dtype (elem.h). A buffer in the L1 cache would be written and read once more. A loop computes
 * LINE elements in an array, which the compiler keeps in a register; line_put stores them. */
#ifndef CPU_LINES_H
#define CPU_LINES_H

#include "loop.h"
#include "stream_store.h"
#include <dialect/elem.h>

enum { LINE = VECTOR / (int)sizeof(elem) }; /* elements of a vector */

/* How many of n elements from y are stored in steps of LINE with streaming stores; the rest uses
 * normal stores. */
static inline int64_t lines_count(const struct loop *loop, const void *y, int64_t n)
{
    return loop_nt(loop, y) ? n / LINE * LINE : 0;
}

/* Stores LINE elements. The vectors of one cache line must be stored directly after each other. */
static inline void line_put(void *y, const elem *line)
{
#ifdef __AVX2__
    nt_store_wide(y, line);
#else
    nt_store_16(y, line);
#endif
}

#endif
