/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens a library once and fills the table of its functions; see library.h. */
#include "library.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Looks up all functions. Returns the first one that is needed and missing, or NULL. */
static const char *library_fill(const struct kit_library *library, void *opened)
{
    const char *missing = NULL;

    for (int i = 0; i < library->n; i++) {
        const struct kit_symbol *symbol = &library->symbol[i];
        if (!symbol->name) continue;
        library->function[i] = dlsym(opened, symbol->name);
        if (!library->function[i] && symbol->needed && !missing) missing = symbol->name;
    }
    return missing;
}

static enum bp_status library_try(struct kit_library *library, const struct kit_wanted *wanted)
{
    char why[KIT_WHY_SIZE];
    struct kit_found found;
    enum bp_status status = kit_library_open(wanted, &found, why);
    const char *missing;

    memcpy(library->path, found.path, sizeof library->path);
    if (status == BP_ERR_ABSENT) memcpy(library->why, why, sizeof why);
    else if (status)
        snprintf(library->why, sizeof library->why, "%.200s cannot be opened: %.700s", found.path,
                 why);
    if (status) return status;
    missing = library_fill(library, found.library);
    if (!missing) return BP_OK;
    snprintf(library->why, sizeof library->why, "%.500s has no function %s%s", found.path, missing,
             library->advice ? library->advice : "");
    return BP_ERR_DEVICE;
}

enum bp_status kit_library_load(struct kit_library *library, const struct kit_wanted *wanted)
{
    enum bp_status status;

    pthread_mutex_lock(&library->lock);
    if (!library->tried) library->status = library_try(library, wanted);
    library->tried = true;
    status = library->status;
    pthread_mutex_unlock(&library->lock);
    return status;
}
