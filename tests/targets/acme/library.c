/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens Acme's library at run time, and turns its codes into statuses and messages.
 * Read next: plugin.c. */
#include "acme.h"
#include <string.h>

#define OPERATOR(name) {#name, false},
#define KIT_LIST "calls.def"
#define KIT_TABLE library
#define KIT_CALLS struct acme_calls
#include <kit/table.h>

enum bp_status acme_open(const struct bp_host *host, const struct acme_calls **out)
{
    static const char *const names[] = {"libacme.so.2", NULL};
    static const enum kit_place place[] = {KIT_PATH, KIT_FOLDERS, KIT_LOADER, KIT_PLACES};
    static const struct kit_wanted wanted = {"acme", "LIBRARY", names,
                                             "$ACME_HOME/lib:/opt/acme/lib", place};
    static struct kit_library loaded = KIT_LIBRARY(library_symbols, library.function,
                                                   ": install version 2 or newer");
    enum bp_status status = kit_library_load(&loaded, &wanted);

    if (status) return bp_fail(host, status, "acme: %s", loaded.why);
    *out = &library.call;
    return BP_OK;
}

void *acme_function(const struct acme *acme, const char *name)
{
    for (size_t i = 0; i < sizeof library_symbols / sizeof *library_symbols; i++)
        if (!strcmp(library_symbols[i].name, name)) return ((void *const *)acme->call)[i];
    return NULL;
}

static const struct kit_error known[] = {
    {1, BP_ERR_INVALID, "an argument is wrong"},
    {2, BP_ERR_MEMORY, "out of memory"},
    {100, BP_ERR_ABSENT, "no device"},
    {ACME_NOT_READY, BP_ERR_NOT_READY, "not ready"},
    {700, BP_ERR_DEVICE_LOST, "work used a wrong address"},
    {719, BP_ERR_DEVICE_LOST, "work failed"},
};

static const char *acme_text(const void *of, int code)
{
    return ((const struct acme_calls *)of)->acmeErrorText(code);
}

static const struct kit_errors errors = {known, sizeof known / sizeof *known, acme_text};

enum bp_status acme_check(const struct acme_device *device, const char *function, int code)
{
    const struct kit_report *at = &device->report;
    const struct kit_call call = {at->host, "acme", at->device, function, code, NULL};
    struct kit_error error;

    kit_call_trace(&call);
    if (!code) return BP_OK;
    error = kit_error_find(&errors, device->acme->call, code);
    return kit_call_fail(&call, error.status, error.text,
                         error.status == BP_ERR_DEVICE_LOST ? "start the process again" : NULL);
}

/* The same where the caller cannot return a failure. A lost device refuses all calls: that is
 * known already. */
void acme_note(const struct acme_device *device, const char *function, int code)
{
    const struct kit_report *at = &device->report;
    const struct kit_call call = {at->host, "acme", at->device, function, code, NULL};
    struct kit_error error = kit_error_find(&errors, device->acme->call, code);

    kit_call_trace(&call);
    if (code && error.status != BP_ERR_DEVICE_LOST) kit_call_warn(&call, error.text);
}
