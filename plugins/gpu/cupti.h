/* SPDX-License-Identifier: Apache-2.0 */
/* cupti.h: declares the part of CUPTI's activity interface that the plugins use, in Backplane's own
 * words. A record of a newer version has more fields at its end: the fields here are at the same
 * place in the versions from 13 (CUDA 11.0) to 130001 (CUDA 13.0). tests/gpu compares them with
 * CUPTI's header. */
#ifndef GPU_CUPTI_H
#define GPU_CUPTI_H

#include <stddef.h>
#include <stdint.h>

/* The versions of the interface that are needed: for all, and for records of allocations. */
enum {
    CUPTI_OLDEST = 13,      /* CUDA 11.0 */
    CUPTI_WITH_MEMORY = 15, /* CUDA 11.2 */
};

enum {
    CUPTI_OK = 0,
    CUPTI_MAX_LIMIT = 12,
    CUPTI_INVALID_KIND = 21,
    CUPTI_NO_PRIVILEGES = 35,
    CUPTI_OTHER_SUBSCRIBER = 39,
};

/* Kinds of records. */
enum {
    CUPTI_COPY = 1,
    CUPTI_FILL = 2,
    CUPTI_DRIVER = 4,
    CUPTI_RUNTIME = 5,
    CUPTI_KERNEL = 10,
    CUPTI_COPY_PEER = 22,
    CUPTI_SYNCHRONIZATION = 38,
    CUPTI_EXTERNAL = 39,
    CUPTI_MEMORY = 49,
};

enum {
    CUPTI_ALIGNMENT = 8,   /* of buffers and records */
    CUPTI_CUSTOM = 3,      /* the kind of our external ids */
    CUPTI_FORCED = 1,      /* a flush that delivers unfinished records too */
    CUPTI_STREAM_WAIT = 2, /* a synchronisation in which a stream waits for an event */
    CUPTI_ALLOCATION = 1,
};
static const uint32_t CUPTI_NO_STREAM = UINT32_MAX;

struct cupti_kernel {
    uint32_t kind;
    uint8_t cache, shared;
    uint16_t registers;
    uint32_t partitioned[2];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3], static_memory, dynamic_memory;
    uint32_t local_memory[2], correlation;
    int64_t grid_id;
    const char *name;
};

struct cupti_copy {
    uint32_t kind;
    uint8_t copy_kind, src_kind, dst_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};

struct cupti_copy_peer {
    uint32_t kind;
    uint8_t copy_kind, src_kind, dst_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, src_device, src_context, dst_device, dst_context, correlation;
};

struct cupti_fill {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};

struct cupti_memory {
    uint32_t kind, operation, memory_kind, correlation;
    uint64_t address, bytes, time, pc;
    uint32_t process, device, context, stream;
};

struct cupti_synchronization {
    uint32_t kind, type;
    uint64_t start, end;
    uint32_t correlation, context, stream, event;
};

struct cupti_external {
    uint32_t kind, external_kind;
    uint64_t external;
    uint32_t correlation;
};

#define CALL(name, parameters) typedef int gpu_##name parameters;
#include "cupti.def"

struct cupti_calls {
#define CALL(name, parameters) gpu_##name *name;
#include "cupti.def"
};

#endif
