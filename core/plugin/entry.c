/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c: creates, publishes and destroys plugin entries, and stores the result of loading
 * them. */
#include "../base/activity.h"
#include "engine_rows.h"
#include "loader.h"
#include "patterns.h"
#include <stdlib.h>
#include <string.h>

struct bp_plugin_entry *bp_plugin_entry_create(struct bp_core *core, const char *manifest_path)
{
    struct bp_plugin_entry *entry = calloc(1, sizeof *entry);

    if (!entry) return NULL;
    entry->core = core;
    entry->reason = "";
    entry->manifest_path = strdup(manifest_path);
    if (!entry->manifest_path) {
        free(entry);
        return NULL;
    }
    pthread_mutex_init(&entry->lock, NULL);
    return entry;
}

enum bp_status bp_plugin_entry_append(struct bp_core *core, struct bp_plugin_entry *entry,
                                      uint32_t *out_index)
{
    struct bp_plugin_entry **more = realloc(core->entry, (core->n_entry + 1) * sizeof *more);

    if (!more) return bp_error(BP_ERR_MEMORY, "no memory for another plugin");
    core->entry = more;
    *out_index = core->n_entry;
    more[core->n_entry++] = entry;
    return BP_OK;
}

void bp_plugin_set_result(struct bp_plugin_entry *entry, struct bp_refusal *why)
{
    static const char no_memory[] = "out of memory while the plugin was loaded";
    uint32_t state = why->state ? why->state : BP_PLUGIN_READY;
    const char *reason = state == BP_PLUGIN_READY ? "" : why->text ? why->text : strdup(no_memory);

    pthread_mutex_lock(&entry->core->lock);
    entry->state = state;
    entry->reason = reason ? reason : "";
    if (state == BP_PLUGIN_READY) entry->step = BP_STEP_COUNT;
    entry->status = state == BP_PLUGIN_READY    ? BP_OK
                    : state == BP_PLUGIN_ABSENT ? BP_ERR_ABSENT
                                                : BP_ERR_PLUGIN;
    pthread_mutex_unlock(&entry->core->lock);
    atomic_store(&entry->finished, true);

    *why = (struct bp_refusal){0};
    if (state == BP_PLUGIN_BROKEN) bp_core_log(entry->core, BP_LOG_ERROR, "%s", entry->reason);
    if (state == BP_PLUGIN_ABSENT) bp_core_log(entry->core, BP_LOG_INFO, "%s", entry->reason);
}

bool bp_entry_resize(void *list, size_t count, size_t size)
{
    void *more = realloc(*(void **)list, (count + 1) * size); /* not 0: realloc could return NULL */

    if (more) *(void **)list = more;
    return more;
}

bool bp_entry_resize_rows(struct bp_plugin_entry *entry, size_t count)
{
    return bp_entry_resize(&entry->kernel, count, sizeof *entry->kernel) &&
           bp_entry_resize(&entry->kernel_row, count, sizeof *entry->kernel_row) &&
           bp_entry_resize(&entry->kernel_reason, count, sizeof *entry->kernel_reason) &&
           bp_entry_resize(&entry->kernel_layouts, count, sizeof *entry->kernel_layouts);
}

/* Frees rows without any plan left. */
static void call_rows_free(struct bp_engine_call_row *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) pthread_mutex_destroy(&row[i].lock);
    free(row);
}

void bp_plugin_clear_tables(struct bp_plugin_entry *entry)
{
    uint32_t own = entry->kernel_from ? entry->n_own : entry->n_kernel;

    for (uint32_t i = 0; i < own; i++) free(entry->kernel_reason[i]); /* others: the add-on's */
    for (uint32_t i = 0; entry->kernel_layouts && i < own; i++) free(entry->kernel_layouts[i]);
    free(entry->kernel_from);
    free(entry->addon);
    free(entry->kernel_reason);
    free(entry->kernel_layouts);
    free(entry->layout);
    free(entry->kernel_row);
    free(entry->kernel_best);
    free(entry->kernel);
    call_rows_free(entry->call_row, entry->n_call_row);
    entry->kernel = NULL;
    entry->kernel_row = NULL;
    entry->kernel_best = NULL;
    entry->kernel_reason = NULL;
    entry->kernel_from = NULL;
    entry->addon = NULL;
    entry->call_row = NULL;
    entry->n_call_row = 0;
    entry->graph_only = false;
    entry->n_addon = 0;
    entry->n_kernel = entry->n_own = 0;
    for (uint32_t i = 0; i < entry->n_pattern; i++) bp_plugin_pattern_finish(&entry->pattern[i]);
    free(entry->pattern);
    entry->pattern = NULL;
    if (entry->rewrite) free(entry->rewrite->name);
    free(entry->rewrite);
    entry->rewrite = NULL;
    entry->n_pattern = 0;
    entry->kernel_layouts = NULL;
    entry->layout = NULL;
    entry->n_layout = 0;
    entry->plugin = (struct bp_plugin){0};
    entry->runtime = (struct bp_runtime){0};
    entry->captures = (struct bp_captures){0};
    entry->ccl = (struct bp_ccl){0};
    entry->engines = (struct bp_engines){0};
    entry->profilers = (struct bp_profilers){0};
}

void bp_plugin_destroy_instance(struct bp_plugin_entry *entry)
{
    uint32_t note = bp_activity_begin(BP_ACTIVITY_DESTROY, entry->plugin.name, NULL);

    entry->plugin.destroy(entry->self);
    bp_activity_end(note);
}

void bp_plugin_entry_destroy(struct bp_plugin_entry *entry)
{
    if (!entry) return;
    if (entry->plugin.destroy) bp_plugin_destroy_instance(entry);
    bp_plugin_clear_tables(entry);
    bp_manifest_finish(&entry->manifest);
    bp_manifest_finish(&entry->previous_manifest);
    if (*entry->reason) free((char *)entry->reason);
    free(entry->manifest_path);
    pthread_mutex_destroy(&entry->lock);
    free(entry);
}

void bp_plugin_entries_destroy(struct bp_core *core)
{
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < core->n_entry; i++) {
            if (!pass && !core->entry[i]->manifest.adds_to) continue;
            bp_plugin_entry_destroy(core->entry[i]);
            core->entry[i] = NULL;
        }
    free(core->entry);
    core->entry = NULL;
    core->n_entry = 0;
}
