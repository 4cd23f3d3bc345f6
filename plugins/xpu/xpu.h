/* SPDX-License-Identifier: Apache-2.0 */
/* xpu.h: declares the types and functions that the files of the xpu plugin share: the instance, its
 * devices, streams and kernels.
 *
 * Each OpenCL device of version 1.2 or later can be a device of this plugin. Memory is a buffer
 * object: bp_memory.handle is a cl_mem, and addresses are byte offsets in it (BP_DEVICE_HANDLES). A
 * stream is an in-order queue. Each device has its own context: buffers and events of one device
 * cannot be used on another. */
#ifndef XPU_H
#define XPU_H

#include "opencl.h"
#include <backplane/kernel.h>
#include <backplane/profiler.h>
#include <backplane/runtime.h>
#include <dialect/portable.h>
#include <dialect/program_cache.h>
#include <kit/cache.h>
#include <kit/call.h>
#include <kit/guard.h>
#include <kit/stream.h>
#include <pthread.h>
#include <stdbool.h>

enum {
    XPU_UNSTARTED = 16, /* launches that a driver may gather before it must start them */
    XPU_RESULTS = 64, /* true extents that one launch may write */
    XPU_LANES = 256,  /* maximum lanes of a team; some devices and kernels allow fewer */
    XPU_LANES_FEWEST = 64,
};

/* The arguments that are set for a kernel: an argument with the same value in the next launch need
 * not be set again. */
struct xpu_setting {
    bool is_whole;     /* all of them were set successfully */
    uint64_t released; /* number of released buffers at that time: a later buffer may have the
                          handle of a released one */
    unsigned char *args;
    int64_t count, run;
    cl_mem memory[PORTABLE_OPERANDS];
    cl_ulong at[PORTABLE_OPERANDS];
};

/* An entry of a portable kernel. The arguments are state of the kernel object, so they are set, and
 * the kernel is enqueued, under the lock. */
struct xpu_kernel {
    cl_kernel kernel;
    size_t lanes;                 /* of a team, for which the kernel was compiled */
    pthread_mutex_t lock;
    struct xpu_setting set;
};

/* The entries of a family for one type, compiled when one of them is first needed. */
struct xpu_program {
    pthread_mutex_t lock;
    _Atomic(struct xpu_kernel *) kernel; /* one for each entry; NULL: not compiled yet */
};

struct xpu_stream {
    struct kit_stream kit;        /* must be first */
    struct xpu_device *device;
    cl_command_queue queue;
    struct kit_guard guard;       /* its fault words */
    cl_mem results;               /* created when first needed */
    _Atomic uint32_t given;       /* number of launches */
};

struct xpu_event {
    cl_event event; /* NULL: never recorded */
    struct xpu_device *device;
    struct kit_guard_copy copy;   /* of the stream's fault words at that time */
    uint32_t fault[KIT_FAULTS];
};

/* The events of commands while a profiler records: profile.c. */
struct xpu_kept_event;
struct xpu_profile {
    _Atomic bool on;
    struct bp_record_sink sink;
    pthread_mutex_t lock; /* guards all below */
    struct xpu_kept_event *kept;
    size_t n, room;
};

struct xpu_device {
    struct xpu *self;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    uint32_t number;
    size_t lanes;                 /* maximum lanes of a team */
    uint32_t units;               /* compute units, which run teams in parallel */
    double launch_work;           /* maximum work of one launch in additions, about; 0: no limit */
    size_t parameters;            /* maximum size in bytes of a kernel's arguments */
    bool has_f64;                 /* if not, the device has no dtypes that need f64 */
    bool is_processor;            /* a team is one lane, which computes runs of independent
                                     elements */
    bool has_blocks;              /* teams share fast local memory: portable_has_blocks */
    bool has_host_memory;         /* device and host share one memory: pinned buffers stay mapped */
    char options[192];            /* compiler options for the device */
    struct xpu_stream *common;    /* the stream for calls that name none (NULL) */
    struct kit_report report;     /* where faults of its kernels are reported */
    struct kit_streams streams;
    struct xpu_program program[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT];
    pthread_mutex_t fused_lock;
    struct kit_cache fused;       /* the kernels of `fused`: fused.h */
    pthread_mutex_t kept_lock;
    struct kit_cache kept;        /* packed constants: kept.c */
    struct xpu_profile profile;
};

/* An instance. Constant after create, except for the number of released buffers. */
struct xpu {
    const struct bp_host *host;
    const struct xpu_calls *call;
    struct xpu_device *device;
    uint32_t n_device;
    _Atomic uint64_t released;    /* number of released buffers */
};

/* device.c: finds the devices that BP_XPU_DEVICES admits, and implements the callbacks. */
enum bp_status xpu_devices_init(struct xpu *self);
void xpu_devices_finish(struct xpu *self);
enum bp_status xpu_device_count(void *self, uint32_t *out_count);
enum bp_status xpu_device_properties(void *self, uint32_t device,
                                     struct bp_device_properties *out);

/* Whether the device's driver supports the extension. */
bool xpu_device_extends(const struct xpu_device *device, const char *extension);

/* memory.c: allocates buffers and copies memory. */
enum bp_status xpu_memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out);
void xpu_memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory);
/* Releases a buffer; NULL has no effect. */
void xpu_buffer_release(struct xpu *self, cl_mem buffer);
enum bp_status xpu_copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy);
enum bp_status xpu_copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *copy);
enum bp_status xpu_copy_within(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy);

/* stream.c: creates, waits for and destroys streams. */
enum bp_status xpu_stream_create(void *self, uint32_t device, void **out_stream);
void xpu_stream_destroy(void *self, uint32_t device, void *stream);
enum bp_status xpu_synchronize(void *self, uint32_t device, void *stream);
enum bp_status xpu_stream_wait(void *self, uint32_t device, void *stream, void *event);
/* The plugin's stream for a stream of the core: the device's common stream for NULL. */
struct xpu_stream *xpu_stream_of(struct xpu *self, uint32_t device, void *stream);
/* Counts a launch, and starts the launches that the driver has gathered, if `now` is set and after
 * every XPU_UNSTARTED launches. Some drivers start them only when the host waits, and the device
 * would be idle until then. */
void xpu_stream_start(struct xpu_stream *stream, bool now);

/* event.c: records, queries and waits for events. */
enum bp_status xpu_event_create(void *self, uint32_t device, void **out_event);
void xpu_event_destroy(void *self, uint32_t device, void *event);
enum bp_status xpu_event_record(void *self, uint32_t device, void *stream, void *event);
enum bp_status xpu_event_query(void *self, uint32_t device, void *event);
enum bp_status xpu_event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns);

/* profile.c: makes records for profilers. A command is enqueued with xpu_profile_event(s, &event)
 * as its event; if event is then not NULL, xpu_profile_add takes it. kind: enum bp_record_kind;
 * name is constant or a row's. */
extern const struct bp_profilers xpu_profilers;
void xpu_profile_init(struct xpu_device *device);
void xpu_profile_finish(struct xpu_device *device);
static inline cl_event *xpu_profile_event(struct xpu_stream *s, cl_event *room)
{
    *room = NULL;
    return __builtin_expect(atomic_load_explicit(&s->device->profile.on, memory_order_relaxed), 0)
               ? room
               : NULL;
}
void xpu_profile_add(struct xpu_stream *stream, cl_event event, uint32_t kind, const char *name,
                     uint64_t bytes);
/* Hands over the records of commands that have ended. */
void xpu_profile_drain(struct xpu_device *device);

/* fault.c: keeps the words into which kernels write that they found bad values in their inputs:
 * kit/guard.h. */
void xpu_fault_begin(struct xpu_stream *stream);
/* The buffer, and the offset of the word, for a launch of this kernel row. */
enum bp_status xpu_fault_take(struct xpu_stream *stream, const struct bp_kernel *row,
                              struct portable_operand *out);

/* program.c: returns the kernel of an entry, compiled when it is first needed. */
enum bp_status xpu_kernel_get(struct xpu_device *device, enum portable_family family,
                              enum portable_type type, int entry, struct xpu_kernel **out);
void xpu_programs_init(struct xpu_device *device);
void xpu_programs_finish(struct xpu_device *device);
/* The parts of xpu_kernel_get: the compiler options for a type and teams of this many lanes; a
 * program, compiled or from the cache; and a kernel of it. out_code: the driver's code if it did
 * not build the program, otherwise CL_SUCCESS. */
struct portable_source;
void xpu_program_options(const struct xpu_device *device, size_t lanes, enum portable_type type,
                         char *out, size_t size);
enum bp_status xpu_program_load(struct xpu_device *device, const struct portable_source *source,
                                const char *options, cl_program *out, cl_int *out_code);
enum bp_status xpu_kernel_create(struct xpu_device *device, cl_program program, const char *name,
                                 size_t lanes, struct xpu_kernel *out);
void xpu_kernel_destroy(struct xpu *self, struct xpu_kernel *kernel);

/* key.c: builds a key from all that a program compiled with these options depends on. */
struct program_key xpu_cache_key(const struct xpu_device *device,
                                 const struct portable_source *source, const char *options);

/* Traces a call of OpenCL, and writes the message if it has failed. xpu_check_work: for a call that
 * reports how work has ended. xpu_fail: for a call that has failed, whatever its code. */
enum bp_status xpu_check(const struct xpu_device *device, const char *function, cl_int code);
enum bp_status xpu_check_work(const struct xpu_device *device, const char *function, cl_int code);
enum bp_status xpu_fail(const struct xpu_device *device, const char *function, cl_int code);

/* Call a function of OpenCL for a device. */
#define XPU_CALL(device, name, ...) \
    xpu_check(device, #name, (device)->self->call->name(__VA_ARGS__))
#define XPU_WORK(device, name, ...) \
    xpu_check_work(device, #name, (device)->self->call->name(__VA_ARGS__))

#endif
