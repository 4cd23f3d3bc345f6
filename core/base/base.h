/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: declares the parts that all files of the core share: the core's struct, handles, error
 * messages, logging and host memory. Private: only files in core/ include it. */
#ifndef BP_CORE_PRIVATE_H
#define BP_CORE_PRIVATE_H

#include <backplane/backplane.h>
#include <backplane/capture.h>
#include <backplane/ccl.h>
#include <backplane/engine.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/profiler.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "process.h"

/* Whether this process has only one thread: locks are then omitted where no other thread could hold
 * them. */
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define BP_SINGLE_THREADED __libc_single_threaded
#endif
#endif
#ifndef BP_SINGLE_THREADED
#define BP_SINGLE_THREADED false
#endif

/* Initializes cond for waits with deadlines of CLOCK_MONOTONIC. */
static inline void bp_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &clock);
    pthread_condattr_destroy(&clock);
}

/* Every handle has a magic word (most at their beginning), so that NULL and handles of another kind
 * are recognized. The word is bp_magic(kind) at creation, and each call checks it by
 * bp_magic_is(magic, kind). */
enum bp_magic {
    BP_MAGIC_CORE = 0x42504301,
    BP_MAGIC_DEVICE = 0x42504302,
    BP_MAGIC_STREAM = 0x42504303,
    BP_MAGIC_EVENT = 0x42504304,
    BP_MAGIC_TENSOR = 0x42504305,
    BP_MAGIC_PREPARED = 0x42504306,
    BP_MAGIC_SYMBOL = 0x42504309, /* a symbolic tensor: refused where a tensor with memory is
                                     expected */
    BP_MAGIC_GRAPH = 0x42504307,
    BP_MAGIC_GENERATOR = 0x42504308,
    BP_MAGIC_BUFFER = 0x4250430a,
    BP_MAGIC_PROGRAM = 0x4250430b,
    BP_MAGIC_STORE = 0x4250430c,
    BP_MAGIC_COMM = 0x4250430d,
    BP_MAGIC_TEMPLATE = 0x4250430e,
    BP_MAGIC_PROFILER = 0x4250430f,
    BP_MAGIC_PROFILE = 0x42504311,
};

/* The size of the smallest handle in bytes. The magic word of every kind is within this size, so
 * that reading it in a handle of another kind stays inside the allocation. bp_handle_alloc
 * allocates small handles, and objects that one thread writes often. The memory is zeroed and fills
 * whole pairs of cache lines, so that it shares none with memory of another thread; NULL: out of
 * memory. */
enum { BP_HANDLE_BYTES = 128 };
void *bp_handle_alloc(size_t size);

struct bp_plugin_entry; /* plugin/entry.h */

/* Whether the core may do something that the caller did not request. */
enum bp_policy { BP_POLICY_ALLOW, BP_POLICY_WARN, BP_POLICY_DENY };

struct bp_core {
    uint32_t magic;
    _Atomic uint32_t refs; /* references: the app's, and one for each open device */
    struct bp_core *next;  /* in the list of process.c */

    void (*end)(struct bp_core *core); /* called when the last reference is dropped */
    /* bp_device_create_at, for files in lower layers. */
    enum bp_status (*open)(struct bp_core *core, uint32_t plugin, uint32_t index,
                           struct bp_device **out_device);
    void (*log)(void *ctx, uint32_t level, const char *text);
    void *log_ctx;
    uint32_t log_level;
    pthread_mutex_t log_lock; /* serializes messages */

    struct bp_allocator allocator;
    uint32_t
        width; /* threads that one launch may use: the option, BP_THREADS, or the number of
                  processors of this process */
    char *plugin_path, *plugins; /* from the options, or NULL */
    struct bp_row_filter *row_filter; /* BP_KERNELS (plugin/row_filter.h), or NULL */
    bool async_streams;          /* BP_STREAMS=async: streams of inline devices have a queue */
    bool sync_launch;            /* BP_SYNC=launch */
    bool deny_blocking;          /* BP_BLOCK=deny */
    uint32_t allow;              /* enum bp_allow, of BP_ALLOW, for all programs */
    bool checks_room;            /* check queues for room before calls: deny_blocking, or waits have
                                    a deadline */
    const char *wait_source;     /* the setting that defines a deadline for waits; NULL: none
                                    does */
    uint64_t wait_ns;            /* longest time of a wait */
    uint32_t fallback;           /* enum bp_policy: BP_FALLBACK */
    struct bp_generator *generator; /* for streams without their own generator */
    uint64_t memory_limit;       /* BP_MEM_LIMIT, in bytes for each device; 0: no limit */

    pthread_mutex_t lock; /* guards entries and devices; never held while a plugin runs */
    struct bp_plugin_entry **entry;
    uint32_t n_entry;
    struct bp_device *devices; /* open ones, linked by next */
};

/* Checks a handle. If it is NULL or of another kind, bp_not_a returns BP_ERR_INVALID with a message
 * that names the expected kind; for a handle from before a fork or shutdown it returns
 * BP_ERR_SHUTDOWN. Use: if (!bp_core_is(core)) return bp_not_a("core"); */
static inline bool bp_core_is(const struct bp_core *core)
{
    return bp_magic_is(core ? core->magic : 0, BP_MAGIC_CORE);
}
#define bp_not_a(what) bp_not_a_for(__func__, what)
enum bp_status bp_not_a_for(const char *call, const char *what);
/* Returns BP_ERR_SHUTDOWN with a message: the handle is from before a fork or shutdown. */
enum bp_status bp_error_stale(const char *call, const char *what);

/* Stores the error message of the running call on this thread; the value is status. A macro, so
 * that compilers see that a failure is not BP_OK. */
#define bp_error(status, ...) (bp_error_write(__VA_ARGS__), (status))
void bp_error_write(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Like bp_error, to add details to the message of the last failure: the operator and kernel that
 * bp_error_get_info returns stay the same. */
#define bp_error_more(status, ...) (bp_error_write_more(__VA_ARGS__), (status))
void bp_error_write_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Store the operator or kernel that caused the failure whose message was written last. op is the
 * name in an operator definition, which is never freed. */
void bp_error_set_operator(const char *op, uint32_t rows);
void bp_error_set_kernel(const char *kernel);

/* Enclose a callback of a plugin. bp_error_enter starts to watch whether the plugin writes an error
 * message. bp_error_leave returns the plugin's status and, if the plugin failed without a message,
 * writes one. A number that is no status (from a newer or broken plugin) becomes BP_ERR_DEVICE,
 * with the number in the message. */
void bp_error_enter(void);
enum bp_status bp_error_leave(enum bp_status status, const char *plugin, const char *callback);

/* Fills a struct of the app whose first member is its size: only the members that the app knows are
 * written. */
#define bp_info_fill(out, full, full_size) bp_info_fill_for(__func__, out, full, full_size)
enum bp_status bp_info_fill_for(const char *call, void *out, const void *full, size_t full_size);

/* Logs a text through the core's log function if its level is enabled. */
void bp_core_log(struct bp_core *core, enum bp_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void bp_log_to_stderr(void *ctx, uint32_t level, const char *text); /* the default log function */
/* Sets log_level from BP_LOG. An unknown word is ignored, with a warning. */
void bp_core_read_log_level(struct bp_core *core);

/* Like getenv, but NULL in a set-uid process. */
const char *bp_env_get(const char *name);

/* Host memory of the core, from the app's allocator. */
extern const struct bp_allocator bp_allocator_default;
void *bp_core_alloc(struct bp_core *core, size_t size, size_t alignment);
void bp_core_free(struct bp_core *core, void *memory, size_t size);

void bp_core_retain(struct bp_core *core);
/* Drops a reference. The last one destroys the core, unless the process is stopping. */
void bp_core_release(struct bp_core *core);

/* Returns from the calling function if the expression is a failure, with the same status. */
#define TRY(expression) \
    do { \
        enum bp_status try_status_ = (expression); \
        if (try_status_) return try_status_; \
    } while (0)

#endif
