/* SPDX-License-Identifier: Apache-2.0 */
/* status.c: finds the functions of ONNX Runtime, and turns failures of Backplane into its
 * statuses. */
#include "ort.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ort_calls ort;

/* A function of a table, or NULL if this version does not have the slot. A table of function
 * pointers is read as bytes, so that no pointer changes its type. */
static void status_load(void *out_call, const void *table, size_t slot, uint32_t since,
                        uint32_t version)
{
    if (table && since <= version)
        memcpy(out_call, (const char *)table + slot * sizeof(void (*)(void)),
               sizeof(void (*)(void)));
}

uint32_t ort_calls_init(const struct ort_base *base)
{
    const char *text = base->version();
    uint32_t version = 0;
    const void *table;

    if (!text || sscanf(text, "1.%u.", &version) != 1 || version < ORT_SINCE) return 0;
    table = base->table(ORT_SINCE); /* later versions only append to it */
    if (!table) return 0;
    memset(&ort, 0, sizeof ort);
#define ORT(slot, since, result, name, arguments) \
    status_load(&ort.name, table, slot, since, version);
#define EP(slot, since, result, name, arguments)
#define EDIT(slot, since, result, name, arguments)
#include "slots.def"
#undef ORT
#undef EP
    table = ort.ep_table();
#define ORT(slot, since, result, name, arguments)
#define EP(slot, since, result, name, arguments) \
    status_load(&ort.name, table, slot, since, version);
#include "slots.def"
#undef EP
#undef EDIT
    table = ort.editor_table();
#define EP(slot, since, result, name, arguments)
#define EDIT(slot, since, result, name, arguments) \
    status_load(&ort.name, table, slot, since, version);
#include "slots.def"
#undef ORT
#undef EP
#undef EDIT
    return version;
}

static const uint8_t code_of[] = {
    [BRIDGE_FAULT_NONE] = ORT_FAIL,
    [BRIDGE_FAULT_ARGUMENT] = ORT_INVALID_ARGUMENT,
    [BRIDGE_FAULT_MISSING] = ORT_NOT_FOUND,
    [BRIDGE_FAULT_UNSUPPORTED] = ORT_NOT_IMPLEMENTED,
    [BRIDGE_FAULT_MEMORY] = ORT_RUNTIME_EXCEPTION,
    [BRIDGE_FAULT_DEVICE] = ORT_EP_FAIL,
    [BRIDGE_FAULT_OTHER] = ORT_FAIL,
};

struct ort_status *ort_failure(enum bp_status status)
{
    const char *text = bp_error_message();

    return ort_error(code_of[bridge_fault_of(status)], "Backplane: %s: %s", bp_status_name(status),
                     *text ? text : "no message");
}

struct ort_status *ort_error(int32_t code, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ort.status_create(code, text);
}

struct ort_status *ort_no_memory(void)
{
    return ort.status_create(ORT_RUNTIME_EXCEPTION, "Backplane: no host memory");
}

void ort_forget(struct ort_status *status)
{
    if (status) ort.status_release(status);
}

void ort_log(const struct ort_logger *logger, int32_t severity, const char *format, ...)
{
    char text[2048];
    va_list args;

    if (!logger) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ort_forget(ort.log_message(logger, severity, text, "backplane", 0, "backplane"));
}
