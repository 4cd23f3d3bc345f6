/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens OpenVINO's C library, and translates its errors; see library.h.
 *
 * The file's name ends with the version, libopenvino_c.so.2641, and the system's loader finds it
 * only by its whole name, so that the plugin searches folders. BP_OPENVINO_LIBRARY names the file
 * instead ("off": none). */
#include "library.h"
#include <kit/call.h>
#include <kit/library.h>

/* The folders of distributions, of OpenVINO's archives, and of its Python package. */
#define PACKAGE "/python3*/*-packages/openvino/libs"
static const char folders[] = "$VIRTUAL_ENV/lib" PACKAGE ":$HOME/.local/lib" PACKAGE
                              ":/usr/local/lib" PACKAGE ":/usr/lib" PACKAGE
                              ":/opt/intel/openvino*/runtime/lib/*:/usr/local/lib"
                              ":/usr/lib/*-linux-gnu:/usr/lib64:/usr/lib";

#define CALL(name, result, parameters) {#name, true},
#define MAYBE(name, result, parameters) {#name, false},
#define KIT_LIST "openvino/calls.def"
#define KIT_TABLE loaded
#define KIT_CALLS struct openvino_calls
#include <kit/table.h>

enum bp_status openvino_open(const struct bp_host *host, const struct openvino_calls **out_calls)
{
    static const char *const names[] = {"libopenvino_c.so*", NULL};
    static const enum kit_place place[] = {KIT_PATH, KIT_FOLDERS, KIT_PLACES};
    static const struct kit_wanted wanted = {"openvino", "LIBRARY", names, folders, place};
    static struct kit_library library = KIT_LIBRARY(loaded_symbols, loaded.function,
                                                    "; install OpenVINO 2023.1 or newer");
    enum bp_status status = kit_library_load(&library, &wanted);

    if (status) return bp_fail(host, status, "openvino: %s", library.why);
    *out_calls = &loaded.call;
    return BP_OK;
}

/* The library's codes that have a status of their own. */
static const struct kit_error known[] = {
    {-2, BP_ERR_UNSUPPORTED, "not implemented"},
    {-8, BP_ERR_BUSY, "the request is busy"},
    {-10, BP_ERR_MEMORY, "not allocated"},
    {-13, BP_ERR_CANCELLED, "cancelled"},
    {-16, BP_ERR_UNSUPPORTED, "no such function in C"},
};
static const struct kit_errors errors = {known, sizeof known / sizeof *known, NULL};

/* The text of the last failure in the process: another thread's, at worst. */
static const char *last_text(const struct openvino_calls *calls, char *out, size_t size)
{
    const char *text = calls->ov_get_last_err_msg ? calls->ov_get_last_err_msg() : NULL;

    if (!text) return "no text";
    snprintf(out, size, "%s", text);
    calls->ov_free(text);
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
    return out;
}

enum bp_status openvino_check(const struct bp_host *host, const struct openvino_calls *calls,
                              int code, const char *function)
{
    struct kit_call call = {host, "openvino", -1, function, code, NULL};
    char text[700], both[800];
    const char *name;

    kit_call_trace(&call);
    if (!code) return BP_OK;
    name = calls->ov_get_error_info(code);
    snprintf(both, sizeof both, "%s: %s", name ? name : "error",
             last_text(calls, text, sizeof text));
    return kit_call_fail(&call, kit_error_find(&errors, NULL, code).status, both, NULL);
}
