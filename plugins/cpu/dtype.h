/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h: returns the sizes of dtypes, for kernels that serve several dtypes. */
#ifndef CPU_DTYPE_H
#define CPU_DTYPE_H

#include <backplane/types.h>

/* Size of an element in bytes. */
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
