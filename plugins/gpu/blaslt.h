/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.h: of the interface of cuBLASLt and hipBLASLt what is called, in words of our own;
 * tests/gpu compares it with the header of cuBLASLt, where there is one. */
#ifndef GPU_BLASLT_H
#define GPU_BLASLT_H

#include <stddef.h>
#include <stdint.h>

/* Only so many bytes of it as the library has. */
struct blaslt_algorithm {
    uint64_t data[8];
};
/* What follows an algorithm in an answer of the heuristic. */
struct blaslt_rest {
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* Numbers in which the libraries differ. */
struct blaslt_numbers {
#define NUMBER(name, cublaslt, hipblaslt) int name;
#include "blaslt_numbers.def"
};

/* And others: types of elements; attributes, and their values. */
enum { BLASLT_F32 = 0, BLASLT_F64 = 1, BLASLT_F16 = 2, BLASLT_BF16 = 14 };
enum {
    BLASLT_PREFER_WORKSPACE = 1,
    BLASLT_ADD_BIAS = 4,
    BLASLT_REDUCE_NOTHING = 0, /* no sum is made of parts */
    BLASLT_REDUCE_IN_SUMS = 2, /* parts of a sum are added in its type, in one order */
};

#define CALL(result, verb, parameters) typedef result blaslt_##verb parameters;
#include "blaslt.def"

struct blaslt_calls {
#define CALL(result, verb, parameters) blaslt_##verb *verb;
#include "blaslt.def"
};

#endif
