/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h: defines the table by which a plugin describes itself, and the services that the core
 * gives it. Read this header first to write a plugin.
 *
 * A plugin is a shared object bp_NAME.so that exports one function, bp_plugin_get, with a manifest
 * bp_NAME.json beside it (`bp manifest bp_NAME.so` writes it). bp_plugin_get returns constant data:
 * it opens, allocates, starts and stores nothing, because it also runs on machines without such a
 * device. create makes an instance; its self is the first argument of every other callback.
 *
 * A term in the comment of each struct states how the struct may grow:
 *   table         passed from plugin to core, size first. The core copies it at load; fields
 *                 missing at its end count as NULL.
 *   parameters    passed from core to plugin, size first; the plugin reads new fields with BP_HAS.
 *   output struct made by the core with size and defaults; the plugin fills it with BP_SET.
 *   hot           has no size; fixed within an ABI major, except that a minor may add fields at the
 *                 end. The core fills all fields of its minor; a plugin that needs a field states
 *                 its minor in needs_minor.
 *   rows          {first, count, stride}: the core steps through them by stride, never by sizeof.
 * Members are of fixed width or pointers: never enum, bool, long or bit-fields.
 *
 * Rules for every callback, unless its comment states otherwise: the core has checked the
 * arguments; the core holds none of its locks; any thread may call; on failure the callback writes
 * the reason with bp_fail(host, ...), returns that status, and leaves its out parameters untouched.
 *
 * There is one exception to the rule on locks: while one thread loads a plugin (bp_plugin_get,
 * create, device_count, usable, and destroy if a step after create fails), other threads that load
 * or open the same plugin in the same core wait for that thread. These callbacks must therefore not
 * wait for another thread that loads the plugin, and must not call the core's API. */
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

/* The ABI version of these headers. The major stays 0 until every kind of device has run on it;
 * while it is 0, a core accepts plugins of its own major only, and of any minor. */
#define BP_ABI_MAJOR 0
#define BP_ABI_MINOR 12

/* The services of the core. They are valid from create until destroy has returned; any thread may
 * call them. */
struct bp_host { /* table, core to plugin */
    size_t size;
    uint32_t abi_major, abi_minor; /* the ABI version of the core */
    void *ctx;                     /* the first argument of each service */

    /* Logs a message, without a newline; the core adds the plugin's name. level: enum
     * bp_log_level. */
    void (*log)(void *ctx, uint32_t level, const char *text);

    /* Records text as the reason why the running callback fails, for the calling thread. Returns
     * status. */
    enum bp_status (*fail)(void *ctx, uint32_t status, const char *text);

    /* Allocate and free host memory, by the app's allocator if the app supplied one. alignment: a
     * power of two. allocate returns NULL if no memory is left; for size 0 it returns a pointer
     * that may be freed. The plugin frees memory by release, with the size with which it was
     * allocated. */
    void *(*allocate)(void *ctx, size_t size, size_t alignment);
    void (*release)(void *ctx, void *memory, size_t size);

    /* 1: allocate is the app's own allocator. A device whose memory is host memory must then
     * allocate it there; otherwise it may allocate it in any way. 0, or a host struct that ends
     * before this field: allocate is not known to be the app's. */
    uint32_t app_memory;

    /* Makes sure that the contents of a constant input are in memory until the running prepare
     * returns. constant: the input's number in bp_prep.constant. A failure ends the prepare with
     * this status. A plugin whose plans set bits of bp_plan.unread calls it before prepare reads
     * the contents of any constant, because the core may have freed them. */
    enum bp_status (*constant_read)(void *ctx, uint64_t constant);
};

/* The build flags of the plugin. Its sanitizer is the core's, or AddressSanitizer preloaded. */
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
struct bp_profilers;
struct bp_engines;

/* The table that bp_plugin_get returns. An interface that is NULL is not implemented; runtime is
 * required.
 *
 * An add-on is a plugin without devices: it brings operators, kernel rows, passes and an engine for
 * devices of another plugin, its owner. An add-on sets adds_to, stream_type, and at least one of
 * kernels, passes and engines; its kind and its other interfaces are NULL. The core loads an add-on
 * together with its owner:
 * after the owner's create, and before any device of the owner is opened. An add-on that cannot be
 * used is left out, and the owner works without it. The rows of an add-on take part in the
 * selection by priority like the owner's rows, which come first among equal priorities. Their
 * callbacks get the add-on's self; streams, memory handles and addresses are the owner's. All work
 * has ended, and all plans of the add-on are destroyed, before the add-on's destroy is called; the
 * owner's destroy comes after it. */
struct bp_plugin { /* table */
    size_t size;
    uint32_t abi_major, abi_minor; /* BP_ABI_MAJOR, BP_ABI_MINOR of the headers it was built with */
    uint32_t needs_minor;          /* the oldest minor of a core that suffices; 0: any minor */
    uint32_t build;                /* BP_BUILD_FLAGS */
    const char *name; /* "cpu": lower-case letters, digits, '_'; equals the manifest's */
    const char *version;           /* the version of the plugin itself, "1.2.0" */
    const char *kind; /* the kind of its devices, "cpu" in "cpu:0"; several plugins may serve one
                         kind. NULL in an add-on */

    /* Makes an instance: finds the driver and initialises it. A process may have several instances
     * at the same time. host stays valid until destroy has returned.
     *
     * BP_ERR_ABSENT: this machine has no such hardware or no driver (this is no error of the
     * plugin). */
    enum bp_status (*create)(const struct bp_host *host, void **out_self);

    /* Ends an instance. All objects that were made with it have been destroyed, and all work has
     * ended. */
    void (*destroy)(void *self);

    const struct bp_runtime *runtime;   /* runtime.h; NULL in an add-on */
    const struct bp_kernels *kernels;   /* kernel.h */
    const struct bp_ccl *ccl;           /* ccl.h */
    const struct bp_captures *captures; /* capture.h */
    const struct bp_passes *passes;     /* passes.h */
    const struct bp_profilers *profiler; /* profiler.h */
    const struct bp_engines *engines; /* engine.h */

    /* Of an add-on: the kind of the devices that it brings kernels for. Of several plugins of that
     * kind, the add-on belongs to the one that the core loads first. NULL: no add-on. */
    const char *adds_to;

    /* The type of the plugin's streams, memory handles and addresses: a name, a slash and a version
     * ("cpu/1"), at most 63 characters without spaces. The plugin's documentation says what the
     * text stands for; the plugin changes the version if that changes. An add-on states the text of
     * the owner that it was built for, and is refused if the owner's text is another one. NULL: the
     * plugin takes no add-ons. */
    const char *stream_type;
};

/* The one exported symbol. It must be pure: see the top of this file. */
#if defined(__GNUC__)
#define BP_EXPORT __attribute__((visibility("default")))
#else
#define BP_EXPORT
#endif
BP_EXPORT const struct bp_plugin *bp_plugin_get(void);

/* Call host->fail and host->log with a printf format; at most 1023 bytes of text. bp_fail returns
 * status. */
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
