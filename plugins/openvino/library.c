/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: finds and opens OpenVINO's C library, and translates its errors; see library.h.
 *
 * The file's name ends with the version, libopenvino_c.so.2641, and the system's loader finds it
 * only by its whole name, so that the plugin searches folders. BP_OPENVINO_LIBRARY names the file
 * instead ("off": none). */
#include "library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SETTING "BP_OPENVINO_LIBRARY"
#define NAME "libopenvino_c.so"

enum {
    PATH_SIZE = 1024,
    WHY_SIZE = 900
};

/* The folders of distributions, of OpenVINO's archives, and of its Python package: patterns, which
 * may begin with an environment variable. */
#define PACKAGE "/python3*/*-packages/openvino/libs"
static const char *const folders[] = {
    "$VIRTUAL_ENV/lib" PACKAGE,
    "$HOME/.local/lib" PACKAGE,
    "/usr/local/lib" PACKAGE,
    "/usr/lib" PACKAGE,
    "/opt/intel/openvino*/runtime/lib/*",
    "/usr/local/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
};

static const struct {
    const char *name;
    size_t at; /* of the pointer in struct openvino_calls */
    bool needed;
} wanted[] = {
#define CALL(name, result, parameters) {#name, offsetof(struct openvino_calls, name), true},
#define MAYBE(name, result, parameters) {#name, offsetof(struct openvino_calls, name), false},
#include "calls.def"
};

static struct {
    pthread_once_t once;
    struct openvino_calls call;
    enum bp_status status;
    char why[WHY_SIZE];
} library = {.once = PTHREAD_ONCE_INIT};

/* Takes the newest file of a folder that matches. The folder is a text of the environment, in which
 * no character is special, followed by a pattern. */
static bool library_in(char out[PATH_SIZE], const char *text, size_t length, const char *pattern)
{
    char whole[2 * PATH_SIZE];
    size_t used = 0;
    glob_t all;
    bool found = false;

    if (length >= PATH_SIZE || (length && *text != '/')) return false;
    for (; length; length--) {
        if (strchr("*?[\\", *text)) whole[used++] = '\\';
        whole[used++] = *text++;
    }
    snprintf(whole + used, sizeof whole - used, "%s/" NAME "*", pattern);
    if (glob(whole, 0, NULL, &all)) return false;
    for (size_t i = 0; i < all.gl_pathc; i++) {
        const char *path = all.gl_pathv[i];
        if (strlen(path) >= PATH_SIZE || access(path, R_OK)) continue;
        if (!found || strverscmp(path, out) > 0) strcpy(out, path);
        found = true;
    }
    globfree(&all);
    return found;
}

/* Searches a folder of the list above. */
static bool library_in_folder(char out[PATH_SIZE], const char *folder)
{
    char name[32];
    size_t length = strcspn(folder, "/");
    const char *value;

    if (*folder != '$') return library_in(out, "", 0, folder);
    snprintf(name, sizeof name, "%.*s", (int)length - 1, folder + 1);
    value = secure_getenv(name);
    return value && *value && library_in(out, value, strlen(value), folder + length);
}

static bool library_search(char out[PATH_SIZE])
{
    const char *list = secure_getenv("LD_LIBRARY_PATH");

    while (list && *list) {
        size_t length = strcspn(list, ":");
        if (length && library_in(out, list, length, "")) return true;
        list += length + (list[length] == ':');
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (library_in_folder(out, folders[i])) return true;
    return false;
}

static enum bp_status library_refuse(enum bp_status status, const char *format, const char *what)
{
    library.status = status;
    snprintf(library.why, sizeof library.why, format, what);
    return status;
}

/* Writes which files were searched in which folders. */
static enum bp_status library_absent(void)
{
    char list[512] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, ", %s", folders[i]);
    return library_refuse(BP_ERR_ABSENT,
                          "there is no " NAME " and no " NAME ".VERSION in the folders of "
                          "LD_LIBRARY_PATH%s; install OpenVINO, or name the file by " SETTING,
                          list);
}

static enum bp_status library_locate(char out[PATH_SIZE])
{
    const char *given = secure_getenv(SETTING);

    if (!given || !*given) return library_search(out) ? BP_OK : library_absent();
    if (!strcmp(given, "off")) return library_refuse(BP_ERR_ABSENT, "%s is off", SETTING);
    if (*given != '/' || strlen(given) >= PATH_SIZE || access(given, R_OK))
        return library_refuse(BP_ERR_ABSENT,
                              SETTING
                              "=%.300s names no file that can be read by its absolute path; "
                              "unset it to search the usual folders",
                              given);
    strcpy(out, given);
    return BP_OK;
}

static void library_load(void)
{
    char path[PATH_SIZE];
    const char *error;
    void *handle;

    if (library_locate(path)) return;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        error = dlerror();
        library_refuse(BP_ERR_DEVICE, "the library cannot be opened: %.700s",
                       error ? error : path); /* sanitizers' dlerror can be NULL */
        return;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = dlsym(handle, wanted[i].name);
        memcpy((char *)&library.call + wanted[i].at, &function, sizeof function);
        if (function || !wanted[i].needed) continue;
        library_refuse(BP_ERR_DEVICE,
                       "the library has no function %s; install OpenVINO 2023.1 or newer",
                       wanted[i].name);
        return;
    }
}

enum bp_status openvino_open(const struct bp_host *host, const struct openvino_calls **out_calls)
{
    pthread_once(&library.once, library_load);
    if (library.status) return bp_fail(host, library.status, "openvino: %s", library.why);
    *out_calls = &library.call;
    return BP_OK;
}

/* The library's codes that have a status of their own. */
static enum bp_status status_of(int code)
{
    switch (code) {
    case -2: /* not implemented */
    case -16: /* no such function in C */ return BP_ERR_UNSUPPORTED;
    case -8: /* the request is busy */ return BP_ERR_BUSY;
    case -10: /* not allocated */ return BP_ERR_MEMORY;
    case -13: /* cancelled */ return BP_ERR_CANCELLED;
    default: return BP_ERR_DEVICE;
    }
}

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
                              int code, const char *call)
{
    char text[700];
    const char *name;

    if (!code) return BP_OK;
    name = calls->ov_get_error_info(code);
    return bp_fail(host, status_of(code), "openvino: %s: %s (%d): %s", call, name ? name : "error",
                   code, last_text(calls, text, sizeof text));
}
