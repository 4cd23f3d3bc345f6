/* SPDX-License-Identifier: Apache-2.0 */
/* mlu.h: declares the types and functions that the files of the mlu plugin share: the instance, its
 * devices, streams and events.
 *
 * The plugin runs on Cambricon's runtime CNRT; operators are calls of CNNL (cnnl.h), collectives
 * those of CNCL (ccl.c). The three libraries are opened at run time. A stream is a queue of CNRT,
 * an event a notifier. Queues, notifiers and memory belong to the device that is current in the
 * calling thread: each callback makes its device current, and restores the caller's. */
#ifndef MLU_H
#define MLU_H

#include <backplane/capture.h>
#include <backplane/ccl.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <kit/call.h>
#include <kit/context.h>
#include <kit/guard.h>
#include <kit/library.h>
#include <kit/nodes.h>
#include <kit/stream.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The device nodes of MLUs. */
#define MLU_NODES "/dev/cambricon_[cd]*"

struct mlu_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#define CALL_OR_NONE CALL
#include "cnrt.def"
};

enum {
    MLU_SUCCESS = 0,
    MLU_NOT_READY = 1,
    MLU_UNKNOWN = 999991,
    MLU_NOTIFIER_NO_TIME = 4, /* CNRT_NOTIFIER_DISABLE_TIMING_ALL */
    MLU_CAPTURE_RELAXED = 2,  /* cnrtQueueCaptureModeRelaxed */
    MLU_STAGES = 4,           /* pinned buffers of a stream for copies from the host */
    MLU_STAGE = 256 << 10,    /* bytes of each */
};

struct mlu_stream {
    struct kit_stream kit; /* must be first; its lock guards the stages and the handle */
    struct mlu_device *device;
    void *raw;                /* the queue */
    void *handle;             /* of CNNL, with this queue; created by the first launch */
    struct kit_guard guard;   /* its fault words */
    char *stage;              /* MLU_STAGES buffers in pinned memory; created when first needed */
    void *passed[MLU_STAGES]; /* notifiers behind the copies from the buffers */
    unsigned next_stage;
};

struct mlu_event {
    void *raw; /* the notifier */
    struct mlu_device *device;
    bool recorded;
    struct kit_guard_copy copy; /* of the stream's fault words at that time */
    uint32_t fault[KIT_FAULTS];
};

struct mlu_device {
    struct mlu *self;
    uint32_t number;
    bool has_bf16;
    struct kit_report report;
    struct kit_streams streams;
    pthread_mutex_t whole;    /* held while a stream is captured, and in waits for all streams */
    pthread_mutex_t planning; /* guards the two fields below */
    void *plan_queue, *plan_handle; /* of CNNL, for sizes of workspaces */
};

/* An instance. Constant after create. */
struct mlu {
    const struct bp_host *host;
    const struct mlu_calls *call;
    int (*copy)(void *dst, void *src, size_t size, void *queue, int direction);
    struct mlu_device *device;
    uint32_t n_device;
    int version[3];
    struct mlu_meetings *meetings; /* meet.c */
};

/* library.c: opens CNRT's library, and translates its codes. The instance needs host only. */
enum bp_status mlu_library_open(struct mlu *self);
/* Traces a call that has returned, and writes the message if it has failed. device: may be NULL.
 * mlu_check_wait: for functions whose codes report how earlier work has ended. mlu_note: logs a
 * failure that the caller cannot return. */
enum bp_status mlu_check(const struct mlu *self, const struct mlu_device *device,
                         const char *function, int code);
enum bp_status mlu_check_wait(const struct mlu_device *device, const char *function, int code);
void mlu_note(const struct mlu_device *device, const char *function, int code);
#define MLU_CALL(device, name, ...) \
    mlu_check((device)->self, device, #name, (device)->self->call->name(__VA_ARGS__))
#define MLU_WAIT(device, name, ...) \
    mlu_check_wait(device, #name, (device)->self->call->name(__VA_ARGS__))
#define MLU_NOTE(device, name, ...) mlu_note(device, #name, (device)->self->call->name(__VA_ARGS__))

/* device.c: finds the devices, and makes one current until the end of the caller's block. */
enum bp_status mlu_devices_init(struct mlu *self);
void mlu_devices_finish(struct mlu *self);
enum bp_status mlu_device_use(struct mlu *self, uint32_t device, struct kit_context *caller,
                              struct mlu_device **out);
/* The same for callbacks that cannot fail, which log a failure. */
struct mlu_device *mlu_device_reuse(struct mlu *self, uint32_t device, struct kit_context *caller);

/* copy.c: copies from the host to device memory, and waits for the queue. */
enum bp_status mlu_copy_constant(struct mlu_device *device, void *queue, void *dst, const void *src,
                                 uint64_t size);

/* stream.c: waits for a stream, and collects the faults of its launches. */
enum bp_status mlu_stream_join(struct mlu_stream *stream);
/* fault.c: keeps the words into which launches write that they found bad values in their inputs:
 * kit/guard.h. */
void mlu_fault_begin(struct mlu_stream *stream);
/* The word for a launch of this kernel row. */
enum bp_status mlu_fault_take(struct mlu_stream *stream, const struct bp_kernel *row,
                              uint32_t **out);

/* The callbacks of the tables; each is mlu_<name>, and mlu_ccl_<name> for collectives. */
#define MLU_RUNTIME(X) \
    X(device_count, (void *self, uint32_t *out_count)) \
    X(device_properties, (void *self, uint32_t device, struct bp_device_properties *out)) \
    X(memory_allocate, \
      (void *self, uint32_t device, uint32_t space, uint64_t size, struct bp_memory *out)) \
    X(memory_info, (void *self, uint32_t device, uint64_t *out_free, uint64_t *out_total)) \
    X(copy_in, (void *self, uint32_t device, void *stream, const struct bp_copy *copy)) \
    X(copy_out, (void *self, uint32_t device, void *stream, const struct bp_copy *copy)) \
    X(copy_within, (void *self, uint32_t device, void *stream, const struct bp_copy *copy)) \
    X(copy_peer, \
      (void *self, uint32_t device, void *stream, uint32_t to, const struct bp_copy *copy)) \
    X(synchronize, (void *self, uint32_t device, void *stream)) \
    X(stream_create, (void *self, uint32_t device, void **out_stream)) \
    X(stream_wait, (void *self, uint32_t device, void *stream, void *event)) \
    X(event_create, (void *self, uint32_t device, void **out_event)) \
    X(event_record, (void *self, uint32_t device, void *stream, void *event)) \
    X(event_query, (void *self, uint32_t device, void *event)) \
    X(event_wait, (void *self, uint32_t device, void *event, uint64_t timeout_ns))
#define MLU_RUNTIME_ENDS(X) \
    X(memory_free, (void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)) \
    X(stream_destroy, (void *self, uint32_t device, void *stream)) \
    X(event_destroy, (void *self, uint32_t device, void *event))
#define MLU_CAPTURES(X) \
    X(capture_begin, (void *self, uint32_t device, void *stream)) \
    X(capture_end, (void *self, uint32_t device, void *stream, void **out_recording)) \
    X(replay, (void *self, uint32_t device, void *recording, void *stream))
#define MLU_CAPTURE_ENDS(X) \
    X(capture_abort, (void *self, uint32_t device, void *stream)) \
    X(recording_destroy, (void *self, uint32_t device, void *recording))
#define X(name, parameters) enum bp_status mlu_##name parameters;
MLU_RUNTIME(X)
MLU_CAPTURES(X)
#undef X
#define X(name, parameters) void mlu_##name parameters;
MLU_RUNTIME_ENDS(X)
MLU_CAPTURE_ENDS(X)
#undef X

#endif
