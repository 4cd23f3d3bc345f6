/* SPDX-License-Identifier: Apache-2.0 */
/* repeated.h: writes and compares data that repeats a block of bytes, block by block. Element by
 * element this would take longer than the tested calls, and many times as long with sanitizers. */
#ifndef BP_TEST_REPEATED_H
#define BP_TEST_REPEATED_H

#include <string.h>

static inline void repeated_write(void *to, size_t size, const void *block, size_t block_size)
{
    for (size_t at = 0; at < size; at += block_size)
        memcpy((char *)to + at, block, size - at < block_size ? size - at : block_size);
}

/* Returns the offset of the first block that differs, or size. */
static inline size_t repeated_compare(const void *data, size_t size, const void *block,
                                      size_t block_size)
{
    for (size_t at = 0; at < size; at += block_size)
        if (memcmp((const char *)data + at, block, size - at < block_size ? size - at : block_size))
            return at;
    return size;
}

#endif
