/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: of NCCL's interface what is called, in words of our own; RCCL's is the same. */
#ifndef GPU_NCCL_H
#define GPU_NCCL_H

#include <backplane/ccl.h>
#include <limits.h>
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

/* How a communicator is to be, as 2.14 knows it: newer versions see its size and version, and do as
 * usual in all else. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: calls do not wait */
    int rest;     /* where a newer version has something: NCCL_AS_USUAL */
};
enum { NCCL_CONFIG_VERSION = 21400, NCCL_AS_USUAL = INT_MIN };
static const unsigned NCCL_CONFIG_MAGIC = 0xcafebeef;

#define CALL(result, name, parameters) typedef result nccl_##name parameters;
#include "nccl.def"

struct nccl_calls {
#define CALL(result, name, parameters) nccl_##name *name;
#include "nccl.def"
};

#endif
