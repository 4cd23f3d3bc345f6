/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.h: of cuBLASLt's interface what is called, in words of our own; tests/gpu compares it
 * with the library's header, where there is one. */
#ifndef GPU_BLASLT_H
#define GPU_BLASLT_H

#include <stddef.h>
#include <stdint.h>

struct blaslt_algorithm {
    uint64_t data[8];
};
struct blaslt_found {
    struct blaslt_algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* Types of elements; of sums. */
enum { BLASLT_F32 = 0, BLASLT_F64 = 1, BLASLT_F16 = 2, BLASLT_BF16 = 14 };
enum { BLASLT_SUM_F32 = 68, BLASLT_SUM_F64 = 70, BLASLT_SUM_TF32 = 77 };

/* Attributes, and their values. */
enum {
    BLASLT_OPERATION_TURN_A = 3,
    BLASLT_OPERATION_TURN_B = 4,
    BLASLT_OPERATION_EPILOGUE = 7,
    BLASLT_OPERATION_BIAS = 8,
    BLASLT_LAYOUT_BATCH = 5,
    BLASLT_LAYOUT_STEP = 6,
    BLASLT_PREFER_WORKSPACE = 1,
    BLASLT_PREFER_REDUCTION = 3,
    BLASLT_PREFER_ALIGNMENT_A = 5, /* of b, c, d: the next numbers */
    BLASLT_TURNED = 1,
    BLASLT_ADD_BIAS = 4,
    BLASLT_REDUCE_NOTHING = 0, /* no sum is made of parts */
    BLASLT_REDUCE_IN_SUMS = 2, /* parts of a sum are added in its type, in one order */
};
enum { BLASLT_NOT_SUPPORTED = 15 }; /* an answer */

#define CALL(result, name, parameters) typedef result blaslt_##name parameters;
#include "blaslt.def"

struct blaslt_calls {
#define CALL(result, name, parameters) blaslt_##name *name;
#include "blaslt.def"
};

#endif
