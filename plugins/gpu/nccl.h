/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h: declares the part of NCCL's interface that the plugins call, in Backplane's own words.
 * RCCL's interface is the same. */
#ifndef GPU_NCCL_H
#define GPU_NCCL_H

#include <backplane/ccl.h>
#include <limits.h>
#include <stddef.h>

/* NCCL's types of elements, reductions and status codes. */
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

/* The configuration of a communicator as NCCL 2.14 defines it. Newer versions see its size and
 * version, and use their defaults for all other settings. */
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: calls do not block */
    int rest;     /* the next field of newer versions: NCCL_AS_USUAL */
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
