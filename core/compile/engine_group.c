/* SPDX-License-Identifier: Apache-2.0 */
/* engine_group.c: lets an engine compile a group of nodes, and replaces the nodes by one node that
 * runs the group. */
#include "engine.h"
#include "layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status group_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

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
        return group_no_memory();
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

/* The engine's note, and the bytes that the engine keeps of tensors. NULL: there is neither. */
static char *group_text(const struct bp_ir *ir, const struct bp_node *call,
                        const struct bp_engine_code *code)
{
    const char *note = code->note ? code->note : "";
    uint64_t bytes = 0;
    uint32_t n = 0;
    char *text;

    for (uint32_t i = 0; code->keeps && i < call->n_in; i++) {
        const struct bp_view *v = &ir->value[call->in[i]].type->view;
        if (!code->keeps[i]) continue;
        n++;
        bytes += (uint64_t)v->count * bp_dtype_bits(v->dtype) / 8;
    }
    if (!n) return code->note ? strdup(note) : NULL;
    text = malloc(strlen(note) + 80);
    if (text)
        sprintf(text, "%s%skeeps %llu bytes of %u tensors between runs", note, *note ? "; " : "",
                (unsigned long long)bytes, n);
    return text;
}

/* Fills the report of a group, apart from what is known before it is compiled. */
static enum bp_status group_report(const struct bp_ir *ir, const struct bp_node *call,
                                   const struct bp_prepared *prepared, const uint32_t *nodes,
                                   uint32_t n, struct bp_engine_group *to)
{
    const struct bp_engine_code *code = bp_engine_code_of(prepared);
    struct bp_engine_group made = {.text = group_text(ir, call, code),
                                   .replaced = malloc(n * sizeof *nodes),
                                   .in = malloc((call->n_in + 1u) * sizeof *call->in)};

    if (!made.replaced || !made.in || ((code->note || code->keeps) && !made.text)) {
        free(made.text);
        free(made.replaced);
        free(made.in);
        return group_no_memory();
    }
    memcpy(made.replaced, nodes, n * sizeof *nodes);
    memcpy(made.in, call->in, call->n_in * sizeof *call->in);
    to->text = made.text;
    to->replaced = made.replaced;
    to->in = made.in;
    to->node = ir->n_node;
    return BP_OK;
}

/* Takes over the graph. A group whose constants are the same is used itself. */
static enum bp_status group_compile(const struct bp_ir *ir, struct bp_plugin_entry *entry,
                                    struct bp_graph_copy *graph,
                                    const struct bp_engine_blob *blob,
                                    struct bp_prepared **out_prepared, uint32_t *out_origin)
{
    struct bp_prepared *donor = bp_engine_donor_find(ir, entry, graph);
    bool same = donor && !bp_engine_changed(bp_engine_code_of(donor), graph, NULL);

    if (same && bp_engine_code_of(donor)->keeps) { /* the values are those of another program */
        same = false;
        donor = NULL;
    }
    if (!same)
        return bp_engine_compile_group(ir, entry, graph, blob, donor, out_prepared, out_origin);
    bp_graph_copy_destroy(graph);
    bp_prepared_retain(donor);
    *out_prepared = donor;
    *out_origin = BP_GROUP_SHARED;
    return BP_OK;
}

enum bp_status bp_engine_make_group(struct bp_ir *ir, struct bp_plugin_entry *entry,
                                    const uint32_t *nodes, uint32_t n,
                                    const struct bp_engine_blob *blob, struct bp_engine_group *to)
{
    struct bp_graph_copy *graph;
    struct bp_prepared *prepared = NULL;
    struct bp_node call = {0};
    enum bp_status status;

    TRY(bp_graph_copy_create(ir, nodes, n, &graph));
    status = check_borders(graph);
    if (status == BP_OK) status = group_call(ir, graph, nodes[n - 1], &call);
    if (status) {
        bp_graph_copy_destroy(graph);
        return status;
    }
    status = group_compile(ir, entry, graph, blob, &prepared, &to->origin);
    if (status == BP_OK && wants_layouts(bp_engine_code_of(prepared)))
        status = bp_layouts_keep_outputs(ir); /* those of the graph stay row-major */
    if (status == BP_OK) status = group_report(ir, &call, prepared, nodes, n, to);
    if (status == BP_OK) status = bp_ir_replace(ir, &call, prepared, nodes, n);
    to->compiled = status == BP_OK;
    if (status == BP_OK) return BP_OK;
    if (prepared) bp_prepared_release(prepared);
    free(call.name);
    free(call.in);
    return status;
}
