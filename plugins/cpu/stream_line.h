/* SPDX-License-Identifier: Apache-2.0 */
/* stream_line.h: results that are stored past the caches straight from the registers of a formula,
 * for one dtype (elem.h): by a buffer in the nearest cache each is written and read once more. A
 * loop makes LINE elements in an array, which the compiler keeps in a register; line_put stores
 * them. */
#ifndef CPU_LINES_H
#define CPU_LINES_H

#include "loop.h"
#include "stream_store.h"
#include <dialect/elem.h>

enum { LINE = VECTOR / (int)sizeof(elem) }; /* elements of a vector */

/* Those of n elements from y that go by LINE; the rest is stored the common way. */
static inline int64_t lines_count(const struct loop *loop, const void *y, int64_t n)
{
    return loop_past(loop, y) ? n / LINE * LINE : 0;
}

/* LINE elements; the vectors of a line of memory come one after the other. */
static inline void line_put(void *y, const elem *line)
{
#ifdef __AVX2__
    past_put_wide(y, line);
#else
    past_put_16(y, line);
#endif
}

#endif
