/* SPDX-License-Identifier: Apache-2.0 */
/* ltdl.c: opens plugin libraries through libltdl, with a loader module that makes this safe.
 *
 * By default libltdl binds lazily, reports "file not found" for every failure, and may open another
 * file than the one that was checked. So the core adds its own loader module in front of libltdl's
 * loaders. The module
 *  - declines every file except the one that is being opened now: other users of libltdl in the
 *    process are not affected;
 *  - never returns NULL for that file, because libltdl would then try its own loaders: after a
 *    failure it returns a module without a library that holds the real reason.
 * libltdl has no locks: the core holds one during every call. (This does not exclude another
 * library that calls libltdl in another thread at the same time.) */
#include "loader.h"
#include <dlfcn.h>
#include <errno.h>
#include <libltdl/lt_dlloader.h>
#include <ltdl.h>
#include <stdlib.h>
#include <string.h>

struct module {
    void *library; /* NULL: why has the reason */
    char *why;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool ready;
    const char *path;    /* file being opened now, or NULL */
    struct module *next; /* for module_open: without memory it could not stop libltdl's own
                            loaders */
    struct module *last; /* the module that module_open returned last */
} loader;

static lt_module module_open(lt_user_data data, const char *file, lt_dladvise advise)
{
    struct module *module;
    const char *text;

    (void)data;
    (void)advise;
    if (!file || !loader.path || strcmp(file, loader.path)) return NULL;
    module = loader.next;
    if (!module) return NULL;
    loader.next = NULL;
    module->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!module->library) {
        text = dlerror();
        module->why = strdup(text ? text : "no reason given");
    }
    return loader.last = module;
}

static int module_close(lt_user_data data, lt_module handle)
{
    struct module *module = handle;

    (void)data;
    if (module->library) dlclose(module->library);
    free(module->why);
    free(module);
    return 0;
}

static void *find_symbol(lt_user_data data, lt_module handle, const char *name)
{
    struct module *module = handle;

    (void)data;
    return module->library ? dlsym(module->library, name) : NULL;
}

/* The table is never freed: libltdl refers to it and would free it in lt_dlexit, which the core
 * never calls. */
static bool add_loader(void)
{
    lt_dlvtable *table;

    if (loader.ready) return true;
    if (lt_dlinit()) return false;
    table = calloc(1, sizeof *table);
    if (!table) return false;
    *table = (lt_dlvtable){.name = "backplane",
                           .module_open = module_open,
                           .module_close = module_close,
                           .find_sym = find_symbol,
                           .priority = LT_DLLOADER_PREPEND};
    if (lt_dlloader_add(table)) {
        free(table);
        return false;
    }
    return loader.ready = true;
}

/* Returns a permanently open handle, or NULL and the reason. lt_dlopenext, and names without a
 * directory, are never used: both search for other files than the one that was checked. */
static lt_dlhandle ltdl_open_library(const char *path, char **out_why)
{
    lt_dlhandle handle;
    const char *text;
    bool memory;

    loader.next = calloc(1, sizeof *loader.next);
    if (!loader.next) return NULL;
    loader.path = path;
    loader.last = NULL;
    errno = 0;
    handle = lt_dlopen(
        path); /* for a file that is already open it returns without a call of the loader */
    memory = !handle && errno == ENOMEM; /* in libltdl: our loader returns a module */
    loader.path = NULL;
    free(loader.next);
    loader.next = NULL;
    if (memory) return NULL;
    if (!handle) {
        text = lt_dlerror();
        *out_why = strdup(text ? text : "no reason given");
        return NULL;
    }
    if (loader.last && !loader.last->library) {
        *out_why = loader.last->why;
        loader.last->why = NULL;
        lt_dlclose(handle);
        return NULL;
    }
    lt_dlmakeresident(handle);
    return handle;
}

void bp_library_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
}

void *bp_library_open_symbol(const char *path, const char *symbol, bool *out_opened, char **out_why)
{
    void *address = NULL;
    lt_dlhandle handle = NULL;
    char *why = NULL;

    pthread_mutex_lock(&lock);
    if (add_loader()) handle = ltdl_open_library(path, &why);
    /* If it failed, libltdl did not accept the loader; that happens only without memory. */
    if (handle) address = lt_dlsym(handle, symbol);
    pthread_mutex_unlock(&lock);

    *out_opened = handle != NULL;
    if (handle) free(why);
    else *out_why = why;
    return address;
}
