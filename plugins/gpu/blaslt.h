/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt.h: declares the part of the interfaces of cuBLASLt and hipBLASLt that the plugins call, in
 * Backplane's own words. tests/gpu compares it with the header of cuBLASLt if that is installed. */
#ifndef GPU_BLASLT_H
#define GPU_BLASLT_H

#include <stddef.h>
#include <stdint.h>

/* An algorithm; only its first algorithm_size bytes are the library's. */
struct blaslt_algorithm {
    uint64_t data[8];
};
/* The fields after the algorithm in a result of the library's heuristic. */
struct blaslt_rest {
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

/* The numbers that differ between the two libraries. */
struct blaslt_numbers {
#define NUMBER(name, cublaslt, hipblaslt) int name;
#include "blaslt_numbers.def"
};

/* The numbers that are equal: types of elements; attributes, and their values. */
enum { BLASLT_F32 = 0, BLASLT_F64 = 1, BLASLT_F16 = 2, BLASLT_BF16 = 14 };
enum {
    BLASLT_PREFER_WORKSPACE = 1,
    BLASLT_ADD_BIAS = 4,
    BLASLT_REDUCE_NOTHING = 0, /* split-K is not allowed */
    BLASLT_REDUCE_IN_SUMS = 2, /* split-K sums partial sums in the compute type, in a fixed order */
};

#define CALL(result, verb, parameters) typedef result blaslt_##verb parameters;
#include "blaslt.def"

struct blaslt_calls {
#define CALL(result, verb, parameters) blaslt_##verb *verb;
#include "blaslt.def"
};

#endif
