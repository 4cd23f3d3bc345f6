/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h: declares the types and functions that the host code of the GPU plugins shares: devices,
 * streams, driver calls and callbacks. Each plugin (cuda, hip, sim) compiles this code once, for
 * its own driver. The plugin opens the driver's library at run time: calls.def lists the driver's
 * functions, and a target (target.c of each plugin) holds the driver's names and constants.
 * GPU_NAME is the name of the plugin. */
#ifndef GPU_H
#define GPU_H

#include <backplane/ccl.h>
#include <backplane/capture.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <dialect/portable.h>
#include <kit/cache.h>
#include <kit/call.h>
#include <kit/context.h>
#include <kit/library.h>
#include <kit/nodes.h>
#include <kit/stream.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The type by which a call of the driver names the context of a device: a handle, but for HIP the
 * device's number (-DGPU_WHERE=int). */
#ifndef GPU_WHERE
#define GPU_WHERE void *
#endif

/* The driver's functions, by their names in calls.def, and the number of each function. */
struct gpu_calls {
#define CALL(name, cuda, hip, parameters) int (*name) parameters;
#define CALL_OPTIONAL(result, name, cuda, hip, parameters) result (*name) parameters;
#include "calls.def"
};
enum gpu_call {
#define CALL(name, cuda, hip, parameters) GPU_CALL_##name,
#include "calls.def"
    GPU_CALLS,
};

/* Error codes that have the same number in all drivers. */
enum {
    GPU_SUCCESS = 0,
    GPU_SHUT_DOWN = 4, /* the process exits: the driver has already freed everything */
    GPU_INVALID_IMAGE = 200,
    GPU_NO_IMAGE = 209,
    GPU_INVALID_PTX = 218,
    GPU_NO_PTX_COMPILER = 221,
    GPU_NEWER_PTX = 222,
    GPU_PTX_DISABLED = 223,
    GPU_NOT_READY = 600,
    GPU_REACHED_ALREADY = 704,
    GPU_UNKNOWN = 999,
};

/* Flags that have the same value in all drivers. */
enum {
    GPU_PINNED = 3,       /* of pinned memory: every device can use it */
    GPU_MANAGED = 1,      /* of managed memory: every stream may use it */
    GPU_STREAM_ALONE = 1, /* of a stream: it does not wait for the driver's default stream */
    GPU_NO_TIMING = 2,    /* of an event: it records no times */
    GPU_EVENT_BLOCKS = 1, /* of an event: a thread that waits for the event sleeps and does not
                             spin */
    GPU_WAITS_BLOCK = 4,  /* of a context: all other waits sleep too */
};

/* Libraries of the vendors; see vendor.h. */
enum gpu_vendor_id {
    GPU_VENDOR_CUBLASLT,
    GPU_VENDOR_HIPBLASLT,
    GPU_VENDOR_CUDNN,
    GPU_VENDOR_ROCBLAS,
    GPU_VENDOR_NVRTC,
    GPU_VENDOR_HIPRTC,
    GPU_VENDOR_CCL,
    GPU_VENDOR_XBLAS,
    GPU_VENDOR_CUPTI,
    GPU_VENDOR_ROCTRACER,
    GPU_VENDOR_NVTX,
    GPU_VENDOR_ROCTX,
    GPU_VENDORS,
};

/* The functions by which a target itself does what its driver's functions cannot. */
struct gpu_own {
    struct gpu_calls call;           /* used instead of the driver's functions; NULL: the driver's
                                        function. gpu_target.symbol is for messages then */
    const struct kit_symbol *symbol; /* further functions of the driver's library, which those
                                        functions call, and the table that receives them */
    void **function;
    int n;
    bool (*fits)(const char *path);  /* whether the library in this file is the driver's and not
                                        another vendor's of the same name */
    const char *unfit;               /* the reason otherwise */
};

/* The names and constants that differ between drivers. */
struct gpu_target {
    const char *const *libraries;    /* file names of the driver's library, tried in order; ends
                                        with NULL */
    const char *no_driver, *no_device; /* the reasons in messages when the plugin is absent */
    const char *nodes;               /* the device nodes that a process must be able to use, for
                                        kit_nodes_advice */
    const char *lost;                /* advice for a lost device, as the end of a message; NULL: the
                                        device only has to be opened again */
    const char *driver;              /* "CUDA", the driver's name in device properties and
                                        messages */
    const char *ptx;                 /* the versions of the images' PTX and of its compiler, for
                                        messages; NULL: images have no PTX */
    int major, minor;                /* the divisors that split a driver's version number */
    const char *symbol[GPU_CALLS];
    int units;                       /* the attribute that holds the number of a device's units */
    int capability[2];               /* the attributes with the two numbers of the architecture (9
                                        and 0 of sm_90); 0: the architecture's name is in the
                                        description of the device instead */
    int managed[2];                  /* the attributes that report whether the device has managed
                                        memory, and whether the host may use it while kernels run */
    const char *arch;                /* the prefix of an architecture's name: "sm_", "gfx" */
    const char *targets;             /* the architectures of the images, as given in the build's
                                        options */
    uint32_t dlpack_type;            /* the DLPack device type of the device's memory */
    void *end;                       /* the mark that ends the parameter list of a launch */
    const char *driver_folders;      /* further folders with the driver's libraries, in the format
                                        of LD_LIBRARY_PATH; a folder may be a glob pattern and may
                                        begin with an environment variable: "$CONDA_PREFIX/lib" */
    const char *folders;             /* folders of the other libraries, same format */
    const char *const *vendor[GPU_VENDORS]; /* their file names, as `libraries` */

    /* Returns image number `which` of the kernels of a family for a type, or NULL after the last
     * image. The device accepts one of the images. */
    const void *(*image)(enum portable_family family, enum portable_type type, int which);

    const struct gpu_own *own; /* or NULL */
};
extern const struct gpu_target gpu_target;

struct gpu;
struct gpu_stream;

enum { GPU_ARCH = 64 };

/* A device. The first call that needs the device's context opens the device. */
struct gpu_device {
    struct gpu *gpu;
    uint32_t index;
    int number;                /* the device's number in the driver */
    char arch[GPU_ARCH];       /* "sm_90", "gfx90a:sramecc+:xnack-"; "": unknown */
    uint32_t units;
    atomic_bool open;
    struct kit_report report;  /* where faults of the device's kernels are reported */
    pthread_mutex_t lock;      /* guards opening; held only briefly */
    pthread_mutex_t loading;   /* guards modules and library handles, which take seconds to create;
                                  never held together with `lock` */
    pthread_mutex_t whole;     /* held while a thread waits for the whole device or captures a
                                  stream: a driver does not accept both at the same time */
    void *context;
    struct kit_streams streams;
    _Atomic uint64_t n_result; /* launches so far that return results to the host */
    _Atomic uint64_t peers;    /* mask of the devices (below 64) for whose memory this device has
                                  requested peer access */
    void *vendor[GPU_VENDORS]; /* handles of vendors' libraries */
    bool vendor_failed[GPU_VENDORS];
    _Atomic(void *) spare[GPU_VENDORS]; /* handles for a captured stream without its own handle */
    atomic_bool captured;      /* one of the device's streams is being captured */
    void *chosen;              /* algorithms of matrix products, by shape: blaslt_choice.c */
    struct kit_cache graphs;   /* cuDNN's graphs, guarded by `loading`: cudnn_kept.c */
    struct rtc *rtc;           /* kernels compiled at run time, guarded by `compiling`:
                                  rtc_kernel.c */
    pthread_mutex_t compiling; /* held while a kernel is compiled; `loading` is not held then */
    void *module[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT];
    _Atomic(void *) function[PORTABLE_ENTRIES][PORTABLE_TYPES_COUNT];
};

/* One instance of the plugin. */
struct gpu {
    const struct bp_host *host;
    struct gpu_calls call;
    const char *lacks; /* a driver function for captures that is missing, or NULL */
    int version;
    uint32_t sought, there; /* masks of libraries: searched for; found by that search */
    bool blocks;        /* waits sleep: the setting BP_<PLUGIN>_WAIT */
    uint32_t n_device;         /* devices that the plugin has images for */
    uint32_t n_found;          /* all devices of the driver: the size of the array */
    struct gpu_device *device;
};

/* The words in pinned memory that the kernels of a stream write for the host. */
enum { GPU_RESULTS = 62 };
struct gpu_words {
    int64_t result[GPU_RESULTS];
    uint32_t fault[KIT_FAULTS];
};

/* The address that receives a result once the host has waited for its launch. */
struct gpu_result {
    int64_t *to;     /* NULL: no caller waits for the result */
    uint64_t launch; /* number among the device's launches with results; UINT64_MAX: the launch is
                        not made yet */
};

/* Spans of pinned memory through which small copies go to the device, used round robin. The host
 * reads the caller's memory immediately, so it need not wait for the stream. */
enum { GPU_STAGES = 4, GPU_STAGE = 64 << 10 };

struct gpu_stream {
    struct kit_stream kit;     /* must be first; its lock guards all fields below */
    struct gpu_device *device;
    void *raw;                 /* the driver's stream */
    struct gpu_words *words;
    struct gpu_result result[GPU_RESULTS]; /* a ring; number i is at i % GPU_RESULTS */
    uint64_t results_taken, results_given;
    char *stage;               /* GPU_STAGES spans of GPU_STAGE bytes */
    void *passed[GPU_STAGES];  /* the event after the last copy from each span */
    unsigned next_stage;
    void *vendor[GPU_VENDORS]; /* handles of libraries that need one handle for each stream */
    uint32_t profiled;         /* its number in profile.c; 0: none yet */
    uint32_t traced_context, traced_number; /* the tracer's numbers; 0: unknown */
};

/* library.c: loads the driver's functions. BP_ERR_ABSENT: there is no driver. */
enum bp_status gpu_library_open(struct gpu *gpu);

/* Converts the code that a driver function returned into a status. For a code other than 0, writes
 * an error message with the function's symbol. device: NULL if the call concerns no device. */
enum bp_status gpu_check(const struct gpu *gpu, const struct gpu_device *device, enum gpu_call call,
                         int code);
/* The same for a function of the target alone, which does what `call` does. */
enum bp_status gpu_check_named(const struct gpu *gpu, const struct gpu_device *device,
                               enum gpu_call call, const char *function, int code);
/* The same for calls that cannot return an error: logs the reason, except for GPU_SHUT_DOWN. */
void gpu_note(const struct gpu_device *device, enum gpu_call call, int code);

/* Describes a call of the driver or of a library that has returned, and traces it. device: NULL if
 * the call concerns no device. */
struct kit_call gpu_call_made(const struct gpu *gpu, const struct gpu_device *device,
                              const char *function, int code);

/* Call a function of the driver for a device. */
#define GPU_CALL(device, name, ...) \
    gpu_check((device)->gpu, device, GPU_CALL_##name, (device)->gpu->call.name(__VA_ARGS__))
#define GPU_NOTE(device, name, ...) \
    gpu_note(device, GPU_CALL_##name, (device)->gpu->call.name(__VA_ARGS__))

/* device.c: opens the device if necessary and makes its context current in the calling thread,
 * until `caller` restores the previous context. */
enum bp_status gpu_device_use(struct gpu *gpu, uint32_t index, struct kit_context *caller,
                              struct gpu_device **out);
/* The same for a device that is already open, where the caller cannot return a failure: logs it. */
struct gpu_device *gpu_device_reuse(struct gpu *gpu, uint32_t index, struct kit_context *caller);
/* The value by which the driver's calls name the device's context. */
GPU_WHERE gpu_device_where(const struct gpu_device *device);
/* Queries the architecture of a device of which only the driver's number is known. */
void gpu_device_identify(struct gpu_device *device);
/* Waits for all work of the device. Returns the driver's code. */
int gpu_device_wait(struct gpu_device *device);
void gpu_device_close(struct gpu_device *device);

/* stream.c: waits for the stream. If the driver cannot, waits for the whole device: until the
 * device's work has ended, it may use memory that the caller is about to free. */
enum bp_status gpu_stream_join(struct gpu_stream *stream);

/* Called when the stream has been waited for, with this outcome. Copies results to the callers that
 * wait for them, and returns the failure that kernels reported. */
enum bp_status gpu_stream_collect(struct gpu_stream *stream, enum bp_status outcome);

/* Reports the faults of the stream's launches up to number `until`, which have ended. */
enum bp_status gpu_stream_faults(struct gpu_stream *stream, uint64_t until);

/* Returns a word of the stream for a result that is copied to `to` in the end; NULL: no word is
 * free. gpu_stream_launched: the launch that sets the result has been made, so a wait for the whole
 * device that begins from now on covers the launch. */
int64_t *gpu_stream_result(struct gpu_stream *stream, int64_t *to);
void gpu_stream_launched(struct gpu_stream *stream);
/* No caller waits any more for the results of the n addresses from `to` on. */
void gpu_stream_forget(struct gpu_stream *stream, const int64_t *to, uint32_t n);

/* arch.c: whether a device can load one of the images that are compiled for these targets, "80,
 * 90+ptx". True if the architecture is unknown. */
bool gpu_arch_fits(const char *arch, const char *targets);
/* Finds the first name of an architecture in a text, which may contain zero bytes; "": there is
 * none. */
void gpu_arch_find(const char *text, size_t size, const char *prefix, char out[GPU_ARCH]);

/* event.c: the flags with which the plugin creates events of the driver; and an event's driver
 * handle. */
unsigned gpu_event_flags(const struct gpu *gpu);
void *gpu_event_raw(void *event);

/* portable.c: unloads the device's modules. A target whose device has no compiler for kernels is
 * built with GPU_WITHOUT_KERNELS: its rows are those of the vendor's libraries. */
void gpu_modules_unload(struct gpu_device *device);
/* The lanes of a team. */
enum { GPU_LANES = 256 };
/* Returns the number of teams for a launch of `count` elements, above 0, of which a team computes
 * `each` at the same time. */
unsigned gpu_teams(const struct gpu_device *device, int64_t count, int64_t each);
/* Launches a function with `size` bytes of parameters. */
enum bp_status gpu_launch(struct gpu_device *device, struct gpu_stream *stream, void *function,
                          unsigned teams, void *parameters, size_t size);

/* rtc_kernel.c: unloads the kernels that were compiled for the device. */
void gpu_rtc_unload(struct gpu_device *device);

/* The callbacks of runtime.h: gpu_device_count and so on. */
#define GPU_CALLBACKS(X) \
    X(device_count) X(device_properties) X(memory_allocate) X(memory_free) \
    X(copy_in) X(copy_out) X(copy_within) X(synchronize) X(stream_create) X(stream_destroy) \
    X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_wait) X(stream_wait) \
    X(memory_info) X(copy_peer)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) gpu_##name;
GPU_CALLBACKS(X)
#undef X

/* The callbacks of ccl.h. A target without a library of collectives is built with GPU_WITHOUT_CCL:
 * the core then moves data through host memory. */
#define GPU_CCL_CALLBACKS(X) \
    X(unique_id) X(comm_create) X(comm_destroy) X(comm_abort) X(comm_error) X(all_reduce) \
    X(reduce) X(broadcast) X(all_gather) X(reduce_scatter) X(send) X(recv) X(group_begin) \
    X(group_end) X(version) X(comm_begin) X(comm_joined)
#define X(name) __typeof__(*((struct bp_ccl *)0)->name) gpu_ccl_##name;
GPU_CCL_CALLBACKS(X)
#undef X

/* The callbacks of capture.h. */
#define GPU_GRAPHS(X) \
    X(capture_begin) X(capture_end) X(capture_abort) X(replay) X(recording_destroy)
#define X(name) __typeof__(*((struct bp_captures *)0)->name) gpu_##name;
GPU_GRAPHS(X)
#undef X

#endif
