/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: finds codes in tables, and writes the messages about calls; see call.h. */
#include "call.h"
#include "library.h"
#include "stream.h"
#include <inttypes.h>
#include <stdio.h>

enum {
    CALL_WHERE = 48
};

struct kit_error kit_error_find(const struct kit_errors *errors, const void *of, int code)
{
    const char *text = NULL;

    for (size_t i = 0; i < errors->n; i++)
        if (errors->row[i].code == code) return errors->row[i];
    if (errors->text) text = errors->text(of, code);
    return (struct kit_error){code, BP_ERR_DEVICE, text ? text : "an error without a name"};
}

/* Writes the name of the device, or of the plugin. */
static void call_where(char out[CALL_WHERE], const struct kit_call *call)
{
    if (call->device < 0) snprintf(out, CALL_WHERE, "%s", call->plugin);
    else snprintf(out, CALL_WHERE, "%s:%lld", call->plugin, (long long)call->device);
}

enum bp_status kit_call_fail(const struct kit_call *call, enum bp_status status, const char *text,
                             const char *advice)
{
    bool is_advised = advice && *advice;
    char where[CALL_WHERE];

    call_where(where, call);
    return bp_fail(call->host, status, "%s: %s%s%s answers %d: %s%s%s", where,
                   call->about ? call->about : "", call->about ? ": " : "", call->function,
                   call->code, text, is_advised ? "; " : "", is_advised ? advice : "");
}

void kit_call_warn(const struct kit_call *call, const char *text)
{
    char where[CALL_WHERE];

    call_where(where, call);
    bp_log(call->host, BP_LOG_WARN, "%s: %s answers %d: %s", where, call->function, call->code,
           text);
}

enum bp_status kit_memory_fail(const struct kit_report *report, const char *function, uint64_t size,
                               enum bp_status (*info)(void *self, uint32_t device,
                                                      uint64_t *out_free, uint64_t *out_total),
                               void *self)
{
    uint64_t free_bytes = 0, total = 0;

    TRY(info(self, report->device, &free_bytes, &total));
    return bp_fail(report->host, BP_ERR_MEMORY,
                   "%s:%" PRIu32 ": %s: %" PRIu64 " bytes were asked for, %" PRIu64 " of %" PRIu64
                   " are free on the device",
                   report->plugin, report->device, function, size, free_bytes, total);
}

atomic_bool kit_traced;

void kit_trace_begin(const char *plugin)
{
    atomic_store_explicit(&kit_traced, kit_setting_is_on(plugin, "TRACE"), memory_order_relaxed);
}

void kit_call_trace(const struct kit_call *call)
{
    char where[CALL_WHERE];

    if (!kit_is_traced()) return;
    call_where(where, call);
    bp_log(call->host, BP_LOG_INFO, "%s: trace: %s answers %d", where, call->function, call->code);
}
