/* SPDX-License-Identifier: Apache-2.0 */
/* profile.h: declares the recorder of profiles, for the layers above. One profiler records at a
 * time in a process. */
#ifndef BP_PROFILE_PRIVATE_H
#define BP_PROFILE_PRIVATE_H

#include "../base/base.h"
#include "format.h"
#include "ticks.h"

/* Whether events are being recorded, and which further ones: enum bp_profiler_flags and
 * BP_PROFILE_ON. Read before the work of an event; 0 nearly always. */
#define BP_PROFILE_ON (UINT32_C(1) << 31)
extern _Atomic uint32_t bp_profile_state __attribute__((visibility("hidden")));

static inline uint32_t bp_profile_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&bp_profile_state, memory_order_relaxed), 0);
}
static inline bool bp_profile_wants(uint32_t flag)
{
    return bp_profile_is_on() & flag;
}

/* The beginning of an event, in ticks, if events are recorded now, else 0. */
static inline uint64_t bp_profile_begin(void)
{
    return bp_profile_is_on() ? bp_profile_now() : 0;
}

/* One event, as bp_profile_event. Texts are copied; NULL: none. */
struct bp_profile_put {
    uint64_t begin, end; /* ticks; with BP_PROFILE_RAW_CLOCK, of the plugin's clock. Of a point of
                            that clock: its moment in ticks, and the plugin's time */
    uint64_t tag, bytes;
    const char *name, *kernel, *device; /* not changed while the recording's sources stay the same:
                                           literals, texts of plugins, the device's name */
    const char *node, *shapes;
    const char *text;        /* a name that may change; then name is NULL */
    const char *kernel_text; /* a kernel's name that may change; then kernel is NULL */
    uint32_t stream, queue;
    uint16_t kind, flags; /* enum bp_profile_record_flags */
};

/* Records an event of the calling thread. Nothing is recorded if the recording began after the
 * event, or has ended. Takes locks only for the first event of a thread, for new names, and once in
 * thousands of events. */
void bp_profile_put(const struct bp_profile_put *event);
/* The same for `count` events of no thread: records of a plugin. Any thread calls it. */
void bp_profile_put_records(const struct bp_profile_put *event, size_t count);
/* Counts records of plugins that came after the end of the recording. */
void bp_profile_count_late(uint64_t count);

/* A device, which makes records of its own while a profiler records. The functions are called one
 * at a time, with the lock of sources held: they must not add or remove a source. */
struct bp_profile_source {
    struct bp_profile_source *next;
    void (*start)(struct bp_profile_source *source, uint32_t flags);
    void (*stop)(struct bp_profile_source *source);
    /* Records a point of the source's clock; called at the beginning and at the end of each phase
     * that is recorded, and after flush. */
    void (*clock)(struct bp_profile_source *source);
    /* Collects the records of work that has ended; called by bp_profile_collect. */
    void (*flush)(struct bp_profile_source *source);
    bool started;
};
/* A source that is added while a profiler records is started at once, and one that is removed is
 * stopped. */
void bp_profile_add_source(struct bp_profile_source *source);
void bp_profile_remove_source(struct bp_profile_source *source);

/* Collects the records of all sources and reads their clocks, if the last time was 0.1 s ago, or
 * longer where collecting takes long. Called where a thread has waited for a device: it calls
 * plugins, so that the thread must hold no lock, and changes the thread's error message. */
void bp_profile_collect_now(void);
static inline void bp_profile_collect(void)
{
    if (bp_profile_is_on()) bp_profile_collect_now();
}

/* A plugin that takes the app's ranges or marks: begin and end, or mark, may be NULL. Functions are
 * called with a lock that adding and removing need. */
struct bp_range_listener {
    struct bp_range_listener *next;
    void *self;
    void (*begin)(void *self, const char *name);
    void (*end)(void *self);
    void (*mark)(void *self, const char *name);
};
void bp_range_add_listener(struct bp_range_listener *listener);
void bp_range_remove_listener(struct bp_range_listener *listener);

/* Starts a profiler for BP_PROFILE, once in a process; it stops at exit. */
void bp_profile_read_environment(struct bp_core *core);
void bp_profile_finish_at_exit(void);
/* To be called in a forked child, which records nothing: the parent owns the file. */
void bp_profile_after_fork(void);

/* ---- between the files of the recorder ---- */

/* The file of a recording. Memory of chunks stays mapped until another chunk is taken. */
struct bp_profile_file {
    int fd;
    uint64_t max_bytes, bytes; /* bytes: of all chunks so far, and the header */
    struct bp_profile_header *header;
    bool full;
    const char *why;      /* static text: the first reason why an event found no room */
    pthread_mutex_t lock; /* guards all above but header */
};
enum bp_status bp_profile_file_create(struct bp_profile_file *file, const char *path,
                                      uint64_t max_bytes);
/* Returns a chunk with its kind and thread set; NULL: there is no room. */
struct bp_profile_chunk *bp_profile_file_chunk(struct bp_profile_file *file, uint32_t kind,
                                               uint32_t thread, uint32_t thread_name);
void bp_profile_chunk_release(struct bp_profile_chunk *chunk); /* NULL is allowed */
enum bp_status bp_profile_file_save(struct bp_profile_file *file, const char *path);
/* Counts the records in all chunks. */
uint64_t bp_profile_file_records(struct bp_profile_file *file);
void bp_profile_file_finish(struct bp_profile_file *file);

/* The names of a recording. */
struct bp_profile_names {
    pthread_mutex_t lock;
    struct bp_profile_text **table; /* by hash */
    uint32_t n, room;
    uint64_t bytes;
    struct bp_profile_chunk *chunk;
};
/* A name; never freed before its recording. */
struct bp_profile_text {
    struct bp_profile_text *next;
    uint32_t number, hash, length;
    char text[];
};
enum bp_status bp_profile_names_init(struct bp_profile_names *names);
/* Returns the name, which is new in the file if the text is; NULL: there is no room. */
const struct bp_profile_text *bp_profile_names_find(struct bp_profile_names *names,
                                                    struct bp_profile_file *file, const char *text);
void bp_profile_names_finish(struct bp_profile_names *names);

/* The number of sources that were ever removed: texts of plugins may be others afterwards. */
extern _Atomic uint64_t bp_profile_removed __attribute__((visibility("hidden")));

/* A recording, the part of a profiler that writers use. */
struct bp_profile_recording {
    uint64_t serial; /* of the process: 1, 2, ... */
    struct bp_profile_line line;
    struct bp_profile_file file;
    struct bp_profile_names names;
    _Atomic uint64_t clocks, lost; /* clocks: records that are no events */
};

/* Of a thread, or of all plugins. Guarded by `busy` or by a lock. */
enum {
    BP_PROFILE_CACHED = 512
};
struct bp_profile_writer {
    struct bp_profile_writer *next;
    _Atomic uint32_t busy;
    uint32_t thread;
    uint64_t serial;  /* of the recording that chunk and cache belong to */
    uint64_t removed; /* sources that were removed when the cache was emptied last */
    struct bp_profile_chunk *chunk;
    struct bp_profile_seen {
        const char *at; /* where a text was seen; it may be another one now */
        const struct bp_profile_text *text;
        uint32_t number; /* of the text */
    } cache[BP_PROFILE_CACHED];
};

/* Lets writers write to a recording (NULL: to none). When it returns, none writes to the one
 * before. */
void bp_profile_writers_set(struct bp_profile_recording *recording);
/* Releases the chunks of all writers, at the end of a recording, while writers write to none. */
void bp_profile_writers_finish(void);
void bp_profile_writers_after_fork(void);
void bp_ranges_after_fork(void);

#endif
