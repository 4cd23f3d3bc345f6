/* SPDX-License-Identifier: Apache-2.0 */
/* core.h: a core finds plugins and loads them when a device of theirs is first asked for. */
#ifndef BP_CORE_H
#define BP_CORE_H

#include <backplane/api.h>
#include <backplane/log.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_core;

/* Host memory of tensors on host-visible devices, of plans and of staging. Any thread may call
 * both. allocate: NULL when there is none left; alignment is a power of two. */
struct bp_allocator {
    void *ctx;
    void *(*allocate)(void *ctx, size_t size, size_t alignment);
    void (*release)(void *ctx, void *memory, size_t size);
};

/* All fields may be zero. */
struct bp_core_options { /* parameters */
    size_t size;

    /* Takes each message instead of standard error; BP_LOG says which. level: enum bp_log_level.
     * Called on the thread that has something to say, one message at a time. It must not call this
     * library: what it is called from may hold locks. */
    void (*log)(void *ctx, uint32_t level, const char *text);
    void *log_ctx;

    const struct bp_allocator *allocator; /* copied; NULL: malloc */

    /* Directories, or single manifests (bp_NAME.json), ':' between: searched before all others. */
    const char *plugin_path;
    const char *plugins;     /* which plugins may be loaded, as BP_PLUGINS: "cuda,!hip*" */

    uint64_t wait_timeout_ns; /* instead of BP_WAIT_TIMEOUT; UINT64_MAX: none; 0: as that says */
};

/* Makes a core and reads the manifests of plugins; opens no plugin. NULL options: all defaults.
 *
 * Search order: options, BP_PLUGIN_PATH, the directory `backplane` beside this library, the system
 * directory; each with its immediate sub-directories. BP_PLUGINS or options select by glob on the
 * name. BP_LOG=error|warn|info|debug sets what is logged (default warn). In a set-uid process the
 * environment is ignored. BP_ERR_MEMORY: not all manifests could be read.
 *
 * BP_STREAMS=inline|async  what bp_stream_create makes on a device that works inline (stream.h)
 * BP_SYNC=none|launch      launch: each operator is waited for, so that a failure names its launch
 * BP_BLOCK=allow|deny      deny: a call that would wait although its name does not say so fails
 * BP_MEM_LIMIT=N           bytes (or N K, M, G, T) that the core takes of each device at most
 * BP_WAIT_TIMEOUT=N        seconds that a call waits for a device at most; without it, for ever
 *
 * A call whose wait takes longer than BP_WAIT_TIMEOUT answers BP_ERR_TIMEOUT: whether its name says
 * that it waits, as bp_stream_synchronize, or it has to, as bp_tensor_read. The message names the
 * device, the stream and the launches that it waits for. Nothing has failed then: the stream goes
 * on, outputs are untouched, and the same call may be made again. (With BP_SYNC=launch the work
 * has been given when its wait ends.) Each wait of a call has the whole time. What the last destroy
 * call of a device would wait for is then left to a thread, which frees all of it when the work has
 * ended, and a warning says so. */
BP_API enum bp_status bp_core_create(const struct bp_core_options *options,
                                     struct bp_core **out_core);
BP_API void bp_core_destroy(struct bp_core *core);

/* Ends the use of the library in this process: the promised way out. From now on every call that
 * takes a handle or makes one answers BP_ERR_SHUTDOWN, in all threads, and destroy functions do
 * nothing. Work that was given to streams is run to its end, callbacks are called, plans that are
 * being built are finished. When all of that is over the process may exit, with handles of any
 * kind left; nothing is freed.
 *
 * BP_ERR_TIMEOUT: not over after timeout_ns (UINT64_MAX: no limit); the message names what still
 * runs. It may be called again, and by any thread.
 * BP_ERR_INVALID: called by a function of bp_stream_callback, which would wait for itself.
 *
 * A process that exits without it is refused in the same way; then work that is running on the
 * host, and plans that are being built, are waited for, for 5 s at most, and work that waits in
 * queues is not begun.
 *
 * A forked child must make a new core, and everything from that: handles from before the fork
 * answer BP_ERR_SHUTDOWN there, and destroy functions do nothing with them. */
BP_API enum bp_status bp_shutdown(uint64_t timeout_ns);

/* "0.1.0", the version of this library. */
BP_API const char *bp_version(void);

/* What is known of a plugin. */
enum bp_plugin_state {
    BP_PLUGIN_UNPROBED = 0, /* its manifest was read, no more */
    BP_PLUGIN_READY = 1,    /* loaded, and has devices */
    BP_PLUGIN_ABSENT = 2,   /* sound, but its hardware or driver is not on this machine */
    BP_PLUGIN_BROKEN = 3,   /* could not be used; reason says why */
};

/* The steps from a manifest to a device, in order. X(NAME, word, what is done). */
#define BP_PLUGIN_STEPS(X) \
    X(FILE, file, "the manifest and the library are there and can be read") \
    X(MANIFEST, manifest, \
      "the manifest is well formed and complete, and this machine is what it asks for") \
    X(TRUST, trust, "nobody but root and the user can change the files, the hash is right") \
    X(OPEN, open, "the library is mapped with all that it needs, its constructors run") \
    X(ENTRY, entry, "it has the function bp_plugin_get, which answers with a table") \
    X(VERSION, version, "ABI, build, names and tables are what the core and the manifest expect") \
    X(CREATE, create, "the plugin makes an instance: finds its driver, starts it") \
    X(DEVICES, devices, "it says how many devices there are")

enum bp_plugin_step {
#define X(NAME, word, text) BP_STEP_##NAME,
    BP_PLUGIN_STEPS(X)
#undef X
    BP_STEP_COUNT,
};

struct bp_plugin_info { /* answer: set size before the call */
    size_t size;
    const char *name, *kind, *version;
    const char *manifest; /* path, or "" for a plugin loaded by its path */
    const char *library;  /* path */
    const char *reason;   /* why it is absent or broken, and what to do; else "" */
    int64_t priority;     /* among plugins of one kind the highest is taken */
    uint32_t state;       /* enum bp_plugin_state */
    uint32_t devices;     /* how many; 0 unless ready */
    uint32_t step; /* enum bp_plugin_step: the one that failed, or the last one that was begun */
    uint32_t zero;        /* 0 */
};

/* Plugins found, in search order; a broken manifest counts too. */
BP_API uint32_t bp_core_plugins(struct bp_core *core);

/* Fills out for plugin index. Strings live as long as the core. */
BP_API enum bp_status bp_core_plugin(struct bp_core *core, uint32_t index,
                                     struct bp_plugin_info *out);

/* Loads plugin index, if it is not loaded yet: afterwards its state is not unprobed.
 * BP_ERR_ABSENT, BP_ERR_PLUGIN: as its state says, with its reason as the message.
 * BP_ERR_MEMORY: there was not enough memory, here or in the plugin. It stays unprobed, and asking
 * again loads again. */
BP_API enum bp_status bp_core_load(struct bp_core *core, uint32_t index);

/* Loads a plugin by the absolute path of its library, without a manifest; answers as bp_core_load.
 * Its index is the last one; a path loaded before keeps its index. out_index may be NULL. */
BP_API enum bp_status bp_core_load_path(struct bp_core *core, const char *path,
                                        uint32_t *out_index);

#ifdef __cplusplus
}
#endif

#endif
