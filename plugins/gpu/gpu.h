/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h: what the files of the plugins for GPUs share. They are compiled once for each driver
 * (CUDA's, HIP's, the simulator's), which is found at run time: calls.def lists its functions, and
 * a target (target.c of each plugin) says how it is called and what differs. GPU_NAME is the
 * plugin's name. */
#ifndef GPU_H
#define GPU_H

#include <backplane/ccl.h>
#include <backplane/capture.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <dialect/portable.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What names a device's context in calls between two: -DGPU_WHERE=int for HIP. */
#ifndef GPU_WHERE
#define GPU_WHERE void *
#endif

/* The driver's functions, by their names in calls.def, and their numbers. */
struct gpu_calls {
#define CALL(name, cuda, hip, parameters) int (*name) parameters;
#define CALL_ASIDE(result, name, cuda, hip, parameters) result (*name) parameters;
#include "calls.def"
};
enum gpu_call {
#define CALL(name, cuda, hip, parameters) GPU_CALL_##name,
#include "calls.def"
    GPU_CALLS,
};

/* Codes that the drivers share. */
enum {
    GPU_SUCCESS = 0,
    GPU_SHUT_DOWN = 4, /* the process exits: the driver has given all back already */
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

/* Flags that they share. */
enum {
    GPU_PINNED = 3,       /* of pinned memory: every device reaches it */
    GPU_MANAGED = 1,      /* of managed memory: every stream may use it */
    GPU_STREAM_ALONE = 1, /* of a stream: it does not wait for the driver's own */
    GPU_NO_TIMING = 2,    /* of an event */
    GPU_EVENT_BLOCKS = 1, /* of an event: a wait for it sleeps, where it would spin */
    GPU_WAITS_BLOCK = 4,  /* of a context: so do other waits */
};

/* Libraries of vendors: vendor.h. */
enum gpu_vendor_id {
    GPU_VENDOR_CUBLASLT,
    GPU_VENDOR_HIPBLASLT,
    GPU_VENDOR_CUDNN,
    GPU_VENDOR_ROCBLAS,
    GPU_VENDOR_CCL,
    GPU_VENDORS,
};

/* What differs between drivers. */
struct gpu_target {
    const char *const *libraries;    /* names of the driver's, tried in order; NULL at the end */
    const char *no_driver, *no_device; /* why the plugin is absent */
    const char *lost;                /* what helps when the device is lost, as the end of a
                                        message; NULL: to open it again */
    const char *driver;              /* "CUDA", for a report */
    const char *ptx;                 /* the version of the PTX in images, with its compiler's; NULL:
                                        they have none */
    int major, minor;                /* what a version number is divided by for each */
    const char *symbol[GPU_CALLS];
    int units;                       /* the attribute that says how many units a device has */
    int capability[2];               /* those of the numbers that name its architecture, 9 and 0;
                                        0: its name is somewhere in its description */
    int managed[2];                  /* those that say whether it has managed memory, and whether
                                        the host may use that while kernels run */
    const char *arch;                /* what such a name begins with: "sm_", "gfx" */
    const char *targets;             /* what images are compiled for, as the build's options say */
    uint32_t dlpack_type;            /* of its memory */
    void *end;                       /* ends a launch's list of what its parameters are */
    const char *driver_folders;      /* where its libraries are besides: as LD_LIBRARY_PATH is; a
                                        folder may be a pattern, and begin with a variable of the
                                        environment: "$CONDA_PREFIX/lib" */
    const char *folders;             /* where vendors put other libraries: the same */
    const char *const *vendor[GPU_VENDORS]; /* names of their files, as `libraries` */

    /* The image number `which` of a family's kernels for a type: the device takes one of them.
     * NULL: there are no more. */
    const void *(*image)(enum portable_family family, enum portable_type type, int which);
};
extern const struct gpu_target gpu_target;

struct gpu;
struct gpu_stream;

enum { GPU_ARCH = 64 };

/* A device. It is opened by the first call that needs its context. */
struct gpu_device {
    struct gpu *gpu;
    uint32_t index;
    int number;                /* the driver's */
    char arch[GPU_ARCH];       /* "sm_90", "gfx90a:sramecc+:xnack-"; "": unknown */
    uint32_t units;
    atomic_bool open;
    pthread_mutex_t lock;      /* of opening, and of the list of streams: held for a moment only */
    pthread_mutex_t loading;   /* of modules and of libraries' handles, whose making takes seconds;
                                  never held together with lock */
    pthread_mutex_t whole;     /* held while all of the device is waited for, or a stream is
                                  captured: a driver does not take both at once */
    void *context;
    struct gpu_stream *streams;
    uint64_t n_stream;         /* made so far */
    _Atomic uint64_t n_result; /* launches so far whose results go to the host */
    _Atomic uint64_t peers;    /* mask of devices (below 64) whose memory it has asked to reach */
    void *vendor[GPU_VENDORS]; /* handles of libraries */
    bool vendor_failed[GPU_VENDORS];
    _Atomic(void *) spare[GPU_VENDORS]; /* handles for a stream that is captured and has none */
    atomic_bool captured;      /* one of its streams is */
    void *chosen;              /* algorithms of products, by shape: blaslt_choice.c */
    struct cudnn_kept *graphs; /* cuDNN's, a list, under the lock of loading: cudnn_kept.c */
    void *module[PORTABLE_FAMILIES][PORTABLE_TYPES_COUNT];
    _Atomic(void *) function[PORTABLE_ENTRIES][PORTABLE_TYPES_COUNT];
};

/* An instance. */
struct gpu {
    const struct bp_host *host;
    struct gpu_calls call;
    const char *lacks; /* a function of captures that the driver does not have, or NULL */
    int version;
    uint32_t sought, there; /* masks of libraries: looked for, and found then; while it is loaded */
    bool blocks;        /* waits sleep: BP_<PLUGIN>_WAIT */
    uint32_t n_device;         /* those that images are for */
    uint32_t n_found;          /* all: the size of the array */
    struct gpu_device *device;
};

/* What a stream's kernels write for the host, in pinned memory. */
enum { GPU_RESULTS = 62, GPU_FAULTS = 64 };
struct gpu_words {
    int64_t result[GPU_RESULTS];
    uint32_t fault[GPU_FAULTS];
};

/* Whose a fault word is. */
struct gpu_fault {
    const char *row;      /* NULL: nobody's yet; words are given out from the first on */
    uint64_t first, last; /* launches of the row that are not known to have gone well; 0: none */
};

/* Where a result goes when its launch has been waited for. */
struct gpu_result {
    int64_t *to;     /* NULL: nobody waits for it */
    uint64_t launch; /* number among the device's launches with results; UINT64_MAX: not made yet */
};

/* Parts of pinned memory by which small copies go to the device, used one after the other: the
 * caller's memory is read at once, and the stream need not be waited for. */
enum { GPU_STAGES = 4, GPU_STAGE = 64 << 10 };

struct gpu_stream {
    struct gpu_stream *next;   /* of the device */
    struct gpu_device *device;
    void *raw;                 /* the driver's */
    uint64_t number;           /* which no other stream of the device has had */
    pthread_mutex_t lock;      /* of all below */
    struct gpu_words *words;
    bool captured;             /* launches are recorded; of the stream's caller, as the next */
    uint64_t faults_captured;  /* mask of the words that recorded launches may write */
    struct gpu_fault fault[GPU_FAULTS];
    uint64_t launched;         /* launches that were given a fault word */
    struct gpu_result result[GPU_RESULTS]; /* used in turn; number i is at i % GPU_RESULTS */
    uint64_t results_taken, results_given;
    char *stage;               /* GPU_STAGES of GPU_STAGE bytes */
    void *passed[GPU_STAGES];  /* event behind the last copy of each */
    unsigned next_stage;
    void *vendor[GPU_VENDORS]; /* handles of libraries that want one for each stream */
};

/* library.c: finds the driver's functions. BP_ERR_ABSENT: no driver. */
enum bp_status gpu_library_open(struct gpu *gpu);

/* The answer of a call as a status: a code that is not 0 is written as the reason, with the call's
 * symbol. device: NULL where it is of none. */
enum bp_status gpu_check(const struct gpu *gpu, const struct gpu_device *device, enum gpu_call call,
                         int code);
/* Where nobody can be told: the reason is logged, but for GPU_SHUT_DOWN. */
void gpu_note(const struct gpu_device *device, enum gpu_call call, int code);

/* Calls the driver about a device. */
#define GPU_CALL(device, name, ...) \
    gpu_check((device)->gpu, device, GPU_CALL_##name, (device)->gpu->call.name(__VA_ARGS__))
#define GPU_NOTE(device, name, ...) \
    gpu_note(device, GPU_CALL_##name, (device)->gpu->call.name(__VA_ARGS__))

/* What is current in the calling thread: at the end of the block that declares one as GPU_CALLER
 * caller = {NULL}, it is again what it was at the beginning. An application has contexts, or
 * devices, of its own that are current in its threads. */
struct gpu_caller {
    const struct gpu_device *device; /* which is current instead; NULL: nothing was changed */
    GPU_WHERE current;               /* before */
};
#define GPU_CALLER __attribute__((cleanup(gpu_caller_return))) struct gpu_caller

#define TRY(call) \
    do { \
        enum bp_status try_status = (call); \
        if (try_status != BP_OK) return try_status; \
    } while (0)

/* device.c: a device, with its context that of the calling thread until the caller gets back what
 * was current. */
enum bp_status gpu_device_use(struct gpu *gpu, uint32_t index, struct gpu_caller *caller,
                              struct gpu_device **out);
/* The same of a device that is open, where nobody can be told of a failure: it is logged. */
struct gpu_device *gpu_device_reuse(struct gpu *gpu, uint32_t index, struct gpu_caller *caller);
void gpu_caller_return(struct gpu_caller *caller);
/* What names the device's context in calls between two. */
GPU_WHERE gpu_device_where(const struct gpu_device *device);
/* Asks what a device is, of which no more than the number is known: its architecture. */
void gpu_device_identify(struct gpu_device *device);
/* Waits for all work of the device: the driver's code. */
int gpu_device_wait(struct gpu_device *device);
void gpu_device_close(struct gpu_device *device);

/* stream.c. join: waits for the stream. Where the driver cannot, the whole device is waited for:
 * until its work has ended it may use memory that the caller takes back. */
enum bp_status gpu_stream_join(struct gpu_stream *stream);

/* collect: the stream has been waited for, with this outcome. Hands results to who waits
 * for them, and answers the failure that kernels reported. */
enum bp_status gpu_stream_collect(struct gpu_stream *stream, enum bp_status outcome);

/* A place of the stream for a result that goes to `to` in the end; NULL: there is none left. Then,
 * the launch that sets it is made: who waits for the whole device from now on waits for it. */
int64_t *gpu_stream_result(struct gpu_stream *stream, int64_t *to);
void gpu_stream_launched(struct gpu_stream *stream);
/* Nobody waits for results that go to n places at to any more. */
void gpu_stream_forget(struct gpu_stream *stream, const int64_t *to, uint32_t n);

/* fault.c: the word for the faults that a launch of this row finds. */
uint32_t *gpu_fault_take(struct gpu_stream *stream, const char *row);
/* A replay of recorded launches, which were given these words: a mask. */
void gpu_fault_replay(struct gpu_stream *stream, uint64_t words);
/* How many launches of the stream were given one, replays among them. */
uint64_t gpu_fault_launched(struct gpu_stream *stream);
/* The first `until` of these have ended: BP_ERR_FAULT names the row that found something, once. */
enum bp_status gpu_fault_tell(struct gpu_stream *stream, uint64_t until);

/* arch.c: whether a device takes an image of those that are compiled for these targets, "80,
 * 90+ptx"; where nobody knows, yes. */
bool gpu_arch_fits(const char *arch, const char *targets);
/* The first name of an architecture in a text, which may have zeros; "": there is none. */
void gpu_arch_find(const char *text, size_t size, const char *prefix, char out[GPU_ARCH]);

/* event.c: how the driver is to make events; and its event. */
unsigned gpu_event_flags(const struct gpu *gpu);
void *gpu_event_raw(void *event);

/* portable.c: gives back the device's modules. */
void gpu_modules_unload(struct gpu_device *device);

/* The callbacks of runtime.h: gpu_device_count and so on. */
#define GPU_CALLBACKS(X) \
    X(device_count) X(device_properties) X(memory_allocate) X(memory_free) \
    X(copy_in) X(copy_out) X(copy_within) X(synchronize) X(stream_create) X(stream_destroy) \
    X(event_create) X(event_destroy) X(event_record) X(event_query) X(event_wait) X(stream_wait) \
    X(memory_info) X(copy_peer)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) gpu_##name;
GPU_CALLBACKS(X)
#undef X

/* Those of ccl.h. */
#define GPU_CCL_CALLBACKS(X) \
    X(unique_id) X(comm_create) X(comm_destroy) X(comm_abort) X(comm_error) X(all_reduce) \
    X(reduce) X(broadcast) X(all_gather) X(reduce_scatter) X(send) X(recv) X(group_begin) \
    X(group_end) X(version) X(comm_begin) X(comm_joined)
#define X(name) __typeof__(*((struct bp_ccl *)0)->name) gpu_ccl_##name;
GPU_CCL_CALLBACKS(X)
#undef X

/* And those of graphs.h. */
#define GPU_GRAPHS(X) \
    X(capture_begin) X(capture_end) X(capture_abort) X(replay) X(recording_destroy)
#define X(name) __typeof__(*((struct bp_captures *)0)->name) gpu_##name;
GPU_GRAPHS(X)
#undef X

#endif
