/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h: sizes of dtypes, for kernels that serve several. */
#ifndef CPU_DTYPE_H
#define CPU_DTYPE_H

#include <backplane/types.h>

/* Bytes of an element. */
static inline int dtype_size(uint8_t dtype)
{
    static const uint8_t size[] = {
#define X(NAME, name, number, bits, class) [number] = (bits) / 8,
        BP_DTYPES(X)
#undef X
    };
    return size[dtype];
}

#endif
