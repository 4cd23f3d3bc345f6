/* SPDX-License-Identifier: Apache-2.0 */
/* repeated.h: data that repeat a block of bytes, written and compared block by block: one element
 * after the other takes longer than the calls that are tested, with sanitizers many times as
 * long. */
#ifndef BP_TEST_REPEATED_H
#define BP_TEST_REPEATED_H

#include <string.h>

static inline void repeated_write(void *to, size_t size, const void *block, size_t block_size)
{
    for (size_t at = 0; at < size; at += block_size)
        memcpy((char *)to + at, block, size - at < block_size ? size - at : block_size);
}

/* Where the first block begins that is different, or size. */
static inline size_t repeated_compare(const void *data, size_t size, const void *block,
                                      size_t block_size)
{
    for (size_t at = 0; at < size; at += block_size)
        if (memcmp((const char *)data + at, block, size - at < block_size ? size - at : block_size))
            return at;
    return size;
}

#endif
