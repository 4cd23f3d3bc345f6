/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: turns the codes that a vendor's functions return into statuses and messages, and traces
 * calls: docs/kit.md. */
#ifndef KIT_CALL_H
#define KIT_CALL_H

#include <backplane/plugin.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns from the function if a call has failed. */
#define TRY(call) \
    do { \
        enum bp_status try_status = (call); \
        if (try_status != BP_OK) return try_status; \
    } while (0)

/* A code of a library, and what it means. */
struct kit_error {
    int code;
    enum bp_status status;
    const char *text;
};

/* The codes of a library. */
struct kit_errors {
    const struct kit_error *row;
    size_t n;
    /* Returns the library's own text for a code that no row has, or NULL. NULL: it has no texts. */
    const char *(*text)(const void *of, int code);
};

/* Returns the row of a code. A code without a row is BP_ERR_DEVICE. */
struct kit_error kit_error_find(const struct kit_errors *errors, const void *of, int code);

/* A call of a vendor's function that has returned. */
struct kit_call {
    const struct bp_host *host;
    const char *plugin;
    int64_t device; /* its number; below 0: the call concerns no device */
    const char *function;
    int code;          /* 0: success */
    const char *about; /* the beginning of the message, "no device", or NULL */
};

/* Writes the error message "cuda:0: cuInit answers 1: TEXT; ADVICE" and returns the status. advice:
 * NULL or empty: none. */
enum bp_status kit_call_fail(const struct kit_call *call, enum bp_status status, const char *text,
                             const char *advice);
/* Logs the same as a warning, where the caller cannot return a failure. */
void kit_call_warn(const struct kit_call *call, const char *text);

/* Writes the message about an allocation that failed for lack of memory: its function, the bytes
 * that were requested, and those that are free. info: the plugin's memory_info. Returns
 * BP_ERR_MEMORY, or the failure of info. */
struct kit_report; /* stream.h */
enum bp_status kit_memory_fail(const struct kit_report *report, const char *function, uint64_t size,
                               enum bp_status (*info)(void *self, uint32_t device,
                                                      uint64_t *out_free, uint64_t *out_total),
                               void *self);

/* Whether calls are traced: the setting BP_<PLUGIN>_TRACE is 1. Tracing begins when an instance of
 * the plugin calls kit_trace_begin. */
extern atomic_bool kit_traced;
static inline bool kit_is_traced(void)
{
    return atomic_load_explicit(&kit_traced, memory_order_relaxed);
}
void kit_trace_begin(const char *plugin);
/* Logs the call at level info, if calls are traced. Call it for each function that has returned,
 * whatever its code. */
void kit_call_trace(const struct kit_call *call);

#endif
