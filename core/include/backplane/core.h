/* SPDX-License-Identifier: Apache-2.0 */
/* core.h: creates a core, the object that finds plugins and loads each of them when an app first
 * opens one of its devices. */
#ifndef BP_CORE_H
#define BP_CORE_H

#include <backplane/api.h>
#include <backplane/log.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_core;

/* Allocates host memory for tensors on host-visible devices, for plans and for staging buffers. Any
 * thread may call both functions. allocate returns NULL if no memory is left; alignment is a power
 * of two. */
struct bp_allocator {
    void *ctx;
    void *(*allocate)(void *ctx, size_t size, size_t alignment);
    void (*release)(void *ctx, void *memory, size_t size);
};

/* Calls for which a device has no kernel as they are (docs/app-guide.md). */
enum bp_core_fallback {
    BP_CORE_FALLBACK_SET = 0,   /* as BP_FALLBACK says; without it as BP_CORE_FALLBACK_WARN */
    BP_CORE_FALLBACK_ALLOW = 1, /* they are computed in another way or on another device */
    BP_CORE_FALLBACK_WARN = 2,  /* likewise; the first one of an operator is logged */
    BP_CORE_FALLBACK_DENY = 3,  /* they fail: BP_ERR_NO_KERNEL */
};

/* Options of a core. All fields but size may be zero. */
struct bp_core_options { /* parameters */
    size_t size;

    /* Receives each message in place of standard error; BP_LOG selects which messages. level: enum
     * bp_log_level. The library calls it on the thread that logs, one message at a time. It must
     * not call this library, because its caller may hold locks. */
    void (*log)(void *ctx, uint32_t level, const char *text);
    void *log_ctx;

    const struct bp_allocator *allocator; /* copied; NULL: malloc */

    /* Directories, or single manifests (bp_NAME.json), separated by ':'. They are searched before
     * all other places. */
    const char *plugin_path;
    const char *plugins;     /* the plugins that may be loaded, as in BP_PLUGINS: "cuda,!hip*" */

    uint64_t wait_timeout_ns; /* replaces BP_WAIT_TIMEOUT; UINT64_MAX: no limit; 0: BP_WAIT_TIMEOUT
                                 holds */

    /* The threads that one launch on a device of this core may use, at most 4096; replaces
     * BP_THREADS. 0: BP_THREADS holds, else the number of processors of the process. Cores of one
     * process may have different numbers. */
    uint32_t threads;
    uint32_t fallback; /* enum bp_core_fallback; replaces BP_FALLBACK */
};

/* Creates a core and reads the manifests of plugins; it opens no plugin. options NULL: all
 * defaults.
 *
 * Search order: options, BP_PLUGIN_PATH, the directory `backplane` beside this library, the system
 * directory; each with its immediate sub-directories. BP_PLUGINS or options select plugins by a
 * glob on the name. BP_LOG=error|warn|info|debug sets the level of messages (default warn). A
 * set-uid process ignores the environment. BP_ERR_MEMORY: not all manifests could be read.
 *
 * BP_KERNELS=-NAME,+NAME   kernel rows or operators to leave out, or to use (docs/app-guide.md)
 * BP_THREADS=N             threads that one launch may use, unless the options say it
 * BP_STREAMS=inline|async  the kind of stream that bp_stream_create makes on an inline device
 * BP_SYNC=none|launch      launch: each operator waits for its work; a failure names its launch
 * BP_BLOCK=allow|deny      deny: a call that would wait, although its name does not state it, fails
 * BP_MEM_LIMIT=N           bytes (or N K, M, G, T) that the core takes of each device at most
 * BP_WAIT_TIMEOUT=N        seconds that a call waits for a device at most; without it, for ever
 *
 * A call that waits longer than BP_WAIT_TIMEOUT returns BP_ERR_TIMEOUT. This holds for calls whose
 * name states that they wait, such as bp_stream_synchronize, and for calls that sometimes have to
 * wait, such as bp_tensor_read. The message names the device, the stream and the launches for which
 * the call waits. A timeout is no failure of the work: the stream continues, outputs are untouched,
 * and the app may make the same call again. (With BP_SYNC=launch the work has already been
 * submitted when its wait times out.) Each wait within a call may take the full timeout. If the
 * last destroy call of a device would wait longer, the rest of that wait is left to a thread, which
 * frees everything once the work has ended, and a warning is logged. */
BP_API enum bp_status bp_core_create(const struct bp_core_options *options,
                                     struct bp_core **out_core);
BP_API void bp_core_destroy(struct bp_core *core);

/* Sets what calls of this thread do for which a device has no kernel, in place of the policy of
 * their core: enum bp_core_fallback; BP_CORE_FALLBACK_SET: as their core. *out_before (unless NULL)
 * is the thread's earlier policy. The policy holds where the thread prepares calls, compiles
 * programs, and runs steps that are not compiled; a program that was compiled before keeps its
 * steps. BP_ERR_INVALID: there is no such policy. */
BP_API enum bp_status bp_thread_set_fallback(uint32_t fallback, uint32_t *out_before);

/* Ends the use of the library in this process: call it before the process exits. From now on every
 * call that takes or makes a handle returns BP_ERR_SHUTDOWN, in all threads, and destroy functions
 * do nothing. Work that was submitted to streams runs to its end, callbacks are called, and plans
 * in preparation are finished. When all of that is over the process may exit, with handles of any
 * kind still open; the library frees nothing.
 *
 * BP_ERR_TIMEOUT: the work did not end within timeout_ns (UINT64_MAX: no limit); the message names
 * the work that still runs. The app may call it again, on any thread. BP_ERR_INVALID: a function of
 * bp_stream_callback called it and would wait for itself.
 *
 * In a process that exits without calling it, calls are refused in the same way; the exit then
 * waits, for 5 s at most, for work that is running on the host and for plans in preparation, and
 * work that is still queued is not started.
 *
 * A forked child must create a new core, and all other objects from that core: handles from before
 * the fork return BP_ERR_SHUTDOWN there, and destroy functions do nothing with them. */
BP_API enum bp_status bp_shutdown(uint64_t timeout_ns);

/* Returns the version of this library, such as "0.1.0". */
BP_API const char *bp_version(void);

/* The state of a plugin. */
enum bp_plugin_state {
    BP_PLUGIN_UNPROBED = 0, /* only its manifest was read */
    BP_PLUGIN_READY = 1,    /* loaded, and has devices, or is an add-on to such a plugin */
    BP_PLUGIN_ABSENT = 2,   /* intact, but its hardware or driver is not on this machine */
    BP_PLUGIN_BROKEN = 3,   /* could not be used; the field reason states why */
};

/* The steps from a manifest to a device, in order. X(NAME, word, description of the step). */
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

struct bp_plugin_info { /* output struct: set size before the call */
    size_t size;
    const char *name, *kind, *version;
    const char *manifest; /* path, or "" for a plugin loaded by its path */
    const char *library;  /* path */
    const char *reason;   /* why the plugin is absent or broken, and how to repair it; else "" */
    int64_t priority;     /* of several plugins for one kind, the core uses the one with the
                             highest */
    uint32_t state;       /* enum bp_plugin_state */
    uint32_t devices;     /* number of devices; 0 unless the plugin is ready */
    uint32_t step; /* enum bp_plugin_step: the step that failed, or the last one that was begun */
    uint32_t zero;        /* 0 */
    const char *adds_to;  /* of an add-on, whose kind is "": the kind of the devices that it brings
                             kernels for; else "" */
};

/* The number of plugins that were found; a plugin with a broken manifest counts too. Their index is
 * their place in search order. */
BP_API uint32_t bp_core_plugins(struct bp_core *core);

/* Fills *out for the plugin of this index. The strings live as long as the core. */
BP_API enum bp_status bp_core_plugin(struct bp_core *core, uint32_t index,
                                     struct bp_plugin_info *out);

/* Loads the plugin of this index, unless it is loaded already; afterwards its state is not
 * BP_PLUGIN_UNPROBED. The add-ons to the plugin are loaded with it; a failure of one of them is
 * logged, and does not change the result. To load an add-on, the core loads the plugin that it adds
 * to; an add-on that is added after that plugin was loaded is broken. BP_ERR_NOT_FOUND: no plugin
 * serves the kind that the add-on adds to; the add-on stays unprobed, and is loaded together with
 * such a plugin later. BP_ERR_ABSENT, BP_ERR_PLUGIN: the plugin's state is absent or broken, and
 * its reason is the message. BP_ERR_MEMORY: there was not enough memory, in the core or in the
 * plugin; the plugin stays unprobed, and the next call loads it again. */
BP_API enum bp_status bp_core_load(struct bp_core *core, uint32_t index);

/* Loads a plugin by the absolute path of its library, without a manifest; the results are those of
 * bp_core_load. The new plugin gets the last index; a path that was loaded before keeps its index.
 * out_index may be NULL. */
BP_API enum bp_status bp_core_load_path(struct bp_core *core, const char *path,
                                        uint32_t *out_index);

#ifdef __cplusplus
}
#endif

#endif
