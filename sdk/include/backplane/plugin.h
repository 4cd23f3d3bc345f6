/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h: what a plugin is, and what the core gives it. Start here to write one.
 *
 * A plugin is a shared object bp_NAME.so that exports one function, bp_plugin_get, and a manifest
 * bp_NAME.json beside it (`bp manifest bp_NAME.so` writes it). bp_plugin_get returns constant data:
 * it opens nothing, allocates nothing, starts nothing and keeps nothing, for it also runs where
 * there is no such device. create makes an instance; its self is the first argument of every other
 * callback.
 *
 * How structs may grow is said once for each, in a word:
 *   table       plugin to core, size first. The core copies it at load; what is missing at the end
 *               is NULL.
 *   parameters  core to plugin, size first, read with BP_HAS.
 *   answer      made by the core with size and defaults, filled by the plugin with BP_SET.
 *   hot         no size; fixed within an ABI major but for fields at the end in a minor. The core
 *               fills all fields of its minor; a plugin that needs one says so in needs_minor.
 *   rows        {first, count, stride}: walked by stride, never by sizeof.
 * Members are of fixed width or pointers: never enum, bool, long or bit-fields.
 *
 * Rules for every callback, unless its comment says otherwise: the core has checked the arguments;
 * it holds none of its locks; any thread may call; on failure the callback writes the reason with
 * bp_fail(host, ...) and returns that status, with its out parameters untouched.
 *
 * One exception to the locks: while one thread loads a plugin (bp_plugin_get, create, device_count,
 * usable, and destroy if a step after create fails), others that load or open the same plugin in
 * the same core wait for it. These callbacks do not wait for such a thread, and do not call the
 * core's API. */
#ifndef BP_PLUGIN_H
#define BP_PLUGIN_H

#include <backplane/log.h>
#include <backplane/status.h>
#include <backplane/types.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI of these headers. The major is 0 until every kind of device has run on it; while it is 0,
 * a core takes plugins of its own major only, of any minor. */
#define BP_ABI_MAJOR 0
#define BP_ABI_MINOR 4

/* The core's services. Valid from create until destroy has returned; any thread may call them. */
struct bp_host { /* table, core to plugin */
    size_t size;
    uint32_t abi_major, abi_minor; /* of the core */
    void *ctx;                     /* first argument of each service */

    /* Writes a message, without a newline; the core names the plugin. level: enum bp_log_level. */
    void (*log)(void *ctx, uint32_t level, const char *text);

    /* Records text as the reason why the running callback fails, for the calling thread; returns
     * status. */
    enum bp_status (*fail)(void *ctx, uint32_t status, const char *text);

    /* Host memory, from the app's allocator if it gave one. alignment: a power of two. NULL: none
     * left. size 0 gives a pointer that may be freed. Memory goes back by release with the size it
     * was taken. */
    void *(*allocate)(void *ctx, size_t size, size_t alignment);
    void (*release)(void *ctx, void *memory, size_t size);

    /* 1: allocate is the app's own. A device whose memory is the host's then takes it from there;
     * else it may take it as it likes. 0, and a host without the field's end: it is not known to
     * be. */
    uint32_t app_memory;
};

/* How the plugin was built: a sanitizer must be in both plugin and core, or in neither. */
enum bp_build {
    BP_BUILD_ASAN = 1,
    BP_BUILD_TSAN = 2,
    BP_BUILD_DEBUG = 4,
};
#if defined(__SANITIZE_ADDRESS__)
#define BP_BUILD_SANITIZER BP_BUILD_ASAN
#elif defined(__SANITIZE_THREAD__)
#define BP_BUILD_SANITIZER BP_BUILD_TSAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BP_BUILD_SANITIZER BP_BUILD_ASAN
#elif __has_feature(thread_sanitizer)
#define BP_BUILD_SANITIZER BP_BUILD_TSAN
#endif
#endif
#ifndef BP_BUILD_SANITIZER
#define BP_BUILD_SANITIZER 0
#endif
#ifdef NDEBUG
#define BP_BUILD_FLAGS BP_BUILD_SANITIZER
#else
#define BP_BUILD_FLAGS (BP_BUILD_SANITIZER | BP_BUILD_DEBUG)
#endif

struct bp_runtime;
struct bp_kernels;
struct bp_ccl;
struct bp_captures;
struct bp_passes;
struct bp_profiler;

/* What bp_plugin_get returns. An interface that is NULL is not implemented; runtime is required. */
struct bp_plugin { /* table */
    size_t size;
    uint32_t abi_major, abi_minor; /* BP_ABI_MAJOR, BP_ABI_MINOR of the headers it was built with */
    uint32_t needs_minor;          /* the oldest core that will do; 0: any of this major */
    uint32_t build;                /* BP_BUILD_FLAGS */
    const char *name; /* "cpu": lower-case letters, digits, '_'; equals the manifest's */
    const char *version;           /* the plugin's own, "1.2.0" */
    const char *kind; /* of its devices, "cpu" in "cpu:0"; several plugins may serve one kind */

    /* Makes an instance: finds the driver, initialises it. A process may hold several at once.
     * host stays valid until destroy has returned.
     *
     * BP_ERR_ABSENT: no such hardware or no driver on this machine (not an error of the plugin). */
    enum bp_status (*create)(const struct bp_host *host, void **out_self);

    /* Ends an instance. All that was made with it has been destroyed, all work has ended. */
    void (*destroy)(void *self);

    const struct bp_runtime *runtime;   /* runtime.h */
    const struct bp_kernels *kernels;   /* kernel.h */
    const struct bp_ccl *ccl;           /* ccl.h */
    const struct bp_captures *captures;  /* capture.h; the two below are not defined yet: NULL */
    const struct bp_passes *passes;
    const struct bp_profiler *profiler;
};

/* The one exported symbol. Pure: see the top of this file. */
#if defined(__GNUC__)
#define BP_EXPORT __attribute__((visibility("default")))
#else
#define BP_EXPORT
#endif
BP_EXPORT const struct bp_plugin *bp_plugin_get(void);

/* host->fail and host->log with a format, at most 1023 bytes of text. bp_fail returns status. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline enum bp_status
bp_fail(const struct bp_host *host, enum bp_status status, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return host->fail(host->ctx, (uint32_t)status, text);
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static inline void
bp_log(const struct bp_host *host, enum bp_log_level level, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    host->log(host->ctx, (uint32_t)level, text);
}

#ifdef __cplusplus
}
#endif

#endif
