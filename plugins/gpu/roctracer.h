/* SPDX-License-Identifier: Apache-2.0 */
/* roctracer.h: declares the part of roctracer's interface that the plugins use, in Backplane's own
 * words: that of version 4, which ROCm 4 to 6 have. */
#ifndef GPU_ROCTRACER_H
#define GPU_ROCTRACER_H

#include <stddef.h>
#include <stdint.h>

enum {
    ROCTRACER_OLDEST = 4
};

/* Domains of records, and the operations in them. */
enum {
    ROCTRACER_HIP_OPS = 2, /* work of the device */
    ROCTRACER_HIP_API = 3, /* calls of HIP */
    ROCTRACER_EXTERNAL = 5,
};
enum {
    ROCTRACER_DISPATCH,
    ROCTRACER_COPY,
    ROCTRACER_BARRIER
};
enum {
    ROCTRACER_MARK,
    ROCTRACER_EXTERNAL_ID
};

struct roctracer_record {
    uint32_t domain, kind, op;
    uint64_t correlation, begin, end;
    union {
        struct {
            int device;
            uint64_t queue;
        };
        struct {
            uint32_t process, thread;
        };
        uint64_t external;
    };
    union {
        size_t bytes;
        const char *name; /* of a kernel, until the callback returns */
    };
};

struct roctracer_properties {
    uint32_t mode;
    size_t buffer_size;
    void (*allocate)(char **memory, size_t size, void *arg); /* NULL: the library's own */
    void *allocate_arg;
    void (*completed)(const char *begin, const char *end, void *arg);
    void *completed_arg;
};

#define CALL(result, name, parameters) typedef result gpu_##name parameters;
#include "roctracer.def"

struct roctracer_calls {
#define CALL(result, name, parameters) gpu_##name *name;
#include "roctracer.def"
};

#endif
