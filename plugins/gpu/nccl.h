/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: of NCCL's interface what is called, in words of our own; RCCL's is the same. */
#ifndef GPU_NCCL_H
#define GPU_NCCL_H

#include <backplane/ccl.h>
#include <stddef.h>

/* Its types of elements, reductions and codes. */
enum {
    NCCL_I8,
    NCCL_U8,
    NCCL_I32,
    NCCL_U32,
    NCCL_I64,
    NCCL_U64,
    NCCL_F16,
    NCCL_F32,
    NCCL_F64,
    NCCL_BF16,
};
enum { NCCL_SUM, NCCL_PRODUCT, NCCL_MAX, NCCL_MIN, NCCL_AVERAGE };
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };

#define CALL(result, name, parameters) typedef result nccl_##name parameters;
#include "nccl.def"

struct nccl_calls {
#define CALL(result, name, parameters) nccl_##name *name;
#include "nccl.def"
};

#endif
