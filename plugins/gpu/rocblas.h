/* SPDX-License-Identifier: Apache-2.0 */
/* rocblas.h: of rocBLAS's interface what is called, in words of our own; numbers are those of
 * rocblas-types.h in its published sources. */
#ifndef GPU_ROCBLAS_H
#define GPU_ROCBLAS_H

#include <stddef.h>
#include <stdint.h>

enum { ROCBLAS_F16 = 150, ROCBLAS_F32 = 151, ROCBLAS_F64 = 152, ROCBLAS_BF16 = 168 };
enum { ROCBLAS_PLAIN = 111, ROCBLAS_TURNED = 112, ROCBLAS_STANDARD = 0, ROCBLAS_NO_ATOMICS = 0 };

/* Answers: no good address; done, but slower for want of memory; and those of calls that only say
 * how much memory they want. */
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
