/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: what the files of the core share. Private: only core/ includes it. */
#ifndef BP_CORE_PRIVATE_H
#define BP_CORE_PRIVATE_H

#include <backplane/backplane.h>
#include <backplane/capture.h>
#include <backplane/ccl.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "process.h"

/* Whether this process has one thread: then locks that nobody else could hold are left out. */
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define BP_SINGLE_THREADED __libc_single_threaded
#endif
#endif
#ifndef BP_SINGLE_THREADED
#define BP_SINGLE_THREADED false
#endif

/* Deadlines of waits for it are those of CLOCK_MONOTONIC. */
static inline void bp_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &clock);
    pthread_condattr_destroy(&clock);
}

/* Every handle has a magic word (most at their beginning), so that NULL and handles of another kind
 * are refused: bp_magic(kind) when it is made, bp_magic_is(magic, kind) in each call. */
enum bp_magic {
    BP_MAGIC_CORE = 0x42504301,
    BP_MAGIC_DEVICE = 0x42504302,
    BP_MAGIC_STREAM = 0x42504303,
    BP_MAGIC_EVENT = 0x42504304,
    BP_MAGIC_TENSOR = 0x42504305,
    BP_MAGIC_PREPARED = 0x42504306,
    BP_MAGIC_SYMBOL = 0x42504309, /* a symbolic tensor: refused wherever one with memory is meant */
    BP_MAGIC_GRAPH = 0x42504307,
    BP_MAGIC_GENERATOR = 0x42504308,
    BP_MAGIC_BUFFER = 0x4250430a,
    BP_MAGIC_PROGRAM = 0x4250430b,
    BP_MAGIC_STORE = 0x4250430c,
    BP_MAGIC_COMM = 0x4250430d,
};

/* Bytes of the smallest handle. The place where each kind keeps its magic word lies within, so that
 * looking for it in a handle of another kind reads no other memory. Small handles are made by this,
 * all zero; NULL: no memory. So is what one thread's calls write again and again: it begins on a
 * pair of cache lines and fills them, and what another thread writes lies elsewhere. */
enum { BP_HANDLE_BYTES = 128 };
void *bp_handle_alloc(size_t size);

struct bp_plugin_entry; /* plugin/entry.h */

/* What may happen without being asked for. */
enum bp_policy { BP_POLICY_ALLOW, BP_POLICY_WARN, BP_POLICY_DENY };

struct bp_core {
    uint32_t magic;
    _Atomic uint32_t refs; /* the app's, and one for each open device */
    struct bp_core *next;  /* process.c */

    void (*end)(struct bp_core *core); /* called when the last reference is given back */
    /* bp_device_create_at, for the files below it. */
    enum bp_status (*open)(struct bp_core *core, uint32_t plugin, uint32_t index,
                           struct bp_device **out_device);
    void (*log)(void *ctx, uint32_t level, const char *text);
    void *log_ctx;
    uint32_t log_level;
    pthread_mutex_t log_lock; /* one message at a time */

    struct bp_allocator allocator;
    uint32_t
        width; /* threads that one launch may use: BP_THREADS, or the processors of this process */
    char *plugin_path, *plugins; /* of the options, or NULL */
    bool async_streams;          /* BP_STREAMS=async: streams of inline devices have a queue */
    bool sync_launch;            /* BP_SYNC=launch */
    bool deny_blocking;          /* BP_BLOCK=deny */
    bool checks_room;            /* room in queues is looked for before calls: deny_blocking, or
                                    waits have a deadline */
    const char *wait_source;     /* the setting that gives waits a deadline; NULL: none has */
    uint64_t wait_ns;            /* how long they take at most */
    uint32_t fallback;           /* enum bp_policy: BP_FALLBACK */
    struct bp_generator *generator; /* of streams that have none of their own */
    uint64_t memory_limit;       /* BP_MEM_LIMIT, bytes for each device; 0: none */

    pthread_mutex_t lock; /* entries and devices; never held while a plugin runs */
    struct bp_plugin_entry **entry;
    uint32_t n_entry;
    struct bp_device *devices; /* open ones, linked by next */
};

/* Checks a handle: NULL and handles of another kind give BP_ERR_INVALID with a message that names
 * what was expected, handles from before a fork or a stop BP_ERR_SHUTDOWN.
 * Use: if (!bp_core_is(core)) return bp_not_a("core"); */
static inline bool bp_core_is(const struct bp_core *core)
{
    return bp_magic_is(core ? core->magic : 0, BP_MAGIC_CORE);
}
#define bp_not_a(what) bp_not_a_for(__func__, what)
enum bp_status bp_not_a_for(const char *call, const char *what);
/* BP_ERR_SHUTDOWN: the handle is from before a fork or a stop. */
enum bp_status bp_error_stale(const char *call, const char *what);

/* Records the message of the running call on this thread; the value is status. A macro, so that
 * compilers see that a failure is not BP_OK. */
#define bp_error(status, ...) (bp_error_write(__VA_ARGS__), (status))
void bp_error_write(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, for more words on the failure that was recorded last: bp_error_get_info goes on to say
 * what that failed at. */
#define bp_error_more(status, ...) (bp_error_write_more(__VA_ARGS__), (status))
void bp_error_write_more(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the failure whose message was just recorded failed at. op is of a row: never freed. */
void bp_error_set_operator(const char *op, uint32_t rows);
void bp_error_set_kernel(const char *kernel);

/* Around a plugin's callback: enter makes it seen whether the plugin writes a reason, leave passes
 * its status on and, if it failed without a reason, writes one. A number that is no status (of a
 * newer plugin, or a broken one) becomes BP_ERR_DEVICE, with the number in the message. */
void bp_error_enter(void);
enum bp_status bp_error_leave(enum bp_status status, const char *plugin, const char *callback);

/* Fills a struct of the app that begins with its size: it gets the fields that it knows. */
#define bp_info_fill(out, full, full_size) bp_info_fill_for(__func__, out, full, full_size)
enum bp_status bp_info_fill_for(const char *call, void *out, const void *full, size_t full_size);

/* Logs text through the core's sink if level is wanted. */
void bp_core_log(struct bp_core *core, enum bp_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void bp_log_to_stderr(void *ctx, uint32_t level, const char *text); /* the usual sink */
/* Takes log_level from BP_LOG; a word that it does not know is passed over, with a warning. */
void bp_core_read_log_level(struct bp_core *core);

/* getenv, or NULL in a set-uid process. */
const char *bp_env_get(const char *name);

/* The core's memory, from the app's allocator. */
extern const struct bp_allocator bp_allocator_default;
void *bp_core_alloc(struct bp_core *core, size_t size, size_t alignment);
void bp_core_free(struct bp_core *core, void *memory, size_t size);

void bp_core_retain(struct bp_core *core);
/* Gives a reference back; the last one ends the core, unless intake has stopped. */
void bp_core_release(struct bp_core *core);

/* Passes a failure on. */
#define TRY(expression) \
    do { \
        enum bp_status try_status_ = (expression); \
        if (try_status_) return try_status_; \
    } while (0)

#endif
