/* SPDX-License-Identifier: Apache-2.0 */
/* api.c: implements the functions of backplane/core.h that list and load plugins. */
#include "loader.h"
#include <stdlib.h>
#include <string.h>

uint32_t bp_core_plugins(struct bp_core *core)
{
    uint32_t count;

    if (!bp_core_is(core)) {
        bp_not_a("core");
        return 0;
    }
    pthread_mutex_lock(&core->lock);
    count = core->n_entry;
    pthread_mutex_unlock(&core->lock);
    return count;
}

static enum bp_status find_entry(struct bp_core *core, const char *caller, uint32_t index,
                                 struct bp_plugin_entry **out_entry)
{
    struct bp_plugin_entry *entry;
    uint32_t count;

    if (!bp_core_is(core)) return bp_not_a_for(caller, "core");
    pthread_mutex_lock(&core->lock);
    count = core->n_entry;
    entry = index < count ? core->entry[index] : NULL;
    pthread_mutex_unlock(&core->lock);
    if (!entry)
        return bp_error(
            BP_ERR_INVALID,
            "%s: there is no plugin %u: expected less than %u, the number of plugins found", caller,
            index, count);
    *out_entry = entry;
    return BP_OK;
}

enum bp_status bp_core_plugin(struct bp_core *core, uint32_t index, struct bp_plugin_info *out)
{
    struct bp_plugin_entry *entry = NULL;
    struct bp_plugin_info info = {0};

    TRY(find_entry(core, "bp_core_plugin", index, &entry));
    pthread_mutex_lock(
        &core->lock); /* not the entry's lock: the loading thread may hold it for long */
    info.name = entry->manifest.name;
    info.kind = entry->manifest.kind;
    info.version = entry->manifest.version;
    info.manifest = entry->manifest_path;
    info.library = entry->manifest.library;
    info.adds_to = entry->manifest.adds_to ? entry->manifest.adds_to : "";
    info.reason = entry->reason;
    info.priority = entry->manifest.priority;
    info.state = entry->state;
    info.step = entry->step;
    if (info.state == BP_PLUGIN_READY) info.devices = entry->n_device;
    pthread_mutex_unlock(&core->lock);
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_core_load(struct bp_core *core, uint32_t index)
{
    struct bp_plugin_entry *entry = NULL;

    TRY(find_entry(core, "bp_core_load", index, &entry));
    return bp_plugin_load(entry);
}

/* Finds the entry of a path that was added before; NULL if there is none. The caller holds the
 * core's lock. */
static struct bp_plugin_entry *find_path(struct bp_core *core, const char *path,
                                         uint32_t *out_index)
{
    for (uint32_t i = 0; i < core->n_entry; i++) {
        if (*core->entry[i]->manifest_path || strcmp(core->entry[i]->manifest.library, path))
            continue;
        *out_index = i;
        return core->entry[i];
    }
    return NULL;
}

static struct bp_plugin_entry *create_entry(struct bp_core *core, const char *path)
{
    struct bp_plugin_entry *entry = bp_plugin_entry_create(core, "");

    if (!entry) return NULL;
    entry->manifest = (struct bp_manifest){.name = bp_path_plugin_name(path),
                                           .kind = strdup(""),
                                           .version = strdup(""),
                                           .library = strdup(path)};
    if (entry->manifest.name && entry->manifest.kind && entry->manifest.version &&
        entry->manifest.library)
        return entry;
    bp_plugin_entry_destroy(entry);
    return NULL;
}

static enum bp_status plugin_add_normalized(struct bp_core *core, const char *path,
                                            uint32_t *out_index)
{
    struct bp_plugin_entry *fresh = create_entry(core, path), *entry;
    enum bp_status status = BP_OK;

    if (!fresh) return bp_error(BP_ERR_MEMORY, "no memory for another plugin");
    pthread_mutex_lock(&core->lock);
    entry = find_path(core, path, out_index);
    if (!entry) status = bp_plugin_entry_append(core, fresh, out_index);
    pthread_mutex_unlock(&core->lock);
    if (entry || status) bp_plugin_entry_destroy(fresh);
    return status;
}

enum bp_status bp_plugin_add_path(struct bp_core *core, const char *path, uint32_t *out_index)
{
    char shown[BP_SHOWN_PATH], *clean;
    enum bp_status status;

    if (!path || path[0] != '/' || bp_path_has_parent(path) || !bp_path_has_suffix(path, ".so"))
        return bp_error(BP_ERR_INVALID,
                        "the path of a plugin is wrong: expected an absolute path without \"..\" "
                        "that ends in .so, got %s%s%s; write it out",
                        path ? "\"" : "", bp_show(shown, sizeof shown, path ? path : "NULL"),
                        path ? "\"" : "");
    clean = bp_path_normalize(path);
    if (!clean) return bp_error(BP_ERR_MEMORY, "no memory for another plugin");
    status = plugin_add_normalized(core, clean, out_index);
    free(clean);
    return status;
}

enum bp_status bp_core_load_path(struct bp_core *core, const char *path, uint32_t *out_index)
{
    struct bp_plugin_entry *entry = NULL;
    uint32_t index;

    if (!bp_core_is(core)) return bp_not_a("core");
    TRY(bp_plugin_add_path(core, path, &index));
    TRY(find_entry(core, "bp_core_load_path", index, &entry));
    TRY(bp_plugin_load(entry));
    if (out_index) *out_index = index;
    return BP_OK;
}
