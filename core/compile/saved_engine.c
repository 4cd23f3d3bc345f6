/* SPDX-License-Identifier: Apache-2.0 */
/* saved_engine.c: writes groups of nodes that engines compiled to the file of a program (saved.h),
 * and compiles the groups of a file again.
 *
 * A file has the nodes of a group as it has others, and for the group the bytes by which the engine
 * makes it again. The bytes are given to the engine only if the group's graph is the same. */
#include "saved.h"

#include "../plugin/entry.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- write ---- */

const struct bp_engine_group *bp_saved_group_of(const struct bp_ir *ir, uint32_t node)
{
    const struct bp_engine_report *r = ir->engines;

    for (uint32_t g = 0; bp_engine_is_row(ir->node[node].call.row) && r && g < r->n_group; g++)
        if (r->group[g].compiled && r->group[g].node == node) return &r->group[g];
    return NULL;
}

/* A file would have the kernels for groups that no engine could compile this time, and no engine
 * would see these again. */
enum bp_status bp_saved_check_groups(const struct bp_ir *ir)
{
    const struct bp_engine_report *r = ir->engines;

    if (r && r->failure)
        return bp_error(BP_ERR_UNSUPPORTED, "an engine could not claim nodes: %s", r->failure);
    for (uint32_t g = 0; r && g < r->n_group; g++)
        if (!r->group[g].compiled)
            return bp_error(BP_ERR_UNSUPPORTED, "the engine of %s could not compile the group of "
                            "%s", r->group[g].engine, r->group[g].name);
    return BP_OK;
}

static enum bp_status group_write(void *ctx, const void *data, uint64_t size)
{
    struct bp_kept_writer *w = ctx;

    if (size > SIZE_MAX / 4) w->failed = true;
    else bp_kept_bytes(w, data, (size_t)size);
    return w->failed ? bp_error(BP_ERR_MEMORY, "no host memory to save a group of nodes") : BP_OK;
}

enum bp_status bp_saved_write_group(const struct bp_ir *ir, const struct bp_engine_group *group,
                                    uint32_t first, struct bp_kept_writer *w)
{
    const struct bp_engine_code *code = bp_engine_code_of(ir->node[group->node].prepared);
    enum bp_status status;
    uint64_t n;
    size_t at;

    bp_kept_text(w, code->entry->plugin.name);
    bp_kept_u32(w, first);
    bp_kept_u32(w, group->n_node);
    bp_kept_bytes(w, code->hash, sizeof code->hash);
    at = w->n;
    bp_kept_u64(w, 0);
    if (!code->engines->save) return BP_OK;
    bp_error_enter();
    status = code->engines->save(code->entry->self, code->device->index, code->engine, w,
                                 group_write);
    status = bp_addon_leave(code->device, code->entry, status, "save");
    if (status || w->failed) return status;
    n = w->n - at - sizeof n;
    memcpy(w->bytes + at, &n, sizeof n);
    return BP_OK;
}

/* ---- read ---- */

bool bp_saved_read_group(struct bp_kept_reader *r, struct bp_saved_group *to)
{
    uint64_t n;

    to->engine = bp_kept_get_text(r);
    to->first = bp_kept_get_u32(r);
    to->n = bp_kept_get_u32(r);
    to->hash = bp_kept_get_bytes(r, 32);
    n = bp_kept_get_u64(r);
    to->n_bytes = (size_t)n;
    to->bytes = n <= SIZE_MAX ? bp_kept_get_bytes(r, to->n_bytes) : NULL;
    return to->bytes && !r->failed;
}

static enum bp_status group_bad(const char *what)
{
    return bp_error(BP_ERR_INVALID, "the file of a program is invalid: a group of %s", what);
}

/* Finds the engine of this plugin. */
static enum bp_status group_entry(const struct bp_ir *ir, const char *name,
                                  struct bp_plugin_entry **out_entry)
{
    struct bp_plugin_entry **list, *found = NULL;
    uint32_t n;

    TRY(bp_engine_entries(ir, &list, &n));
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(list[i]->plugin.name, name)) found = list[i];
    free(list);
    *out_entry = found;
    return found ? BP_OK : group_bad("an engine that the device does not have");
}

/* Whether the nodes are contiguous and may be in a group of the engine. */
static enum bp_status group_check(const struct bp_ir *ir, const uint32_t *nodes, uint32_t n,
                                  const struct bp_plugin_entry *entry)
{
    struct bp_updates updates = {NULL};
    struct bp_graph_copy *graph;
    const char *why = NULL;
    enum bp_status status;
    bool good;

    for (uint32_t i = 0; i < n; i++)
        if (ir->node[nodes[i]].dead || (i && ir->node[nodes[i - 1]].next != nodes[i]))
            return group_bad("nodes that are not one after the other");
    TRY(bp_updates_check_list(ir, nodes, n, &good));
    if (!good) return group_bad("some of the nodes that use memory which the graph updates");
    TRY(bp_graph_copy_create(ir, nodes, n, &graph));
    status = bp_updates_create(ir, &updates);
    for (uint32_t i = 0; i < n && !why && status == BP_OK; i++)
        why = bp_claim_refusal(ir, graph, i, &updates, entry);
    bp_updates_finish(&updates);
    bp_graph_copy_destroy(graph);
    if (status) return status;
    return why ? group_bad("a node that no engine may run") : BP_OK;
}

static enum bp_status group_restore(struct bp_ir *ir, uint32_t *nodes,
                                    const struct bp_saved_group *from, struct bp_engine_group *to)
{
    const struct bp_engine_blob blob = {from->bytes, from->n_bytes, from->hash};
    struct bp_plugin_entry *entry;

    TRY(group_entry(ir, from->engine, &entry));
    TRY(group_check(ir, nodes, from->n, entry));
    *to = (struct bp_engine_group){.engine = entry->plugin.name,
                                   .name = strdup(ir->node[nodes[from->n - 1]].call.name),
                                   .n_node = from->n};
    ir->engines->n_group++;
    if (!to->name) return bp_error(BP_ERR_MEMORY, "no host memory to read a program");
    TRY(bp_engine_make_group(ir, entry, nodes, from->n, &blob, to));
    bp_ir_resolve(ir);
    return BP_OK;
}

enum bp_status bp_saved_restore(struct bp_ir *ir, uint32_t first_node, uint32_t n_node,
                                const struct bp_saved_group *list, uint32_t n)
{
    uint32_t *nodes = malloc((n_node + 1u) * sizeof *nodes);
    enum bp_status status = BP_OK;

    ir->engines = calloc(1, sizeof *ir->engines);
    if (ir->engines) ir->engines->group = calloc(n + 1u, sizeof *ir->engines->group);
    if (!nodes || !ir->engines || !ir->engines->group)
        status = bp_error(BP_ERR_MEMORY, "no host memory to read a program");
    for (uint32_t i = 0; nodes && i < n_node; i++) nodes[i] = first_node + i;
    for (uint32_t g = 0; g < n && status == BP_OK; g++)
        status = list[g].n && list[g].first <= n_node && list[g].n <= n_node - list[g].first
                     ? group_restore(ir, nodes + list[g].first, &list[g], &ir->engines->group[g])
                     : group_bad("nodes that do not exist");
    free(nodes);
    return status;
}
