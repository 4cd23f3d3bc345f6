/* SPDX-License-Identifier: Apache-2.0 */
/* addon.c: loads add-ons: plugins without devices that bring operators, kernel rows, passes and
 * engines for the devices of another plugin, their owner. An add-on is loaded in the last step of
 * loading its owner, so that the rows of a device never change while the device is open. A thread
 * that holds the owner's lock takes the lock of an add-on, never the other way round. */
#include "loader.h"
#include "patterns.h"
#include <stdlib.h>
#include <string.h>

static const char *addon_library(const struct bp_load *load)
{
    return load->entry->manifest.library;
}

bool bp_stream_type_is_valid(const char *text)
{
    const char *slash = strchr(text, '/');

    return bp_version_is_valid(text) && slash && slash != text && slash[1];
}

bool bp_addon_table(struct bp_load *load)
{
    const struct bp_plugin *plugin = &load->entry->plugin;
    const char *stray = plugin->kind       ? "kind"
                        : plugin->runtime  ? "runtime"
                        : plugin->ccl      ? "ccl"
                        : plugin->captures ? "captures"
                        : plugin->profiler ? "profiler"
                                           : NULL;
    struct bp_quote quote;

    if (!bp_name_is_valid(plugin->adds_to))
        return bp_broken(&load->why, addon_library(load),
                         "its adds_to cannot be used: expected the kind of another plugin's "
                         "devices, lower-case letters, digits and '_', at most 63, got %s; correct "
                         "it",
                         bp_quote(&quote, plugin->adds_to));
    if (stray)
        return bp_broken(&load->why, addon_library(load),
                         "an add-on has no devices: expected %s to be NULL beside adds_to, got a "
                         "value; leave one of them out",
                         stray);
    if (!plugin->kernels && !plugin->passes && !plugin->engines)
        return bp_broken(&load->why, addon_library(load),
                         "an add-on without kernels, passes and engines brings nothing: expected "
                         "one of them, got NULL; fill it in");
    if (plugin->stream_type) return true;
    return bp_broken(&load->why, addon_library(load),
                     "an add-on is built for streams of one type: expected stream_type, got NULL; "
                     "state the stream_type of the plugin that it adds to");
}

/* Whether the plugin, or an add-on that it has, brought a row of that name. */
static const struct bp_kernel *addon_find_row(const struct bp_plugin_entry *owner, const char *name)
{
    for (uint32_t i = 0; i < owner->n_kernel; i++)
        if (!strcmp(owner->kernel[i].name, name)) return &owner->kernel[i];
    return NULL;
}

bool bp_addon_fits(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry, *owner = load->owner;
    const char *own = entry->plugin.stream_type, *expected;
    const struct bp_kernel *row;
    struct bp_quote quote, other;

    if (!bp_addon_is(entry)) return true;
    if (!owner) {
        load->postponed = true;
        return false;
    }
    expected = owner->plugin.stream_type;
    if (!expected)
        return bp_broken(&load->why, addon_library(load),
                         "plugin %s %s takes no add-ons: expected a stream_type in its table, got "
                         "NULL; use a version of %s that states one",
                         owner->plugin.name, owner->plugin.version, owner->plugin.name);
    if (strcmp(own, expected))
        return bp_broken(&load->why, addon_library(load),
                         "built for streams of another type than those of plugin %s %s: expected "
                         "%s, got %s; install the build of the add-on for this version of %s",
                         owner->plugin.name, owner->plugin.version, bp_quote(&quote, expected),
                         bp_quote(&other, own), owner->plugin.name);
    for (uint32_t i = 0; i < entry->n_kernel; i++) {
        row = addon_find_row(owner, entry->kernel[i].name);
        if (!row) continue;
        return bp_broken(&load->why, addon_library(load),
                         "a kernel row has the name of a row of plugin %s: expected another name "
                         "than %s; let the names of its rows begin with %s_",
                         bp_kernel_plugin(owner, row)->plugin.name, bp_quote(&quote, row->name),
                         entry->plugin.name);
    }
    return true;
}

/* The number of a plugin's passes: its patterns and rewrite. */
static uint32_t passes_of(const struct bp_plugin_entry *entry)
{
    return entry->n_pattern + (entry->rewrite != NULL);
}

bool bp_addon_patterns(struct bp_load *load)
{
    struct bp_plugin_entry *owner = load->owner;
    uint32_t n = passes_of(load->entry), before;

    if (!bp_addon_is(load->entry) || !n) return true;
    before = passes_of(owner);
    for (uint32_t i = 0; i < owner->n_addon; i++) before += passes_of(owner->addon[i]);
    if (before + n <= BP_PLUGIN_PATTERNS) return true;
    return bp_broken(&load->why, addon_library(load),
                     "too many patterns: plugin %s and its add-ons have %u already, expected at "
                     "most %d with those of this add-on, got %u more; use fewer add-ons",
                     owner->plugin.name, before, BP_PLUGIN_PATTERNS, n);
}

/* Adds an add-on and its rows to its owner. The reasons of rows stay the add-on's. */
static bool addons_append(struct bp_plugin_entry *owner, struct bp_plugin_entry *addon)
{
    uint32_t n = owner->n_kernel, more = addon->n_kernel;

    if (!bp_entry_resize_rows(owner, (size_t)n + more) ||
        !bp_entry_resize(&owner->kernel_from, n + more - owner->n_own,
                         sizeof *owner->kernel_from) ||
        !bp_entry_resize(&owner->addon, owner->n_addon + 1, sizeof *owner->addon))
        return false;
    owner->addon[owner->n_addon++] = addon;
    for (uint32_t i = 0; i < more; i++) {
        owner->kernel[n + i] = addon->kernel[i];
        owner->kernel_row[n + i] = addon->kernel_row[i];
        owner->kernel_reason[n + i] = addon->kernel_reason[i];
        owner->kernel_layouts[n + i] = NULL; /* only rows of the owner have layouts */
        owner->kernel_from[n - owner->n_own + i] = addon;
    }
    owner->n_kernel += more;
    return true;
}

/* Loads one add-on for its owner. An add-on that was loaded before joins again: the owner's loading
 * had been undone, because memory ran out. BP_ERR_MEMORY is the only failure that concerns the
 * owner. */
static enum bp_status addons_join(const struct bp_load *load, struct bp_plugin_entry *addon)
{
    struct bp_plugin_entry *owner = load->entry;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&addon->lock);
    if (addon->state == BP_PLUGIN_UNPROBED) {
        status = load->load_addon(addon, owner);
        if (status == BP_OK) {
            addon->owner = owner;
            bp_exit_reregister((const void *)(uintptr_t)addon->plugin.create);
        }
    }
    if (addon->state == BP_PLUGIN_READY && addon->owner == owner && !addons_append(owner, addon))
        status = BP_ERR_MEMORY;
    pthread_mutex_unlock(&addon->lock);
    return status == BP_ERR_MEMORY ? status : BP_OK;
}

/* Lists the add-ons to a kind, those of the highest priority first. false: memory ran out. */
static bool addons_find(struct bp_core *core, const char *kind, struct bp_plugin_entry ***out_list,
                        uint32_t *out_n)
{
    struct bp_plugin_entry **list;
    uint32_t n = 0;

    pthread_mutex_lock(&core->lock);
    list = malloc((core->n_entry + 1) * sizeof *list);
    for (uint32_t i = 0; list && i < core->n_entry; i++) {
        struct bp_plugin_entry *e = core->entry[i];
        uint32_t at = n;
        if (!e->manifest.adds_to || strcmp(e->manifest.adds_to, kind)) continue;
        for (; at > 0 && list[at - 1]->manifest.priority < e->manifest.priority; at--)
            list[at] = list[at - 1];
        list[at] = e;
        n++;
    }
    pthread_mutex_unlock(&core->lock);
    *out_list = list;
    *out_n = n;
    return list;
}

bool bp_addons_load(struct bp_load *load)
{
    struct bp_plugin_entry *entry = load->entry, **list;
    enum bp_status status = BP_OK;
    uint32_t n;

    if (bp_addon_is(entry)) return true;
    if (!addons_find(entry->core, entry->plugin.kind, &list, &n))
        return bp_no_memory(&load->why, addon_library(load));
    for (uint32_t i = 0; i < n && status == BP_OK; i++) status = addons_join(load, list[i]);
    free(list);
    return status == BP_OK || bp_no_memory(&load->why, addon_library(load));
}

/* Refuses an add-on that did not join, although a plugin of its kind was tried. owner: that plugin,
 * which is ready or could not be loaded. */
static void addon_refuse(struct bp_plugin_entry *entry, const struct bp_plugin_entry *owner,
                         enum bp_status status)
{
    char reason[BP_SHOWN_REASON], shown[BP_SHOWN_PATH];
    struct bp_refusal why = {0};

    bp_show(reason, sizeof reason, status ? bp_error_message() : "");
    bp_show(shown, sizeof shown, entry->manifest.library);
    if (status)
        bp_absent(&why, shown,
                  "the plugin that it adds to cannot be used: expected plugin %s to be ready, got "
                  "\"%s\"",
                  owner->manifest.name, reason);
    else
        bp_broken(&why, shown,
                  "too late to add to plugin %s: expected to be there when %s is loaded, got a %s "
                  "that is loaded already; load add-ons before a device of their kind is opened",
                  owner->manifest.name, owner->manifest.name, owner->manifest.name);
    bp_plugin_set_result(entry, &why);
}

/* Returns the plugin of the kind with the highest priority behind `after` in the order of
 * priorities; NULL: there is no other one. */
static struct bp_plugin_entry *addon_next_owner(struct bp_plugin_entry *entry,
                                                const struct bp_plugin_entry *after)
{
    struct bp_core *core = entry->core;
    struct bp_plugin_entry *best = NULL;
    bool behind = !after;

    pthread_mutex_lock(&core->lock);
    for (uint32_t i = 0; i < core->n_entry; i++) {
        struct bp_plugin_entry *e = core->entry[i];
        bool left = !after || e->manifest.priority < after->manifest.priority ||
                    (e->manifest.priority == after->manifest.priority && behind);
        behind |= e == after;
        if (e == after || !left || strcmp(e->manifest.kind, entry->manifest.adds_to)) continue;
        if (!best || e->manifest.priority > best->manifest.priority) best = e;
    }
    pthread_mutex_unlock(&core->lock);
    return best;
}

enum bp_status bp_addon_load(struct bp_plugin_entry *entry,
                             enum bp_status (*load)(struct bp_plugin_entry *owner))
{
    struct bp_plugin_entry *owner = addon_next_owner(entry, NULL), *next = owner;
    enum bp_status status = BP_ERR_NOT_FOUND;

    if (!owner)
        return bp_error(BP_ERR_NOT_FOUND,
                        "%s: no plugin serves the kind %s, to which it adds: expected such a "
                        "plugin, got none; install it, or load it by its path; if BP_PLUGINS is "
                        "set, it has to select both",
                        entry->manifest.library, entry->manifest.adds_to);
    while (next && status != BP_OK && status != BP_ERR_MEMORY) {
        owner = next;
        status = load(owner);
        next = addon_next_owner(entry, owner);
    }
    if (status == BP_ERR_MEMORY) return status;
    pthread_mutex_lock(&entry->lock);
    if (entry->state == BP_PLUGIN_UNPROBED) addon_refuse(entry, owner, status);
    status = entry->status;
    pthread_mutex_unlock(&entry->lock);
    return status;
}
