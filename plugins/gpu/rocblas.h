/* SPDX-License-Identifier: Apache-2.0 */
/* rocblas.h: declares the part of rocBLAS's interface that the plugin calls, in Backplane's own
 * words. The numbers are those of rocblas-types.h in the library's published sources. */
#ifndef GPU_ROCBLAS_H
#define GPU_ROCBLAS_H

#include <stddef.h>
#include <stdint.h>

enum { ROCBLAS_F16 = 150, ROCBLAS_F32 = 151, ROCBLAS_F64 = 152, ROCBLAS_BF16 = 168 };
enum {
    ROCBLAS_PLAIN = 111,
    ROCBLAS_TRANSPOSED = 112,
    ROCBLAS_STANDARD = 0,
    ROCBLAS_NO_ATOMICS = 0
};

/* Status codes: an address is invalid; the product was computed, but slower for lack of memory; and
 * the codes of calls that only report the memory they need. */
enum {
    ROCBLAS_INVALID_POINTER = 3,
    ROCBLAS_SLOWER = 7,
    ROCBLAS_SIZE_INCREASED = 9,
    ROCBLAS_SIZE_UNCHANGED = 10,
};

#define CALL(result, name, parameters) typedef result rocblas_##name parameters;
#include "rocblas.def"

struct rocblas_calls {
#define CALL(result, name, parameters) rocblas_##name *name;
#include "rocblas.def"
};

#endif
