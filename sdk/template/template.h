/* SPDX-License-Identifier: Apache-2.0 */
/* template.h: what the files of this plugin share. Read next: plugin.c.
 *
 * The device is made of host memory, and behaves as an accelerator does: the host cannot reach its
 * memory, and work is done after its call, as late as the rules of runtime.h allow. */
#pragma once
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <pthread.h>
#include <stdatomic.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* callbacks get what some may need */

enum {
    TEMPLATE_MEMORY = 256 << 20, /* bytes that the device has */
    TEMPLATE_ALIGNMENT = 16,     /* of allocations: the least that suits every dtype */
    TEMPLATE_RANK = 8,           /* axes that the kernels can walk */
    TEMPLATE_DEPTH = 64,         /* jobs that the queue holds */
    TEMPLATE_ARGS = 512,         /* bytes of arguments that a job may have */
};

/* An instance, the self of all callbacks: one device. Nothing in this plugin is global. */
struct template_self {
    const struct bp_host *host;
    _Atomic uint64_t used;      /* bytes allocated */
    pthread_mutex_t lock;       /* of all changes below */
    _Atomic uint64_t submitted; /* jobs ever given to the queue; read without the lock */
    uint64_t done;              /* and run; those between wait in the ring */
    struct template_job {
        void (*run)(const void *args);
        _Alignas(16) unsigned char args[TEMPLATE_ARGS];
    } ring[TEMPLATE_DEPTH];
};

/* stream.c. submit copies args and answers the job's number. wait: BP_OK when that job is done, or
 * BP_ERR_TIMEOUT without a message. */
uint64_t template_submit(struct template_self *self, void (*run)(const void *args),
                         const void *args, size_t size);
enum bp_status template_wait(struct template_self *self, uint64_t job, uint64_t timeout_ns);

/* Where the device finds address of the allocation handle: see memory.c. Memory of the host has
 * handle NULL, and is where it is. */
static inline void *template_reach(void *handle, const void *address)
{
    return (void *)((uintptr_t)address + (uintptr_t)handle);
}

extern const struct bp_kernels template_kernels; /* kernels.c */

/* The callbacks of runtime.h that this plugin has: template_device_count and so on. */
#define TEMPLATE_CALLBACKS(X) \
    X(device_count) X(device_properties) X(memory_allocate) X(memory_free) \
    X(copy_in) X(copy_out) X(copy_within) X(synchronize) \
    X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_wait)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) template_##name;
TEMPLATE_CALLBACKS(X)
#undef X
