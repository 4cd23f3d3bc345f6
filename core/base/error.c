/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: stores the message of a failed call for each thread, and returns names and texts of
 * statuses. */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[2048];
static _Thread_local bool written; /* since bp_error_enter */

/* The operator and kernel that caused the failure of message. */
static _Thread_local struct {
    const char *op;
    uint32_t rows;
    char kernel[128];
} failed_at;

const char *bp_error_message(void)
{
    return message;
}

enum bp_status bp_error_set(enum bp_status status, const char *text)
{
    if (text) bp_error_write_more("%s", text);
    return status;
}

/* The arguments may point into the old message, so the text is written to another buffer first. */
static void error_write_message(const char *format, va_list args)
{
    char text[sizeof message];

    vsnprintf(text, sizeof text, format, args);
    memcpy(message, text, strlen(text) + 1);
    written = true;
}

void bp_error_write(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_write_message(format, args);
    va_end(args);
    failed_at.op = NULL;
    failed_at.rows = 0;
    *failed_at.kernel = 0;
}

void bp_error_write_more(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    error_write_message(format, args);
    va_end(args);
}

void bp_error_set_operator(const char *op, uint32_t rows)
{
    failed_at.op = op;
    failed_at.rows = rows;
}

void bp_error_set_kernel(const char *kernel)
{
    snprintf(failed_at.kernel, sizeof failed_at.kernel, "%s", kernel);
}

enum bp_status bp_error_get_info(struct bp_error_info *out)
{
    struct bp_error_info info = {.size = sizeof info, .op = failed_at.op ? failed_at.op : "",
                                 .kernel = failed_at.kernel, .rows = failed_at.rows};

    return bp_info_fill(out, &info, sizeof info);
}

void bp_error_enter(void)
{
    written = false;
}

static bool error_is_known(enum bp_status status)
{
    switch (status) {
#define X(name, number, text) case BP_##name:
        BP_STATUSES(X)
#undef X
        return true;
    }
    return false;
}

enum bp_status bp_error_leave(enum bp_status status, const char *plugin, const char *callback)
{
    if (status == BP_OK) return BP_OK;
    if (!error_is_known(status)) {
        bp_error_write("plugin %s: %s answered %d, which is no status that this version knows%s%s",
                       plugin, callback, (int)status, written ? ": " : "", written ? message : "");
        return BP_ERR_DEVICE;
    }
    if (!written)
        bp_error_write("plugin %s: %s failed and gave no reason: %s", plugin, callback,
                       bp_status_text(status));
    return status;
}

enum bp_status bp_info_fill_for(const char *call, void *out, const void *full, size_t full_size)
{
    size_t size = out ? *(size_t *)out : 0;

    if (size < sizeof(size_t) || size > 65536)
        return bp_error(BP_ERR_INVALID,
                        "%s: out is NULL, or its size field is not set to its sizeof", call);
    if (size > full_size) size = full_size; /* a newer caller sees the size that was filled */
    memcpy(out, full, size);
    *(size_t *)out = size;
    return BP_OK;
}

const char *bp_status_name(enum bp_status status)
{
    switch (status) {
#define X(name, number, text) \
    case BP_##name: return "BP_" #name;
        BP_STATUSES(X)
#undef X
    }
    return "BP_ERR_?";
}

const char *bp_status_text(enum bp_status status)
{
    switch (status) {
#define X(name, number, text) \
    case BP_##name: return text;
        BP_STATUSES(X)
#undef X
    }
    return "a status that this version does not know";
}
