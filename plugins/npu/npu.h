/* SPDX-License-Identifier: Apache-2.0 */
/* npu.h: declares what the files of the plugin for Huawei's Ascend share. All of CANN is opened at
 * run time: calls.def and nnop.def list its functions, and rows name the functions of operators
 * (call.h). The meaning of numbers is in npu_cann. */
#ifndef NPU_H
#define NPU_H

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
#include <kit/staging.h>
#include <kit/stream.h>
#include <stdatomic.h>

/* The device nodes of Ascend devices. */
#define NPU_NODES "/dev/davinci*"

struct npu_calls {
#define CALL(result, name, parameters) result(*name) parameters;
#define CALL_OR_NONE CALL
#include "calls.def"
};
struct npu_nnop {
#define CALL(result, name, parameters) result(*name) parameters;
#define CALL_OR_NONE CALL
#include "nnop.def"
};

enum npu_cann {
    NPU_MAJOR = 1,             /* of AscendCL, in CANN 7 to 9 */
    NPU_CONTEXT_NULL = 107002, /* codes: no context is current */
    NPU_REPEATED = 100002,     /* aclInit was called before */
    NPU_HBM = 1,               /* of aclrtGetMemInfo; 0: DDR, the memory of small products */
    NPU_HUGE_FIRST = 0,        /* of aclrtMalloc */
    NPU_HOST_TO_DEVICE = 1,    /* of copies */
    NPU_DEVICE_TO_HOST = 2,
    NPU_DEVICE_TO_DEVICE = 3,
    NPU_EVENT_SYNC = 1,     /* of events: streams and the host can wait for it */
    NPU_EVENT_RECORDED = 1, /* of aclrtQueryEventStatus: the event is reached */
    NPU_INFINITIES = 1,     /* of aclrtSetDeviceSatMode: results that are too large are infinite */
    NPU_AI_CORES = 0,       /* of aclGetDeviceCapability */
    NPU_CAPTURE_RELAXED = 2,
    NPU_ALIGNMENT = 64
};

/* A function of an operator: its two phases. */
struct npu_function {
    struct npu_function *next;
    void *sizes; /* aclnnXGetWorkspaceSize, whose arguments differ */
    int (*run)(void *workspace, uint64_t size, void *executor, void *stream);
    char name[]; /* "aclnnAdd" */
};

enum {
    NPU_FUNCTION_LISTS = 256,
    NPU_OPERATOR_LIBRARIES = 4
};

/* A device. The first call that needs its context opens it. */
struct npu_device {
    struct npu *npu;
    uint32_t index;
    atomic_bool open;
    pthread_mutex_t lock; /* guards opening */
    void *context;
    void *former;     /* the context before the device was opened again */
    atomic_bool lost; /* its work has failed: it works again after a reset */
    struct kit_report report;
    struct kit_streams streams;
    _Atomic(struct npu_stream *) captured; /* the stream that is captured now */
    _Atomic uint64_t peers; /* mask of the devices with which peer access has been enabled */
};

/* An instance of the plugin. */
struct npu {
    const struct bp_host *host;
    const struct npu_calls *call;
    const struct npu_nnop *nnop; /* NULL: no rows */
    char why_no_rows[KIT_WHY_SIZE];
    void *operators[NPU_OPERATOR_LIBRARIES]; /* libraries of operators; the first is NULL: none */
    struct npu_function *function[NPU_FUNCTION_LISTS];
    pthread_mutex_t functions; /* guards the lists of functions */
    char product[64];          /* "Ascend910B3" */
    int32_t version[3];
    bool hf32;    /* the setting BP_NPU_HF32: products of f32 may round factors */
    bool repeats; /* executors can be used again */
    uint32_t n_device;
    struct npu_device *device;
};

struct npu_stream {
    struct kit_stream kit; /* must be first */
    struct npu_device *device;
    void *raw;
    struct kit_guard guard;     /* its fault words */
    pthread_mutex_t waiting;    /* guards the next field */
    struct kit_guard_copy copy; /* of the fault words, for waits; in pinned memory */
    struct kit_staging staging; /* guarded by the kit's lock */
};

/* library.c: opens the libraries. BP_ERR_ABSENT: no runtime. */
enum bp_status npu_library_open(struct npu *npu);
/* Opens another library of CANN: the end of the name of the setting that can name its file
 * ("HCCL"), and the file. library->why has the reason of a failure. */
enum bp_status npu_library_load(struct kit_library *library, const char *setting, const char *name);
/* The function of an operator by its name without "aclnn"; NULL: no library has it. */
const struct npu_function *npu_function_find(struct npu *npu, const char *name);

/* Converts a code into a status; writes the message for a code other than 0. device: NULL if the
 * call concerns none. */
enum bp_status npu_check(const struct npu *npu, struct npu_device *device, const char *function,
                         int code);
/* The same where the caller cannot return a failure: logs it, unless the device is known to be
 * lost. */
void npu_note(struct npu_device *device, const char *function, int code);
#define NPU_CALL(device, name, ...) \
    npu_check((device)->npu, device, #name, (device)->npu->call->name(__VA_ARGS__))
#define NPU_NOTE(device, name, ...) npu_note(device, #name, (device)->npu->call->name(__VA_ARGS__))

/* device.c: opens the device if necessary, and makes its context current in the calling thread
 * until `caller` restores the previous one. */
enum bp_status npu_device_use(struct npu *npu, uint32_t index, struct kit_context *caller,
                              struct npu_device **out);
/* The same for an open device where the caller cannot return a failure. */
struct npu_device *npu_device_reuse(struct npu *npu, uint32_t index, struct kit_context *caller);
void npu_device_close(struct npu_device *device);
bool npu_has_bf16(const struct npu *npu);

/* stream.c: makes an event of CANN, for waits. */
enum bp_status npu_event_make(struct npu_device *device, void **out);
/* memory.c: frees the pinned memory through which the stream's copies went. */
void npu_staging_end(struct npu_stream *stream);

/* stream.c: waits for the work of a stream. If the wait itself fails, work may still run, and write
 * to memory that the caller owns as soon as this function returns: so it waits once more. */
enum bp_status npu_stream_drain(struct npu_stream *stream);
/* The address of the word into which a launch of the row writes that it found bad values. */
uint32_t *npu_stream_word(struct npu_stream *stream, const struct bp_kernel *kernel);

/* The callbacks of runtime.h. */
#define NPU_CALLBACKS(X) \
    X(device_count) \
    X(device_properties) \
    X(memory_allocate) \
    X(memory_free) \
    X(copy_in) \
    X(copy_out) \
    X(copy_within) \
    X(synchronize) \
    X(stream_create) \
    X(stream_destroy) \
    X(event_create) \
    X(event_destroy) \
    X(event_record) X(event_query) X(event_wait) X(stream_wait) X(memory_info) X(copy_peer)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) npu_##name;
NPU_CALLBACKS(X)
#undef X

/* The callbacks of capture.h. */
#define NPU_CAPTURES(X) \
    X(capture_begin) X(capture_end) X(capture_abort) X(replay) X(recording_destroy)
#define X(name) __typeof__(*((struct bp_captures *)0)->name) npu_##name;
NPU_CAPTURES(X)
#undef X

/* The callbacks of ccl.h, and the bytes of HCCL's ids. */
enum {
    NPU_CCL_ID = 4108
};
#define NPU_CCL(X) \
    X(comm_create) \
    X(comm_destroy) \
    X(comm_abort) \
    X(comm_error) \
    X(all_reduce) \
    X(reduce) \
    X(broadcast) \
    X(all_gather) \
    X(reduce_scatter) \
    X(send) X(recv) X(group_begin) X(group_end) X(all_to_all) X(version) X(unique_id_long)
#define X(name) __typeof__(*((struct bp_ccl *)0)->name) npu_ccl_##name;
NPU_CCL(X)
#undef X

extern const struct bp_kernels npu_kernels; /* rows.c */

#endif
