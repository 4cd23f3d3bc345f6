/* SPDX-License-Identifier: Apache-2.0 */
/* pass_engine.c: lets the engines of plugins compile parts of a graph as a whole. A group that was
 * compiled becomes one node; all other nodes stay as they are.
 *
 * The pass stands behind those that recognise operators and fold constants: an engine wants few,
 * large operators, and weights rather than the expressions for them. It stands before those that
 * choose layouts, join activations to convolutions and fuse: an engine does this in its own way,
 * and does not know the operators that these passes make. */
#include "engine.h"
#include "layouts.h"
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

/* Puts the nodes into an order in which groups are contiguous. */
static void nodes_reorder(struct bp_ir *ir, const struct bp_claimed *claimed)
{
    uint32_t previous = BP_NO_VALUE;

    if (!claimed->reordered) return;
    for (uint32_t at = 0; at < claimed->graph->n_node; at++) {
        uint32_t n = claimed->graph->node_of[claimed->order[at]];
        ir->node[n].previous = previous;
        ir->node[n].next = BP_NO_VALUE;
        if (previous == BP_NO_VALUE) ir->first = n;
        else ir->node[previous].next = n;
        ir->last = previous = n;
    }
    ir->edited = true;
}

/* ---- groups ---- */

/* The call of the node that replaces a group. Its lists are owned. */
static enum bp_status group_call(const struct bp_ir *ir, const struct bp_graph_copy *graph,
                                 uint32_t last, struct bp_node *to)
{
    const struct bp_graph_data *d = &graph->data;

    *to = (struct bp_node){.row = &bp_engine_row, .n_in = d->n_in, .n_out = d->n_out, .want = 1};
    to->name = strdup(ir->node[last].call.name);
    to->in = malloc((d->n_in + d->n_out + 1u) * sizeof *to->in);
    if (!to->name || !to->in) {
        free(to->name);
        free(to->in);
        return engine_no_memory();
    }
    to->out = to->in + d->n_in;
    for (uint32_t i = 0; i < d->n_in; i++) to->in[i] = graph->value_of[d->in[i]];
    for (uint32_t o = 0; o < d->n_out; o++) to->out[o] = graph->value_of[d->out[o]];
    to->in_at[1] = (uint16_t)d->n_in;
    to->out_at[1] = (uint16_t)d->n_out;
    return BP_OK;
}

static enum bp_status check_borders(const struct bp_graph_copy *graph)
{
    const struct bp_graph_data *d = &graph->data;

    if (d->n_in <= BP_FLAT_MAX && d->n_out <= BP_FLAT_MAX) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED, "the group has %u inputs and %u outputs: at most %d are "
                    "possible", d->n_in, d->n_out, BP_FLAT_MAX);
}

/* Whether the engine wants another layout than row-major anywhere. */
static bool wants_layouts(const struct bp_engine_code *code)
{
    for (uint32_t o = 0; o < code->n_out; o++)
        if (code->out_layout[o]) return true;
    return false;
}

/* Compiles a group of n nodes. A failure has a message and leaves the IR as it was. */
static enum bp_status group_compile(struct bp_ir *ir, const struct bp_claimed_group *group,
                                    const uint32_t *nodes)
{
    struct bp_graph_copy *graph;
    struct bp_prepared *prepared = NULL;
    struct bp_node call = {0};
    enum bp_status status;

    TRY(bp_graph_copy_create(ir, nodes, group->n, &graph));
    status = check_borders(graph);
    if (status == BP_OK) status = group_call(ir, graph, nodes[group->n - 1], &call);
    if (status) {
        bp_graph_copy_destroy(graph);
        return status;
    }
    status = bp_engine_compile_group(ir, group->entry, graph, &prepared);
    if (status == BP_OK && wants_layouts(bp_engine_code_of(prepared)))
        status = bp_layouts_keep_outputs(ir); /* those of the graph stay row-major */
    if (status == BP_OK) status = bp_ir_replace(ir, &call, prepared, nodes, group->n);
    if (status == BP_OK) return BP_OK;
    if (prepared) bp_prepared_release(prepared);
    free(call.name);
    free(call.in);
    return status;
}

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
    status = group_compile(ir, group, nodes);
    r->compiled = status == BP_OK;
    if (r->compiled) {
        const struct bp_engine_code *code =
            bp_engine_code_of(ir->node[ir->n_node - 1].prepared);
        r->text = code->note ? strdup(code->note) : NULL;
        c->changes += group->n;
        return BP_OK;
    }
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
    if (nodes) nodes_reorder(c->ir, claimed);
    for (uint32_t g = 0; g < claimed->n_list && status == BP_OK; g++)
        status = group_try(c, &claimed->list[g], nodes + claimed->list[g].first);
    free(nodes);
    return status;
}

/* Claims and compiles. A failure of an engine's claim is reported, and ends nothing. */
static enum bp_status engine_apply(struct bp_compilation *c, struct bp_plugin_entry *entry)
{
    struct bp_ir *ir = c->ir;
    struct bp_graph_copy *graph;
    struct bp_claimed claimed;
    enum bp_status status;

    TRY(bp_graph_copy_create(ir, NULL, 0, &graph));
    status = bp_claimed_create(ir, graph, &entry, 1, &claimed);
    if (status) {
        ir->engines->failure = strdup(bp_error_message());
        bp_core_log(ir->device->core, BP_LOG_WARN, "%s: no node is given to an engine: %s",
                    ir->device->name, bp_error_message());
        bp_graph_copy_destroy(graph);
        return BP_OK;
    }
    status = report_fill(ir, &claimed, ir->engines);
    if (status == BP_OK) status = groups_compile(c, &claimed);
    bp_claimed_finish(&claimed);
    bp_graph_copy_destroy(graph);
    return status;
}

/* Engines see a graph once: the second time they might claim what they failed to compile. */
enum bp_status bp_pass_engine(struct bp_compilation *c)
{
    struct bp_plugin_entry *entry = c->ir->device->entry;

    if (!entry->engines.claim || c->ir->engines || !c->ir->living) return BP_OK;
    c->ir->engines = calloc(1, sizeof *c->ir->engines);
    if (!c->ir->engines) return engine_no_memory();
    return engine_apply(c, entry);
}
