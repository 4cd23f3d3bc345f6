/* SPDX-License-Identifier: Apache-2.0 */
/* nvtx.h: declares how a tool receives the calls of NVTX 3, which has no library of its own: the
 * tool's library is loaded, and requests tables of pointers to functions, into which the library
 * writes its functions. tests/gpu compares the numbers with NVTX's header if that is installed. */
#ifndef GPU_NVTX_H
#define GPU_NVTX_H

#include <stddef.h>
#include <stdint.h>

enum {
    NVTX_CALLBACKS = 1
}; /* the table of struct nvtx_callbacks */
enum {
    NVTX_CORE = 1
}; /* the module of the functions below */
enum {
    NVTX_MARK = 2,
    NVTX_PUSH = 9,
    NVTX_POP = 11,
    NVTX_FUNCTIONS = 16
};

struct nvtx_callbacks {
    size_t size;
    /* Returns 1, the module's table and its length; 0: the caller has no such module. A place of
     * the table is the address of a pointer to a function, or NULL. */
    int (*functions)(int module, void (****out)(void), unsigned *out_size);
};

/* The tool's function InitializeInjectionNvtx2. Returns 0: failed. */
#define NVTX_INITIALIZE "InitializeInjectionNvtx2"
typedef const void *nvtx_export(uint32_t table);
typedef int nvtx_initialize(nvtx_export *tables);

#endif
