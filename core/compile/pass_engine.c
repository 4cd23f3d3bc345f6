/* SPDX-License-Identifier: Apache-2.0 */
/* pass_engine.c: lets the engines of plugins compile parts of a graph as a whole. A group that was
 * compiled becomes one node; all other nodes stay as they are.
 *
 * The pass stands behind those that recognise operators and fold constants: an engine wants few,
 * large operators, and weights rather than the expressions for them. It stands before those that
 * choose layouts, join activations to convolutions and fuse: an engine does this in its own way,
 * and does not know the operators that these passes make. */
#include "cancel.h"
#include "engine.h"
#include "passes.h"

#include "../plugin/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status engine_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

/* Fills why nodes are in no group. */
static enum bp_status report_fill(const struct bp_ir *ir, const struct bp_claimed *claimed,
                                  struct bp_engine_report *r)
{
    r->group = calloc(claimed->n_list + 1u, sizeof *r->group);
    r->left = calloc(ir->n_node + 1u, sizeof *r->left);
    if (!r->group || !r->left) return engine_no_memory();
    r->n_left = ir->n_node;
    for (uint32_t n = 0; n < claimed->graph->n_node; n++)
        r->left[claimed->graph->node_of[n]] = claimed->reason[n];
    return BP_OK;
}

/* ---- groups ---- */

/* Compiles a group, and reports the result. Returns only failures that end the compilation. */
static enum bp_status group_try(struct bp_compilation *c, const struct bp_claimed_group *group,
                                const uint32_t *nodes)
{
    struct bp_ir *ir = c->ir;
    struct bp_engine_group *r = &ir->engines->group[ir->engines->n_group];
    enum bp_status status;

    *r = (struct bp_engine_group){.engine = group->entry->plugin.name,
                                  .name = strdup(ir->node[nodes[group->n - 1]].call.name),
                                  .n_node = group->n};
    if (!r->name) return engine_no_memory();
    ir->engines->n_group++;
    status = bp_engine_make_group(ir, group->entry, nodes, group->n, NULL, r);
    if (status == BP_OK) {
        c->changes += group->n;
        return BP_OK;
    }
    TRY(bp_cancel_check(ir->cancel));
    free(r->text);
    r->text = strdup(bp_error_message());
    bp_core_log(ir->device->core, BP_LOG_WARN, "%s: %u nodes up to %s run by kernels: %s",
                ir->device->name, group->n, r->name, bp_error_message());
    return BP_OK;
}

/* ---- the pass ---- */

static enum bp_status groups_compile(struct bp_compilation *c, const struct bp_claimed *claimed)
{
    const struct bp_graph_copy *graph = claimed->graph;
    uint32_t *nodes = malloc((graph->n_node + 1u) * sizeof *nodes);
    enum bp_status status = nodes ? BP_OK : engine_no_memory();

    if (nodes)
        for (uint32_t at = 0; at < graph->n_node; at++)
            nodes[at] = graph->node_of[claimed->order[at]];
    if (nodes && claimed->reordered) bp_ir_set_order(c->ir, nodes, graph->n_node);
    for (uint32_t g = 0; g < claimed->n_list && status == BP_OK; g++)
        status = group_try(c, &claimed->list[g], nodes + claimed->list[g].first);
    free(nodes);
    return status;
}

/* Claims and compiles. A failure of an engine's claim is reported, and ends nothing. */
static enum bp_status engine_apply(struct bp_compilation *c, struct bp_plugin_entry *const *entry,
                                   uint32_t n)
{
    struct bp_ir *ir = c->ir;
    struct bp_graph_copy *graph;
    struct bp_claimed claimed;
    enum bp_status status;

    TRY(bp_graph_copy_create(ir, NULL, 0, &graph));
    status = bp_claimed_create(ir, graph, entry, n, &claimed);
    if (status == BP_OK) {
        ir->engines->failure = claimed.failure;
        claimed.failure = NULL;
        status = report_fill(ir, &claimed, ir->engines);
        if (status == BP_OK) status = groups_compile(c, &claimed);
        bp_claimed_finish(&claimed);
    }
    bp_graph_copy_destroy(graph);
    return status;
}

/* Engines see a graph once: the second time they might claim what they failed to compile. */
enum bp_status bp_pass_engine(struct bp_compilation *c)
{
    struct bp_plugin_entry **entry;
    enum bp_status status = BP_OK;
    uint32_t n;

    if (c->ir->engines || !c->ir->living) return BP_OK;
    TRY(bp_engine_entries(c->ir, &entry, &n));
    if (n) {
        c->ir->engines = calloc(1, sizeof *c->ir->engines);
        status = c->ir->engines ? engine_apply(c, entry, n) : engine_no_memory();
    }
    free(entry);
    return status;
}
