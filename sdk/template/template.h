/* SPDX-License-Identifier: Apache-2.0 */
/* template.h: declares the data and functions that the plugin's files share. Read next: plugin.c.
 *
 * The device is host memory that behaves like an accelerator: the host cannot access it, and work
 * is done later than its call, as late as the rules of runtime.h allow. */
#pragma once
#include <backplane/attrs.h>
/*+ ccl: #include <backplane/ccl.h> */
/*+ engine: #include <backplane/engine.h> */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
/*+ profiler: #include <backplane/profiler.h> */
#include <backplane/runtime.h>
#include <pthread.h>
#include <stdatomic.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* not every callback needs all its arguments */

enum {
    TEMPLATE_MEMORY = 256 << 20, /* bytes that the device has */
    TEMPLATE_ALIGNMENT = 16,     /* alignment of allocations: the least that suits every dtype */
    TEMPLATE_RANK = 8,           /* axes that the kernels can walk */
    TEMPLATE_DEPTH = 64,         /* jobs that the queue holds */
    TEMPLATE_ARGS = 512,         /* the most bytes of arguments of a job */
};

/* An instance, the self of all callbacks, is one device. Nothing in this plugin is global. */
struct template_self {
    const struct bp_host *host;
    _Atomic uint64_t used;      /* bytes allocated */
    pthread_mutex_t lock;       /* protects the fields below */
    _Atomic uint64_t submitted; /* jobs ever submitted to the queue; read without the lock */
    uint64_t done;              /* jobs that have run; later ones are in the ring */
    /*+ profiler: const struct bp_record_sink *sink; */
    struct template_job {
        /*+ profiler: uint64_t tag; */
        void (*run)(const void *args);
        _Alignas(16) unsigned char args[TEMPLATE_ARGS];
    } ring[TEMPLATE_DEPTH];
};

/* Defined in stream.c. template_submit copies args and returns the job's number. template_wait
 * returns BP_OK when that job is done, or BP_ERR_TIMEOUT without a message. */
uint64_t template_submit(struct template_self *self, void (*run)(const void *args),
                         const void *args, size_t size);
enum bp_status template_wait(struct template_self *self, uint64_t job, uint64_t timeout_ns);

/* Defined in memory.c. Returns the pointer by which the device accesses `address` of the allocation
 * with this handle. Host memory has handle NULL, and is accessed by its own address. */
void *template_reach(void *handle, const void *address);
extern const struct bp_kernels template_kernels; /* kernels.c */ /*- graph */
/*+ engine: extern const struct bp_engines template_engines; */
/*+ ccl: extern const struct bp_ccl template_ccl; */
/*+ profiler: extern const struct bp_profilers template_profilers; */
/*+ profiler: uint64_t template_profiler_tag(void); */
/*+ profiler: uint64_t template_profiler_now(void); */
/*+ profiler: void template_profiler_record(struct template_self *self, */
/*+ profiler:                               const struct template_job *job, uint64_t begin_ns); */
/*+ profiler: void run_copy(const void *args); */

/* The callbacks of runtime.h that this plugin implements: template_device_count and so on. */
#define TEMPLATE_CALLBACKS(X) \
    X(device_count) X(device_properties) X(memory_allocate) X(memory_free) \
    X(copy_in) X(copy_out) X(copy_within) X(synchronize) \
    X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_wait)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) template_##name;
TEMPLATE_CALLBACKS(X)
#undef X
