/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: finds and opens the files of OpenBLAS and oneDNN; see library.h. */
#include "library.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of a library's file, or NULL. */
static const char *library_file(const struct cpu_library *library)
{
    const char *given = secure_getenv(library->variable);

    if (given && !strcmp(given, "off")) return NULL;
    if (given && *given) return given[0] == '/' && !access(given, R_OK) ? given : NULL;
    for (const char *const *place = library->places; *place; place++)
        if (!access(*place, R_OK)) return *place;
    return NULL;
}

bool cpu_library_name(const struct cpu_library *library, char *out, size_t size)
{
    const char *file = library_file(library);
    char real[PATH_MAX];

    if (!file || !realpath(file, real)) return false;
    snprintf(out, size, "%s", strrchr(real, '/') + 1);
    return true;
}

enum bp_status cpu_library_usable(struct cpu *self, const struct cpu_library *library,
                                  const char *row)
{
    const char *given = secure_getenv(library->variable);

    if (library_file(library)) return BP_OK;
    if (given && *given)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED,
                       "%s: %s=%s names no file that can be read by its "
                       "absolute path; unset it to search the usual places",
                       row, library->variable, given);
    return bp_fail(
        self->host, BP_ERR_UNSUPPORTED,
        "%s: %s is not installed (looked for %s and others); install %s, or set %s to its path",
        row, library->name, library->places[0], library->package, library->variable);
}

void cpu_library_check(struct cpu *self, const struct cpu_library *library)
{
    const char *given = secure_getenv(library->variable);

    if (!given || !*given || library_file(library) || !strcmp(given, "off")) return;
    errno = ENOENT;
    if (*given == '/') (void)access(given, R_OK);
    bp_log(self->host, BP_LOG_WARN,
           "cpu: %s=%s names no file that can be read, the kernels of %s are passed over: %s",
           library->variable, given, library->name,
           *given == '/' ? strerror(errno) : "the path is not absolute");
}

bool cpu_library_present(const struct cpu_library *library)
{
    return library_file(library) != NULL;
}

bool cpu_library_open(struct cpu *self, const struct cpu_library *library, const char *const *names,
                      int n, void **to)
{
    const char *file = library_file(library);
    void *handle = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!handle) {
        const char *why = file ? dlerror() : "there is no file of it any more";
        bp_log(self->host, BP_LOG_WARN,
               "cpu: %s cannot be opened, its kernels are passed over: %s (%s names another file)",
               library->name, why ? why : "the loader gives no reason", /* sanitizers' dlerror can
                                                                           be NULL */
               library->variable);
        return false;
    }
    for (int i = 0; i < n; i++) {
        void *symbol = dlsym(handle, names[i]);
        if (!symbol) {
            bp_log(self->host, BP_LOG_WARN,
                   "cpu: %s has no function %s, its kernels are passed over; expected %s", file,
                   names[i], library->package);
            return false;
        }
        to[i] = symbol;
    }
    return true;
}
