/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.h: of cuBLASLt's interface what is called, in words of our own; tests/gpu compares it
 * with the library's header, where there is one. */
#ifndef GPU_BLASLT_H
#define GPU_BLASLT_H

#include <stddef.h>
#include <stdint.h>

struct cublaslt_algorithm {
    uint64_t data[8];
};
struct cublaslt_found {
    struct cublaslt_algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* Types of elements; of sums. */
enum { CUBLASLT_F32 = 0, CUBLASLT_F64 = 1, CUBLASLT_F16 = 2, CUBLASLT_BF16 = 14 };
enum { CUBLASLT_SUM_F32 = 68, CUBLASLT_SUM_F64 = 70, CUBLASLT_SUM_TF32 = 77 };

/* Attributes, and their values. */
enum {
    CUBLASLT_OPERATION_TURN_A = 3,
    CUBLASLT_OPERATION_TURN_B = 4,
    CUBLASLT_OPERATION_EPILOGUE = 7,
    CUBLASLT_OPERATION_BIAS = 8,
    CUBLASLT_LAYOUT_BATCH = 5,
    CUBLASLT_LAYOUT_STEP = 6,
    CUBLASLT_PREFER_WORKSPACE = 1,
    CUBLASLT_PREFER_REDUCTION = 3,
    CUBLASLT_PREFER_ALIGNMENT_A = 5, /* of b, c, d: the next numbers */
    CUBLASLT_TURNED = 1,
    CUBLASLT_ADD_BIAS = 4,
    CUBLASLT_REDUCE_NOTHING = 0, /* no sum is made of parts */
    CUBLASLT_REDUCE_IN_SUMS = 2, /* parts of a sum are added in its type, in one order */
};
enum { CUBLASLT_NOT_SUPPORTED = 15 }; /* an answer */

#define CALL(result, name, parameters) typedef result cublaslt_##name parameters;
#include "blaslt.def"

struct cublaslt_calls {
#define CALL(result, name, parameters) cublaslt_##name *name;
#include "blaslt.def"
};

#endif
